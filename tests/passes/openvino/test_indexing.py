"""Places that are looked for among sorted numbers, against OpenVINO; numbers without their repeats, against numpy."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15  # noqa: E402
from opshift.passes.openvino import reader  # noqa: E402

from opshift.verification.engines import OnnxRuntime  # noqa: E402
from tests.passes.openvino.networks import drawn, ints, made, network  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

BOUNDS = np.float32([-1, 0, 0, 2])


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_buckets(right, shape, tmp_path):
    x = np.resize(np.float32([-3, -1, -0.5, 0, 1, 2, 3]), shape)
    check(
        lambda x, y: made("opset3", "Bucketize", [x, y], output_type="i32", with_right_bound=right),
        [x, BOUNDS],
        tmp_path,
    )
    check(lambda x, y: opset15.search_sorted(y, x, not right, "i64"), [x.reshape(-1), BOUNDS], tmp_path)


def test_sequences_of_their_own(tmp_path):
    rows, values = np.sort(drawn(2, 3, 5)), drawn(2, 3, 4)
    check(lambda x, y: opset15.search_sorted(x, y, True, "i32"), [rows, values], tmp_path)


def test_buckets_of_numbers_of_another_type(tmp_path):
    def build(x, y):
        return made("opset3", "Bucketize", [x, y], output_type="i32", with_right_bound=True)

    assert "bounds of two types" in refusal(build, [np.array([1]), BOUNDS], tmp_path)


@pytest.mark.parametrize(
    ("size", "index", "found"), [(3, 2, True), (3, -3, True), (3, 3, False), (3, -4, False), (0, 0, False)]
)
def test_an_element_that_an_axis_lacks(size, index, found, tmp_path):
    def build(x):
        return opset15.strided_slice(x, ints(index), ints(index + 1), ints(1), [0], [0], [0], [1])

    if found:
        check(build, [drawn(size, 2)], tmp_path)
    else:
        assert f"index {index} is out of range for an axis of {size}" in refusal(build, [drawn(size, 2)], tmp_path)


@pytest.mark.parametrize("output", range(4))
@pytest.mark.parametrize("numbers", [[2, 1, 2, 2, 0], [1], []])
def test_numbers_without_their_repeats(output, numbers, tmp_path):
    held = {"index_element_type": "i32", "count_element_type": "i64", "sorted": True}
    x = np.float32(numbers)
    model = reader.read(network(lambda x: made("opset10", "Unique", [x], **held).output(output), [x], tmp_path)).model
    (actual,) = OnnxRuntime(model).run({model.graph.input[0].name: x})
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)[output]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("kind", "to"),
    [(np.float32, "f32"), (np.float16, "f16"), (np.float64, "f64"), (np.int32, "i32"), (np.int64, "i64")],
)
@pytest.mark.parametrize("shape", [(20, 30), (0, 2), (1,)])
def test_numbers_drawn_between_bounds(kind, to, shape, tmp_path):
    bounds = [np.array(n, kind) for n in (-2, 3)]
    held = {"output_type": to, "global_seed": 0, "op_seed": 3}
    feeds = [np.array(shape), *bounds]
    read = reader.read(network(lambda *inputs: made("opset8", "RandomUniform", inputs, **held), feeds, tmp_path))
    names = [value.name for value in read.model.graph.input]
    (found,) = OnnxRuntime(read.model).run(dict(zip(names, feeds, strict=True)))
    assert (found.dtype, found.shape) == (kind, shape)
    assert np.all((found >= -2) & (found <= (3 if to == "f16" else np.nextafter(np.float32(3), 0))))
    if found.size > 1:
        shares = np.histogram(found, bins=[-2, -1, 0, 1, 2, 3])[0] / found.size
        np.testing.assert_allclose(shares, [0.2] * 5, atol=0.1)
        assert len(np.unique(found)) == 5 or np.dtype(kind).kind == "f"
    assert [change.grade for change in read.changes] == ["close"]
