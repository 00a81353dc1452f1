"""The wide twin of a model: the same graph computed in float64, node after node.

What the model has in float16, bfloat16 or float32 is double here: weights, inputs, what casts to these types yield, in
inner graphs and functions too. What the function itself rounds stays rounded: quantization, float8, and a cast to a
narrower type whose result is cast back. Weights are widened one at a time, where a node reads them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from opshift.passes.model import imports, schemas, tensor_data
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    default_domain,
)
from opshift.passes.model.traversal import bodies, results, subgraphs
from opshift.verification.engines import EngineError, one_line
from opshift.verification.random_operators import GENERATORS
from opshift.verification.twins.calls import Calls
from opshift.verification.twins.nodes import NEWEST, OLDEST, SPECIAL, Opsets, Scope, is_idle
from opshift.verification.twins.values import NARROW, Value, Weight, dtype_of, widened

_TYPED = {"dtype", "output_dtype", "stash_type", "softmax_precision"}  # attributes that name a type
_OF_ITS_TYPE = {("Clip", "min"), ("Clip", "max"), ("Pad", "value")}  # floats that become what the data are
_MOVES = {"Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice"}
_MOVES |= {"Split", "Squeeze", "Transpose", "Unsqueeze"}
_CASTS = {"Cast", "CastLike"}
_LARGE = 1 << 30  # bytes
_WIDE = 12  # bytes that an element takes in float64, beside what it is made of
_APPROXIMATED = {"Sigmoid"}
_NOISE = 2.5 * 2.0**-24
"""How far onnxruntime's Sigmoid in float32 is from the function, at large negative numbers, too: 1.4e-7 was seen."""
Watcher = Callable[[NodeProto, Sequence[Any], Sequence[Any]], None]


