"""Compare bodies of If, Loop, Scan and functions as models of their own, so that untaken branches are tested, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from opshift.passes.inlining.stamp import bind_attributes
from opshift.passes.model.editing import renaming
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    copy_model,
    normalize_domain,
)
from opshift.passes.model.pieces import names_read
from opshift.passes.model.traversal import integer, own_names, subgraphs, with_nested
from opshift.passes.records import dataclass
from opshift.verification.regions import Body, Comparison, Region
from opshift.verification.side import Side

Values = Mapping[str, Any]


@dataclass(frozen=True)
class InnerPair:
    """A body of the first model, and its counterpart in the second.

    Attributes:
        label: where they stand, such as `then_branch of If "gate"`.
        before, after: the bodies as models; what they read of the graph around them are inputs.
        outer: the values of the graph around that are inputs.
        node: the node of the first model that holds the body.
        inputs: the names of the body's own inputs.
    """

    label: str
    before: Side
    after: Side
    outer: tuple[str, ...]
    node: NodeProto
    inputs: tuple[str, ...]

    @property
    def reads(self) -> list[str]:
        """The values of the first model that the body's inputs are taken from."""
        return list(dict.fromkeys(filter(None, [*self.outer, *self.node.input])))

    def feeds(self, values: Values) -> dict[str, Any]:
        """The inputs of the body in its first iteration, in a run of the first model."""
        import numpy as np

        given = [values.get(name) for name in self.node.input]
        if self.node.op_type == "Loop" and not normalize_domain(self.node.domain):
            given = [np.asarray(0, np.int64), np.asarray(True), *given[2:]]
        elif self.node.op_type == "Scan" and not normalize_domain(self.node.domain):
            given = given[: len(given) - integer(self.node, "num_scan_inputs", 0)]  # its states; slices are drawn
        elif self.node.op_type == "If" and not normalize_domain(self.node.domain):
            given = []
        own = {name: value for name, value in zip(self.inputs, given, strict=False) if value is not None}
        return {**{name: values[name] for name in self.outer if name in values}, **own}


def pair_bodies(before: Body, after: Body, region: Region, comparison: Comparison) -> Iterator[InnerPair | None]:
    """Pair the bodies of If, Loop, Scan and functions in a region that both models have and that read the same outer
    values. Runs for each region with subgraphs or functions.

    A counterpart reads the same values of the graph around it, except for constants.
    """
    ours, theirs = (
        [body.pieces.nodes[index] for index in nodes if _holds(body, body.pieces.nodes[index])]
        for body, nodes in ((before, region.before), (after, region.after))
    )
    if len(ours) != len(theirs):
        yield None
    for one, other in zip(ours, theirs, strict=False):
        functions = before.functions.get(_key(one)), after.functions.get(_key(other))
        if functions[0] is not None and functions[1] is not None:
            yield InnerPair(
                f"function {one.op_type}",
                Side(_make_model_of_function(before, functions[0], one), before.side.folder),
                Side(_make_model_of_function(after, functions[1], other), after.side.folder),
                (),
                one,
                tuple(functions[0].input),
            )
            continue
        if (one.domain, one.op_type, len(one.output)) != (other.domain, other.op_type, len(other.output)) or not (
            _bodies_mean_the_same(one, other, before, after)
        ):
            yield None
            continue
        for (name, place, graph), (_, _, counterpart) in zip(subgraphs(one), subgraphs(other), strict=False):
            outer = {
                name
                for body, inner in ((before, graph), (after, counterpart))
                for name in _list_outer_values(inner, body)
                if name not in body.constants
            }
            if not all(map(comparison.is_shared, outer)) or len(graph.input) != len(counterpart.input):
                yield None
                continue
            called = one.name or next(filter(None, one.output), "")
            yield InnerPair(
                f'{name}{place or ""} of {one.op_type} "{called}"',
                Side(_make_model_of_graph(before, graph, sorted(outer)), before.side.folder),
                Side(_rename_ends(_make_model_of_graph(after, counterpart, sorted(outer)), graph), after.side.folder),
                tuple(sorted(outer)),
                one,
                tuple(value.name for value in graph.input),
            )


