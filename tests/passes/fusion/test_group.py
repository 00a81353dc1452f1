"""The nodes above a result as far as what is wanted: none that others than the definition are made of."""

from itertools import pairwise

import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.group import LARGEST, Grouping, Uses
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.terms import Terms

from tests.support import model

IO = {"inputs": "float[2,3] x, float[2,3] w", "outputs": "float[A,B] y"}


def walked(body, taken=(), wanted="x", kind=1):
    source = model(body, 18, domains='"my" : 1', constants="float half = {0.5}, int64[1] one = {1}", **IO)
    reader = Reader(Terms(), Scope(source.graph, Context(source, source), 18, path=()), RULES)
    for node in source.graph.node:
        reader.read(node)
    grouping = Grouping(reader, Uses(source.graph))
    found = grouping._walk(len(source.graph.node) - 1, False, {reader.term(wanted): kind}, taken)
    if found is None:
        return None
    inside, names, doubled = found
    assert doubled == []
    assert names == {reader.term(wanted): wanted}
    return sorted(inside)


def chain(length, op="Sin"):
    names = ["x", *(f"t{k}" for k in range(length - 1)), "y"]
    return " ".join(f"{made} = {op}({read})" for read, made in pairwise(names))


@pytest.mark.parametrize(
    ("body", "inside"),
    [
        ("y = Sin(x)", [0]), ("t = Sin(x) y = Cos(t)", [0, 1]), ("t = Sin(x) y = Mul(t, x)", [0, 1]), ("t = Sin(x) y = Mul(t, half)", [0, 1]), ("t = Clip(x, , half) y = Sin(t)", [0, 1]),
        ("o = Sin(w) t = Sin(x) y = Cos(t)", [1, 2]), ("t, u = Split<num_outputs=2>(x) y = Add(t, u)", [0, 1]),
        ("y = Mul(x, w)", None), ("t = my.Sin(x) y = Cos(t)", None), ("t, i = TopK(x, one) y = Cos(t)", None),
        ("h = Cast<to=10>(x) t = Cast<to=1>(h) y = Mul(t, x)", None), ("h = Cast<to=10>(x) s = Sin(h) t = Cast<to=1>(s) y = Cos(t)", None),
    ],
)  # fmt: skip
def test_how_far_is_walked(body, inside):
    assert walked(body) == inside


def test_nodes_that_are_taken_and_values_of_another_type_are_not_walked_through():
    body = "t = Sin(x) y = Cos(t)"
    assert walked(body, taken={0}) is None
    assert walked(body, taken={1}) == [0, 1], "the result itself is what is asked for"
    assert walked(body, kind=10) is None


def test_no_more_is_walked_than_a_definition_has():
    assert walked(chain(LARGEST)) == list(range(LARGEST))
    assert walked(chain(LARGEST + 1)) is None
