"""Quantized models part by a step where a number lies in the middle; what is a step away elsewhere differs."""

import numpy as np
import onnx
import pytest

import opshift
from opshift.verification.judgement import BITS, STEP
from opshift.verification.places import steps
from opshift.verification.side import Side
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


# --- step by step -------------------------------------------------------------------------------------------

BOTH = "f = Add(x, x) q = QuantizeLinear(f, t, z) a = DequantizeLinear(q, t, z) r = QuantizeLinear(x, s, z) y = Relu(a)"


def of(body, **io):
    held = {"inputs": "float[4] x", "outputs": "float[4] y", "constants": SCALES, "domains": '"com.microsoft" : 1'}
    return model(body, 17, **{**held, **io})


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (BOTH, {"q", "r"}),
        ("q = com.microsoft.QLinearAdd(x, s, z, x, s, z, t, z) y = Relu(x)", {"q"}),
        ("q = com.microsoft.QGemm(x, s, z, x, s, z) y = Relu(x)", {"q"}),
        ("q = DynamicQuantizeLinear(x) y = Relu(x)", set()),
    ],
)
def test_what_quantizes(body, made):
    assert steps._quantized(of(body)) == made


def test_what_is_divided():
    assert steps._dividends(of(BOTH), ["q", "r"]) == ["f"], "what nodes make"
    assert steps._dividends(of(BOTH), ["r", "a"]) == []
    ratio = steps._ratio(of(BOTH), "q", {"f": np.float32([1, 2]), "x": np.float32([1, 3])})
    assert ratio.tolist() == [1, 2]
    assert steps._ratio(of(BOTH), "r", {"x": np.float32([1, 3])}).tolist() == [4, 12]
    assert steps._ratio(of(BOTH), "r", {}) is None
    assert steps._ratio(of(BOTH), "a", {"q": np.float32([1])}) is None
    several = of(BOTH, constants="float[2] s = {1, 2}, float t = {1}, uint8 z = {0}")
    assert steps._ratio(several, "r", {"x": np.float32([1, 3])}) is None
    unknown = of(BOTH, inputs="float[4] x, float s", constants="float t = {1}, uint8 z = {0}")
    assert steps._ratio(unknown, "r", {"x": np.float32([1, 3])}) is None


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("u1", True), ("i1", True), ("i2", False), ("i4", False), ("f4", False), ("?", False)]
)
def test_integers_of_one_byte(dtype, narrow):
    assert steps._is_narrow(np.zeros(2, dtype)) is narrow


HALVES = np.full(40, 2.5)


@pytest.mark.parametrize(
    ("moved", "by", "ratio", "loose", "count"),
    [
        (0, 0, None, False, 0),
        (2, 1, None, False, 2),
        (4, 1, None, False, 4),  # a tenth
        (5, 1, None, False, None),
        (5, 1, None, True, 5),
        (5, -1, HALVES, False, 5),
        (40, 1, HALVES + 0.009, False, 40),
        (40, 1, -HALVES - 0.009, False, 40),
        (5, 1, HALVES + 0.011, False, None),
        (1, 2, HALVES, False, None),
        (1, 2, HALVES, True, None),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_how_many_may_be_a_step_away(dtype, moved, by, ratio, loose, count):
    one = np.full(40, 100, dtype)
    other = one.copy()
    other[:moved] = 100 + by
    assert steps._apart(one, other, ratio, loose=loose) == count


def test_few_of_few():
    one, other = np.zeros(3, np.uint8), np.array([1, 1, 0], np.uint8)
    assert steps._apart(one, other, None, loose=False) == 2
    assert steps._apart(one, np.ones(3, np.uint8), None, loose=False) is None
    assert steps._apart(one[:0], one[:0], None, loose=False) == 0
    assert steps._apart(one, other[:2], None, loose=False) is None
    assert steps._apart(one, other.astype(np.int8), None, loose=False) is None
    assert steps._apart(np.array([127], np.int8), np.array([-128], np.int8), None, loose=True) is None, "far away"


def test_from_the_same_integers_on():
    one, other = (
        of(BOTH),
        of(BOTH.replace("Relu(a)", "Abs(a)").replace("Add(x, x)", "Mul(x, k)"), constants=f"{SCALES}, float k = {{2}}"),
    )
    x = np.float32([0.5, 1, -1, 2])
    found = steps.judge(Side(one), Side(one), {"x": x}, "close")
    assert [(output.output, output.judge, output.why) for output in found.outputs] == [("y", BITS, "")]
    assert found.ties == {}
    assert steps.judge(Side(one), Side(other), {"x": x}, "close") is None, "-1 becomes -2, not 0"
    assert steps.judge(Side(one), Side(other), {"x": abs(x)}, "close") is not None
    assert steps.judge(Side(one), Side(of("y = Relu(x)")), {"x": x}, "close") is None, "nothing is quantized there"
    quantized = of(BOTH, outputs="uint8[4] q")
    found = steps.judge(Side(quantized), Side(quantized), {"x": x}, "close")
    assert [(output.output, output.judge) for output in found.outputs] == [("q", STEP)]
