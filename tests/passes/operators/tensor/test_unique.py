"""Unique by sorting and comparing: all four outputs, as numpy and onnxruntime have them."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_computes, check_down, check_refused, check_values, evaluate

INF, NAN = np.inf, np.nan
ALL = "y, f, i, n = Unique"
OUT = "int64[F] f, int64[I] i, int64[C] n"
DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64}


def io(kind="float", dims="12", out="P"):
    return {"inputs": f"{kind}[{dims}] x", "outputs": f"{kind}[{out}] y, {OUT}"}


def given(kind, shape):
    values = [3, 0, 3, 1, 0, 7, 1, 1, 3, 2, 0, 5] if kind != "bool" else [1, 0, 0, 1]
    return np.resize(values, shape).astype(DTYPES.get(kind, kind))


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("kind", ["float", "double", "int8", "int64"])
@pytest.mark.parametrize("dims", ["12", "N", "3,4", "N,M"])
def test_flat_values_below_11(kept, kind, dims):
    feeds = {"x": given(kind, (3, 4) if "," in dims else 12)}
    targets = (10, 9, 8) if "N" in dims else (10, 9, 8, 7)
    check_down(f"{ALL}<sorted={kept}>(x)", 11, *targets, feeds=feeds, **io(kind, dims))


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["float", "int64", "int8"])
@pytest.mark.parametrize("dims", ["4,3,2", "A,B,C"])
def test_slices_below_11(kept, axis, kind, dims):
    x = np.random.default_rng(axis % 3).integers(0, 2, (4, 3, 2)).astype(DTYPES.get(kind, kind))
    x = np.concatenate([x, x[::-1]], axis % 3)
    dims = dims if "A" in dims else ",".join(map(str, x.shape))
    check_down(f"{ALL}<axis={axis}, sorted={kept}>(x)", 11, 10, 9, 8, feeds={"x": x}, **io(kind, dims, "P,Q,R"))


@pytest.mark.parametrize("kind", ["float16", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "bool"])
@pytest.mark.parametrize("kept", [0, 1])
def test_other_types_are_judged_by_numpy(kind, kept):
    x = given(kind, 12)
    if kind.startswith(("int", "uint")):
        x[[1, 2, 5]] = [np.iinfo(kind).max, np.iinfo(kind).max - 1, np.iinfo(kind).min]
    y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    if not kept:
        order = np.argsort(first)
        y, first, inverse, counts = y[order], first[order], np.argsort(order)[inverse], counts[order]
    expected = [y, first, inverse.reshape(-1), counts]
    check_computes(f"{ALL}<sorted={kept}>(x)", 11, 10, expected, feeds={"x": x}, **io(kind))


def test_large_integers_are_not_rounded():
    x = np.array([2**53 + 1, 2**53, -(2**63), 2**63 - 1, 2**53, -(2**53) - 1, -1, 0, -(2**32), 2**32, -(2**53)])
    check_down(f"{ALL}(x)", 11, 10, 9, 8, feeds={"x": x}, **io("int64", "11"))


def test_infinities_and_zeros_of_either_sign():
    x = np.array([0, -INF, -0.0, INF, -1, INF, -0.0, -INF, 1e-45, -1e-45], np.float32)
    made = check_down(f"{ALL}(x)", 11, 10, 9, 8, feeds={"x": x}, **io("float", "10"))
    y = evaluate(made, {"x": x})[0]
    assert not np.signbit(y[y == 0]).any(), "the first one found"


@pytest.mark.parametrize("kept", [0, 1])
def test_nan_is_one_value_and_the_last(kept):
    """As in numpy.unique, to which the text refers; onnxruntime takes all numbers for equal to NaN."""
    x = np.array([NAN, 1, NAN, -INF, 1, INF, NAN], np.float32)
    order = [[0, 1, 3, 5], [3, 1, 5, 0]][kept]
    inverse = [[0, 1, 0, 2, 1, 3, 0], [3, 1, 3, 0, 1, 2, 3]][kept]
    expected = [x[order], *map(np.array, (order, inverse, [[3, 2, 1, 1], [1, 2, 1, 3]][kept]))]
    check_computes(f"{ALL}<sorted={kept}>(x)", 11, 9, expected, feeds={"x": x}, **io("float", "7"))


@pytest.mark.parametrize("dims", ["0", pytest.param("N", marks=pytest.mark.long)])
def test_no_values(dims):
    empty = np.zeros(0, np.int64)
    for kind in ("float", "int8"):
        x = given(kind, 0)
        for target in (10, 8):
            check_computes(f"{ALL}(x)", 11, target, [x, empty, empty, empty], feeds={"x": x}, **io(kind, dims))
            check_computes(
                f"{ALL}<sorted=0>(x)", 11, target, [x, empty, empty, empty], feeds={"x": x}, **io(kind, dims)
            )


@pytest.mark.parametrize("dims", ["3,0", "N,M"])
def test_slices_without_elements_are_one(dims):
    x, numbers = np.zeros((3, 0), np.float32), [np.array(v) for v in ([0], [0, 0, 0], [3])]
    check_computes(f"{ALL}<axis=0>(x)", 11, 10, [x[:1], *numbers], feeds={"x": x}, **io("float", dims, "P,Q"))


@pytest.mark.parametrize("kind", ["float", "int64", "int8"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((1, 0, 2), -1), ((2, 3, 0), 0), ((0, 2, 3), 1), ((1, 2, 0, 1), 3)])
def test_slices_of_several_axes_without_elements_are_one(shape, axis, known, kind):
    count = shape[axis]
    x = np.zeros(shape, np.dtype("float32" if kind == "float" else kind))
    expected = [x.take([0], axis), np.zeros(1, np.int64), np.zeros(count, np.int64), np.array([count])]
    dims = ",".join(map(str, shape)) if known else "P,Q,R,S"[: 2 * len(shape) - 1]
    call = f"{ALL}<axis={axis}>(x)"
    for target in (10, 9):
        check_computes(call, 11, target, expected, feeds={"x": x}, **io(kind, dims, "T,U,V,W"[: 2 * len(shape) - 1]))


@pytest.mark.parametrize("dims", ["2,3,2", "P,Q,R"])
def test_slices_of_several_axes(dims):
    x = np.array([[[1, 2], [1, 3], [1, 2]], [[0, 0], [4, 0], [0, 0]]], np.float32)
    expected = [x[:, :2], np.array([0, 1]), np.array([0, 1, 0]), np.array([2, 1])]
    check_computes(f"{ALL}<axis=1>(x)", 11, 10, expected, feeds={"x": x}, **io("float", dims, "T,U,V"))


def test_a_scalar():
    made = {"inputs": "int64 x", "outputs": f"int64[P] y, {OUT}"}
    check_down(f"{ALL}(x)", 11, 10, 9, 8, feeds={"x": np.array(-5)}, **made)


@pytest.mark.parametrize(
    ("outputs", "declared"),
    [("y", ""), ("y, f", ", int64[F] f"), ("y, , i", ", int64[I] i"), ("y, , , n", ", int64[C] n")],
)
@pytest.mark.parametrize("kept", [0, 1])
def test_outputs_may_be_omitted(outputs, declared, kept):
    made = {"inputs": "float[12] x", "outputs": f"float[P] y{declared}"}
    result = check_down(f"{outputs} = Unique<sorted={kept}>(x)", 11, 10, 9, feeds={"x": given("float", 12)}, **made)
    looped = "Loop" in {node.op_type for node in result.graph.node}
    assert looped == ("i" in outputs)


def test_what_cannot_be_ordered_is_refused():
    for kind in ("string", "complex64"):
        check_refused(
            "y = Unique(x)",
            11,
            10,
            "no operator of opset 10 sorts strings",
            inputs=f"{kind}[3] x",
            outputs=f"{kind}[P] y",
        )
    given = {"inputs": "float[6] x, int64[P] s", "outputs": "float[A,B] y"}
    check_refused("d = Reshape(x, s) y = Unique<axis=0>(d)", 11, 10, 'the rank of "d" is unknown', **given)


def test_inside_a_branch():
    then = "then_branch = then () => (float[P] a, int64[I] b) { a, g, b = Unique(x) }"
    other = "else_branch = other () => (float[P] c, int64[I] d) { c = Abs(x) d = Cast<to=7>(x) }"
    given = {"inputs": "float[12] x, bool q", "outputs": "float[P] y, int64[I] i"}
    for chosen in (True, False):
        feeds = {"q": np.array(chosen), "x": np.arange(12, dtype=np.float32) % 5}
        check_down(f"y, i = If (q) <{then}, {other}>", 11, 10, 9, 8, feeds=feeds, **given)


def test_inside_a_function():
    source = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g (float[12] x) => ({io()["outputs"]})'
        '{ y, f, i, n = own.f(x) } <domain: "own", opset_import: ["" : 13]>'
        f"f (x) => (y, f, i, n) {{ {ALL}(x) }}"
    )
    made = convert.attempt(source, {"": 9}).model
    check_values(source, made, {"x": np.arange(12, dtype=np.float32) % 5}, rtol=0, atol=0)
