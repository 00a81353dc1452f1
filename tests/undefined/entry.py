"""An entry of the table of what texts leave open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.node_calls import Call


@dataclass(frozen=True)
class Undefined:
    """What the text of some operators leaves open, and when a call is such a one."""

    operators: tuple[str, ...]
    what: str
    applies: Callable[[Call], bool]
    only: str | tuple[str, ...] = ""  # the differences that are left open, where it is not the whole result

    @property
    def shown(self) -> tuple[str, ...]:
        """The same, one or several."""
        return (self.only,) if isinstance(self.only, str) else self.only

    def of(self, call: Call) -> bool:
        """Whether it is such a call; one that is not even well-formed is left to onnx.checker."""
        try:
            return call.node.op_type in self.operators and self.applies(call)
        except (ArithmeticError, IndexError, TypeError, ValueError):
            return False
