"""Quantized models part by a step where a number lies in the middle; what is a step away elsewhere differs."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import opshift
from opshift.verification.judgement import BITS, STEP
from opshift.verification.places import steps
from opshift.verification.places.quantized import Place, Station, places, stations
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


@pytest.mark.parametrize(
    ("shift", "status"), [(0.0, "equal"), (1e-6, "equal"), (0.001, "different"), (0.2, "different")]
)
def test_what_lies_in_the_middle_may_be_a_step_away(shift, status):
    """Half of the sums lie in the middle, where an addend that is nothing beside their rounding decides them."""
    source, result = pair(SHIFTED.format(shift))
    values = {"x": np.random.default_rng(0).integers(10, 14, (40, 8)).astype(np.uint8)}
    found = opshift.verify(source, result, grade="close", inputs=values)
    assert found.status == status, found.why
    assert opshift.verify(source, result, inputs=values).status == ("equal" if not shift else "different")
    assert bool(found.ties) == (shift == 1e-6)


def test_a_wrong_zero_point_or_scale_differs():
    for wrong in ({"zero": "o"}, {"scale": "s"}):
        source, result = pair("f = Add(d, d)", **wrong)
        assert opshift.verify(source, result, grade="close").status == "different"


def test_what_follows_is_judged_from_the_same_integers():
    source, result = pair(SHIFTED.format(1e-6))
    values = {"x": np.random.default_rng(0).integers(10, 14, (40, 8)).astype(np.uint8)}
    for node in result.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Abs"
    assert opshift.verify(source, result, grade="close", inputs=values).status == "different"
    onnx.checker.check_model(source)


CONV = """q = QuantizeLinear(x, sx, {z}) d = DequantizeLinear(q, sx, {z}) w = DequantizeLinear(v, sw, zw) b = DequantizeLinear(a, sb)
    c = Conv<pads = [1, 1, 1, 1]>(d, w, b) p = QuantizeLinear(c, sp, {z}) e = DequantizeLinear(p, sp, {z})
    k = AveragePool<kernel_shape = [2, 2]>(e) r = QuantizeLinear(k, sr, {z}) y = DequantizeLinear(r, sr, {z})"""
FUSED = """q = QuantizeLinear(x, sx, {z}) p = QLinearConv<pads = [1, 1, 1, 1]>(q, sx, {z}, v, sw, zw, sp, {z}, a)
    e = DequantizeLinear(p, sp, {z}) r = com.microsoft.QLinearAveragePool<kernel_shape = [2, 2]>(p, sp, {z}, sr, {z})
    y = DequantizeLinear(r, sr, {z})"""
"""What onnxruntime makes of it; of int8, it may make uint8."""


def convolution(body, zero, *, bias=0, scale=1.0):
    io = {"inputs": "float[1,4,16,16] x", "outputs": "float[1,4,15,15] y", "domains": '"com.microsoft" : 1'}
    held = model(body.replace("{z}", "z"), 17, **io)
    rng = np.random.default_rng(1)
    biases = rng.integers(-300, 300, 4) + np.array([0, bias, 0, 0])
    values = {"v": rng.integers(-60, 61, (4, 4, 3, 3)).astype(np.int8), "a": biases.astype(np.int32), "z": zero}
    scales = {"sx": 0.02, "sw": 0.005, "sb": np.float32(0.02) * np.float32(0.005), "sp": 0.04 * scale, "sr": 0.08}
    values |= {"zw": np.int8(0), **{name: np.float32(value) for name, value in scales.items()}}
    held.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(v), name) for name, v in values.items())
    return held


def under_other_names(source):
    """The same with quantized values that have other names, as where their type is another one."""
    for node in source.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"{name}/unsigned" if name in ("q", "p", "r") else name for name in names]
    return source


@pytest.mark.parametrize(
    ("changed", "status"), [({}, "equal"), ({"bias": 25}, "different"), ({"scale": 1.002}, "different")]
)
@pytest.mark.parametrize("form", [CONV, FUSED], ids=["written", "fused"])
@pytest.mark.parametrize("zero", [np.uint8(120), np.int8(-8)])
def test_the_bias_of_a_channel_is_told_from_rounding(zero, form, changed, status):
    """25 is a sixteenth of a step of one channel, so that it moves one in 64 elements."""
    source, result = convolution(CONV, zero), convolution(form, zero, **changed)
    found = opshift.verify(source, result, grade="close")
    assert found.status == status, found.why
    if zero == -8:  # what is named otherwise is the same from what it is made to floats on
        result = under_other_names(convolution(form, np.uint8(120), **changed))
        found = opshift.verify(source, result, grade="close")
        assert found.status == status, found.why


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
    assert stations(of(body), of(body)) == [Station(name, name) for name in sorted(made)]


RENAMED = BOTH.replace("(f, t, z)", "(f, t, o)").replace("q = ", "u = ").replace("(q, t, z)", "(u, t, o)")


def test_what_is_quantized_with_another_zero_point_under_another_name():
    (r, q) = sorted(stations(of(BOTH), of(RENAMED)), key=lambda station: station.before, reverse=True)
    assert (r.before, r.kind, q.before, q.after, q.shift) == ("r", None, "q", "u", 1)
    assert q.of_second(np.uint8([0, 254, 255])).tolist() == [1, 255, 255]
    assert q.of_first(np.uint8([1, 255, 0]), np.uint8).tolist() == [0, 254, 255]
    assert r.of_second("as it is") == r.of_first("as it is", None) == "as it is"
    nameless = RENAMED.replace("a = Deq", "b = Deq").replace("Relu(a)", "Relu(b)")
    assert [station.before for station in stations(of(BOTH), of(nameless))] == ["r"], (
        "nothing tells that it is the same"
    )
    unknown = {"inputs": "float[4] x, uint8 o", "constants": "float s = {0.25}, float t = {1.0}, uint8 z = {10}"}
    assert [station.before for station in stations(of(BOTH), of(RENAMED, **unknown))] == ["r"]


def test_where_numbers_lie():
    held = "float[2] s = {0.5, 2}, uint8[2] z = {10, 0}, float t = {0.25}, uint8 o = {3}"
    source = of(
        "v = Mul(x, x) q = QuantizeLinear<axis = -1>(v, s, z) r = QuantizeLinear(x, t, o) y = Relu(x)", constants=held
    )
    x, own = (
        np.float32([[1.5, 3], [8, 30]]),
        {"q": np.uint8([[0]]), "r": np.uint8([[0]]), "v": np.float32([[2.25, 9], [64, 900.001]])},
    )
    found = places(Side(source), {"q": "q", "r": "r"}, {"x": x}, own)
    assert found["q"].at.tolist() == [[4.5, 4.5], [128, 450]]
    assert found["q"].within.tolist() == [[4.5, 4.5], [128, 255]]
    assert found["q"].lacking().tolist() == [[0, 0], [0.5, 0.5]]
    assert found["r"].within.tolist() == [[6, 12], [32, 120]]
    at_all = 8 * 2.0**-24 * 900
    apart = 4 * (float(np.float32(900.001)) - 900) / 2
    np.testing.assert_allclose(found["q"].moved, [[apart + at_all * 2, apart + at_all / 2]] * 2)
    own["v"][1, 1] = 901  # half a step: what other elements have is not so far away
    found = places(Side(source), {"q": "q"}, {"x": x}, own)
    np.testing.assert_allclose(found["q"].moved, [[at_all * 2, at_all / 2], [at_all * 2, 2 + at_all / 2]])
    assert places(Side(of(BOTH)), {}, {}, {}) == {}
    lacking = of("v = RandomNormalLike(x) q = QuantizeLinear(v, t, o) y = Relu(x)", constants=held)
    assert places(Side(lacking), {"q": "q"}, {"x": x}, own) == {}
    blocked = model(
        "q = QuantizeLinear<block_size = 2>(x, s, z) y = Relu(x)", 21, inputs="float[2,2] x", outputs="float[2,2] y",
        constants="float[2,1] s = {0.5, 2}, uint8[2,1] z = {10, 0}",
    )  # fmt: skip
    assert places(Side(blocked), {"q": "q"}, {"x": x}, own) == {}


@pytest.mark.parametrize("scale", [0.25, 0.3])
def test_the_whole_part_of_the_reciprocal_is_what_multiplies(scale):
    source = of("q = QuantizeLinear(x, s, z) y = Relu(x)", constants=f"float s = {{{scale}}}, uint8 z = {{0}}")
    found = places(Side(source), {"q": "q"}, {"x": np.float32([6])}, {"q": np.uint8([0])})["q"]
    step = float(np.float32(scale))
    np.testing.assert_allclose(found.coarsely, [6 / step - 6 * int(1 / step) + 0.01])


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("u1", True), ("i1", True), ("i2", False), ("i4", False), ("f4", False), ("?", False)]
)
def test_integers_of_one_byte(dtype, narrow):
    assert steps._is_narrow(np.zeros(2, dtype)) is narrow


def place(at, moved=0.0, coarsely=0.0):
    return Place(np.asarray(at), np.asarray(at), moved, coarsely)


HALVES = np.full(40, 2.5)


@pytest.mark.parametrize(
    ("moved", "by", "known", "coarse", "count"),
    [
        (0, 0, [], False, 0),
        (1, 1, [], False, None),
        (40, 1, [place(HALVES)], False, 40),
        (40, -1, [place(-HALVES)], False, 40),
        (1, 1, [place(HALVES + 0.01)], False, None),
        (1, 1, [place(HALVES + 0.01, 0.011)], False, 1),
        (1, 1, [place(HALVES - 0.01, 0.011)], False, 1),
        (1, 1, [place(HALVES + 0.01, 0, 0.011)], False, None),
        (1, 1, [place(HALVES + 0.01, 0, 0.011)], True, 1),
        (1, 1, [place(HALVES), place(HALVES + 0.01, 0.02)], False, 1),
        (1, 1, [place(HALVES, 1), place(HALVES + 0.01)], False, None),
        (0, 0, [place(HALVES, 0.01), place(HALVES + 0.03, 0.01)], False, None),
        (1, 1, [place(np.where(np.arange(40) < 1, 2.5, 2))], False, 1),
        (1, 2, [place(HALVES)], False, None),
        (1, 2, [place(HALVES, 1, 1)], True, None),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_how_many_may_be_a_step_away(dtype, moved, by, known, coarse, count):
    one = np.full(40, 100, dtype)
    other = one.copy()
    other[:moved] = 100 + by
    assert steps._apart(one, other, known, coarse=coarse) == count


def test_shapes_types_and_ends():
    one, other = np.zeros(3, np.uint8), np.array([1, 1, 0], np.uint8)
    half = [place(0.5)]
    assert steps._apart(one, other, half, coarse=False) == 2
    assert steps._apart(one[:0], one[:0], half, coarse=False) == 0
    assert steps._apart(one, other[:2], half, coarse=False) is None
    assert steps._apart(one, other.astype(np.int8), half, coarse=False) is None
    assert steps._apart(np.array([127], np.int8), np.array([-128], np.int8), half, coarse=True) is None, "far away"


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
