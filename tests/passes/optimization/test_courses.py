"""Ifs and Loops whose course is known stand outside of themselves, where their values may."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
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
