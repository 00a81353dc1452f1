"""Which values of a body may be constants: those that are given, or computed from constants and shapes alone."""

from __future__ import annotations

from functools import cached_property

from opshift.passes.analysis.scope import Scope

_SOURCES = frozenset(("Constant", "Shape", "Size"))
_LIKE = frozenset(("CastLike", "Expand"))
"""Operators whose result holds the elements of their first input."""


class Fixed:
    """Those of one body, told without a look at what they hold."""

    def __init__(self, scope: Scope, outer: Fixed | None):
        self._scope = scope
        self._outer = outer

    def __contains__(self, name: str) -> bool:
        return name in self._made_names or (name not in self._scope.source.producers and self._is_given(name))

    def _is_given(self, name: str) -> bool:
        owner = self._scope.owner(name)
        if owner is not self._scope and owner is not None and self._outer is not None:
            return name in self._outer
        return owner is not None and owner.initializer(name) is not None

    @cached_property
    def _made_names(self) -> set[str]:
        found: set[str] = set()
        given: dict[str, bool] = dict.fromkeys(self._scope.source.producers, False)
        for node in self._scope.body.node:
            read = node.input[:1] if node.op_type in _LIKE else node.input
            for name in read if node.op_type not in _SOURCES else ():
                if name not in given:
                    given[name] = self._is_given(name)
                if not given[name] and name not in found:
                    break
            else:
                found.update(node.output)
        return found
