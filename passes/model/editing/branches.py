"""The branch of an If whose condition is known, in the place of the If."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import GraphProto, NodeProto
from opshift.passes.model.traversal import subgraphs


def taken(node: NodeProto, condition: object) -> GraphProto | None:
    """The branch that an If takes on this condition, if it has one."""
    wanted = "then_branch" if condition else "else_branch"
    return next((graph for name, _, graph in subgraphs(node) if name == wanted), None)


def spliced(node: NodeProto, branch: GraphProto, fresh: Callable[[str], str] | None = None) -> list[NodeProto]:
    """Copies of the nodes of a branch that make the outputs of its If; what else they make gets fresh names.

    Without `fresh` it keeps its names, as nothing else has them.
    """
    made = [
        NodeProto(op_type="Constant", output=[tensor.name], attribute=[make_attribute("value", tensor)])
        for tensor in branch.initializer
    ]
    made += [NodeProto.FromString(inner.SerializeToString()) for inner in branch.node]
    names = {name: fresh(name) if fresh else name for inner in made for name in inner.output if name}
    echoes, given = list[NodeProto](), set[str]()
    for value, outer in zip(branch.output, node.output, strict=True):
        name = value.name
        if name in names and name not in given:
            names[name] = outer
            given.add(name)
        else:  # a value from outside, or one that the branch yields twice
            echoes.append(NodeProto(op_type="Identity", input=[names.get(name, name)], output=[outer]))
    rename(made, names)
    return [*made, *echoes]
