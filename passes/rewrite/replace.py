"""A value takes over from another, with all that is said of it."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import NodeProto
from opshift.passes.rewrite.node import Node


def take_over(node: Node, result: str | Sequence[str]) -> list[NodeProto]:
    """The built nodes, the values in `result` renamed to the node's outputs; they inherit its name and doc.

    An output that the step dissolved (`Scope.dissolve`), or that nobody reads, has no value: "" stands for it.
    """
    node.scope.context.released.update(node.inputs)
    values = [result] if isinstance(result, str) else list(result)
    nodes, scope = node.build.nodes, node.scope
    made = {name for proto in nodes for name in proto.output}
    taken: dict[str, str] = {}
    for index, (output, value) in enumerate(zip(node.outputs, values, strict=True)):
        if not output or output in scope.context.dissolved:
            continue
        if not value:
            if node.is_used(index):
                raise CannotConvert(
                    node,
                    f'output "{output}" is used, but the operator\'s documentation does not say what it means',
                    supported="a call that does not use it",
                )
            continue
        value = taken.get(value, value)
        if value in made:
            made.discard(value)
            taken[value] = output
            rename(nodes, {value: output})
            if value in scope.typed:
                scope.typed[output] = scope.typed.pop(value)
        elif value != output:  # else the step made the output an initializer
            node.build.nodes.append(NodeProto(op_type="Identity", input=[value], output=[output]))
    for proto in nodes:
        scope.record(proto, node.build.opset)
    inherit(nodes, node)
    return nodes


def inherit(nodes: list[NodeProto], node: Node) -> None:
    """Name, doc string and metadata go to the node that now makes the first output; the others are named after it.

    All are of the pipeline stage that the node was of. How its tensors were split among devices was planned for its
    operator, and goes with it.
    """
    old = node.proto
    for made in nodes:
        if old.name and not made.name:
            made.name = node.scope.context.names.fresh(f"{old.name}/{made.op_type}")
        for held in getattr(old, "device_configurations", ()):
            if made is not old and held.HasField("pipeline_stage"):
                made.device_configurations.add(
                    configuration_id=held.configuration_id, pipeline_stage=held.pipeline_stage
                )
    heir = next((n for n in nodes if n.output and n.output[0] == old.output[0]), nodes[-1] if nodes else None)
    if heir is None or heir is old:
        return
    if old.name:
        heir.name = old.name
    if old.doc_string:
        heir.doc_string = old.doc_string
    if hasattr(old, "metadata_props"):
        del heir.metadata_props[:]
        heir.metadata_props.extend(old.metadata_props)


def find_lost_plans(proto: NodeProto, replaced: bool) -> frozenset[str]:
    """The tensors of a node for which there was a plan for several devices that goes with what was changed."""
    kept = () if replaced else (*proto.input, *proto.output)
    plans = getattr(proto, "device_configurations", ())
    return frozenset(f'"{s.tensor_name}"' for held in plans for s in held.sharding_spec if s.tensor_name not in kept)


def drop_stale_shards(proto: NodeProto) -> None:
    """A plan for several devices names inputs and outputs of its node; one that became an attribute is none."""
    for held in getattr(proto, "device_configurations", ()):
        for index in reversed(range(len(held.sharding_spec))):
            if held.sharding_spec[index].tensor_name not in (*proto.input, *proto.output):
                del held.sharding_spec[index]
