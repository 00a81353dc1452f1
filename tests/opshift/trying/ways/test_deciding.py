"""Conditions of one element and some axes, which become scalars."""

import numpy as np
import onnx
import pytest

import opshift
from opshift.trying.ways.deciding import scalar
from tests.support import evaluate, model

BRANCHES = "then_branch = t () => (float[2] p) { p = Neg(x) }, else_branch = e () => (float[2] q) { q = Exp(x) }"
IF = f"s = ReduceSum<keepdims=1>(z) c = Greater(s, x1) y = If<{BRANCHES}>(c)"
X = np.float32([1, -2])


def of(body=IF, z="float[1,3] z", more="float[1] x1 = {0}"):
    return model(body, 18, inputs=f"float[2] x, {z}", outputs="float[2] y", constants=more)


@pytest.mark.parametrize("number", [3.0, -3.0])
def test_it_is_the_same(number):
    source, given = of(), {"x": X, "z": np.full((1, 3), number, np.float32)}
    made, changes = scalar(source, "If")
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node] == ["ReduceSum", "Greater", "Squeeze", "If"]
    assert [change.grade for change in changes] == ["exact"]
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])


def test_a_loop_and_what_lies_inside_another_graph():
    loop = "l = Loop<body = b (int64 i, bool[1] k, float[2] v) => (bool[1] o, float[2] w) { o = Identity(k) w = Neg(v) }>(, c, x)"
    inner = f"then_branch = t () => (float[2] p) {{ {loop.replace('l =', 'p =')} }}, else_branch = e () => (float[2] q) {{ q = Exp(x) }}"
    source = of(f"c = Greater(z, x1) d = Squeeze(c) y = If<{inner}>(d)", "float[1] z")
    made, changes = scalar(source, "Loop")
    (held,) = [a.g for a in made.graph.node[-1].attribute if a.name == "then_branch"]
    assert [node.op_type for node in held.node] == ["Squeeze", "Loop"]
    assert len(changes) == 1


@pytest.mark.parametrize(
    "source",
    [
        of(f"c = Greater(z, x1) y = If<{BRANCHES}>(c)", "float z", "float x1 = {0}"),
        of(f"n = own.F(z) c = Cast<to=9>(n) y = If<{BRANCHES}>(c)".replace("own.F", "Squeeze"), "float[N,M] z"),
    ],
    ids=["a scalar", "nobody knows"],
)
def test_what_is_a_scalar_or_not_known_stays(source):
    assert scalar(source, "If") == (source, [])


@pytest.mark.long
def test_openvino_runs_it():
    """It says "Rank of If condition input must be equal to 0 or 1", as its target file does, so that there is nothing to learn."""
    pytest.importorskip("openvino")
    found = opshift.try_in(of(), "openvino").tried
    assert found.agrees
    assert not found.learnt
