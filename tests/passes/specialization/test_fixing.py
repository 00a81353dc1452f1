"""Sizes and inputs that are fixed, and what follows: shapes, conditions, branches, Loops."""

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.inputs.wanted import parse_wanted
from opshift.passes.specialization import fixing

from tests.passes.specialization.support import fixed, ops, shape
from tests.support import evaluate, model, show

IO = {"inputs": "float[N,C] x", "outputs": "float[?,?] y"}
FLATTENED = """
    s = Shape(x) n = Gather(s, zero) c = Gather(s, one) m = Mul(n, c) k = Unsqueeze(m, zeros) y = Reshape(x, k)
"""
CONSTANTS = "int64 zero = {0}, int64 one = {1}, int64[1] zeros = {0}"


def test_nothing_is_done_where_all_is_as_asked_for():
    source = model("y = Relu(x)", 18, inputs="float[2,3] x", outputs="float[2,3] y")
    assert fixed(source, {"x": (2, 3)}) == source


def test_sizes_are_written_and_what_hangs_on_them_is_computed_once():
    source = model(FLATTENED, 18, inputs="float[N,C] x", outputs="float[?] y", constants=CONSTANTS)
    made = fixed(source, {"x": (2, 3)})
    assert show(made) == "y = Reshape(x, [6])"
    assert (shape(made, "x"), shape(made, "y")) == ([2, 3], [6])


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_symbol_has_one_size_wherever_it_stands(size):
    body = "a = Add(x, z) y = Relu(a)"
    made = fixed(model(body, 18, inputs="float[N,3] x, float[N,1] z", outputs="float[N,3] y"), {"N": size})
    assert [shape(made, name) for name in "xzy"] == [[size, 3], [size, 1], [size, 3]]


def test_the_shape_of_one_input_fixes_symbols_of_others():
    made = fixed(model("y = Add(x, z)", 18, inputs="float[N,3] x, float[N,1] z", outputs="float[N,3] y"), "x:4,3")
    assert shape(made, "z") == [4, 1]


def test_sums_of_symbols_that_are_fixed_are_numbers():
    source = model("y = Concat<axis=0>(x, z)", 18, inputs="float[P,H] x, float[Q,H] z", outputs="float[?,H] y")
    for value, dim in zip(source.graph.input, ("past", "past + 1"), strict=True):
        value.type.tensor_type.shape.dim[0].dim_param = dim
    made = fixed(source, {"past": 2})
    assert [shape(made, name) for name in "xzy"] == [[2, "H"], [3, "H"], [5, "H"]]


def test_dimensions_without_a_name_are_fixed_by_the_input():
    assert shape(fixed(model("y = Relu(x)", 18, inputs="float[?,3] x", outputs="float[?,3] y"), "x:5,3"), "y") == [5, 3]


def test_an_input_of_unknown_rank_gets_one():
    source = model("y = Relu(x)", 18, inputs="float[] x", outputs="float[] y")
    for value in (*source.graph.input, *source.graph.output):
        value.type.tensor_type.ClearField("shape")
    assert shape(fixed(source, "x:2,2"), "y") == [2, 2]


