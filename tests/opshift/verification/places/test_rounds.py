"""Special numbers and sizes have rounds of their own, which decide where all is exact and nothing was optimized."""

import os
import signal

import numpy as np
import onnx
import pytest

import opshift
from opshift.cli import main as cli
from opshift.verification import verify
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN, asked
from opshift.verification.places import rounds
from opshift.verification.side import Side
from opshift.verification.verify import verify_apart, verify_sides
from tests.support import model

pytestmark = pytest.mark.posix

IO = {"inputs": "float[N,4] x", "outputs": "float[N,4] y"}
ALL = ("infinities", "NaN", "zeros and denormals", "extremes", "size 0", "size 1")


@pytest.fixture(autouse=True)
def in_time(monkeypatch):
    """However slow the machine is, all rounds have their turn."""
    monkeypatch.setattr(rounds, "_SECONDS", 30.0)


def pair(before, after, **io):
    return tuple(model(body, 17, **{**IO, **io}) for body in (before, after))


def test_what_is_the_same_everywhere_is_equal():
    """Max(x, 0) is Relu, NaN included."""
    before, after = pair("y = Relu(x)", "y = Max(x, z)", constants="float z = {0}")
    found = opshift.verify(before, after)
    assert (found.status, found.rounds, found.remarks) == ("equal", ALL, ())


@pytest.mark.parametrize(
    ("before", "after", "constants", "told"),
    [
        ("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", "float z = {0}", "with NaN, 0.0 instead of nan"),
        ("y = Identity(x)", "y = Clip(x, l, h)", "float l = {-1e30}, float h = {1e30}", "with infinities"),
        ("y = Identity(x)", "a = Mul(x, t) y = Mul(a, s)", "float t = {256}, float s = {0.00390625}", "with extremes"),
        ("y = Reciprocal(x)", "a = Add(x, s) y = Reciprocal(a)", "float s = {1e-37}", "with zeros and denormals"),
        ("y = Identity(x)", "y = Reshape(x, s)", "int64[2] s = {0, -1}", "with size 0, the second model fails"),
    ],
)
def test_what_parts_there_alone_is_different(before, after, constants, told):
    one, other = pair(before, after, constants=constants)
    found = opshift.verify(one, other)
    assert (found.status, told in found.why) == ("different", True), found


@pytest.mark.parametrize("numbers", rounds._NUMBERS.values(), ids=rounds._NUMBERS)
def test_what_holds_no_such_numbers_is_left_as_it_is(numbers):
    for value in (np.array(["a", "b"], object), np.zeros((0, 2), np.float32), [np.ones(2)], np.array([True])):
        assert rounds._holding(value, numbers) is value
    held = rounds._holding(np.zeros((2, 3), np.float16), numbers)
    assert (held.shape, held.dtype) == ((2, 3), np.float16)
    np.testing.assert_array_equal(held.reshape(-1)[:2], np.array(numbers(np.finfo(np.float16))[:2], np.float16))


def test_what_does_not_decide_does_not_apart_either():
    before, after = pair("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", constants="float z = {0}")
    assert verify_apart(Side(before), Side(after), plain=False).equal
    assert verify_apart(Side(before), Side(after)).status == "different"


@pytest.mark.parametrize("how", [{"grade": "close"}, {"plain": False}])
def test_elsewhere_it_is_a_remark(how):
    before, after = pair("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", constants="float z = {0}")
    found = verify_sides(Side(before), Side(after), **how)
    assert found.equal
    assert found.remarks == ("with NaN, 0.0 instead of nan at [0, 1], 3 of 12 elements differ ('y')",)


def test_remarks_are_told(tmp_path, capsys):
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    texts = pair("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", constants="float z = {0}")
    for path, made in zip(paths, texts, strict=True):
        onnx.save(made, path)
    assert cli.main(["verify", *map(str, paths), "--close"]) == 0
    assert "remark: with NaN, 0.0 instead of nan" in capsys.readouterr().out
    assert cli.main(["verify", *map(str, paths)]) == 4


@pytest.mark.parametrize(("options", "plain"), [(["--optimize"], False), ([], True)])
def test_what_was_optimized_does_not_decide(tmp_path, monkeypatch, options, plain):
    path, seen = tmp_path / "in.onnx", []
    held = "float z = {0}, int64[1] a = {1}"
    onnx.save(model("t = Add(x, z) y = ReduceMax(t, a)", 18, **{**IO, "outputs": "float[N,1] y"}, constants=held), path)
    real = verify.verify_apart
    monkeypatch.setattr(verify, "verify_apart", lambda *sides, **how: seen.append(how["plain"]) or real(*sides, **how))
    assert cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13", *options]) == 0
    assert seen[0] is plain


