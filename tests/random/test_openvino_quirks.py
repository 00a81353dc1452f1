"""Each row is shown by OpenVINO, and nothing else is excused."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino.utils.node_factory import NodeFactory  # noqa: E402

from opshift.verification.adapters import literally  # noqa: E402
from tests import pairs  # noqa: E402
from tests.random.openvino_quirks import BOXES, QUIRKS, X, excuse, parameters  # noqa: E402

NAMED = "{0.types[0]} {0.when}".format


def network(row):
    node, feeds = row.evidence()
    return openvino.Model([openvino.opset13.result(node.outputs()[-1])], parameters(node), "net"), feeds


@pytest.mark.parametrize("row", pairs.some(QUIRKS, 2), ids=NAMED)
def test_openvino_gives_something_else_or_what_its_text_leaves_open(row):
    model, feeds = network(row)
    assert row.when in excuse(model, feeds)
    found = openvino.Core().compile_model(model, "CPU", literally())(feeds)[0]
    assert row.right is None or found.shape != row.right.shape or not np.allclose(found, row.right)


def strided(data, places, **masks):
    x = openvino.opset13.parameter([-1] * data.ndim, np.float32)
    ones = [openvino.opset13.constant(np.array(n)) for n in (places, np.add(places, 1), [1] * len(places))]
    held = {
        f"{name}_mask": masks.get(name, [0] * len(places))
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    return openvino.Model(
        [openvino.opset13.result(openvino.opset13.strided_slice(x, *ones, *held.values()))], [x], "net"
    )


@pytest.mark.parametrize(
    ("begin", "masks", "outside"),
    [
        ([1], {"shrink_axis": [1]}, False),
        ([-2], {"shrink_axis": [1]}, False),
        ([-3], {"shrink_axis": [1]}, True),
        ([2], {}, False),
        ([2], {"shrink_axis": [1], "begin": [1]}, False),
        ([0, 2], {"shrink_axis": [0, 1], "new_axis": [1, 0]}, True),
        ([0, 2], {"shrink_axis": [0, 1], "ellipsis": [1, 0]}, False),
        ([0, 3], {"shrink_axis": [0, 1], "ellipsis": [1, 0]}, True),
    ],
)
def test_elements_outside_of_their_axis(begin, masks, outside):
    data = np.ones((2, 3), np.float32)
    assert bool(excuse(strided(data, begin, **masks), [data])) is outside


@pytest.mark.parametrize(
    ("begin", "masks", "unwritten"),
    [
        ([0, 0], {"new_axis": [1, 0], "shrink_axis": [0, 1]}, True),
        ([0, 0], {"new_axis": [1, 0]}, False),
        ([0, 0, 0], {"new_axis": [1, 0, 0], "shrink_axis": [0, 1, 0]}, False),
        ([0, 0, 0], {"new_axis": [1, 0, 0], "shrink_axis": [0, 1, 0], "ellipsis": [0, 0, 1]}, False),
    ],
)
def test_elements_that_nobody_writes(begin, masks, unwritten):
    data = np.float32([[5, 6, 7], [8, 9, 4]])
    model = strided(data, begin, **masks)
    assert bool(excuse(model, [data])) is unwritten


@pytest.mark.parametrize(("sizes", "longer"), [([], False), ([2, 3], False), ([2, 4], True)])
def test_signals_that_are_longer_than_their_axis(sizes, longer):
    data = np.ones((2, 3), np.float32)
    x, axes = openvino.opset13.parameter([-1, -1], np.float32), openvino.opset13.constant(np.array([-2, -1]))
    made = openvino.opset13.rdft(x, axes, *([openvino.opset13.constant(np.array(sizes))] if sizes else []))
    assert bool(excuse(openvino.Model([openvino.opset13.result(made)], [x], "net"), [data])) is longer


@pytest.mark.parametrize(
    ("version", "scores", "fewer"), [(4, [2, 1], True), (1, [2, 1], True), (5, [2, 1], False), (4, [2, 0], False)]
)
def test_boxes_that_are_stated_and_not_selected(version, scores, fewer):
    """Of boxes that do not overlap, or do, for one of which there is no room either."""
    boxes = BOXES if scores[1] else BOXES + np.float32([[[0], [5]]])
    given = [openvino.opset13.parameter(list(shape), np.float32) for shape in ((1, 2, 4), (1, 1, 2))]
    held = [openvino.opset13.constant(np.array(value)) for value in (2, np.float32(0.5), np.float32(-1))]
    made = NodeFactory(f"opset{version}").create("NonMaxSuppression", [*given, *held], {})
    model = openvino.Model([openvino.opset13.result(made.output(0))], given, "net")
    assert bool(excuse(model, [boxes, np.float32([[scores]])])) is fewer


@pytest.mark.parametrize(("kind", "part", "off"), [("boolean", 1, True), ("boolean", 0, False), ("i32", 1, False)])
def test_truths_of_parts(kind, part, off):
    x = openvino.opset13.parameter([2], np.float32)
    made = openvino.opset13.convert(openvino.opset13.split(x, openvino.opset13.constant(0), 2).output(part), kind)
    assert bool(excuse(openvino.Model([openvino.opset13.result(made)], [x], "net"), [np.ones(2, np.float32)])) is off


@pytest.mark.parametrize(("row", "left"), [(-1, True), (0, False), (None, False)])
def test_rows_of_empty_segments(row, left):
    x = openvino.opset13.parameter([-1, -1], np.float32)
    held = [openvino.opset13.constant(np.array(value)) for value in ([1], [1], 2)]
    more = [] if row is None else [openvino.opset13.constant(np.array(row))]
    made = NodeFactory("opset3").create("EmbeddingSegmentsSum", [x, *held, *more], {})
    assert bool(excuse(openvino.Model([openvino.opset13.result(made)], [x], "net"), [X])) is left


@pytest.mark.parametrize(
    ("kind", "shape", "axis", "nothing"),
    [
        ("IDFT", (0, 2), -1, True),
        ("DFT", (0, 2), 0, True),
        ("DFT", (0, 3, 2), -1, False),
        ("DFT", (3, 0, 2), -1, True),
        ("RDFT", (0, 2), -1, False),
        ("RDFT", (2, 0), -1, True),
    ],
)
def test_signals_of_nothing(kind, shape, axis, nothing):
    x = openvino.opset13.parameter([-1] * (len(shape) - 1) + [shape[-1] or -1], np.float32)
    made = NodeFactory("opset9").create(kind, [x, openvino.opset13.constant(np.array([axis]))], {})
    model = openvino.Model([openvino.opset13.result(made)], [x], "net")
    assert bool(excuse(model, [np.zeros(shape, np.float32)])) is nothing


@pytest.mark.parametrize(("number", "near"), [(0.5, False), (-0.995, False), (0.997, True), (-0.9999, True)])
def test_ends_of_the_inverse_of_erf(number, near):
    x = openvino.opset13.parameter([-1], np.float32)
    made = NodeFactory("opset17").create("ErfInv", [x], {})
    assert bool(excuse(openvino.Model([openvino.opset13.result(made)], [x], "net"), [np.float32([number])])) is near


def test_no_other_layer_is_excused():
    x = openvino.opset13.parameter([-1, -1], np.float32)
    axes, pads = openvino.opset13.constant(np.array([0])), openvino.opset13.constant(np.array([0, -1]))
    layers = (
        openvino.opset13.relu(x),
        openvino.opset13.reshape(x, openvino.opset13.constant(np.array([0, -1])), True),
        openvino.opset13.reduce_l1(x, axes, True),
        openvino.opset13.pad(x, pads, pads, "constant"),
    )
    for made in layers:
        assert not excuse(openvino.Model([openvino.opset13.result(made)], [x], "net"), [X])
