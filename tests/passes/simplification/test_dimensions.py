"""The dimensions of what operators make, from what is known of what they are given."""

from types import SimpleNamespace

import pytest
from onnx import helper
from opshift.passes.analysis.polynomial import add, multiply, symbol
from opshift.passes.simplification import dimensions
from opshift.passes.simplification.dimensions import SHAPED, broadcast, parts, product, quotient_of, reshape_target
from opshift.passes.simplification.workspace import KnownNumbers

N, M = symbol("n"), symbol("m")
NM, TWO_N, N_AND_1 = multiply(N, M), multiply(N, 2), add(N, 1)


class Call:
    """A call of which the shapes, the integers and the attributes are known; nothing else is."""

    def __init__(self, *shapes, known=None, axes=None, exact=False, outputs=1, ints=None, **attributes):
        self._shapes, self._known, self._axes, self._ints = shapes, known, axes, ints
        self._attributes, self.space, self.granted = attributes, SimpleNamespace(exact=exact), False
        inputs = [f"i{k}" for k in range(len(shapes))]
        self.proto, self.output = helper.make_node("Op", inputs, [f"o{k}" for k in range(outputs)]), "o0"
        self.inputs = list(self.proto.input)

    def shape(self, index=0):
        return self._shapes[index] if index < len(self._shapes) else None

    def input(self, index):
        return self.proto.input[index] if index < len(self.proto.input) else ""

    def known_numbers(self, index):
        return self._known if index == 1 else None

    def ints(self, index):
        return self._ints if index == 1 else None

    def axes(self):
        return self._axes

    def attribute(self, name, default=None):
        return self._attributes.get(name, default)

    def grant(self):
        self.granted = True


def shaped(op, *shapes, **named):
    return SHAPED[op](Call(*shapes, **named))


ALIKE = [
    "Abs", "Cast", "Clip", "Dropout", "Erf", "Exp", "Gelu", "Identity", "LayerNormalization", "LogSoftmax", "Neg", "Not",
    "Reciprocal", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tanh",
]  # fmt: skip
TOGETHER = ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Where"]


def test_every_operator_stands_in_one_of_these():
    others = ["Concat", "Expand", "Gather", "Gemm", "MatMul", "Reshape", "Squeeze", "Transpose", "Unsqueeze"]
    assert SHAPED.keys() == {*ALIKE, *TOGETHER, *others}


@pytest.mark.parametrize("op", ALIKE)
def test_what_keeps_the_shape(op):
    assert shaped(op, (2, N), (7,)) == (2, N)
    assert shaped(op, None) is None


@pytest.mark.parametrize("op", TOGETHER)
def test_what_broadcasts(op):
    assert shaped(op, (2, 1), (N,), ()) == (2, N)
    assert shaped(op, (2, 1), None) is None


@pytest.mark.parametrize(
    ("shapes", "together"),
    [
        ([(), ()], ()), ([(2, 3), (3,)], (2, 3)), ([(1,), (1, 1)], (1, 1)), ([(N,), (1,)], (N,)), ([(N,), (3,)], (3,)),
        ([(N,), (N,)], (N,)), ([(N,), (M,)], None), ([(N,), (M,), (4,)], (4,)), ([(0,), (1,)], (0,)), ([(2, 1), (1, N)], (2, N)),
    ],
)  # fmt: skip
def test_shapes_together(shapes, together):
    assert broadcast(shapes) == broadcast(shapes[::-1]) == together


