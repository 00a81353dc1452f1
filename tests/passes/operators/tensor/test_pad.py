"""Pad: attributes and inputs, modes, axes and types; and what paddings meant at opset 1."""

import itertools

import numpy as np
import onnx.checker
import onnx.helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

ROWS = {"inputs": "float[N,3] x", "outputs": "float[A,B] y"}
WIDER = {**ROWS, "constants": "int64[4] p = {0, 1, 2, 0}"}


def pad(target, opset=13, kind="float", mode="constant", pads="0, 1, 1, 0", inputs="", **given):
    """Convert one Pad of a [2,3] tensor and compare its values; returns the operators that are left."""
    held = f"int64[4] p = {{{pads}}}" if pads else ""
    source = model(
        f'y = Pad<mode="{mode}">(x, p{", v" if "v" in given or "held" in given else ""})',
        opset,
        inputs=f"{kind}[N,3] x" + inputs,
        outputs=f"{kind}[A,B] y",
        constants=", ".join(filter(None, [held, given.pop("held", "")])),
    )
    result = convert.attempt(source, {"": target})
    assert result.model is not None, result.refusals
    check_values(source, result.model, given, rtol=0, atol=0)
    return {node.op_type for node in result.model.graph.node}


def test_attributes_become_inputs_at_11():
    check("y = Pad<pads=[0, 1, 2, 0]>(x)", 2, "y = Pad(x, [0, 1, 2, 0])", 13, run=False, **ROWS)  # not at 2
    check("y = Pad<pads=[0, 1, 2, 0]>(x)", 10, "y = Pad(x, [0, 1, 2, 0])", 13, **ROWS)
    check("y = Pad<pads=[0,1,2,0], value=1.5>(x)", 10, "y = Pad(x, [0, 1, 2, 0], 1.5)", 11, **ROWS)
    check("y = Pad<pads=[0,1,2,0], value=-0.0>(x)", 10, "y = Pad(x, [0, 1, 2, 0], -0.0)", 11, **ROWS)
    after = "y = Pad<mode=edge>(x, [0, 1, 2, 0])"
    check('y = Pad<pads=[0,1,2,0], value=1.5, mode="edge">(x)', 10, after, 11, **ROWS)


def test_the_value_has_the_type_of_the_data():
    io = {"inputs": "double[N,3] x", "outputs": "double[A,B] y"}
    check("y = Pad<pads=[0,1,0,0], value=1.5>(x)", 10, "y = Pad(x, [0, 1, 0, 0], float64:1.5)", 11, **io)


@pytest.mark.parametrize(
    ("value", "after"), [("", ""), ("{0}", ""), ("{1.5}", ", value=1.5"), ("{-0.0}", ", value=-0")]
)
def test_inputs_become_attributes_below_11(value, after):
    held = {**WIDER, "constants": WIDER["constants"] + (f", float v = {value}" if value else "")}
    before = f"y = Pad(x, p{', v' if value else ''})"
    check(before, 13, f"y = Pad<pads=[0, 1, 2, 0]{after}>(x)", 10, **held)


def test_special_values_are_filled_in():
    for value in (np.inf, -np.inf, np.nan):
        assert pad(10, v=np.float32(value).reshape(1), inputs=", float[1] v") >= {"Where", "Pad"}
    source = model("y = Pad(x, p, v)", 11, **{**WIDER, "constants": WIDER["constants"] + ", float v = {1}"})
    for value in (np.inf, -np.inf, np.nan):
        source.graph.initializer[1].float_data[:] = [value]
        made = convert.attempt(source, {"": 10}).model
        assert [n.op_type for n in made.graph.node] == ["Pad"]
        check_values(source, made, rtol=0, atol=0)


def test_a_value_that_a_float_cannot_hold_is_chosen_where_zeros_are_padded():
    assert "Where" in pad(10, kind="double", held="double v = {0.1}")
    assert "Where" not in pad(10, kind="double", held="double v = {0.5}")
    assert "Where" in pad(10, kind="int32", held="int32 v = {16777217}")
    assert "Where" not in pad(10, kind="int32", held="int32[1] v = {-7}")
    assert "Where" in pad(9, inputs=", float v", v=np.array(2.5, np.float32))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_integers_are_padded_as_doubles(kind, mode):
    assert pad(10, kind=kind, mode=mode) >= {"Cast", "Pad"}


def test_long_integers_keep_every_bit():
    limits = np.array([[-(2**63), 2**63 - 1, -1], [2**53 + 1, -(2**53) - 1, 0]])
    assert pad(10, kind="int64", x=limits) >= {"Div", "Cast", "Pad"}
    pad(10, kind="int64", held="int64 v = {9007199254740993}", x=limits)
    pad(10, kind="int64", held="int64 v = {-5}", x=limits)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pads", [[0, 1, 1, 0], [0, 0, 0, 0], [1, 2, 0, 1]])
