"""Conditions that can be but one thing, or the model would not run."""

from __future__ import annotations

from opshift.passes.model import tensors
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import subgraphs
from opshift.passes.rewrite.says import says
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.workspace import Workspace

_FAR = 6  # nodes from a value to what tells its rank
_RECURRENT = ("GRU", "LSTM", "RNN")
_SAME = frozenset(["Cast", "Clip", "Identity", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Sqrt", "Tanh"])


@says("Replaced If by the only branch whose rank fits the nodes after it")
@rule("If", since=13)
def take_the_rank_that_is_needed(call: Call) -> Outcome:
    space, condition = call.space, call.input(0)
    if space.tensor(condition) is not None:
        return None
    decided = space.decided.get(condition)
    if decided is None:
        decided = _decide(call)
    if decided is None:
        return None
    space.decided[condition] = decided
    held = tensors.tensor(bool(decided), TensorProto.BOOL)
    call.read(call.constant(held, f"{call.output}/condition"))
    call.close("the nodes after it accept no other rank")
    return EDITED


def _decide(call: Call) -> bool | None:
    """Whether the condition holds, or does not; None where both may be."""
    graphs = {attribute: graph for attribute, _, graph in subgraphs(call.proto)}
    for place, name in enumerate(call.outputs):
        wanted = _rank_for_readers(call.space, name, _FAR) if name else None
        if wanted is None:
            continue
        fits = {
            branch: ranks is None or wanted in ranks
            for branch, graph in graphs.items()
            for ranks in [_ranks_in(call.space, graph, graph.output[place].name, _FAR)]
        }
        if sum(fits.values()) == 1:
            return fits.get("then_branch", False)
    return None


def _rank_for_readers(space: Workspace, name: str, far: int) -> int | None:
    """Find the rank that a reader of a value needs; None if no reader tells. Unused nodes are gone by now."""
    for node in space.whole.readers(name) if far else ():
        if normalize_domain(node.domain) or not node.output or not _is_here(space, node):
            continue
        found, op = None, node.op_type
        if op in _RECURRENT and node.input[0] == name:
            found = 3
        elif op in ("Conv", "ConvTranspose") and node.input[0] == name:
            weights = space.shape(node.input[1])
            found = None if weights is None else len(weights)
        elif op in ("Squeeze", "Unsqueeze") and node.input[0] == name:
            more, after = _axes(space, node), _rank_for_readers(space, node.output[0], far - 1)
            found = None if more is None or after is None else after - more
        elif op in _SAME and node.input[0] == name:
            found = _rank_for_readers(space, node.output[0], far - 1)
        if found is not None:
            return found
    return None


def _is_here(space: Workspace, node: NodeProto) -> bool:
    """Whether a node stands in this body itself, where it is run whatever any condition is."""
    return any(node is each for each in space.scope.body.node)


def _axes(space: Workspace, node: NodeProto) -> int | None:
    """How many axes an Unsqueeze adds, or a Squeeze takes away, below 0; None where that is not known."""
    known = space.known_numbers(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if known is None:
        return None
    return len(known.values) if node.op_type == "Unsqueeze" else -len(known.values)


def _ranks(space: Workspace, name: str, far: int) -> set[int] | None:
    """The ranks that a value of this body, or of one around it, may have; None where it may have any."""
    shape = space.shape(name)
    if shape is not None:
        return {len(shape)}
    owner: Workspace | None = space
    while owner is not None and name not in owner.makers:
        owner = owner.parent
    made = owner.makers[name] if owner is not None else None
    return _ranks_made(owner, made, name, far) if owner is not None and made is not None and far else None


def _ranks_made(space: Workspace, node: NodeProto, name: str, far: int) -> set[int] | None:
    if normalize_domain(node.domain):
        return None
    if node.op_type == "If":
        place = list(node.output).index(name)
        found = [_ranks_in(space, graph, graph.output[place].name, far - 1) for _, _, graph in subgraphs(node)]
        return None if any(ranks is None for ranks in found) else set().union(*(ranks or () for ranks in found))
    if node.op_type in _SAME:
        return _ranks(space, node.input[0], far - 1)
    if node.op_type in ("Squeeze", "Unsqueeze"):
        more, before = _axes(space, node), _ranks(space, node.input[0], far - 1)
        return None if more is None or before is None else {rank + more for rank in before}
    return None


def _ranks_in(space: Workspace, graph: GraphProto, name: str, far: int) -> set[int] | None:
    """The same of what a branch makes, whose nodes may read what lies around it."""
    made = next((node for node in graph.node if name in node.output), None)
    if made is None or not far:
        return None
    own = {output for node in graph.node for output in node.output}
    own |= {tensor.name for tensor in graph.initializer}
    if made.op_type == "If" or not own.isdisjoint(made.input[:1]):
        return None
    if made.op_type in ("Squeeze", "Unsqueeze") and len(made.input) > 1:
        axes = next((t for t in graph.initializer if t.name == made.input[1]), None)
        held = next((n for n in graph.node if made.input[1] in n.output), None)
        axes = axes if held is None else tensors.of_constant(held)
        if axes is not None:
            before, count = _ranks(space, made.input[0], far - 1), tensors.size(axes)
            count = count if made.op_type == "Unsqueeze" else -count
            return None if before is None else {rank + count for rank in before}
    return _ranks_made(space, made, name, far)
