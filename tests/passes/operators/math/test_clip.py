"""Clip: bounds from attributes to inputs and back, integers, and a minimum above the maximum."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.elements import CODE
from tests.support import check, check_unchanged, evaluate, model, show

X = {"inputs": "float[12] x", "outputs": "float[12] y"}


def of(kind):
    return {"inputs": f"{kind}[3] x", "outputs": f"{kind}[3] y"}


def bound(kind, low="-1.0", high="2.0"):
    return {
        "inputs": f"{kind}[12] x",
        "outputs": f"{kind}[12] y",
        "constants": f"{kind} l = {{{low}}}, {kind} h = {{{high}}}",
    }


def test_bounds_become_scalars_at_11():
    check("y = Clip<min=-1.0, max=2.0>(x)", 10, "y = Clip(x, -1.0, 2.0)", 11, **X)
    check("y = Clip<max=2.0>(x)", 6, "y = Clip(x, _, 2.0)", 11, run=False, **X)  # no engine is right below 7
    check("y = Clip<min=-1.0>(x)", 10, "y = Clip(x, -1.0)", 11, **X)
    check_unchanged("y = Clip(x)", 6, 28, **X)


@pytest.mark.parametrize(("kind", "limit"), [("double", "float64:3.4028234663852886e+38"), ("float16", "float16:inf")])
def test_absent_bounds_of_other_types_were_those_of_float(kind, limit):
    numpy_kind = limit.split(":")[0]
    made = check("y = Clip<max=2.5>(x)", 10, f"y = Clip(x, {numpy_kind}:{'-' + limit.split(':')[1]}, {numpy_kind}:2.5)", 11,
                 inputs=f"{kind}[12] x", outputs=f"{kind}[12] y", run=False)  # fmt: skip # onnxruntime has no such kernel
    (y,) = evaluate(made, {"x": np.array([-np.inf, 6e4, 0, np.nan] * 3, numpy_kind)})
    expected = [-float(limit.split(":")[1]) if kind == "double" else -np.inf, 2.5, 0, np.nan]
    np.testing.assert_array_equal(y, np.array(expected * 3, numpy_kind))


def test_bounds_that_float16_does_not_reach_are_infinite():
    check("y = Clip<min=-65519.0, max=65520.0>(x)", 10, "y = Clip(x, float16:-65504.0, float16:inf)", 11,
          inputs="float16[12] x", outputs="float16[12] y")  # fmt: skip


def test_constant_bounds_become_attributes_below_11():
    check("y = Clip(x, l, h)", 11, "y = Clip<max=2, min=-1>(x)", 10, **bound("float"))
    check("y = Clip(x, , h)", 11, "y = Clip<max=2>(x)", 10, **bound("float"))
    check("y = Clip(x, l)", 11, "y = Clip<min=-1>(x)", 10, **bound("float"))
    check("y = Clip(x, l, h)", 11, "y = Clip<max=2, min=-1>(x)", 10, run=False, **bound("double"))  # no kernel


def test_absent_bounds_of_float16_are_written_out_below_11():
    made = convert.attempt(model("y = Clip(x, l)", 11, **bound("float16", "15360", "0")), {"": 10}).model
    assert show(made) == "y = Clip<max=65504, min=1>(x)"  # 15360 are the bits of 1.0


@pytest.mark.parametrize(("low", "high"), [("0.1", "2.0"), ("0.0", "1e39")])
def test_bounds_that_no_float_holds_become_extremes_below_11(low, high):
    made = convert.attempt(model("y = Clip(x, l, h)", 12, **bound("double", low, high)), {"": 10}).model
    assert [n.op_type for n in made.graph.node] == ["Max", "Min"]
    (y,) = evaluate(made, {"x": np.array([np.inf, -np.inf, 0.3, np.nan] * 3)})
    np.testing.assert_array_equal(y, [float(high), float(low), 0.3, np.nan] * 3)


def test_an_absent_bound_of_double_is_its_limit():
    made = convert.attempt(model("y = Clip(x, l)", 12, **bound("double", "0.5")), {"": 10}).model
    assert [n.op_type for n in made.graph.node] == ["Max", "Min"]
    (y,) = evaluate(made, {"x": np.array([np.inf, 1e300, -np.inf, np.nan] * 3)})
    np.testing.assert_array_equal(y, [np.finfo(float).max, 1e300, 0.5, np.nan] * 3)


def test_bounds_known_at_run_time_become_extremes_below_11():
    io = {"inputs": "float[12] x, float l, float h", "outputs": "float[12] y"}
    after = "t1 = Max(x, l)\ny = Min(t1, h)"
    for low, high in ((-1.0, 2.0), (2.0, -1.0)):
        feeds = {"l": np.array(low, np.float32), "h": np.array(high, np.float32)}
        check("y = Clip(x, l, h)", 11, after, 10, feeds=feeds, **io)
    check(
        "y = Clip(x, , h)",
        11,
        "t1 = Max(x, -3.4028234663852886e+38)\ny = Min(t1, h)",
        10,
        feeds={"h": np.array(1, np.float32)},
        **io,
    )
    check_unchanged("y = Clip(x, l, h)", 28, 11, **io)


def test_an_overridable_bound_is_not_constant():
    source = model("y = Clip(x, l)", 11, inputs="float[3] x, float l", outputs="float[3] y", constants="float h = {1}")
    source.graph.initializer[0].name = "l"
    made = convert.attempt(source, {"": 10}).model
    assert [n.op_type for n in made.graph.node] == ["Max", "Min"]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
def test_small_integers_are_clipped_as_floats_below_12(kind):
    check("y = Clip(x, l, h)", 12, f"t1 = Cast<to=1>(x)\nt2 = Cast<to=1>({kind}:1)\nt3 = Cast<to=1>({kind}:5)\nt4 = Clip(t1, t2, t3)\ny = Cast<to={CODE[kind]}>(t4)",
          11, **bound(kind, "1", "5"))  # fmt: skip


@pytest.mark.parametrize("kind", ["int32", "uint32"])
def test_32_bits_are_clipped_as_doubles_below_12(kind):
    limit = np.iinfo(kind).max
    after = f"t1 = Cast<to=11>(x)\nt2 = Cast<to=11>({kind}:{limit - 3})\nt3 = Cast<to=11>({kind}:{limit - 1})\nt4 = Max(t1, t2)\nt5 = Min(t4, t3)\ny = Cast<to={CODE[kind]}>(t5)"
    io = bound(kind, str(limit - 3), str(limit - 1))
    check("y = Clip(x, l, h)", 12, after, 11, feeds={"x": np.array([limit - k for k in range(12)], kind)}, **io)


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_64_bits_are_picked_below_12(kind):
    limit = 2**53 + 7
    feeds = {"x": np.array([limit - k for k in range(12)], kind)}
    io = bound(kind, str(limit - 3), str(limit - 1))
    low, high = (f"{kind}:{held}".replace("int64:", "", kind == "int64") for held in (limit - 3, limit - 1))
    after = f"t1 = Less(x, {low})\nt2 = Where(t1, {low}, x)\nt3 = Greater(t2, {high})\ny = Where(t3, {high}, t2)"
    check("y = Clip(x, l, h)", 12, after, 11, feeds=feeds, **io)
    check("y = Clip(x, , h)", 12, f"t1 = Greater(x, {high})\ny = Where(t1, {high}, x)", 11, feeds=feeds, **io)
    check("y = Clip(x)", 12, "y = Identity(x)", 11, feeds=feeds, **io)


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_a_minimum_above_the_maximum_yields_the_maximum_below_13(kind):
    io = bound(kind, "7", "3")
    io["constants"] = f"{kind} l = {{7}}, {kind} h = {{3}}"
    made = convert.attempt(model("y = Clip(x, l, h)", 13, **io), {"": 12}).model
    assert [n.op_type for n in made.graph.node] == ["Max", "Min"]
    values = np.arange(12).astype("float32" if kind == "float" else kind)
    np.testing.assert_array_equal(evaluate(made, {"x": values})[0], np.full(12, 3))
    low = convert.attempt(model("y = Clip(x, l, h)", 12, **io), {"": 10})
    if kind == "float":
        np.testing.assert_array_equal(evaluate(low.model, {"x": values})[0], np.full(12, 3))


@pytest.mark.parametrize("opset", [8, 10, 13])
@pytest.mark.parametrize("bounds", [(None, None), (-1.5, None), (None, 2.5)])
def test_an_infinity_is_clipped_where_there_is_no_bound(opset, bounds):
    """Both texts have bounds by default, and onnxruntime follows; onnx.reference does not from 11 on."""
    named = {name: bound for name, bound in zip(("min", "max"), bounds, strict=True) if bound is not None}
    if opset < 11:
        node = f"y = Clip<{', '.join(f'{name}: float = {bound}' for name, bound in named.items())}>(x)"
    else:
        node = f"y = Clip(x, {'l' if 'min' in named else ''}, {'h' if 'max' in named else ''})"
    source = model(node.replace("<>", ""), opset, **bound("float", "-1.5", "2.5"))
    x = np.array([-np.inf, np.inf, 0.25, -3e38, 3e38, 0], np.float32).repeat(2)
    made = opshift.inline(source, ["Clip"])
    assert "Clip" not in [n.op_type for n in made.graph.node]
    (expected,), (y,) = (OnnxRuntime(m).run({"x": x}) for m in (source, made))
    assert abs(expected).max() < np.inf
    np.testing.assert_array_equal(y, expected)


def test_absent_bounds_of_integers_are_none():
    assert show(opshift.inline(model("y = Clip(x)", 13, inputs="int8[2] x", outputs="int8[2] y"), ["Clip"])) == (
        "y = Identity(x)"
    )


def test_limits_of_clip_are_written_out_for_other_types():
    check_unchanged("y = Clip(x)", 1, 6, **of("float"))
    check_unchanged("y = Clip<min=1.0, max=2.0>(x)", 1, 6, **of("double"))
    check_unchanged("y = Clip<min=1.0>(x)", 6, 1, **of("float"))
    shown = {
        ("float16", 1, 6): ("y = Clip<max=65504, min=1>(x)", "exact"),
        ("double", 1, 6): ("y = Clip<max=inf, min=1>(x)", "close"),
        ("double", 6, 1): ("y = Clip<max=3.40282e+38, min=1>(x)", "exact"),
    }
    for (kind, opset, target), expected in shown.items():
        made = convert.attempt(model("y = Clip<min=1.0>(x)", opset, **of(kind)), {"": target})
        assert (show(made.model), made.grade) == expected


SCALAR_CASES = [("float", 11, 10, [0.5], 2.0), ("float", 13, 12, [7.0], 3.0), ("int8", 12, 10, [1], 3),
                ("int32", 12, 11, [1], 3), ("int64", 12, 11, [5], 3)]  # fmt: skip


@pytest.mark.parametrize(("kind", "opset", "target", "low", "high"), SCALAR_CASES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("inlined", [True, False])
def test_a_scalar_stays_one_beside_bounds_in_vectors(kind, opset, target, low, high, known, inlined):
    """The text wants scalars, runtimes take vectors of one element, and the result is shaped as the data."""
    numpy_kind = "float32" if kind == "float" else kind
    io = {"inputs": f"{kind} x, {kind}[1] l, {kind} h", "outputs": f"{kind} y"}
    if known:
        io = {
            "inputs": f"{kind} x",
            "outputs": f"{kind} y",
            "constants": f"{kind}[1] l = {{{low[0]}}}, {kind} h = {{{high}}}",
        }
    source = model("y = Clip(x, l, h)", opset, **io)
    made = opshift.inline(source, ["Clip"]) if inlined else convert.attempt(source, {"": target}).model
    onnx.checker.check_model(made, full_check=True)
    fed = {"l": np.array(low, numpy_kind), "h": np.array(high, numpy_kind)}
    for x in (-1, 0, 2, 9):
        feeds = {"x": np.array(x, numpy_kind)} | ({} if known else fed)
        (expected,), (y,) = OnnxRuntime(source).run(feeds), evaluate(made, feeds)
        assert np.shape(y) == expected.shape == ()
        assert y == expected


def test_a_scalar_in_a_function_stays_one_beside_a_bound_in_a_vector():
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "f" : 1]> g (float x, float[1] l) => (float y) { y = f.F(x, l) }'
        '<domain: "f", opset_import: ["" : 13]> F (x, l) => (y) { y = Clip(x, l) }'
    )
    feeds = {"x": np.array(-2, np.float32), "l": np.array([0.5], np.float32)}
    for made in (opshift.inline(source, ["Clip"]), convert.attempt(source, {"": 10}).model):
        onnx.checker.check_model(made, full_check=True)
        (y,) = OnnxRuntime(made).run(feeds)
        assert (y.shape, y) == ((), 0.5)


def test_bounds_of_what_has_axes_stay_as_they_are():
    io = {"inputs": "float[2] x, float[1] l, float h", "outputs": "float[2] y"}
    assert (
        show(convert.attempt(model("y = Clip(x, l, h)", 11, **io), {"": 10}).model) == "t1 = Max(x, l)\ny = Min(t1, h)"
    )
