"""Values by what reads them: which numbers and turns are lacking, how they are watched, and what stands in their place."""

import math

import numpy as np
import onnx
import pytest
from opshift.passes.records import replace

from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.places import beyond, unreached
from opshift.verification.places.unreached import Spot
from tests.support import model

INF = math.inf
IO = {"inputs": "float[N,4] x, int64 r, bool b", "outputs": "float[N,4] y"}
HELD = "float k = {2}, float n = {0}, int64 one = {1}"
LOOP = """l = Loop(%s) <body = g (int64 i, bool c, float[N,4] p) => (bool d, float[N,4] q, float[N,4] s) {
    d = Identity(c) q = Neg(p) s = Abs(p) }>"""


def held(body, opset=17, **named):
    return model(body, opset, **{**IO, "constants": HELD, **named})


def test_numbers_that_were_seen_are_no_more_wanted():
    spot = Spot("v", "n", "Clip", {(-INF, -1), (-1, 2), (2, INF)})
    spot.see([INF, -INF])
    assert len(spot.wanted) == 3, "nothing was seen of what is empty"
    spot.see([0, 2])
    assert spot.wanted == {(-INF, -1), (2, INF)}, "a line belongs to neither side"
    spot.see([-1, -1])
    assert spot.wanted == {(-INF, -1), (2, INF)}
    spot.see([5, 5])
    assert (spot.wanted, spot.is_open) == ({(-INF, -1)}, True)
    spot.see([-9, 9])
    assert (spot.wanted, spot.is_open) == (set(), False)


def test_turns_that_were_made_are_counted():
    spot = Spot("v", "n", "Loop", turns=0)
    assert (spot.is_open, spot.lacking, spot.done) == (True, 'Loop "n" made no turn', 'Loop "n" turns')
    spot.see([1])
    assert (spot.turns, spot.is_open, spot.lacking) == (1, True, "")
    spot.see([0])
    assert spot.turns == 1
    spot.see([2])
    assert (spot.turns, spot.is_open) == (2, False)


def test_what_is_said_of_numbers():
    spot = Spot("v", "n", "Clip", {(2, INF), (-INF, -1), (-1, 2)})
    assert spot.lacking == 'Clip "n" was given no numbers below -1 and between -1 and 2 and above 2'
    assert spot.done == 'Clip "n" is given numbers below -1 and between -1 and 2 and above 2'
    relu, loop = Spot("a", "m", "Relu", {(0, INF)}), Spot("l", "l", "Loop", turns=1)
    why = 'Relu "m" was given no numbers above 0'
    end = ": what is computed of them is not proved"
    assert unreached.told([loop]) == unreached.told([]) == ()
    assert unreached.told([loop, relu]) == (why + end,)
    assert unreached.told([relu, spot, relu]) == (f"{why}, and 2 more of the kind{end}",)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = Relu(x)", {"x": ("y", "Relu")}),
        ("a = Sin(x) c = Relu(a) d = Clip(a, n, k) y = Add(c, d)", {"a": ("c", "Relu")}),
        ("a = Add(r, one) c = Greater(r, one) f = Cast<to = 1>(c) y = Add(x, f)", {"r": ("c", "Greater")}),
        ("a = Exp(n) c = Relu(a) y = Add(x, c)", {}),
        ("s = Shape(x) c = Relu(s) t = Slice(c, o, p) y = Expand(x, t)", {}),
        ("a = Identity(x) y = own.Relu(a)", {}),
        ("y = Neg(x)", {}),
        ("a = Sin(x) c = Clip(a, m, e) y = Add(c, x)", {"a": ("c", "Clip")}),
        ("c = Greater(x, k) y = Where(c, x, k)", {"x": ("c", "Greater"), "c": ("y", "Where")}),
    ],
)
def test_which_values_are_watched(body, found):
    """What no input decides is not, nor what is computed of sizes, nor numbers that a value never has."""
    more = f"{HELD}, int64[1] o = {{0}}, int64[1] p = {{2}}, float m = {{-5}}, float e = {{7}}"
    form = held(body, domains='"own" : 1', constants=more)
    spots = unreached.spots(form, form, ())
    assert {spot.value: (spot.node, spot.op) for spot in spots} == found
    assert all(spot.turns is None and spot.wanted for spot in spots)


