"""Definitions of what almost every backend has, but for a few: Identity, Flatten, Pad, Gather and their like."""

import numpy as np
import onnx
import pytest
from opshift.passes.errors import Refused

import opshift
from tests.support import check_outputs, evaluate, model

X = {"x": np.arange(-60, 60, dtype=np.float32).reshape(1, 4, 5, 6) / 7}
FOUR = {"inputs": "float[1,4,5,6] x", "outputs": "float[A,B,C,D] y"}
FREE = {"inputs": "float[N,4,H,6] x", "outputs": "float[A,B,C,D] y"}
NORM = {"inputs": "float[N,4,H,6] x, float[4] s, float[4] b, float[4] m, float[4] v", "outputs": "float[A,B,C,D] y"}
PARAMETERS = {name: np.array(held, np.float32) for name, held in (("s", [1, -2, 0, 3]), ("b", [0, 1, 2, 3]), ("m", [4, 0, 1, 2]), ("v", [1, 0.5, 0, 9]))}  # fmt: skip


def inlined(body, op, opset, feeds=X, tolerance=0.0, **io):
    """The operators that take the place of one, in a model that computes the same in onnxruntime."""
    source = model(body, opset, **io)
    made = opshift.inline(source, [op])
    onnx.checker.check_model(made, full_check=True)
    check_outputs(evaluate(source, feeds), evaluate(made, feeds), rtol=tolerance, atol=tolerance)
    ops = [node.op_type for node in made.graph.node]
    assert op not in ops
    return ops


def refused(body, op, why, opset=17, **io):
    with pytest.raises(Refused, match=why):
        opshift.inline(model(body, opset, **io), [op])


@pytest.mark.parametrize("opset", [9, 13, 21])
@pytest.mark.parametrize(
    ("of", "ops"),
    [
        ("float[1,4,5,6] x", ["Concat"]),
        ("float[N,4,H,6] x", ["Concat"]),
    ],
)
def test_identity(opset, of, ops):
    assert inlined("y = Identity(x)", "Identity", opset, inputs=of, outputs="float[A,B,C,D] y") == ops


def test_identity_of_what_concat_does_not_take():
    scalar = {"x": np.float32(2)}
    assert inlined("y = Identity(x)", "Identity", 17, scalar, inputs="float x", outputs="float y") == ["Reshape"]
    free = model("y = Identity(x)", 17, inputs="float[N] x", outputs="float[N] y")
    for value in (*free.graph.input, *free.graph.output):
        value.type.tensor_type.ClearField("shape")
    assert [node.op_type for node in opshift.inline(free, ["Identity"]).graph.node] == ["Shape", "Reshape"]
    refused("y = Identity(x)", "Identity", "tensor", inputs="seq(float[N]) x", outputs="seq(float[N]) y")


@pytest.mark.parametrize("opset", [9, 13, 21])
@pytest.mark.parametrize("axis", [0, 1, 3, 4])
def test_flatten(opset, axis):
    for io in (FOUR, FREE):
        shaped = {**io, "outputs": "float[A,B] y"}
        made = inlined(f"y = Flatten<axis={axis}>(x)", "Flatten", opset, **shaped)
        assert made[-1] == "Reshape"
        assert not {"If", "Loop"} & set(made)


def test_size():
    free, known = ({"inputs": of, "outputs": "int64 y"} for of in ("float[N,4,H,6] x", "float[1,4,5,6] x"))
    assert inlined("y = Size(x)", "Size", 13, **free) == ["Shape", "Concat", "ReduceProd"]
    assert inlined("y = Size(x)", "Size", 9, **known) == ["Identity"]
    one = {"inputs": "float x", "outputs": "int64 y"}
    assert inlined("y = Size(x)", "Size", 13, {"x": np.float32(3)}, **one) == ["Identity"]


def test_dropout_in_inference_is_its_input():
    assert inlined("y = Dropout(x)", "Dropout", 9, **FREE) == ["Identity"]
    off = "y = Dropout(x, r, t)"
    assert inlined(off, "Dropout", 13, constants="float r = {0.5}, bool t = {0}", **FREE) == ["Identity"]
    masked = {**FREE, "outputs": "float[A,B,C,D] y, bool[A,B,C,D] k"}
    assert inlined("y, k = Dropout(x)", "Dropout", 13, **masked) == ["Shape", "Expand", "Identity"]


def test_dropout_in_training_draws():
    made = opshift.inline(
        model("y = Dropout(x, r, t)", 13, constants="float r = {0.5}, bool t = {1}", **FREE), ["Dropout"]
    )
    assert "RandomUniformLike" in [node.op_type for node in made.graph.node]


@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("io", [FOUR, FREE])
def test_lrn(opset, size, io):
    body = f"y = LRN<size={size}, alpha=0.2, beta=0.6, bias=1.5>(x)"
    assert inlined(body, "LRN", opset, tolerance=1e-6, **io).count("AveragePool") == 1


def test_lrn_of_an_even_size_looks_further_behind():
    """No kernel takes one: the text says from floor((size - 1) / 2) channels before to ceil((size - 1) / 2) after."""
    source = model("y = LRN<size=4, alpha=1.0, beta=1.0, bias=0.0>(x)", 17, **FOUR)
    squares = np.pad(X["x"].astype(np.float64) ** 2, [(0, 0), (1, 2), (0, 0), (0, 0)])
    sums = sum(squares[:, start : start + 4] for start in range(4))
    expected = X["x"] / (sums / 4)
    made = evaluate(opshift.inline(source, ["LRN"]), X)[0]
    np.testing.assert_allclose(made, expected, rtol=1e-5)
    refused("y = LRN<size=3>(x)", "LRN", "rank 2", inputs="float[N,4] x", outputs="float[N,4] y")


