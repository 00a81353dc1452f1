"""How a rewrite says no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_LONGEST = 2000  # characters of a line: names in a model may have millions


def brief(line: str) -> str:
    """A line that a reader can take in: what is longer lacks its middle."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


class Call(Protocol):
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

    def __init__(self, node: Call, why: str):
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
    def boundary(self) -> str:
        """The two opsets, such as `opset 20 -> 19`; empty where there is no boundary."""
        if not self.since:
            return ""
        older, newer = self.since - 1, self.since
        return f"opset {older} -> {newer}" if self.up else f"opset {newer} -> {older}"

    def __str__(self) -> str:
        op = f"{self.domain}::{self.op}" if self.domain else self.op
        subject = " ".join(filter(None, [op, f'"{self.node}"' if self.node else ""]))
        place = ", ".join(filter(None, [self.where, self.boundary]))
        return brief(": ".join(filter(None, [f"{subject} ({place})" if place else subject, self.why])))


class Refused(ValueError):
    """The model cannot be converted; nothing was written and the caller's model is unchanged.

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

    def _text(self) -> str:
        goal = (
            f" for {self.target}" if isinstance(self.target, str) else f" to opset {self.target}" if self.target else ""
        )
        lines = [f"the model cannot be converted{goal}:", *(f"  {refusal}" for refusal in self.refusals)]
        if self.nearest is not None:
            lines.append(f"  nearest opset that can be reached: {self.nearest}")
        return "\n".join(lines)


class InvalidModel(ValueError):
    """The input is not a model that can be read: corrupt, truncated, not ONNX at all, or not as ONNX allows."""
