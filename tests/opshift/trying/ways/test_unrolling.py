"""Loops and Scans written out: what they yield is what onnxruntime makes of them as they are."""

import numpy as np
import onnx
import pytest

from opshift.trying.ways.unrolling import unroll
from opshift.verification.engines import OnnxRuntime
from tests.support import evaluate, model

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
COUNTED = """
  b, s = Loop(m, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] r) {
    f = Cast<to = 1>(i) w = Add(v, f) r = Mul(w, a) on = Identity(go) }>
  y = Identity(b) z = Identity(s)
"""
UNTIL = """
  n, b = Loop(, c, k, a) <body = turn (int64 i, bool go, int64 n0, float[3] v) => (bool on, int64 n1, float[3] w) {
    one = Constant<value_int = 1>() n1 = Add(n0, one) w = Add(v, v) on = Less(n1, most) }>
  y = Identity(b)
"""
AS_LONG = """
  b, t = Loop(, c, a, x) <body = turn (int64 i, bool go, float[3] v, float[4,3] u) => (bool on, float[3] w, float[4,3] u) {
    q = Shape(u) zero = Constant<value_int = 0>() h = Gather(q, zero) two = Constant<value_int = 2>()
    n = Add(i, two) on = Less(n, h) w = Add(v, v) }>
  y = Identity(b)
"""
SCAN = """
  h, s = Scan(a, {scanned}) <{attributes}, body = turn (float[3] v, float[3] e) => (float[3] w, float[3] r) {{
    w = Add(v, e) r = Mul(w, e) }}>
  y = Identity(h) z = Identity(s)
"""


def check(body, opset, op, *, outputs="float[] y", inputs="float[4,3] x", constants="", a="a = Gather(x, at)"):
    constants = f"int64 at = {{0}}, bool c = {{1}}{', ' if constants else ''}{constants}"
    of = model(f"{a} {body}", opset, inputs=inputs, outputs=outputs, constants=constants)
    for value in of.graph.output:
        value.ClearField("type")
    made, changes = unroll(of, op)
    assert changes
    assert op not in [node.op_type for node in made.graph.node]
    onnx.checker.check_model(made)
    names = [node.name for node in made.graph.node if node.name]
    assert len(names) == len(set(names))
    for one, other in zip(OnnxRuntime(of).run({"x": X}), OnnxRuntime(made).run({"x": X}), strict=True):
        np.testing.assert_array_equal(one, other)
    return made


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("turns", [2, 5])
def test_turns_that_are_counted(opset, turns):
    made = check(COUNTED, opset, "Loop", outputs="float[] y, float[] z", constants=f"int64 m = {{{turns}}}")
    assert [node.op_type for node in made.graph.node].count("Mul") == turns


@pytest.mark.parametrize("most", [1, 4])
def test_turns_until_a_condition_of_constants(most):
    made = check(UNTIL, 13, "Loop", constants=f"int64 k = {{0}}, int64 most = {{{most}}}")
    assert [node.op_type for node in made.graph.node].count("Add") == most


def test_turns_that_hang_on_a_size():
    made = check(AS_LONG, 13, "Loop")
    assert [node.op_type for node in made.graph.node].count("Add") == 3


@pytest.mark.parametrize(
    ("attributes", "scanned"),
    [
        ("num_scan_inputs = 1", "x"),
        ("num_scan_inputs = 1, scan_input_directions = [1]", "x"),
        ("num_scan_inputs = 1, scan_output_directions = [1], scan_output_axes = [1]", "x"),
        ("num_scan_inputs = 1, scan_input_axes = [-1]", "t"),
    ],
)
def test_scans(attributes, scanned):
    body = SCAN.format(attributes=attributes, scanned=scanned)
    transposed = "a = Gather(x, at) t = Transpose(x)"
    made = check(body, 13, "Scan", outputs="float[] y, float[] z", a=transposed)
    assert [node.op_type for node in made.graph.node].count("Mul") == 4


SEQUENCES = """
  q = SequenceConstruct(a)
  s = Loop(m, c, q) <body = turn (int64 i, bool go, seq(float[3]) v) => (bool on, seq(float[3]) w) {
    on = Identity(go) w = SequenceInsert(v, a) }>
  y = ConcatFromSequence<axis = 0>(s)
"""
DRAWN = """
  r = RandomUniform<shape = [1], low = 1.0, high = 9.0>() k = Cast<to = 7>(r)
  y = Loop(k, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) { on = Identity(go) w = Neg(v) }>
"""
UNTIL_DRAWN = """
  y = Loop(, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
    r = RandomUniform<shape = [1]>() h = Constant<value_float = 0.5>() on = Less(r, h) w = Neg(v) }>
"""


def test_sequences_are_carried_where_they_can_be_repeated():
    made = check(SEQUENCES, 14, "Loop", constants="int64 m = {3}")
    assert [node.op_type for node in made.graph.node].count("SequenceInsert") == 3


def test_names_of_nodes_stay_apart():
    body = COUNTED.replace("w = Add(v, f)", "[sum] w = Add(v, f)")
    made = check(body, 13, "Loop", outputs="float[] y, float[] z", constants="int64 m = {3}")
    assert len([node.name for node in made.graph.node if node.op_type == "Add" and node.name]) == 3


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (COUNTED, "float[4,3] x, int64 m"),
        (UNTIL.replace("Less(n1, most)", "Less(n1, m)"), "float[4,3] x, int64 m"),
        (AS_LONG, "float[N,3] x"),
        (COUNTED.replace("Loop(m, c, a)", "Loop(k, c, a)"), "float[4,3] x"),
        (SCAN.format(attributes="num_scan_inputs = 1", scanned="x"), "float[N,3] x"),
        (SEQUENCES, "float[4,3] x"),
        (DRAWN, "float[4,3] x"),
        (UNTIL_DRAWN, "float[4,3] x"),
    ],
)
def test_where_nobody_knows_how_many_or_they_are_too_many_it_stays(body, inputs):
    constants = "int64 at = {0}, bool c = {1}, int64 most = {3}"
    constants += "" if "k = " in body else ", int64 k = {100000}"
    constants += "" if "int64 m" in inputs else ", int64 m = {3}"
    of = model(f"a = Gather(x, at) {body}", 13, inputs=inputs, outputs="float[] y", constants=constants)
    for op in ("Loop", "Scan"):
        assert unroll(of, op) == (of, [])


def test_turns_that_hang_on_what_is_written_out():
    body = """
      s, a = Loop(m, c, x) <body = first (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] t) {
        on = Identity(go) w = Neg(v) t = Add(v, v) }>
      z = Shape(a) k = Gather(z, first)
      r = Loop(k, c, x) <body = second (int64 j, bool go2, float[3] p) => (bool on2, float[3] q) {
        on2 = Identity(go2) q = Mul(p, p) }>
      y = Add(r, s)
    """
    constants = "int64 m = {2}, bool c = {1}, int64 first = {0}"
    source = model(body, 18, inputs="float[3] x", outputs="float[3] y", constants=constants)
    made, _ = unroll(source, "Loop")
    assert "Loop" not in {node.op_type for node in made.graph.node}
    given = {"x": np.array([1, -2, 0.5], np.float32)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])