class Twin:
    """A model in float64.

    Attributes:
        calls: what ran its nodes, and how many of them not in double, or not in onnxruntime.
    """

    def __init__(
        self,
        model: ModelProto,
        folder: str | None = None,
        unrounded: Iterable[str] = (),
        beside: Twin | None = None,
    ):
        """`unrounded` names casts that do not round though they are cast back: storage, not function.

        What another twin has prepared runs the same calls of this one, too.
        """
        self._model, self.folder, self.unrounded = model, folder, frozenset(unrounded)
        self._functions = {(default_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self.calls: Calls = Calls() if beside is None else beside.calls.beside()

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        forced: Mapping[str, Any] | None = None,
        watch: Watcher | None = None,
        noise: bool = False,
    ) -> list[Any]:
        """The outputs, floats as double; `forced` values stand in the place of what nodes of the main graph yield.

        With `noise`, functions that engines compute to an absolute error are as far away as that may be.

        Raises:
            EngineError: something in it cannot be computed so.
        """
        self._forced, self._watch = dict(forced or {}), watch
        self._generator = np.random.default_rng(0) if noise else None
        graph = self._model.graph
        scope: Scope = {}
        for name, value in feeds.items():
            scope[name] = self.calls.memory.feed(value)
        try:
            with np.errstate(all="ignore"):
                self._body(graph, scope, imports.opsets(self._model), main=True)
            return [self._read(scope, value.name).data for value in graph.output]
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(f"in float64: {one_line(error)}") from None

    def _read(self, scope: Scope, name: str, *, narrow: bool = False) -> Value:
        if not name:
            return Value(None)
        held = scope[name]
        if isinstance(held, Weight):
            return self.calls.memory.weight(held.tensor, self.folder, narrow=narrow)
        found: Value = held
        return found

    def _body(self, body: GraphProto | FunctionProto, scope: Scope, opsets: Opsets, main: bool = False) -> None:
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                if not main or tensor.name not in scope:
                    scope[tensor.name] = Weight(tensor)
            if body.sparse_initializer:
                raise EngineError("in float64: sparse initializers")
        needed, last = _plan(body)
        for index in needed:
            node = body.node[index]
            picks = node.op_type == "Gather" and not default_domain(node.domain)  # of a table that may be large
            inputs = [self._read(scope, name, narrow=picks) for name in node.input]
            made = self._node(node, inputs, scope, opsets)
            for name, value in zip(node.output, made, strict=False):
                if name:
                    if main and name in self._forced:
                        value = widened(self._forced[name], value.kind)
                    scope[name] = value
            if main and self._watch is not None:
                self._watch(node, [value.data for value in inputs], [value.data for value in made])
            del inputs, made
            for name in last.get(index, ()):
                scope.pop(name, None)

    def _node(self, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
        domain = default_domain(node.domain)
        function = self._functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self._function(function, node, inputs)
        if not domain:
            if node.op_type in GENERATORS and not is_idle(node, inputs):
                raise EngineError(f"in float64: {node.op_type} draws numbers")
            special = SPECIAL.get(node.op_type)
            if node.op_type in _CASTS and special is not None:
                cast, rounds = special, self.unrounded.isdisjoint(node.output)
                since = schemas.since("", node.op_type, opsets.get("", 1)) or 1
                return self._once(node, inputs, (since, rounds), lambda _: cast(self, node, inputs, scope, opsets))
            if special is not None:
                return special(self, node, inputs, scope, opsets)
        if any(True for _ in subgraphs(node)):
            raise EngineError(f"in float64: {node.op_type} with a graph")
        return self.call(node, inputs, opsets.get(domain, 1))

    def call(self, node: NodeProto, inputs: Sequence[Value], opset: int) -> list[Value]:
        since = schemas.since(node.domain, node.op_type, opset) or -opset
        return self._once(node, inputs, (since,), lambda calls: self._called(node, inputs, opset, calls))

    def _once(
        self, node: NodeProto, inputs: Sequence[Value], more: tuple[int, ...], compute: Callable[[Calls], list[Value]]
    ) -> list[Value]:
        """What a node yields; the same on the same values, in another run or twin, is not computed again."""
        if self._generator is not None:
            return compute(self.calls)
        key, one = self.calls.memory.key(node, inputs, more), self.calls.beside()
        known = self.calls.memory.result(key)
        if known is None:
            known = compute(one), one
            self.calls.memory.keep(key, inputs, *known)
        self.calls.count(known[1])
        return list(known[0])

    def _called(self, node: NodeProto, inputs: Sequence[Value], opset: int, calls: Calls) -> list[Value]:
        call = NodeProto(op_type=node.op_type, domain=default_domain(node.domain), output=node.output)
        kinds = [value.kind for value in inputs]
        schema = schemas.schema(node.domain, node.op_type, opset)
        narrowest = next((kind for kind in kinds if kind), 0)
        for attribute in node.attribute:
            held = call.attribute.add()
            held.CopyFrom(attribute)
            if attribute.name in _TYPED and attribute.i in NARROW and schema is not None:
                held.i = TensorProto.DOUBLE
            elif (node.op_type, attribute.name) in _OF_ITS_TYPE and narrowest:
                held.f = float(np.float64(attribute.f).astype(dtype_of(narrowest)))
        if schema is not None and not schema.domain:
            opset = max(min(opset, NEWEST), schema.since)
            if schemas.since("", node.op_type, OLDEST) == schema.since:
                opset = max(opset, OLDEST)
        made = calls.run(call, opset, [value.data for value in inputs], [dtype_of(k) if k else None for k in kinds])
        cut = node.op_type in _MOVES and any(value.cut for value in inputs)
        if self._generator is not None and node.op_type in _APPROXIMATED:
            made = [data + _NOISE * self._generator.uniform(-1, 1, data.shape) for data in made]
        return [
            widened(data, _kind(node, schema, index, inputs), cut) for index, data in enumerate(_at_outputs(node, made))
        ]

    def _function(self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value]) -> list[Value]:
        given = {attribute.name: attribute for attribute in function.attribute_proto}
        given |= {attribute.name: attribute for attribute in node.attribute}
        body = FunctionProto()
        body.CopyFrom(function)
        for inner in _nested(body):
            for at in inner.node:
                _bind(at, given)
        names = [*function.input]
        scope: Scope = {name: Value(None) for name in names}
        scope.update(zip(names, inputs, strict=False))
        self._body(body, scope, imports.opsets(function))
        return [self._read(scope, name) for name in function.output]

    def graph(self, graph: GraphProto, scope: Scope, given: Sequence[Value], opsets: Opsets) -> list[Value]:
        inner: Scope = ChainMap({}, scope)
        for formal, value in zip(graph.input, given, strict=False):
            inner[formal.name] = value
        self._body(graph, inner, opsets)
        return [self._read(inner, value.name) for value in graph.output]


def _at_outputs(node: NodeProto, made: Sequence[Any]) -> list[Any]:
    """What was made, at the places of the outputs: those without a name are left out."""
    values = iter(made)
    return [next(values) if name else None for name in node.output]


def _nested(body: GraphProto | FunctionProto) -> Iterable[GraphProto | FunctionProto]:
    yield body
    for node in body.node:
        for _, _, graph in subgraphs(node):
            yield from _nested(graph)


def _bind(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Attributes that refer to those of the caller become what it gave; what nobody gave is left out."""
    for index in reversed(range(len(node.attribute))):
        attribute = node.attribute[index]
        if not attribute.ref_attr_name:
            continue
        name, held = attribute.name, given.get(attribute.ref_attr_name)
        if held is None:
            del node.attribute[index]
        else:
            attribute.CopyFrom(held)
            attribute.name = name


def _plan(body: GraphProto | FunctionProto) -> tuple[list[int], dict[int, list[str]]]:
    """The nodes that the outputs need, in order, and after which node a name is read no more."""
    wanted = set(results(body))
    kept = set(wanted)
    needed: list[int] = []
    last: dict[int, list[str]] = {}
    for index in reversed(range(len(body.node))):
        node = body.node[index]
        if not wanted.intersection(node.output):
            continue
        needed.append(index)
        read = set(node.input)
        for _, _, graph in subgraphs(node):
            for inner in _nested(graph):
                read.update(name for at in inner.node for name in at.input)
                read.update(results(inner))
        unread = {name for name in node.output if name and name not in wanted}
        last[index] = [name for name in read - wanted if name] + list(unread)
        wanted |= read
    made = {name for node in body.node for name in node.output}
    return needed[::-1], {
        index: [name for name in names if name in made and name not in kept] for index, names in last.items()
    }


def _kind(node: NodeProto, schema: schemas.Schema | None, index: int, inputs: Sequence[Value]) -> int:
    """The type that the model has for an output that is double here."""
    formal = schema.output(index) if schema is not None else None
    first = next((value.kind for value in inputs if value.kind), 0)
    if schema is None or formal is None:
        return first
    if formal.type == "tensor(float)":
        return TensorProto.FLOAT
    same = [v for k, v in enumerate(inputs) if (held := schema.input(k)) is not None and held.type == formal.type]
    for value in same:
        if value.data is not None:
            return value.kind
    named = next((a.i for a in node.attribute if a.name in _TYPED), 0)
    return named if named in NARROW else 0 if named else first


def is_too_large(model: ModelProto) -> bool:
    """Whether one weight in float64 takes more than all weights as they are; of a table, only rows are widened."""
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    tables -= {name for node in model.graph.node for name in node.input[node.op_type == "Gather" :]}
    total = sum(map(tensor_data.nbytes, model.graph.initializer))
    sizes = (_WIDE * prod(tensor.dims) for tensor in model.graph.initializer if tensor.name not in tables)
    return total > _LARGE and max(sizes, default=0) > total


def unrounded(before: ModelProto, after: ModelProto) -> tuple[frozenset[str], frozenset[str]]:
    """The casts of either model that store a value that the other one has in that type anyway, and round nothing.

    Of the second model, all that the first one does not have under that name: what takes the place of a node in a
    narrow type computes in a wider one between two such casts.
    """
    cast, made = [], []
    for model in (before, after):
        nodes = [node for body in bodies(model) for node in body.node]
        cast.append({name for node in nodes if node.op_type in ("Cast", "CastLike") for name in node.output})
        made.append({name for node in nodes for name in node.output})
    return frozenset(cast[0] & (made[1] - cast[1])), frozenset(cast[1] - cast[0])
