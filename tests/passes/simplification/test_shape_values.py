"""Small integers and dimensions are followed through operators, as far as they are known whatever the sizes are."""

import itertools
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.analysis import polynomial
from opshift.passes.analysis.polynomial import Poly
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.workspace import FEW, KnownNumbers

N, M = polynomial.symbol("N"), polynomial.symbol("M")


def vector(*numbers):
    return KnownNumbers(False, numbers)


def scalar(number):
    return KnownNumbers(True, (number,))


def plus(a, *others):
    for other in others:
        a = polynomial.add(a, other)
    return a


def times(a, b):
    return polynomial.multiply(a, b)


VALUES = {
    "nm": vector(N, M, 3), "four": vector(7, -2, 5, 9), "one": vector(1), "zero": vector(0), "minus": vector(-1), "two": scalar(2),
    "n": scalar(N), "m": scalar(M), "vn": vector(N), "pair": vector(0, 2), "far": vector(3), "back": vector(-3), "last": vector(2),
    "sum": scalar(plus(N, M)), "next": scalar(plus(N, 1)), "twice": scalar(times(N, 2)), "flags": vector(1, 0, 1), "open": vector(N, 0, 1),
    "three": vector(1, 2, 3), "huge": scalar(2**31 - 1), "low": scalar(-(2**31)), "half": scalar(plus(times(N, 2), 1)), "seven": scalar(7),
    "neg": scalar(-7), "six": scalar(6), "steps": vector(-1), "none": vector(), "both": vector(1, 1), "nothing": scalar(0), "two1": vector(2),
    "end": vector(99), "many": vector(2**16, 2**16), "ax": vector(0), "ax1": vector(-1), "ax2": vector(1), "flat": vector(-1), "like": vector(3), "n2": vector(times(N, N), 2),
}  # fmt: skip
SHAPES = {
    "x": (2, N, 3), "row": (N, 1), "col": (1, M), "mat": (N, M), "w": (M, 5), "batch": (4, 1, N, M), "s": (), "thin": (1, N, 1), "six": (6, 4),
    "k": (3,), "odd": (5, 4), "wide": (2, 3),
}  # fmt: skip


def call(text, *, opset=18, exact=False, kinds=None):
    whole = SimpleNamespace(leans=False)
    space = SimpleNamespace(
        opset=opset, exact=exact, whole=whole, known_numbers=VALUES.get, shape=SHAPES.get, learned={},
        elem_type=lambda name: (kinds or {}).get(name, TensorProto.INT64),
    )  # fmt: skip
    space.numbers = {}
    space.learn = lambda name, dims=None, **held: (space.learned if dims is not None else space.numbers).update(
        {name: held or dims}
    )
    return Call(onnx.parser.parse_node(f"y = {text}" if not text.startswith("y,") else text), space)


