"""Each layer of OpenVINO IR against OpenVINO itself: the network that it writes runs as the ONNX model made of it."""

import math
import re
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import pytest
from opshift.passes.errors import Refused
from opshift.passes.openvino import (
    reader,
    translate,  # noqa: F401 (with all that registers what it maps)
)
from opshift.passes.openvino.idle import IDLE
from opshift.passes.openvino.layer import MAPPINGS

from opshift.verification.bounds import compare
from opshift.verification.engines import OnnxRuntime

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from openvino import opset15  # noqa: E402

from tests import pairs  # noqa: E402
from tests.passes.openvino import computing, moving  # noqa: E402, F401
from tests.passes.openvino.computing import IMAGE, SMALL  # noqa: E402
from tests.passes.openvino.networks import AS_WRITTEN, CASES, CORE, C, X, drawn, ints, made, network, of_any_size  # noqa: E402

TOGETHER = 20
NAMES = pairs.some(list(CASES), 2)


@cache
def computed(names):
    """What OpenVINO computes of some of the cases, in one network: it compiles few layers no faster than many."""
    inputs = [[op.parameter(list(value.shape), value.dtype) for value in CASES[name][1]] for name in names]
    ends = [op.result(CASES[name][0](*held)) for name, held in zip(names, inputs, strict=True)]
    made = CORE.compile_model(openvino.Model(ends, list(chain(*inputs)), "nets"), "CPU", AS_WRITTEN)
    found = made(list(chain.from_iterable(CASES[name][1] for name in names)))
    return {name: np.array(found[index]) for index, name in enumerate(names)}


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_computes_what_openvino_computes(name, tmp_path):
    build, feeds = CASES[name]
    path = network(build, feeds, tmp_path)
    names = tuple(NAMES)
    part = names.index(name) // TOGETHER * TOGETHER
    expected = computed(names[part : part + TOGETHER])[name]
    model = reader.read(path).model
    given = dict(zip((value.name for value in model.graph.input), feeds, strict=True))
    (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run(given)
    assert not compare(expected, actual, "close").why


SIZED = {
    "DepthToSpace of 3 axes": (lambda x: op.depth_to_space(x, "depth_first", 2), drawn(1, 8, 3)),
    "DepthToSpace of 5 axes": (lambda x: op.depth_to_space(x, "blocks_first", 2), drawn(1, 8, 1, 2, 3)),
    "SpaceToDepth of 5 axes": (lambda x: op.space_to_depth(x, "blocks_first", 2), drawn(1, 2, 2, 4, 2)),
    "SpaceToDepth of 3 axes": (lambda x: op.space_to_depth(x, "depth_first", 2), drawn(1, 2, 4)),
    "ShuffleChannels": (lambda x: op.shuffle_channels(x, -3, 3), drawn(1, 6, 2, 3)),
    "SpaceToBatch of rows in part of a block": (
        lambda x: op.space_to_batch(x, ints(1, 1, 3), ints(0, 0, 0), ints(0, 0, 1)),
        drawn(2, 3, 2),
    ),
    "SpaceToBatch of one block": (
        lambda x: op.space_to_batch(x, ints(1, 1, 3, 3), ints(0, 0, 1, 0), ints(0, 0, 3, 3)),
        drawn(2, 3, 2, 3),
    ),
    "SpaceToBatch": (
        lambda x: op.space_to_batch(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 1, 0, 0)),
        drawn(2, 4, 6, 3),
    ),
    "BatchToSpace": (
        lambda x: op.batch_to_space(x, ints(1, 2, 3, 1), ints(0, 1, 0, 0), ints(0, 0, 1, 0)),
        drawn(12, 3, 2, 3),
    ),
    "Roll": (lambda x: op.roll(x, ints(1, -7, 1), ints(0, 2, -1)), drawn(3, 4, 5)),
    "Slice backwards to the largest number": (
        lambda x: op.slice(x, ints(2), ints(2**63 - 1), ints(-1), ints(0)),
        drawn(4),
    ),
    "StridedSlice backwards to the largest number": (
        lambda x: op.strided_slice(x, ints(2), ints(2**31 - 1), ints(-1), [0], [0]),
        drawn(4),
    ),
    "Convolution same with gaps": (
        lambda x: op.convolution(x, C(drawn(2, 4, 2, 2)), [1, 3], [0, 0], [0, 0], [3, 1], "same_lower"),
        IMAGE,
    ),
    "ConvolutionBackpropData same": (
        lambda x: op.convolution_backprop_data(
            x, C(drawn(4, 3, 3, 3)), [2, 2], None, [1, 0], [0, 1], [1, 1], "same_upper"
        ),
        SMALL,
    ),
    "AvgPool ceil, padding that counts": (
        lambda x: op.avg_pool(x, [3, 2], [0, 1], [1, 0], [3, 2], False, "ceil"),
        IMAGE,
    ),
    "AvgPool ceil_torch, padding that counts": (
        lambda x: opset15.avg_pool(x, [2, 3], [1, 0], [0, 0], [3, 3], False, "ceil_torch"),
        IMAGE,
    ),
    "AvgPool ceil, no padding that could count": (
        lambda x: op.avg_pool(x, [2, 3], [0, 0], [0, 0], [2, 3], False, "ceil"),
        IMAGE,
    ),
    "AvgPool ceil, padding behind the data": (
        lambda x: op.avg_pool(x, [3, 3], [1, 1], [1, 2], [2, 3], False, "ceil"),
        IMAGE,
    ),
    "AvgPool ceil_torch": (lambda x: opset15.avg_pool(x, [2, 2], [0, 0], [1, 1], [3, 3], True, "ceil_torch"), IMAGE),
    "AdaptiveAvgPool": (lambda x: op.adaptive_avg_pool(x, ints(4, 3)), IMAGE),
    "AdaptiveMaxPool": (lambda x: op.adaptive_max_pool(x, ints(2, 5), "i32").output(0), IMAGE),
    "places of MaxPool from an axis": (
        lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit", "i64", 2).output(1),
        IMAGE,
    ),
    "GRN": (lambda x: op.grn(x, 0.5), X),
    "ScatterNDUpdate sub": (
        lambda x: opset15.scatter_nd_update(x, C(np.array([[1], [2], [1]])), C(drawn(3)), reduction="sub"),
        drawn(4),
    ),
    "OneHot of a scalar": (
        lambda x: op.one_hot(x, C(np.array(4)), C(np.float32(2)), C(np.float32(-1)), -1),
        np.array(2, np.int32),
    ),
    "sum of all": (lambda x: op.reduce_sum(x, ints(0, 1), False), drawn(2, 3)),
    "L1 of all": (lambda x: op.reduce_l1(x, ints(0, 1), False), drawn(2, 3)),
    "scalar": (lambda x: op.add(x, C(np.float32(1))), np.float32(2)),
}


