"""Where a run stopped: what the engine says of it, and which inputs the node hangs on."""

import numpy as np
import pytest

from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.feeding.stops import LARGEST, Stop, causes, crossings, name_nodes_by_number, stop
from tests.support import model

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
    made = name_nodes_by_number(of)
    assert [node.name for node in of.graph.node] == ["", ""]
    held = [made.graph.node[0], made.graph.node[1], *(node for a in made.graph.node[1].attribute for node in a.g.node)]
    assert sorted(node.name for node in held) == ["~0~", "~1~", "~2~", "~3~"]


@pytest.mark.parametrize("engine", [OnnxRuntime, Reference])
def test_both_engines_tell_where_they_stop(engine):
    of = name_nodes_by_number(
        model("a = Neg(x) b = Concat<axis = 0>(a, x) y = Add(b, x)", 17, inputs="float[N] x", outputs="float[M] y")
    )
    with pytest.raises(EngineError) as told:
        engine(of).run({"x": np.ones(3, np.float32)})
    assert stop(told.value).reached == 2


# --- what a node depends on ---------------------------------------------------------------------------------


def test_the_inputs_that_a_node_depends_on():
    body = (
        "a = Neg(x) b = Abs(z) d = Add(a, b) e = Neg(w) "
        "f = If(c) <then_branch = t () => (p) { p = Abs(a) }, else_branch = e () => (q) { q = Neg(w) }> y = Add(f, f)"
    )
    of = model(body, 17, inputs="float[N] x, float[M] z, bool c", outputs="float[A] y", constants="float w = {1}")
    assert causes(of, ["x", "z", "c"]) == [{"x"}, {"z"}, {"x", "z"}, set(), {"c", "x"}, {"c", "x"}]


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
        (4, (9, 2), 8, (8, 2), 1, [32, 33]),
        (4, (9, 1), 8, (8, 1), 1, []),
        (4, (4, -16), 8, (8, -16), 1, []),
        (4, (4, LARGEST - 1), 8, (8, LARGEST - 1), 1, [LARGEST - 1, LARGEST]),
        (4, (4, LARGEST), 8, (8, LARGEST), 1, [LARGEST]),
        (4, (16, 256), 8, (64, 256), 2, [16, 24, 25]),
        (4, (16, 300), 8, (64, 300), 2, [18, 32, 16, 28, 29]),
        (4, (16, 300), 8, (0, 300), 2, []),
    ],
)
def test_sizes_at_which_what_grows_meets_what_does_not(size, numbers, other, others, power, expected):
    found = crossings(size, Stop(1, numbers, "t"), other, Stop(1, others, "t"), power)
    assert found == expected
    assert crossings(size, Stop(1, numbers, "t"), other, Stop(1, others, "other"), power) == []
