"""Refusals: the reasons why a model is not converted, and the one place that words them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from opshift.passes.records import dataclass

T = TypeVar("T")

_LONGEST = 2000  # characters of a line: names in a model may have millions
_NAMED = 3  # nodes of a line, and reasons of an operator, before the rest is counted
_LINES = 5  # of a report
_NAMES = r"""'[^']*'|"[^"]*\""""
_REPLACEMENT = r"\bits replacement needs \w+"


def brief(line: str) -> str:
    """Cut the middle out of a line that is too long to read."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def function_place(domain: str, name: str) -> str:
    """Name the function that holds a node."""
    return f"function {domain}::{name}" if domain else f"function {name}"


class BlamedCall(Protocol):
    """What a refusal reads of a node."""

    @property
    def name(self) -> str: ...
    @property
    def op_type(self) -> str: ...
    @property
    def domain(self) -> str: ...


_SUPPORTED = "; supported: "
_FIX = "; try "


def reason(found: str, supported: str = "", fix: str = "") -> str:
    """Why a node is refused: what it has, what could stand there instead, and what a user can do about it.

    Where a size or a rank is unknown, fixed sizes of inputs may tell it.
    """
    if not fix and found.endswith("unknown") and not found.startswith("the type"):
        fix = "--fix-shape"
    return found + (_SUPPORTED + supported if supported else "") + (_FIX + fix if fix else "")


class CannotConvert(Exception):
    """Raised by a step for a node that has no form on the other side of a boundary.

    Attributes:
        why: the reason as users read it, such as `left_window_size=3; supported: -1`.
    """

    def __init__(self, node: BlamedCall, found: str, supported: str = "", fix: str = ""):
        self.why = reason(found, supported, fix)
        super().__init__(self.why)
        self.node = node
        self.edge = 0
        self.up = True

    def at(self, edge: int, *, up: bool) -> CannotConvert:
        """The same refusal, placed at the boundary below version `edge`."""
        self.edge, self.up = edge, up
        return self


@dataclass(frozen=True)
class Refusal:
    """One reason why a model cannot be converted.

    Attributes:
        node: the name of the node that the user wrote.
        op: its operator; `value`, `input`, `opset` and the like where no operator is at fault.
        domain: the operator's domain; empty for the default one.
        since: the version at the newer side of the boundary that could not be crossed; 0 where there is none.
        up: the direction, up or down.
        why: the reason, as `reason` words it.
        where: the model-local function that holds the node; empty for the graph of the model.
    """

    node: str
    op: str
    domain: str
    since: int
    up: bool
    why: str
    where: str = ""

    @property
    def operator(self) -> str:
        """The operator as users write it, such as `Gelu` or `com.example::Gelu`."""
        return f"{self.domain}::{self.op}" if self.domain else self.op

    @property
    def found(self) -> str:
        """What stands in the way."""
        return self.why.partition(_FIX)[0].partition(_SUPPORTED)[0]

    @property
    def supported(self) -> str:
        """What could stand there instead; empty if nothing is named."""
        return self.why.partition(_FIX)[0].partition(_SUPPORTED)[2]

    @property
    def fix(self) -> str:
        """What a user can try; empty if nothing is known to help."""
        return self.why.partition(_FIX)[2]

    @property
    def boundary(self) -> str:
        """The two opsets, such as `opset 20 -> 19`; empty where there is no boundary."""
        if not self.since:
            return ""
        older, newer = self.since - 1, self.since
        return f"opset {older} -> {newer}" if self.up else f"opset {newer} -> {older}"

    def __str__(self) -> str:
        return sentence(self, [self.node] if self.node else [])


def sentence(refusal: Refusal, nodes: Sequence[str], like: int = 0) -> str:
    """Write a refusal as users read it; `nodes` are all that it holds for, `like` counts reasons that are much like it.

    `2 x Sub "a" "b" (opset 7 -> 6): "x" is int64; supported: double, float (and 3 more like it)`
    """
    count = f"{len(nodes)} x " if len(nodes) > 1 else ""
    names = [f'"{name}"' for name in nodes[:_NAMED]]
    names += [f"and {len(nodes) - _NAMED} more"] if len(nodes) > _NAMED else []
    place = ", ".join(filter(None, [refusal.where, refusal.boundary]))
    subject = " ".join([count + refusal.operator, *names, *([f"({place})"] if place else [])])
    why = refusal.why.replace(f'"{refusal.node}"', "it") if refusal.op == "value" and len(nodes) > 1 else refusal.why
    end = f" (and {like} more like it)" if like else ""
    return brief(f"{subject}: {why}{end}" if why else subject)


def group_refusals(refusals: Iterable[Refusal], most: int = _LINES) -> list[str]:
    """Write refusals in at most `most` lines, and a last one that counts the rest.

    Nodes of one operator with one reason share a line; an operator has at most three lines.
    """
    every = list(refusals)
    lines: list[str] = []
    shown = 0
    for kinds in _by(every, lambda r: (r.domain, r.op, r.where)):
        for alike in _by(kinds, lambda r: (r.boundary, _kind(r)))[:_NAMED]:
            if len(lines) < most:
                first = alike[0]
                nodes = list(dict.fromkeys(r.node for r in alike if r.node))
                lines.append(sentence(first, nodes, len({r.why for r in alike if r.node == first.node}) - 1))
                shown += len(alike)
    if shown < len(every):
        lines.append(f"and {len(every) - shown} more")
    return lines


def _by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _kind(refusal: Refusal) -> str:
    """A reason without the names that only one node has."""
    return re.sub(_NAMES, "_", re.sub(_REPLACEMENT, "", refusal.why))


class Refused(ValueError):
    """The model cannot be converted; nothing was written and the caller's model is unchanged.

    The text has one line for each operator and kind of reason, at most five.

    Attributes:
        refusals: every reason.
        target: the opset or the backend that was asked for.
        nearest: the closest opset that can be reached; None where unknown.
    """

    refusals: tuple[Refusal, ...]
    target: int | str | None
    nearest: int | None

    def __init__(self, refusals: Sequence[Refusal], *, target: int | str | None = None, nearest: int | None = None):
        self.refusals = tuple(refusals)
        self.target = target
        self.nearest = nearest
        super().__init__(self._text())

    def __reduce__(self) -> tuple[partial[Refused], tuple[Sequence[Refusal]]]:
        """Keep the refusals when the error is sent to another process."""
        return partial(type(self), target=self.target, nearest=self.nearest), (self.refusals,)

    def _text(self) -> str:
        goal = (
            f" for {self.target}" if isinstance(self.target, str) else f" to opset {self.target}" if self.target else ""
        )
        failed = f"the model cannot be converted{goal}"
        if {refusal.op for refusal in self.refusals} == {"types"}:
            failed = "the types cannot be changed as asked"
        lines = [f"{failed}:", *(f"  {line}" for line in group_refusals(self.refusals))]
        if self.nearest is not None:
            lines.append(f"  nearest opset that works: {self.nearest}")
        return "\n".join(lines)


def describe_numbers(needs: Iterable[Refusal]) -> str:
    """List the options that fix open inputs: `--fix-shape x:?,3 --set sr=? with a number for each ?`.

    Printed where a model is refused for them.
    """
    return f"{' '.join(dict.fromkeys(need.fix for need in needs))} with a number for each ?"


class InvalidModel(ValueError):
    """The input is not a model that can be read: corrupt, truncated, not ONNX at all, or not as ONNX allows."""


class OutOfOrder(InvalidModel):
    """A node reads a value that no earlier node computes. If a later one does, the nodes can be put in order."""
