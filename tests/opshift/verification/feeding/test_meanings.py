"""What integers mean to the nodes that they come to."""

import pytest
from onnx import helper
from opshift.passes.inputs.interface import required_inputs

from opshift.verification.feeding.meanings import meanings
from tests.support import model

HELD = (
    "float[5,3] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}, float[4] v = {1,2,3,4}, int64 six = {6}, int64[1] two = {2}"
)
HELD += ", int64[2] both = {8, 9}"


def of(body, inputs="int64[4] i", **io):
    made = model(body, 19, **{"inputs": inputs, "outputs": "float y", "constants": HELD, **io})
    return meanings(made, required_inputs(made))


@pytest.mark.parametrize(
    ("body", "below"),
    [
        ("y = Gather(w, i)", 5),
        ("y = Gather<axis = 1>(w, i)", 3),
        ("y = Gather<axis = -1>(w, i)", 3),
        ("y = Gather<axis = -2>(w, i)", 5),
        ("y = Gather<axis = 2>(w, i)", None),
        ("y = Gather<axis = -3>(w, i)", None),
        ("y = GatherElements<axis = 1>(w, i)", 3),
        ("y = GatherND(w, i)", None),
        ("y = ScatterElements(w, i, v)", None),
        ("t = Abs(w) y = Gather(t, i)", None),
        ("y = Gather(w, i) z = Gather(v, i)", 4),
        ("z = Gather(v, i) y = Gather(w, i)", 4),
        ("c = Constant<value = float[2] {1, 2}>() y = Gather(c, i)", 2),
        ("y = Gather(v, i) c = Constant<value_float = 1.0>()", 4),
        ("a = Flatten(i) b = Identity(a) y = Gather(v, b)", 4),
        ("a = Neg(i) y = Gather(v, a)", None),
    ],
)
def test_an_index_lies_in_its_table(body, below):
    assert of(body).below.get("i") == below


@pytest.mark.parametrize(
    ("body", "meaning"),
    [
        ("y = Gather(v, i)", "index"),
        ("y = Neg(i)", None),
        ("a = Cast<to = 6>(i) y = CumSum(v, a)", "axes"),
        ("y = CumProd(v, i)", "axes"),
        ("y = ReduceSum(v, i)", "axes"),
        ("y = ReduceMax(v, i)", "axes"),
        ("y = Tile(v, i) z = Gather(v, i)", "ones"),
        ("y = Gather(v, i) z = Tile(v, i)", "index"),
        ("y = Reshape(i, six)", None),
        ("t = Unsqueeze<axes = [0]>(w) y = RoiAlign(t, w, i)", "zeros"),
        ("y = own.Gather(v, i)", None),
    ],
)
def test_what_an_input_means_to_the_first_that_says_so(body, meaning):
    assert of(body, domains='"own" : 1').of.get("i") == meaning


