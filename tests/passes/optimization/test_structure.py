"""Branches, loops and functions: what is optimized inside of them, and what takes their place."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_optimized, optimized
from tests.support import check_values, model, show

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
IF = """y = If (c) <
    then_branch = t () => (float[N,3] a) {{ {then} }},
    else_branch = e () => (float[N,3] b) {{ {other} }}
>"""


@pytest.mark.parametrize(("c", "after"), [(1, "y = Exp(t1)"), (0, "t2 = Neg(t1)\ny = Exp(t2)")])
def test_the_branch_that_a_constant_takes_takes_its_place(c, after):
    body = "h = Relu(x) " + IF.format(then="a = Exp(h)", other="s = Neg(h) b = Exp(s)")
    check_optimized(body, f"t1 = Relu(x)\n{after}", constants=f"bool c = {{{c}}}", **IO)


def test_a_branch_that_passes_on_an_outer_value_is_gone():
    body = "h = Relu(x) k " + IF.format(then="a = Identity(h)", other="b = Exp(h)")[1:] + " y = Neg(k)"
    check_optimized(body, "t1 = Relu(x)\ny = Neg(t1)", constants="bool c = {1}", **IO)


def test_what_a_branch_makes_and_reads_itself_is_read():
    branches = """y, n = If (c) <
        then_branch = t () => (float[N,3] a, bool[N,3] i) { d, m = Dropout(x) a = Neg(d) i = Not(m) },
        else_branch = e () => (float[N,3] b, bool[N,3] j) { b = Exp(x) j = Less(x, x) }
    >"""
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y, bool[N,3] n", "constants": "bool c = {1}"}
    check_optimized(branches, "t1, t2 = Dropout(x)\ny = Neg(t1)\nn = Not(t2)", **io)


def test_a_branch_states_what_its_casts_make_below_6():
    """The schema of Cast infers no type there, and that of ReduceMean wants one."""
    before = onnx.parser.parse_model("""<ir_version: 3, opset_import: ["": 5]> g (double[N,3] x, bool c) => (float[N,1] y) <bool c = {1}> {
        y = If(c) <then_branch = t () => (float[N,1] u) <float[N,3] a> { a = Cast<to="FLOAT">(x) u = ReduceMean<axes=[1]>(a) },
                   else_branch = e () => (float[N,1] v) <float[N,3] b> { b = Cast<to="FLOAT">(x) v = ReduceMax<axes=[1]>(b) }>
    }""")
    onnx.checker.check_model(before, full_check=True)
    after = optimize.attempt(before).model
    assert [node.op_type for node in after.graph.node] == ["Cast", "ReduceMean"]
    onnx.checker.check_model(after, full_check=True)


def test_names_of_both_branches_do_not_meet():
    one, two = (IF.format(then="s = Neg(x) a = Exp(s)", other="b = Exp(x)").replace("y =", f"{n} =") for n in "uv")
    source = model(f"{one} {two} y = Add(u, v)", 18, constants="bool c = {1}", **IO)
    made = optimized(source)
    assert not [node for node in made.graph.node if node.op_type == "If"]
    check_values(source, made, rtol=0, atol=0)


def test_values_are_shared_with_branches_but_not_out_of_them():
    body = "h = Exp(x) " + IF.format(then="s = Exp(x) a = Neg(s)", other="s = Sin(x) b = Neg(s)") + " z = Sin(x)"
    io = {"inputs": "float[N,3] x, bool c", "outputs": "float[N,3] y, float[N,3] z, float[N,3] h"}
    source = model(body, 18, **io)
    made = optimized(source)
    assert "then_branch={ t1 = Neg(h); t1 }" in show(made)
    assert show(made).count("Sin") == 2
    for c in (True, False):
        check_values(source, made, {"c": np.asarray(c), "x": np.ones((2, 3), np.float32)}, rtol=0, atol=0)


def test_a_loop_is_optimized_inside():
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[3] x, int64 n) => (float[3] y) <bool go = {1}, float one = {1.0}> {
        y = Loop (n, go, x) <body = b (int64 i, bool on, float[3] s) => (bool still, float[3] t) {
            still = Identity(on) a = Mul(s, one) k = Constant<value_float = 2.0>() l = Neg(k) t = Add(a, l)
        }>
    }"""
    source = onnx.parser.parse_model(text)
    made = optimized(source)
    (body,) = (attribute.g for attribute in made.graph.node[0].attribute)
    assert [node.op_type for node in body.node] == ["Identity", "Add"]
    check_values(source, made, {"n": np.array(3)}, rtol=0, atol=0)


FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
g (float[N,3] x) => (float[N,3] y) {{ y = own.f <alpha = 0.5> (x) }}
<domain: "own", opset_import: ["" : 18]>
f <alpha> (p) => (q) {{ {body} }}"""


def test_a_function_is_optimized_where_it_stands():
    body = "a = Identity(p) k = Constant<value_float = 1.0>() l = Constant<value_float = 2.0>() m = Add(k, l) b = Mul(a, m) c = Exp(b) d = Exp(b) e = Elu<alpha: float = @alpha>(c) q = Add(d, e)"
    source = onnx.parser.parse_model(FUNCTION.format(body=body))
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["Constant", "Mul", "Exp", "Elu", "Add"]
    check_values(source, made, rtol=0, atol=0)


def test_shapes_are_followed_through_a_function():
    """Nothing is inferred there: what it is called with hangs on the call."""
    body = "k = Constant<value_ints = [2, 6]>() h = Reshape(p, k) z = Constant<value_ints = [2, 4]>() "
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[12] x) => (int64[2] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 18]> f (p) => (q) { %s a, b = Split<axis = 1>(h, z) q = Shape(b) }"""
    source = onnx.parser.parse_model(text % body)
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["Constant"]
    check_values(source, made, rtol=0, atol=0)


def test_a_node_whose_attributes_come_with_the_call_stays():
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    g (float[N,3] x) => (float[A,B,C] y) { y = own.f <new = 1> (x) }
    <domain: "own", opset_import: ["" : 18]>
    f <new> (p) => (q) { s = SequenceConstruct(p, p) q = ConcatFromSequence<axis=0, new_axis: int = @new>(s) }"""
    source = onnx.parser.parse_model(text)
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["SequenceConstruct", "ConcatFromSequence"]
    check_values(source, made, rtol=0, atol=0)


def test_a_function_that_returns_what_it_gets_needs_a_node():
    source = onnx.parser.parse_model(FUNCTION.format(body="q = Identity(p)"))
    assert [node.op_type for node in optimized(source).functions[0].node] == ["Identity"]


def test_shadowed_names_are_left_alone():
    body = "h = Exp(x) k = Identity(h) " + IF.format(then="h = Neg(x) a = Add(h, k)", other="b = Neg(k)")
    source = model(body, 18, inputs="float[N,3] x, bool c", outputs="float[N,3] y")
    made = optimize.attempt(source).model
    then = next(a.g for a in made.graph.node[-1].attribute if a.name == "then_branch")
    assert list(then.node[-1].input) == ["h", "k"]


def test_a_loop_that_never_runs_and_takes_an_optional_stays():
    """What it yields is what the optional holds, and there is none to be had without a trip."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (optional(seq(float[2])) o) => (seq(float[2]) y) <bool go = {0}> {
            y = Loop("", go, o) <body = b (int64 i, bool on, optional(seq(float[2])) given) => (bool still, seq(float[2]) held) {
                still = Identity(on) held = OptionalGetElement(given)
            }>
        }"""
    )
    onnx.checker.check_model(source, full_check=True)
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node] == ["Loop"]


LOOP = "n = Constant<value_ints=[{trips}]>() m = Squeeze(n) y = Loop(m, go, x) <body = b (int64 i, bool c, float[3] s) => (bool k, float[3] t) {{ k = Identity(c) t = Exp(s) }}>"
CHOICE = "y = If (go) <then_branch = t () => (float[3] a) { a = Exp(x) }, else_branch = e () => (float[1,2] b) { b = Constant<value = float[1,2] {1, 2}>() }>"


@pytest.mark.parametrize("body", [LOOP.format(trips=1), CHOICE], ids=["loop", "if"])
def test_what_inference_knew_nothing_of_is_declared_as_it_is_once_it_is_known(body):
    """Inference says nothing of what a Loop carries or of branches of two ranks, and the checker believes what is said."""
    source = model(body, 17, inputs="float[3] x", outputs="float[2] y", constants="bool go = {1}")
    onnx.checker.check_model(source, full_check=True)
    result = optimize.attempt(source)
    assert [node.op_type for node in result.model.graph.node] == ["Exp"]
    onnx.checker.check_model(result.model, full_check=True)
    assert [dim.dim_value for dim in result.model.graph.output[0].type.tensor_type.shape.dim] == [3]
    assert any("'y': declared [2], inferred [3]" in change.remark for change in result.changes)


def test_what_is_declared_stays_where_nothing_takes_the_place_of_a_loop():
    source = model(LOOP.format(trips=2), 17, inputs="float[3] x", outputs="float[2] y", constants="bool go = {1}")
    made = optimize.attempt(source).model
    assert [node.op_type for node in made.graph.node] == ["Loop"]
    assert made.graph.output[0] == source.graph.output[0]


def test_what_is_declared_stays_where_the_source_itself_is_denied():
    body = CHOICE.replace("y =", "u =") + " y = Neg(x)"
    source = model(body, 17, inputs="float[3] x", outputs="float[2] y, float[3] u", constants="bool go = {1}")
    made = optimize.attempt(source).model
    assert sorted(node.op_type for node in made.graph.node) == ["Exp", "Neg"]
    assert made.graph.output[0] == source.graph.output[0]