KNOWN = [
    ("Shape(x)", vector(2, N, 3)), ("Shape<start=1>(x)", vector(N, 3)), ("Shape<start=-2,end=-1>(x)", vector(N)), ("Shape(q)", None),
    ("Size(x)", scalar(times(N, 6))), ("Size(wide)", scalar(6)), ("Size(q)", None), ("Identity(nm)", vector(N, M, 3)),
    ("Gather(nm, two)", scalar(3)), ("Gather(nm, pair)", vector(N, 3)), ("Gather<axis=-1>(nm, minus)", vector(3)),
    ("Gather(nm, back)", vector(N)), ("Gather(nm, far)", None), ("Gather<axis=1>(nm, two)", None), ("Gather(n, zero)", None),
    ("Gather(nm, n)", None), ("Gather(q, zero)", None), ("Gather(nm, q)", None),
    ("Cast<to=7>(nm)", vector(N, M, 3)), ("Cast<to=1>(nm)", None), ("Cast<to=9>(nm)", None), ("Cast<to=9>(four)", vector(1, 1, 1, 1)),
    ("Cast<to=9>(pair)", vector(0, 1)), ("Cast<to=6>(nm)", vector(N, M, 3)), ("Cast<to=6>(sum)", None), ("Cast<to=6>(huge)", scalar(2**31 - 1)),
    ("Cast<to=6>(low)", scalar(-(2**31))), ("Cast<to=6>(q)", None),
    ("Unsqueeze(n, ax)", vector(N)), ("Unsqueeze(n, ax1)", vector(N)), ("Unsqueeze(n, ax2)", None), ("Unsqueeze(vn, ax)", None),
    ("Squeeze(vn)", scalar(N)), ("Squeeze(vn, ax)", scalar(N)), ("Squeeze(vn, ax1)", scalar(N)), ("Squeeze(vn, ax2)", None), ("Squeeze(nm)", None),
    ("Squeeze(n)", None), ("Squeeze(vn, q)", None),
    ("Reshape(vn, none)", scalar(N)), ("Reshape(nm, none)", None), ("Reshape(nm, flat)", vector(N, M, 3)), ("Reshape(nm, like)", vector(N, M, 3)),
    ("Reshape(n, one)", vector(N)), ("Reshape(nm, one)", None), ("Reshape(nm, pair)", None), ("Reshape(q, flat)", None), ("Reshape(nm, q)", None),
    ("Concat<axis=0>(nm, vn, one)", vector(N, M, 3, N, 1)), ("Concat<axis=0>(nm, n)", None), ("Concat<axis=0>(nm, q)", None),
    ("Slice(four, one, last)", vector(-2)), ("Slice(four, zero, end)", vector(7, -2, 5, 9)), ("Slice(four, minus, back, ax, steps)", vector(9, 5)),
    ("Slice(four, one, end, ax1, last)", vector(-2, 9)), ("Slice(four, one, end, ax2)", None), ("Slice(four, one, end, ax, zero)", None),
    ("Slice(four, pair, end)", None), ("Slice(four, one, vn)", None), ("Slice(n, zero, end)", None), ("Slice(q, zero, end)", None),
    ("Slice(four, one, end, q)", None), ("Slice(four, one, last, , one)", vector(-2)),
    ("Add(nm, one)", vector(plus(N, 1), plus(M, 1), 4)), ("Add(n, m)", scalar(plus(N, M))), ("Add(vn, n)", vector(times(N, 2))),
    ("Add(nm, four)", None), ("Add(nm, pair)", None), ("Add(huge, one)", None), ("Add(low, minus)", None), ("Add(huge, zero)", vector(2**31 - 1)),
    ("Add(low, zero)", vector(-(2**31))), ("Add(q, one)", None), ("Add(one, q)", None), ("Sub(next, n)", scalar(1)), ("Sub(n, n)", scalar(0)),
    ("Sub(n, m)", scalar(plus(N, times(M, -1)))), ("Mul(n, m)", scalar(times(N, M))), ("Mul(twice, two)", scalar(times(N, 4))),
    ("Div(twice, two)", scalar(N)), ("Div(half, two)", None), ("Div(seven, two)", scalar(3)), ("Div(neg, two)", None), ("Div(seven, neg)", None),
    ("Div(nothing, two)", scalar(0)), ("Div(seven, nothing)", None), ("Div(n, n)", None), ("Div(next, next)", scalar(1)), ("Div(seven, n)", None),
    ("Max(n, n)", scalar(N)), ("Max(n, two)", None), ("Max(seven, two)", scalar(7)), ("Max(two, seven, six)", None),
    ("Equal(n, n)", scalar(1)), ("Equal(n, m)", None), ("Equal(next, n)", scalar(0)), ("Equal(n, next)", scalar(0)), ("Equal(two, seven)", scalar(0)),
    ("Equal(n, two)", None), ("Equal(nm, one)", None), ("Equal(next, nothing)", scalar(0)),
    ("Where(flags, nm, one)", vector(N, 1, 3)), ("Where(open, nm, one)", None), ("Where(both, nm, one)", None), ("Where(one, n, two)", vector(N)),
    ("Where(nothing, n, two)", scalar(2)), ("Where(flags, nm, pair)", None), ("Where(flags, q, one)", None), ("Where(both, pair, one)", vector(0, 2)),
    ("ReduceProd(nm)", vector(times(times(N, M), 3))), ("ReduceProd<keepdims=0>(nm, ax)", scalar(times(times(N, M), 3))),
    ("ReduceProd(four, ax1)", vector(-630)), ("ReduceProd(four, ax2)", None), ("ReduceProd(four, q)", None), ("ReduceProd(n)", None),
    ("ReduceProd<noop_with_empty_axes=1>(four)", None), ("ReduceProd(q)", None),
    ("ReduceProd(many)", None),
]  # fmt: skip


def test_a_product_that_may_leave_32_bits_is_not_followed():
    assert shape_values._FOLLOWED["ReduceProd"](call("ReduceProd(nm)", kinds={"nm": TensorProto.INT32})) is None


