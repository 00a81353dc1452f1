"""Look up operators by the names that users give: `Gelu`, `com.microsoft::Gelu`, or a domain."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opshift.passes.model import schemas
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.spelling import hint, likely, texts


def parse_operator(name: str) -> Op:
    """Split `"Name"` or `"domain::Name"` into (domain, name). Used for every operator that a user names."""
    domain, _, op = name.rpartition("::")
    return normalize_domain(domain), op


def unknown_operator(name: str, held: Iterable[Op] = ()) -> ValueError:
    """Make the error for an operator that nobody defines, with a suggestion. Used for names in options."""
    from opshift.passes.inlining import definable

    domains = (*definable.DOMAINS, *schemas.IMPORTED)
    known = {(domain, op) for domain in domains for op in definable.operators(domain)}
    return unknown("operator", name, known.union(held))


def unknown(what: str, name: str, known: Iterable[Op]) -> ValueError:
    """Make the error for an unknown name, with the most similar known one. Used for names in options."""
    names = sorted(f"{domain}::{op}" if domain else op for domain, op in known)
    if len(re.split(r"[,;\s]+", name.strip(",; "))) > 1:
        return ValueError(f"unknown {what} {name!r}: name one at a time")
    domain = normalize_domain(name.rpartition("::")[0])
    if domain and likely(domain, {known.rpartition("::")[0] for known in names}) is None:
        return ValueError(f"unknown {what} {name!r}: opshift knows no operators of domain {domain!r}")
    called = ELSEWHERE.get(re.sub(r"[^a-z0-9]", "", name.lower()))
    elsewhere = [known for known in names if "::" in known and known.rpartition("::")[2] == name]
    if called in names or elsewhere:
        return ValueError(f"unknown {what} {name!r}; did you mean {' or '.join(elsewhere) or called}?")
    return ValueError(f"unknown {what} {name!r}{hint(name.removeprefix('ai.onnx::'), names)}")


ELSEWHERE = {
    "batchnorm": "BatchNormalization",
    "batchnorm2d": "BatchNormalization",
    "bmm": "MatMul",
    "conv2d": "Conv",
    "convtranspose2d": "ConvTranspose",
    "dense": "Gemm",
    "embedding": "Gather",
    "gridsample2d": "GridSample",
    "groupnorm": "GroupNormalization",
    "hardtanh": "Clip",
    "instancenorm": "InstanceNormalization",
    "interpolate": "Resize",
    "l2norm": "LpNormalization",
    "l2normalize": "LpNormalization",
    "layernorm": "LayerNormalization",
    "linear": "Gemm",
    "maxpool2d": "MaxPool",
    "multiheadattention": "Attention",
    "pixelshuffle": "DepthToSpace",
    "relu6": "Clip",
    "rmsnorm": "RMSNormalization",
    "rope": "RotaryEmbedding",
    "rotarypositionembedding": "RotaryEmbedding",
    "scaleddotproductattention": "Attention",
    "sdpa": "Attention",
    "sdp": "Attention",
    "silu": "Swish",
    "upsamplenearest": "Resize",
}
"""What frameworks call operators, and what ONNX does."""


def find_named(model: ModelProto, names: Iterable[str], domain: str | None, used: Iterable[Op]) -> list[Op]:
    """Look up the operators that a user names, one by one or by domain; raises `ValueError` for an unknown one.

    Runs before a conversion.
    """
    named = [parse_operator(name) for name in names]
    existing = {*used, *((normalize_domain(f.domain), f.name) for f in model.functions)}
    for name, op in zip(names, named, strict=True):
        if op not in existing and not schemas.versions(*op) and not _is_ours(*op):
            raise unknown_operator(name, existing)
    if domain is not None:
        wanted = normalize_domain(domain)
        members = sorted(op for op in used if op[0] == wanted)
        if not members and not _is_known(wanted):
            raise ValueError(f"the model uses no operator of domain {domain!r}{_domain_hint(domain, used)}")
        named += members
    return named


def _is_known(domain: str) -> bool:
    """Whether a domain that a user names can have operators: those of ONNX, a vendor or opshift. Part of
    `find_named`.
    """
    from opshift.passes.inlining import definable

    return schemas.is_onnx_domain(domain) or domain in (*schemas.IMPORTED, *definable.DOMAINS)


def _is_ours(domain: str, op: str) -> bool:
    """Whether opshift defines the operator. Part of `find_named`."""
    from opshift.passes.inlining import definable

    return domain in definable.DOMAINS and op in definable.operators(domain)


def _domain_hint(domain: str, used: Iterable[Op]) -> str:
    domains = sorted({domain or "ai.onnx" for domain, _ in used})
    return hint(domain, domains, repr) or (f"; it uses {', '.join(map(repr, domains))}" if domains else "")


def as_names(names: Iterable[str]) -> tuple[str, ...]:
    """Make a tuple of one name or several; raises `ValueError` for anything but strings."""
    return tuple(texts(names, "give operators by name, such as 'ReduceL2'"))


def find_recognisable(name: str) -> Op:
    """Look up an operator that a user wants folded; raises `ValueError` if it is unknown, or has no definition to
    recognise.
    """
    from opshift.passes.fusion.door import family
    from opshift.passes.inlining import definable

    op = parse_operator(name)
    if family(op) is not None:
        return op
    if definable.is_defined(*op):
        why = "opshift cannot recognise its definition (docs/definitions.md lists those that fold)"
        raise ValueError(f"nodes cannot be folded into {name}: {why}")
    if schemas.versions(*op):
        raise ValueError(
            f"{name} has no definition that could be folded; docs/definitions.md lists the operators that have one"
        )
    raise unknown_operator(name)
