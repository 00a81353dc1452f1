"""Logic for a backend that has none."""

import numpy as np
import pytest

from tests.passes.operators.on_request import TRUTHS, computed, same_bits


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize(("op", "of"), [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)])
def test_logic_of_two(op, of, opset):
    a, b = TRUTHS[0][:, None], TRUTHS[1][None]
    same_bits(computed(f"{op}(x, y)", a, b, opset=opset), of(a, b))


def test_not():
    same_bits(computed("Not(x)", TRUTHS[1]), ~TRUTHS[1])
