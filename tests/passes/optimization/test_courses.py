"""Ifs and Loops whose course is known stand outside of themselves, where their values may."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.changes import Allowance
from opshift.passes.optimization import optimize

from tests.support import check_values, evaluate, model

LOOP = """
    y, z = Loop <body = g (int64 i, bool go, float[N] held) => (bool on, float[N] more, float[N] seen) {
        on = Identity(go) f = Cast<to=1>(i) more = Add(held, one) u = Mul(more, x) seen = Max(u, f)
    }> (n, start, x)
"""
IO = {"inputs": "float[N] x", "outputs": "float[N] y, float[?,N] z"}
HELD = "int64 n = {1}, bool start = {1}, float one = {1.0}"


def optimized(source):
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, rtol=0, atol=0)
    return [node.op_type for node in made.graph.node]


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_what_runs_once_takes_the_place_of_its_loop(opset):
    assert optimized(model(LOOP, opset, constants=HELD, **IO)) == ["Add", "Mul", "Max", "Unsqueeze"]


def test_what_may_run_twice_stays():
    assert "Loop" in optimized(model(LOOP, 18, constants=HELD.replace("n = {1}", "n = {2}"), **IO))


def test_a_condition_that_only_the_run_tells_stays():
    io = {**IO, "inputs": "float[N] x, bool start"}
    assert "Loop" in optimized(model(LOOP, 18, constants=HELD.replace("bool start = {1}, ", ""), **io))


ENDS = LOOP.replace("on = Identity(go)", "on = Constant<value = bool {0}>()")


@pytest.mark.parametrize(
    ("operands", "ends", "once"),
    [
        ("n, start, x", False, False), ("five, start, x", False, False), (" , start, x", False, False), (" , , x", False, False), ("one1, start, x", False, True), ("one1, , x", False, True),
        ("n, start, x", True, False), ("five, start, x", True, True), (" , start, x", True, True), ("five, , x", True, False), (" , , x", True, False), ("one1, go0, x", True, False),
    ],
)  # fmt: skip
def test_what_runs_once_is_counted_so_or_goes_in_and_ends(operands, ends, once):
    """Of a count that only the run tells it may run never; without a condition nobody asks whether it goes on."""
    held = "int64 one1 = {1}, int64 five = {5}, bool start = {1}, float one = {1.0}"
    io = {"inputs": "float[N] x, int64 n, bool go0", "outputs": IO["outputs"]}
    body = (ENDS if ends else LOOP).replace("n, start, x", operands)
    made = optimize.attempt(model(body, 18, constants=held, **io)).model
    assert ("Loop" not in [node.op_type for node in made.graph.node]) is once


@pytest.mark.parametrize(
    ("opset", "to", "stated"), [(4, '"FLOAT16"', 1), (5, '"FLOAT16"', 1), (6, "10", 0), (7, "10", 0)]
)
def test_types_of_casts_are_stated_outside_where_inference_finds_none(opset, to, stated):
    body = f"""y = If <
        then_branch = g () => (float16[2] a) <float16[2] h, float16[2] i> {{ i = Identity(x) h = Cast<to={to}>(i) a = Neg(h) }},
        else_branch = h () => (float16[2] b) {{ b = Cast<to={to}>(x) }}
    > (c)"""
    source = model(body, opset, inputs="float[2] x", outputs="float16[2] y", constants="bool c = {1}")
    graph = optimize.attempt(source).model.graph
    made = [node.output[0] for node in graph.node if node.op_type == "Cast"]
    assert [value.name for value in graph.value_info] == made * stated
    assert all(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for value in graph.value_info)


def test_values_from_outside_and_values_that_are_yielded_twice():
    body = """
        y, z, w = Loop <body = g (int64 i, bool go, float[N] a, float[N] b, float[N] c)
            => (bool on, float[N] b2, float[N] b3, float[N] x2) {
            on = Identity(go) b2 = Add(a, one) b3 = Identity(b2) x2 = Identity(x)
        }> (n, , x, x, x)
    """
    io = {"inputs": "float[N] x", "outputs": "float[N] y, float[N] z, float[N] w", "constants": HELD}
    assert "Loop" not in optimized(model(body, 18, **io))


def test_a_name_that_means_another_value_inside_keeps_its_loop():
    source = model(LOOP, 18, constants=HELD, **IO)
    body = source.graph.node[0].attribute[0].g
    for node in body.node:
        node.input[:] = ["x_" if name == "f" else name for name in node.input]
        node.output[:] = ["x_" if name == "f" else name for name in node.output]
    source.graph.node.add(op_type="Neg", input=["x"], output=["x_"])
    source.graph.output.add(name="x_").type.CopyFrom(source.graph.output[0].type)
    made = optimize.attempt(source).model
    assert "Loop" in [node.op_type for node in made.graph.node]


SEQUENCE = """
    s = SequenceConstruct(x, x)
    t = If <then_branch = g () => (seq(float[N]) a) { a = SequenceInsert(s, x) }, else_branch = h () => (seq(float[N]) b) { b = SequenceErase(s) }> (c)
    y = SequenceAt(t, i)