@pytest.mark.parametrize("name", pairs.some(list(SIZED), 2))
def test_sizes_may_be_known_or_not(name, tmp_path):
    build, feed = SIZED[name]
    path = network(build, [np.asarray(feed)], tmp_path)
    expected = CORE.compile_model(path, "CPU", AS_WRITTEN)([np.asarray(feed)])[0]
    for source in (path, of_any_size(path)):
        model = reader.read(source).model
        onnx.checker.check_model(model, full_check=True)
        (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run({model.graph.input[0].name: np.asarray(feed)})
        assert not compare(expected, actual, "close").why


def test_random_numbers_lie_between_the_bounds(tmp_path):
    path = network(
        lambda x: op.random_uniform(x, C(np.array(-2)), C(np.array(3)), "i64"), [np.array([40, 5])], tmp_path
    )
    read = reader.read(path)
    (made,) = OnnxRuntime(read.model).run({read.model.graph.input[0].name: np.array([40, 5])})
    assert made.shape == (40, 5)
    assert set(made.reshape(-1)) == {-2, -1, 0, 1, 2}
    assert [change.grade for change in read.changes] == ["close"]


FEW = np.float32([[-np.inf, np.nan], [-3, np.nan], [2, 0], [5, -0.5], [np.nan, -np.inf]])
SEGMENTS = {
    f"{kind} {fill} {count}": (kind, fill, count)
    for kind in ("float32", "float16", "int32")
    for fill in ("ZERO", "LOWEST")
    for count in (None, 3, 6)
}


@pytest.mark.newest
@pytest.mark.parametrize("name", pairs.some(list(SEGMENTS), 2))
def test_the_largest_of_segments(name, tmp_path):
    kind, fill, count = SEGMENTS[name]
    data = np.nan_to_num(FEW).clip(-9, 9).astype(kind) if kind == "int32" else FEW.astype(kind)
    more = [] if count is None else [C(np.array(count))]
    feeds = [data, np.array([0, 0, 2, 2, 4])]
    path = network(lambda x, s: made("opset16", "SegmentMax", [x, s, *more], fill_mode=fill), feeds, tmp_path)
    check_as_openvino(path, feeds)


@pytest.mark.newest
def test_the_inverse_of_erf(tmp_path):
    """Against the text near the ends, where OpenVINO is off by 0.5 %, and against it elsewhere."""
    feeds = [np.float32([-1, -0.75, -0.5, -0.0, 0.3, 0.9, 1, 1.5, np.nan])]
    path = network(lambda x: made("opset17", "ErfInv", [x]), feeds, tmp_path)
    check_as_openvino(path, feeds)
    found = reader.read(of_any_size(path))
    assert [change.grade for change in found.changes] == ["close"]
    far = np.float32([-0.99999, 1e-7, 0.9999999])
    (y,) = OnnxRuntime(found.model).run({found.model.graph.input[0].name: far})
    np.testing.assert_allclose(
        [math.erfc(-y[0]), math.erfc(y[2])], [1 + np.float64(far[0]), 1 - np.float64(far[2])], rtol=1e-4
    )
    np.testing.assert_allclose(math.erf(y[1]), far[1], rtol=1e-6)


def check_as_openvino(path, feeds):
    expected = CORE.compile_model(path, "CPU", AS_WRITTEN)(feeds)[0]
    for source in (path, of_any_size(path)):
        found = reader.read(source).model
        onnx.checker.check_model(found, full_check=True)
        (actual,) = OnnxRuntime(found).run(dict(zip((v.name for v in found.graph.input), feeds, strict=True)))
        assert not compare(expected, actual, "close").why


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("logarithms", [True, False])
def test_classes_are_drawn_as_probable_as_they_are(again, logarithms, tmp_path):
    shares = np.float32([[0.5, 0.25, 0.25, 0], [0, 0, 0, 8]])
    feed = np.resize(shares, (400, 4))
    with np.errstate(divide="ignore"):
        feed = np.log(feed) if logarithms else feed
    count = ints(2 if again else 1)
    attributes = {"with_replacement": again, "log_probs": logarithms, "global_seed": 1, "op_seed": 2}
    path = network(
        lambda x: made("opset13", "Multinomial", [x, count], convert_type="i32", **attributes), [feed], tmp_path
    )
    read = reader.read(path)
    (drawn_,) = OnnxRuntime(read.model).run({read.model.graph.input[0].name: feed})
    assert (drawn_.dtype, drawn_.shape) == (np.int32, (400, 2 if again else 1))
    assert set(drawn_[1::2].reshape(-1)) == {3}
    often = np.bincount(drawn_[::2].reshape(-1), minlength=4) / drawn_[::2].size
    assert np.allclose(often, shares[0], atol=0.2)
    assert [change.grade for change in read.changes] == ["close"]


def test_nothing_that_is_not_put_back_is_drawn_twice(tmp_path):
    feed = np.float32([[0.7, 0.2, 0.1]] * 50)
    attributes = {"with_replacement": False, "log_probs": False, "global_seed": 1, "op_seed": 2}
    path = network(
        lambda x: made("opset13", "Multinomial", [x, ints(3)], convert_type="i64", **attributes), [feed], tmp_path
    )
    found = reader.read(path).model
    (places,) = OnnxRuntime(found).run({found.graph.input[0].name: feed})
    np.testing.assert_array_equal(np.sort(places), [[0, 1, 2]] * 50)


REFUSED = {
    "its axis leaves a window behind the data": (lambda x: opset15.max_pool(x, [3, 3], [1, 1], [1, 1], [1, 1], [2, 2], "ceil"), "a window behind the data"),
    "a part of a block": (lambda x: op.space_to_batch(x, ints(1, 1, 10, 12), ints(0, 0, 1, 2), ints(0, 0, 0, 2)), "data and begin fill 10 of a block of 12"),
    "a mean behind the data": (lambda x: op.avg_pool(x, [3, 3], [1, 1], [1, 1], [2, 2], True, "ceil"), "a window behind the data"),
    "a window of padding": (lambda x: op.max_pool(x, [1, 1], [1, 1], [2, 0], [0, 0], [2, 2]), "a window lies in the padding alone"),
    "a mean of updates": (lambda x: op.scatter_elements_update(x, C(np.zeros((1, 4, 9, 8), np.int64)), C(drawn(1, 4, 9, 8)), C(np.array(0)), "mean"), "reduction=mean"),
    "simple rounding": (lambda x: op.interpolate(x, ints(3, 4), "nearest", "sizes", nearest_mode="simple", axes=ints(2, 3)), "nearest_mode=simple"),
    "antialias": (lambda x: op.interpolate(x, ints(3, 4), "linear", "sizes", antialias=True, axes=ints(2, 3)), "antialias"),
    "no axes of NormalizeL2": (lambda x: op.normalize_l2(x, C(np.array([], np.int64)), 1e-5, "add"), "no axes"),
    "no axes of ReduceL1": (lambda x: op.reduce_l1(x, C(np.array([], np.int64)), True), "no axes"),
    "windows of channels": (lambda x: op.lrn(x, ints(1, 2, 3), 0.5, 0.7, 2.0, 3), "axis 1, or axes behind it"),
    "is even": (lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 2), "is even"),
    "no axes": (lambda x: op.reduce_l2(x, C(np.array([], np.int64)), True), "no axes"),
    "no operator": (lambda x: made("opset14", "Inverse", [op.matmul(x, x, True, False)], adjoint=False), "the inverse of a matrix"),
    "larger patches": (lambda x: op.extract_image_patches(x, [9, 9], [1, 1], [1, 1], "valid"), "larger than the image"),
    "integers that ONNX does not convolve": (lambda x: op.convolution(op.convert(x, "i32"), C(np.ones((6, 4, 3, 3), np.int32)), [1, 1], [0, 0], [0, 0], [1, 1]), "no Conv of tensor(int32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_does_not_compute_is_refused(name, tmp_path):
    build, why = REFUSED[name]
    path = network(lambda x: build(x).output(0), [IMAGE], tmp_path)
    with pytest.raises(Refused) as caught:
        reader.read(path)
    assert why in str(caught.value)


def test_what_is_rounded_otherwise_is_close(tmp_path):
    assert [change.grade for change in reader.read(network(op.hswish, [X], tmp_path)).changes] == ["close"]
    assert not reader.read(network(op.relu, [X], tmp_path)).changes


BLOCKS = {
    "a block that sizes of the run time may not fill": (3, (0, 2), True),
    "a block that one element fills": (3, (2, 0), False),
    "no block": (1, (0, 0), False),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_data_may_leak_in_openvino_where_a_block_may_not_be_filled(name, tmp_path):
    block, pads, leaks = BLOCKS[name]
    begin, end = (ints(0, 0, pad, 0) for pad in pads)
    image = np.ones((1, 2, 4, 3), np.float32)
    path = network(lambda x: op.space_to_batch(x, ints(1, 1, block, 1), begin, end), [image], tmp_path)
    changes = reader.read(of_any_size(path)).changes
    assert [change.grade for change in changes] == ["close"] * leaks
    assert all("leaves other data" in change.remark for change in changes)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_mean", "reduce_l1", "reduce_l2"])
def test_axes_of_which_the_run_may_tell_none_are_close(name, tmp_path):
    reduced = getattr(op, name)
    path = network(lambda x, axes: reduced(x, axes, True), [drawn(2, 3), np.int64([1])], tmp_path)
    assert not reader.read(path).changes
    (change,) = reader.read(of_any_size(path)).changes
    assert (change.grade, "is dynamic" in change.remark) == ("close", True)
    path = network(lambda x: reduced(x, ints(1), True), [drawn(2, 3)], tmp_path)
    assert not reader.read(of_any_size(path)).changes


def test_what_changes_nothing_is_told_of_layers_that_are_read():
    assert IDLE.keys() <= MAPPINGS.keys()
    assert all(why for reasons in IDLE.values() for why in reasons.values())


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_may_make_a_scalar(flag, tmp_path):
    def body(reduced):
        inner = op.parameter([2, 3], np.float32)
        return openvino.Model([op.result(reduced(inner, ints(0, 1), False))], [inner], "body"), inner

    condition, x = op.parameter([], np.bool_), op.parameter([2, 3], np.float32)
    (most, first), (least, second) = body(op.reduce_max), body(op.reduce_min)
    chosen = op.if_op(condition.output(0))
    chosen.set_then_body(most), chosen.set_else_body(least)
    chosen.set_input(x.output(0), first, second)
    made = chosen.set_output(most.results[0], least.results[0])
    path = tmp_path / "net.xml"
    openvino.serialize(openvino.Model([op.result(made)], [condition, x], "net"), path)
    model, feed = reader.read(path).model, drawn(2, 3)
    onnx.checker.check_model(model, full_check=True)
    feeds = dict(zip((value.name for value in model.graph.input), (np.array(flag), feed), strict=True))
    assert OnnxRuntime(model).run(feeds)[0] == (feed.max() if flag else feed.min())


def test_the_page_lists_what_is_expressed():
    page = (Path(__file__).parents[3] / "docs" / "tasks" / "openvino.md").read_text(encoding="utf-8")
    listed = page.partition("not with every attribute:")[2].partition("opshift refuses other layers")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted({*MAPPINGS, "Const", "Parameter", "Result"}, key=str.lower)


def rounds(x, start, step, axis):
    """Sums so far of the parts of an axis, first to last or last to first, and the last one of them."""
    part, so_far = (
        op.parameter([2 if axis else 1, 1 if axis else 3], np.float32),
        op.parameter([2 if axis else 1, 1 if axis else 3], np.float32),
    )
    total = op.add(part, so_far)
    body = openvino.Model([op.result(total)], [part, so_far], "body")
    iterator = op.tensor_iterator()
    iterator.set_function(body)
    iterator.set_sliced_input(part, x.output(0), start, step, 1, -1 - start, axis)
    iterator.set_merged_input(
        so_far, C(np.zeros((2, 1) if axis else (1, 3), np.float32)).output(0), body.results[0].output(0)
    )
    return [
        iterator.get_iter_value(body.results[0].output(0), -1),
        iterator.get_concatenated_slices(body.results[0].output(0), start, step, 1, -1 - start, axis),
    ]


@pytest.mark.parametrize(("start", "step"), [(0, 1), (-1, -1)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("output", [0, 1])
def test_a_tensor_iterator_goes_forward_or_backward(start, step, axis, output, tmp_path):
    feed = drawn(2, 3)
    path = network(lambda x: op.relu(rounds(x, start, step, axis)[output]), [feed], tmp_path)
    expected = CORE.compile_model(path, "CPU", AS_WRITTEN)([feed])[0]
    model = reader.read(path).model
    assert "Loop" in {node.op_type for node in model.graph.node}
    (actual,) = OnnxRuntime(model, folder=str(tmp_path)).run({model.graph.input[0].name: feed})
    assert not compare(expected, actual, "close").why
