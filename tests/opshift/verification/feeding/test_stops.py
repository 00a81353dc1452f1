"""What stands around a node at which a run stopped: when an engine comes to it, and the sizes that it speaks of."""

import itertools

import numpy as np
import pytest

from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.feeding.stops import LARGEST, Stop, Surroundings, before, crossings, marked, names, stop
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


# --- what an engine says ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("nothing", Stop(-1, (), "nothing")),
        ("in ~3~ of ~12~: 7 by 512", Stop(12, (7, 512), "in  of : # by #")),
        ("x.cc:99 Status Message: axis 3: 4 != 5", Stop(-1, (4, 5), " : # != #")),
        ("float32 int64 uint8 dimension 2 operand1 is v1.5 a9 9a", Stop(-1, (), "     is v1.5 a9 9a")),
        ("1234567 12345678", Stop(-1, (1234567,), "# #")),
        ("  two\n  lines 6", Stop(-1, (6,), "two lines #")),
    ],
)
def test_what_an_error_tells(said, expected):
    assert stop(EngineError(said)) == expected


def test_the_whole_text_of_the_engine_is_read():
    error = EngineError("short")
    error.__context__ = RuntimeError("long ~5~ of 8")
    assert stop(error) == Stop(5, (8,), "long  of #")


def test_nodes_are_named_by_their_numbers_in_branches_too():
    text = "a = Neg(x) y = If(c) <then_branch = t () => (p) { p = Abs(a) }, else_branch = e () => (q) { q = Neg(a) }>"
    of = model(text, 17, inputs="float[2] x, bool c", outputs="float[2] y")
    made = marked(of)
    assert [node.name for node in of.graph.node] == ["", ""]
    held = [made.graph.node[0], made.graph.node[1], *(node for a in made.graph.node[1].attribute for node in a.g.node)]
    assert sorted(node.name for node in held) == ["~0~", "~1~", "~2~", "~3~"]


@pytest.mark.parametrize("engine", [OnnxRuntime, Reference])
def test_both_engines_tell_where_they_stop(engine):
    of = marked(
        model("a = Neg(x) b = Concat<axis = 0>(a, x) y = Add(b, x)", 17, inputs="float[N] x", outputs="float[M] y")
    )
    with pytest.raises(EngineError) as told:
        engine(of).run({"x": np.ones(3, np.float32)})
    assert stop(told.value).reached == 2


def test_names_tell_as_much_as_marks():
    """Of nodes inside others, too; numbers in a name are none of the engine's."""
    text = "a = Neg(x) y = If(c) <then_branch = t () => (p) { p = MatMul(a, z) }, else_branch = e () => (q) { q = Neg(a) }>"
    of = model(text, 17, inputs="float[N,M] x, float[K,L] z, bool c", outputs="float[A,B] y")
    assert names(of) is None
    inner = [node for held in of.graph.node[1].attribute for node in held.g.node]
    for node, name in zip([*of.graph.node, *inner], ["/a/Neg_17", "If.3", "then/MatMul 5", "else"], strict=True):
        node.name = name
    known, found = names(of), []
    assert sorted(known.values()) == [0, 1, 2, 3]
    feeds = {"x": np.ones((2, 3), "f4"), "z": np.ones((4, 5), "f4"), "c": np.array(True)}
    for form, held in ((marked(of), None), (of, known)):
        with pytest.raises(EngineError) as told:
            OnnxRuntime(form).run(feeds)
        found.append(stop(told.value, held))
    assert found[0] == found[1]
    assert found[0].reached == known["then/MatMul 5"]
    for other in ("", "it's", "If.3"):
        inner[0].name = other
        assert names(of) is None


# --- the part before a node ---------------------------------------------------------------------------------


def test_a_part_yields_what_a_node_takes_and_holds_no_more():
    of = model("a = Neg(x) u = Abs(x) b = Exp(a) y = Mul(b, b) z = Add(b, w)", 17, constants="float w = {1}", **IO)
    part = before(of, 3)
    assert [node.output[0] for node in part.graph.node] == ["a", "b"]
    assert [value.name for value in part.graph.output] == ["b"]
    assert [value.name for value in before(of, 4).graph.output] == ["b"]
    assert before(of, 0) is before(of, 5) is None
    assert len(of.graph.node) == 5


