"""Operators as users name them: `Gelu`, `com.microsoft::Gelu`, or all of a domain."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opshift.passes.model import schemas
from opshift.passes.model.messages import ModelProto, default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.spelling import hint, likely, texts


def parse_operator(name: str) -> Op:
    """`"Name"` or `"domain::Name"` as (domain, name)."""
    domain, _, op = name.rpartition("::")
    return default_domain(domain), op


def unknown_operator(name: str, held: Iterable[Op] = ()) -> ValueError:
    """The error for an operator that neither ONNX, nor opshift, nor the model (`held`) defines."""
    from opshift.passes.inlining import definable

    domains = (*definable.DOMAINS, *schemas.IMPORTED)
    known = {(domain, op) for domain in domains for op in definable.operators(domain)}
    return unknown("operator", name, known.union(held))


def unknown(what: str, name: str, known: Iterable[Op]) -> ValueError:
    """The error for an unknown name, with the known one that is spelled most like it."""
    names = sorted(f"{domain}::{op}" if domain else op for domain, op in known)
    if len(re.split(r"[,;\s]+", name.strip(",; "))) > 1:
        return ValueError(f"unknown {what} {name!r}: name one at a time")
    domain = default_domain(name.rpartition("::")[0])
    if domain and likely(domain, {known.rpartition("::")[0] for known in names}) is None:
        return ValueError(f"unknown {what} {name!r}: no operator of domain {domain!r} is known")
    return ValueError(f"unknown {what} {name!r}{hint(name.removeprefix('ai.onnx::'), names)}")


def find_named(model: ModelProto, names: Iterable[str], domain: str | None, used: Iterable[Op]) -> list[Op]:
    """Look up the operators that a user names, one by one and by domain; raises `ValueError` for an unknown one."""
    found = [parse_operator(name) for name in names]
    held = {*used, *((default_domain(f.domain), f.name) for f in model.functions)}
    for name, op in zip(names, found, strict=True):
        if op not in held and not schemas.versions(*op) and not _is_ours(*op):
            raise unknown_operator(name, held)
    if domain is not None:
        wanted = default_domain(domain)
        members = sorted(op for op in used if op[0] == wanted)
        if not members and not _is_known(wanted):
            raise ValueError(f"the model uses no operator of domain {domain!r}{_domain_hint(domain, used)}")
        found += members
    return found


def _is_known(domain: str) -> bool:
    """Whether operators of the domain are defined by ONNX, a vendor or opshift."""
    from opshift.passes.inlining import definable

    return schemas.known_domain(domain) or domain in (*schemas.IMPORTED, *definable.DOMAINS)


def _is_ours(domain: str, op: str) -> bool:
    """Whether opshift defines the operator."""
    from opshift.passes.inlining import definable

    return domain in definable.DOMAINS and op in definable.operators(domain)


def _domain_hint(domain: str, used: Iterable[Op]) -> str:
    domains = sorted({domain or "ai.onnx" for domain, _ in used})
    return hint(domain, domains, repr) or (f"; it uses {', '.join(map(repr, domains))}" if domains else "")


def as_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple, whether a user gives one or several; raises `ValueError` for anything but texts."""
    return tuple(texts(names, "operators are named by texts, such as 'ReduceL2'"))


def find_recognisable(name: str) -> Op:
    """Look up an operator to fold; raises `ValueError` if it is unknown, or has no definition to recognise it by."""
    from opshift.passes.fusion.door import family
    from opshift.passes.inlining import definable

    op = parse_operator(name)
    if family(op) is not None:
        return op
    if definable.is_defined(*op):
        why = "its definition is no pattern (docs/definitions.md tells which ones are)"
        raise ValueError(f"{name} cannot be recognised: {why}")
    if schemas.versions(*op):
        raise ValueError(f"{name} has no definition to recognise it by (docs/definitions.md lists those that have one)")
    raise unknown_operator(name)
