"""`Builder`: emits nodes at one opset. An operator is a method: `build.ReduceSum(x, axes, keepdims=1)`."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.types import Dim, number_name, tensor_type

Operand = str | None | int | Sequence[int]


class Builder:
    """Nodes go to `nodes` in order, written at `opset`; values are names.

    An operand is a name, None for an omitted optional input, or an integer (a scalar) or list of integers
    (a vector), which becomes an int64 constant. Other constants come from `constant`.
    """

    def __init__(self, scope: Scope, opset: int, like: NodeProto | None = None):
        self.scope = scope
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.copies: list[NodeProto] = []  # their graphs are converted already
        self._like = like

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*operands: Operand, **attributes: Any) -> Any:
            return self.emit(op_type, operands, attributes)

        return emit

    def emit(
        self,
        op_type: str,
        operands: Sequence[Operand],
        attributes: dict[str, Any] | None = None,
        *,
        domain: str = "",
        outputs: int = 1,
    ) -> Any:
        """Emit one node; returns the name of its output, or a list of names where `outputs` is not 1.

        An attribute that is None is left out.
        """
        node = NodeProto(op_type=op_type, domain=domain)
        names = [self._operand(operand, op_type) for operand in operands]
        while names and not names[-1]:
            names.pop()
        node.input.extend(names)
        declared = schemas.schema(domain, op_type, self.opset)
        for name, value in (attributes or {}).items():
            if value is not None:
                attribute_type = declared.attributes[name].type if declared and name in declared.attributes else 0
                if attribute_type == AttributeProto.STRING and isinstance(value, int):
                    value = number_name(value)  # Cast spells its type below opset 6
                node.attribute.append(make_attribute(name, value, attribute_type))
        return self._add(node, outputs)

    def again(self, node: NodeProto, inputs: Sequence[str], **attributes: Any) -> Any:
        """Emit a copy of `node` with other inputs and, where given, other attributes; the rest survives.

        An output that `node` omits is omitted again.
        """
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = list(inputs)
        for name, value in attributes.items():
            kept = [a for a in copy.attribute if a.name != name]
            del copy.attribute[:]
            copy.attribute.extend(kept)
            if value is not None:
                copy.attribute.append(make_attribute(name, value))
        del copy.output[:]
        made = self._add(copy, len(node.output), {i for i, name in enumerate(node.output) if not name})
        self.keep_graphs()
        return made

    def keep_graphs(self) -> None:
        """The graphs of the node emitted last are converted already."""
        self.copies.append(self.nodes[-1])
        self.scope.context.descended.update(self.nodes[-1].output)

    def _add(self, node: NodeProto, outputs: int, omitted: Container[int] = ()) -> Any:
        stem = self._like.output[0] if self._like is not None and self._like.output else node.op_type
        fresh = self.scope.context.names.fresh
        node.output.extend("" if i in omitted else fresh(f"{stem}/{node.op_type}") for i in range(outputs))
        if self._like is not None and self._like.name:
            node.name = self.scope.context.names.fresh(f"{self._like.name}/{node.op_type}")
        self.nodes.append(node)
        self.scope.record(node, self.opset)
        return node.output[0] if outputs == 1 else list(node.output)

    def _operand(self, operand: Operand, op_type: str) -> str:
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        if isinstance(operand, int):
            return self.constant(tensors.int64s([operand], []))
        return self.constant(tensors.int64s(list(operand)))

    def constant(self, value: TensorProto | Any, elem_type: int = 0, hint: str = "const") -> str:
        """The name of a constant: a tensor as it is, or any value as a tensor of `elem_type`."""
        tensor = value if isinstance(value, TensorProto) else tensors.tensor(value, elem_type)
        shared = self.scope.constant(tensor, hint)
        return shared if shared is not None else str(self.emit("Constant", [], {"value": tensor}))

    def set_type(self, name: str, elem_type: int, dims: Sequence[Dim] | None = None) -> str:
        """State the type of a made value that inference cannot reach, such as the output of an If."""
        self.scope.typed[name] = tensor_type(elem_type, dims)
        return name

    def branch(self, body: Callable[[Builder], str], name: str, elem_type: int = 0) -> GraphProto:
        """A subgraph without inputs, for If: `body` gets its builder and returns the value it yields."""
        graph = GraphProto(name=name)
        inner = Builder(Scope(graph, self.scope.context, self.opset, self.scope), self.opset, self._like)
        result = body(inner)
        if inner.scope.owner(result) is not inner.scope:
            result = inner.Identity(result)
        graph.node.extend(inner.nodes)
        output = graph.output.add(name=result)
        if elem_type:
            output.type.CopyFrom(tensor_type(elem_type))
        return graph

    def repeat(self, count: Operand, value: str, update: Callable[[Builder, str, str], str], elem_type: int) -> str:
        """`value` after `count` rounds of `update`, which gets its builder, the round and the value so far.

        The value keeps its shape.
        """
        value_type = tensor_type(elem_type, self.scope.shape(value))
        return self.loop(count, [(value, value_type)], lambda inner, at, values: [update(inner, at, *values)])[0]

    def loop(
        self,
        count: Operand,
        carried: Sequence[tuple[str, TypeProto]],
        body: Callable[[Builder, str, list[str]], Sequence[str]],
        *,
        ends: bool = False,
        begins: str | None = None,
    ) -> list[str]:
        """The values in `carried`, which keep their types, after `count` rounds, then what each round yields, stacked.

        `body` gets its builder, the round and the values so far, and returns their successors and what it yields.
        Where it `ends` the loop early, whether to go on comes first. There is no round unless the condition `begins`
        holds, where one is given.
        """
        fresh, types = self.scope.context.names.fresh, [value_type for _, value_type in carried]
        graph = GraphProto(name="rounds")
        at, go, *before = (fresh(f"Loop/{part}") for part in ("round", "go", *("so_far" for _ in carried)))
        flag = tensor_type(TensorProto.BOOL, [])
        for name, value_type in zip((at, go, *before), (tensor_type(TensorProto.INT64, []), flag, *types), strict=True):
            graph.input.add(name=name).type.CopyFrom(value_type)
        inner = Builder(Scope(graph, self.scope.context, self.opset, self.scope), self.opset, self._like)
        results = list(body(inner, at, before))
        for result in results if ends else [go, *results]:
            own = result in inner.scope.made and all(result != value.name for value in graph.output)
            graph.output.add(name=result if own else inner.Identity(result))
        yields = [value.name for value in graph.output[1 + len(carried) :]]
        each = [(inner.scope.elem_type(name), inner.scope.shape(name)) for name in yields]
        for value, value_type in zip(graph.output, [flag, *types, *(tensor_type(*kind) for kind in each)], strict=True):
            value.type.CopyFrom(value_type)
        graph.node.extend(inner.nodes)
        # without either, it goes on until `body` says so, but onnx.reference makes no round
        start = self.constant(True, TensorProto.BOOL) if count is None and begins is None else begins
        given = [count, start, *(name for name, _ in carried)]
        made = self.emit("Loop", given, {"body": graph}, outputs=len(types) + len(each))
        stacked = [
            tensor_type(attribute_type, None if dims is None else [None, *dims]) for attribute_type, dims in each
        ]
        made = [made] if isinstance(made, str) else list(made)
        self.scope.typed.update(zip(made, types + stacked, strict=True))
        return made

    def type_of(self, name: str) -> TypeProto | None:
        """The type of a value, made or not."""
        return self.scope.type(name)
