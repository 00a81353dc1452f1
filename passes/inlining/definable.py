"""Which operators have a definition, wherever it stands."""

from __future__ import annotations

from opshift.passes.model import schemas
from opshift.passes.rewrite import registry

from opshift import functions

TRAINING = "ai.onnx.preview.training"
DOMAINS = ("", "ai.onnx.ml", TRAINING, functions.OPENVINO)


def operators(domain: str) -> list[str]:
    """The operators of a domain that may have definitions."""
    return sorted(functions.operators(domain) if domain == functions.OPENVINO else schemas.operators(domain))


def way_down(domain: str, op: str) -> tuple[registry.Step, int] | None:
    """What takes an operator's place below its first version, and the opset that it is written at."""
    first = min(schemas.versions(domain, op), default=0)
    pair = registry.step(domain, op, first) if first else None
    return None if pair is None or pair.down is None or pair.why else (pair.down, first - 1)


def is_defined(domain: str, op: str) -> bool:
    """Whether an operator has a definition."""
    held = registry.definition(domain, op)
    if held is not None:
        return not held.why
    return functions.has_definition(domain, op) or way_down(domain, op) is not None
