"""Which inputs are tried, in which order, told by what takes them: no engine runs."""

import numpy as np
import pytest

from opshift.verification.engines import EngineError
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.feeding.inputs import Choice
from opshift.verification.feeding.search import Search
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


def shapes(one):
    return {name: inputs.shape_of(value) for name, value in one.given.items()}


def test_sizes_in_turn():
    found = fed(side_of("float[N,2] x"))
    assert [one.given["x"].shape for one in found] == [(1, 2), (2, 2), (3, 2)]
    assert [one.choice.seed for one in found] == [0, 1, 2]
    assert [shapes(one) for one in found] == [{"x": [1, 2]}, {"x": [2, 2]}, {"x": [3, 2]}]
    found = fed(side_of("float[N,2] x"), wanted=read_options(runs=6, seed=5))
    assert [one.given["x"].shape[0] for one in found] == [1, 2, 3, 5, 1, 2]
    assert [one.choice.seed for one in found] == list(range(5, 11))
    assert len(fed(side_of("float[2] x"))) == 2, "of one size"
    assert len(fed(side_of("float[2] x"), wanted=read_options(runs=1))) == 1


def test_a_single_integer_is_told_by_its_value():
    (one, _) = fed(side_of("int64 x"))
    assert shapes(one) == {"x": int(one.given["x"])}
    assert inputs.shape_of([np.zeros(2), [np.zeros(())]]) == [[2], [[]]]
    assert inputs.shape_of(None) == []
    assert inputs.shape_of(np.array([7])) == [1]
    assert inputs.shape_of(np.array(0.5)) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.float32([1, np.nan])], False),
        ([np.float32([np.nan])], True),
        ([np.array([1 + np.inf * 1j])], True),
        ([np.array([1]), np.float32([np.inf])], True),
        ([np.float32([1]), np.float32([np.inf])], False),
        ([np.array(["a"], object), [np.nan], None], False),
        ([np.zeros((0, 2))], True),
        ([], False),
    ],
)
def test_what_is_nothing(values, expected):
    assert inputs._has_no_number(values) is expected


def test_where_nothing_comes_out_others_are_tried():
    nan = np.float32([np.nan])
    found = fed(side_of("int64[3] x"), makes=lambda given: np.float32([2]) if (given["x"] == 1).all() else nan)
    assert [one.choice.fallback for one in found] == ["ones", "ones"]
    tried = []
    found = fed(side_of("float[3] x"), makes=lambda given: tried.append(1) or nan)
    assert [one.choice.fallback for one in found] == ["fitting", "fitting"], "the first, where all are alike"
    assert len(tried) <= 2 * inputs._WITHOUT
    found = fed(side_of("float[9] x"), makes=lambda given: given["x"] if given["x"].min() > 0 else nan)
    assert [one.choice.fallback for one in found] == ["positive", "positive"]


def test_integers_that_are_not_what_they_mean_are_something_else():
    found = fed(side_of("int64[3] x"), takes=lambda given: given["x"].tolist() == [1, 1, 1])
    assert [one.choice.fallback for one in found] == ["ones", "ones"]


def test_each_number_that_an_input_is_compared_with_has_a_run():
    side = side_of("int64 x", "y = Equal(x, c)", "int64 c = {60}")
    assert int(fed(side)[0].given["x"]) == 60
    assert int(fed(side)[1].given["x"]) < 8


def test_one_array_that_does_not_fit_is_told_by_the_first_failure(monkeypatch):
    monkeypatch.setattr(Search, "find", lambda *_: None)
    with pytest.raises(EngineError, match="onnxruntime: found no inputs that the first model accepts: it does not fit"):
        fed(side_of("float[N] x"), takes=lambda _: False)
    with pytest.raises(EngineError, match="an input has 33 dimensions"):
        fed(side_of(f"float[{','.join('1' * 33)}] x"))


