"""What is known of each call: read, believed, or unknown with the reason."""

import pytest
from opshift.passes.backends.backend import Backend, Measured
from opshift.passes.backends.knowledge import BELIEVED, READ, UNKNOWN, known

from tests.support import model

RELU = ("", "Relu")
BRANCH = """
    c = Constant<value = bool {1}>()
    y = If(c)<then_branch = g () => (a) { a = Relu(x) }, else_branch = h () => (b) { b = Relu(x) }>
"""


def found(body, shape="2,3", obstacles=(), opset=13, domains="", **facts):
    of = model(
        body, opset, inputs=f"float[{shape}] x", outputs="float[] y", **({"domains": domains} if domains else {})
    )
    return [tuple(call) for call in known(of, Backend("npu-1", **facts), None, obstacles)]


def measured(ranks, symbolic=False):
    return {"measured": {RELU: Measured(ranks, symbolic)}}


def test_what_was_measured_is_read():
    assert found("y = Relu(x)", **measured((1, 2))) == [("Relu", READ, "")]
    assert found("y = Relu(x)", "N,3", **measured((1, 2), True)) == [("Relu", READ, "")]


def test_ranks_sizes_and_operators_that_were_not_are_unknown():
    assert found("y = Relu(x)", "2,3,4", **measured((1, 2))) == [("Relu", UNKNOWN, "rank 3 was not measured")]
    assert found("y = Relu(x)", "N,3", **measured((1, 2))) == [
        ("Relu", UNKNOWN, "sizes without a number were not measured")
    ]
    assert found("y = Abs(x)", **measured((1, 2))) == [("Abs", UNKNOWN, "it was not measured")]
    body = "s = Shape(x) z = Reshape(x, s) t = my.F(z) y = Relu(t)"
    assert found(body, domains='"my" : 1', **measured((1, 2)))[-1] == (
        "Relu",
        UNKNOWN,
        "the rank of its input is not known",
    )


def test_without_measurements_it_is_believed():
    assert found("y = Relu(x)") == [("Relu", BELIEVED, "")]
    assert found("y = Relu(x)", supports=frozenset({RELU})) == [("Relu", BELIEVED, "")]


@pytest.mark.parametrize("facts", [{}, measured((1, 2))])
def test_domains_of_others_are_unknown_unless_they_are_listed(facts):
    said = found("y = my.F(x)", domains='"my" : 1', **facts)
    assert said == [("my::F", UNKNOWN, "nothing is said of my")]
    listed = {**facts, "supports": frozenset({("my", "F")})}
    assert found("y = my.F(x)", domains='"my" : 1', **listed) == [("my::F", BELIEVED, "")]


def test_calls_in_branches_count_and_what_is_lacked_does_not():
    assert found(BRANCH, **measured((2,)))[-2:] == [("Relu", READ, "")] * 2
    assert found("y = Relu(x)", lacks={RELU: 1}) == []
