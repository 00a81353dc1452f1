"""What single inputs are filled with."""

import numpy as np
import pytest
from onnx import TypeProto
from opshift.passes.model.types import tensor_type
from opshift.passes.specialization.inputs import required

from opshift.verification.engines import EngineError
from opshift.verification.feeding import values
from opshift.verification.feeding.asked import DRAWN, asked
from opshift.verification.feeding.meanings import Meanings, meanings
from tests.support import model

FLOAT, INT64, COMPLEX = 1, 7, 14


def drawn(kind, wanted=DRAWN, **choice):
    return values.draw({"x": kind}, Meanings(), wanted, values.Choice(3, **choice))["x"]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
def test_a_few_numbers_are_never_of_one_sign(size, wide):
    for elem_type in (FLOAT, COMPLEX):
        for seed in range(40):
            made = drawn(tensor_type(elem_type, [size]), seed=seed, wide=wide)
            assert {-1.0, 1.0} == set(np.sign(made.real).tolist())
    signs = [np.sign(drawn(tensor_type(FLOAT, []), seed=seed, wide=wide)) for seed in range(4)]
    assert signs == [-1, 1, -1, 1], "in turn"


def test_numbers_of_all_magnitudes():
    made = np.abs([drawn(tensor_type(FLOAT, [10, 60]), seed=seed, wide=True) for seed in (1, 2)])
    assert 0.1 < (made > 6).mean() < 0.5
    assert 0.01 < (made < 2.0**-9).mean() < 0.2
    assert np.abs(drawn(tensor_type(FLOAT, [10, 60]))).max() < 6


def test_sizes_that_are_asked_for():
    wanted = asked(input_shape={"x": [2, 5]})
    assert drawn(tensor_type(FLOAT, [None, "N"]), wanted).shape == (2, 5)
    assert drawn(tensor_type(FLOAT, [None, "N"])).shape == (3, 3)


@pytest.mark.parametrize("elem_type", [0, 999])
def test_what_has_no_type_is_not_drawn(elem_type):
    kind = TypeProto()
    kind.tensor_type.elem_type = elem_type
    with pytest.raises(EngineError, match="the type of an input is unknown"):
        drawn(kind)


def test_what_integers_are_where_their_meaning_does_not_fit():
    kind = tensor_type(INT64, [3])
    assert [drawn(kind, fallback=way).tolist() for way in values.FALLBACKS[1:]] == [[0, 0, 0], [1, 1, 1], [0, 1, 2]]
    assert set(drawn(tensor_type(INT64, [400])).tolist()) == set(range(8)), "small, where nobody knows what they are"


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("y = OneHot(i, d, v)", "int64[40] i, int64 d, float[2] v", {"d": 5, "i": range(2)}),
        ("y, z = TopK(x, k)", "float[3] x, int64[1] k", {"k": [1]}),
        (
            "y = Slice(x, s, e, a, t)",
            "float[3,4] x, int64[2] s, int64[2] e, int64[2] a, int64[2] t",
            {"s": [0, 0], "e": [5, 5], "a": [0, 1], "t": [1, 1]},
        ),
        ("y = Pad(x, p)", "float[3] x, int64[2] p", {"p": [1, 1]}),
        ("y = Range(a, b, c)", "int64 a, int64 b, int64 c", {"a": 0, "b": 5, "c": 1}),
        ("y = Tile(x, r)", "float[3] x, int64[1] r", {"r": [1]}),
        ("y = Expand(x, r)", "float[3] x, int64[1] r", {"r": [1]}),
        ("y = Reshape(x, r)", "float[3] x, int64[2] r", {"r": [-1, 1]}),
        ("y = ConstantOfShape(r)", "int64[3] r", {"r": [0, 1, 2]}),
        ("y = Trilu(x, k)", "float[3,3] x, int64 k", {"k": 1}),
        ("y = CumSum(x, a)", "float[3] x, int64 a", {"a": 0}),
        ("y = Squeeze(x, a)", "float[1,1] x, int64[2] a", {"a": [0, 1]}),
        ("y = Unsqueeze(x, a)", "float x, int64[2] a", {"a": [0, 1]}),
        ("y = ReduceSum(x, a)", "float[3,4] x, int64[2] a", {"a": [0, 1]}),
        ("y = Gather(w, i)", "int64[90] i", {"i": range(5)}),
        ("t = Div(n, i) u = Mod(n, i) y = Concat<axis = 0>(t, u)", "uint8[90] n, uint8[90] i", {"i": range(1, 8)}),
        ("t = Div(n, i) y = Tile(x, i)", "float[3] x, int64[90] n, int64[90] i", {"i": range(1, 8)}),
        ("y = GatherElements(w, i)", "int64[90] i", {"i": range(5)}),
        ("y = GatherND(w, i)", "int64[90,1] i", {"i": range(2)}),
        ("y = ScatterElements(x, i, u)", "float[3] x, int64[90] i, float[90] u", {"i": range(2)}),
        ("y = ReverseSequence(x, l)", "float[3,4] x, int64[40] l", {"l": range(1, 4)}),
        ("t = Identity(i) u = Cast<to = 6>(t) y = Gather(w, u)", "int64[90] i", {"i": range(5)}),
    ],
)
def test_integers_are_what_they_mean(body, inputs, expected):
    """Numbers in their places, or the range that many of them cover."""
    of = model(body, 17, inputs=inputs, outputs="float y", constants="float[5] w = {1, 2, 3, 4, 5}")
    taken = required(of)
    made = values.draw(taken, meanings(of, taken), DRAWN, values.Choice(3))
    for name, numbers in expected.items():
        found = made[name].ravel().tolist()
        assert set(found) == set(numbers) if isinstance(numbers, range) else found == np.ravel(numbers).tolist()


@pytest.mark.parametrize(("kind", "most"), [("int64", 2**53), ("int32", 2**24), ("uint16", 2**12), ("uint64", 2**53)])
@pytest.mark.parametrize("body", ["y = Add(i, i)", "y = Mod(i, k)", "t = Neg(i) y = Div(t, k)"])
def test_integers_that_are_numbers_are_large_too(body, kind, most):
    of = model(body, 17, inputs=f"{kind}[200] i, {kind}[200] k", outputs=f"{kind}[200] y")
    taken = required(of)
    drawn = [values.draw(taken, meanings(of, taken), DRAWN, values.Choice(3, wide=wide)) for wide in (False, True)]
    assert drawn[0]["i"].max() < 8
    assert drawn[1]["i"].max() > most
    assert (drawn[1]["i"].min() < 0) == (kind[0] == "i")
    if "k)" in body:
        assert all(0 not in given["k"] for given in drawn)
        assert (drawn[1]["k"].min() < 0) == (kind[0] == "i")


def test_integers_that_tell_places_stay_small():
    of = model("t = Add(i, i) y = Gather(w, t)", 17, inputs="int64[90] i", outputs="float y", constants="float[99] w")
    taken = required(of)
    assert values.draw(taken, meanings(of, taken), DRAWN, values.Choice(3, wide=True))["i"].max() < 8