@pytest.mark.parametrize(
    ("op", "shapes", "named", "made"),
    [
        ("Transpose", [(2, N, 4)], {}, (4, N, 2)), ("Transpose", [(2, N, 4)], {"perm": [0, 2, 1]}, (2, 4, N)),
        ("Transpose", [(2, N)], {"perm": [0, 2, 1]}, None), ("Transpose", [None], {}, None),
        ("MatMul", [(2, N), (N, 5)], {}, (2, 5)), ("MatMul", [(7, 1, 2, 3), (6, 3, 5)], {}, (7, 6, 2, 5)),
        ("MatMul", [(4, 2, 3), (3, 5)], {}, (4, 2, 5)), ("MatMul", [(2, 3), (4, 3, 5)], {}, (4, 2, 5)),
        ("MatMul", [(N, 2, 3), (M, 3, 5)], {}, None), ("MatMul", [(3,), (3, 5)], {}, None), ("MatMul", [(2, 3), (3,)], {}, None),
        ("MatMul", [None, (3, 5)], {}, None), ("MatMul", [(3, 5), None], {}, None),
        ("Gemm", [(2, 3), (3, 5)], {}, (2, 5)), ("Gemm", [(3, 2), (3, 5)], {"transA": 1}, (2, 5)),
        ("Gemm", [(2, 3), (5, 3)], {"transB": 1}, (2, 5)), ("Gemm", [(2, 3, 4), (5, 3)], {}, None),
        ("Gemm", [(2, 3), (5,)], {}, None), ("Gemm", [None, (5, 3)], {}, None), ("Gemm", [(5, 3), None], {}, None),
        ("Unsqueeze", [(2, N)], {"axes": [0, -1]}, (1, 2, N, 1)), ("Unsqueeze", [(2, N)], {"axes": [1]}, (2, 1, N)),
        ("Unsqueeze", [(2,)], {"axes": []}, (2,)), ("Unsqueeze", [None], {"axes": [0]}, None), ("Unsqueeze", [(2,)], {}, None),
        ("Squeeze", [(1, 2, 1)], {"axes": [0, -1]}, (2,)), ("Squeeze", [(1, 2, 1)], {"axes": [0]}, (2, 1)),
        ("Squeeze", [(1, 2)], {"axes": []}, None), ("Squeeze", [(1, 2)], {}, None), ("Squeeze", [None], {"axes": [0]}, None),
        ("Gather", [(2, N, 4), (5, 6)], {}, (5, 6, N, 4)), ("Gather", [(2, N, 4), ()], {"axis": 1}, (2, 4)),
        ("Gather", [(2, N, 4), (3,)], {"axis": -1}, (2, N, 3)), ("Gather", [None, (3,)], {}, None), ("Gather", [(3,), None], {}, None),
        ("Concat", [(2, 3), (2, N)], {}, (2, add(N, 3))), ("Concat", [(2, 3), (4, 3)], {"axis": -2}, (6, 3)),
        ("Concat", [(2, 3), None], {}, None), ("Concat", [(2, 3), (2,)], {}, None), ("Concat", [()], {}, None),
        ("Expand", [(2, 1)], {"known": KnownNumbers(False, (3, 1, N))}, (3, 2, N)),
        ("Expand", [(2, 1)], {"known": KnownNumbers(True, (3,))}, None), ("Expand", [(2, 1)], {}, None),
        ("Expand", [None], {"known": KnownNumbers(False, (3,))}, None),
    ],
)  # fmt: skip
def test_what_operators_make(op, shapes, named, made):
    assert shaped(op, *shapes, **named) == made


@pytest.mark.parametrize(
    ("given", "wanted", "named", "made", "granted"),
    [
        ((2, 6), (3, 4), {}, (3, 4), False),
        ((2, 6), (0, 2, 3), {}, (2, 2, 3), False),
        ((2, 6), (0, 2, 3), {"allowzero": 1}, (0, 2, 3), False),
        ((2, 6), (2, 6, 0), {}, None, False),
        (None, (0, 3), {}, None, False),
        (None, (2, 3), {}, (2, 3), False),
        ((2, 6), (-1, 3), {}, (4, 3), False),
        ((N, 6), (-1, 3), {}, (TWO_N, 3), False),
        ((N, 6), (-1, 4), {}, (symbol("o0\0" + "0"), 4), False),
        (None, (3, -1), {}, (3, symbol("o0\0" + "1")), False),
        ((N, 6), (0, -1), {}, (N, 6), False),
        ((N, 6), (N, 6), {}, (N, 6), False),
        ((N, 6), (6, N), {}, (6, N), False),
        ((N, 6), (M, 6), {}, (M, 6), True),
        ((N, 6), (M, 6), {"exact": True}, None, False),
        ((N, 6), (M, 6), {"allowzero": 1, "exact": True}, (M, 6), False),
        ((N, M), (M, N), {}, (M, N), True),
        ((N, 6), (N_AND_1, 6), {"exact": True}, (N_AND_1, 6), False),
        (None, (N, 6), {}, (N, 6), True),
        ((2, 6), (12, N), {}, (12, N), True),
    ],
)
def test_what_reshape_makes(given, wanted, named, made, granted):
    call = Call(given, known=KnownNumbers(False, wanted), **named)
    assert (SHAPED["Reshape"](call), call.granted) == (made, granted)


