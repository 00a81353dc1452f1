"""Dimensions are told by terms of sizes, where inference knows less."""

import onnx.helper
import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.terms import Terms

from tests.support import model

IO = {
    "inputs": """float[N,M,4] x, float[N,M] m, float[M,5] w, float[M] v, float[N,1,4] thin, int64[L] s, float[K] k, float[] lone, int64 n, float[6,8] six,
    float[B,M,5] bw, int64[N,M,2] places, bool[N,M] c""",
    "outputs": "y",
    "constants": """int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] minus = {-1}, int64[1] four = {4}, int64[1] far = {2147483647},
    int64[2] pair = {0, 1}, int64[2] twice = {0, 0}, int64[2] k2 = {1, 1}, int64[3] flat = {0, 0, -1}, int64[3] cube = {2, 0, 4}, int64[2] rest = {-1, 4}, int64 lonely = {0}, int64 ax1 = {1}, int64 piece = {4}, int64 two0 = {2}, int64 none = {0}""",
}


def reader_of(body, opset=18, **more):
    source = model(f"{body} y = Identity(x)", opset, **(IO | more))
    reader = Reader(Terms(), Scope(source.graph, Context(source, source), opset, path=()), RULES)
    for node in source.graph.node:
        reader.read(node)
    return reader


def shape(reader, name):
    """Sizes that are those of inputs by the letter, others by a question mark."""
    dims = reader.dims(name)
    letters = {}
    for given, symbols in (("x", "NM."), ("w", "M."), ("k", "K"), ("s", "L"), ("bw", "BM."), ("v", "M")):
        letters.update({dim: letter for dim, letter in zip(reader.dims(given), symbols, strict=True) if letter != "."})
    if dims is None:
        return None
    return [int(value) if (value := reader.terms.value(dim)) is not None else letters.get(dim, "?") for dim in dims]


SIZES = "h = Shape(x) hn = Slice(h, zero, one) hm = Slice(h, one, two) "
SHAPES = [
    ("d = Relu(x)", ["N", "M", 4]), ("d = Add(x, thin)", ["N", "M", 4]), ("d = Mul(m, v)", ["N", "M"]), ("d = Add(x, k)", ["N", "M", 4]), ("d = Where(c, m, v)", ["N", "M"]),
    ("d = Transpose(x)", [4, "M", "N"]), ("d = Transpose<perm=[0,2,1]>(x)", ["N", 4, "M"]),
    ("d = MatMul(m, w)", ["N", 5]), ("d = MatMul(m, bw)", ["B", "N", 5]), ("d = MatMul(x, k)", ["N", "M"]),
    ("d = ReduceSum(x, one)", ["N", 1, 4]), ("d = ReduceSum<keepdims=0>(x, one)", ["N", 4]), ("d = ReduceMean<keepdims=0>(x, minus)", ["N", "M"]),
    ("d = ReduceMax(x)", [1, 1, 1]),
    ("d = Gather(x, n)", ["M", 4]), ("d = Gather<axis=1>(x, s)", ["N", "L", 4]), ("d = Gather<axis=-1>(m, lonely)", ["N"]), ("d = GatherElements<axis=2>(x, places)", ["N", "M", 2]),
    ("d = Concat<axis=1>(thin, thin)", ["N", 2, 4]), ("d = Concat<axis=-1>(x, x)", ["N", "M", 8]), ("d = Concat<axis=0>(six, six)", [12, 8]),
    ("d = Slice(x, zero, two, one)", ["N", "?", 4]), ("d = Slice(six, one, four, zero)", [3, 8]), ("d = Slice(six, one, minus, one)", [6, 6]),
    ("d = Slice(x, zero, far, one)", ["N", "M", 4]), ("d = Slice(x, zero, far, one, one)", ["N", "M", 4]), ("d = Slice(six, zero, four, one, two)", [6, 2]),
    ("d = Unsqueeze(m, zero)", [1, "N", "M"]), ("d = Unsqueeze(m, minus)", ["N", "M", 1]), ("d = Unsqueeze(m, pair)", [1, 1, "N", "M"]),
    ("d = Reshape(x, flat)", ["N", "M", 4]), ("d = Reshape(six, rest)", [12, 4]), ("d = Reshape(x, rest)", ["?", 4]), ("d = Reshape(x, s)", None),
    (f"{SIZES} t = Concat<axis=0>(hm, hn, four) d = Reshape(x, t)", ["M", "N", 4]), (f"{SIZES} t = Concat<axis=0>(hn, minus) d = Reshape(x, t)", ["N", "?"]),
    (f"{SIZES} t = Concat<axis=0>(hn, minus, four) d = Reshape(x, t)", ["N", "M", 4]), (f"{SIZES} t = Concat<axis=0>(minus, hm, two, two) d = Reshape(x, t)", ["N", "M", 2, 2]),
    (f"{SIZES} t = Concat<axis=0>(hn, hm) d = Expand(v, t)", ["N", "M"]), (f"{SIZES} t = Concat<axis=0>(hn, hm) d = Expand(m, t)", ["N", "M"]),
    (f"{SIZES} d = Expand(lone, h)", None), (f"{SIZES} d = Slice(x, zero, hm, one)", ["?", "?", "?"]),
    ("q = SplitToSequence<axis=1>(six, piece) d = SequenceAt(q, n)", [6, 4]), ("q = SplitToSequence<axis=0>(six, piece) d = SequenceAt(q, n)", ["?", 8]),
    ("q = SplitToSequence<axis=0>(x, piece) d = SequenceAt(q, n)", ["?", "M", 4]),
    ("d = Unsqueeze(m, three)", ["?", "?", "?"]), ("d = Unsqueeze(m, twice)", None), ("d = Unsqueeze(m, s)", None), ("d = Unsqueeze(lone, zero)", None),
    ("d = Transpose(lone)", None), ("d = MatMul(m, v)", ["N"]), ("d = MatMul(v, w)", [5]), ("d = MatMul(lone, w)", None),
    ("d = Concat<axis=0>(m, x)", ["?", "?"]), ("d = Concat<axis=0>(m, lone)", ["?", "?"]), ("d = Concat<axis=0>(lone, m)", None),
    ("d = Slice(x, zero, two)", ["?", "M", 4]), ("d = Slice(x, zero, pair, one)", ["?", "?", "?"]), ("d = Slice(x, k2, two, one)", ["?", "?", "?"]), ("d = Slice(six, zero, far, zero, two)", [3, 8]),
    ("d = Slice(six, zero, four, one, one)", [6, 4]), ("d = Slice(x, one, far, one)", ["N", "?", 4]), ("d = Gather(lone, n)", None), ("d = Gather(x, lone)", None),
    ("d = ReduceSum(x, s)", None), ("d = ReduceSum(lone, one)", None), ("d = Reshape(lone, cube)", [2, "?", 4]),
    ("q = SplitToSequence(six, n) d = SequenceAt(q, n)", ["?", 8]), ("q = SplitToSequence(six) d = SequenceAt(q, n)", [1, 8]),
    ("q = my.SplitToSequence(six, piece) d = SequenceAt(q, n)", None),
    ("d = my.Relu(x)", None), ("d = Identity(lone)", None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "dims"), SHAPES)