def test_whole_numbers_have_extremes_where_they_are_computed_with():
    io = {"inputs": "int64[N] x", "outputs": "int64[N] y"}
    before, after = pair("y = Identity(x)", "f = Cast<to=11>(x) y = Cast<to=7>(f)", **io)
    assert opshift.verify(before, after).why.startswith("with extremes")


def test_whole_numbers_that_tell_sizes_are_left_alone():
    """An extreme would ask for more memory than there is."""
    io = {"inputs": "int64[2] s, int64[2] k", "outputs": "float[N,M] y, int64[2] z"}
    one, _ = pair("a = Abs(s) y = ConstantOfShape(a) z = Neg(k)", "y = ConstantOfShape(s) z = Neg(k)", **io)
    problem = inputs.problem_of(one, DRAWN)
    fed = inputs.Fed(problem.draw(inputs.Choice(3)), [], inputs.Choice(3))
    ((name, given),) = rounds._rounds(problem, fed)
    assert name == "extremes"
    assert given["s"] is fed.given["s"]
    assert given["k"].tolist() == [2**63 - 1, -(2**63)]


def test_an_engine_alone_is_not_believed(monkeypatch):
    """onnxruntime loses NaN in ReduceMax, as it stands in the tables of quirks."""
    real = OnnxRuntime.run

    def quirky(self, feeds):
        parted = len(self._session.get_modelmeta().graph_name) == 1 and any(np.isnan(x).any() for x in feeds.values())
        return (
            [value + 1 for value in real(self, {n: np.nan_to_num(x) for n, x in feeds.items()})]
            if parted
            else real(self, feeds)
        )

    before, after = pair("y = Abs(x)", "y = Abs(x)")
    before.graph.name = "gg"
    monkeypatch.setattr(OnnxRuntime, "run", quirky)
    found = opshift.verify(before, after)
    assert found.equal
    assert [remark.endswith("no other engine is known to do so") for remark in found.remarks] == [True]


def test_what_the_first_does_not_run_on_says_nothing():
    one = model("y = MaxPool<kernel_shape=[3]>(x)", 17, inputs="float[1,1,W] x", outputs="float[1,1,V] y")
    other = model("y = MaxPool<kernel_shape=[3]>(x)", 16, inputs="float[1,1,W] x", outputs="float[1,1,V] y")
    found = opshift.verify(one, other)
    assert (found.status, found.rounds) == ("equal", ALL[:4])


def test_a_round_that_ends_the_process_says_nothing_and_the_others_go_on(monkeypatch):
    real = rounds._compared

    def ending(first, second, given, names):
        if np.isnan(given["x"]).any():
            os.kill(os.getpid(), signal.SIGSEGV)
        return real(first, second, given, names)

    monkeypatch.setattr(rounds, "_compared", ending)
    one, _ = pair("y = Relu(x)", "y = Relu(x)")
    assert opshift.verify(one, one).rounds == tuple(name for name in ALL if name != "NaN")


def test_inputs_that_are_given_are_the_only_ones():
    before, after = pair("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", constants="float z = {0}")
    assert opshift.verify(before, after, inputs={"x": np.ones((2, 4), np.float32)}).rounds == ()
    assert opshift.verify(before, after, val_range={"x": (0, 1)}).equal


