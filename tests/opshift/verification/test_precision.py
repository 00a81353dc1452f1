"""Which models compute in float16, so that onnxruntime is made to round to it."""

import pytest

from opshift.verification.precision import as_written
from tests.support import model


@pytest.mark.parametrize(
    ("body", "constants", "is_float16"),
    [
        ("y = Exp(x)", "", False),
        ("h = Cast<to=10>(x) e = Exp(h) y = Cast<to=1>(e)", "", True),
        ("h = Cast<to=10>(x) y = Cast<to=1>(h)", "", False),
        ("h = Cast<to=16>(x) e = Exp(h) y = Cast<to=1>(e)", "", False),
        ("h = Cast<to=1>(w) y = Mul(x, h)", "float16 w = {2}", True),
        ("c = Constant<value = float16 {2}>() h = Cast<to=1>(c) y = Mul(x, h)", "", True),
        ("d = Cast<to=11>(x) e = Exp(d) y = Cast<to=1>(e)", "", False),
    ],
)
def test_models_that_compute_in_float16_are_rounded(body, constants, is_float16):
    of = model(body, 17, inputs="float[N] x", outputs="float[N] y", constants=constants)
    assert (as_written(of) is not of) is is_float16
