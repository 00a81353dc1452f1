"""Operators over data whose channels lie in blocks or come last, which onnxruntime makes as it loads a model."""

from __future__ import annotations

from opshift.passes.model import schemas
from opshift.passes.model.schemas import NCHWC, NHWC
from opshift.passes.rewrite.registry import refused

refused(
    schemas.operators(NCHWC),
    "its channels and weights lie in blocks as wide as the vectors of the machine that saved the model, which the file "
    "does not tell; a model that onnxruntime saved at its extended level (ORT_ENABLE_EXTENDED) could be expressed",
    domain=NCHWC,
)
refused(
    schemas.operators(NHWC),
    "onnxruntime makes it in memory for one device, no CPU kernel judges it, and no text says in which order its "
    "weights lie; the model that it was made of could be expressed",
    domain=NHWC,
)
