"""Tensor operators that did not exist: what takes their place, at every older opset, on special values."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_values, evaluate, model, show

NAN, INF = np.nan, np.inf


# --- Where --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elem_type", "kinds"),
    [
        ("float", {"Concat", "Gather"}),
        ("double", {"Concat", "Gather"}),
        ("float16", {"Concat", "Gather"}),
        ("string", {"Concat", "Gather"}),
        ("bool", {"And", "Or"}),
        ("int64", {"Mul", "Add"}),
        ("int32", {"Mul", "Add"}),
        ("int8", {"Mul", "Add", "Cast"}),
        ("uint16", {"Mul", "Add", "Cast"}),
        ("uint32", {"Mul", "Add", "Cast"}),
    ],
)
def test_where_is_computed_below_9(elem_type, kinds):
    io = {"inputs": f"bool[2,3] c, {elem_type}[2,3] a, {elem_type}[2,3] b", "outputs": f"{elem_type}[2,3] y"}
    shown = show(check_down("y = Where(c, a, b)", 9, 8, 7, **io))
    assert all(f"{kind}" in shown for kind in kinds)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        (("2,1,3", "4,1", ""), "2,4,3"),
        (("", "", ""), ""),
        (("", "2", "3,1"), "3,2"),
        (("N,1,3", "M,1", ""), "N,M,3"),
        (("N,M", "N,M", "N,M"), "N,M"),
        (("N,1,3", "M,1", "K,P,3"), "Q,M,3"),
        (("N,0", "1,1", ""), "N,0"),
        (("1000,1500", "1500", ""), "1000,1500"),
    ],
)
def test_where_broadcasts_below_9(shapes, result):
    c, a, b = (f"[{shape}]" if shape else "" for shape in shapes)
    y = f"[{result}]" if result else ""
    check_down("y = Where(c, a, b)", 9, 8, 7, inputs=f"bool{c} c, float{a} a, float{b} b", outputs=f"float{y} y")


def test_where_keeps_what_is_not_finite_below_9():
    io = {"inputs": "bool[4] c, float[4] a, float[4] b", "outputs": "float[4] y"}
    a, b = np.array([NAN, INF, -INF, 1], np.float32), np.array([INF, NAN, NAN, -INF], np.float32)
    for chosen in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]):
        check_down("y = Where(c, a, b)", 9, 8, feeds={"c": np.array(chosen, bool), "a": a, "b": b}, **io)


def test_where_of_extreme_integers_below_9():
    io = {"inputs": "bool[2] c, int64[2] a, int64[2] b", "outputs": "int64[2] y"}
    ends = np.array([-(2**63), 2**63 - 1])
    check_down(
        "y = Where(c, a, b)", 9, 8, feeds={"c": np.array([True, False]), "a": ends, "b": ends[::-1].copy()}, **io
    )


def test_a_constant_condition_is_resolved_below_9():
    io = {"inputs": "float[3] a, float b", "outputs": "float[3] y", "constants": "bool[3] c = {1, 0, 1}"}
    shown = show(check_down("y = Where(c, a, b)", 9, 8, **io))
    assert [line.split(" = ")[1].split("(")[0] for line in shown.splitlines()] == [
        *("Reshape", "Reshape", "Concat<axis=0>", "Gather<axis=0>")
    ]


# --- Trilu --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-9, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", ["3,4", "N,M", "B,4,3", "2,0", "2,3,3"])
def test_trilu_becomes_a_mask_below_14(upper, k, shape):
    dims = [int(d) if d.isdigit() else 5 for d in shape.split(",")]
    x = np.resize(np.array([NAN, INF, -0.0, 2.0, -INF], np.float32), dims)
    io = {"inputs": f"float[{shape}] x, int64 k", "outputs": f"float[{shape}] y"}
    check_down(f"y = Trilu<upper={upper}>(x, k)", 14, 13, 10, 8, feeds={"x": x, "k": np.array(k)}, **io)
    io = {"inputs": f"float[{shape}] x", "outputs": f"float[{shape}] y", "constants": f"int64 k = {{{k}}}"}
    check_down(f"y = Trilu<upper={upper}>(x, k)", 14, 13, 9, feeds={"x": x}, **io)


@pytest.mark.parametrize("elem_type", ["int64", "double", "bool", "int8", "bfloat16"])
def test_trilu_of_other_types_below_14(elem_type):
    check_down("y = Trilu(x)", 14, 13, inputs=f"{elem_type}[2,3] x", outputs=f"{elem_type}[2,3] y")


def test_trilu_masks_by_a_constant():
    mask = "bool:[[False, False, False], [True, False, False]]"
    check("y = Trilu(x)", 14, f"y = Where({mask}, 0.0, x)", 13, inputs="float[2,3] x", outputs="float[2,3] y")
    mask = "bool:[[False, True, True], [False, False, True]]"
    text = f"y = Where({mask}, object:, x)"
    check(
        "y = Trilu<upper=0>(x)", 14, text, 13, inputs="string[2,3] x", outputs="string[2,3] y", run=False
    )  # no engine


# --- IsNaN, IsInf -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem_type", ["float", "double", "float16"])
def test_isnan_compares_below_9(elem_type):
    check_down("y = IsNaN(x)", 9, 8, 7, inputs=f"{elem_type}[12] x", outputs="bool[12] y")


@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("elem_type", ["float", "double"])
def test_isinf_compares_below_10(elem_type, positive, negative):
    body = f"y = IsInf<detect_positive={positive}, detect_negative={negative}>(x)"
    largest = np.finfo(np.float32 if elem_type == "float" else np.float64)
    x = np.array([0, INF, -INF, NAN, largest.max, largest.min], largest.dtype)
    check_down(body, 10, 9, 7, feeds={"x": x}, inputs=f"{elem_type}[6] x", outputs="bool[6] y")


# --- gathering and scattering -------------------------------------------------------------------------------

PICKS = [
    (0, "2,3", [[1, -1, 0], [2, 2, -3]]),
    (1, "3,2", [[1, -1], [0, 0], [2, 1]]),
    (-1, "2,2", [[1, -1], [0, 2]]),
    (0, "0,3", np.zeros([0, 3], np.int64)),
]


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize(("axis", "taken", "indices"), PICKS)
def test_gather_elements_below_11(axis, taken, indices, shape):
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i", "outputs": "float[A,B] y"}
    check_down(f"y = GatherElements<axis={axis}>(x, i)", 11, 10, 9, 8, 7, feeds={"i": np.array(indices)}, **io)


def test_gather_elements_of_a_vector_is_gather():
    io = {"inputs": "float[5] x", "outputs": "float[2] y", "constants": "int64[2] i = {4, -2}"}
    check("y = GatherElements(x, i)", 11, "y = Gather<axis=0>(x, [4, 3])", 10, **io)


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize(("axis", "taken", "indices"), PICKS)
def test_scatter_elements_below_11(axis, taken, indices, shape):
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i, float[{taken}] u", "outputs": "float[A,B] y"}
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 10, 9, feeds={"i": np.array(indices)}, **io)


def test_constant_places_are_scattered_to_below_9():
    io = {"inputs": "float[2,3] x, float[2,2] u", "outputs": "float[2,3] y"}
    io["constants"] = "int64[2,2] i = {0, -1, 1, 2}"
    shown = show(check_down("y = ScatterElements<axis=1>(x, i, u)", 11, 10, 8, 7, **io))
    assert [line.split(" = ")[1].split("(")[0] for line in shown.splitlines()] == [
        *("Reshape", "Reshape", "Concat<axis=0>", "Gather<axis=0>")
    ]


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("axis", "indices"),
    [
        (0, [[1, -1, 0], [2, 2, -3]]),
        (1, [[1, -1], [0, 0], [2, 1]]),  # one element twice: runtimes let the later one win
        (-1, [[1, -1], [0, 2]]),
        (0, [[-2]]),
        (0, np.zeros([0, 3])),
        (1, np.zeros([2, 0])),
    ],
)
def test_run_time_places_are_found_by_a_loop_below_9(axis, indices, kind, shape):
    indices = np.array(indices).astype(kind)
    taken = ",".join(map(str, indices.shape))
    io = {"inputs": f"float[{shape}] x, {kind}[{taken}] i, float[{taken}] u", "outputs": f"float[{shape}] y"}
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 8, 7, feeds={"i": indices}, **io)
    io["inputs"] = io["inputs"].replace(taken, "P,Q")
    updates = np.arange(indices.size, dtype=np.float32).reshape(indices.shape)
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 8, feeds={"i": indices, "u": updates}, **io)


@pytest.mark.parametrize("kind", ["string", "double", "bool", "uint8"])
def test_any_type_is_scattered_below_9(kind):
    io = {"inputs": f"{kind}[5] x, int64[2] i, {kind}[2] u", "outputs": f"{kind}[5] y"}
    check_down("y = Scatter(x, i, u)", 9, 8, 7, feeds={"i": np.array([4, 1])}, **io)
    io = {"inputs": f"{kind}[1,1,4] x, int64[1,1,2] i, {kind}[1,1,2] u", "outputs": f"{kind}[1,1,4] y"}
    check_down("y = Scatter<axis=2>(x, i, u)", 9, 8, 7, feeds={"i": np.array([[[3, 0]]])}, **io)


def test_places_that_are_never_negative_are_taken_as_they_are_below_9():
    io = {"inputs": "float[5] x, float[5] z, float[1] u", "outputs": "float[5] y"}
    made = check_down("i = ArgMax<axis=0>(z) y = Scatter(x, i, u)", 9, 8, 7, **io)
    assert "Less" not in {node.op_type for node in made.graph.node}


def test_scattering_into_data_of_unknown_rank_is_refused_below_9():
    io = {"inputs": "float[2,3] x, int64[P] s, int64[2,2] i, float[2,2] u", "outputs": "float[A,B] y"}
    check_refused("d = Reshape(x, s) y = Scatter(d, i, u)", 9, 8, 'the rank of "d" is unknown', **io)


@pytest.mark.parametrize("sizes", [("2,0", "1,0"), ("M,N", "K,L"), ("2,N", "1,N"), ("1,0", "1,0")])
def test_nothing_is_scattered_into_what_is_empty(sizes):
    rows = 1 if sizes[0][0] == "1" else 2
    io = {"inputs": f"float[{sizes[0]}] x, int64[{sizes[1]}] i, float[{sizes[1]}] u", "outputs": f"float[{sizes[0]}] y"}
    x, i, u = np.zeros((rows, 0), np.float32), np.zeros((1, 0), np.int64), np.zeros((1, 0), np.float32)
    check_down("y = Scatter(x, i, u)", 9, 8, 7, feeds={"x": x, "i": i, "u": u}, **io)


@pytest.mark.parametrize("shape", ["2,3,4", "N,M,K"])
@pytest.mark.parametrize(
    "indices",
    [[[1], [-1]], [[[1, 0], [0, -1]], [[0, 1], [1, 1]]], [[1, 2, -1]], [1, -2], [-2], np.zeros([0, 2], np.int64)],
)
def test_gather_nd_and_scatter_nd_below_11(indices, shape):
    indices = np.array(indices)
    taken = ",".join(map(str, indices.shape))
    updates = (*indices.shape[:-1], *(2, 3, 4)[indices.shape[-1] :])
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "i": indices}
    result = f"float[{','.join('ABCDE'[: len(updates)])}]"
    result = result if updates else "float"
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i"}
    check_down("y = GatherND(x, i)", 11, 10, 8, feeds=feeds, outputs=f"{result} y", **io)
    given = f"float[{','.join(map(str, updates))}] u" if updates else "float u"
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i, {given}", "outputs": f"float[{shape}] y"}
    check_down("y = ScatterND(x, i, u)", 11, 10, 9, feeds=feeds, **io)


@pytest.mark.newest
@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", ["4,3", "4,3,2", "N,M", "N,M,K,L"])
def test_reverse_sequence_below_10(time, batch, shape):
    rank = shape.count(",") + 1
    x = np.arange(4 * 3 * 4, dtype=np.float32).reshape(4, 3, 2, 2)[(..., *[0] * (4 - rank))].copy()
    lengths = np.array([4, 0, 3]) if batch else np.array([3, 1, 2, 0])
    io = {"inputs": f"float[{shape}] x, int64[B] l", "outputs": f"float[{shape}] y"}
    body = f"y = ReverseSequence<time_axis={time}, batch_axis={batch}>(x, l)"
    check_down(body, 10, 9, 8, 7, feeds={"x": x, "l": lengths}, **io)


def test_compress_below_9():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,A] y", "constants": "bool[2] c = {0, 1}"}
    check("y = Compress<axis=1>(x, c)", 9, "y = Gather<axis=1>(x, const)", 8, **io)
    io = {"inputs": "float[2,3] x", "outputs": "float[A] y", "constants": "bool[5] c = {0, 1, 0, 0, 1}"}
    check_down("y = Compress(x, c)", 9, 8, 7, **io)


CHOICES = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [1], [0, 1], []]


@pytest.mark.parametrize("kind", ["float", "string", "int8"])
@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("known", [True, False])
def test_compress_by_a_run_time_condition_below_9(kind, chosen, known):
    size = len(chosen) if known else "C"
    feeds = {"c": np.array(chosen, bool)}
    along = [("<axis=1>", "2,4"), ("<axis=-2>", "4,2")] if kind != "string" else []  # onnxruntime gathers half of them
    for axis, shape in (*along, ("", "2,3")):
        out = "A,B" if axis else "A"
        io = {"inputs": f"{kind}[{shape}] x, bool[{size}] c", "outputs": f"{kind}[{out}] y"}
        check_down(f"y = Compress{axis}(x, c)", 11, 8, 7, feeds=feeds, **io)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("depth", ["int64 d = {4}", ""])
def test_one_hot_below_9(axis, depth):
    given = "int64[2,3] i, float[2] v" + ("" if depth else ", int64 d")
    feeds = {"i": np.array([[0, 3, 7], [1, 2, 4]]), "v": np.array([INF, NAN], np.float32)}
    feeds.update({} if depth else {"d": np.array(4)})
    io = {"inputs": given, "outputs": "float[A,B,C] y", "constants": depth}
    check_down(f"y = OneHot<axis={axis}>(i, d, v)", 9, 8, 7, feeds=feeds, **io)


def test_one_hot_of_one_index_and_of_negative_ones():
    feeds = {"i": np.array(-2), "d": np.array(4)}
    check_down(
        "y = OneHot(i, d, v)", 11, 10, 8, feeds=feeds, inputs="int64 i, float[2] v, int64 d", outputs="float[A] y"
    )


def test_nonzero_below_9():
    io = {"inputs": "float a", "outputs": "int64[2,A] y", "constants": "float[2,2] x = {1, 0, 0, 2}"}
    check_down("y = NonZero(x)", 9, 8, 7, **io)
    body = "s = Shape(x) o = ConstantOfShape<value = float[1] {3}>(s) y = NonZero(o)"
    check_down(body, 9, 8, 7, inputs="float[N] x", outputs="int64[1,N] y")


@pytest.mark.parametrize("kind", ["float", "double", "float16", "bool", "int32", "int64", "uint8"])
@pytest.mark.parametrize("dims", ["12", "N", "2,1,6", "A,B,C", "2,0", "A,0"])
def test_elements_that_are_not_zero_are_found_by_a_loop_below_9(kind, dims):
    shape = [{"N": 12, "A": 3, "B": 2, "C": 4}.get(dim) or int(dim) for dim in dims.split(",")]
    values = [0, -0.0, 1, 0, 1e-45, -2.5, NAN, INF, 0] if kind in ("float", "double") else [0, 1, 0, 3, 5, 0]
    dtype = {"float": np.float32}.get(kind, kind)
    io = {"inputs": f"{kind}[{dims}] x", "outputs": "int64[P,Q] y"}
    feeds = {"x": np.resize(np.array(values), shape).astype(dtype)}
    check_down("c = Cast<to=9>(x) y = NonZero(c)", 13, 8, 7, feeds=feeds, **io)
    result = convert.attempt(model("y = NonZero(x)", 13, **io), {"": 8})
    np.testing.assert_array_equal(evaluate(result.model, feeds)[0], np.nonzero(feeds["x"]))
    check_down("c = Cast<to=9>(x) y = NonZero(c)", 13, 8, feeds={"x": np.zeros(shape, dtype)}, **io)


def test_places_of_zeros_are_searched_for_below_9():
    io = {"inputs": "float[N] x", "outputs": "int64[1,M] y"}
    body = "s = Shape(x) o = ConstantOfShape<value = float[1] {0}>(s) y = NonZero(o)"
    check_down(body, 9, 8, 7, **io)


def test_nonzero_without_a_form_is_refused_below_9():
    check_refused("y = NonZero(x)", 9, 8, "a scalar", inputs="float x", outputs="int64[A,B] y")
    check_refused("y = NonZero(x)", 9, 8, "strings", inputs="string[3] x", outputs="int64[A,B] y")
    io = {"inputs": "float[2,3] x, int64[P] s", "outputs": "int64[A,B] y"}
    check_refused("d = Reshape(x, s) y = NonZero(d)", 9, 8, 'the rank of "d" is unknown', **io)


# --- windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "wanted", "axes"),
    [
        ("5,4", "3,7", ""),
        ("5,4", "6,3", ""),
        ("5,4", "7", "<axes=[-1]>"),
        ("5,4", "5,4", ""),
        ("5,4", "2", "<axes=[0]>"),
    ],
)
def test_center_crop_pad_below_18(shape, wanted, axes):
    sizes = np.array([int(size) for size in wanted.split(",")])
    io = {"inputs": f"float[{shape}] x", "outputs": "float[A,B] y"}
    check_down(f"y = CenterCropPad{axes}(x, s)", 18, 17, 13, constants=f"int64[{len(sizes)}] s = {{{wanted}}}", **io)
    for elem_type, dtype in (("int32", np.int32), ("int64", np.int64)):
        feeds = {"x": np.arange(20, dtype=np.float32).reshape(5, 4), "s": sizes.astype(dtype)}
        io = {"inputs": f"float[N,M] x, {elem_type}[{len(sizes)}] s", "outputs": "float[A,B] y"}
        check_down(f"y = CenterCropPad{axes}(x, s)", 18, 17, 13, feeds=feeds, **io)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(
    ("cache", "update", "axis"),
    [("2,3,4,5", "2,3,2,5", ""), ("2,4,5", "2,2,5", ", axis=1"), ("2,4,5", "2,4,3", ", axis=-1")],
)
def test_tensor_scatter_below_24(mode, cache, update, axis):
    body = f'y = TensorScatter<mode="{mode}"{axis}>(p, u, w)'
    feeds = {"w": np.array([1, 2] if mode == "linear" else [3, 1])}
    io = {"inputs": f"float[{cache}] p, float[{update}] u, int64[2] w", "outputs": f"float[{cache}] y"}
    check_down(body, 24, 23, 17, 13, feeds=feeds, **io)
    rank = cache.count(",") + 1
    p, u = (np.arange(np.prod(dims), dtype=np.float32).reshape(dims) for dims in (eval(cache), eval(update)))
    symbols = [",".join(letters[:rank]) for letters in ("ABCD", "EFGH")]
    io = {"inputs": f"float[{symbols[0]}] p, float[{symbols[1]}] u", "outputs": f"float[{symbols[0]}] y"}
    check_down(body.replace(", w", ""), 24, 23, 17, feeds={"p": p, "u": -u}, **io)


# --- bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elem_type", "to", "result", "kinds"),
    [
        ("int8", 2, "uint8", ["Cast"]),
        ("uint64", 7, "int64", ["Cast"]),
        ("bool", 2, "uint8", ["Cast"]),
        ("int16", 10, "float16", ["Cast", "Cast", "Gather"]),
        ("uint16", 16, "bfloat16", ["Cast", "Gather"]),
        ("uint8", 17, "float8e4m3fn", ["Cast", "Gather"]),
        ("float", 1, "float", ["Identity"]),
    ],
)
def test_bits_are_cast_or_looked_up_below_26(elem_type, to, result, kinds):
    io = {"inputs": f"{elem_type}[6] x", "outputs": f"{result}[6] y"}
    shown = show(check_down(f"y = BitCast<to={to}>(x)", 26, 25, 21, **io))
    assert [line.split(" = ")[1].split("<")[0].split("(")[0] for line in shown.splitlines()] == kinds


@pytest.mark.parametrize("signed", ["int", "uint"])
@pytest.mark.parametrize(
    ("width", "to", "result", "dtype"), [(32, 1, "float", np.float32), (64, 11, "double", np.float64)]
)
def test_floats_are_put_together_from_their_bits_below_26(signed, width, to, result, dtype):
    limits = np.finfo(dtype)
    values = [
        0,
        -0.0,
        1,
        -1.5,
        np.pi,
        INF,
        -INF,
        NAN,
        limits.max,
        limits.min,
        limits.tiny,
        -limits.tiny,
        limits.smallest_subnormal,
    ]
    values = np.array([*values, limits.tiny * 0.75, -limits.smallest_subnormal * 5, 1 + limits.eps], dtype)
    io = {"inputs": f"{signed}{width}[16] x", "outputs": f"{result}[16] y"}
    made = check_down(f"y = BitCast<to={to}>(x)", 26, 25, 21, feeds={"x": values.view(f"{signed}{width}")}, **io)
    np.testing.assert_array_equal(evaluate(made, {"x": values.view(f"{signed}{width}")})[0], values)
    np.testing.assert_array_equal(
        np.signbit(evaluate(made, {"x": values.view(f"{signed}{width}")})[0]), np.signbit(values)
    )


def test_bits_of_a_constant_and_bits_without_a_form():
    io = {"inputs": "float a", "outputs": "float[2] y", "constants": "int32[2] x = {1065353216, -2147483648}"}
    check("y = BitCast<to=1>(x)", 26, "y = Identity([1.0, -0.0])", 25, **io)
    io = {"inputs": "float[2] x", "outputs": "int32[2] y"}
    check_refused("y = BitCast<to=6>(x)", 26, 25, "no older operator tells the sign or the payload of a NaN", **io)


# --- inside branches and functions --------------------------------------------------------------------------

NESTED = {
    "Where": ("m = IsNaN(x) n = Neg(x) {0} = Where(m, n, x)", 9, 8),
    "Trilu": ("{0} = Trilu<upper=0>(x)", 14, 8),
    "Compress": (
        "s = Constant<value = float {{1}}>() d = Add(x, s) r = ReduceMax<axes=[1], keepdims=0>(d) k = Greater(r, s) {0} = Compress<axis=0>(d, k)",
        9,
        7,
    ),
    "GatherElements": ("i = Constant<value = int64[2,2] {{1, -1, 0, 2}}>() {0} = GatherElements<axis=1>(x, i)", 13, 9),
    "Range": (
        "a = Constant<value = int64 {{0}}>() l = Size(x) d = Constant<value = int64 {{2}}>() r = Range(a, l, d) {0} = Cast<to=1>(r)",
        13,
        9,
    ),
    "ScatterElements": (
        "i = Constant<value = int64[1,2] {{-1, 0}}>() u = Slice(x, o, t) {0} = ScatterElements<axis=1>(x, i, u)",
        13,
        10,
    ),
}
SLICE = "o = Constant<value = int64[2] {0, 0}>() t = Constant<value = int64[2] {1, 2}>() "


@pytest.mark.parametrize("op", NESTED)
def test_inside_a_branch(op):
    text, opset, target = NESTED[op]
    then = "then_branch = then () => (float[A,B] u1) { " + SLICE + text.format("u1") + " }"
    if op == "Range":
        then = then.replace("[A,B]", "[A]")
    other = f"else_branch = other () => (float[{'A' if op == 'Range' else 'A,B'}] v1) {{ v1 = {'Reshape(x, f)' if op == 'Range' else 'Abs(x)'} }}"
    io = {"inputs": "float[2,3] x, bool c", "outputs": f"float[{'A' if op == 'Range' else 'A,B'}] y"}
    body = f"f = Constant<value = int64[1] {{-1}}>() y = If (c) <{then}, {other}>"
    if opset < 11:
        body = body.replace(SLICE, "")
    check_down(body, opset, target, feeds={"c": np.array(True)}, **io)
    check_down(body, opset, target, feeds={"c": np.array(False)}, **io)


@pytest.mark.parametrize("op", NESTED)
def test_inside_a_function(op):
    text, opset, target = NESTED[op]
    rank = "A" if op == "Range" else "A,B"
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>'
        f"g (float[2,3] x) => (float[{rank}] y) {{ y = own.f(x) }}"
        f'<domain: "own", opset_import: ["" : {opset}]> f (x) => (z) {{ {SLICE if opset > 10 else ""}{text.format("z")} }}'
    )
    result = convert.attempt(made, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    check_values(made, result.model, rtol=0, atol=0)


# --- sizes of 0 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", ["static", "A,B,C", "A,B,C,D"])
@pytest.mark.parametrize(
    "shape", [(4, 2, 0), (0, 2, 3), (2, 0, 3), (4, 2, 3), (4, 2, 0, 3), (4, 2, 3, 0), (4, 2, 3, 1)]
)
def test_sequences_of_nothing_are_reversed(shape, dims):
    if dims != "static" and len(shape) != dims.count(",") + 1:
        return
    out = ",".join("EFGH"[: len(shape)])
    dims = ",".join(map(str, shape)) if dims == "static" else dims
    io = {"inputs": f"float[{dims}] x, int64[N] l", "outputs": f"float[{out}] y"}
    feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "l": np.array([shape[0]] * shape[1], int)}
    check_down("y = ReverseSequence<batch_axis=1, time_axis=0>(x, l)", 13, 9, 8, 7, feeds=feeds, **io)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("op", "shape", "indices", "updates"),
    [
        ("GatherND", (2, 3, 0), (5, 2), None),
        ("GatherND", (2, 3, 4, 0), (5, 2), None),
        ("GatherND", (2, 3, 0, 4), (5, 2), None),
        ("GatherND", (2, 3, 4), (0, 2), None),
        ("ScatterND", (2, 3, 0), (5, 2), (5, 0)),
        ("ScatterND", (2, 3, 0), (5, 1), (5, 3, 0)),
        ("ScatterND", (2, 3, 4), (0, 2), (0, 4)),
        ("ScatterND", (2, 3), (1, 2), (1,)),
    ],
)
def test_slices_of_nothing(op, shape, indices, updates, known):
    def dims(of, letters):
        return ",".join(map(str, of) if known else letters[: len(of)])

    last = f"{dims(indices[:-1], 'IJ')},{indices[-1]}".lstrip(",")
    inputs, names = f"float[{dims(shape, 'ABCD')}] x, int64[{last}] i", "x, i"
    feeds = {"x": np.ones(shape, np.float32), "i": np.zeros(indices, np.int64)}
    if updates is not None:
        inputs, names = f"{inputs}, float[{dims(updates, 'UVW')}] u", "x, i, u"
        feeds["u"] = np.full(updates, 7, np.float32)
    rank = len(shape) if updates is not None else len(indices) - 1 + len(shape) - indices[-1]
    io = {"inputs": inputs, "outputs": f"float[{','.join('PQRST'[:rank])}] y"}
    check_down(f"y = {op}({names})", 12, 10, 9, feeds=feeds, **io)
