"""Branches that no run takes: what decides is held the other way in both forms, so that they run there, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from opshift.passes.model import tensors
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    default_domain,
)
from opshift.passes.model.traversal import Body, subgraphs, with_nested
from opshift.verification import interfaces
from opshift.verification.engines import EngineError, Feeds
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.verification.judge import Pair

Value = tuple[str, str]
"""The name of a function, empty for the graph, and that of a value in it, or in a graph that is nested there."""


@dataclass(frozen=True)
class Branch:
    """One of the branches of an If: `conditions` are what it and those around it decide by, and what leads there."""

    name: str
    node: str
    conditions: Mapping[Value, bool]

    def __str__(self) -> str:
        return f'the {self.name} of If "{self.node}"'

    def is_taken(self, values: Mapping[str, bool]) -> bool:
        """Whether a run took it, in which the graph had these values."""
        return all(not function and values.get(name) == held for (function, name), held in self.conditions.items())


def branches(model: ModelProto) -> list[Branch]:
    """The branches of all Ifs that a constant does not decide, outer before inner."""
    return [branch for body in (model.graph, *model.functions) for branch in _branches(body, {}, frozenset())]


def _branches(body: Body, way: Mapping[Value, bool], held: frozenset[str], function: str = "") -> Iterator[Branch]:
    function = function or (body.name if isinstance(body, FunctionProto) else "")
    constants = [node.output[0] for node in body.node if node.op_type == "Constant" and node.output]
    held |= {*constants, *(tensor.name for tensor in getattr(body, "initializer", ()))}
    for node in body.node:
        decides = node.op_type == "If" and not default_domain(node.domain) and bool(node.input and node.output)
        for name, _, graph in subgraphs(node):
            inside = way
            if decides and node.input[0] not in held:
                condition, taken = (function, node.input[0]), name == "then_branch"
                if way.get(condition, taken) != taken:  # the one around it decides by the same
                    continue
                inside = {**way, condition: taken}
                yield Branch(name, node.name or node.output[0], inside)
            yield from _branches(graph, inside, held, function)


def watched(model: ModelProto, found: Sequence[Branch]) -> list[str]:
    """The values of the main graph that tell which branches a run takes."""
    made = {name for node in model.graph.node for name in node.output}
    names = dict.fromkeys(name for branch in found for function, name in branch.conditions if not function)
    return [name for name in names if name in made]


def run(pair: Pair, branch: Branch, given: Feeds) -> tuple[Pair, Feeds, list[Any], list[Any] | str]:
    """Both forms where they take a branch: these, what they are given, and what they yield, or how the second fails.

    Raises:
        EngineError: one of them has nothing that decides it, or the first does not run so.
    """
    from opshift.verification.judge import Pair

    before, feeds = _taking(pair.before, branch, given)
    after, _ = _taking(pair.after, branch, given)
    if before.is_large:
        raise EngineError("the model is large")
    expected = before.open().run(feeds)
    actual: list[Any] | str
    try:
        actual = after.open().run(interfaces.as_second(feeds, pair.cast))
    except EngineError as error:
        actual = f"the second model fails: {error}"
    return Pair(before, after, pair.grade, pair.asked), feeds, expected, actual


def _taking(side: Side, branch: Branch, given: Feeds) -> tuple[Side, dict[str, Any]]:
    """A form that takes a branch whatever it is given, and what it is given."""
    import numpy as np

    model, feeds = ModelProto(), dict(given)
    model.CopyFrom(side.model)
    names = Names(model)
    for (function, name), held in branch.conditions.items():
        if not function and name in feeds:
            feeds[name] = np.full_like(feeds[name], held)
            continue
        place = _made(model, function, name)
        if place is None:
            raise EngineError(f'not both forms compute "{name}", which decides')
        _hold(*place, name, held, names)
    return replace(side, model=model), feeds


def _made(model: ModelProto, function: str, name: str) -> tuple[Body, int] | None:
    """The body and the node that makes a value."""
    roots: list[Body] = [f for f in model.functions if f.name == function] if function else [model.graph]
    for body in with_nested(roots):
        for index, node in enumerate(body.node):
            if name in node.output:
                return body, index
    return None


def _hold(body: Body, index: int, name: str, held: bool, names: Names) -> None:
    """Let a value be what is wanted, in the shape that it has."""
    maker, free, constant = body.node[index], names.fresh(f"{name}/free"), names.fresh(f"{name}/held")
    maker.output[:] = [free if made == name else made for made in maker.output]
    value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensors.tensor(held, TensorProto.BOOL))
    fixed = NodeProto(op_type="Constant", output=[constant], attribute=[value])
    body.node.insert(index + 1, fixed)
    body.node.insert(index + 2, NodeProto(op_type="Or" if held else "And", input=[free, constant], output=[name]))


def values(names: Sequence[str], seen: Sequence[Any], given: Feeds) -> dict[str, bool]:
    """What was decided in a run, by the name of what decides."""
    known = {**given, **dict(zip(names, seen, strict=False))}
    return {name: bool(value.reshape(-1)[0]) for name, value in known.items() if getattr(value, "size", 0) == 1}
