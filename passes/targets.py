"""What a user's target stands for: opsets by domain, or a backend by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, TypeAlias

from opshift.passes.model import schemas
from opshift.passes.model.messages import default_domain
from opshift.passes.spelling import hint

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend

Target: TypeAlias = "int | str | Mapping[str, int] | Backend"
"""An opset, opsets by domain, or a backend, whose file is read where one is named."""

_NUMBER = re.compile(r"[-+]?\d+")


def resolve_target(target: Target) -> tuple[dict[str, int], int | None]:
    """The opsets by domain that a user's target stands for, and the IR version of a named target."""
    if isinstance(target, Mapping):
        if not target:
            raise ValueError("the target names no opset")
        return {default_domain(d): _check_opset(d, _opset(v)) for d, v in target.items()}, None
    if target == "latest":
        return {"": schemas.latest()}, None
    backend = find_backend(target)
    if backend is None:
        return {"": _check_opset("", _opset(target))}, None
    if not backend.opset:
        raise ValueError(f"the source of {backend.name} names no opset: {backend.source}")
    return {"": backend.opset}, backend.ir_version or None


def find_backend(target: Target | None) -> Backend | None:
    """The backend that a user's target names; None for opsets."""
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
    """An IR version that a user asks for, if any; raises `ValueError` for one that there is not."""
    least, newest = schemas.ir_version("", 1), schemas.ir_version("", schemas.latest())
    if version is not None and (isinstance(version, bool) or not hasattr(version, "__index__")):
        raise ValueError(f"an IR version is a whole number, {least} to {newest}, not {version!r}")
    if version is not None and not least <= version <= newest:
        raise ValueError(f"IR version {version} is not known; {least} to {newest} are")
    return version


def _opset(given: object) -> int:
    """The number of an opset as a user gives it."""
    try:
        if isinstance(given, bool):
            raise TypeError
        return int(given) if isinstance(given, str) else index(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"an opset, opsets by domain or the name of a target is needed, not {given!r}") from None


def _check_opset(domain: str, opset: int) -> int:
    if not schemas.known_domain(domain):
        domains = ("ai.onnx", *filter(None, schemas.domains()))
        have = hint(domain, domains, repr) or f"; {', '.join(map(repr, domains))} are"
        raise ValueError(f"the operators of domain {domain!r} are not known{have}")
    if not 1 <= opset <= schemas.latest(domain):
        raise ValueError(f"opset {opset}{domain and f' of {domain}'} is not known; 1 to {schemas.latest(domain)} are")
    return opset