def test_what_was_looked_for_is_varied(monkeypatch):
    """A base that is found, and then the same with other sizes that fit, too; batches are those of the run."""
    asked_for = []

    def searched(self, start):
        asked_for.append(start)
        return Choice(sizes={**start.sizes, "H": 88}, turn=start.turn, seed=start.seed)

    monkeypatch.setattr(Search, "find", searched)
    found = fed(side_of("float[N,M] x, float[H] z"), takes=lambda given: given["z"].shape[0] % 11 == 0)
    assert [one.given["z"].shape for one in found] == [(88,), (176,), (264,)]
    assert [one.given["x"].shape for one in found] == [(1, 16), (2, 48), (3, 64)]
    assert [(dict(start.sizes), start.turn, start.seed) for start in asked_for] == [({"N": 1, "M": 16, "H": 64}, 0, 0)]


def test_sizes_that_a_model_does_not_have_otherwise_stay(monkeypatch):
    monkeypatch.setattr(Search, "find", lambda *_: None)
    found = fed(side_of("float[N,M] x"), takes=lambda given: given["x"].shape[0] == 1)
    assert [one.given["x"].shape for one in found] == [(1, 16), (1, 32), (1, 48)]
    assert [one.choice.seed for one in found] == [0, 1, 2]


def test_dimensions_of_one_role_are_changed_together_or_stay(monkeypatch):
    monkeypatch.setattr(Search, "find", lambda *_: None)

    def together(given):
        return given["x"].shape[1] == given["z"].shape[1] and given["x"].shape[1] % 16 == 0

    found = fed(side_of("float[N,T] x, float[N,S] z"), takes=together)
    assert [(one.given["x"].shape, one.given["z"].shape) for one in found[:2]] == [
        ((1, 16), (1, 16)),
        ((2, 32), (2, 32)),
    ]
    found = fed(side_of("float[N,T] x, float[N,S] z"), takes=lambda given: given["x"].shape[1] == 16)
    assert [(one.given["x"].shape, one.given["z"].shape) for one in found[:2]] == [
        ((1, 16), (1, 16)),
        ((2, 16), (2, 16)),
    ]


def test_numbers_that_are_compared_turn(monkeypatch):
    """What was found for one of them is no number for another one's turn."""
    monkeypatch.setattr(Search, "find", lambda self, start: Choice(fills={"k": 60, "l": 5}))
    side = side_of("float[N] x, int64 k, int64 l", "a = Equal(k, c) y = Identity(x)", "int64 c = {60}")
    found = fed(side, takes=lambda given: given["l"] == 5)
    assert [(int(one.given["k"]) == 60, int(one.given["l"])) for one in found] == [(True, 5), (True, 5), (True, 5)]
    assert dict(found[2].choice.fills) == {"l": 5}


# --- those of the user --------------------------------------------------------------------------------------


def test_what_is_left_out_is_drawn_in_sizes_of_what_is_given():
    side = side_of("float[N,M] x, float[N] z, float[K] u", "y = Identity(x)")
    wanted = read_options(seed=4)
    held = [{"x": np.ones((5, 2), np.float32)}, {"x": np.zeros((6, 1), np.float32), "z": np.ones(6, np.float32)}]
    found = fed(side, wanted=type(wanted)(inputs=tuple(held), seed=4))
    assert [shapes(one) for one in found] == [{"x": [5, 2], "z": [5], "u": [1]}, {"x": [6, 1], "z": [6], "u": [1]}]
    assert [one.choice.seed for one in found] == [4, 5]
    assert found[0].given["x"] is held[0]["x"]
    assert len(fed(side, wanted=type(wanted)(inputs=tuple(held), runs=1))) == 1
    with pytest.raises(
        EngineError, match="onnxruntime: the first model does not accept the given inputs: it does not fit"
    ):
        fed(side, takes=lambda _: False, wanted=type(wanted)(inputs=tuple(held)))


def test_inputs_are_kept_as_they_come(tmp_path):
    wanted = read_options(save_inputs=tmp_path / "x.npz")
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
