"""What single inputs are filled with."""

import numpy as np
import onnx.parser
import pytest
from onnx import TypeProto
from opshift.passes.inputs.interface import required_inputs
from opshift.passes.model.types import tensor_type

from opshift.verification.engines import EngineError
from opshift.verification.feeding import filling
from opshift.verification.feeding.asked import DRAWN, Asked, read_options
from opshift.verification.feeding.meanings import Meanings, meanings
from opshift.verification.feeding.sizes import place
from tests.support import model

FLOAT, UINT8, INT8, INT64, STRING, BOOL, HALF, COMPLEX = 1, 2, 3, 7, 8, 9, 10, 14


def drawn(kind, wanted=DRAWN, **choice):
    return filling.draw({"x": kind}, Meanings(), wanted, filling.Choice(3, **choice))["x"]


def test_sizes_that_are_asked_for():
    wanted = read_options(input_shape={"x": [2, 5]})
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
    assert [drawn(kind, fallback=way).tolist() for way in filling.FALLBACKS[1:4]] == [[1, 1, 1], [2, 3, 4], [0, 0, 0]]
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
        ("y = ConstantOfShape(r)", "int64[3] r", {"r": [2, 3, 4]}),
        ("y = Trilu(x, k)", "float[3,3] x, int64 k", {"k": 1}),
        ("y = CumSum(x, a)", "float[3] x, int64 a", {"a": 0}),
        ("y = Squeeze(x, a)", "float[1,1] x, int64[2] a", {"a": [0, 1]}),
        ("y = Unsqueeze(x, a)", "float x, int64[2] a", {"a": [0, 1]}),
        ("y = ReduceSum(x, a)", "float[3,4] x, int64[2] a", {"a": [0, 1]}),
        ("y = Gather(w, i)", "int64[90] i", {"i": range(5)}),
        ("t = Div(n, i) u = Mod(n, i) y = Concat<axis = 0>(t, u)", "uint8[90] n, uint8[90] i", {"i": range(1, 8)}),
        ("t = Div(n, i) y = Tile(x, i)", "float[3] x, int64[90] n, int64[90] i", {"i": range(1, 2)}),
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
    taken = required_inputs(of)
    made = filling.draw(taken, meanings(of, taken), DRAWN, filling.Choice(3))
    for name, numbers in expected.items():
        found = made[name].ravel().tolist()
        assert set(found) == set(numbers) if isinstance(numbers, range) else found == np.ravel(numbers).tolist()


def sequence(of):
    return TypeProto(sequence_type=TypeProto.Sequence(elem_type=of))


@pytest.mark.parametrize(("axes", "ones"), [("[0, 1, 2, 3]", [1, 1]), ("[2, 3]", [])])
def test_scales_of_resize_are_less_and_more_than_1_in_turn(axes, ones):
    io = {"inputs": f"float[1,1,4,4] x, float[{len(ones) + 2}] s", "outputs": "float[A,B,C,D] y"}
    resize = model(f'y = Resize<axes = {axes}, mode = "linear">(x, , s)', 18, **io)
    taken = required_inputs(resize)
    choices = [filling.Choice(seed=0), filling.Choice(seed=1), filling.Choice(fallback="ones")]
    runs = [filling.draw(taken, meanings(resize, taken), DRAWN, choice)["s"] for choice in choices]
    np.testing.assert_array_equal(runs, np.float32([[*ones, 0.6, 0.6], [*ones, 1.5, 1.5], [*ones, 1, 1]]))


def test_sequences_and_options():
    two = drawn(sequence(tensor_type(FLOAT, [2])))
    assert [value.shape for value in two] == [(2,), (2,)]
    (inner,) = drawn(sequence(sequence(tensor_type(FLOAT, [2]))))
    assert [value.shape for value in inner] == [(2,), (2,)]
    assert drawn(TypeProto(optional_type=TypeProto.Optional(elem_type=tensor_type(FLOAT, [2])))).shape == (2,)


def test_more_axes_than_arrays_have():
    assert drawn(tensor_type(FLOAT, [1] * 32)).ndim == 32
    for held in (tensor_type(FLOAT, [1] * 33), sequence(tensor_type(FLOAT, [1] * 33))):
        with pytest.raises(EngineError, match="an input has 33 dimensions"):
            drawn(held)


def test_no_more_elements_than_are_meant():
    kind = {"x": tensor_type(FLOAT, [3, 4])}
    assert filling.draw(kind, Meanings(), DRAWN, filling.Choice(3), 12)["x"].size == 12
    with pytest.raises(EngineError, match="more than 11 elements"):
        filling.draw(kind, Meanings(), DRAWN, filling.Choice(3), 11)