def _key(node: NodeProto) -> tuple[str, str, str]:
    return normalize_domain(node.domain), node.op_type, node.overload


def _bodies_mean_the_same(one: NodeProto, other: NodeProto, before: Body, after: Body) -> bool:
    """Whether two nodes run their bodies alike: the same attributes, and the same way to split batches."""
    plain = [
        sorted(a.SerializeToString() for a in node.attribute if a.type != AttributeProto.GRAPH) for node in (one, other)
    ]
    old = [node.op_type == "Scan" and body.opsets.get("", 9) < 9 for node, body in ((one, before), (other, after))]
    return plain[0] == plain[1] and old[0] == old[1]


def _holds(body: Body, node: NodeProto) -> bool:
    return _key(node) in body.functions or any(True for _ in subgraphs(node))


def _list_outer_values(graph: GraphProto, body: Body) -> set[str]:
    """List the outer values that a body reads. Used while bodies are paired."""
    own = set[str]().union(*map(own_names, with_nested([graph])))
    known = {*body.pieces.makers, *body.constants, *body.pieces.given}
    return known.intersection(names_read([graph])) - own


def _make_model_of_graph(body: Body, graph: GraphProto, outer: Sequence[str]) -> ModelProto:
    """Make a model of a subgraph: outer values become inputs, outer constants initializers.

    Used while bodies are paired.
    """
    source = body.side.model
    model = ModelProto(ir_version=source.ir_version, opset_import=source.opset_import)
    model.functions.extend(source.functions)
    model.graph.CopyFrom(graph)
    model.graph.name = graph.name or "body"
    for name in outer:
        model.graph.input.add(name=name)
    for name in sorted(_list_outer_values(graph, body)):
        if name in body.constants:
            model.graph.initializer.add().CopyFrom(body.constants[name])
            model.graph.initializer[-1].name = name
    return model


def _rename_ends(model: ModelProto, like: GraphProto) -> ModelProto:
    """Give the body's own inputs and its outputs the names that they have in another body.

    An inner value that already has one of these names gets a new one, as equal names mean equal values in a proof.
    """
    own = [*zip(model.graph.input, like.input, strict=False), *zip(model.graph.output, like.output, strict=False)]
    names = {old.name: new.name for old, new in own[: len(like.input)] if old.name != new.name}
    known = set[str]().union(*map(own_names, with_nested([model.graph])))
    for old, new in own:
        if old.name != new.name and new.name not in names:
            names[new.name] = next(name for k in count() if (name := f"{new.name}~{k}") not in known)
    if names:
        renaming.afresh(model.graph, lambda name: names.get(name, name))
    for old, new in own[len(like.input) :]:
        if old.name != new.name:
            model.graph.node.add(op_type="Identity", input=[old.name], output=[new.name])
            old.name = new.name
    return model


def _make_model_of_function(body: Body, function: FunctionProto, call: NodeProto) -> ModelProto:
    """Make a model of a function with the attributes of a call. Used while bodies are paired."""
    source = body.side.model
    model = ModelProto(ir_version=source.ir_version, opset_import=function.opset_import)
    model.functions.extend(source.functions)
    known = {entry.domain for entry in function.opset_import}
    model.opset_import.extend(entry for entry in source.opset_import if entry.domain not in known)
    graph = model.graph
    graph.name = function.name
    graph.node.extend(function.node)
    given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
    for inner in with_nested([graph]):
        for node in inner.node:
            bind_attributes(node, given)
    for name in function.input:
        graph.input.add(name=name)
    for name in function.output:
        graph.output.add(name=name)
    return model


def with_types(side: Side, feeds: Values, outer_type: Callable[[str], TypeProto | None]) -> Side:
    """Give types to inputs that the body does not declare: of values to feed, or of the graph around it.

    Runs before a body is opened as a model.
    """
    from opshift.verification.parts import type_of

    model = copy_model(side.model)
    for value in model.graph.input:
        if value.name in feeds:
            value.type.CopyFrom(type_of(feeds[value.name]))
        elif not value.type.ByteSize() and (known := outer_type(value.name)) is not None:
            value.type.CopyFrom(known)
    for value in model.graph.output:
        value.ClearField("type")
    return Side(model, side.folder)
