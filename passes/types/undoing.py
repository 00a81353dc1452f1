"""A model as it was before its element types were changed, by what it is now.

Values get the types that they have in the source, and casts that have nothing to change then are gone. That asks for no
reason why a value has a type, so that it tells whether anything else was changed. Constants are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opshift.passes.changes import TypesReport
from opshift.passes.model import tensors
from opshift.passes.model.messages import FunctionProto, ModelProto, TensorProto, copy_model, normalize_domain
from opshift.passes.types import constants
from opshift.passes.types.casting import Casting
from opshift.passes.types.problem import FREE, Place, Problem, Value
from opshift.passes.types.wanted import NARROW, Types

Key = tuple[tuple[object, ...], str]
"""Where a value is, by names of the source: its function or the main graph, then the nodes around it; and its name."""


class Undoing:
    """A model beside the source that it was made of.

    Args:
        model: the model as it is now; `folder` is where its external data lie.
        source: the model as it was, with its folder.
        wanted: the types that were asked for.
        report: what was said of it, which tells the names that values and functions had.
    """

    def __init__(
        self,
        model: ModelProto,
        folder: str | None,
        source: ModelProto,
        source_folder: str | None,
        wanted: Types,
        report: TypesReport,
    ):
        self._copy = copy_model(model)
        self._folders = folder, source_folder
        self._report = report
        self._problem = Problem(self._copy, Types({new: old for old, new in wanted.mapping.items()}, NARROW))
        before, changed = Problem(source, wanted), set(wanted.mapping.values())
        keys = _keys(before, {})
        self._keys = _keys(self._problem, report.origins)
        self._constants = {keys[id(value)]: held for value, held in _constants(before)}
        self._own = {keys[id(value)] for value in before.values() if value.elem_type in changed}
        """The values that had one of the new types before."""
        self._own_reads = {each for each, elem_type in _operands(before, keys) if elem_type in changed}
        """The operands of nodes that had one of the new types before: Equal of int32 makes no value that tells it."""

    def changed_constant(self) -> str:
        """The first constant that is not its source, each number rounded once; empty where all are."""
        folder, before_folder = self._folders
        for value, held in _constants(self._problem):
            before = self._constants.get(self._keys[id(value)])
            if before is None:
                return value.name
            limit = self._report.replaced.get(value.name)
            if not constants.is_same(held, before, folder, before_folder, limit):
                return value.name
        return ""

    def restore(self) -> ModelProto:
        """The model with the types that values have in the source, and with the source's constants, in its folder."""
        for value, held in _constants(self._problem):
            before = self._constants.get(self._keys[id(value)])
            free = before is not None and all(each == FREE for each in _reads(value))  # indices of Gather
            if before is not None and (free or (before.data_type == held.data_type and value.maker < 0)):
                name = held.name
                held.CopyFrom(before)
                held.name = name
        for value in self._problem.values():
            if self._keys[id(value)] in self._own:
                self._problem.stay(value.variable, "it has this type in the source")
        for place in self._problem.places:
            for index, reads in enumerate(place.reads):
                first = _first_output(place, index, self._keys)
                for at, variable in enumerate(reads):
                    if (first, at) in self._own_reads:
                        self._problem.stay(variable, "it has this type in the source")
        main = self._problem.main
        for output, variable in zip(self._copy.graph.output, main.output_reads, strict=True):
            made = main.find(output.name)
            if made is not None and self._keys[id(made)] in self._own:
                self._problem.stay(variable, "it has this type in the source")
        narrow = [False] + [not reason for reason in self._problem.reasons[1:]]
        Casting(self._problem, {}, narrow, None, original=self._original).write()
        return self._copy

    def _original(self, value: Value) -> TensorProto | None:
        before = self._constants.get(self._keys[id(value)])
        if before is None:
            return None
        copy = TensorProto()
        copy.CopyFrom(before)
        return copy


def _reads(value: Value) -> Iterator[int]:
    """The variables of what reads a value."""
    for place, index, at in value.readers:
        yield place.reads[index][at] if index >= 0 else place.output_reads[at]


def _first_output(place: Place, index: int, keys: Mapping[int, Key]) -> Key | None:
    """The key of the first output of a node, which tells the node of the source that it was."""
    name = next(filter(None, place.outputs[index]), "")
    return keys[id(place.values[name])] if name in place.values else None


def _operands(problem: Problem, keys: Mapping[int, Key]) -> Iterator[tuple[tuple[Key, int], int]]:
    """The element type of each operand of each node, by the node's first output and the operand's position."""
    for place in problem.places:
        for index, names in enumerate(place.inputs):
            first = _first_output(place, index, keys)
            for at, name in enumerate(names):
                value = place.find(name) if name and first else None
                if first and value is not None:
                    yield (first, at), value.elem_type


def _constants(problem: Problem) -> Iterator[tuple[Value, TensorProto]]:
    """All constants, and those with which ConstantOfShape fills its output."""
    for value in problem.values():
        if value.tensor is not None:
            yield value, value.tensor
        elif value.maker >= 0:
            node = value.place.nodes[value.maker]
            if node.op_type == "ConstantOfShape" and not normalize_domain(node.domain):
                held = value.place.value_of(node, "value")
                yield value, held if held is not None else tensors.tensor([0.0], TensorProto.FLOAT)


def _keys(problem: Problem, origins: Mapping[str, str]) -> dict[int, Key]:
    """The key of each value, by its identity."""
    paths: dict[int, tuple[object, ...]] = {}
    keys: dict[int, Key] = {}
    for place in problem.places:  # outer ones first
        path = paths.setdefault(id(place), _root(place, origins))
        for (index, attribute, at), inner in place.inner.items():
            first = next(filter(None, place.nodes[index].output), "")
            paths[id(inner)] = (*path, origins.get(first, first), attribute, at)
        for value in place.values.values():
            keys[id(value)] = path, origins.get(value.name, value.name)
    return keys


def _root(place: Place, origins: Mapping[str, str]) -> tuple[object, ...]:
    body = place.body
    return (origins.get(body.name, body.name),) if isinstance(body, FunctionProto) else ()
