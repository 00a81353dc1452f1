"""Remember declared types and sizes that a conversion relied on, as inference could not tell them, for the report."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import Protocol

from opshift.passes.analysis import element_types
from opshift.passes.analysis.claims import is_custom, spell_shape
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.analysis.source import Source
from opshift.passes.changes import Change
from opshift.passes.model import schemas
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto, NodeProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import Dim, dims_of, has_shape, plain_type, type_text

TAKEN = "Assumed a declared type or shape that cannot be inferred"


class Believing(KnownBody, Protocol):
    """The part of `Scope` that this file needs."""

    @property
    def path(self) -> Hashable: ...
    @property
    def opset(self) -> int: ...
    @property
    def source(self) -> Source: ...


class Trust:
    """Remembers the values whose declared types or sizes were assumed; only if `asked`."""

    def __init__(self, source: ModelProto, survey: Survey | None, *, asked: bool):
        self._asked = asked
        self._source = source
        self._survey = survey
        self._taken: dict[tuple[Hashable, str], Change] = {}
        self._origins: dict[tuple[Hashable, str], str] = {}

    def take(self, name: str, scope: Believing) -> None:
        """Remember a value of this body whose declared type was assumed."""
        value_type, node = scope.source.declared_type(name), scope.source.producer(name)
        if value_type is None or not self._asked or (scope.path, name) in self._taken:
            return
        shape = spell_shape(value_type) if has_shape(value_type) else ""
        what = f"{name!r} is {plain_type(type_text(value_type) or '')}{shape}"
        op, domain = ("value", "") if node is None else (node.op_type, normalize_domain(node.domain))
        since = schemas.since(domain, op, scope.opset) or 0
        called = name if node is None else node.name or name
        self._taken[scope.path, name] = Change(called, op, domain, since, since, TAKEN, "exact", what)

    def is_claim(self, name: str, inferred: TypeProto | None, answer: TypeProto | None, scope: Believing) -> bool:
        """Tell whether an answer says more about a value than inference does."""
        told = inferred is not None and has_shape(inferred)
        return self._says_more(answer, inferred) or (not told and self.is_custom(name, scope))

    def take_type(self, name: str, scope: Believing) -> None:
        """Remember the value that an element type comes from, if a custom operator computes that value."""
        if self._asked and self._has_custom and (origin := self._origin(name, scope)):
            self.take(origin, scope)

    def is_custom(self, name: str, scope: Believing) -> bool:
        """Tell whether an operator that neither ONNX nor the model defines computes a value of this body."""
        node = scope.source.producer(name) if self._has_custom else None
        return node is not None and is_custom(node, self._local_functions)

    def changes(self) -> Iterator[Change]:
        """Yield a change for the report for each remembered value, in the order of the source's nodes."""
        if not self._taken:
            return
        made = (name for body in bodies(self._source) for node in body.node for name in node.output)
        places = {name: place for place, name in enumerate(made)}
        yield from (self._taken[key] for key in sorted(self._taken, key=lambda key: places.get(key[1], -1)))

    def _says_more(self, answer: TypeProto | None, inferred: TypeProto | None) -> bool:
        if answer is inferred or answer is None or inferred is None or not has_shape(inferred):
            return answer is not inferred
        named = self._sizes_of_inputs
        return any(
            not isinstance(before, int) and (isinstance(after, int) or (after != before and after in named))
            for before, after in zip(dims_of(inferred), dims_of(answer), strict=True)
        )

    def _origin(self, name: str, scope: Believing) -> str:
        passed, found = list[str](), ""
        while name:
            if (scope.path, name) in self._origins:
                found = self._origins[scope.path, name]
                break
            passed.append(name)
            self._origins[scope.path, name] = ""
            node = scope.source.producer(name)
            elem_type, source = (
                (0, "") if node is None else element_types.find_output_type(node, scope.opset, name, scope)
            )
            if (
                not elem_type and not source and self.is_custom(name, scope)
            ):  # of vendors' operators a table tells most types
                found = name
                break
            name = source
        self._origins.update({(scope.path, via): found for via in passed})
        return found

    @cached_property
    def _sizes_of_inputs(self) -> set[Dim]:
        """The symbols of the model's inputs; other names of sizes say nothing."""
        return {dim for value in self._source.graph.input for dim in dims_of(value.type)} - {None}

    @cached_property
    def _local_functions(self) -> set[tuple[str, str]]:
        return {(normalize_domain(function.domain), function.name) for function in self._source.functions}

    @cached_property
    def _has_custom(self) -> bool:
        if self._survey is not None:
            calls = [op for op in self._survey.calls if op[0]]
        else:
            calls = [(node.domain, node.op_type) for body in bodies(self._source) for node in body.node if node.domain]
        return any(is_custom(NodeProto(domain=domain, op_type=op), self._local_functions) for domain, op in calls)
