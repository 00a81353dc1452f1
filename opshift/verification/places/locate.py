"""Where two models part: the first value that differs though all that it is made of agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.records import dataclass, field, replace
from opshift.verification.places.pieces import Pieces
from opshift.verification.side import Side

Differs = Callable[[Any, Any, str], str]
"""What differs between two values, told their name; empty where they agree."""

_AT_ONCE = 16
"""Values that are looked at in one run, which has to hold all of them."""


@dataclass(frozen=True)
class Place:
    """Where two models part.

    Attributes:
        tensor: the first value that differs.
        why: how.
        node, op: what makes it in the second model.
        before, after: what computes it in either model from values that agree, as names and operators.
        weights: initializers there that have one name and other values.
        values: the values that agree, by name; they are the inputs of both pieces.
        expected, actual: the value in the first model and in the second.
    """

    tensor: str
    why: str
    node: str
    op: str
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]
    weights: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None
    actual: Any = None


def locate(before: Side, after: Side, given: Mapping[str, Any], tensor: str, differs: Differs) -> Place:
    """Walk from an output that differs up to where the difference begins, a few values at a time.

    Args:
        before, after: the models, with engines that run them.
        given: the inputs on which `tensor` differs.
        tensor: an output of both.
        differs: judges two values of one name.

    Raises:
        EngineError: an engine that ran the model does not run a part of it.
    """
    return _Search(before, after, given, differs).first(tensor)


class _Search:
    def __init__(self, before: Side, after: Side, given: Mapping[str, Any], differs: Differs):
        self._sides = (before, after)
        self._pieces = (Pieces(before.model), Pieces(after.model))
        self._given = given
        self._differs = differs
        self._shared = self._pieces[0].makers.keys() & self._pieces[1].makers.keys()

    def first(self, tensor: str) -> Place:
        seen = {tensor}  # what one model makes of a value, another may make it of
        while True:
            above = self._above(tensor)
            nearest = self._nearest(tensor)
            candidates = (_spread(above), nearest)
            parted = next(filter(None, (self._parted([n for n in names if n not in seen]) for names in candidates)), "")
            if not parted:
                return self._place(tensor, nearest)
            seen.add(parted)
            tensor = parted

    def _above(self, tensor: str) -> list[str]:
        """The shared values that a value is made of, in the order of the first model."""
        ancestors = set.intersection(*(self._ancestors(pieces, tensor) for pieces in self._pieces)) & self._shared
        return sorted(ancestors, key=self._pieces[0].makers.__getitem__)

    def _ancestors(self, pieces: Pieces, tensor: str) -> set[str]:
        inside, _ = pieces.between([tensor], ())
        return {name for index in inside for name in pieces.nodes[index].output if name} - {tensor}

    def _nearest(self, tensor: str) -> list[str]:
        """The shared values that a value is made of in either model, without others of them between."""
        ends = self._shared - {tensor}
        found = [name for pieces in self._pieces for name in pieces.between([tensor], ends)[1]]
        return [name for name in dict.fromkeys(found) if name in self._shared]

    def _parted(self, names: Sequence[str]) -> str:
        """The first of some values that differs."""
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            expected, actual = self._values(some)
            for name, a, b in zip(some, expected, actual, strict=True):
                if self._differs(a, b, name):
                    return name
        return ""

    def _values(self, names: Sequence[str]) -> list[list[Any]]:
        """What both models compute for some values."""
        return [
            replace(side, model=pieces.cut(names)).open().run(self._given)
            for side, pieces in zip(self._sides, self._pieces, strict=True)
        ]

    def _place(self, tensor: str, nearest: Sequence[str]) -> Place:
        names = [tensor, *nearest]
        first, second = (dict(zip(names, run, strict=True)) for run in self._values(names))
        parts = [pieces.between([tensor], nearest) for pieces in self._pieces]
        computed_before, computed_after = (
            tuple((_called(pieces.nodes[index]), pieces.nodes[index].op_type) for index in inside)
            for pieces, (inside, _) in zip(self._pieces, parts, strict=True)
        )
        maker = self._pieces[1].nodes[self._pieces[1].makers[tensor]]
        read = {name for _, ends in parts for name in ends}
        values = {name: self._given.get(name, first.get(name)) for name in dict.fromkeys([*nearest, *sorted(read)])}
        return Place(
            tensor,
            self._differs(first[tensor], second[tensor], tensor),
            _called(maker),
            maker.op_type,
            computed_before,
            computed_after,
            tuple(self._changed_weights([inside for inside, _ in parts])),
            values,
            first[tensor],
            second[tensor],
        )

    def _changed_weights(self, parts: Sequence[Iterable[int]]) -> list[str]:
        """Initializers that both pieces read under one name, with other values."""
        one, other = (
            {name for index in inside for name in pieces.reads(index) if name in pieces.held}
            for pieces, inside in zip(self._pieces, parts, strict=True)
        )
        return sorted(name for name in one & other if self._weight(0, name) != self._weight(1, name))

    def _weight(self, which: int, name: str) -> TensorProto:
        """An initializer as it is, wherever it lies."""
        tensor, folder = self._pieces[which].held[name], self._sides[which].folder
        loaded = tensor_data.load(tensor, folder)
        return tensor if loaded is None else loaded


def _called(node: NodeProto) -> str:
    """The name of a node, or of its first output where it has none."""
    return node.name or next(filter(None, node.output), "")


def _spread(names: Sequence[str]) -> list[str]:
    """A few of many, evenly."""
    if len(names) <= _AT_ONCE:
        return list(names)
    return [names[k * (len(names) - 1) // (_AT_ONCE - 1)] for k in range(_AT_ONCE)]