@pytest.mark.parametrize(("text", "numbers"), KNOWN)
def test_numbers_are_followed(text, numbers):
    given = call(text)
    assert shape_values._FOLLOWED[given.op](given) == numbers
    if numbers is not None:
        shape_values.follow(given)
        assert given.space.numbers["y"]["numbers"] == numbers


def test_each_operator_that_is_followed_is_tried():
    assert {onnx.parser.parse_node(f"y = {text}").op_type for text, _ in KNOWN} == shape_values._FOLLOWED.keys()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("Slice<starts=[1],ends=[9]>(four)", vector(-2, 5, 9)), ("Slice<starts=[1],ends=[9],axes=[1]>(four)", None),
     ("Unsqueeze<axes=[0]>(n)", vector(N)), ("Squeeze<axes=[0]>(vn)", scalar(N)), ("Slice<starts=[1,0],ends=[9,9]>(four)", None)],
)  # fmt: skip
def test_where_axes_and_ends_were_attributes(text, numbers):
    given = call(text, opset=9)
    assert shape_values._FOLLOWED[given.op](given) == numbers


def test_an_int32_is_not_followed_to_where_it_may_not_fit():
    small = dict.fromkeys(VALUES, TensorProto.INT32)
    for text, numbers in (("Mul(n, m)", None), ("Add(nothing, n)", scalar(N)), ("Add(two, two)", scalar(4))):
        assert shape_values._FOLLOWED[call(text).op](call(text, kinds=small)) == numbers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Shape(x)", 7),
        ("Size(x)", 7),
        ("Cast<to=6>(n)", 6),
        ("Equal(n, n)", 9),
        ("Where(flags, nm, one)", 5),
        ("Add(seven, one)", 3),
    ],
)
def test_numbers_have_the_type_that_the_operator_makes(text, kind):
    given = call(text, kinds={"x": 1, "flags": 9, "nm": 5, "seven": 3})
    shape_values.follow(given)
    assert given.space.numbers["y"]["elem_type"] == kind


def test_no_more_than_few_numbers_are_followed(monkeypatch):
    for count in (FEW, FEW + 1):
        monkeypatch.setitem(SHAPES, "x", (2,) * count)
        given = call("Shape(x)")
        shape_values.follow(given)
        assert ("y" in given.space.numbers) is (count == FEW)


DIMENSIONS = [
    ("Add(row, col)", (N, M)), ("Add(mat, w)", None), ("Add(row, mat)", (N, M)), ("Where(row, col, s)", (N, M)), ("Mul(batch, mat)", (4, 1, N, M)), ("Sub(x, k)", (2, N, 3)), ("Add(x, q)", None),
    ("Div(s, s)", ()), ("Pow(x, s)", (2, N, 3)), ("Relu(x)", (2, N, 3)), ("Softmax(x)", (2, N, 3)), ("Relu(q)", None), ("Add(k, row)", (N, 3)),
    ("Concat<axis=0>(mat, mat)", (times(N, 2), M)), ("Concat<axis=-1>(mat, mat)", (N, times(M, 2))), ("Concat<axis=1>(row, col)", (N, plus(M, 1))),
    ("Concat<axis=0>(mat, x)", None), ("Concat<axis=0>(mat, q)", None), ("Concat(mat, mat)", (N, times(M, 2))),
    ("Expand(row, nm)", None), ("Expand(k, three)", (1, 2, 3)), ("Expand(s, nm)", (N, M, 3)), ("Expand(s, n)", None), ("Expand(q, nm)", None), ("Expand(x, q)", None),
    ("Gather(x, mat)", (N, M, N, 3)), ("Gather<axis=1>(x, s)", (2, 3)), ("Gather<axis=-1>(x, k)", (2, N, 3)), ("Gather(q, k)", None), ("Gather(x, q)", None),
    ("Gemm(mat, w)", (N, 5)), ("Gemm<transA=1>(mat, w)", (M, 5)), ("Gemm<transB=1>(mat, w)", (N, M)), ("Gemm(x, w)", None), ("Gemm(mat, x)", None), ("Gemm(q, w)", None),
    ("MatMul(mat, w)", (N, 5)), ("MatMul(batch, w)", (4, 1, N, 5)), ("MatMul(mat, batch)", (4, 1, N, M)), ("MatMul(k, w)", None), ("MatMul(mat, k)", None),
    ("MatMul(batch, x)", (4, 2, N, 3)), ("MatMul(q, w)", None), ("MatMul(w, q)", None),
    ("Squeeze(thin, ax)", (N, 1)), ("Squeeze(thin, ax1)", (1, N)), ("Squeeze(thin)", None), ("Squeeze(q, ax)", None), ("Squeeze(thin, none)", None),
    ("Transpose(x)", (3, N, 2)), ("Transpose<perm=[0,2,1]>(x)", (2, 3, N)), ("Transpose<perm=[0,1]>(x)", None), ("Transpose(q)", None),
    ("Unsqueeze(mat, ax)", (1, N, M)), ("Unsqueeze(mat, ax1)", (N, M, 1)), ("Unsqueeze(mat, pair)", (1, N, 1, M)), ("Unsqueeze(mat, q)", None), ("Unsqueeze(q, ax)", None),
    ("Reshape(x, like)", (3,)), ("Reshape(x, n)", None), ("Reshape(x, q)", None), ("Reshape(wide, minus)", (6,)), ("Reshape(x, minus)", (times(N, 6),)),
    ("Reshape(x, zero)", (2,)), ("Reshape<allowzero=1>(x, zero)", (0,)), ("Reshape(s, zero)", None), ("Reshape(q, minus)", (polynomial.symbol("y\0000"),)),
    ("Reshape(q, zero)", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "dims"), DIMENSIONS)
