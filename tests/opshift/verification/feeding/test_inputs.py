"""Which inputs are tried, in which order, told by what takes them: no engine runs."""

import numpy as np
import pytest

from opshift.verification import isolation
from opshift.verification.engines import EngineError
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN, asked
from opshift.verification.feeding.inputs import Choice
from opshift.verification.side import Side
from tests.support import model


def side_of(taken, body="y = Identity(x)", constants=""):
    return Side(model(body, 17, inputs=taken, outputs="y", constants=constants))


def fed(side, takes=lambda given: True, makes=lambda given: given["x"], wanted=DRAWN, **how):
    """The sets on which something runs that takes what it takes."""

    def run(given):
        if not takes(given):
            raise EngineError("it does not fit")
        return [makes(given)]

    return list(inputs.running(side, run, wanted, **how))


def test_sizes_in_turn():
    found = fed(side_of("float[N,2] x"))
    assert [one.given["x"].shape for one in found] == [(3, 2), (1, 2), (4, 2)]
    assert [one.choice.seed for one in found] == [0, 1, 2]
    assert [one.choice.wide for one in found] == [False, True, True]
    assert [one.shapes for one in found] == [{"x": [3, 2]}, {"x": [1, 2]}, {"x": [4, 2]}]
    found = fed(side_of("float[N,2] x"), wanted=asked(runs=8, seed=5))
    assert [one.given["x"].shape[0] for one in found] == [3, 1, 4, 2, 5, 7, 3, 1]
    assert [one.choice.seed for one in found] == list(range(5, 13))
    assert len(fed(side_of("float[2] x"))) == 2, "of one size"
    assert len(fed(side_of("float[2] x"), wanted=asked(runs=1))) == 1


def test_a_single_integer_is_told_by_its_value():
    (one, _) = fed(side_of("int64 x"))
    assert one.shapes == {"x": int(one.given["x"])}
    assert inputs._shape([np.zeros(2), [np.zeros(())]]) == [[2], [[]]]
    assert inputs._shape(None) == []
    assert inputs._shape(np.array([7])) == [1]
    assert inputs._shape(np.array(0.5)) == []


def test_what_is_too_large_for_a_model_is_drawn_once_more():
    found = fed(side_of("float[8] x"), makes=lambda given: np.where(np.abs(given["x"]) > 6, np.inf, given["x"]))
    assert [one.choice.wide for one in found] == [False, False]
    assert np.isfinite(found[1].outputs[0]).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.float32([1])], True),
        ([np.float32([np.nan])], False),
        ([np.array([1 + np.inf * 1j])], False),
        ([np.array([1]), np.float32([np.inf])], False),
        ([np.array(["a"], object), [np.nan], None], True),
        ([], True),
    ],
)
def test_what_is_finite(values, expected):
    assert inputs._is_finite(values) is expected


def test_integers_that_are_not_what_they_mean_are_something_else():
    found = fed(side_of("int64[3] x"), takes=lambda given: given["x"].tolist() == [1, 1, 1])
    assert [one.choice.fallback for one in found] == ["ones", "ones"]


def test_each_number_that_an_input_is_compared_with_has_a_run():
    side = side_of("int64 x", "y = Equal(x, c)", "int64 c = {60}")
    assert int(fed(side)[0].given["x"]) == 60
    assert int(fed(side)[1].given["x"]) < 8


def test_one_array_that_does_not_fit_is_told_by_the_first_failure(monkeypatch):
    monkeypatch.setattr(inputs, "_searched", lambda *_: None)
    with pytest.raises(
        EngineError, match="onnxruntime: no inputs could be found that the first model takes: it does not fit"
    ):
        fed(side_of("float[N] x"), takes=lambda _: False)
    with pytest.raises(EngineError, match="an input has 33 dimensions"):
        fed(side_of(f"float[{','.join('1' * 33)}] x"))


def test_what_was_looked_for_is_varied(monkeypatch):
    """A base of 8 that is found, and then the same with other sizes that fit, too."""
    asked_for = []

    def searched(side, problem, start, run):
        asked_for.append(start)
        return Choice(3, {"N": 8}, turn=start.turn, seed=start.seed)

    monkeypatch.setattr(inputs, "_searched", searched)
    found = fed(side_of("float[N,M] x"), takes=lambda given: given["x"].shape[0] % 8 == 0)
    assert [one.given["x"].shape for one in found] == [(8, 3), (16, 3), (16, 3)]
    assert [(start.size, start.turn, start.seed) for start in asked_for] == [(3, 0, 0)]
    found = fed(side_of("float[N] x"), takes=lambda given: given["x"].shape[0] % 8 == 0)
    assert [one.given["x"].shape for one in found] == [(8,), (16,), (16,)]