def test_what_nobody_knows_of_a_reshape():
    assert shaped("Reshape", (2,)) is None
    assert shaped("Reshape", (2,), known=KnownNumbers(True, (2,))) is None


@pytest.mark.parametrize(
    ("total", "rest", "quotient"),
    [
        (12, 4, 3), (12, 5, None), (12, 0, None), (TWO_N, 2, N), (TWO_N, 4, None), (12, N, None), (NM, N, M), (NM, M, N),
        (NM, NM, 1), (multiply(NM, 6), TWO_N, multiply(M, 3)), (NM, TWO_N, None), (N, M, None), (N, multiply(N, N), None),
        (N_AND_1, N, None), (NM, N_AND_1, None), (multiply(N, N), N, N), (N_AND_1, 1, N_AND_1),
    ],
)  # fmt: skip
def test_quotients_of_sizes(total, rest, quotient):
    assert quotient_of(total, rest) == quotient


def test_products_of_sizes():
    assert product([]) == 1
    assert product([2, N, 3]) == multiply(N, 6)
    assert product([N] * 9) is None
    assert product([N] * 9 + [2]) is None


@pytest.mark.parametrize(
    ("wanted", "given", "written"),
    [
        ([2, 3], [6], [2, 3]), ([N, 6], [N, 2, 3], [0, 6]), ([2, 0], [0, 2], None), ([M, 6], [N, 2, 3], [-1, 6]),
        ([6, N], [N, 6], [6, -1]), ([M, N], [N, M], None), ([N, M], [N, 3], None), ([N_AND_1, M], [N_AND_1, 3], None),
        ([2, N], [N], [2, -1]), ([N], [N], [0]), ([], [1], []),
    ],
)  # fmt: skip
def test_how_a_shape_is_stated(wanted, given, written):
    assert reshape_target(wanted, given) == written


@pytest.mark.parametrize(
    ("given", "named", "made"),
    [
        ((2, 6), {"split": [1, 5], "axis": 1, "outputs": 2}, [(2, 1), (2, 5)]),
        ((2, N), {"ints": [1, 1], "outputs": 2}, [(1, N), (1, N)]),
        ((6, N), {"outputs": 3}, [(2, N)] * 3),
        ((N, 6), {"outputs": 2, "axis": -1}, [(N, 3)] * 2),
        ((7, N), {"outputs": 2}, None),
        ((N, 6), {"outputs": 2}, None),
        (None, {"split": [1, 1], "outputs": 2}, None),
    ],
)
def test_what_split_makes(given, named, made):
    assert parts(Call(given, **named)) == made


def test_sizes_that_only_the_run_tells():
    assert parts(Call((6, 2), (2,), outputs=2)) is None


def test_a_zero_is_read_as_it_was():
    zero = dimensions._takes_zero_for_size
    assert not zero([2, 3], None)
    assert not zero([N, 3], [N, 3])
    assert zero([N, 3], None)
    assert zero([N, M], [M, N])
    assert not zero([3, N], [N, 3]), "the only one that is not a number follows"
    assert zero([1, N], [N, 0]), "unless it does not"
    assert zero([N, 0], [0, N])
    assert not zero([N_AND_1], [3])
    assert not zero([2, N], [3]), "nothing stood there"
