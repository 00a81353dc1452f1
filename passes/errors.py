"""How a rewrite says no."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from opshift.passes.records import dataclass

T = TypeVar("T")

_LONGEST = 2000  # characters of a line: names in a model may have millions
_NAMED = 3  # nodes of a line, and reasons of an operator, before the rest is counted
_OWN = r"""'[^']*'|"[^"]*\""""  # names, which make a reason that of one node


def brief(line: str) -> str:
    """A line that a reader can take in: what is longer lacks its middle."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def function_place(domain: str, name: str) -> str:
    """How refusals name the function that holds a node."""
    return f"function {domain}::{name}" if domain else f"function {name}"


class BlamedCall(Protocol):
    """A node, as far as a refusal tells of it."""

    @property
    def name(self) -> str: ...
    @property
    def op_type(self) -> str: ...
    @property
    def domain(self) -> str: ...


class CannotConvert(Exception):
    """Raised by a step for a node that has no form on the other side.

    `why` says what was found and what could be expressed: `left_window_size=3; only -1 can be expressed`.
    """

    def __init__(self, node: BlamedCall, why: str):
        super().__init__(why)
        self.node = node
        self.why = why
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
        why: what was found, and what could be expressed.
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
        """What stands in the way: the part of `why` in front of what could be expressed."""
        return self.why.partition("; ")[0] if self.possible else self.why

    @property
    def possible(self) -> str:
        """What could be expressed instead; empty where `why` does not tell."""
        told = self.why.partition("; ")[2]
        return told if told.endswith("could be expressed") or told.endswith("can be expressed") else ""

    @property
    def boundary(self) -> str:
        """The two opsets, such as `opset 20 -> 19`; empty where there is no boundary."""
        if not self.since:
            return ""
        older, newer = self.since - 1, self.since
        return f"opset {older} -> {newer}" if self.up else f"opset {newer} -> {older}"

    def __str__(self) -> str:
        subject = " ".join(filter(None, [self.operator, f'"{self.node}"' if self.node else ""]))
        place = ", ".join(filter(None, [self.where, self.boundary]))
        return brief(": ".join(filter(None, [f"{subject} ({place})" if place else subject, self.why])))


def grouped(refusals: Iterable[Refusal], most: int = _NAMED) -> list[str]:
    """One line for each operator, place and kind of reason; of one operator no more than `most`, and how many more."""
    lines: list[str] = []
    for kinds in _by(refusals, lambda r: (r.domain, r.op, r.where)):
        reasons = _by(kinds, lambda r: (r.boundary, _kind(r)))
        lines += map(_line, reasons[:most])
        if more := sum(len(alike) for alike in reasons[most:]):
            lines.append(f"{kinds[0].operator}: and {more} more reasons")
    return lines


def _by(held: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    found: dict[Hashable, list[T]] = {}
    for each in held:
        found.setdefault(key(each), []).append(each)
    return list(found.values())


def _kind(refusal: Refusal) -> str:
    """A reason without the names that make it that of one node."""
    return re.sub(_OWN, "_", refusal.why)


def _line(alike: Sequence[Refusal]) -> str:
    first = alike[0]
    names = list(dict.fromkeys(f'"{r.node}"' for r in alike if r.node))
    why = first.why.replace(f'"{first.node}"', "it") if first.op == "value" else first.why
    others = len({r.why for r in alike if r.node == first.node}) - 1
    place = ", ".join(filter(None, [first.where, first.boundary]))
    count = f"{len(names)} x " if len(names) > 1 else ""
    told = " ".join([*names[:_NAMED], *([f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else [])])
    like = f" (and {others} more like it)" if others > 0 else ""
    return brief(f"{count}{first.operator}{f' {told}' if told else ''}{f' ({place})' if place else ''}: {why}{like}")


class Refused(ValueError):
    """The model cannot be converted; nothing was written and the caller's model is unchanged.

    The text groups the reasons by operator and kind.

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
        """For other processes: the arguments of an exception are its text."""
        return partial(type(self), target=self.target, nearest=self.nearest), (self.refusals,)

    def _text(self) -> str:
        goal = (
            f" for {self.target}" if isinstance(self.target, str) else f" to opset {self.target}" if self.target else ""
        )
        lines = [f"the model cannot be converted{goal}:", *(f"  {line}" for line in grouped(self.refusals))]
        if self.nearest is not None:
            lines.append(f"  nearest opset that can be reached: {self.nearest}")
        return "\n".join(lines)


class InvalidModel(ValueError):
    """The input is not a model that can be read: corrupt, truncated, not ONNX at all, or not as ONNX allows."""
