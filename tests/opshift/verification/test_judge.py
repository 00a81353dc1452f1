"""What a pair of forms says of a run: by which judge, with which ties, and what it tells of its twins."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from opshift.verification import bounds, compare, judge
from opshift.verification.engines import OnnxRuntime, Reference
from opshift.verification.judge import Pair, Verdict
from opshift.verification.judgement import BITS, DIRECT, TOLERANCE, TWINS, Judgement
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerance
from opshift.verification.twins import decisions
from tests.support import model

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
IO = {"inputs": "float[3,4] x", "outputs": "y"}


def pair(one, other=None, grade="close", asked=None, engines=(OnnxRuntime, OnnxRuntime), opset=17, **io):
    sides = [Side(model(body, opset, **{**IO, **io})) for body in (one, other or one)]
    return Pair(*(Side(side.model, engine=engine) for side, engine in zip(sides, engines, strict=True)), grade, asked)


def both(of, **given):
    given = {"x": X, **given}
    return given, of.before.open().run(given), of.after.open().run(given)


def test_what_is_the_same_bit_for_bit_needs_no_twins():
    of = pair("y = Exp(x)")
    verdict = of.judge(*both(of))
    assert verdict == Verdict((Judgement("y", BITS),))
    assert of.twins is None
    assert of.told() == ""


def test_what_twins_say_is_told():
    of = pair(
        "a = Erf(x) b = Gelu(a) y = Mul(b, b)",
        "a = Erf(x) b = Gelu(a) y = Pow(b, t)",
        opset=20,
        constants="float t = {2}",
    )
    given, expected, actual = both(of)
    verdict = of.judge(given, expected, [actual[0] * np.float32(1.0000002)])
    assert [found.judge for found in verdict.outputs] == [TWINS]
    assert of.told() == "4 nodes in numpy or onnx.reference (Erf 2, Gelu 2)"
    of.twins[0].calls.narrow["Op"] = 2
    of.twins[1].calls.narrow["Op"] = 1
    assert of.told().endswith(", 3 nodes as narrow as they are (Op 3)")


def test_where_there_are_no_twins_is_told():
    of = pair("a = RandomNormalLike(x) y = Mul(a, zero)", constants="float zero = {0}")
    verdict = of.judge({"x": X}, [X], [X + np.float32(1e-7)])
    assert [found.judge for found in verdict.outputs] == [DIRECT]
    assert of.told() == "no twins: in float64: RandomNormalLike draws numbers"
    of = Pair(Side(of.before.model, network="n.xml"), of.after, "close")
    assert of.judge({"x": X}, [X], [X + 1]).outputs[0].judge == DIRECT
    assert of.told() == "no twins: a network runs in OpenVINO"


def test_weights_that_are_too_large_have_no_twin(monkeypatch):
    monkeypatch.setattr(judge, "is_too_large", lambda of: len(of.graph.node) == 2)
    for bodies in (("y = Exp(x)", "a = Exp(x) y = Identity(a)"), ("a = Exp(x) y = Identity(a)", "y = Exp(x)")):
        of = pair(*bodies)
        assert of.judge({"x": X}, [X], [X + 1]).outputs[0].judge == DIRECT
        assert of.told() == "no twins: a weight is too large to be widened"


def test_tolerances_go_before_all_bounds():
    of = pair("y = Exp(x) z = Neg(x)", outputs="y, z", asked={"y": Tolerance(atol=0.5)})
    given, expected, actual = both(of)
    verdict = of.judge(given, expected, [actual[0] + np.float32(0.25), actual[1] * np.float32(1.0000001)])
    assert [(found.judge, bool(found.why)) for found in verdict.outputs] == [(TOLERANCE, False), (TWINS, False)]
    assert of.judge(given, expected, [actual[0] + 1, actual[1]]).outputs[0].why
    assert (of.tolerance("y"), of.tolerance("z"), of.tolerance("t")) == (Tolerance(atol=0.5), None, None)
    of = pair("y = Exp(x)", asked={"": Tolerance(1, 1)})
    assert (of.tolerance("y"), of.tolerance("t")) == (Tolerance(1, 1), None)


def test_an_output_of_another_type_is_no_rounding():
    of = pair("y = Exp(x)")
    given, (expected,), _ = both(of)
    (found,) = of.judge(given, [expected], [expected.astype(np.float64)]).outputs
    assert (found.judge, found.why) == (DIRECT, "type float64 instead of float32")
    assert of.parted(expected, expected.astype(np.float64), "y") == found.why
    assert not of.parted(expected, expected.astype(np.float64), "inner")


@pytest.mark.parametrize(
    ("a", "b", "judged", "why"),
    [
        (np.array([1, 2]), np.array([1, 3]), TWINS, "3 instead of 2 at [1]"),
        (np.array([True]), np.array([False]), TWINS, "False instead of True"),
        (np.float32([1, 2]), np.float32([1]), DIRECT, "shape [1] instead of [2]"),
        (
            np.float32([1, 2]).astype(ml_dtypes.float8_e5m2),
            np.float32([1, 1.75]).astype(ml_dtypes.float8_e5m2),
            DIRECT,
            "",
        ),
    ],
)
def test_what_is_no_float_or_of_another_shape(a, b, judged, why):
    of = pair("y = Exp(x)")
    found = of.array("y", a, b, np.float64([1, 2]), np.float64([1, 2]), 0.0)
    assert (found.judge, found.why[: len(why)], bool(found.why)) == (judged, why, bool(why))


def test_bounds_are_told_all_that_is_known(monkeypatch):
    told, one, wide = [], np.float32([1, 2]), np.float64([1, 2])
    monkeypatch.setattr(judge.bounds, "judge", lambda *said, **more: told.append((said, more)) or Judgement("y", TWINS))
    of = pair(
        "h = Cast<to = 10>(x) e = Exp(h) y = Cast<to = 1>(e)",
        "c = Constant<value = float16 {2}>() w = Cast<to = 1>(c) y = Mul(x, w)",
    )
    of._noise = {"y": 0.5}
    of.array("y", one, one + 1, wide, wide + 1, 0.25)
    ((name, runs, grade), more) = told[0]
    assert (name, grade) == ("y", "close")
    assert [value.tolist() for value in (runs.before, runs.after, runs.wide_before, runs.wide_after)] == [
        [1, 2],
        [2, 3],
    ] * 2
    assert more == {"unit": 0.25, "narrow": np.dtype(np.float16), "rounded": True, "noise": 0.5}
    of = pair("y = Exp(x)")
    of.array("y", one, one + 1, wide, wide + 1, 0.0)
    assert told[1][1] == {"unit": 0.0, "narrow": np.dtype(np.float32), "rounded": False, "noise": 0.0}
    monkeypatch.setattr(judge.bounds, "judge", lambda *said, **more: None)
    assert of.array("y", one, one + 1, wide, wide + 1, 0.0).judge == DIRECT


def test_twins_that_decide_otherwise_are_told():
    of, one = pair("y = Exp(x)"), np.array([1, 2])
    found = of.array("y", one, one, one, one + 1, 0.0)
    assert found.why.endswith("2 of 2 elements differ, in float64")
    for x, y in ((None, one), (one, None), (one, one)):
        assert not of.array("y", one, one, x, y, 0.0).why


def test_the_elements_of_sequences_are_judged_one_by_one():
    of = pair("y = Exp(x)")
    one = [np.float32([1, 2]), np.float32([3])]
    wide = [value.astype(np.float64) for value in one]
    near = [one[0] * np.float32(1.0000001), one[1]]
    assert of._output("y", one, near, wide, wide, 0.0).judge == TWINS
    far = [one[0], one[1] * 2]
    assert of._output("y", one, far, wide, wide, 0.0).why.startswith("6.0 instead of 3.0")
    assert of._output("y", one, far[:1], wide, wide, 0.0).why == "1 elements instead of 2"
    assert of._output("y", one, near, wide[:1], wide, 0.0).judge == DIRECT
    assert of._output("y", one, near, None, wide, 0.0).judge == DIRECT


@pytest.mark.parametrize(
    ("value", "floats"),
    [
        (np.float32(1), True),
        (np.float64([1]), True),
        (np.complex64(1), True),
        (np.array([1], ml_dtypes.bfloat16), True),
        (np.array([1], ml_dtypes.float8_e4m3fn), True),
        (np.array([1], ml_dtypes.int4), False),
        (np.array([1]), False),
        (np.array(["a"], object), False),
        ([1.0], False),
        (None, False),
    ],
)
def test_what_is_an_array_of_floats(value, floats):
    assert bounds.is_float(value) is floats


def test_values_in_sequences():
    a, b = np.ones(1), np.zeros(2)
    assert compare.flat([a, [b, a]]) == [a, b, a]
    assert compare.flat(a) == [a]
    assert compare.flat([]) == []
    for hole in (None, [a, None], [a, [None]], "text"):
        assert compare.flat(hole) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[1, 2], [1, 2], [1, 2], [1, 2]], [False, False]),
        ([[1, 2], [1, 3], [1, 2], [1, 2]], [False, True]),
        ([[1, 2], [1, 2], [4, 2], [1, 2]], [True, False]),
        ([[1, 2], [1], [1, 2], [1, 2]], True),
        ([[1, 2], [1, 2], [1, 2], [1, 2, 3]], True),
    ],
)
def test_where_decisions_differ(values, expected):
    for dtype in (np.int64, np.float16, ml_dtypes.bfloat16):
        assert decisions.differing(*(np.array(value).astype(dtype) for value in values)).tolist() == expected
    assert decisions.differing(*map(np.array, values[:3]), None) is None


# --- what is decided otherwise ------------------------------------------------------------------------------


def excused(flips, margins, **changed):
    """Whether decisions that differ are excused: the input is 1 in double, and a little off in either form."""
    of = pair("y = Exp(x)", grade=changed.pop("grade", "exact"))
    held = {
        "own": np.float32([1 + 2.0**-20]),
        "wide": np.ones(1),
        "other": np.ones(1),
        "second": np.float32([1]),
    } | changed
    one, other = (
        SimpleNamespace(values={"x": value}, margins={"y": margin})
        for value, margin in zip((held["wide"], held["other"]), margins, strict=True)
    )
    narrow = [{"x": held["own"]}, {"x": held["second"]}]
    from onnx.helper import make_node

    return of._excused(make_node("Floor", ["x"], ["y"]), np.array(flips), one, other, narrow)


OFF = 2.0**-20


def test_what_lies_nearer_to_the_line_than_rounding_moves_it_is_excused():
    room = 4 * OFF + 8 * 2.0**-24
    assert excused([True], [np.array([room]), np.array([0.0])])
    assert not excused([True], [np.array([room * 1.001]), np.array([0.0])])
    assert not excused([True], [np.array([0.0]), np.array([room * 1.001])]), "of either twin"
    assert excused([True, False], [np.array([0.0, 9.0]), np.array([0.0, 9.0])]), "of what was decided otherwise"
    assert excused([True, False], [np.array(0.0), np.array(0.0)]), "one for all"
    assert not excused([True, False], [np.array(9.0), np.array(0.0)])


def test_rounding_is_excused_up_to_a_part_of_the_largest():
    own = np.float32([1.5])
    assert excused([True], [np.array([0.5])] * 2, own=own), "as far as the source is away"
    assert not excused([True], [np.array([0.501])] * 2, own=own)
    assert excused([True], [np.array([16 * OFF])] * 2, grade="close")


def test_what_is_not_finite_says_nothing_of_how_near_numbers_are():
    """An infinity beside the number that is near: on either side it is passed over."""
    wide, other = np.array([1.0, np.inf, 1.0]), np.array([1.0, 1.0, 1.0])
    own = np.float32([1 + OFF, 1, np.inf])
    room = 4 * OFF + 8 * 2.0**-24
    for margin, is_excused in ((room, True), (room * 1.01, False)):
        assert excused([True], [np.array([margin])] * 2, own=own, wide=wide, other=other, second=own) is is_excused


def test_what_did_not_move_is_not_excused():
    same = np.float32([1])
    assert not excused([True], [np.array([0.0])] * 2, own=same, second=same)
    assert excused([True], [np.array([0.0])] * 2, own=same, second=same, other=np.array([1.0 + 1e-16 * 4]))
    assert not excused([True], [np.array([0.0])] * 2, own=np.float32([1, 2]))
    assert not excused([True], [np.array([0.0])] * 2, wide=np.array([1]), other=np.array([1])), "no floats"


@pytest.mark.parametrize("grade", ["exact", "close"])
def test_a_class_that_is_decided_by_rounding_is_forced_and_counted(grade):
    """The best of two that are the same, of which rounding makes one larger in one of the forms."""
    one = "a = Add(x, u) b = Add(a, v) m = ArgMax<axis = 1, keepdims = 0>(b) y = Cast<to = 1>(m) z = Add(b, y)"
    other = one.replace("a = Add(x, u) b = Add(a, v)", "a = Add(u, v) b = Add(x, a)")
    held = "float[1,2] u = {0.1, 0.3}, float[1,2] v = {0.3, 0.1}"
    io = {"inputs": "float[2,2] x", "outputs": "y, z", "constants": held}
    of = pair(one, other, grade, **io)
    given = None
    for seed in range(400):
        x = np.random.default_rng(seed).standard_normal((2, 1)).astype(np.float32)
        given = {"x": np.repeat(x, 2, axis=1)}
        expected, actual = (side.open().run(given) for side in (of.before, of.after))
        if (expected[0] != actual[0]).any():
            break
    verdict = of.judge(given, expected, actual)
    count = int((expected[0] != actual[0]).sum())
    assert count
    assert verdict.ties == {"m": count}
    assert [(found.why, found.judge, found.ties) for found in verdict.outputs] == [("", BITS, 0), ("", TWINS, count)]


# --- where --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engines", [(OnnxRuntime, OnnxRuntime), (Reference, Reference)])
def test_the_first_value_that_differs_is_told(engines):
    one = "a = Exp(x) b = Neg(a) c = Abs(b) y = Relu(c)"
    of = pair(one, one.replace("Neg(a)", "Mul(a, k)"), constants="float k = {-1.5}", engines=engines)
    name, why = of.locate({"x": X})
    assert (name, why.startswith(f"{np.float32(-1.5) * np.exp(X[0, 0])} instead of")) == ("b", True)
    assert pair(one).locate({"x": X}) is None
    of = pair("a = Exp(x) p = Neg(a) c = Neg(p) y = Relu(c)", "a = Exp(x) c = Exp(a) y = Relu(c)", engines=engines)
    assert of.locate({"x": X})[0] == "c", "p is in one of them alone"


def test_a_value_that_differs_in_float64_alone_is_told():
    """Far below what float32 shows."""
    one = "a = Exp(x) b = Mul(a, k) y = Neg(b)"
    of = pair(
        one,
        "a = Exp(x) c = Add(a, t) b = Mul(c, k) y = Neg(b)",
        constants="float k = {1}, float t = {1e-12}",
        grade="exact",
    )
    name, why = of.locate({"x": X})
    assert (name, why.endswith(", in float64")) == ("b", True)


def test_runs_are_near_where_they_show_nothing_that_twins_did_not():
    of = pair("y = Exp(x)")
    a, unit = np.float32([1, -1]), bounds.UNITS["exact"] * 2.0**-24
    assert of._is_near(a, a)
    assert of._is_near(np.array([1]), np.array([1]))
    assert of._is_near(a, a * np.float32(1 + unit / 2))
    far = a * np.float32(1 + unit * 2)
    assert not of._is_near(a, far)
    of.shown = 2 * unit
    assert of._is_near(a, far)
    assert not of._is_near(np.array([1]), np.array([2]))
    assert not of._is_near(a, np.array([1, -1]))
    assert not of._is_near(np.array([1, -1]), a)
    half = pair("h = Cast<to = 10>(x) e = Exp(h) y = Cast<to = 1>(e)")
    assert not half._is_near(a, a * np.float32(1 + unit / 2)), "what computes in less is asked each time"


def test_nodes_of_which_nothing_is_known_do_not_end_the_list(monkeypatch):
    """Of several that decide, the first is not watched, and the second not in the second form."""
    of = pair("p = Floor(x) q = Ceil(x) r = Round(x) a = Add(p, q) y = Add(a, r)")
    seen = dict.fromkeys(("p", "q", "r", "x"), X)
    monkeypatch.setattr(judge.ties, "observed", lambda *asked: seen)
    monkeypatch.setattr(judge.Pair, "_excused", lambda *asked: True)
    told = []

    def differing(a, b, x, y):
        told.append(1)
        return {1: None, 2: np.array([False]), 3: np.array([True, True, False])}[len(told)]

    monkeypatch.setattr(judge.decisions, "differing", differing)
    found = of._ties({"x": X}, {})
    assert {name: count for name, (_, count) in found.items()} == {"r": 2}
    assert len(told) == 3