def test_nodes_are_called_by_their_names_and_both_forms_count():
    one, other = held("a = Sin(x) y = Relu(a)"), held("a = Sin(x) y = Clip(a, n, half)", constants=f"{HELD}, float half = {{0.5}}")  # fmt: skip
    one.graph.node[1].name = "bend"
    (spot,) = unreached.spots(one, other, ())
    assert (spot.node, spot.pieces) == ("bend", {(-1, 0), (0, 1), (0, 0.5), (0.5, 1)}), "a sine is within 1"
    assert unreached.spots(one, other, ["x"]) == [], "what a user gives decides"


@pytest.mark.parametrize(("opset", "count"), [(7, 0), (8, 1), (17, 1)])
def test_what_engines_cannot_watch_is_not(opset, count):
    form = model("y = Relu(x)", opset, inputs="float[2] x", outputs="float[2] y")
    assert len(unreached.spots(form, form, ())) == count


@pytest.mark.parametrize(
    ("inputs", "watched"),
    [("r, b, x", True), ("r, , x", True), (", b, x", True), ("one, b, x", True), ("one, , x", False), (", , x", False)],
)
def test_a_loop_turns_as_often_as_something_tells(inputs, watched):
    form = held(f"{LOOP % inputs} y = Add(l, x)")
    form.graph.node[0].output.append("rows")
    assert [(spot.value, spot.node, spot.turns) for spot in unreached.spots(form, form, ())] == [("l", "l", 0)][
        :watched
    ]


@pytest.mark.parametrize(
    ("body", "leading"),
    [
        ("c = Greater(x, k) d = Not(c) l = Loop(r, d, x) <body = {b}> y = Add(l, x)", {"d", "c", "r"}),
        ("d = Not(b) l = Loop(r, d, x) <body = {b}> f = Cast<to = 1>(d) y = Add(l, f)", {"r"}),
        ("d = Not(b) y = Loop(r, d, x) <body = {b}>", {"r", "d", "b"}),
        ("d = Abs(r) y = Loop(d, b, x) <body = {b}>", {"d", "b"}),
    ],
)
def test_what_does_nothing_but_decide(body, leading):
    inner = "g (int64 i, bool c, float[N,4] p) => (bool e, float[N,4] q) { e = Identity(c) q = Neg(p) }"
    assert unreached._leading(held(body.replace("{b}", inner)).graph) - {"c"} == leading - {"c"}


def test_pieces_are_cut_to_what_is_possible():
    within = unreached.within
    assert within({(-INF, 0), (0, INF)}, (-1, 2)) == {(-1, 0), (0, 2)}
    assert within({(-INF, 0), (0, INF)}, (0, 3)) == {(0, 3)}
    assert within({(0, 1e-5)}, (-INF, INF)) == set()
    assert within({(0, 2e-5)}, (-INF, INF)) == {(0, 2e-5)}
    assert within({(-INF, INF)}, (-INF, INF)) == {(-INF, INF)}
    assert within({(5, 6)}, (0, 1)) == set()


def test_watched_values_are_told_beside_the_outputs():
    form = held(f"a = Add(x, k) c = Relu(a) {LOOP % 'r, b, x'} y = Add(l, c)")
    spots = [Spot("a", "c", "Relu", {(-INF, 0), (0, INF)}), Spot("l", "l", "Loop", turns=0)]
    before = form.SerializeToString()
    shown, told = unreached.watched(form, spots)
    assert form.SerializeToString() == before
    given = {"x": np.float32([[1, 2, -7, 0]]), "r": np.array(3), "b": np.array(True)}
    for name in told:
        shown.graph.output.add(name=name)
    _, numbers, turns = OnnxRuntime(shown).run(given)
    assert (numbers.tolist(), turns.tolist()) == ([-5, 4], [0, 1, 2])
    assert unreached.see(spots, [numbers, turns])
    assert (spots[0].wanted, spots[1].turns) == (set(), 3)
    assert not unreached.see(spots, [])
    assert not unreached.see(spots, [numbers])
    assert unreached.watched(form, []) == (form, [])


