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
from opshift.passes.model.traversal import bodies
from opshift.verification.engines import EngineError, one_line
from opshift.verification.random_operators import GENERATORS
from opshift.verification.twins.calls import Call, Calls
from opshift.verification.twins.nodes import NEWEST, OLDEST, SPECIAL, Opsets, Scope, is_idle
from opshift.verification.twins.plan import Body, Step, nested, plan
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
        self._calls: dict[Any, Call] = {} if beside is None else beside._calls
        self._bound: dict[Any, FunctionProto] = {}
        self._plans: dict[int, tuple[Body, list[Step]]] = {}

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

    def _steps(self, body: Body) -> list[Step]:
        """The nodes of a body that its outputs need; whoever holds the body knows it by its identity."""
        if id(body) not in self._plans:
            self._plans[id(body)] = body, plan(body)
        return self._plans[id(body)][1]

    def _body(self, body: Body, scope: Scope, opsets: Opsets, main: bool = False) -> None:
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                if not main or tensor.name not in scope:
                    scope[tensor.name] = Weight(tensor)
            if body.sparse_initializer:
                raise EngineError("in float64: sparse initializers")
        for step in self._steps(body):
            inputs = [self._read(scope, name, narrow=step.picks) for name in step.inputs]
            made = self._node(step, inputs, scope, opsets)
            for name, value in zip(step.outputs, made, strict=False):
                if name:
                    if main and name in self._forced:
                        value = widened(self._forced[name], value.kind)
                    scope[name] = value
            if main and self._watch is not None:
                self._watch(step.node, [value.data for value in inputs], [value.data for value in made])
            del inputs, made
            for name in step.dead:
                scope.pop(name, None)

    def _node(self, step: Step, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
        node, op = step.node, step.op
        function = self._functions.get(step.kind)
        if function is not None:
            return self._function(function, step, inputs)
        if not step.domain:
            if op in GENERATORS and not is_idle(node, inputs):
                raise EngineError(f"in float64: {op} draws numbers")
            special = SPECIAL.get(op)
            if op in _CASTS and special is not None:
                cast, rounds = special, self.unrounded.isdisjoint(step.outputs)
                since = schemas.since("", op, opsets.get("", 1)) or 1
                return self._once(step, inputs, (since, rounds), lambda _: cast(self, node, inputs, scope, opsets))
            if special is not None:
                return special(self, node, inputs, scope, opsets)
        if step.holds:
            raise EngineError(f"in float64: {op} with a graph")
        return self._call(step, inputs, opsets.get(step.domain, 1))

    def call(self, node: NodeProto, inputs: Sequence[Value], opset: int) -> list[Value]:
        return self._call(Step(node), inputs, opset)

    def _call(self, step: Step, inputs: Sequence[Value], opset: int) -> list[Value]:
        since = schemas.since(step.domain, step.op, opset) or -opset
        return self._once(step, inputs, (since,), lambda calls: self._called(step, inputs, opset, calls))

    def _once(
        self, step: Step, inputs: Sequence[Value], more: tuple[int, ...], compute: Callable[[Calls], list[Value]]
    ) -> list[Value]:
        """What a node yields; the same on the same values, in another run or twin, is not computed again."""
        if self._generator is not None:
            return compute(self.calls)
        memory = self.calls.memory
        key = memory.key(step.marks, inputs, more)
        known = memory.result(key)
        if known is None:
            one = self.calls.beside()
            known = compute(one), one
            memory.keep(key, inputs, *known)
        self.calls.count(known[1])
        return list(known[0])

    def _called(self, step: Step, inputs: Sequence[Value], opset: int, calls: Calls) -> list[Value]:
        kinds = [value.kind for value in inputs]
        key = step.marks, opset, next((kind for kind in kinds if kind), 0)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _in_double(step, opset, key[-1])
        made = calls.called(call, [value.data for value in inputs], [dtype_of(k) if k else None for k in kinds])
        cut = step.op in _MOVES and any(value.cut for value in inputs)
        if self._generator is not None and step.op in _APPROXIMATED:
            made = [data + _NOISE * self._generator.uniform(-1, 1, data.shape) for data in made]
        values = iter(made)  # those without a name are left out
        return [
            widened(next(values) if name else None, _kind(step.node, call, index, inputs), cut)
            for index, name in enumerate(step.outputs)
        ]

    def _function(self, function: FunctionProto, step: Step, inputs: Sequence[Value]) -> list[Value]:
        key = step.kind, step.marks
        if key not in self._bound:
            self._bound[key] = _with_attributes(function, step.node)
        body = self._bound[key]
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


def _in_double(step: Step, opset: int, narrowest: int) -> Call:
    """The call of a node, of which floats that it names or holds are double."""
    node = step.node
    call = NodeProto(op_type=step.op, domain=step.domain, output=step.outputs)
    schema = schemas.schema(step.domain, step.op, opset)
    for attribute in node.attribute:
        held = call.attribute.add()
        held.CopyFrom(attribute)
        if attribute.name in _TYPED and attribute.i in NARROW and schema is not None:
            held.i = TensorProto.DOUBLE
        elif (step.op, attribute.name) in _OF_ITS_TYPE and narrowest:
            held.f = float(np.float64(attribute.f).astype(dtype_of(narrowest)))
    if schema is not None and not schema.domain:
        opset = max(min(opset, NEWEST), schema.since)
        if schemas.since("", step.op, OLDEST) == schema.since:
            opset = max(opset, OLDEST)
    return Call(call, opset)


def _with_attributes(function: FunctionProto, node: NodeProto) -> FunctionProto:
    """A copy with the attributes that a call gives it."""
    given = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
    body = FunctionProto()
    body.CopyFrom(function)
    for inner in nested(body):
        for at in inner.node:
            _bind(at, given)
    return body


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


def _kind(node: NodeProto, call: Call, index: int, inputs: Sequence[Value]) -> int:
    """The type that the model has for an output that is double here."""
    first = next((value.kind for value in inputs if value.kind), 0)
    formal, same = call.like(index, len(inputs))
    if not formal:
        return first
    if formal == "tensor(float)":
        return TensorProto.FLOAT
    for at in same:
        if inputs[at].data is not None:
            return inputs[at].kind
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
