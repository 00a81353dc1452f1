"""What integers mean to the nodes that they come to."""

import pytest
from opshift.passes.specialization.inputs import required

from opshift.verification.feeding.meanings import meanings
from tests.support import model

HELD = (
    "float[5,3] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}, float[4] v = {1,2,3,4}, int64 six = {6}, int64[1] two = {2}"
)
HELD += ", int64[2] both = {8, 9}"


def of(body, inputs="int64[4] i", **io):
    made = model(body, 19, **{"inputs": inputs, "outputs": "float y", "constants": HELD, **io})
    return meanings(made, required(made))


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
        ("a = Cast<to = 6>(i) y = CumSum(v, a)", "axis"),
        ("y = CumProd(v, i)", "axis"),
        ("y = ReduceSum(v, i)", "axes"),
        ("y = ReduceMax(v, i)", "axes"),
        ("y = Tile(v, i) z = Gather(v, i)", "ones"),
        ("y = Gather(v, i) z = Tile(v, i)", "index"),
        ("y = Reshape(i, six)", None),
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


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("y = Neg(i)", False),
        ("a = Add(i, six) b = Mul(a, a) y = Less(b, six)", False),
        ("y = Gather(v, i)", True),
        ("a = Add(six, i) b = Neg(a) y = Gather(v, b)", True),
        ("a = Add(i, six) y = own.Thing(a)", True),
        ("y = Range(six, i, two)", True),
        ("a = Add(six, two) y = Tile(v, a) z = Neg(i)", False),
        ("y = Softmax(i)", True),
        ("a = Concat<axis = 0>(i, two) y = Reshape(v, a)", True),
    ],
)
def test_numbers_that_tell_sizes_or_places_are_used_as_such(body, used):
    assert of(body, domains='"own" : 1').used == ({"i"} if used else set())


def test_inputs_are_told_apart():
    found = of("a = Add(i, j) y = Gather(v, a) z = Neg(k) b = Equal(j, six)", "int64[4] i, int64[4] j, int64[4] k")
    assert found.used == {"i", "j"}
    assert found.compared == {"j": (6,)}


def test_what_takes_no_integers_means_nothing():
    found = of("y = Gather(v, six)", "float[4] x")
    assert (found.of, found.below, found.compared, found.used) == ({}, {}, {}, set())


def test_branches_are_read():
    body = "y = If(c) <then_branch = t () => (float p) { p = Gather(v, i) }, else_branch = e () => (float q) { q = Neg(v) }>"
    found = of(body, "bool c, int64 i")
    assert (found.of, found.below) == ({"i": "index"}, {"i": 4})
