"""The forms in which quantized operators are written."""

from __future__ import annotations

from opshift.passes.model.traversal import Op
from opshift.passes.operators.microsoft import files

INTEGERS: frozenset[Op] = frozenset([("", "QLinearConv"), ("", "QLinearMatMul")])
"""The operators of ONNX that compute in integers between quantized values."""
DYNAMIC: Op = ("", "DynamicQuantizeLinear")
SCALED: Op = ("quantization", "qdq")
"""What is looked for where products of integers are scaled: no operator of any domain."""
MOVED: Op = ("quantization", "moved")
"""What is looked for where numbers are dequantized only to be moved: operators that take them as they are."""


def on_integers() -> frozenset[Op]:
    """All operators that compute in integers between scales, of ONNX and of onnxruntime."""
    return INTEGERS | files.integer_operators()