@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_normalization(opset):
    body = "y = BatchNormalization<epsilon=0.01>(x, s, b, m, v)"
    made = inlined(body, "BatchNormalization", opset, {**X, **PARAMETERS}, 1e-5, **NORM)
    assert made.count("Sqrt") == 1
    numbers = ", ".join(f"float[4] {name} = {{{', '.join(map(str, held))}}}" for name, held in PARAMETERS.items())
    constant = {**FREE, "constants": numbers}
    assert inlined(body, "BatchNormalization", opset, X, 1e-5, **constant) == ["Mul", "Add"]
    matrix = {"inputs": "float[N,4] x", "outputs": "float[A,B] y", "constants": numbers}
    assert inlined(body, "BatchNormalization", opset, {"x": X["x"][0, :, :, 0].T.copy()}, 1e-5, **matrix) == [
        "Mul",
        "Add",
    ]


def test_batch_normalization_in_training():
    body = "y, p, q = BatchNormalization<training_mode=1>(x, s, b, m, v)"
    io = {**NORM, "outputs": "float[A,B,C,D] y, float[4] p, float[4] q"}
    assert "ReduceMean" in inlined(body, "BatchNormalization", 15, {**X, **PARAMETERS}, 1e-4, **io)


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize(
    ("indices", "slices"),
    [
        ("int64[1] i = {0}", 1),
        ("int64[3] i = {1, 2, 3}", 1),
        ("int64[3] i = {-2, -1, 0}", 2),  # the last two, and then the first
        ("int64[3] i = {0, 1, -1}", 2),
        ("int64[2] i = {1, 1}", 1),
        ("int32[2] i = {3, 1}", 2),
    ],
)
def test_gather(axis, indices, slices):
    for opset in (9, 13):
        made = inlined(f"y = Gather<axis={axis}>(x, i)", "Gather", opset, constants=indices, **FREE)
        assert made == ["Slice"] * slices + ["Concat"] * (slices > 1 or "1, 1" in indices)


def test_gather_of_one_number_drops_the_axis():
    io = {**FREE, "outputs": "float[A,B,C] y"}
    for index in (0, 2, -1):
        made = inlined("y = Gather<axis=2>(x, i)", "Gather", 13, constants=f"int64 i = {{{index}}}", **io)
        assert made == ["Slice", "Squeeze"]


def test_gather_that_needs_more_is_refused():
    run_time = {"inputs": "float[N,4] x, int64[2] i", "outputs": "float[A,B] y"}
    refused("y = Gather(x, i)", "Gather", "not constant", **run_time)
    every_second = ", ".join(map(str, range(0, 40, 2)))
    refused("y = Gather(x, i)", "Gather", "20 runs", constants=f"int64[20] i = {{{every_second}}}", inputs="float[40] x", outputs="float[A] y")  # fmt: skip
    refused("y = Gather(x, i)", "Gather", "rank 2", constants="int64[1,1] i = {0}", inputs="float[4] x", outputs="float[A,B] y")  # fmt: skip


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", ["0,0,1,2,0,0,3,1", "0,0,-1,2,0,0,0,-2", "0,2,0,5,0,1,4,0", "0,0,-1,-2,0,0,-1,0", "0,0,0,0,0,0,0,0"])  # fmt: skip
def test_pad(mode, pads):
    for opset in (19,) if mode == "wrap" else (9, 13, 19):
        body, constants = f'y = Pad<mode="{mode}">(x, p)', f"int64[8] p = {{{pads}}}"
        if opset < 11:
            body, constants = f'y = Pad<mode="{mode}", pads=[{pads}]>(x)', ""
        assert "Pad" not in inlined(body, "Pad", opset, constants=constants, **FOUR)


def test_pad_of_some_axes_by_a_value():
    constants = "int64[4] p = {1, 2, 0, 3}, float v = {7.5}, int64[2] a = {-1, 1}"
    assert inlined("y = Pad(x, p, v, a)", "Pad", 18, constants=constants, **FOUR) == ["Concat", "Concat"]


def test_pad_that_needs_more_is_refused():
    some = {"constants": "int64[8] p = {0,0,1,2,0,0,3,1}", **FREE}
    refused("y = Pad(x, p)", "Pad", "--fix-shape", **some)
    refused('y = Pad<mode="reflect">(x, p)', "Pad", "dynamic length", **some)
    refused("y = Pad(x, p)", "Pad", "not constant", inputs="float[2] x, int64[2] p", outputs="float[A] y")
    refused("y = Pad(x, p, v)", "Pad", "elements of v", constants="int64[2] p = {0, 1}", inputs="float[2] x, float v", outputs="float[A] y")  # fmt: skip


@pytest.mark.parametrize("opset", [9, 13])
def test_tile(opset):
    assert inlined("y = Tile(x, r)", "Tile", opset, constants="int64[4] r = {2, 1, 3, 1}", **FREE) == ["Concat"] * 2
    assert inlined("y = Tile(x, r)", "Tile", opset, constants="int64[4] r = {1, 1, 1, 1}", **FREE) == ["Identity"]
    refused("y = Tile(x, r)", "Tile", "no constant", inputs="float[2] x, int64[1] r", outputs="float[A] y")
    refused(
        "y = Tile(x, r)", "Tile", "1 or more", constants="int64[1] r = {0}", inputs="float[2] x", outputs="float[A] y"
    )
