"""What single inputs are filled with."""

import numpy as np
import pytest
from onnx import TypeProto
from opshift.passes.model.types import tensor_type
from opshift.passes.specialization.interface import required

from opshift.verification.engines import EngineError
from opshift.verification.feeding import filling
from opshift.verification.feeding.asked import DRAWN, asked
from opshift.verification.feeding.meanings import Meanings, meanings
from tests.support import model

FLOAT, UINT8, INT8, INT64, STRING, BOOL, HALF, COMPLEX = 1, 2, 3, 7, 8, 9, 10, 14


def drawn(kind, wanted=DRAWN, **choice):
    return filling.draw({"x": kind}, Meanings(), wanted, filling.Choice(3, **choice))["x"]


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
    assert [drawn(kind, fallback=way).tolist() for way in filling.FALLBACKS[1:]] == [[0, 0, 0], [1, 1, 1], [0, 1, 2]]
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
    made = filling.draw(taken, meanings(of, taken), DRAWN, filling.Choice(3))
    for name, numbers in expected.items():
        found = made[name].ravel().tolist()
        assert set(found) == set(numbers) if isinstance(numbers, range) else found == np.ravel(numbers).tolist()


def sequence(of):
    return TypeProto(sequence_type=TypeProto.Sequence(elem_type=of))


def test_sequences_and_options():
    two = drawn(sequence(tensor_type(FLOAT, [2])))
    assert [value.shape for value in two] == [(2,), (2,)]
    (inner,) = drawn(sequence(sequence(tensor_type(FLOAT, [2]))))
    assert [value.shape for value in inner] == [(2,), (2,)]
    assert drawn(TypeProto(optional_type=TypeProto.Optional(elem_type=tensor_type(FLOAT, [2])))).shape == (2,)


def test_more_axes_than_arrays_have():
    for count, why in ((32, ""), (33, "an input has 33 dimensions")):
        kind = tensor_type(FLOAT, [1] * count)
        assert filling.undrawable({"x": kind, "z": tensor_type(FLOAT, [1])}) == why
        assert filling.undrawable({"x": sequence(kind)}) == why
        if why:
            with pytest.raises(EngineError, match=why):
                drawn(kind)
        else:
            assert drawn(kind).ndim == 32
    assert filling.undrawable({}) == ""


def test_no_more_elements_than_are_meant():
    kind = {"x": tensor_type(FLOAT, [3, 4])}
    assert filling.draw(kind, Meanings(), DRAWN, filling.Choice(3), 12)["x"].size == 12
    with pytest.raises(EngineError, match="more than 11 elements"):
        filling.draw(kind, Meanings(), DRAWN, filling.Choice(3), 11)


def test_sizes_by_symbol_by_place_and_computed():
    kind = tensor_type(FLOAT, ["N", None, "N + 2"])
    assert drawn(kind).shape == (3, 3, 5)
    assert drawn(kind, sizes={"N": 4, filling.place("x", 1): 6}).shape == (4, 6, 6)
    assert drawn(kind, asked(input_shape="N=7"), sizes={"N": 4}).shape == (7, 3, 9)


def test_places_are_told_apart():
    assert len({filling.place(name, axis) for name in ("x", "z") for axis in (0, 1)}) == 4
    assert drawn(tensor_type(FLOAT, [None, None]), sizes={filling.place("x", 1): 6}).shape == (3, 6)


def test_texts():
    made = drawn(tensor_type(STRING, [400]))
    assert made.dtype == object
    assert set(made.tolist()) == {"opset", "", "shift", "Up", "down"}, "small and capital letters, and none"


def test_truths():
    made = drawn(tensor_type(BOOL, [40]))
    assert (made.dtype, set(made.tolist())) == (bool, {True, False})


