"""GatherBlockQuantized, MatMulBnb4, and QuantizeLinear and DequantizeLinear of more types."""

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed, inlined, model

RNG = np.random.default_rng(0)
INDICES = [np.array([[0, 3, -1], [2, 1, 0]]), np.array([5, -7, 1], np.int32), np.array(2)]  # some lie outside


@pytest.mark.parametrize("bits", [4, 8, 2])
@pytest.mark.parametrize("given", [True, False])
def test_bytes_are_gathered(bits, given):
    zeros = RNG.integers(0, 256, (4, 2, -(-2 * bits // 8))).astype(np.uint8) if given else None
    data = RNG.integers(0, 256, (4, 2, 32 * bits // 8)).astype(np.uint8)
    shapes = {"data": data, "indices": INDICES, "scales": np.abs(RNG.normal(size=(4, 2, 2))), "zero_points": zeros}
    found = calls("GatherBlockQuantized", shapes, {"bits": [bits], "block_size": [16], "quantize_axis": [2]})
    found = [call for call in found if not given or call.inputs[3] is not None]
    assert check(found, grade="close", held=(0, 2, 3), opsets=(21, 13)) == 6


@pytest.mark.parametrize("bits", [4, 8])
def test_one_row_with_one_scale(bits):
    data = RNG.integers(0, 256, (4, 16 * bits // 8)).astype(np.uint8)
    shapes = {"data": data, "indices": [np.array(2), np.array(-5)], "scales": np.abs(RNG.normal(size=(4, 1)))}
    assert check(calls("GatherBlockQuantized", shapes, {"bits": [bits], "block_size": [16]}), grade="close") == 4


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
def test_integers_of_four_bits_are_gathered_along_each_axis(kind):
    for gathered, quantized in ((0, 1), (1, 2), (2, 1), (1, 1)):
        scales = (3, 1, 4) if quantized == 1 else (3, 16, 1)
        shapes = {
            "data": RNG.integers(0, 8, (3, 16, 4)).astype(kind),
            "indices": [np.array([[0, 2, -1]]), np.array([1])],
            "scales": np.abs(RNG.normal(size=scales)),
            "zero_points": RNG.integers(0, 7, scales).astype(kind),
        }
        axes = {"gather_axis": [gathered], "quantize_axis": [quantized], "block_size": [16]}
        assert check(calls("GatherBlockQuantized", shapes, axes), opsets=(21, 24), grade="close", held=(0, 2, 3)) == 8


@pytest.mark.parametrize("held", [(1, 2), ()])
@pytest.mark.parametrize(("columns", "rows", "block"), [(32, 5, 16), (16, 3, 32), (5, 3, 16)])
def test_codes_of_four_bits(columns, rows, block, held):
    shapes = {
        "A": (2, 3, columns),
        "B": RNG.integers(0, 256, (rows * columns + 1) // 2).astype(np.uint8),
        "absmax": np.abs(RNG.normal(size=-(-rows * columns // block))),
    }
    attributes = {"K": [columns], "N": [rows], "block_size": [block], "quant_type": [0, 1]}
    assert check(calls("MatMulBnb4", shapes, attributes), grade="close", held=held, opsets=(21, 13)) == 4
    check_refused(calls("MatMulBnb4", shapes, {**attributes, "transB": [0]})[:1], "transB=0")


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16, np.int32])
def test_quantize_and_dequantize(kind):
    found = []
    for axis, shape in ((None, ()), (1, (3,)), (None, (1,)), (0, (2,))):
        zeros, scale = np.full(shape, 0 if kind == np.int32 else 5, kind), np.full(shape, 0.3)
        shapes = {"x": RNG.integers(0, 100, (2, 3, 4)).astype(kind), "x_scale": scale, "x_zero_point": zeros}
        found += calls("DequantizeLinear", shapes, {"axis": [axis]}, types=[FLOAT])
        if kind != np.int32:
            shapes = {"x": RNG.normal(size=(2, 3, 4)) * 100, "y_scale": scale, "y_zero_point": zeros}
            found += calls("QuantizeLinear", shapes, {"axis": [axis]}, types=[FLOAT, np.float16])  # in float32
    assert check(found, opsets=(23, 21, 13)) == len(found)


def test_floats_of_16_bits_are_divided_in_32():
    """47.84 / 0.3 is 159.45, and 159.5 in 16 bits."""
    x, scale = np.array([47.84375], np.float16), np.array(0.300048828125, np.float16)
    call = Call("QuantizeLinear", (x, scale, np.array(0, np.uint8)), (True,))
    assert check([call], opsets=(23, 21, 13)) == 1
    source = model([call])
    source.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.UINT8, [1]))
    (node,) = (node for node in inlined(source, 23).graph.node if node.op_type == "QuantizeLinear")
    assert not {"x_0_0", "x_0_1"} & {*node.input}


def test_what_cannot_be_said_is_refused():
    given = {"data": np.zeros((4, 16), np.uint8), "indices": np.array([1]), "scales": (4, 2)}
    found = calls("GatherBlockQuantized", given, {"gather_axis": [1]})
    check_refused(found[:1], "gather_axis=1 for uint8 data")
    floats = Call("GatherBlockQuantized", (np.zeros((4, 16), ml_dtypes.float8_e5m2), *found[0].inputs[1:3]), (True,))
    check_refused([floats], "the data is float8e5m2")


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_products_of_eight_bit_floats_by_their_text(scaled, biased):
    kind = ml_dtypes.float8_e4m3fn
    a, w, bias = (RNG.normal(size=of) for of in ((2, 3, 24), (5, 24), (5,)))
    w, scales, scale = w.astype(kind), np.abs(RNG.normal(size=(5, 2))).astype(FLOAT), np.array(0.25, FLOAT)
    a, bias = a.astype(np.float16), bias.astype(np.float16)
    weights = w.astype(FLOAT) * scales.repeat(16, 1)[:, :24]
    x = (a.astype(FLOAT) / scale).astype(kind).astype(FLOAT) * scale if scaled else a.astype(FLOAT)
    call = Call(
        "MatMulBlockQuantizedFp8Weight",
        (a, w, scales, scale if scaled else None, bias if biased else None),
        (True,),
        {"block_size": 16},
    )
    expected = x @ weights.T + (bias.astype(FLOAT) if biased else 0)
    np.testing.assert_allclose(computed(call, 21)[0].astype(FLOAT), expected, rtol=2e-3, atol=2e-3)
