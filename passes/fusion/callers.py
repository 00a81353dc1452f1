"""What the calls of a model's functions tell of their inputs: the types on which all of them agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opshift.passes.analysis.callers import Callee, callee_of, key_of
from opshift.passes.analysis.claims import is_made_up
from opshift.passes.analysis.scope import Scope
from opshift.passes.model.messages import FunctionProto, TypeProto
from opshift.passes.model.traversal import with_nested
from opshift.passes.model.types import Dim, dims_of, elem_type_of, has_shape, tensor_type


class Calls:
    """The types that the calls of functions give, as the bodies are met in which these stand."""

    def __init__(self, functions: Iterable[FunctionProto]):
        self._given: dict[Callee, list[list[TypeProto | None]]] = {key_of(function): [] for function in functions}
        self._names = {name for _, name, _ in self._given}

    def note(self, scope: Scope) -> None:
        """Take in what a body calls."""
        for node in scope.body.node if self._names else ():
            if node.op_type in self._names and (given := self._given.get(callee_of(node))) is not None:
                given.append([scope.type(name) if name else None for name in node.input])

    def seed(self, scope: Scope, function: FunctionProto) -> None:
        """State in a function's body what all of its calls give, which are those that were met."""
        given = self._given[key_of(function)]
        rows = (
            [value_types[at] if at < len(value_types) else None for value_types in given]
            for at in range(len(function.input))
        )
        scope.seed(function.input, [_common_type(row) for row in rows])


def _common_type(value_types: Sequence[TypeProto | None]) -> TypeProto | None:
    """One tensor type for all, with the sizes that are the same in each; None where there is none."""
    known = [value_type for value_type in value_types if value_type is not None and elem_type_of(value_type)]
    if not known or len(known) < len(value_types) or len({elem_type_of(value_type) for value_type in known}) > 1:
        return None
    shapes = [dims_of(value_type) for value_type in known if has_shape(value_type)]
    alike = len(shapes) == len(known) and len({len(shape) for shape in shapes}) == 1
    return tensor_type(elem_type_of(known[0]), list(map(_same, zip(*shapes, strict=True))) if alike else None)


def _same(dims: Sequence[Dim]) -> Dim:
    """The size that all are; one that inference merely made up is none."""
    first = dims[0]
    made_up = isinstance(first, str) and is_made_up(first)
    return None if made_up or any(dim != first for dim in dims) else first


def callers_first(functions: Sequence[FunctionProto]) -> list[FunctionProto]:
    """The functions in an order in which each stands behind those that call it; none calls itself."""
    known = {key_of(function): function for function in functions}
    called = {
        key: {callee for body in with_nested([function]) for node in body.node if (callee := callee_of(node)) in known}
        for key, function in known.items()
    }
    waiting = Counter(callee for callees in called.values() for callee in callees)
    ready = [key for key in known if not waiting[key]]
    for key in ready:
        for callee in called[key]:
            waiting[callee] -= 1
            if not waiting[callee]:
                ready.append(callee)
    return [known[key] for key in ready]
