"""Col2Im by gathering: every column falls on its pixel."""

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused, converted, evaluate, model

CASES = [
    ([5, 5], [1, 5], [1, 1], [1, 1], [0, 0, 0, 0]),
    ([5, 5], [2, 2], [2, 2], [1, 1], [1, 1, 1, 1]),
    ([6, 6], [2, 2], [1, 1], [1, 5], [0, 0, 0, 0]),
    ([5, 6], [3, 3], [1, 2], [1, 1], [1, 0, 1, 0]),
    ([4, 5, 5], [1, 2, 2], [1, 1, 1], [1, 1, 1], [0] * 6),
    ([7], [2], [3], [1], [0, 0]),
]


def summed(x, image, block, strides, dilations, pads):
    n, rank = x.shape[0], len(image)
    counts = [
        (image[k] + pads[k] + pads[k + rank] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(rank)
    ]
    x = x.reshape(n, -1, *block, *counts)
    y = np.zeros((n, x.shape[1], *(image[k] + pads[k] + pads[k + rank] for k in range(rank))), x.dtype)
    for inside in product(*map(range, block)):
        first = [b * d for b, d in zip(inside, dilations, strict=True)]
        at = (slice(f, f + s * (c - 1) + 1, s) for f, s, c in zip(first, strides, counts, strict=True))
        y[(..., *at)] += x[(slice(None), slice(None), *inside)]
    return y[(..., *(slice(pads[k], pads[k] + image[k]) for k in range(rank)))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("image", "block", "strides", "dilations", "pads"), CASES)
def test_columns_to_images(image, block, strides, dilations, pads, dtype):
    rank = len(image)
    counts = [
        (image[k] + pads[k] + pads[k + rank] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(rank)
    ]
    x = (np.random.default_rng(0).normal(size=(2, 3 * prod(block), prod(counts))) * 9).astype(dtype)
    kind = {np.float32: "float", np.float64: "double", np.int32: "int32"}[dtype]
    check_computes(
        f"y = Col2Im<strides={strides}, dilations={dilations}, pads={pads}>(x, i, b)", 18, 13, summed(x, image, block, strides, dilations, pads),
        feeds={"x": x}, rtol=1e-5 if dtype != np.int32 else 0, atol=1e-5 if dtype != np.int32 else 0,
        inputs=f"{kind}[N,{x.shape[1]},{x.shape[2]}] x", outputs=f"{kind}[N,3,{','.join(map(str, image))}] y",
        constants=f"int64[{rank}] i = {{{','.join(map(str, image))}}}, int64[{rank}] b = {{{','.join(map(str, block))}}}",
    )  # fmt: skip


def test_infinities_stay_where_they_are():
    x = np.array([[[np.inf, 1.0], [np.nan, 2.0]]], np.float32)
    check(
        "y = Col2Im<strides=[2,1]>(x, i, b)", 18,
        "t1 = Reshape(x, [0, 1, 4])\nt2 = Pad(t1, [0, 0, 0, 0, 0, 1])\nt3 = Gather<axis=2>(t2, [0, 2, 1, 3])\nt4 = Reshape(t3, [0, 0, 4, 1])\ny = Add(t4, 0.0)",
        17, inputs="float[1,2,2] x", outputs="float[1,1,4,1] y", constants="int64[2] i = {4,1}, int64[2] b = {2,1}", feeds={"x": x},
    )  # fmt: skip


@pytest.mark.parametrize("sizes", ["5, 1", "1, 5"])
@pytest.mark.parametrize("block", ["int64[2] b = {1, 1}", ""])
def test_the_sign_of_a_zero_is_lost(sizes, block):
    """As what falls on a pixel is added to 0."""
    given = "" if block else ", int64[2] b"
    held = f"int64[2] i = {{{sizes}}}" + (f", {block}" if block else "")
    io = {"inputs": f"float[1,1,5] x{given}", "outputs": "float[1,1,H,W] y", "constants": held}
    source = model("y = Col2Im(x, i, b)", 18, **io)
    feeds = {"x": np.array([[[-0.0, 0.0, -1.0, 1.0, -0.0]]], np.float32), "b": np.ones(2, np.int64)}
    feeds = {value.name: feeds[value.name] for value in source.graph.input}
    expected, actual = (evaluate(of, feeds)[0] for of in (source, converted(source, 17).model))
    assert np.signbit(expected).sum() == 1
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


def counted(image, block, strides, dilations, pads):
    return [
        (i + p + q - d * (b - 1) - 1) // s + 1
        for i, b, s, d, p, q in zip(
            image, block, strides, dilations, pads[: len(image)], pads[len(image) :], strict=True
        )
    ]


@pytest.mark.parametrize("target", [17, 10, 7])
@pytest.mark.parametrize("known", ["image", "block", ""])
@pytest.mark.parametrize("kind", ["float", "double", "int32", "int8"])
@pytest.mark.parametrize("case", [*CASES, ([3, 4], [3, 4], [1, 1], [1, 1], [0, 0, 0, 0])])
def test_shapes_known_at_run_time(case, kind, known, target):
    image, block, strides, dilations, pads = case
    rank, dtype = len(image), {"float": np.float32, "double": np.float64, "int32": np.int32, "int8": np.int8}[kind]
    x = (np.random.default_rng(0).normal(size=(2, 3 * prod(block), prod(counted(*case)))) * 9).astype(dtype)
    x.flat[0] = np.inf if x.dtype.kind == "f" else 127
    inputs, held = f"{kind}[N,C,L] x", []
    for name, values in (("image", image), ("block", block)):
        if known == name:
            held.append(f"int64[{rank}] {name} = {{{','.join(map(str, values))}}}")
        else:
            inputs += f", int64[{rank}] {name}"
    feeds = {"x": x, "image": np.array(image), "block": np.array(block)}
    floats = x.dtype.kind == "f"
    with np.errstate(over="ignore"):
        expected = summed(x, *case)
    check_computes(
        f"y = Col2Im<strides={strides}, dilations={dilations}, pads={pads}>(x, image, block)", 18, target, expected,
        feeds={name: value for name, value in feeds.items() if name != known}, grade="close" if floats else "exact",
        rtol=1e-5 * floats, atol=1e-5 * floats, inputs=inputs, constants=", ".join(held),
        outputs=f"{kind}[N,D,{','.join('ABC'[:rank])}] y",
    )  # fmt: skip


@pytest.mark.long
def test_large_images_are_not_written_out():
    """The places of a thousand by a thousand pixels for nine elements each are computed."""
    x = np.random.default_rng(0).normal(size=(1, 9, 998 * 998)).astype(np.float32)
    case = ([1000, 1000], [3, 3], [1, 1], [1, 1], [0, 0, 0, 0])
    made = check_computes(
        "y = Col2Im(x, i, b)", 18, 13, summed(x, *case), feeds={"x": x}, rtol=1e-5, atol=1e-5, grade="close",
        inputs="float[1,9,996004] x", outputs="float[1,1,1000,1000] y", constants="int64[2] i = {1000,1000}, int64[2] b = {3,3}",
    )  # fmt: skip
    assert made.ByteSize() < 2**20


def test_the_number_of_axes_is_told_by_any_parameter():
    io = {"outputs": "float[1,1,4,4] y", "inputs": "float[1,4,9] x, int64[R] i, int64[S] b"}
    x = np.arange(36, dtype=np.float32).reshape(1, 4, 9)
    feeds = {"x": x, "i": np.array([4, 4]), "b": np.array([2, 2])}
    expected = summed(x, [4, 4], [2, 2], [1, 1], [1, 1], [0] * 4)
    for told in ("strides=[1,1]", "dilations=[1,1]", "pads=[0,0,0,0]"):
        check_computes(f"y = Col2Im<{told}>(x, i, b)", 18, 17, expected, feeds=feeds, grade="close", **io)
    check_refused("y = Col2Im(x, i, b)", 18, 17, "the number of image axes is unknown", **io)


@pytest.mark.parametrize("dims", ["0,4,9", "N,4,9", "N,C,9", "N,C,L", "0,C,L"])
@pytest.mark.parametrize("block", ["constant", "run time"])
def test_a_batch_may_be_empty(dims, block):
    held = "int64[2] i = {4,4}, int64[2] b = {2,2}"
    io = {"inputs": f"float[{dims}] x", "outputs": "float[a,b,c,d] y", "constants": held}
    grade = "close" if block == "run time" else "exact"
    feeds = {"x": np.zeros((0, 4, 9), np.float32)}
    if block == "run time":
        io |= {"inputs": f"float[{dims}] x, int64[2] b", "constants": held.split("}, ")[0] + "}"}
        feeds["b"] = np.array([2, 2])
    expected = np.zeros((0, 1, 4, 4), np.float32)
    for target in (17, 10):
        check_computes("y = Col2Im(x, i, b)", 18, target, expected, feeds=feeds, grade=grade, **io)


@pytest.mark.parametrize("dims", ["N,8,6", "N,C,L"])
@pytest.mark.parametrize("known", [True, False])
def test_an_empty_batch(dims, known):
    x = np.zeros((0, 8, 6), np.float32)
    held = "int64[2] i = {3, 4}, int64[2] k = {2, 2}"
    given = {} if known else {"i": np.array([3, 4]), "k": np.array([2, 2])}
    check_computes(
        "y = Col2Im(x, i, k)", 18, 13, np.zeros((0, 2, 3, 4), np.float32), feeds={"x": x, **given}, grade="exact" if known else "close",
        inputs=f"float[{dims}] x" + ("" if known else ", int64[2] i, int64[2] k"), outputs="float[A,B,C,D] y",
        constants=held if known else "",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_what_leads_nowhere_is_refused(name):
    io = {
        "inputs": "float[1,4,5] x",
        "outputs": "float[A,B,C,D] y",
        "constants": "int64[2] i = {6, 6}, int64[2] b = {2, 2}",
    }
    check_refused(f"y = Col2Im<{name}=[1,0]>(x, i, b)", 18, 17, f"{name}=[1, 0]", **io)
