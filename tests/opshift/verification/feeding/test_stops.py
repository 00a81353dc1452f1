"""What stands around a node at which a run stopped: when an engine comes to it, and the sizes that it speaks of."""

import itertools

import pytest

from opshift.verification.feeding.stops import Surroundings
from tests.support import model

IO = {"inputs": "float[N,4] x", "outputs": "float[A,B] y"}


def number(of, name):
    return next(index for index, node in enumerate(of.graph.node) if name in node.output)


def test_an_engine_comes_to_a_node_after_what_it_needs():
    """Of diamonds in a row, and of nodes that do not stand in order."""
    body = "a = Neg(x) b = Exp(a) c = Abs(a) d = Add(b, c) e = Exp(d) f = Abs(d) y = Add(e, f) z = Add(a, y)"
    of = model(body, 17, **{**IO, "outputs": "float[A,B] z"})
    for shuffled in ([0, 1, 2, 3, 4, 5, 6, 7], [7, 5, 6, 3, 4, 1, 2, 0]):
        nodes = [of.graph.node[at] for at in shuffled]
        other = type(of)()
        other.CopyFrom(of)
        del other.graph.node[:]
        other.graph.node.extend(nodes)
        around = Surroundings(other)
        places = [around.progress(index) for index in range(8)]
        assert sorted(places) == [(place,) for place in range(8)], "each once"
        made = {node.output[0]: place for node, place in zip(nodes, places, strict=True)}
        for node in nodes:
            assert all(made[name] < made[node.output[0]] for name in node.input if name in made)
    assert around.progress(8) == around.progress(-1) == ()


@pytest.mark.parametrize(
    ("body", "constants", "expected"),
    [
        ("y = DepthToSpace<blocksize=3>(x)", "", {3, 6, 9}),  # of one, of both, of a block
        ("y = Split<axis=1>(x, s)", "int64[2] s = {33, 31}", {2, 33, 31, 64, 33 * 31}),
        ("y = MatMul(x, w)", "float[2,3] w = {1, 2, 3, 4, 5, 6}", {2, 3}),
        ("y = Relu(x)", "", set()),
    ],
)
def test_a_node_speaks_of_sizes(body, constants, expected):
    around = Surroundings(model(body, 17, constants=constants, **IO))
    assert set(around.numbers(0)) >= expected
    assert bool(around.numbers(0)) == bool(expected)
    assert around.numbers(-1) == around.numbers(1) == []


def test_sizes_that_stand_in_small_vectors_are_told_by_how_often_they_do():
    long = ", ".join(map(str, itertools.repeat(77, 100)))
    constants = "int64[3] a = {-1, 80, 7}, int64[2] b = {80, 1}, int32[1] c = {55}, float[1] d = {44}, "
    constants += f"int64[100] e = {{{long}}}"
    assert Surroundings(model("y = Reshape(x, a)", 17, constants=constants, **IO)).written == [80, 7]