def test_runtime_pads_below_11(mode, pads):
    assert "Pad" not in pad(10, mode=mode, pads="", inputs=", int64[4] p", p=np.array(pads))


@pytest.mark.parametrize("pads", [[0, -1, 1, 0], [-1, 2, 0, -1]])
def test_runtime_pads_that_crop(pads):
    pad(10, pads="", inputs=", int64[4] p", p=np.array(pads))


def test_runtime_pads_of_an_unknown_rank_are_refused():
    io = {"inputs": "float[] x, int64[K] p", "outputs": "float[] y"}
    check_refused("y = Pad(x, p)", 11, 10, 'the rank of "x" is unknown', **io)


def test_an_unknown_mode_is_refused():
    check_refused('y = Pad<mode="wrong">(x, p)', 11, 10, "mode=wrong", **WIDER)


def test_bool_is_padded_as_uint8_below_13():
    io = {"inputs": "bool[N,3] x", "outputs": "bool[A,B] y", "constants": "int64[4] p = {0,1,1,0}, bool v = {1}"}
    after = """
    t1 = Cast<to=2>(x)
    t2 = Cast<to=2>(bool:True)
    t3 = Pad(t1, [0, 1, 1, 0], t2)
    y = Cast<to=9>(t3)
    """
    check("y = Pad(x, p, v)", 13, after, 12, **io)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_of_strings_the_positions_are_padded_below_13(mode):
    assert pad(12, kind="string", mode=mode, held='string v = {"z"}') >= {"Range", "Gather"}


def test_strings_are_padded_with_empty_ones_by_default():
    io = {"inputs": "string[2] x", "outputs": "string[A] y", "constants": "int64[2] p = {1, 0}"}
    made = convert.attempt(model("y = Pad(x, p)", 13, **io), {"": 11}).model
    assert evaluate(made, {"x": np.array(["a", "b"], object)})[0].tolist() == ["", "a", "b"]


def test_axes_are_written_out_below_18():
    io = {**ROWS, "constants": "int64[2] p = {1, 2}, int64[1] a = {-1}"}
    check("y = Pad(x, p, , a)", 18, "y = Pad(x, [0, 1, 0, 2])", 17, **io)
    cube = {**io, "inputs": "float[N,3,2] x", "outputs": "float[A,B,C] y"}
    check("y = Pad(x, p, , a)", 18, "y = Pad(x, [0, 0, 1, 0, 0, 2])", 17, **cube)
    io = {**io, "constants": "int64[2] p = {1, 2}, int64[1] a = {0}, float v = {2}"}
    check("y = Pad(x, p, v, a)", 21, "y = Pad(x, [1, 0, 2, 0], 2.0)", 13, **io)
    none = {**io, "constants": "int64[0] p = {}, int64[0] a = {}"}
    check("y = Pad(x, p, , a)", 18, "y = Pad(x, [0, 0, 0, 0])", 17, run=False, **none)  # no engine takes it
    check_unchanged("y = Pad(x, p)", 18, 13, **WIDER)


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize(("axes", "pads"), [([1], [2, 1]), ([-1, 0], [1, 0, 2, 3])])
def test_runtime_axes_below_18(axes, pads, kind):
    for data in ("float[2,3] x", "float[] x"):
        io = {"inputs": f"{data}, int64[P] p, {kind}[K] a", "outputs": "float[] y"}
        source = model("y = Pad(x, p, , a)", 18, **io)
        made = convert.attempt(source, {"": 17}).model
        feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "p": np.array(pads), "a": np.array(axes, kind)}
        np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])


def test_axes_outside_the_rank_are_refused():
    io = {**ROWS, "constants": "int64[2] p = {1, 2}, int64[1] a = {2}"}
    check_refused("y = Pad(x, p, , a)", 18, 17, "axes=[2] are out of range for rank 2", **io)


@pytest.mark.parametrize("given", ["[1] p = {1}", "[2] p = {1, 1}", "[2] p"])
@pytest.mark.parametrize("target", [17, 1])
def test_pads_that_are_not_two_for_each_axis_are_refused(given, target):
    held = f"int64{given}, int64[0] a = {{}}" if "=" in given else "int64[0] a = {}"
    io = {**ROWS, "inputs": "float[2,3] x" + ("" if "=" in given else f", int64{given}"), "constants": held}
    check_refused("y = Pad(x, p, , a)", 18, target, "pads for 0 axes; supported: two for each", **io)


@pytest.mark.parametrize("pads", [[1, 2], [7, 0], [0, 0]])
@pytest.mark.parametrize("runtime", list(itertools.product([False, True], repeat=2)))
def test_wrapped_elements_are_gathered_below_19(pads, runtime):
    inputs = "float[2,3] x" + ", int64[2] p" * runtime[0] + ", int64[1] a" * runtime[1]
    held = [f"int64[2] p = {{{pads[0]}, {pads[1]}}}"] * (not runtime[0]) + ["int64[1] a = {-1}"] * (not runtime[1])
    source = model(
        'y = Pad<mode="wrap">(x, p, , a)', 19, inputs=inputs, outputs="float[A,B] y", constants=", ".join(held)
    )
    made = convert.attempt(source, {"": 18}).model
    assert "Pad" not in show(made)
    feeds = {"x": np.float32([[0, np.nan, 2], [-0.0, np.inf, 5]]), "p": np.array(pads), "a": np.array([-1])}
    expected = np.pad(feeds["x"], [(0, 0), tuple(pads)], mode="wrap")
    np.testing.assert_array_equal(evaluate(made, feeds)[0], expected)