def test_dimensions_follow(text, dims):
    given = call(text)
    assert dimensions.SHAPED[given.op](given) == dims


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("y, z = Split(six)", [(3, 4), (3, 4)]),
        ("y, z, u, v = Split<axis=-1>(six)", [(6, 1)] * 4),
        ("y, z = Split(odd)", None),
        ("y, z = Split(mat)", None),
        ("y, z = Split(mat, both)", [(1, M), (1, M)]),
        ("y, z = Split<axis=1>(mat, both)", [(N, 1), (N, 1)]),
        ("y, z = Split<split=[1,2]>(x)", [(1, N, 3), (2, N, 3)]),
        ("y, z = Split(six, q)", None),
        ("y, z = Split(q)", None),
    ],
)
def test_parts_have_dimensions(text, parts):
    given = call(text)
    assert dimensions.parts(given) == parts
    shape_values.follow(given)
    assert [given.space.learned.get(name) for name in "yz"] == ([None, None] if parts is None else parts[:2])


def test_what_is_known_better_is_kept(monkeypatch):
    for known, dims, learned in (
        (None, (N, M), True), ((N, 3), (N, M), False), ((N, M), (N, 3), True), ((3, M), (N, 4), False), ((N,), (N, M), False), ((N, M), (N, M), True),
    ):  # fmt: skip
        monkeypatch.setitem(SHAPES, "mat", dims)
        monkeypatch.setitem(SHAPES, "y", known)
        given = call("Relu(mat)")
        shape_values.follow(given)
        assert given.space.learned == ({"y": dims} if learned else {})


def test_what_is_followed_does_not_lean_on_anything():
    given = call("Reshape(x, nm)")
    given.space.whole.leans = True
    shape_values.follow(given)
    assert given.space.whole.leans
    given = call("Reshape(q, vn)")
    shape_values.follow(given)
    assert (given.space.whole.leans, given.space.learned) == (False, {"y": (N,)})


@pytest.mark.parametrize(
    ("wanted", "given", "grants"),
    [
        ((N,), None, True), ((N,), (N, 3), False), ((M, 3), (N, 3), True), ((3, N), (N, 3), False), ((N, M), (M, N), True), ((plus(N, 1),), None, False),
        ((2, N), (N, 3), True), ((6,), None, False), ((0, N), (2, N), False), ((2, 3, N), (N, 6), False), ((2, 3, N), (N, 5), False), ((3, N), (N, 5), True),
    ],
)  # fmt: skip
def test_a_size_that_reshape_may_take_for_as_it_was_is_granted(monkeypatch, wanted, given, grants):
    """Where N is 0."""
    assert dimensions._takes_zero_for_size(wanted, given) is grants
    monkeypatch.setitem(VALUES, "to", vector(*wanted))
    monkeypatch.setitem(SHAPES, "of", given)
    for exact in (False, True):
        made = call("Reshape(of, to)", exact=exact)
        found = dimensions.SHAPED["Reshape"](made)
        assert made.space.whole.leans is (grants and not exact)
        if grants:
            assert (found is None) is exact
    made = call("Reshape<allowzero=1>(of, to)")
    dimensions.SHAPED["Reshape"](made)
    assert not made.space.whole.leans