"""


@pytest.mark.parametrize(("opset", "stays"), [(13, True), (14, False), (18, False)])
def test_identity_does_not_take_sequences_at_one_opset(opset, stays):
    source = model(SEQUENCE, opset, inputs="float[N] x", outputs="float[?] y", constants="bool c = {1}, int64 i = {0}")
    branch = source.graph.node[1].attribute[0].g
    branch.output[0].name = "s"  # a value from outside
    del branch.node[:]
    made = optimize.attempt(source).model
    assert ("If" in [node.op_type for node in made.graph.node]) == stays
    given = {"x": np.ones(2, np.float32)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])


def test_a_loop_in_a_function():
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        g (float[N] x) => (float[N] y, float[?,N] z) {{ y, z = own.F(x) }}
        <domain: "own", opset_import: ["" : 18]> F (x) => (y, z) {{
            n = Constant<value_int = 1>() start = Constant<value = bool {{1}}>() one = Constant<value_float = 1.0>() {LOOP}
        }}
    """)
    made = optimize.attempt(source).model
    assert "Loop" not in [node.op_type for node in made.functions[0].node]
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize(("opset", "kept"), [(20, True), (21, False)])
def test_a_loop_is_kept_that_stacks_what_unsqueeze_does_not_take(opset, kept):
    body = "y = Loop(n, go) <body = b (int64 i, bool c) => (bool k, float8e4m3fnuz[2] t) { k = Identity(c) t = CastLike(x, e) }>"
    source = model(
        body, opset, inputs="float[2] x, float8e4m3fnuz[0] e", outputs="float8e4m3fnuz[A,B] y",
        constants="int64 n = {1}, bool go = {1}",
    )  # fmt: skip
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    assert any(node.op_type == "Loop" for node in made.graph.node) is kept


UNTAKEN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x, bool c) => (float[?] y) <
    bool sure = {{1}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] last = {{-1}}, int64 first = {{0}},
    int64[1] two = {{2}}, float[2,1,1] w = {{1, 2}}
> {{
    k = If(sure) <then_branch = a () => (float[?,?] p) {{ p = Neg(x) }}, else_branch = b () => (float[?,?,?] q) {{ q = Unsqueeze(x, zero) }}>
    y = If(c) <then_branch = d () => (float[?] t) {{ {body} }}, else_branch = e () => (float[?] f) {{ f = Identity(k) }}>
}}
"""


def untaken(body):
    """A model whose ranks a known If hides, and a branch beside it that another rank takes."""
    source = onnx.parser.parse_model(UNTAKEN.format(body=body))
    graphs = [source.graph, *(attribute.g for node in source.graph.node for attribute in node.attribute)]
    for value in (value for graph in graphs for value in graph.output):
        value.type.tensor_type.ClearField("shape")
    return source


BOUNDS = "z = Constant<value_ints=[0]>() o = Constant<value_ints=[1]>()"
SCALAR = "r = Gather(k, first) s = Gather(r, first)"


@pytest.mark.parametrize(
    "body",
    [
        f"{BOUNDS} n = Constant<value_ints=[2]>() t = Slice(k, z, o, n)",
        f"{BOUNDS} n = Constant<value_ints=[2]>() r = Slice(k, z, o, z) t = Slice(r, z, o, n)",
        "t = Gather<axis=2>(k, zero)",
        "t = Gather<axis=-3>(k, zero)",
        "t, u = Split<axis=2>(k)",
        "n = Constant<value_ints=[2]>() t = Squeeze(k, n)",
        "n = Constant<value_ints=[-5]>() t = Unsqueeze(k, n)",
        "n = Constant<value_ints=[0, 0]>() t = Unsqueeze(k, n)",
        "t = Concat<axis=2>(k, k)",
        "t = Transpose<perm=[2,0,1]>(k)",
        "t = Flatten<axis=3>(k)",
        "r = Conv(k, w) t = Mul(r, w)",
        f"{SCALAR} t = Gather(s, zero)",
        f"{SCALAR} t = Concat<axis=0>(s, s)",
        f"{SCALAR} t, u = Split<axis=0>(s)",
        f"{SCALAR} {BOUNDS} n = Constant<value_ints=[-1]>() t = Slice(s, z, o, n)",
        f"{SCALAR} n = Constant<value_ints=[-1]>() t = Squeeze(s, n)",
    ],
)
def test_what_makes_known_that_an_untaken_branch_cannot_run_stays(body):
    """Runtimes load such a branch as long as they do not know the rank of what it reads."""
    source = untaken(body)
    made = optimize.attempt(source).model
    given = {"x": np.ones((2, 3), np.float32), "c": np.array(False)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])
    assert [node.op_type for node in made.graph.node] == ["If", "If"]


def test_another_untaken_branch_lets_an_if_go():
    result = optimize.attempt(untaken("t = Gather<axis=1>(k, zero)"))
    assert [node.op_type for node in result.model.graph.node] == ["Neg", "If"]


def test_changes_that_were_taken_back_are_told_of_no_more():
    allowance = Allowance()
    result = optimize.attempt(untaken("t = Gather<axis=2>(k, zero)"), allowance=allowance)
    assert "If" not in {change.op for change in [*allowance.made, *result.changes]}