def test_wrap_crops_first():
    source = model('y = Pad<mode="wrap">(x, p)', 19, **{**ROWS, "constants": "int64[4] p = {0, -1, 0, 3}"})
    made = convert.attempt(source, {"": 18}).model
    feeds = {"x": np.float32([[1, 2, 3]])}
    np.testing.assert_array_equal(evaluate(made, feeds)[0], [[2, 3, 2, 3, 2]])
    check_values(source, made, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
def test_float8_is_padded_as_float16_below_21(kind):
    io = {"inputs": f"{kind}[8] x", "outputs": f"{kind}[A] y", "constants": "int64[2] p = {1, 0}"}
    source = model("y = Pad(x, p)", 21, **io)
    made = convert.attempt(source, {"": 20}).model
    assert [n.op_type for n in made.graph.node] == ["Cast", "Pad", "Cast"]
    onnx.checker.check_model(made, full_check=True)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(source.graph.input[0].type.tensor_type.elem_type)
    x = np.arange(256, dtype=np.uint8).view(dtype)
    (found,) = evaluate(made, {"x": x})
    same = np.array_equal(found[1:].astype(np.float32), x.astype(np.float32), equal_nan=True)
    assert same
    assert found[0] == 0


@pytest.mark.parametrize(
    ("paddings", "shapes", "pads"),
    [
        ([1, 1, 1, 1], ("float[N,3] x", "float[A,B] y"), [1, 1, 1, 1]),
        ([0, 1, 2, 0], ("float[2,3] x", "float[4,4] y"), [0, 1, 2, 0]),
        ([0, 0, 2, 0], ("float[3,2] x", "float[3,4] y"), [0, 2, 0, 0]),  # the example in the text
    ],
)
def test_paddings_that_shapes_decide(paddings, shapes, pads):
    io = {"inputs": shapes[0], "outputs": shapes[1]}
    check(f"y = Pad<paddings={paddings}>(x)", 1, f"y = Pad<pads={pads}>(x)", 2, run=False, **io)  # no engine


def test_paddings_that_nothing_decides_are_refused():
    check_refused("y = Pad<paddings=[0, 0, 2, 0]>(x)", 1, 2, "can mean two things", **ROWS)
    both = {"inputs": "float[1,1,1] x", "outputs": "float[2,4,3] y"}
    check_refused("y = Pad<paddings=[0, 1, 2, 1, 2, 0]>(x)", 1, 2, "axis by axis", **both)


def test_pads_become_paddings_below_2():
    check("y = Pad<pads=[0, 1, 2, 0]>(x)", 2, "y = Pad<paddings=[0, 1, 2, 0]>(x)", 1, run=False, **ROWS)  # no engine
    after = """
    t1 = Slice<axes=[0, 1], ends=[-2, 9223372036854775807], starts=[0, 1]>(x)
    y = Pad<paddings=[0, 0, 0, 3]>(t1)
    """
    check("y = Pad<pads=[0, -1, -2, 3]>(x)", 2, after, 1, run=False, **ROWS)  # no engine


def test_inside_a_branch():
    body = """
    y = If (c) <
        then_branch = t () => (float[A,B] a) { p = Constant<value_ints=[0, 1, 1, 0]>() a = Pad(x, p) },
        else_branch = e () => (float[A,B] b) { b = Identity(x) }
    >
    """
    source = model(body, 13, inputs="float[N,M] x, bool c", outputs="float[A,B] y")
    for target, form in ((12, "Pad(x, [0, 1, 1, 0])"), (10, "Pad<pads=[0, 1, 1, 0]>(x)")):
        made = convert.attempt(source, {"": target}).model
        assert form in show(made)
        check_values(source, made, {"c": np.array(True)}, rtol=0, atol=0)


def test_inside_a_function():
    text = """
    <ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    g (float[N,3] x) => (float[A,B] y) { p = Constant<value_ints=[0, 1, 1, 0]>() y = local.Wider<fill="edge">(x, p) }
    <opset_import: ["" : 13], domain: "local">
    Wider <fill>(x, p) => (y) { y = Pad<mode: string = @fill>(x, p) }
    """
    source = onnx.parser.parse_model(text)
    made = convert.attempt(source, {"": 10}, ir_version=8).model
    assert show(made) == "y = Pad<mode=edge, pads=[0, 1, 1, 0]>(x)"
    check_values(source, made, rtol=0, atol=0)