def test_a_part_has_what_its_branches_read():
    text = "a = Neg(x) b = If(c) <then_branch = t () => (p) { p = Abs(a) }, else_branch = e () => (q) { q = Exp(x) }> y = Neg(b)"
    part = before(model(text, 17, inputs="float[2] x, bool c", outputs="float[2] y"), 2)
    assert [node.op_type for node in part.graph.node] == ["Neg", "If"]


# --- what a node hangs on -----------------------------------------------------------------------------------

TWO = {"inputs": "float[N] x, float[M] z, bool c", "outputs": "float[A] y"}


@pytest.mark.parametrize(
    ("body", "at", "expected"),
    [
        ("a = Neg(x) b = Abs(z) y = Add(a, b)", 0, "x"),
        ("a = Neg(x) b = Abs(z) y = Add(a, b)", 1, "z"),
        ("a = Neg(x) b = Abs(z) y = Add(a, b)", 2, "xz"),
        ("a = Neg(w) y = Add(a, x)", 0, "xzc"),  # on none of them: on any
        ("a = Neg(w) y = Add(a, x)", 7, "xzc"),
        ("a = Neg(w) y = Add(a, x)", -1, "xzc"),
    ],
)
def test_the_inputs_that_a_node_hangs_on(body, at, expected):
    around = Surroundings(model(body, 17, constants="float w = {1}", **TWO))
    assert around.causes(at, ["x", "z", "c"]) == set(expected)


def test_a_node_in_a_branch_hangs_on_what_leads_there():
    text = "a = Neg(x) y = If(c) <then_branch = t () => (p) { q = Abs(a) p = Neg(q) }, else_branch = e () => (r) { r = Exp(z) }>"
    around = Surroundings(model(text, 17, **TWO))
    numbered = {node.output[0]: number for number, node in enumerate(around._numbered)}
    everything = {"x", "z", "c"}
    assert around.causes(numbered["a"], everything) == {"x"}
    assert around.causes(numbered["q"], everything) == everything, "the If reads them"
    assert around.progress(numbered["q"]) == (1, 0)
    assert around.progress(numbered["p"]) == (1, 1)
    assert around.progress(numbered["y"]) == (1,)


def test_the_sizes_of_constants():
    body = "c = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() a = MatMul(x, w) y = Add(a, c)"
    around = Surroundings(model(body, 17, constants="float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}", **IO))
    assert [around.held(at) for at in range(3)] == [(), (4, 3), (2, 3)]


def test_numbers_of_a_node_are_sizes():
    constants = f"int64[3] s = {{-1, {LARGEST}, {LARGEST + 1}}}, int64[1] t = {{1}}"
    around = Surroundings(model("y = Reshape(x, s) z = Reshape(x, t)", 17, constants=constants, **IO))
    assert around.numbers(0) == [3, LARGEST]
    assert around.numbers(1) == []


# --- where numbers meet -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "numbers", "other", "others", "power", "expected"),
    [
        (4, (4, 16), 8, (8, 16), 1, [16, 17]),
        (4, (2, 16), 8, (4, 16), 1, [32, 33]),
        (4, (1, 10), 8, (4, 10), 1, [16, 17]),
        (4, (5, 10), 8, (10, 10), 1, [8, 9]),
        (4, (4, 16), 4, (8, 16), 1, []),
        (4, (4, 16), 8, (8, 16, 1), 1, []),
        (4, (4, 16), 8, (8, 17), 1, []),
        (4, (4, 16), 8, (4, 16), 1, []),
        (4, (9, 1), 8, (8, 1), 1, [36, 37]),
        (4, (4, -16), 8, (8, -16), 1, []),
        (4, (4, LARGEST - 1), 8, (8, LARGEST - 1), 1, [LARGEST - 1, LARGEST]),
        (4, (4, LARGEST), 8, (8, LARGEST), 1, [LARGEST]),
        (4, (16, 256), 8, (64, 256), 2, [24, 25, 16]),
        (4, (16, 300), 8, (64, 300), 2, [28, 29, 18, 32, 16]),
        (4, (16, 300), 8, (0, 300), 2, []),
    ],
)
def test_sizes_at_which_what_grows_meets_what_does_not(size, numbers, other, others, power, expected):
    found = crossings(size, Stop(1, numbers, "t"), other, Stop(1, others, "t"), power)
    assert found == expected
    assert crossings(size, Stop(1, numbers, "t"), other, Stop(1, others, "other"), power) == []