@pytest.mark.parametrize("kind", [FLOAT, HALF, INT64, UINT8, BOOL])
def test_between_what_is_asked_for(kind):
    made = drawn(tensor_type(kind, [400]), asked(val_range={"x": (0, 1)} if kind == BOOL else {"x": (2, 5)}))
    if kind in (FLOAT, HALF):
        assert 2 <= made.min() < 2.5 < 4.5 < made.max() <= 5
    else:
        assert set(made.tolist()) == ({False, True} if kind == BOOL else {2, 3, 4, 5})
    assert made.dtype == drawn(tensor_type(kind, [1])).dtype


def test_what_an_input_is_filled_with():
    made = drawn(tensor_type(INT64, [2]), fills={"x": 16000.0})
    assert (made.dtype, made.tolist()) == (np.int64, [16000, 16000])
    assert drawn(tensor_type(INT64, [2]), asked(val_range="x:[3,3]"), fills={"x": 9.0}).tolist() == [3, 3]


@pytest.mark.parametrize("elem_type", [FLOAT, HALF, COMPLEX])
def test_larger_numbers(elem_type):
    plain = drawn(tensor_type(elem_type, [50]))
    for scale in (64.0, 2.0**18):
        held = min(scale, 1024.0) if elem_type == HALF else scale
        np.testing.assert_allclose(drawn(tensor_type(elem_type, [50]), scale=scale), plain * held, rtol=2e-3)
    assert np.isfinite(drawn(tensor_type(elem_type, [50]), scale=2.0**18)).all()


def test_both_parts_of_complex_numbers_are_drawn():
    made = drawn(tensor_type(COMPLEX, [2000]))
    assert abs(np.corrcoef(made.real, made.imag)[0, 1]) < 0.1
    assert made.real.std() == pytest.approx(1, abs=0.1)
    assert made.imag.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_other_number_is_larger(seed):
    plain, wide = (drawn(tensor_type(FLOAT, [60]), seed=seed, wide=way).astype("f8") for way in (False, True))
    factor = np.ones(60)
    factor[seed % 2 :: 2] = 8
    factor[8::17] *= 2.0**-12
    np.testing.assert_allclose(wide / plain, factor, rtol=1e-6)


def test_a_single_number_is_no_larger_or_smaller_for_its_sign():
    for seed in range(3):
        assert abs(drawn(tensor_type(FLOAT, [1]), seed=seed)) == np.abs(
            np.float32(np.random.default_rng(seed).standard_normal())
        )


def test_of_numbers_of_one_sign_every_other_one_turns():
    seed = next(s for s in range(999) if (np.random.default_rng(s).standard_normal(5) > 0).all())
    assert np.sign(drawn(tensor_type(FLOAT, [5]), seed=seed)).tolist() == [-1, 1, -1, 1, -1]


@pytest.mark.parametrize(("elem_type", "low", "high"), [(UINT8, 0, 255), (INT8, -128, 127), (INT64, 0, 7)])
def test_integers_of_no_known_meaning(elem_type, low, high):
    made = drawn(tensor_type(elem_type, [9000]))
    assert (made.min(), made.max()) == (low, high)


def meant(size, choice=None, wanted=DRAWN, **known):
    held = Meanings(**{name: value if name == "used" else {"x": value} for name, value in known.items()})
    return filling.draw({"x": tensor_type(INT64, size)}, held, wanted, choice or filling.Choice(3))["x"]


def test_larger_integers_unless_they_tell_sizes():
    larger = filling.Choice(3, scale=64.0)
    assert meant([9000], larger).max() == 8 * 64 - 1
    assert meant([9000], larger, used={"x"}).max() == 7
    assert meant([9000], larger, used={"other"}).max() == 8 * 64 - 1


def test_lengths_are_those_of_the_shortest_axis():
    assert set(meant([400], of="length").tolist()) == {1, 2, 3}
    assert set(meant([400], filling.Choice(3, {"N": 2}), of="length").tolist()) == {1, 2}
    assert set(meant([400], wanted=asked(input_shape="N=1"), of="length").tolist()) == {1}
    assert set(meant([4], filling.Choice(0), of="length").tolist()) == {1}


