"""What the installed onnx knows. The schemas are a table of our own; types are inferred and values read by onnx."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from opshift.passes.errors import Refusal
from opshift.passes.model import schemas
from opshift.passes.model.messages import normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENTS

LACKING = "onnx"
"""The operator of a refusal for which the installed onnx is to blame."""


_INFERS_AS_NOW = 23  # the opset that came with onnx 1.18


class Lacking(BaseException):
    """The installed onnx is too old for what is needed. No `Exception`: nobody on the way may take it for an answer."""

    @property
    def refusal(self) -> Refusal:
        return Refusal(
            "", LACKING, "", 0, False, f"onnx {version()} is installed, and it is too old: {self}; install a newer onnx"
        )


def doubt() -> Refusal | None:
    """What to say where something is unknown that a newer onnx might know; None for the newest."""
    if not is_old():
        return None
    why = f"onnx {version()} is installed; a newer one may know what is unknown here"
    return Refusal("", LACKING, "", 0, False, why)


def version() -> str:
    """The release of the installed onnx."""
    import onnx

    return str(onnx.__version__)


@cache
def _opsets() -> dict[str, int]:
    """The newest opsets that it knows, by domain."""
    import onnx.helper

    *_, (_release, _ir, *newest) = onnx.helper.VERSION_TABLE
    return dict(zip(("", "ai.onnx.ml", "ai.onnx.preview.training"), newest, strict=False))


@cache
def is_old() -> bool:
    """Whether newer opsets are known here than it knows."""
    return any(opset < schemas.latest(domain) for domain, opset in _opsets().items())


@cache
def infers_less() -> bool:
    """Whether it leaves sizes open that later releases infer."""
    return _opsets()[""] < _INFERS_AS_NOW


def check_inference(calls: Iterable[Op], imported: dict[str, int]) -> None:
    """Raise `Lacking` where onnx would infer types of operators by the text of another version, or not at all."""
    if not is_old():
        return
    for domain, op in calls:
        domain = normalize_domain(domain)
        if not _infers(domain, op, imported.get(domain, 0)):
            raise Lacking(f"it infers nothing of {op} as of opset {schemas.since(domain, op, imported[domain])}")


@cache
def _infers(domain: str, op: str, opset: int) -> bool:
    """Whether it knows an operator, in the version that is in force or one that infers the same."""
    needed = schemas.since(domain, op, opset) if schemas.is_onnx_domain(domain) else None
    newest = _opsets().get(domain, 0)
    if needed is None or needed <= newest:
        return True
    known = schemas.since(domain, op, newest)
    steps = [v for v in schemas.versions(domain, op) if known is not None and known <= v <= needed]
    return known is not None and all(schemas.alike(domain, op, a, b) for a, b in pairwise(steps))


@cache
def reads(elem_type: int) -> bool:
    """Whether it makes arrays of an element type in which each element has the type's own values and width."""
    import onnx.helper

    kind = ELEMENTS.get(elem_type)
    if kind is None or kind.code or kind.name in ("string", "complex64", "complex128"):
        return True
    try:
        held = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    except KeyError:
        return False
    return str(held.name).replace("_", "").startswith(kind.name)  # older releases put float32 in the place of bfloat16


def check_type(elem_type: int) -> None:
    """Raise `Lacking` where onnx reads values of an element type as those of another, or not at all."""
    if is_old() and not reads(elem_type):
        raise Lacking(f"it does not read values of type {ELEMENTS[elem_type].name}")