def test_sizes_by_symbol_by_place_and_computed():
    kind = tensor_type(FLOAT, ["N", None, "N + 2"])
    assert drawn(kind).shape == (3, 3, 5)
    assert drawn(kind, sizes={"N": 4, place("x", 1): 6}).shape == (4, 6, 6)
    assert drawn(kind, read_options(input_shape="N=7"), sizes={"N": 4}).shape == (7, 3, 9)


def test_places_are_told_apart():
    assert len({place(name, axis) for name in ("x", "z") for axis in (0, 1)}) == 4
    assert drawn(tensor_type(FLOAT, [None, None]), sizes={place("x", 1): 6}).shape == (3, 6)


def test_texts():
    made = drawn(tensor_type(STRING, [400]))
    assert made.dtype == object
    assert set(made.tolist()) == {"opset", "", "shift", "Up", "down"}, "small and capital letters, and none"


def test_truths():
    made = drawn(tensor_type(BOOL, [40]))
    assert (made.dtype, set(made.tolist())) == (bool, {True, False})


@pytest.mark.parametrize("kind", [FLOAT, HALF, INT64, UINT8, BOOL])
def test_between_what_is_asked_for(kind):
    made = drawn(tensor_type(kind, [400]), read_options(val_range={"x": (0, 1)} if kind == BOOL else {"x": (2, 5)}))
    if kind in (FLOAT, HALF):
        assert 2 <= made.min() < 2.5 < 4.5 < made.max() <= 5
    else:
        assert set(made.tolist()) == ({False, True} if kind == BOOL else {2, 3, 4, 5})
    assert made.dtype == drawn(tensor_type(kind, [1])).dtype


def test_what_an_input_is_filled_with():
    made = drawn(tensor_type(INT64, [2]), fills={"x": 16000.0})
    assert (made.dtype, made.tolist()) == (np.int64, [16000, 16000])
    assert drawn(tensor_type(INT64, [2]), read_options(val_range="x:[3,3]"), fills={"x": 9.0}).tolist() == [3, 3]


def test_both_parts_of_complex_numbers_are_drawn():
    made = drawn(tensor_type(COMPLEX, [2000]))
    assert abs(np.corrcoef(made.real, made.imag)[0, 1]) < 0.1
    assert made.real.std() == pytest.approx(1, abs=0.1)
    assert made.imag.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("shape", "across"), [([1, 3, 64, 64], 1), ([1, 64, 64, 3], 3), ([2, 4096], 0), ([1, 4096, 1], 0), ([4096], 0)]
)
def test_images_and_sounds_in_which_neighbours_are_alike(shape, across):
    smooth = drawn(tensor_type(FLOAT, shape), Asked(smooth=True), seed=1)
    rough = drawn(tensor_type(FLOAT, shape), Asked(smooth=True), seed=0)
    assert smooth.std() == pytest.approx(1, abs=0.2)
    for axis in (axis for axis, size in enumerate(shape) if (size > 4 and axis != across) or len(shape) == 1):
        steps = [np.diff(one, axis=axis).std() for one in (smooth, rough)]
        assert steps[0] < 1 < 1.3 < steps[1], "of independent numbers, the root of two"


@pytest.mark.parametrize("shape", [[2, 16], [1, 5, 300], [1, 1, 1, 1], [0, 3, 8, 8], []])
def test_others_are_drawn_as_they_always_were(shape):
    one, other = (drawn(tensor_type(FLOAT, shape), Asked(smooth=each), seed=1) for each in (False, True))
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize(("elem_type", "low", "high"), [(UINT8, 0, 255), (INT8, -128, 127), (INT64, 0, 7)])
def test_integers_of_no_known_meaning(elem_type, low, high):
    made = drawn(tensor_type(elem_type, [9000]))
    assert (made.min(), made.max()) == (low, high)


def meant(size, choice=None, wanted=DRAWN, **known):
    held = Meanings(**{name: {"x": value} for name, value in known.items()})
    return filling.draw({"x": tensor_type(INT64, size)}, held, wanted, choice or filling.Choice(3))["x"]


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


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        ("axes", [0, 1, 2]),
        ("sizes", [2, 3, 4]),
        ("zeros", [0, 0, 0]),
        ("ones", [1, 1, 1]),
        ("many", [5, 5, 5]),
        ("shape", [-1, 1, 1]),
    ],
)
def test_what_integers_of_a_meaning_are(meaning, expected):
    assert meant([3], of=meaning).tolist() == expected
    assert meant([0], of=meaning).tolist() == []


def test_axes_are_counted_from_both_ends_and_from_the_second_one_in_turn():
    drawn_axes = [meant([2], filling.Choice(3, seed=seed), of="axes").tolist() for seed in range(4)]
    assert drawn_axes == [[0, 1], [-1, -2], [1, 2], [0, 1]]