@pytest.mark.parametrize("op", ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
def test_what_an_input_is_compared_with(op):
    assert of(f"y = {op}(i, six)").compared == {"i": (6,)}
    assert of(f"y = {op}(two, i)").compared == {"i": (2,)}


@pytest.mark.parametrize(
    ("body", "compared"),
    [
        ("y = Equal(i, six) z = Less(i, two) u = Greater(i, six)", (6, 2)),
        ("y = Equal(i, both)", ()),
        ("y = Add(i, six)", None),
        ("a = Identity(i) y = Equal(a, six)", (6,)),
        ("a = Neg(i) y = Equal(a, six)", None),
        ("c = Constant<value = int64 {7}>() y = Equal(i, c)", (7,)),
        ("y = Equal(i, i)", ()),
    ],
)
def test_constants_of_one_element_are_what_an_input_is_compared_with(body, compared):
    assert of(body).compared.get("i") == compared


def test_inputs_are_told_apart():
    found = of("a = Add(i, j) y = Gather(v, a) z = Neg(k) b = Equal(j, six)", "int64[4] i, int64[4] j, int64[4] k")
    assert found.compared == {"j": (6,)}


def test_what_takes_no_integers_means_nothing():
    found = of("y = Gather(v, six)", "float[4] x")
    assert (found.of, found.below, found.compared) == ({}, {}, {})


def test_branches_are_read():
    body = "y = If(c) <then_branch = t () => (float p) { p = Gather(v, i) }, else_branch = e () => (float q) { q = Neg(v) }>"
    found = of(body, "bool c, int64 i")
    assert (found.of, found.below) == ({"i": "index"}, {"i": 4})


def of_node(op, index, count=5, more=()):
    """What is made of `i` where it is one of the inputs of a node, of which nothing else is known."""
    names = [f"a{k}" for k in range(count)]
    names[index] = "i"
    made = model("y = Neg(x)", 19, inputs="float x, int64[4] i", outputs="float y")
    made.graph.node.extend([helper.make_node(op, names, ["m"]), *more])
    return meanings(made, required_inputs(made))


PLACES = {
    "index": [*((op, 1) for op in ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")), ("OneHot", 0)],
    "axes": [*((op, 1) for op in ("Squeeze", "Unsqueeze", "ReduceSum", "ReduceLogSumExp", "CumSum", "CumProd")), ("Slice", 3)],
    "length": [("RNN", 4), ("GRU", 4), ("LSTM", 4), ("ReverseSequence", 1)],
    "shape": [("Reshape", 1)],
    "ones": [("Expand", 1), ("Tile", 1), ("TopK", 1), ("Slice", 4), ("Pad", 1), ("Range", 2), ("Trilu", 1)],
    "many": [("OneHot", 1), ("Slice", 2), ("Range", 1)],
    "zeros": [("Slice", 1), ("Range", 0)],
    "sizes": [("ConstantOfShape", 0)],
    "iterations": [("Loop", 0)],
    "dividend": [("Div", 0), ("Mod", 0)],
    "divisor": [("Div", 1), ("Mod", 1)],
}  # fmt: skip


@pytest.mark.parametrize(("meaning", "op", "index"), [(m, op, k) for m, places in PLACES.items() for op, k in places])
def test_each_operator_takes_integers_of_a_meaning(meaning, op, index):
    assert of_node(op, index).of == {"i": meaning}
    others = {k for places in PLACES.values() for name, k in places if name == op}
    for k in {0, 1, 2, 3, 4} - others:
        assert of_node(op, k).of == {}


@pytest.mark.parametrize(
    "op", ["Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Expand"]
)
def test_operators_that_pass_numbers_on(op):
    assert of_node(op, 0, more=[helper.make_node("Tile", ["x", "m"], ["y2"])]).of == {"i": "ones"}
    assert "ones" not in of_node("Neg", 0, more=[helper.make_node("Tile", ["x", "m"], ["y2"])]).of.values()


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_what_is_divided_and_what_divides(op):
    assert [of_node(op, index, 2).of["i"] for index in (0, 1)] == ["dividend", "divisor"]


# --- masks, lengths and classes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "y = Cast<to=9>(m)",
        "a = Unsqueeze(m, six) b = Slice(a, six, six) y = Cast<to=9>(b)",
        "f = Cast<to=1>(m) c = Sub(one, f) y = Mul(c, low)",
        "f = Cast<to=1>(m) y = Mul(low, f)",
        "y = Equal(m, zero)",
    ],
)
def test_masks_are_known_by_what_is_done_with_them(body):
    held = "int64[1] six = {6}, float one = {1}, float low = {-10000}, int64 zero = {0}"
    source = model(body, 17, inputs="int64[N,4] m", outputs="float y", constants=held)
    assert meanings(source, required_inputs(source)).of["m"] == "mask"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b = Cast<to=9>(m) y = Gather(v, m)", "index"),
        ("f = Cast<to=1>(m) c = Sub(one, f) y = Mul(c, half)", ""),
        ("f = Cast<to=1>(m) c = Sub(half, f) y = Mul(c, low)", ""),
        ("y = Equal(m, six)", ""),
    ],
)
def test_what_is_no_mask(body, expected):
    held = "int64[1] six = {6}, float one = {1}, float low = {-10000}, float half = {0.5}, float[9] v"
    source = model(body, 17, inputs="int64[N,4] m", outputs="float y", constants=held)
    assert meanings(source, required_inputs(source)).of.get("m", "") == expected


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("attention_mask", "int64", "mask"),
        ("decoder_attention_mask", "float", "mask"),
        ("pad_mask", "bool", "mask"),
        ("lengths", "int32", "length"),
        ("x_len", "int64", "length"),
        ("x_len", "float", ""),
        ("token_type_ids", "int64", "type"),
        ("lenses", "int64", ""),
        ("x", "float", ""),
    ],
)
def test_names_say_what_inputs_are(name, kind, expected):
    source = model(f"y = Abs({name})", 17, inputs=f"{kind}[N,4] {name}", outputs="float y")
    assert meanings(source, required_inputs(source)).of.get(name, "") == expected


def test_a_name_says_more_than_a_division():
    source = model("y = Div(n, x_len)", 17, inputs="int64[4] x_len, int64[4] n", outputs="int64 y")
    assert meanings(source, required_inputs(source)).of == {"n": "dividend", "x_len": "length"}


def test_several_numbers_that_an_input_is_compared_with_are_its_classes():
    source = model("a = Unsqueeze(x, six) y = Equal(a, c)", 17, inputs="int64[N] x", outputs="bool y",
                   constants="int64[1] six = {1}, int64[4] c = {0, 1, 2, 3}")  # fmt: skip
    found = meanings(source, required_inputs(source))
    assert (found.of, found.below) == ({"x": "index"}, {"x": 4})


def test_a_class_is_below_the_depth_of_its_code():
    source = model("y = OneHot(x, d, v)", 17, inputs="int64[N] x", outputs="float y",
                   constants="int64 d = {9}, float[2] v = {0, 1}")  # fmt: skip
    assert meanings(source, required_inputs(source)).below == {"x": 9}


def test_a_table_may_be_quantized():
    source = model("c = DequantizeLinear(t, s) y = Gather(c, x)", 17, inputs="int64[N] x", outputs="float y",
                   constants="uint8[3,2] t = {1, 2, 3, 4, 5, 6}, float s = {1}")  # fmt: skip
    assert meanings(source, required_inputs(source)).below == {"x": 3}


def test_tables_of_onnxruntime():
    body = "y, z = com.microsoft.EmbedLayerNormalization(x, t, w, p, k) u = com.microsoft.GatherBlockQuantized(q, v, s)"
    source = model(body, 17, inputs="int32[N,4] x, int32[N,4] t, int64[N] v", outputs="float y", domains='"com.microsoft" : 1',
                   constants="float[3,1] w = {1, 2, 3}, float p = {1}, float[2,1] k = {1, 2}, uint8[5,1] q = {1, 2, 3, 4, 5}, float s = {1}")  # fmt: skip
    found = meanings(source, required_inputs(source))
    assert found.of == {"x": "index", "t": "index", "v": "index"}
    assert found.below == {"x": 3, "t": 2, "v": 5}
