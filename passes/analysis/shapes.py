"""Inferred shapes, and which of them are wrong if a size is 0."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import chain
from math import prod

from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import Body, bodies, subgraphs
from opshift.passes.model.types import has_shape

Sizes = Sequence[int | str]
"""The sizes of a shape: numbers or names; the name is empty if the size has none."""


def graph_types(graph: GraphProto) -> dict[str, TypeProto]:
    """Collect the declared types of a graph; those of inputs win."""
    return {value.name: value.type for value in chain(graph.value_info, graph.output, graph.input)}


class Shapes:
    """The shapes of values, read from their `types` when they are needed, and only once."""

    def __init__(self, types: Mapping[str, TypeProto]):
        self.types = types
        self._read: dict[str, Sizes | None] = {}

    def of(self, name: str) -> Sizes | None:
        """Return the sizes of a value; None if they are unknown."""
        try:
            return self._read[name]
        except KeyError:
            value_type = self.types.get(name)
            found = None if value_type is None or not has_shape(value_type) else read_sizes(value_type)
            self._read[name] = found
            return found


def read_sizes(value_type: TypeProto) -> Sizes:
    """Read the sizes of a type that has a shape."""
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in value_type.tensor_type.shape.dim]


Known = Callable[[str], Sizes | None]
"""Returns the sizes of a value, if they are known."""


def find_granted(inferred: ModelProto, known: Known) -> set[str]:
    """Find values whose inferred shapes are right only if no size is 0, and values that depend on them.

    A Reshape to a computed size N is inferred to have the size N. But if N is 0, Reshape copies the size of its input.
    The inferred size is right anyway if the input has the size N at the same place, or if it follows from the others.
    """
    held = list(bodies(inferred))
    asked = [{at for at in _find_reshapes(body) if _misread(body.node[at], known)} for body in held]
    left = sum(map(len, asked))
    seen = {dim for value in inferred.graph.input for dim in known(value.name) or ()} if left else set()
    found: set[str] = set()
    for body, places in zip(held, asked, strict=True):
        for index, node in enumerate(body.node if left else ()):
            if index in places:
                left -= 1
                if _misread(node, known, seen):
                    found.add(node.output[0])
            if not left:
                break
            for name in node.output[:]:
                seen.update(known(name) or ())
    if found:
        _spread(inferred.graph, known, found)
    return found


def _find_reshapes(body: Body) -> set[int]:
    """Find the places of Reshapes to a computed shape in a body."""
    reshapes = [(at, node) for at, node in enumerate(body.node) if node.op_type == "Reshape" and _is_computed(node)]
    held = _constants(body) if reshapes else set()
    return {at for at, node in reshapes if node.input[1] not in held}


def _constants(body: Body) -> set[str]:
    held = {tensor.name for tensor in getattr(body, "initializer", ())}
    held.update(node.output[0] for node in body.node if node.op_type == "Constant")
    return held


def _spread(body: Body, known: Known, found: set[str]) -> bool:
    """Add values with open sizes that depend on those in `found`; returns True if the body reads one of these."""
    reads = False
    for node in body.node:
        hangs = not found.isdisjoint(node.input)
        for _, _, graph in subgraphs(node) if node.attribute else ():
            hangs |= _spread(graph, known, found)
        if hangs:
            reads = True
            sizes = [(name, known(name)) for name in node.output]
            found.update(name for name, dims in sizes if dims is None or any(isinstance(dim, str) for dim in dims))
    return reads


def _is_computed(node: NodeProto) -> bool:
    """Tell whether a node is a Reshape with a shape input in which 0 means "copy the size"."""
    reshapes = node.op_type == "Reshape" and not normalize_domain(node.domain) and len(node.input) == 2
    return reshapes and not any(a.name == "allowzero" and a.i for a in node.attribute)


def _misread(node: NodeProto, known: Known, seen: Container[int | str] | None = None) -> bool:
    """Tell whether an inferred size of a Reshape is wrong if it is 0; with `seen`, only sizes among these may be 0."""
    before, after = known(node.input[0]), known(node.output[0]) or ()
    numbers = [
        axis
        for axis, dim in enumerate(after)
        if isinstance(dim, str) and (seen is None or dim in seen)
        if before is None or (axis < len(before) and dim != before[axis])
    ]
    if not numbers or before is None:
        return bool(numbers)
    alone = sum(isinstance(dim, str) for dim in after) == 1
    return not (alone and _count_elements(before) == _count_elements(after))


def _count_elements(dims: Sizes) -> tuple[int, list[str]]:
    """Count the elements of a tensor: a number, and the symbols that it is multiplied by."""
    return prod(dim for dim in dims if isinstance(dim, int)), sorted(dim for dim in dims if isinstance(dim, str))
