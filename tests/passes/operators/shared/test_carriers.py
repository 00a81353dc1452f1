"""Types in which others are computed."""

import pytest

from tests.support import check


@pytest.mark.newest
@pytest.mark.parametrize("op", ["Sin", "Elu<alpha=0.5>", "HardSigmoid", "Softplus", "Selu"])
def test_bfloat16_is_computed_in_float_below_22(op):
    check(
        f"y = {op}(x)", 22, f"t1 = Cast<to=1>(x)\nt2 = {op}(t1)\ny = Cast<to=16>(t2)", 21,
        inputs="bfloat16[3] x", outputs="bfloat16[3] y", grade="close", rtol=2**-7,
    )  # fmt: skip