def test_indices_lie_in_their_tables():
    assert set(meant([400], of="index").tolist()) == {0, 1}
    assert set(meant([400], of="index", below=5).tolist()) == set(range(5))
    assert set(meant([4], of="index", below=0).tolist()) == {0}, "of nothing"


def test_numbers_that_an_input_is_compared_with_have_their_turn():
    turns = [meant([], filling.Choice(3, turn=turn), compared=(60, 70)) for turn in range(6)]
    assert [value.item() for value in turns[:2] + turns[3:5]] == [60, 70, 60, 70]
    assert turns[2] < 8
    assert turns[5] < 8
    assert meant([2], compared=(60,)).max() < 8
    assert meant([1], of="ones", compared=(60,)).tolist() == [1]


def test_a_shape_of_as_many_sizes():
    assert [meant([count], of="shape").tolist() for count in (0, 1, 3)] == [[], [-1], [-1, 1, 1]]


@pytest.mark.parametrize(("kind", "most"), [("int64", 2**53), ("int32", 2**24), ("uint16", 2**12), ("uint64", 2**53)])
@pytest.mark.parametrize("body", ["y = Add(i, i)", "y = Mod(i, k)", "t = Neg(i) y = Div(t, k)"])
def test_integers_that_are_numbers_are_large_too(body, kind, most):
    of = model(body, 17, inputs=f"{kind}[200] i, {kind}[200] k", outputs=f"{kind}[200] y")
    taken = required(of)
    drawn = [filling.draw(taken, meanings(of, taken), DRAWN, filling.Choice(3, wide=wide)) for wide in (False, True)]
    assert drawn[0]["i"].max() < 8
    assert drawn[1]["i"].max() > most
    assert (drawn[1]["i"].min() < 0) == (kind[0] == "i")
    if "k)" in body:
        assert all(0 not in given["k"] for given in drawn)
        assert (drawn[1]["k"].min() < 0) == (kind[0] == "i")


def test_integers_that_tell_places_stay_small():
    of = model("t = Add(i, i) y = Gather(w, t)", 17, inputs="int64[90] i", outputs="float y", constants="float[99] w")
    taken = required(of)
    assert filling.draw(taken, meanings(of, taken), DRAWN, filling.Choice(3, wide=True))["i"].max() < 8


def test_divisors_are_never_0_and_large_where_numbers_are():
    few = meant([900], of="divisor")
    assert set(few.tolist()) == {sign * k for sign in (-1, 1) for k in range(1, 8)}
    many = meant([900], filling.Choice(3, wide=True), of="divisor")
    assert 0 not in many
    assert np.abs(many[::3]).max() > 2**55
    assert np.abs(many[::3]).max() < 2**60, "half of what numbers are at most"
    assert set(np.abs(np.delete(many, np.s_[::3])).tolist()) == set(range(1, 8))
    assert set(meant([900], filling.Choice(3, wide=True), of="divisor", used={"x"}).tolist()) == set(range(1, 8))
    assert set(meant([900], of="divisor", used={"x"}).tolist()) == set(range(1, 8))
    unsigned = filling.draw(
        {"x": tensor_type(13, [900])}, Meanings(of={"x": "divisor"}), DRAWN, filling.Choice(3, wide=True)
    )["x"]
    assert set(unsigned.tolist()) == set(range(1, 8))


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        ("axes", [0, 1, 2]),
        ("counting", [0, 1, 2]),
        ("axis", [0, 0, 0]),
        ("zeros", [0, 0, 0]),
        ("ones", [1, 1, 1]),
        ("many", [5, 5, 5]),
        ("shape", [-1, 1, 1]),
    ],
)
def test_what_integers_of_a_meaning_are(meaning, expected):
    assert meant([3], of=meaning).tolist() == expected
    assert meant([0], of=meaning).tolist() == []


def test_a_loop_turns_from_once_to_three_times():
    assert [meant([2], filling.Choice(3, seed=seed), of="turns").tolist() for seed in range(4)] == [
        [1, 1], [2, 2], [3, 3], [1, 1],
    ]  # fmt: skip
