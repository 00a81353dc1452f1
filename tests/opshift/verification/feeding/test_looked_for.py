"""A search for inputs, led by what a stand-in for an engine says."""

import pytest

from opshift.verification.engines import EngineError
from opshift.verification.feeding import inputs
from opshift.verification.feeding.asked import DRAWN, read_options
from opshift.verification.feeding.inputs import Choice
from opshift.verification.feeding.search import Problem, Search
from opshift.verification.side import Side
from tests.support import model


def side_of(taken, body="y = Identity(x)", constants=""):
    return Side(model(body, 17, inputs=taken, outputs="y", constants=constants))


class Stub(Search):
    """A search in which a function stands for the engine."""

    def __init__(self, taken, run, body="y = Identity(x)", wanted=DRAWN, constants=""):
        self.given, self.runs = run, 0
        side = side_of(taken, body, constants)
        super().__init__(inputs.problem_of(side.model, wanted), self._counted)

    def _counted(self, given):
        self.runs += 1
        return [self.given(given)]


def refusing(fits, said):
    def run(given):
        if not fits(given):
            raise EngineError(said(given))
        return given["x"]

    return run


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (lambda _: "~0~ it wants 77", 5),  # the number that is said
        (lambda _: "~0~ more than 76", 12),  # one more
        (lambda given: f"~0~ {given['x'].shape[1]} is not 77", 12),
    ],
)
def test_what_an_engine_says_is_tried_first(said, most):
    search = Stub("float[2,T] x", refusing(lambda given: given["x"].shape[1] == 77, said))
    found = search.find(Choice(3))
    assert found.sizes == {"T": 77}
    assert search.runs <= most


def test_numbers_of_small_inputs_are_looked_for():
    search = Stub(
        "float[2] x, int64 k",
        refusing(lambda given: given["k"] == 16000, lambda _: "~1~ no"),
        "c = Cast<to=1>(k) y = Add(x, c)",
    )
    assert search.find(Choice(3)).fills == {"k": 16000}
    search = Stub(
        "float[2] x, int64 k",
        refusing(lambda given: given["k"] == 4711, lambda _: "~1~ no"),
        "a = Equal(k, c) y = Where(a, x, x)",
        constants="int64 c = {4711}",
    )
    assert search.find(Choice(3, turn=1)).fills == {"k": 4711}
    assert search.runs < 8


def test_all_but_the_first_axis_are_made_larger_together():
    def fits(given):
        return given["x"].shape == (3, 224, 224)

    found = Stub("float[N,H,W] x", refusing(fits, lambda _: "~0~ no")).find(Choice(3))
    assert found.sizes == {"H": 224, "W": 224}


def test_an_output_that_is_empty_is_better_than_none():
    tried = []

    def run(given):
        tried.append(given["x"].shape[0])
        if given["x"].shape[0] < 8:
            raise EngineError("~0~ too small, 8")
        return given["x"][:0]

    found = Stub("float[N] x", run).find(Choice(3))
    assert found.sizes["N"] == next(size for size in tried if size >= 8)
    first = next(k for k, size in enumerate(tried) if size >= 8)
    assert len(tried) - first <= 32, "and no more than some others are tried"


def test_a_search_ends(monkeypatch):
    search = Stub("float[N] x, int64 k", refusing(lambda _: False, lambda _: "no"))
    assert search.find(Choice(3)) is None
    assert search.runs <= 301
    search = Stub("float[N] x", refusing(lambda _: False, lambda _: "no"))
    monkeypatch.setattr("opshift.verification.feeding.search._SECONDS", 0.0)
    assert search.find(Choice(3)) is None
    assert search.runs <= 4


@pytest.mark.parametrize(
    ("taken", "wanted", "dims"),
    [
        ("float[N,M] x, float[N] z", DRAWN, {"N": [("x", 0), ("z", 0)], "M": [("x", 1)]}),
        ("float[N,M] x", read_options(input_shape="N=2"), {"M": [("x", 1)]}),
        ("float[N,M] x, float[N] z", read_options(input_shape={"x": [2, 3]}), {"N": [("z", 0)]}),
        ("float[2] x", DRAWN, {}),
    ],
)
def test_which_sizes_are_open(taken, wanted, dims):
    side = side_of(taken)
    assert inputs.problem_of(side.model, wanted).open_dims() == dims


def test_which_inputs_are_small_numbers():
    taken = "float[2] x, float[2,2] a, int64[2,4] b, int64[3,3] c, bool d, string e, float[N] f, int64[N,8] g, int32 h"
    problem: Problem = inputs.problem_of(side_of(taken).model, read_options(val_range="h:[0,1]"))
    assert problem.numbers() == ["x", "b", "d", "f", "g"]
