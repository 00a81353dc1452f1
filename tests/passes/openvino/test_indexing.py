"""Places that are looked for among sorted numbers, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15  # noqa: E402

from tests.passes.openvino.networks import drawn, ints, made  # noqa: E402
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

    assert "numbers of two types" in refusal(build, [np.array([1]), BOUNDS], tmp_path)


@pytest.mark.parametrize(
    ("size", "index", "found"), [(3, 2, True), (3, -3, True), (3, 3, False), (3, -4, False), (0, 0, False)]
)
def test_an_element_that_an_axis_lacks(size, index, found, tmp_path):
    def build(x):
        return opset15.strided_slice(x, ints(index), ints(index + 1), ints(1), [0], [0], [0], [1])

    if found:
        check(build, [drawn(size, 2)], tmp_path)
    else:
        assert f"element {index} of an axis of {size}" in refusal(build, [drawn(size, 2)], tmp_path)
