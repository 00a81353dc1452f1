"""Quantized models part by a step where a number lies in the middle; what is a step away elsewhere differs."""

import numpy as np
import onnx
import pytest

import opshift
from tests.support import model

SCALES = "float s = {0.25}, float t = {1.0}, uint8 z = {10}, uint8 o = {11}"
LAYER = "h = MatMul(a, w) y = Relu(h)"


def pair(adds, *, zero="z", scale="t"):
    """x + x in steps of half of the result's, so that half of the sums lie in the middle, and a layer behind it."""
    io = {"inputs": "uint8[40,8] x, float[8,4] w", "outputs": "float[40,4] y", "domains": '"com.microsoft" : 1'}
    plain = (
        f"d = DequantizeLinear(x, s, z) f = Add(d, d) q = QuantizeLinear(f, t, z) a = DequantizeLinear(q, t, z) {LAYER}"
    )
    other = f"q = com.microsoft.QLinearAdd(x, s, z, x, s, z, {scale}, {zero}) a = DequantizeLinear(q, t, z) {LAYER}"
    plain = plain.replace("f = Add(d, d)", adds)
    return (model(body, 17, constants=SCALES, **io) for body in (plain, other))


SHIFTED = "g = Add(d, d) e = Constant<value_float = {}>() f = Add(g, e)"


@pytest.mark.parametrize(("shift", "status"), [(0.0, "equal"), (0.001, "equal"), (0.2, "different")])
def test_what_lies_in_the_middle_may_be_a_step_away(shift, status):
    source, result = pair(SHIFTED.format(shift))
    values = {"x": np.random.default_rng(0).integers(0, 100, (40, 8)).astype(np.uint8)}
    found = opshift.verify(source, result, grade="close", inputs=values)
    assert found.status == status, found.why
    assert opshift.verify(source, result, inputs=values).status == ("equal" if not shift else "different")
    assert bool(found.ties) == (shift == 0.001)


def test_a_wrong_zero_point_or_scale_differs():
    for wrong in ({"zero": "o"}, {"scale": "s"}):
        source, result = pair("f = Add(d, d)", **wrong)
        assert opshift.verify(source, result, grade="close").status == "different"


def test_what_follows_is_judged_from_the_same_integers():
    source, result = pair(SHIFTED.format(0.001))
    values = {"x": np.random.default_rng(0).integers(0, 100, (40, 8)).astype(np.uint8)}
    for node in result.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Abs"
    assert opshift.verify(source, result, grade="close", inputs=values).status == "different"
    onnx.checker.check_model(source)
