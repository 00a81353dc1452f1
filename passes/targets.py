"""Resolve a user's target: opsets by domain, or a backend by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, TypeAlias

from opshift.passes.model import schemas
from opshift.passes.model.messages import normalize_domain
from opshift.passes.spelling import hint

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend

Target: TypeAlias = "int | str | Mapping[str, int] | Backend"
"""An opset, opsets by domain, or a backend, whose file is read where one is named."""

_NUMBER = re.compile(r"[-+]?\d+")


def resolve_target(target: Target) -> tuple[dict[str, int], int | None]:
    """Resolve a user's target to opsets by domain, and to the IR version of a backend."""
    if isinstance(target, Mapping):
        if not target:
            raise ValueError("no opset is given; give a number, or opsets by domain such as {'': 13}")
        return {normalize_domain(d): _check_opset(d, _opset(v)) for d, v in target.items()}, None
    if target == "latest":
        return {"": schemas.latest()}, None
    backend = find_backend(target)
    if backend is None:
        return {"": _check_opset("", _opset(target))}, None
    if not backend.opset:
        raise ValueError(f"the target {backend.name} has no opset ({backend.source}); give --opset")
    return {"": backend.opset}, backend.ir_version or None


def find_backend(target: Target | None) -> Backend | None:
    """Find the backend that a user's target names; None for opsets."""
    if target is None or isinstance(target, (int, Mapping)) or target == "latest":
        return None
    if isinstance(target, str):
        if _NUMBER.fullmatch(target):
            return None
        from opshift.passes.backends.door import find

        return find(target)
    from opshift.passes.backends.door import Backend

    return target if isinstance(target, Backend) else None


def check_ir_version(version: int | None) -> int | None:
    """Check an IR version that a user asks for; raises `ValueError` for an unknown one."""
    least, newest = schemas.ir_version("", 1), schemas.ir_version("", schemas.latest())
    if version is not None and (isinstance(version, bool) or not hasattr(version, "__index__")):
        raise ValueError(f"the IR version must be a whole number, {least} to {newest}, not {version!r}")
    if version is not None and not least <= version <= newest:
        raise ValueError(f"unknown IR version {version}; supported: {least} to {newest}")
    return version


def _opset(given: object) -> int:
    """Read the number of an opset as a user gives it."""
    try:
        if isinstance(given, bool):
            raise TypeError
        return int(given) if isinstance(given, str) else index(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"give an opset, opsets by domain or the name of a target, not {given!r}") from None


def _check_opset(domain: str, opset: int) -> int:
    if not schemas.is_onnx_domain(domain):
        domains = ("ai.onnx", *filter(None, schemas.domains()))
        have = hint(domain, domains, repr) or f"; {', '.join(map(repr, domains))} are"
        raise ValueError(f"the operators of domain {domain!r} are not known{have}")
    if not 1 <= opset <= schemas.latest(domain):
        raise ValueError(f"unknown opset {opset}{domain and f' of {domain}'}; supported: 1 to {schemas.latest(domain)}")
    return opset