def test_dimensions_are_those_of_the_operands(body, dims):
    reader = reader_of(body, domains='"my" : 1')
    found = shape(reader, "d")
    if found is not None and dims is not None:
        assert len(found) == len(dims)
    assert found == dims


INFERRED = {
    "d = Add(x, k)", "d = MatMul(x, k)", "d = Slice(x, zero, two, one)", "d = Slice(six, zero, four, one, two)", f"{SIZES} d = Slice(x, zero, hm, one)",
    "q = SplitToSequence<axis=0>(six, piece) d = SequenceAt(q, n)", "q = SplitToSequence<axis=0>(x, piece) d = SequenceAt(q, n)", "d = Unsqueeze(m, three)", "d = MatMul(m, v)", "d = MatMul(v, w)",
    "d = Concat<axis=0>(m, x)", "d = Concat<axis=0>(m, lone)", "d = Slice(x, zero, two)", "d = Slice(x, zero, pair, one)", "d = Slice(x, k2, two, one)",
    "d = Slice(six, zero, far, zero, two)", "d = Slice(x, one, far, one)", "d = Reshape(lone, cube)", "q = SplitToSequence(six, n) d = SequenceAt(q, n)", "q = SplitToSequence(six) d = SequenceAt(q, n)",
}  # fmt: skip
"""Of these inference alone tells anything."""
ALONE = [
    ("d = Concat<axis=1>(x, x)", ["N", "?", 4]), ("d = Concat<axis=0>(x, x, x)", ["?", "M", 4]), ("d = Concat<axis=1>(thin, x)", ["N", "?", 4]),
    ("d = Gather<axis=1>(x, places)", ["N", "N", "M", 2, 4]), ("d = Gather<axis=-1>(x, places)", ["N", "M", "N", "M", 2]), ("d = ReduceSum<keepdims=0>(x, pair)", [4]),
    ("d = Slice(six, minus, far, one)", [6, 1]), ("d = Slice(six, minus, four, one)", [6, 0]), ("d = Transpose<perm=[0,0,1]>(x)", None), ("d = Transpose<perm=[0,1]>(x)", None),
    ("d = Unsqueeze(x, pair)", [1, 1, "N", "M", 4]), ("d = MatMul(w, six)", ["M", 8]), ("d = MatMul(lone, bw)", None), ("d = Unsqueeze(m, rest)", None),
    ("q = SplitToSequence<axis=-1>(x, two0) d = SequenceAt(q, n)", ["N", "M", 2]), ("q = SplitToSequence<axis=1>(six, none) d = SequenceAt(q, n)", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "dims"), [(body, None if body in INFERRED else dims) for body, dims in SHAPES] + ALONE
)
def test_dimensions_that_a_rule_tells_by_itself(body, dims):
    reader = reader_of(body, domains='"my" : 1')
    reader._dims["d"] = reader._dims_made("d", 24)
    assert shape(reader, "d") == (dims and [-1 if dim == "?" else dim for dim in dims])


@pytest.mark.parametrize(
    ("data", "axes", "known"),
    [
        ("lone", "zero", None),
        ("lone", "one", None),
        ("lone", "minus", (-1,)),
        ("x", "zero", (-3,)),
        ("x", "three", None),
    ],
)
def test_axes_count_from_the_last_one(data, axes, known):
    assert reader_of("d = Relu(x)").axes(onnx.helper.make_node("ReduceSum", [data, axes], ["d"])) == known