def test_a_loop_turns_from_once_to_three_times():
    assert [meant([2], filling.Choice(3, seed=seed), of="iterations").tolist() for seed in range(4)] == [
        [1, 1], [2, 2], [3, 3], [1, 1],
    ]  # fmt: skip


def test_numbers_are_of_ordinary_magnitude():
    made = drawn(tensor_type(FLOAT, [4, 500]))
    assert 0.9 < made.std() < 1.1
    assert np.abs(made).max() < 6
    assert drawn(tensor_type(FLOAT, [4, 500]), fallback="positive").min() > 0


def test_divisors_are_never_0():
    both = meant([900], of="divisor")
    assert set(both.tolist()) == {sign * k for sign in (-1, 1) for k in range(1, 8)}
    assert set(meant([900], of="dividend").tolist()) == set(range(-8, 8))


@pytest.mark.parametrize("shape", [[6], [2, 6], [3, 1, 1, 6], [4, 1], [0, 6], [2, 0]])
def test_masks_are_ones_up_to_a_length(shape):
    for seed in range(2):
        made = meant(shape, filling.Choice(seed=seed), of="mask").reshape(-1, max(shape[-1], 1))
        assert made.tolist() == [
            [1] * shape[-1] if (row + seed) % 2 == 0 else [1] * -(-shape[-1] // 2) + [0] * (shape[-1] // 2)
            for row in range(len(made))
        ]
    assert meant([2, 6], filling.Choice(fallback="ones"), of="mask").all()
    assert meant([], of="mask") == 1


def test_floats_that_are_a_mask_are_zeros_and_ones():
    held = Meanings(of={"x": "mask"})
    made = filling.draw({"x": tensor_type(FLOAT, [2, 6])}, held, DRAWN, filling.Choice())["x"]
    assert (made.dtype, made.tolist()) == (np.float32, [[1] * 6, [1] * 3 + [0] * 3])


def lengths(of, inputs, name, **choice):
    source = model(of, 17, inputs=inputs, outputs="float y", constants="float[1,1,3] w, float[1,1,1] r")
    taken = required_inputs(source)
    return filling.draw(taken, meanings(source, taken), DRAWN, filling.Choice(**choice))[name].tolist()


RNN = "_, y = RNN<hidden_size=1>({}, w, r, , l)"


@pytest.mark.parametrize(
    ("of", "inputs", "longest"),
    [
        (RNN.format("x"), "float[7,400,3] x, int32[400] l", 7),
        ("t = Transpose<perm=[1,0,2]>(x) c = Cast<to=1>(t) " + RNN.format("c"), "float[400,9,3] x, int32[400] l", 9),
        ("y = ReverseSequence<batch_axis=0, time_axis=1>(x, l)", "float[400,6] x, int64[400] l", 6),
        ("y = ReverseSequence<batch_axis=1, time_axis=0>(x, l)", "float[6,400] x, int64[400] l", 6),
        ("a = Neg(x) " + RNN.format("a"), "float[K,400,T] x, int32[400] l", 11),  # the largest one that is dynamic
        ("a = Neg(x) " + RNN.format("a"), "float[4,5,6] x, int32[400] l", 5),
        ("a = Neg(x) " + RNN.format("a"), "float[4] x, int32[400] l", 1),
        ("a = Abs(x_len) y = Add(a, a)", "float[B,T] x, int32[400] x_len", 11),
    ],
)
def test_lengths_are_those_of_an_axis(of, inputs, longest):
    name = "x_len" if "x_len" in inputs else "l"
    found = lengths(of, inputs, name, sizes={"T": 11, "K": 3, "B": 20})
    assert set(found) == set(range(1, longest + 1))
    assert found[0] == longest
    assert lengths(of, inputs, name, sizes={"T": 11, "K": 3, "B": 20}, seed=3)[3] == longest


@pytest.mark.parametrize(
    "column", ["Gather<axis = 1>(x, {})", "ai.onnx.ml.ArrayFeatureExtractor(x, {})"], ids=["Gather", "extractor"]
)
def test_encoders_that_fail_at_other_categories_get_their_own(column):
    """The two columns have categories of their own."""
    known = ["a", "b"], ["p", "q", "r"]
    encoded = [
        f"s{k} = {column.format(f'k{k}')} e{k} = ai.onnx.ml.OneHotEncoder<cats_strings = {cats}, zeros = 0>(s{k})"
        for k, cats in enumerate(known)
    ]
    source = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        m (string[20,2] x) => (float[20,M,C] y) <int64[1] k0 = {{0}}, int64[1] k1 = {{1}}>
        {{ {" ".join(encoded)} y = Concat<axis = -1>(e0, e1) }}""".replace("'", '"')
    )
    taken = required_inputs(source)
    columns = filling.draw(taken, meanings(source, taken), DRAWN, filling.Choice(3))["x"].T
    assert [set(column) for column in columns] == [set(cats) for cats in known]
