"""Whole models from QDQ to QOperator and back, as onnxruntime quantizes them."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import opshift
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

RNG = np.random.default_rng(0)
BODY = """c = Conv<pads=[1, 1, 1, 1]>(x, w, b) r = Relu(c) d = Conv(r, v, e) p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(d)
          s = Add(p, p) f = Flatten(s) y = MatMul(f, m)"""
SHAPES = {"w": (6, 3, 3, 3), "b": (6,), "v": (4, 6, 1, 1), "e": (4,), "m": (64, 5)}
KINDS = [(QuantType.QUInt8, QuantType.QInt8), (QuantType.QInt8, QuantType.QInt8), (QuantType.QUInt8, QuantType.QUInt8)]


class Images(CalibrationDataReader):
    def __init__(self):
        self.rows = iter([{"x": RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)} for _ in range(3)])

    def get_next(self):
        return next(self.rows, None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    source = model(BODY, 13, inputs="float[2,3,8,8] x", outputs="float[2,5] y")
    for name, shape in SHAPES.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(RNG.normal(size=shape).astype(np.float32), name))
    path = tmp_path_factory.mktemp("plain") / "plain.onnx"
    onnx.save(source, path)
    return path


def quantized(plain, form, kinds, *, per_channel=False):
    path = plain.with_name("quantized.onnx")
    if form is None:
        quantize_dynamic(plain, path, weight_type=kinds[1])
    else:
        rest = {"activation_type": kinds[0], "weight_type": kinds[1], "per_channel": per_channel}
        quantize_static(plain, path, Images(), quant_format=form, **rest)
    return onnx.load(path)


def operators(of):
    return [node.op_type for node in of.graph.node]


@pytest.mark.newest
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
def test_there_and_back(plain, kinds, per_channel):
    source = quantized(plain, QuantFormat.QDQ, kinds, per_channel=per_channel)
    integers = opshift.convert_version(source, quantization="qoperator")
    assert operators(integers).count("QLinearConv") == 2
    assert operators(integers).count("QLinearMatMul") == 1
    assert opshift.verify(source, integers, runs=1)
    onnxruntime.InferenceSession(integers.SerializeToString())
    back = opshift.convert_version(integers, quantization="qdq")
    moved = ["DequantizeLinear", "QuantizeLinear"] * 2  # around MaxPool and Flatten, which take integers as well
    assert sorted([*operators(back), *moved]) == sorted(operators(source))
    assert opshift.verify(integers, back, runs=1)


@pytest.mark.newest
@pytest.mark.parametrize("kinds", KINDS)
def test_integers_are_taken_apart(plain, kinds):
    source = quantized(plain, QuantFormat.QOperator, kinds)
    assert "QLinearAdd" in operators(source)
    result = opshift.convert_version(source, quantization="qdq")
    assert not [op for op in operators(result) if op.startswith("QLinear")]
    assert opshift.verify(source, result, runs=1)
    names = sorted({node.op_type for node in source.graph.node if node.op_type.startswith("QLinear")})
    named = [f"com.microsoft::{name}" if name == "QLinearAdd" else name for name in names]
    assert sorted(operators(opshift.fold(result, named))) == sorted(operators(source))


@pytest.mark.newest
def test_what_is_quantized_as_it_runs_is_taken_apart(plain):
    source = quantized(plain, None, (None, QuantType.QUInt8))
    result = opshift.convert_version(source, quantization="qdq")
    assert not {"MatMulInteger", "ConvInteger"} & {*operators(result)}
    assert {"DynamicQuantizeLinear", "DequantizeLinear", "Conv", "MatMul"} <= {*operators(result)}
    assert opshift.verify(source, result, runs=1)


def test_nothing_quantized_stays_as_it_is(plain):
    source = onnx.load(plain)
    for form in ("qdq", "qoperator"):
        assert opshift.convert_version(source, quantization=form) == source


@pytest.mark.long
def test_commands(plain, tmp_path):
    command = [sys.executable, "-m", "opshift", "convert", str(plain)]
    done = subprocess.run([*command, str(tmp_path / "a.onnx"), "--quantization", "qdp"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown quantization 'qdp'; did you mean qdq?" in done.stderr
    with pytest.raises(ValueError, match="supported: qdq and qoperator"):
        opshift.convert_version(onnx.load(plain), quantization="int4")
    done = subprocess.run([*command, str(tmp_path / "a.onnx"), "--quantization", "qdq"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the model has no QLinear operator" in done.stdout
