"""Count the iterations of a Loop, by computing its condition from constants, one iteration after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opshift.passes.analysis import kernels
from opshift.passes.analysis.knowledge import Origin
from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.editing.names import Names
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.traversal import own_names, subgraphs

_MOST = 1 << 16
"""The most elements of a value that is computed."""
_DEEPEST = 200
"""Nodes, one after the other, of which a value is computed."""
_MEASURING = frozenset({"Shape", "Size"})


def open_with_branches(model: ModelProto, folder: str | None) -> Scope:
    """The scope of a main graph; in branches of Ifs more sizes are inferred, as these hold their constants themselves.

    The nodes are those of a copy of the model, in the same places.
    """
    scope = open_main_graph(model, folder)
    if all(node.op_type != "If" for node in model.graph.node):
        return scope
    copy = copy_model(model)
    fresh = Names(copy).fresh

    def hold_constants(graph: GraphProto) -> None:
        own = own_names(graph)
        for node in graph.node:
            for place, name in enumerate(node.input):
                if not name or name in own:
                    continue
                held = scope.tensor(name, tensors.SMALL)
                if held is not None:
                    graph.initializer.add().CopyFrom(held)
                    node.input[place] = graph.initializer[-1].name = fresh(name)
            descend(node)

    def descend(node: NodeProto) -> None:
        if node.op_type == "If" and not normalize_domain(node.domain):
            for _, _, graph in subgraphs(node):
                hold_constants(graph)

    for node in copy.graph.node:
        descend(node)
    return open_main_graph(copy, folder)


class Unknown(Exception):
    """Raised if the number of iterations is dynamic, or too large."""

    def __init__(self, why: str):
        self.why = why
        super().__init__(why)


def count_iterations(node: NodeProto, body: GraphProto, scope: Scope, most: int) -> int:
    """Count how often the body of a Loop runs; raises `Unknown` if constants alone do not decide it.

    `most` + 1 stands for more.
    """
    around = Values(scope, scope.body.node)
    limit, goes_on = None, True
    if node.input[0]:
        limit = _number(around.find(node.input[0]), f'the trip count "{node.input[0]}" is dynamic')
    if node.input[1]:
        goes_on = bool(_number(around.find(node.input[1]), f'its condition "{node.input[1]}" is dynamic'))
    if not goes_on or limit == 0:
        return 0
    number, condition, *carried = [value.name for value in body.input]
    later = dict(zip(carried, (value.name for value in body.output[1:]), strict=False))
    values: dict[str, Any] = {condition: np.array(True)}
    sizes = dict[str, list[int]]()
    for name, given in zip(carried, node.input[2:], strict=True):
        values[name] = around.find(given)
        if later[name] == name and (known := around.sizes(given)) is not None:
            sizes[name] = known
    needed = _deciding_inputs(body, later)
    for iteration in range(most + 1):
        if limit is not None and iteration >= limit:
            return iteration
        values[number] = np.array(iteration, np.int64)
        inside = Values(scope, body.node, around, values, sizes, body)
        why = f'whether it goes on ("{body.output[0].name}") is dynamic'
        if not _number(inside.find(body.output[0].name), why):
            return iteration + 1
        values = {condition: values[condition]} | {name: inside.find(later[name]) for name in needed}
    return most + 1


def _number(found: Any, why: str) -> int:
    if found is None or found.size != 1:
        raise Unknown(why)
    return int(found.reshape(-1)[0])


def _deciding_inputs(body: GraphProto, later: dict[str, str]) -> list[str]:
    """List the inputs of a body that its condition depends on, in this iteration or in a later one."""
    makers = {name: node for node in body.node for name in node.output if name}
    pending, seen, found = [body.output[0].name], set[str](), list[str]()
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if name in makers:
            pending += makers[name].input
        elif name in later:
            found.append(name)
            pending.append(later[name])
    return found


class Values:
    """Values of a body, as far as they are computed from constants, exactly as every engine computes them.

    `given` are the values of its inputs, `sizes` the shapes of inputs of unknown value; `around` is the body around it.
    """

    def __init__(
        self,
        scope: Scope,
        nodes: Iterable[NodeProto],
        around: Values | None = None,
        given: dict[str, Any] | None = None,
        sizes: dict[str, list[int]] | None = None,
        graph: GraphProto | None = None,
    ):
        self._scope, self._around = scope, around
        self._makers = {name: node for node in nodes for name in node.output if name}
        self._found: dict[str, Any] = dict(given or {})
        self._sizes = sizes or {}
        self._inputs = {value.name for value in graph.input} if graph is not None else set[str]()
        self._held = {tensor.name: tensor for tensor in graph.initializer} if graph is not None else {}

    def find(self, name: str, depth: int = _DEEPEST) -> Any:
        """The value, or None."""
        if name not in self._found:
            self._found[name] = self._compute(name, depth) if depth else None
        return self._found[name]

    def sizes(self, name: str) -> list[int] | None:
        """The shape of a value, if it is inferred and in numbers."""
        if name in self._sizes:
            return self._sizes[name]
        value = self._found.get(name)
        if value is not None:
            return list(value.shape)
        if self._around is not None:
            return None if name in self._makers or name in self._inputs else self._around.sizes(name)
        shape, origin = self._scope.shape_with_origin(name)
        if shape is None or origin is not Origin.INFERRED:
            return None
        dims = [dim for dim in shape if isinstance(dim, int)]
        return dims if len(dims) == len(shape) else None

    def _compute(self, name: str, depth: int) -> Any:
        node = self._makers.get(name)
        held = self._scope.tensor(name, _MOST) if self._around is None else self._held.get(name)
        if held is not None:
            return _array(held)
        if node is None:
            unknown = self._around is None or name in self._inputs
            return None if unknown else self._around.find(name, depth)  # type: ignore[union-attr]
        if normalize_domain(node.domain) or any(True for _ in subgraphs(node)):
            return None
        attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
        if node.op_type == "Identity":
            return self.find(node.input[0], depth - 1)
        if node.op_type in _MEASURING:
            return self._measure(node, attributes)
        if node.op_type == "Constant":
            return _array(tensors.of_constant(node))
        inputs = [self.find(each, depth - 1) if each else None for each in node.input]
        if any(each is None for each, named in zip(inputs, node.input, strict=True) if named):
            return None
        found = kernels.compute(node.op_type, self._scope.opset, inputs, attributes, most=_MOST)
        if found is None or not found[1]:
            return None
        return found[0][list(node.output).index(name)]

    def _measure(self, node: NodeProto, attributes: dict[str, Any]) -> Any:
        value = self.find(node.input[0])
        sizes = self.sizes(node.input[0]) if value is None else list(value.shape)
        if sizes is None:
            return None
        if node.op_type == "Size":
            return np.array(np.prod(sizes, dtype=np.int64))
        return np.array(sizes[attributes.get("start", 0) : attributes.get("end", len(sizes))], np.int64)


def _array(tensor: TensorProto | None) -> Any:
    """A tensor that is small and at hand as an array."""
    small = tensor is not None and tensors.size(tensor) <= _MOST and not tensor.external_data
    return tensors.array(tensor) if small and tensor is not None else None
