"""Types of what operators of vendors make, told by those of ONNX: the same shapes as the kernels' outputs have."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from opshift.passes.analysis.scope import of_model
from opshift.passes.conversion import convert
from opshift.passes.model.types import dims_of, elem_type_of

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.microsoft import harness
from tests.support import model, show

F = harness.FLOAT
CALLS = [
    *harness.calls("FusedMatMul", {"A": (3, 3, 3), "B": (3, 3, 3)}, {f"trans{n}": [None, 1] for n in ("A", "B", "BatchA", "BatchB")}, types=[F]),
    *harness.calls("FusedMatMul", {"A": [(4, 2, 3), (3,)], "B": [(3, 5), (3,)]}, types=[F]),
    *harness.calls("TransposeMatMul", {"A": (2, 3), "B": (2, 5)}, {"transA": [1]}, types=[F]),
    *harness.calls("FusedGemm", {"A": (2, 3), "B": (4, 3)}, {"activation": ["Relu"], "transB": [1], "alpha": [0.5]}, types=[F]),
    *harness.calls("FusedConv", {"X": (1, 2, 5, 5), "W": (3, 2, 3, 3), "B": (3,), "Z": (1, 3, 3, 3)}, {"activation": [None, "Relu"], "strides": [None]}, types=[F]),
    *harness.calls("FusedConv", {"X": (1, 2, 5, 5), "W": (3, 2, 3, 3)}, {"pads": [[1, 1, 0, 0]], "strides": [[2, 2]]}, types=[F]),
    *harness.calls("SkipLayerNormalization", {"input": (2, 3, 8), "skip": (3, 8), "gamma": (8,)}, outputs=["input_skip_bias_sum"]),
    *harness.calls("FastGelu", {"X": [(2, 4), (0, 3)]}, types=[F]),
    *harness.calls("Trilu", {"X": [(2, 4, 3)]}, types=[F]),
]  # fmt: skip


def test_they_have_the_shapes_that_kernels_make():
    source = harness.model(CALLS)
    expected = harness.OnnxRuntime(source).run(harness.feeds(CALLS))
    scope = of_model(source, harness.NEWEST)
    for value, want in zip(source.graph.output, expected, strict=True):
        kind = scope.type(value.name)
        assert kind is not None, value.name
        assert (dims_of(kind), elem_type_of(kind)) == ([*want.shape], onnx.helper.np_dtype_to_tensor_dtype(want.dtype))


@pytest.mark.parametrize("op", ["com.microsoft.nchwc.ReorderOutput<channels = 4>", "com.microsoft.QuickGelu"])
def test_what_stays_tells_its_type(op):
    """Nothing is declared of `a`, and Add-14 takes types that Add-13 does not."""
    source = model(f"a = {op}(x) y = Add(a, a)", 14, domains='"com.microsoft" : 1, "com.microsoft.nchwc" : 1', inputs="float[1,4,2,2] x", outputs="float[1,4,2,2] y")  # fmt: skip
    assert show(convert.convert(source, {"": 13}).model) == show(source)


def test_a_function_of_the_same_name_tells_nothing():
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[2,4] x) => (y) { a = com.microsoft.Gelu(x) y = Neg(a) }
    <domain: "com.microsoft", opset_import: ["" : 17]> Gelu (x) => (y) { s = Shape(x) y = Cast<to = 1>(s) }"""
    scope = of_model(onnx.parser.parse_model(text), 17)
    assert scope.shape("a") in (None, [2])


def test_flags_that_callers_give_tell_no_shape():
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2,3] x, float[2,5] w) => (y) { y = own.F<t = 1>(x, w) }
    <domain: "own", opset_import: ["" : 17, "com.microsoft" : 1]> F <t> (x, w) => (y) { a = com.microsoft.FusedMatMul<transA : int = @t>(x, w) y = Neg(a) }"""
    source = onnx.parser.parse_model(text)
    assert convert.convert(source, {"": 13}).model is not None


LSTM = """
    a, h, c = com.microsoft.DynamicQuantizeLSTM<hidden_size = 4, direction = "bidirectional">(
        x, w, r, , , , , , scale, point, scale, point)
    t = Transpose<perm = [0, 2, 1, 3]>(a) z = Reshape(t, flat) y = Neg(z)
"""


def recurrent(batch):
    made = model(
        LSTM, 17, domains='"com.microsoft" : 1', inputs=f"float[T,{batch},3] x", outputs="float[?,?,?] y, float[?,?,?] h",
        constants="int64[3] flat = {0, 0, -1}, float[2] scale = {0.1, 0.1}, int8[2] point = {0, 0}",
    )  # fmt: skip
    for name, inner in (("w", 3), ("r", 4)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, inner, 16), np.int8), name))
    return made


def test_a_quantized_recurrent_layer_tells_the_sizes_of_what_follows():
    source = recurrent(5)
    y, h = OnnxRuntime(source).run({"x": np.ones((7, 5, 3), np.float32)})
    assert (y.shape, h.shape) == ((7, 5, 8), (2, 5, 4))
    scope = of_model(source, 17)
    assert scope.shape("a") == ["T", 2, 5, 4]
    assert scope.shape("z")[1:] == [5, 8]


def test_a_layer_of_ones_own_of_that_name_tells_nothing():
    source = recurrent(5)
    source.functions.add(domain="com.microsoft", name="DynamicQuantizeLSTM", output=["q"]).input.append("p")
    source.functions[0].node.add(op_type="Identity", input=["p"], output=["q"])
    source.functions[0].opset_import.add(domain="", version=17)
    assert of_model(source, 17).shape("a") != ["T", 2, 5, 4]
