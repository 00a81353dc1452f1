"""The types that a model has for what is double in its twin, and the weights that are not made double."""

import numpy as np
import onnx
import onnx.helper
import pytest
from onnx import TensorProto

from opshift.verification.twins import twin
from opshift.verification.twins.calls import Call
from opshift.verification.twins.twin import _kind, is_too_large
from opshift.verification.twins.values import Value
from tests.support import model


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "kinds", "kind"),
    [
        ("DequantizeLinear", 10, {}, [0, 1], TensorProto.FLOAT),
        ("Add", 14, {}, [TensorProto.FLOAT16, TensorProto.FLOAT16], TensorProto.FLOAT16),
        ("Where", 16, {}, [0, 0, TensorProto.BFLOAT16], 0),
        ("EyeLike", 9, {}, [TensorProto.FLOAT], TensorProto.FLOAT),
        ("EyeLike", 9, {"dtype": TensorProto.FLOAT16}, [TensorProto.FLOAT], TensorProto.FLOAT16),
        ("EyeLike", 9, {"dtype": TensorProto.INT64}, [TensorProto.FLOAT], 0),
        ("EyeLike", 9, {"other": TensorProto.FLOAT16}, [TensorProto.FLOAT], TensorProto.FLOAT),
        ("Nothing", 9, {}, [0, TensorProto.BFLOAT16], TensorProto.BFLOAT16),
        ("Nothing", 9, {}, [], 0),
    ],
)
def test_the_type_that_a_model_has_for_what_is_double(op, opset, attributes, kinds, kind):
    node = onnx.helper.make_node(op, ["a"] * len(kinds), ["y"], **attributes)
    given = [Value(np.ones(1), held) for held in kinds]
    assert _kind(node, Call(node, opset), 0, given) == kind


def test_inputs_that_are_left_out_tell_no_type():
    node = onnx.helper.make_node("Clip", ["a", "", "b"], ["y"])
    given = [Value(None), Value(None), Value(np.ones(1), TensorProto.FLOAT16)]
    assert _kind(node, Call(node, 13), 0, given) == TensorProto.FLOAT16


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("read", ["whole", "rows", "both"])
def test_which_weights_are_too_large_to_be_widened(monkeypatch, dtype, read):
    """12 bytes an element, of which 2 or 8 are there, beside another weight."""
    nodes = {"whole": "y = Mul(x, w)", "rows": "y = Gather(w, i)", "both": "a = Mul(x, w) y = Gather(w, i)"}
    of = model(nodes[read], 17, inputs="float[9] x, int64 i", outputs="y")
    for name, kind, size in (("w", dtype, 9), ("v", TensorProto.DOUBLE, 4)):
        of.graph.initializer.append(
            onnx.TensorProto(name=name, data_type=kind, dims=[size], raw_data=bytes(size * (2 if kind == 10 else 8)))
        )
    assert not is_too_large(of)
    total = sum(len(t.raw_data) for t in of.graph.initializer)
    monkeypatch.setattr(twin, "_LARGE", total)
    assert not is_too_large(of)
    monkeypatch.setattr(twin, "_LARGE", total - 1)
    assert is_too_large(of) == (total < 12 * 9 and read != "rows")