@pytest.mark.parametrize(
    ("total", "rest", "quotient"),
    [
        (12, 4, 3), (12, 5, None), (times(N, 6), 3, times(N, 2)), (times(N, 6), 4, None), (12, N, None), (times(N, 6), N, 6), (times(N, 6), times(N, 3), 2),
        (times(times(N, M), 2), M, times(N, 2)), (times(N, N), N, N), (N, M, None), (plus(N, 1), N, None), (N, plus(N, 1), None), (times(N, 2), times(N, 3), None),
        (N, times(N, M), None), (12, 0, None),
    ],
)  # fmt: skip
def test_what_an_axis_of_minus_1_is(total, rest, quotient):
    assert dimensions.quotient_of(total, rest) == quotient


@pytest.mark.parametrize(
    ("wanted", "given", "shape"),
    [
        ((2, 3), (6,), [2, 3]), ((N, 3), (N, 3), [0, 3]), ((N, 3), (M, 3), [-1, 3]), ((3, N), (N, 3), [3, -1]), ((N, M), (N, 4, M), None), ((N, M, 2), (N, M, 1), [0, 0, 2]),
        ((0, 3), (0, 3), None), ((M, N), (N, M), None), ((), (1,), []), ((N, 6), (N, 2, 3), [0, 6]), ((2, M), (M, 2), [2, -1]), ((N,), (), [-1]),
    ],
)  # fmt: skip
def test_a_shape_that_means_dimensions_whatever_they_are(wanted, given, shape):
    assert dimensions.reshape_target(wanted, given) == shape
    for n, m in itertools.product((1, 4), (1, 5)) if shape is not None else ():
        numbers = [_number(dim, n, m) for dim in given], [_number(dim, n, m) for dim in wanted]
        if np.prod(numbers[0]) == np.prod(numbers[1]):
            read = [numbers[0][axis] if dim == 0 else dim for axis, dim in enumerate(shape)]
            assert list(np.zeros(numbers[0]).reshape(read).shape) == numbers[1]


def _number(of, n, m):
    if not isinstance(of, Poly):
        return of
    return sum(factor * int(np.prod([{"N": n, "M": m}[name] for name in names])) for names, factor in of.terms)


A = [0, 1, -2, 6, N, plus(N, 1), times(N, 2), plus(times(N, M), times(N, -3)), plus(N, M, 1), times(N, -1)]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(A, A)))
def test_polynomials_are_what_they_are_for_every_size(a, b):
    for made, exact in ((polynomial.add(a, b), np.add), (polynomial.multiply(a, b), np.multiply)):
        assert all(_number(made, n, m) == exact(_number(a, n, m), _number(b, n, m)) for n in (0, 2, 3) for m in (0, 5))
    quotient = polynomial.divide(a, b)
    if quotient is not None:
        assert all(_number(quotient, n, m) * _number(b, n, m) == _number(a, n, m) for n in (0, 2, 3) for m in (0, 5))
        assert all(_number(b, n, m) for n in (0, 2, 3) for m in (0, 5))
    elif isinstance(b, int) and b:
        assert any(_number(a, n, m) % b for n in range(3) for m in range(3))
    assert polynomial.is_natural(a) is (a not in (-2, A[7], A[9]))
    assert polynomial.is_positive(a) is (a in (1, 6, A[5], A[8]))


def test_polynomials_of_many_terms_are_left_open():
    names = [polynomial.symbol(f"d{index}") for index in range(9)]
    total, product = 0, 1
    for index, name in enumerate(names):
        total, product = polynomial.add(total, name), polynomial.multiply(product, name)
        assert (total is None, product is None) == (index == 8, index == 8)
    assert [name.symbol for name in (N, times(N, 2), plus(N, 1), times(N, N))] == ["N", None, None, None]


def test_shapes_of_one_value_and_another():
    assert dimensions.broadcast([(), ()]) == ()
    assert dimensions.broadcast([(N, 1), (1, 5)]) == (N, 5)
    assert dimensions.broadcast([(N,), (5,)]) == (5,)
    assert dimensions.broadcast([(N,), (M,)]) is None
    assert dimensions.broadcast([(N,), (N,), (1,)]) == (N,)
    assert dimensions.broadcast([(2, 1, N), (4, 1)]) == (2, 4, N)
    assert dimensions.product([]) == 1
    assert dimensions.product([N, 2, 0]) == 0


@pytest.mark.parametrize(("op", "known"), [("Shape", True), ("Relu", True), ("Split", True), ("Conv", False)])
def test_what_there_is_to_follow(op, known):
    assert shape_values.knows(op) is known