def test_what_fits_is_varied_where_another_size_does_not(monkeypatch):
    monkeypatch.setattr(inputs, "_searched", lambda *_: None)
    found = fed(side_of("float[N,M] x"), takes=lambda given: given["x"].shape[0] == 3)
    assert [one.given["x"].shape for one in found] == [(3, 3), (3, 1), (3, 4)]
    assert [one.choice.seed for one in found] == [0, 1, 2]


def variations(choice, number, taken="float[N,M,3] x, float[N] z", body="y = Identity(x)", constants=""):
    side = side_of(taken, body, constants)
    problem = inputs.problem_of(side.model, DRAWN)
    return problem, list(inputs._varied(problem, choice, number, 9))


def test_sizes_that_are_alike_are_changed_together_before_each_alone():
    _, made = variations(Choice(3), 1)
    sizes = [tuple(dict(one.sizes).get(dim, one.size) for dim in "NM") for one in made]
    pairs = [(1, 1), (2, 2), (4, 4), (6, 6)]
    assert sizes == [*pairs, *((n, 3) for n, _ in pairs), *((3, m) for m, _ in pairs), *[(3, 3)] * 3]
    assert all((one.seed, one.wide) == (9, True) for one in made)
    assert [one.turn for one in made] == [1] * 14 + [0]
    _, made = variations(Choice(3, {"N": 2}), 2)
    sizes = [tuple(dict(one.sizes).get(dim, one.size) for dim in "NM") for one in made]
    assert sizes[:3] == [(4, 3), (4, 3), (4, 3)]
    assert (2, 3) in sizes
    assert (2, 5) in sizes


def test_numbers_that_are_compared_turn_first():
    held = {
        "taken": "float[N] x, int64 k, int64 l",
        "body": "a = Equal(k, c) y = Identity(x)",
        "constants": "int64 c = {60}",
    }
    _, made = variations(Choice(3, fills={"k": 60, "l": 5}), 1, **held)
    assert [sorted(one.fills) for one in made] == [["l"]] * 4 + [["k", "l"]] * 4 + [["l"], ["k", "l"], ["k", "l"]]


# --- what does not move -------------------------------------------------------------------------------------


def test_what_does_not_move_is_looked_into_with_other_numbers(monkeypatch):
    tried = []

    def makes(given):
        tried.append(float(np.abs(given["x"]).max()))
        return np.float32([float(tried[-1] > 2**9)])

    found = fed(side_of("float[2,2] x", "y = Neg(x)"), makes=makes)
    assert len(found) == 3
    assert [one.choice.scale for one in found] == [1, 1, 2.0**12]
    assert [one.choice.seed for one in found] == [0, 1, 2]
    assert len(fed(side_of("float[2,2] x", "y = Neg(x)"), makes=makes, wanted=asked(runs=2))) == 2, (
        "as many as asked for"
    )


def test_numbers_that_are_too_large_say_nothing():
    seen = []

    def makes(given):
        seen.append(float(np.abs(given["x"]).max()))
        return np.float32([np.inf if seen[-1] > 100 else 0])

    assert len(fed(side_of("float[2,2] x", "y = Neg(x)"), makes=makes)) == 2
    assert max(seen) > 2**12


def test_stronger_numbers_then_lengths_then_sizes():
    side = side_of("float[N,T] x, int64 l, int8[2] k", "y = Identity(x)")
    problem = inputs.problem_of(side.model, DRAWN)
    made = list(inputs._stronger(problem, Choice(3, {"N": 5}), 2))
    assert {one.seed for one in made} == {2}
    assert [one.scale for one in made[:4]] == [1, 2.0**6, 2.0**12, 2.0**18]
    lengths = [dict(one.fills) for one in made[4:10]]
    assert lengths == [{"l": 5}, {"l": 3}, {"l": 2}, {"k": 5}, {"k": 3}, {"k": 2}]
    larger = [one.sizes["T"] for one in made[10:]]
    assert [size for size in (64, 512, 4096) if size in larger] == [64, 512, 4096]
    assert [dict(one.fills) for one in made[10:14]] == [{}, {"l": 64}, {"l": 5}, {"l": 2}]


