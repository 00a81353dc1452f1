"""Registration of steps: which transition of which operator needs what.

A step takes a `Node`, edits it or returns the values that take over its outputs, and raises `CannotConvert` to
decline. `up` leads across a boundary towards newer opsets, `down` back. None means that nothing is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas
from opshift.passes.records import dataclass
from opshift.passes.rewrite import operator_files
from opshift.passes.rewrite.node import Node

Replacement = str | Sequence[str] | None
Step = Callable[[Node], Replacement]


@dataclass(frozen=True)
class Pair:
    """Both directions over one version boundary of one operator."""

    up: Step | None = None
    down: Step | None = None
    why: str = ""
    """For a transition that needs nothing, what a person found on reading both texts; else why there is no way down."""


@dataclass(frozen=True)
class OnRequest:
    """An operator in terms of others, for targets that have the operator and a user who does not want it."""

    opset: int
    """The default domain's opset at which the definition is written; 0 for that at which it finds the node."""
    step: Step
    source: str = ""
    """The paper that the definition follows where it is not the operator's own text."""
    why: str = ""
    """Why there is none; the step raises it."""
    needs: str = ""
    """An operator of the default domain without which the definition is slow,"""
    otherwise: OnRequest | None = None
    """and the definition for targets that lack it."""


Key = tuple[str, str, int]
_on_request: dict[tuple[str, str], OnRequest] = {}
_steps: dict[Key, Pair] = {}


def changed(ops: str | Iterable[str], version: int, pair: Pair, *, domain: str = "") -> None:
    """Register what happens to `ops` at the boundary below `version`, their newer since_version.

    At an operator's first version the pair has only a way down, which returns older operators in its place: for
    definitions that hang on types and shapes; those that do not are functions (`opshift.functions`).

    Raises:
        ValueError: for a second registration, or a version at which the operator did not change.
    """
    _register(ops, version, pair, domain)


def same(ops: str | Iterable[str], version: int, why: str, *, domain: str = "") -> None:
    """Register that somebody read both texts of a transition and found that nothing is needed."""
    _register(ops, version, Pair(why=why), domain)


def cannot(ops: str | Iterable[str], version: int, why: str, *, domain: str = "") -> None:
    """Register that `ops` have no form below `version`, whatever the call: it is refused with this reason."""

    def refuse(node: Node) -> Replacement:
        raise CannotConvert(node, why)

    _register(ops, version, Pair(down=refuse, why=why), domain)


def defined(
    ops: str | Iterable[str],
    step: Step,
    *,
    opset: int = 0,
    domain: str = "",
    source: str = "",
    needs: str = "",
    otherwise: Step | None = None,
) -> None:
    """Register the definition of `ops` in other operators that is used where they are to be expanded on request.

    The node climbs to `opset` first, and `step` returns what takes its place, written there; with 0 both stand where
    the node stands. An operator without one is expanded by its function or by the way down at its first version.
    One of another domain has no opsets to climb: what takes its place is written at `opset` of the default domain.
    `source` is the paper that the definition follows where it is not the operator's own text. Where the target lacks
    the operator that it `needs`, `otherwise` returns what takes the place.

    Raises:
        ValueError: for a second registration, or an opset that lacks the operator.
    """
    other = OnRequest(opset, otherwise, source) if otherwise is not None else None
    _define(ops, OnRequest(opset, step, source, needs=needs, otherwise=other), domain)


def refused(ops: str | Iterable[str], why: str, *, domain: str) -> None:
    """Register that vendors' `ops` have no definition, whatever the call: what they need is said by `why`.

    Raises:
        ValueError: for a second registration.
    """

    def refuse(node: Node) -> Replacement:
        raise CannotConvert(node, why)

    _define(ops, OnRequest(0, refuse, why=why), domain)


def definition(domain: str, op: str) -> OnRequest | None:
    """What `defined` or `refused` registered for an operator; None if neither did."""
    _load(domain, op)
    return _on_request.get((domain, op))


def _define(ops: str | Iterable[str], made: OnRequest, domain: str) -> None:
    for op in [ops] if isinstance(ops, str) else ops:
        if (domain, op) in _on_request:
            raise ValueError(
                f"{op} is already defined in {_on_request[domain, op].step.__module__}; an operator has one definition"
            )
        asked = made.opset if not domain else 0
        if not schemas.versions(domain, op) or (asked and schemas.since(domain, op, asked) is None):
            raise ValueError(f"{op} does not exist at opset {asked}")
        _on_request[domain, op] = made


def _register(ops: str | Iterable[str], version: int, pair: Pair, domain: str) -> None:
    for op in [ops] if isinstance(ops, str) else ops:
        key = (domain, op, version)
        if key in _steps:
            raise ValueError(f"a transition of {op} to version {version} is already registered")
        known = schemas.versions(domain, op)
        if version not in known:
            there = ", ".join(map(str, known)) or "none"
            raise ValueError(
                f"{op} has no version {version} (known: {there}); run opshift.passes.model.tabulate if onnx does"
            )
        if version == known[0] and (pair.up or not pair.down):
            raise ValueError(f"{version} is the first version of {op}: register a way down, and none up")
        _steps[key] = pair


def step(domain: str, op: str, version: int) -> Pair | None:
    """What was registered for the boundary below `version`; None if nothing was."""
    _load(domain, op)
    return _steps.get((domain, op, version))


def all_registrations() -> dict[Key, Pair]:
    """Every registration, by (domain, operator, newer version)."""
    for domain, operators in (*operator_files.FILES.items(), *_vendor_files().items()):
        for op in operators:
            _load(domain, op)
    return dict(_steps)


@cache
def _load(domain: str, op: str) -> None:
    """Import the file that tells an operator's history."""
    files = _vendor_files() if domain in schemas.VENDORS else operator_files.FILES
    file = files.get(domain, {}).get(op)
    if file:
        importlib.import_module(f"opshift.passes.operators.{file}")


_VENDOR_FILES = "opshift.passes.operators.microsoft.files"


def _vendor_files() -> dict[str, dict[str, str]]:
    """The file by domain and operator, of vendors: imported where a model calls one; empty without them."""
    try:
        files: dict[str, dict[str, str]] = importlib.import_module(_VENDOR_FILES).FILES
    except ModuleNotFoundError as missing:
        if missing.name is None or not _VENDOR_FILES.startswith(missing.name):
            raise
        return {}
    return files