def test_nothing_is_seen_of_what_is_empty():
    form = held("a = Add(x, k) y = Relu(a)")
    shown, (name,) = unreached.watched(form, [Spot("a", "y", "Relu", {(0, INF)})])
    shown.graph.output.add(name=name)
    given = {"x": np.zeros((0, 4), np.float32), "r": np.array(3), "b": np.array(True)}
    assert OnnxRuntime(shown).run(given)[1].tolist() == [INF, -INF]


# --- numbers in the place of others -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "turning"),
    [(np.array(False), True), (np.int64(0), 3), (np.int64(7), 7), (np.array([5]), [5]), (np.array([2]), [3])],
)
def test_a_loop_is_made_to_turn(value, turning):
    made = beyond._turning(np.asarray(value))
    assert (made.tolist(), made.dtype, made.shape) == (turning, np.asarray(value).dtype, np.asarray(value).shape)


def stretched(value, *wanted):
    return beyond._stretched(value, Spot("v", "n", "Clip", set(wanted)), np.random.default_rng(3))


def test_every_other_number_is_one_that_is_wanted():
    value = np.arange(12, dtype=np.float32).reshape(3, 4) + 100
    kept = value.copy()
    made = stretched(value, (2, INF), (-INF, -8), (-1, 1)).reshape(-1)
    assert value.tolist() == kept.tolist()
    assert made.dtype == np.float32
    assert made[3::4].tolist() == kept.reshape(-1)[3::4].tolist()
    assert (made[0::4] <= -8.2).all(), "a tenth of a quarter of the farthest line away, and more"
    assert ((made[1::4] > -1) & (made[1::4] < 1)).all()
    assert (made[2::4] >= 2.2).all()
    assert made[0::4].min() > -8 - 2 * 6
    assert stretched(kept, (0, INF)).shape == (3, 4)
    assert (stretched(np.zeros(8, np.float32), (0, INF))[::2] >= 0.1).all(), "at least a tenth of 1 away"


def test_integers_stay_integers_of_their_type():
    assert stretched(np.zeros(6, np.uint8), (300, INF)).tolist() == [255, 0] * 3
    assert stretched(np.zeros(6, np.int16), (-INF, -70000)).tolist() == [-32768, 0] * 3
    assert set(stretched(np.zeros(40, np.int8), (1, 3))[::2].tolist()) == {1, 2, 3}
    assert stretched(np.zeros(4, bool), (0.5, INF)).tolist() == [True, False] * 2
    assert stretched(np.ones(4, bool), (-INF, 0.5)).tolist() == [False, True] * 2
    for wide in (np.int32, np.int64, np.uint32):
        with pytest.raises(EngineError, match="places and sizes"):
            stretched(np.zeros(2, wide), (0, INF))


def test_a_form_that_is_given_a_value_yields_what_it_would_have_made():
    form = held("a = Sin(x) c = Relu(a) y = Add(c, x)", outputs="float[N,4] y, float[N,4] a")
    form.graph.value_info.add(name="a")
    form.graph.value_info.add(name="c")
    kept = form.SerializeToString()
    made = beyond._cut(form, {"a": np.zeros((2, 4), np.float32), "x": np.zeros((2, 4), np.float32)})
    assert form.SerializeToString() == kept
    assert [list(node.output) for node in made.graph.node] == [["a/computed"], ["c"], ["y"]]
    assert [value.name for value in made.graph.output] == ["y", "a/computed"]
    assert [value.name for value in made.graph.value_info] == ["c"]
    assert [value.name for value in made.graph.input] == ["x", "r", "b", "a"]
    assert made.graph.input[3].type == onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2, 4])
    scalar = beyond._cut(form, {"c": np.float16(2)})
    assert scalar.graph.input[3].type == onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT16, [])


class _Pair:
    """Two forms whose values are the same where they are equal."""

    cast, grade, shown = {}, "close", None

    def __init__(self, one, other):
        from opshift.verification.side import Side

        self.before, self.after = Side(one), Side(other)

    def parted(self, one, other):
        return "" if np.array_equal(one, other) else "they differ"