def test_no_more_room_than_there_is(monkeypatch):
    side = side_of("float[N,T] x", "y = Identity(x)")
    problem = inputs.problem_of(side.model, DRAWN)
    monkeypatch.setattr(inputs, "_ROOM", 3 * 512)
    assert [one.sizes["T"] for one in inputs._stronger(problem, Choice(3), 0) if one.sizes] == [64, 512]
    one = inputs.problem_of(side_of("float[N] x").model, DRAWN)
    assert not [choice for choice in inputs._stronger(one, Choice(3), 0) if choice.sizes], "of batches there are enough"


# --- those of the user --------------------------------------------------------------------------------------


def test_what_is_left_out_is_drawn_in_sizes_of_what_is_given():
    side = side_of("float[N,M] x, float[N] z, float[K] u", "y = Identity(x)")
    wanted = asked(seed=4)
    held = [{"x": np.ones((5, 2), np.float32)}, {"x": np.zeros((6, 1), np.float32), "z": np.ones(6, np.float32)}]
    found = fed(side, wanted=type(wanted)(inputs=tuple(held), seed=4))
    assert [one.shapes for one in found] == [{"x": [5, 2], "z": [5], "u": [3]}, {"x": [6, 1], "z": [6], "u": [3]}]
    assert [one.choice.seed for one in found] == [4, 5]
    assert found[0].given["x"] is held[0]["x"]
    assert len(fed(side, wanted=type(wanted)(inputs=tuple(held), runs=1))) == 1
    with pytest.raises(
        EngineError, match="onnxruntime: the first model does not take the inputs given: it does not fit"
    ):
        fed(side, takes=lambda _: False, wanted=type(wanted)(inputs=tuple(held)))


def test_inputs_are_kept_as_they_come(tmp_path):
    wanted = asked(save_inputs=tmp_path / "x.npz")
    seen = []

    def run(given):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(given["x"])
        return [given["x"]]

    with pytest.raises(KeyboardInterrupt):
        list(inputs.running(side_of("float[N] x"), run, wanted))
    held = np.load(tmp_path / "x.npz")
    assert [held[f"{number}/x"].tolist() for number in range(2)] == [value.tolist() for value in seen]


def test_runs_are_survived_where_that_is_asked_for(monkeypatch):
    called = []

    def call(run, given):
        called.append(1)
        if given["x"].shape[0] == 1:
            raise isolation.Ended(-11)
        return run(given)

    monkeypatch.setattr(isolation, "call", call)
    monkeypatch.setattr(inputs, "_searched", lambda *_: None)
    found = fed(side_of("float[N] x"), sought=True)
    assert [one.given["x"].shape[0] for one in found][::2] == [3, 4]
    assert found[1].given["x"].shape[0] != 1
    called.clear()
    fed(side_of("float[N] x"))
    assert not called


# --- looked for ---------------------------------------------------------------------------------------------


def test_a_search_goes_on_behind_what_ends_it(monkeypatch, tmp_path):
    seen = []

    def call(function, side, problem, first, log, deadly, run):
        seen.append(set(deadly))
        if len(seen) < 4:
            inputs.Path(log).write_text(str(len(seen)))
            raise isolation.Ended(isolation._LATE if len(seen) == 2 else -11)
        return first

    monkeypatch.setattr(isolation, "call", call)
    assert inputs._searched(None, None, Choice(1)) == Choice(1)
    assert seen == [set(), {1}, {1}, {1, 3}]


def test_a_search_that_ends_at_once_or_again_and_again_finds_nothing(monkeypatch):
    count = []

    def call(function, side, problem, first, log, deadly, run):
        count.append(1)
        if len(count) > 1:
            inputs.Path(log).write_text(str(len(count)))
        raise isolation.Ended(-11)

    monkeypatch.setattr(isolation, "call", call)
    assert inputs._searched(None, None, Choice(1)) is None
    assert len(count) == 1, "nothing was tried"
    assert inputs._searched(None, None, Choice(1)) is None
    assert len(count) == 1 + inputs._ENDS


def test_a_search_has_a_limit_of_time(monkeypatch):
    limits = []
    monkeypatch.setattr(isolation, "end_after", limits.append)
    side = side_of("float[2] x")
    assert inputs._search(side, inputs.problem_of(side.model, DRAWN), Choice(3), "", ()) == Choice(3)
    assert limits == [60]