def test_there_is_no_more_time_than_the_ordinary_runs_took(monkeypatch):
    monkeypatch.setattr(rounds, "_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "process_time", iter([0.0, *[1e9] * 20]).__next__)
    one, _ = pair("y = Relu(x)", "y = Relu(x)")
    assert opshift.verify(one, one).rounds == ()


@pytest.mark.parametrize("verified", [verify_sides, verify_apart])
def test_they_decide_unless_it_is_said_that_they_do_not(verified):
    one, other = map(Side, pair("y = Relu(x)", "m = Greater(x, z) y = Where(m, x, z)", constants="float z = {0}"))
    assert verified(one, other).status == "different"
    for how in ({"plain": False}, {"grade": "close"}):
        found = verified(one, other, **how)
        assert (found.status, len(found.rounds), len(found.remarks)) == ("equal", 6, 1)


# --- what a round holds -------------------------------------------------------------------------------------


def held(dtype, name, size=100):
    return rounds._holding(np.zeros(size, dtype), rounds._NUMBERS[name])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_of_each_round(dtype):
    of = np.finfo(dtype)
    expected = {
        "infinities": [np.inf, -np.inf, 1, -2.5],
        "NaN": [1, np.nan, -0.5, 3],
        "zeros and denormals": [0, -0.0, of.smallest_subnormal, -of.smallest_subnormal, of.tiny, 1],
        "extremes": [of.max, of.min, 1, of.eps, -of.tiny, -1],
    }
    for name, numbers in expected.items():
        made = held(dtype, name)
        assert made.dtype == dtype
        np.testing.assert_array_equal(made[:60], np.resize(np.array(numbers, dtype), 60))
        assert (np.signbit(made[:60]) == np.signbit(np.resize(np.array(numbers, dtype), 60))).all()
        far = made[64:]
        assert not ((far != 0) & (np.abs(far) < of.tiny)).any(), "denormals take their time"
    made = held(dtype, "zeros and denormals")
    assert made[62] == of.smallest_subnormal
    assert made[68] == 0
    assert (made[64:] == of.tiny).any()


def test_extremes_of_integers():
    limit = np.iinfo(np.int64)
    numbers = [limit.max, limit.min, 1, limit.max - 1, 2**24 + 1, 2**53 + 1]
    assert held(np.int64, "extremes", 8).tolist() == [*numbers, *numbers[:2]]
    assert held(np.int32, "extremes", 5).tolist() == [2**31 - 1, -(2**31), 1, 2**31 - 2, 2**24 + 1]
    assert held(np.uint8, "extremes", 5).tolist() == [255, 0, 1, 254, 255]
    whole = np.zeros(3, np.int64)
    assert rounds._holding(whole, rounds._NUMBERS["NaN"]) is whole


def drawn_for(taken, wanted=DRAWN, body="y = Identity(x)"):
    source = model(body, 17, inputs=taken, outputs="y")
    problem = inputs.problem_of(source, wanted)
    choice = inputs.Choice(3)
    given = problem.draw(choice)
    return given, list(rounds._rounds(problem, inputs.Fed(given, [], choice)))


def test_sizes_together_and_each_alone():
    _, made = drawn_for("float[N,M] x, float[N] z")
    sizes = [(name, given["x"].shape, given["z"].shape) for name, given in made if name.startswith("size")]
    assert sizes == [
        *(("size 0", shape, shape[:1]) for shape in ((0, 0), (0, 3), (3, 0))),
        *(("size 1", shape, shape[:1]) for shape in ((1, 1), (1, 3), (3, 1))),
    ]
    assert [name for name, _ in made[:4]] == list(ALL[:4])


def test_what_cannot_hold_such_numbers_has_no_rounds():
    assert drawn_for("float[2] x", asked(val_range="[0,1]"))[1] == []
    assert [name for name, _ in drawn_for("int64[2] x")[1]] == ["extremes"]
    given, made = drawn_for("float[2] x, float[2] z", asked(val_range="z:[0,1]"))
    assert all(held["z"] is given["z"] and held["x"] is not given["x"] for _, held in made)


@pytest.mark.parametrize(
    ("actual", "again", "why"),
    [
        ([1.0], [1.0], ""),
        ([2.0], [1.0], "2.0 instead of 1.0 at [0], 1 of 1 elements differ"),
        ([2.0], [3.0], ""),  # it draws
    ],
)
def test_where_two_part_in_a_round(actual, again, why):
    class Both:
        def second(self, _):
            return [np.float32([7]), np.float32(actual)]

        def first(self, _):
            return [np.float32([7]), np.float32(again)]

    source = model("z = Neg(x) y = Exp(x)", 17, inputs="float[1] x", outputs="z, y")
    both = rounds.Pair(Side(source), Side(source), "exact")
    found = rounds._compared(Both(), both, {}, [np.float32([7]), np.float32([1])])
    assert found == rounds.Parting("", "y" if why else "", why)


def test_a_second_form_that_fails_parts():
    class Failing:
        def second(self, _):
            raise EngineError("no such size")

    found = rounds._compared(Failing(), None, {}, [])
    assert found == rounds.Parting("", "", "the second model fails: no such size")
    assert str(rounds.Parting("NaN", "", "it fails")) == "with NaN, it fails"
    assert str(rounds.Parting("NaN", "y", "1 instead of 2")) == "with NaN, 1 instead of 2 ('y')"


def test_rounds_have_a_limit_of_time(monkeypatch):
    limits = []
    monkeypatch.setattr(rounds.isolation, "end_after", limits.append)
    assert rounds._all(None, None, [], 2.3) == []
    source = Side(model("y = Neg(x)", 17, inputs="float[1] x", outputs="y"))
    both = rounds.Pair(source, source, "exact")
    assert rounds._opinion(both, {"x": np.float32([1])}, "y") == rounds.Parting("", "", "")
    assert limits == [5 + 20, 20]
