"""Find operators without a kernel in the installed onnxruntime, which does not load such a model."""

from __future__ import annotations

from functools import cache

from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import census

_FOLDED = frozenset([("", "Constant")])
"""What onnxruntime takes out of a model before it looks for kernels."""

_OPEN = 2**31 - 1
"""The last version of a kernel that nothing followed yet: it runs the version alone that it begins with."""


def without(model: ModelProto) -> str:
    """Describe operators without a kernel, and the nearest opset where all have one; empty if all have.

    Asked when onnxruntime does not load a model.

    Operators with a function body need none.
    """
    kernels = _kernels()
    opset = imports.opsets(model).get("", 0)
    local = {(normalize_domain(function.domain), function.name) for function in model.functions}
    calls = {(normalize_domain(domain), op) for domain, op in census([*model.functions, model.graph])[1]}
    ops = sorted(op for domain, op in calls - local - _FOLDED if not domain)
    missing = [op for op in ops if not _has(op, opset)]
    if not kernels or not missing:
        return ""
    named = ", ".join(f"{op}-{schemas.since('', op, opset)}" for op in missing)
    nearest = next((n for n in range(opset - 1, 6, -1) if all(_has(op, n) for op in ops)), 0)
    import onnxruntime

    less = f"; opset {nearest} is the nearest that it does" if nearest else ""
    return f"onnxruntime {onnxruntime.__version__} has no kernel of {named} and does not load the result{less}"


def _has(op: str, opset: int) -> bool:
    """Whether onnxruntime has a kernel for an operator at an opset, or expands it. Asked for each operator and
    opset.
    """
    schema = schemas.schema("", op, opset)
    if schema is None or schema.body:
        return schema is not None
    at = schema.since
    return any(first == at or (last != _OPEN and first <= at <= last) for first, last in _kernels().get(op, ()))


@cache
def _kernels() -> dict[str, list[tuple[int, int]]]:
    """List the versions of each default-domain operator that the CPU runs."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as registry
    except ImportError:  # onnx.reference runs all
        return {}
    versions: dict[str, list[tuple[int, int]]] = {}
    for kernel in registry.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and not normalize_domain(kernel.domain):
            versions.setdefault(kernel.op_name, []).append(tuple(kernel.version_range))
    return versions
