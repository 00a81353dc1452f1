"""The branch of an If whose condition is known, or a body that runs once, in the place of the node that holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import GraphProto, NodeProto
from opshift.passes.model.traversal import subgraphs


def branch_of(node: NodeProto, condition: object) -> GraphProto | None:
    """The branch that an If takes on this condition, if it has one."""
    wanted = "then_branch" if condition else "else_branch"
    return next((graph for name, _, graph in subgraphs(node) if name == wanted), None)


def splice(node: NodeProto, branch: GraphProto, fresh: Callable[[str], str] | None = None) -> list[NodeProto]:
    """Copies of the nodes of a branch that make the outputs of its If; what else they make gets fresh names.

    Without `fresh` it keeps its names, as nothing else has them.
    """
    return inline_branch(branch, zip((value.name for value in branch.output), node.output, strict=True), {}, fresh)


def inline_branch(
    graph: GraphProto,
    yields: Iterable[tuple[str, str]],
    given: Mapping[str, str],
    fresh: Callable[[str], str] | None = None,
) -> list[NodeProto]:
    """Copy the nodes of a graph in place of its call; `given` maps its inputs, and inner values get fresh names.

    It yields, pair by pair, a value of its own as one outside. Without `fresh` it keeps its names.
    """
    made = [
        NodeProto(op_type="Constant", output=[tensor.name], attribute=[make_attribute("value", tensor)])
        for tensor in graph.initializer
    ]
    made += [NodeProto.FromString(inner.SerializeToString()) for inner in graph.node]
    names = {name: fresh(name) if fresh else name for inner in made for name in inner.output if name}
    own, echoes, told = set(names), list[NodeProto](), set[str]()
    names.update(given)
    for name, outer in yields:
        if name in own and name not in told:
            names[name] = outer
            told.add(name)
        else:  # a value from outside, or one that is yielded twice
            echoes.append(NodeProto(op_type="Identity", input=[names.get(name, name)], output=[outer]))
    rename(made, names)
    return [*made, *echoes]
