"""FusedMatMul: transposed operands of every rank, and a factor."""

import pytest

from tests.passes.operators.microsoft.harness import DOUBLE, FLOAT, calls, check, check_refused

FLAGS = [None, 1]
RAN = [((3, 3), (3, 3), 12), ((3, 3, 3), (3, 3, 3), 48), ((3, 2, 3), (1, 3, 3), 21), ((2, 2, 2, 2), (2, 2, 2, 2), 48), ((3,), (3, 3), 12), ((4, 3, 3), (3, 3), 12)]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "ran"), RAN)
def test_every_combination_of_transposed_operands(left, right, ran):
    flags = {f"trans{name}": FLAGS for name in ("A", "B", "BatchA", "BatchB")}
    made = calls("FusedMatMul", {"A": left, "B": right}, {**flags, "alpha": [None, 0.25, -1.0]}, types=[FLOAT])
    assert check(made) == ran


def test_what_onnxruntime_does_not_transpose_is_refused():
    made = calls("FusedMatMul", {"A": (3, 3), "B": (3,)}, {"transA": [None, 0, 1]}, types=[FLOAT])
    assert check(made[:2]) == 2
    check_refused(made[2:], "transA=1 and B is a vector")


def test_doubles_and_sizes_of_zero_and_one():
    for left, right in [((2, 0, 3), (2, 3, 4)), ((1, 1), (1, 1)), ((3, 0), (0, 2))]:
        assert check(calls("FusedMatMul", {"A": left, "B": right}, {"alpha": [0.3]}, types=[DOUBLE, FLOAT])) == 2
