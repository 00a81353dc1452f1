"""Branches that no run takes: what decides is held the other way in both forms, so that they run there, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes import progress
from opshift.passes.model import tensors
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    default_domain,
)
from opshift.passes.model.traversal import Body, bodies, subgraphs, with_nested
from opshift.passes.records import dataclass, field, replace
from opshift.verification import interfaces
from opshift.verification.engines import LARGE, EngineError, Feeds
from opshift.verification.places import decided
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.verification.feeding.inputs import Fed
    from opshift.verification.judge import Pair

MOST = 16
"""Branches that are run so; more cost more than they tell."""

Value = tuple[str, str]
"""The name of a function, empty for the graph, and that of a value in it, or in a graph that is nested there."""

Ran = tuple["Fed", Mapping[Value, bool]]
"""A run, and what was decided in it."""


@dataclass(frozen=True)
class Branch:
    """One of the branches of an If: `conditions` are what it and those around it decide by, and what leads there."""

    name: str
    node: str
    conditions: Mapping[Value, bool]

    def __str__(self) -> str:
        return f'the {self.name} of If "{self.node}"'

    def lacks(self, seen: Mapping[Value, bool]) -> dict[Value, bool]:
        """What a run in which this was seen would have had to decide otherwise; nothing where it took the branch.

        Behind what it decided otherwise, nothing was seen.
        """
        other = [seen.get(value) != held for value, held in self.conditions.items()]
        behind = other.index(True) if any(other) else len(other)
        return dict(list(self.conditions.items())[behind:])

    def is_barred(self, runs: Iterable[Mapping[Value, bool]], settled: Container[str]) -> bool:
        """Whether something on the way is `settled`, the same in every run, and was seen to decide otherwise."""
        ways = [(value, held) for value, held in self.conditions.items() if not value[0] and value[1] in settled]
        return any(seen.get(value, held) != held for seen in runs for value, held in ways)


def branches(model: ModelProto) -> list[Branch]:
    """The branches of all Ifs that a constant does not decide, outer before inner."""
    if not any(_decides(node) for body in bodies(model) for node in body.node):
        return []
    roots: list[Body] = [model.graph, *model.functions]
    return [branch for body in roots for branch in _branches(body, {}, frozenset())]


def _branches(body: Body, way: Mapping[Value, bool], held: frozenset[str], function: str = "") -> Iterator[Branch]:
    function = function or (body.name if isinstance(body, FunctionProto) else "")
    constants = [node.output[0] for node in body.node if node.op_type == "Constant" and node.output]
    held |= {*constants, *(tensor.name for tensor in getattr(body, "initializer", ()))}
    for node in body.node:
        for name, _, graph in subgraphs(node):
            inside = way
            if _decides(node) and node.input[0] not in held:
                condition, taken = (function, node.input[0]), name == "then_branch"
                if way.get(condition, taken) != taken:  # the one around it decides by the same
                    continue
                inside = {**way, condition: taken}
                yield Branch(name, node.name or node.output[0], inside)
            yield from _branches(graph, inside, held, function)


def _decides(node: NodeProto) -> bool:
    return node.op_type == "If" and not default_domain(node.domain) and bool(node.input and node.output)


# --- what a run takes -----------------------------------------------------------------------------------------------


def watched(model: ModelProto, found: Sequence[Branch]) -> tuple[ModelProto, dict[str, Value]]:
    """A form whose values of these names tell what is decided, in branches, too; the model itself where none does."""
    wanted = {name for branch in found for function, name in branch.conditions if not function}
    if not wanted:
        return model, {}
    copy = ModelProto()
    copy.CopyFrom(model)
    shown = _shown(copy.graph, wanted, Names(model))
    again, yielded = Counter(shown.values()), {value.name for value in model.graph.output}
    alone = {name: condition for name, condition in shown.items() if again[condition] == 1 and name not in yielded}
    return copy, {name: ("", condition) for name, condition in alone.items()}


def _shown(body: GraphProto, wanted: set[str], names: Names) -> dict[str, str]:
    """What values of a graph tell, those of its branches made outputs of the Ifs."""
    found = {name: name for node in body.node for name in node.output if name in wanted}
    for node in list(body.node):
        branches = [graph for _, _, graph in subgraphs(node)] if _decides(node) else []
        for graph in branches:
            for name, condition in _shown(graph, wanted, names).items():
                for other in branches:
                    told, shape = names.fresh(f"{name}/told"), names.fresh(f"{name}/shape")
                    if other is graph:
                        other.node.append(_constant(shape, [1], TensorProto.INT64))
                        other.node.append(NodeProto(op_type="Reshape", input=[name, shape], output=[told]))
                    else:
                        other.node.append(_constant(told, [False], TensorProto.BOOL))
                    kind = other.output.add(name=told).type.tensor_type
                    kind.elem_type = TensorProto.BOOL
                    kind.shape.dim.add(dim_value=1)
                node.output.append(names.fresh(f"{name}/seen"))
                found[node.output[-1]] = condition
    return found


def seen(shown: Mapping[str, Value], values: Sequence[Any], outputs: Sequence[str], fed: Fed) -> dict[Value, bool]:
    """What was decided in a run, by what decides."""
    known = {("", name): value for name, value in [*fed.given.items(), *zip(outputs, fed.outputs, strict=True)]}
    known |= dict(zip(shown.values(), values, strict=False))
    return {value: bool(held.reshape(-1)[0]) for value, held in known.items() if getattr(held, "size", 0) == 1}


def untaken(model: ModelProto, found: Sequence[Branch], runs: Sequence[Ran], values: Collection[str]) -> list[Branch]:
    """The branches that no run took, but for those that no run ever takes, as the `values` that are set decide."""
    decisions, settled = [seen for _, seen in runs], decided.following(model.graph, values)
    return [b for b in found if all(map(b.lacks, decisions)) and not b.is_barred(decisions, settled)]


# --- taken by force -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """Both forms on the way into a branch: what they are given and yield, or `why` the second, or none, runs so."""

    branch: Branch
    why: str = ""
    pair: Pair | None = None
    given: Feeds = field(default_factory=dict)
    expected: Sequence[Any] = ()
    actual: Sequence[Any] = ()


def attempts(pair: Pair, untaken: Sequence[Branch], runs: Sequence[Ran]) -> Iterator[Attempt]:
    """Each branch that no run took, tried from the run that came nearest to it."""
    failed = 0
    for number, branch in enumerate(untaken, 1):
        ways = [branch.lacks(seen) for _, seen in runs]
        lacking = min(ways, key=len)
        given = interfaces.rounded(runs[ways.index(lacking)][0].given, pair.cast)
        progress.tell("run branches that no inputs led to", number, len(untaken))
        try:
            attempt = _attempt(pair, branch, lacking, given) if failed < MOST else Attempt(branch, "it was not tried")
        except EngineError as error:
            attempt = Attempt(branch, str(error).rpartition("Status Message: ")[2])
        failed += attempt.pair is None
        yield attempt


def _attempt(pair: Pair, branch: Branch, lacking: Mapping[Value, bool], given: Feeds) -> Attempt:
    from opshift.verification.judge import Pair

    before, feeds = _deciding(pair.before, lacking, given)
    after, _ = _deciding(pair.after, lacking, given)
    held, expected = Pair(before, after, pair.grade, pair.asked, beside=pair), before.open().run(feeds)
    try:
        actual = after.open().run(interfaces.as_second(feeds, pair.cast))
    except EngineError as error:
        return Attempt(branch, f"the second model fails: {error}", held)
    return Attempt(branch, "", held, feeds, expected, actual)


def _deciding(side: Side, lacking: Mapping[Value, bool], given: Feeds) -> tuple[Side, dict[str, Any]]:
    """A form that decides so whatever it is given, and what it is given."""
    import numpy as np

    model, feeds = ModelProto(), dict(given)
    model.CopyFrom(side.model)
    names = Names(model)
    for (function, name), held in lacking.items():
        if not function and name in feeds:
            feeds[name] = np.full_like(feeds[name], held)
            continue
        places = list(_makers(model, function, name))
        if len(places) != 1:
            raise EngineError(f'not both forms compute one "{name}", which decides')
        _hold(*places[0], name, held, names)
    return replace(side, model=model), feeds


def _makers(model: ModelProto, function: str, name: str) -> Iterator[tuple[Body, int]]:
    """The bodies and the nodes that make a value of this name."""
    roots: list[Body] = [f for f in model.functions if f.name == function] if function else [model.graph]
    for body in with_nested(roots):
        yield from ((body, index) for index, node in enumerate(body.node) if name in node.output)


def _hold(body: Body, index: int, name: str, held: bool, names: Names) -> None:
    """Let a value be what is wanted, in the shape that it has."""
    maker, free, fixed = body.node[index], names.fresh(f"{name}/free"), names.fresh(f"{name}/held")
    maker.output[:] = [free if made == name else made for made in maker.output]
    body.node.insert(index + 1, _constant(fixed, held, TensorProto.BOOL))
    body.node.insert(index + 2, NodeProto(op_type="Or" if held else "And", input=[free, fixed], output=[name]))


def _constant(name: str, value: Any, elem_type: int) -> NodeProto:
    held = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensors.tensor(value, elem_type))
    return NodeProto(op_type="Constant", output=[name], attribute=[held])


# --- what is said ---------------------------------------------------------------------------------------------------


def told(pair: Pair, failed: Sequence[Attempt], runs: Sequence[Ran], values: Collection[str]) -> tuple[str, ...]:
    """What is said of branches that did not run by force, and why the first of them did not.

    Those that fixed sizes bar lack no proof: at other sizes nobody can ask the second form for them.
    """
    if not failed:
        return ()
    model, decisions = pair.before.model, [seen for _, seen in runs]
    settled = decided.following(model.graph, values, decided.sized(model, pair.after.model))
    barred = [attempt.branch for attempt in failed if attempt.branch.is_barred(decisions, settled)]
    said, rest = [], [attempt for attempt in failed if attempt.branch not in barred]
    if rest:
        are = "are" if len(rest) > 1 else "is"
        named = _several([attempt.branch for attempt in rest])
        said.append(f"{named} ran on no inputs, and {are} not proved: {rest[0].why}")
    if barred:
        said.append(f"{_several(barred)} ran on no inputs: at the sizes that are fixed, none lead there")
    return tuple(said)


def unknown(model: ModelProto, untaken: Sequence[Branch], values: Collection[str]) -> tuple[str, ...]:
    """What is said of a model that is large, and neither watched nor run by force.

    Of an If to which all that leads is settled, what can run did.
    """
    settled = decided.following(model.graph, values)
    rest = [b for b in untaken if any(function or name not in settled for function, name in b.conditions)]
    if not rest:
        return ()
    named = _several(list(dict.fromkeys(f'If "{branch.node}"' for branch in rest)))
    why = f"that is not looked into where weights are over {LARGE >> 20} MB"
    return (f"not every branch of {named} is known to have run, and be proved: {why}",)


def _several(named: Sequence[object]) -> str:
    return f"{named[0]} and {len(named) - 1} more" if len(named) > 1 else str(named[0])