def test_wrong_declarations_of_outputs_follow_what_is_inferred():
    source = model("y = Concat<axis=0>(x, x)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    assert shape(fixed(source, "N=2"), "y") == [4, 3]


def test_sizes_in_branches_are_fixed_too_and_inner_shapes_computed():
    branch = """y = If <then_branch = g () => (float[N,3] t) { s = Shape(x) e = Expand(one, s) t = Add(x, e) },
                       else_branch = h () => (float[N,3] f) { f = Neg(x) }> (c)"""
    source = model(branch, 18, inputs="float[N,3] x, bool c", outputs="float[N,3] y", constants="float one = {1.0}")
    made = fixed(source, "N=2", feeds={"c": np.array(True)})
    assert "Shape" not in ops(made)
    inner = [graph.output[0] for node in made.graph.node for a in node.attribute for graph in [a.g]]
    assert [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in inner] == [[2, 3], [2, 3]]


def test_nothing_is_left_of_what_was_computed_inside_a_branch():
    branch = """y = If <then_branch = g () => (float[?,?] t) { s = Shape(x) e = ConstantOfShape(s) m = Shape(e) k = Cast<to=7>(m) z = Expand(one, k) t = Add(x, z) },
                       else_branch = h () => (float[?,?] f) { f = Neg(x) }> (c)"""
    source = model(branch, 18, inputs="float[N,3] x, bool c", outputs="float[?,?] y", constants="float[1] one = {1.0}")
    assert ops(fixed(source, "N=3", {"c": True})) == ["Add"]


# --- inputs that become constants ---------------------------------------------------------------------------

RATES = """
    w = Equal(sr, rate)
    y = If <then_branch = g () => (float[N] t) { t = Add(x, two) },
            else_branch = h () => (float[N] f) { f = Mul(x, two) }> (w)
"""
RATE = {
    "inputs": "float[N] x, int64 sr",
    "outputs": "float[N] y",
    "constants": "int64 rate = {16000}, float two = {2.0}",
}


@pytest.mark.parametrize(("rate", "left"), [(16000, ["Add"]), (8000, ["Mul"])])
def test_a_constant_decides_a_branch(rate, left):
    made = fixed(model(RATES, 18, **RATE), given={"sr": rate})
    assert ops(made) == left
    assert [value.name for value in made.graph.input] == ["x"]
    assert {tensor.name for tensor in made.graph.initializer} == {"two"}


def test_a_constant_of_branches_alone_is_read_there():
    body = """y = If <then_branch = g () => (float[N] t) { t = Add(x, b) },
                      else_branch = h () => (float[N] f) { f = Sub(x, b) }> (c)"""
    source = model(body, 18, inputs="float[N] x, float[1] b, bool c", outputs="float[N] y")
    for condition in (True, False):
        made = fixed(source, given={"b": [1.5]}, feeds={"c": np.array(condition)})
        assert [value.name for value in made.graph.input] == ["x", "c"]


TYPES = [
    ("float", "1.5", np.float32(1.5)),
    ("float16", "[0.1, 2]", np.array([0.1, 2], np.float16)),
    ("double", "nan", np.float64("nan")),
    ("bool", "true", np.bool_(True)),
    ("int64", "-3", np.int64(-3)),
    ("uint8", "[0, 255]", np.array([0, 255], np.uint8)),
    ("string", "a=b", np.array("a=b", object)),
    ("string", '["a", ""]', np.array(["a", ""], object)),
]


@pytest.mark.parametrize(("kind", "text", "value"), TYPES)
def test_values_of_every_type_become_constants(kind, text, value):
    dims = f"[{len(value)}]" if value.ndim else ""
    source = model("y = Identity(v)", 18, inputs=f"{kind}{dims} v", outputs=f"{kind}{dims} y")
    made = fixed(source, given=[f"v={text}"])
    (found,) = evaluate(made, {})
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


def test_one_number_stands_for_an_array_of_one_element():
    source = model("y = Add(x, v)", 18, inputs="float[N,3] x, float[1,1] v", outputs="float[N,3] y")
    assert fixed(source, given={"v": 2}).graph.initializer[0].dims == [1, 1]


def test_the_shape_of_a_value_fixes_symbols():
    source = model("y = Add(x, v)", 18, inputs="float[N,3] x, float[N,1] v", outputs="float[N,3] y")
    assert shape(fixed(source, given={"v": np.ones((2, 1), np.float32)}), "x") == [2, 3]


def test_a_default_is_overridden_and_is_an_input_no_more():
    source = model(
        "y = Add(x, d)", 18, inputs="float[N] x, float[1] d", outputs="float[N] y", constants="float[1] d = {1.0}"
    )
    assert {value.name for value in source.graph.input} == {"x", "d"}
    made = fixed(source, given={"d": 5})
    assert show(made) == "y = Add(x, [5.0])"
    assert [value.name for value in made.graph.input] == ["x"]


def test_below_ir_4_a_constant_stays_among_the_inputs():
    source = model("y = Add(x, b)", 7, inputs="float[N] x, float[1] b", outputs="float[N] y")
    source.ir_version = 3
    made = fixed(source, given={"b": 5})
    assert [value.name for value in made.graph.input] == ["x", "b"]
    assert made.graph.initializer[0].name == "b"


def test_a_constant_that_is_yielded_is_made_by_a_node():
    source = model("y = Add(x, b)", 18, inputs="float[N] x, float[1] b", outputs="float[N] y")
    source.graph.output.append(source.graph.input[1])
    assert [value.name for value in fixed(source, given={"b": 5}).graph.output] == ["y", "b"]


def test_a_constant_reaches_functions_by_their_calls():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        g (float[N] x, float[1] b) => (float[N] y) { y = own.F(x, b) }
        <domain: "own", opset_import: ["" : 18]>
        F (a, b) => (c) { s = Shape(a) n = ConstantOfShape(s) t = Cast<to=1>(n) u = Add(t, b) c = Add(a, u) }
    """)
    made = fixed(source, "N=2", {"b": 5})
    assert made.functions == source.functions, "what a function computes hangs on all its calls"


# --- Loops --------------------------------------------------------------------------------------------------

LOOP = """
    k = Squeeze(n)
    y, z = Loop <body = g (int64 i, bool go, float[3] held) => (bool on, float[3] more, float[3] seen) {
        on = Identity(go) f = Cast<to=1>(i) more = Add(held, one) seen = Add(held, f)
    }> (k, , x)
"""
LOOPED = {"inputs": "float[3] x, int64[1] n", "outputs": "float[3] y, float[M,3] z", "constants": "float one = {1.0}"}


@pytest.mark.parametrize(("count", "left"), [(0, 1), (1, 0), (2, 1)])
def test_a_loop_of_one_turn_is_gone(count, left):
    made = fixed(model(LOOP, 18, **LOOPED), given={"n": count})
    assert ops(made).count("Loop") == left, "of no turns, the sizes of what is gathered are not known"
    assert shape(made, "z") == [1 if count == 1 else "M", 3]


@pytest.mark.parametrize("count", [0, -1])
def test_a_loop_of_no_turns_yields_what_it_was_given_and_gathers_nothing(count):
    gathered = LOOP.replace("seen = Add(held, f)", "seen = Constant<value = float[3] {1.0, 2.0, 3.0}>()")
    made = fixed(model(gathered, 18, **LOOPED), given={"n": count})
    assert ops(made) == ["Identity", "Constant"]
    assert shape(made, "z") == [0, 3]


def test_a_loop_that_goes_on_until_its_body_says_no_runs_once():
    body = """y = Loop <body = g (int64 i, bool go, float[3] held) => (bool on, float[3] more) {
        on = Constant<value = bool {0}>() more = Add(held, one)
    }> ( , start, x)"""
    io = {"inputs": "float[3] x, bool start", "outputs": "float[3] y", "constants": "float one = {1.0}"}
    assert ops(fixed(model(body, 18, **io), given={"start": True})) == ["Add"]
    assert ops(fixed(model(body, 18, **io), given={"start": False})) == ["Identity"]


def test_a_loop_of_unknown_turns_stays():
    source = model(LOOP, 18, **LOOPED)
    assert "Loop" in ops(fixed(source, given={"x": [1, 2, 3]}, feeds={"n": np.array([2])}))


@pytest.mark.parametrize("opset", [11, 12, 13, 16])
def test_loops_of_older_opsets(opset):
    body = LOOP.replace("k = Squeeze(n)", "k = Reshape(n, none)")
    io = {**LOOPED, "constants": "float one = {1.0}, int64[0] none = {}"}
    assert "Loop" not in ops(fixed(model(body, opset, **io), given={"n": 1}))


def test_names_of_what_is_inside_do_not_meet_those_outside():
    body = """
        t = Neg(x)
        a = If <then_branch = g () => (float[N] t1) { u = Add(x, two) t1 = Relu(u) },
                else_branch = h () => (float[N] f1) { f1 = Neg(x) }> (c)
        b = If <then_branch = g2 () => (float[N] t2) { u = Mul(x, two) t2 = Relu(u) },
                else_branch = h2 () => (float[N] f2) { f2 = Neg(x) }> (c)
        y = Sum(t, a, b)
    """
    source = model(body, 18, inputs="float[N] x, bool c", outputs="float[N] y", constants="float two = {2.0}")
    assert "If" not in ops(fixed(source, given={"c": True}))


# --- what follows of ranks and axes -------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 18])
def test_a_squeeze_names_its_axes(opset):
    made = fixed(model("y = Squeeze(x)", opset, inputs="float[N,C,1] x", outputs="float[?] y"), "x:1,3,1")
    assert show(made) == ("y = Squeeze(x, [0, 2])" if opset == 18 else "y = Squeeze<axes=[0, 2]>(x)")
    assert shape(made, "y") == [3]


def test_a_squeeze_of_nothing_stays():
    assert (
        show(fixed(model("y = Squeeze(x)", 18, inputs="float[N,3] x", outputs="float[?,?] y"), "N=2"))
        == "y = Squeeze(x)"
    )


def test_what_hangs_on_weights_alone_stays():
    body = "t = Transpose(w) y = MatMul(x, t)"
    io = {"inputs": "float[N,2] x", "outputs": "float[N,2] y", "constants": "float[2,2] w = {1.0, 2.0, 3.0, 4.0}"}
    assert ops(fixed(model(body, 18, **io), "N=2")) == ["Transpose", "MatMul"]


# --- what is not possible -----------------------------------------------------------------------------------

WRONG = [
    ({"y": (1, 2)}, None, "no input 'y'"),
    ("M=2", None, "no symbolic dimension 'M'"),
    ("btach=2", None, "did you mean 'batch'?"),
    ("x:2", None, "rank 2"),
    ("x:2,4", None, "has shape"),
    (["batch=2", "x:3,3"], None, "'batch' cannot be both 2 and 3"),
    (["x:2,3", "z:3"], None, "'batch' cannot be both 2 and 3"),
    (None, {"sr": 1.5}, "its elements are int64"),
    (None, {"sr": True}, "its elements are int64"),
    (None, {"sr": "much"}, "its elements are int64"),
    (None, {"sr": 2**63}, "its elements are int64"),
    (None, {"sr": [1, 2]}, "rank 0"),
    (None, {"sr": np.float32(1)}, "an array of float32 is given for input 'sr', which takes int64"),
    (None, {"sro": 1}, "did you mean 'sr'?"),
    (None, {"x": [[1, 2], [3]]}, "its elements are float32"),
    ("x:1,3", {"x": [[1, 2, 3], [4, 5, 6]]}, "has shape [2, 3], but --fix-shape asks for [1, 3]"),
]


@pytest.mark.parametrize("size", [1.5, -1, True, "two", (1, None)])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(ValueError, match="whole numbers"):
        parse_wanted({"N": size})


def test_numbers_of_numpy_are_sizes():
    source = model("y = Relu(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    assert fixed(source, {"N": np.int64(2)}) == fixed(source, {"x": np.array([2, 3])})


@pytest.mark.parametrize(("sizes", "values", "why"), WRONG)
def test_what_the_model_does_not_take_is_said(sizes, values, why):
    inputs = "float[batch,3] x, float[batch] z, int64 sr"
    source = model("y = Add(x, x)", 18, inputs=inputs, outputs="float[batch,3] y")
    with pytest.raises(ValueError, match=why.replace("[", r"\[").replace("?", r"\?")):
        fixing.attempt(source, parse_wanted(sizes, values))


def test_sizes_that_operators_do_not_take_are_said():
    source = model(
        "y = MatMul(x, w)",
        18,
        inputs="float[N,C] x",
        outputs="float[N,2] y",
        constants="float[2,2] w = {1.0,2.0,3.0,4.0}",
    )
    with pytest.raises(ValueError, match="cannot run at the sizes that are fixed"):
        fixing.attempt(source, parse_wanted("C=3"))


def test_sizes_that_a_branch_does_not_take_may_be_those_it_never_runs_on():
    body = """y = If <then_branch = g () => (float[?,?] t) { t = MatMul(x, a) },
                      else_branch = h () => (float[?,?] f) { f = MatMul(x, b) }> (c)"""
    io = {"inputs": "float[N,C] x, bool c", "outputs": "float[?,?] y"}
    source = model(body, 18, constants="float[2,1] a = {1.0,2.0}, float[3,1] b = {1.0,2.0,3.0}", **io)
    made = fixed(source, "N=1,C=2", {"c": True})
    assert ops(made) == ["MatMul"]
    assert fixing.attempt(source, parse_wanted("N=1,C=2")).model is not None


def test_a_sequence_cannot_be_set():
    source = model("y = SequenceAt(s, i)", 18, inputs="seq(float[N]) s, int64 i", outputs="float[?] y")
    with pytest.raises(ValueError, match="not a tensor"):
        fixing.attempt(source, parse_wanted(None, {"s": 1}))


# --- annotations --------------------------------------------------------------------------------------------


def test_all_that_follows_is_declared():
    source = model("a = MatMul(x, x) b = Transpose(a) y = Relu(b)", 18, inputs="float[2,2] x", outputs="float[2,2] y")
    made = fixing.annotate(source).model
    assert not source.graph.value_info
    assert [shape(made, name) for name in "ab"] == [[2, 2], [2, 2]]
    assert {value.type.tensor_type.elem_type for value in made.graph.value_info} == {TensorProto.FLOAT}


def test_what_is_known_already_is_not_said_again():
    source = model("a = Neg(x) y = Relu(a)", 18, inputs="float[2] x", outputs="float[2] y")
    made = fixing.annotate(source).model
    assert fixing.annotate(made).model == made
    assert not fixing.annotate(made).changes


def test_values_of_branches_are_declared_there():
    body = """y = If <then_branch = g () => (float[2] t) { u = Neg(x) t = Relu(u) },
                      else_branch = h () => (float[2] f) { f = Neg(x) }> (c)"""
    made = fixing.annotate(model(body, 18, inputs="float[2] x, bool c", outputs="float[2] y")).model
    assert [value.name for value in made.graph.node[0].attribute[0].g.value_info] == ["u"]


def test_sizes_that_nobody_knows_stay_open():
    body = "n = NonZero(x) y = Transpose(n)"
    made = fixing.annotate(model(body, 18, inputs="float[N] x", outputs="int64[M,1] y")).model
    assert shape(made, "n") == [1, None]
