"""In which floats a model is stored, and in which it computes."""

import pytest
from onnx import TensorProto as T

from opshift.verification.precision import narrowest
from tests.support import model


@pytest.mark.parametrize(
    ("body", "constants", "stored", "computed"),
    [
        ("y = Exp(x)", "", T.FLOAT, T.FLOAT),
        ("h = Cast<to=10>(x) e = Exp(h) y = Cast<to=1>(e)", "", T.FLOAT, T.FLOAT16),
        ("h = Cast<to=10>(x) y = Cast<to=1>(h)", "", T.FLOAT, T.FLOAT),
        ("h = Cast<to=16>(x) e = Exp(h) y = Cast<to=1>(e)", "", T.FLOAT, T.BFLOAT16),
        ("h = Cast<to=1>(w) y = Mul(x, h)", "float16 w = {2}", T.FLOAT16, T.FLOAT16),
        ("c = Constant<value = float16 {2}>() h = Cast<to=1>(c) y = Mul(x, h)", "", T.FLOAT16, T.FLOAT16),
        ("d = Cast<to=11>(x) e = Exp(d) y = Cast<to=1>(e)", "", T.FLOAT, T.FLOAT),
    ],
)
def test_the_narrowest(body, constants, stored, computed):
    of = model(body, 17, inputs="float[N] x", outputs="float[N] y", constants=constants)
    assert narrowest(of, computed=False) == stored
    assert narrowest(of, computed=True) == computed
    assert narrowest(model("y = Exp(x)", 17, inputs="double[N] x", outputs="double[N] y"), computed=True) == T.DOUBLE
