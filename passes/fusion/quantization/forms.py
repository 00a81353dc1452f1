"""The forms in which quantized operators are written."""

from __future__ import annotations

from opshift.passes.model.traversal import Op
from opshift.passes.rewrite import vendor_files
from opshift.passes.spelling import hint

QDQ, QOPERATOR = "qdq", "qoperator"
FORMS = (QDQ, QOPERATOR)
"""On floats between DequantizeLinear and QuantizeLinear, or on integers."""
INTEGERS: frozenset[Op] = frozenset([("", "QLinearConv"), ("", "QLinearMatMul")])
"""The operators of ONNX that compute in integers between quantized values."""
DYNAMIC: Op = ("", "DynamicQuantizeLinear")
SCALED: Op = ("quantization", QDQ)
"""What is looked for where products of integers are scaled: no operator of any domain."""
MOVED: Op = ("quantization", "moved")
"""What is looked for where numbers are dequantized only to be moved: operators that take them as they are."""


def on_integers() -> frozenset[Op]:
    """All operators that compute in integers between scales, of ONNX and of onnxruntime."""
    return INTEGERS | vendor_files.quantized()


def known(form: str | None) -> str:
    """A form that a user names, empty for none; raises `ValueError` for one that is not known."""
    if form is not None and form not in FORMS:
        likely = hint(form, FORMS) or f"; supported: {' and '.join(FORMS)}"
        raise ValueError(f"unknown quantization {form!r}{likely}")
    return form or ""
