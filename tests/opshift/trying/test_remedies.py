"""What is done for a backend that lacks the operator of what is written out."""

import numpy as np
from opshift.passes.backends.backend import Backend
from opshift.passes.goals import Goal

from opshift.trying.remedies import UNROLL, Remedies
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
    lowered = remedies.made(frozenset()).model
    assert "Loop" in {node.op_type for node in lowered.graph.node}
    made = remedies.made(frozenset({Remedy(1, UNROLL, "Scan")})).model
    assert {"Loop", "Scan"}.isdisjoint(node.op_type for node in made.graph.node)
    feeds = {"x": np.arange(3, dtype=np.float32), "z": np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)}
    for expected, found in zip(evaluate(source, feeds), evaluate(made, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)
