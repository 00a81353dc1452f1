"""What is done for a backend that lacks the operator of what is written out."""

import numpy as np
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend
from opshift.passes.goals import Goal

from opshift.trying.remedies import AS_IT_IS, EXPAND, FLOAT, UNROLL, Remedies
from opshift.trying.search import Remedy
from tests.support import evaluate, model

SCANNED = """
  s, y = Scan<num_scan_inputs = 1, scan_output_directions = [1], body = step (float[3] a, float[3] b) => (float[3] c, float[3] d) {
    c = Add(a, b) d = Mul(a, b) }>(x, z)
"""


def test_a_scan_that_is_lacked_is_written_out_and_becomes_no_loop():
    io = {"inputs": "float[3] x, float[4,3] z", "outputs": "float[3] s, float[4,3] y"}
    source = model(SCANNED, 18, **io)
    remedies = Remedies(source, Goal(backend=Backend("made up", opset=18, lacks={("", "Scan"): 1})), None)
    assert [remedy.what for remedy in remedies.helps("Loop") if remedy.kind == UNROLL] == ["Scan", "Loop"]
    lowered = remedies.apply(frozenset()).model
    assert "Loop" in {node.op_type for node in lowered.graph.node}
    made = remedies.apply(frozenset({Remedy(1, UNROLL, "Scan")})).model
    assert {"Loop", "Scan"}.isdisjoint(node.op_type for node in made.graph.node)
    feeds = {"x": np.arange(3, dtype=np.float32), "z": np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)}
    for expected, found in zip(evaluate(source, feeds), evaluate(made, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_hangs_on_a_rank_is_expanded_once_the_rank_follows():
    body = """
      s, a = Loop(m, c, x) <body = step (int64 i, bool go, v) => (bool on, w, t) { on = Identity(go) w = Neg(v) t = Add(v, v) }>
      y = ReverseSequence<time_axis = 0, batch_axis = 1>(a, lengths)
    """
    constants = "int64 m = {2}, bool c = {1}, int64[3] lengths = {1, 2, 2}"
    source = model(body, 18, inputs="float[3] x", outputs="float[2,3] y", constants=constants)
    remedies = Remedies(source, Goal(backend=Backend("made up", opset=18)), None)
    plan = frozenset({AS_IT_IS, Remedy(1, EXPAND, "ReverseSequence"), Remedy(1, UNROLL, "Loop")})
    made = remedies.apply(plan).model
    assert {"Loop", "ReverseSequence"}.isdisjoint(node.op_type for node in made.graph.node)
    feeds = {"x": np.array([1, -2, 0.5], np.float32)}
    np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])


def test_what_the_file_lacks_may_be_expanded_where_the_file_is_left_aside():
    source = model("y = HardSwish(x)", 18, inputs="float[3] x", outputs="float[3] y")
    remedies = Remedies(source, Goal(backend=Backend("made up", opset=18, lacks={("", "HardSwish"): 1})), None)
    assert next(remedies.general()) == Remedy(1, EXPAND, "HardSwish", "expand HardSwish")


def test_types_that_fail_are_left_to_be_tried_where_nothing_takes_their_place():
    body = "a = Cast<to = 6>(x) p = MatMul(a, a) h = HardSwish(z) y = Add(p, p)"
    io = {"inputs": "uint8[3,3] x, double[3] z", "outputs": "int32[3,3] y, double[3] h"}
    said = {"MatMul": "2; T: float, not int32", "HardSwish": "1; T: float, not double"}
    measured = {("", op): measurements.read(op, text) for op, text in said.items()}
    source = model(body, 18, **io)
    goal = Goal(backend=Backend("made up", opset=18, measured=measured))
    remedies = Remedies(source, goal, None)
    calls = {node.op_type for node in remedies.apply(frozenset()).model.graph.node}
    assert "MatMul" in calls
    assert "HardSwish" not in calls  # which is expanded
    made = remedies.apply(frozenset({Remedy(1, FLOAT, "MatMul")})).model
    feeds = {"x": np.arange(247, 256, dtype=np.uint8).reshape(3, 3), "z": np.array([-4.0, 0.5, 2.0])}
    np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])