GIVEN = {"x": np.full((1, 4), 0.25, np.float32), "r": np.array(3), "b": np.array(True)}


def replaced(pair, *spots):
    """What replaces values in two forms, and those spots whose values both have."""
    from opshift.verification.turns import Turns

    hold = beyond.Held(pair.before, pair.after)
    turns = Turns(pair.before, pair.after, more=hold.shown(spots))
    found = hold.able(spots, pair, GIVEN, turns)
    assert hold.able(spots, pair, GIVEN, Turns(pair.before, pair.after)) == found, "what is not at hand is asked for"
    return hold, found


def able(one, other, *spots):
    _, found = replaced(_Pair(held(one), held(other)), *spots)
    return {name: (at.value, at.wanted) for name, at in found.items()}


@pytest.mark.parametrize(
    ("other", "value", "wanted"),
    [
        ("a = Sin(x) v = Add(a, k) y = Relu(v)", "v", {(4, 6)}),
        ("a = Sin(x) u = Add(k, a) y = Relu(u)", "a", {(2, 4)}),
        ("a = Sin(x) v = Sub(a, k) y = Relu(v)", "a", {(2, 4)}),
        ("u = Sin(x) v = Sub(u, k) y = Relu(v)", None, None),
    ],
)
def test_a_value_or_what_it_was_moved_from_is_replaced(other, value, wanted):
    """Of a value that the second form lacks, or has otherwise, what it is computed from by adding."""
    one = "a = Sin(x) v = Add(a, k) y = Relu(v)"
    spot = Spot("v", "y", "Relu", {(4, 6)})
    bounded = replace(spot, wanted={(2.5, 3)})
    if value is None:
        assert able(one, other, spot) == {}
    elif value == "a":  # a sine is never there
        assert able(one, other, spot) == {}
        assert able(one, other, bounded) == {"v": ("a", {(0.5, 1)})}
    else:
        assert able(one, other, spot) == {"v": (value, wanted)}


def test_two_forms_are_given_the_same_numbers():
    one, other = "v = Add(x, k) y = Relu(v)", "v = Add(k, x) y = Abs(v)"
    pair = _Pair(held(one), held(other))
    hold, found = replaced(pair, Spot("v", "y", "Relu", {(-INF, 0)}))
    sides, feeds = hold.sides(list(found.values()))
    assert feeds.keys() == {*GIVEN, "v"}
    assert (feeds["v"][0, ::2] < 0).all()
    assert feeds["v"][0, 1::2].tolist() == [2.25, 2.25]
    for side, expected in zip(sides, (np.maximum(feeds["v"], 0), np.abs(feeds["v"])), strict=True):
        y, computed = side.open().run(feeds)
        assert (y.tolist(), computed.tolist()) == (expected.tolist(), [[2.25] * 4])


def test_what_is_too_large_is_not_replaced(monkeypatch):
    pair = _Pair(*[held("v = Add(x, k) y = Relu(v)")] * 2)
    hold, spots = replaced(pair, Spot("v", "y", "Relu", {(-INF, 0)}))
    found = list(spots.values())
    monkeypatch.setattr(beyond, "_MOST", 16)
    assert hold.sides(found)
    monkeypatch.setattr(beyond, "_MOST", 15)
    with pytest.raises(EngineError, match="too large"):
        hold.sides(found)


@pytest.mark.parametrize(
    ("engines", "watched"),
    [("oo", True), ("or", True), ("ro", True), ("rr", True), ("ov", False), ("vo", False)],
)
def test_what_is_hidden_is_looked_for_in_engines_that_run_what_is_made(engines, watched):
    from opshift.verification import adapters
    from opshift.verification.engines import Reference
    from opshift.verification.feeding.asked import DRAWN
    from opshift.verification.places.hidden import Hidden
    from opshift.verification.side import Side

    named = {"o": OnnxRuntime, "r": Reference, "v": adapters.JUDGES["openvino"]}
    one, other = (Side(held("a = Sin(x) y = Relu(a)"), engine=named[key]) for key in engines)
    hidden = Hidden(one, other, DRAWN)
    assert len(hidden.watched) == watched
    assert (hidden.shown.model is one.model) == (not watched)
