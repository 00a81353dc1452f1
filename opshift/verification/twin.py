"""The wide twin of a model: the same graph computed in float64, node after node.

What the model has in float16, bfloat16 or float32 is double here: weights, inputs, what casts to these types yield, in inner
graphs and functions too. What the function itself rounds stays rounded: quantization, float8, and a cast to a narrower type
whose result is cast back. Weights are widened one at a time, where a node reads them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
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
from opshift.verification.wide_call import Calls

Array = Any
WIDE = np.dtype(np.float64)
NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_RANK = {TensorProto.DOUBLE: 3, TensorProto.FLOAT: 2, TensorProto.FLOAT16: 1, TensorProto.BFLOAT16: 1}
_TYPED = {"dtype", "output_dtype", "stash_type", "softmax_precision", "to"}  # attributes that name a type
_OF_ITS_TYPE = {("Clip", "min"), ("Clip", "max"), ("Pad", "value")}  # float attributes that become what the data are
_MOVES = frozenset(
    [
        "Identity",
        "Reshape",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Concat",
        "Slice",
        "Gather",
        "Expand",
        "Split",
    ]
)
_NEWEST, _OLDEST = 26, 7
"""What onnxruntime loads and has kernels for; most operators are the same from there on."""


@dataclass(frozen=True)
class Value:
    """What a name holds. `kind` is the narrow float type that the model has there, 0 for everything else.

    `cut` says that a cast to a narrower type made it, whose rounding is still to be done where it is cast back.
    """

    data: Any
    kind: int = 0
    cut: bool = False


@dataclass(frozen=True)
class Weight:
    """A tensor that is read where a node needs it."""

    tensor: TensorProto


Scope = MutableMapping[str, Any]
Watcher = Callable[[NodeProto, Sequence[Any], Sequence[Any]], None]


class Twin:
    """A model in float64.

    Attributes:
        calls: what ran its nodes, and how many of them not in double, or not in onnxruntime.
    """

    def __init__(self, model: ModelProto, folder: str | None = None, unrounded: Iterable[str] = ()):
        """`unrounded` names casts that do not round though they are cast back: storage, not function."""
        self._model, self._folder, self._unrounded = model, folder, frozenset(unrounded)
        self._functions = {(default_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self.calls = Calls()

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        forced: Mapping[str, Any] | None = None,
        watch: Watcher | None = None,
    ) -> list[Any]:
        """The outputs, floats as double; `forced` values stand in the place of what nodes of the main graph yield.

        Raises:
            EngineError: something in it cannot be computed so.
        """
        self._forced, self._watch = dict(forced or {}), watch
        graph = self._model.graph
        scope: Scope = {}
        for name, value in feeds.items():
            scope[name] = _widened(value)
        try:
            with np.errstate(all="ignore"):
                self._body(graph, scope, imports.opsets(self._model), main=True)
            return [_plain(self._read(scope, value.name)) for value in graph.output]
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(f"in float64: {one_line(error)}") from None

    def _read(self, scope: Scope, name: str) -> Value:
        if not name:
            return Value(None)
        held = scope[name]
        if isinstance(held, Weight):
            return _tensor(held.tensor, self._folder)
        found: Value = held
        return found

    def _body(
        self, body: GraphProto | FunctionProto, scope: Scope, opsets: Mapping[str, int], main: bool = False
    ) -> None:
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                if not main or tensor.name not in scope:
                    scope[tensor.name] = Weight(tensor)
            if body.sparse_initializer:
                raise EngineError("in float64: sparse initializers")
        needed, last = _plan(body)
        for index in needed:
            node = body.node[index]
            inputs = [self._read(scope, name) for name in node.input]
            made = self._node(node, inputs, scope, opsets)
            for name, value in zip(node.output, made, strict=False):
                if name:
                    if main and name in self._forced:
                        value = _widened(self._forced[name], value.kind)
                    scope[name] = value
            if main and self._watch is not None:
                self._watch(node, [value.data for value in inputs], [value.data for value in made])
            del inputs, made
            for name in last.get(index, ()):
                scope.pop(name, None)

    def _node(self, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]) -> list[Value]:
        domain = default_domain(node.domain)
        function = self._functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self._function(function, node, inputs)
        if not domain:
            if node.op_type in GENERATORS and not _is_idle(node, inputs):
                raise EngineError(f"in float64: {node.op_type} draws numbers")
            special = _SPECIAL.get(node.op_type)
            if special is not None:
                return special(self, node, inputs, scope, opsets)
        if any(True for _ in subgraphs(node)):
            raise EngineError(f"in float64: {node.op_type} with a graph")
        return self._call(node, inputs, opsets.get(domain, 1))

    def _call(self, node: NodeProto, inputs: Sequence[Value], opset: int) -> list[Value]:
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
                held.f = float(np.float64(attribute.f).astype(_dtype(narrowest)))
        if schema is not None and not schema.domain:
            opset = max(min(opset, _NEWEST), schema.since)
            if schemas.since("", node.op_type, _OLDEST) == schema.since:
                opset = max(opset, _OLDEST)
        made = self.calls.run(call, opset, [value.data for value in inputs], [_dtype(k) if k else None for k in kinds])
        cut = node.op_type in _MOVES and any(value.cut for value in inputs)
        return [
            _widened(data, _kind(node, schema, index, inputs), cut)
            for index, data in enumerate(_at_outputs(node, made))
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

    def _graph(self, graph: GraphProto, scope: Scope, given: Sequence[Value], opsets: Mapping[str, int]) -> list[Value]:
        inner: Scope = ChainMap({}, scope)  # type: ignore[arg-type]
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


def _dtype(kind: int) -> np.dtype[Any]:
    import onnx.helper

    return onnx.helper.tensor_dtype_to_np_dtype(kind)


def _kind_of(dtype: Any) -> int:
    import onnx.helper

    return onnx.helper.np_dtype_to_tensor_dtype(dtype) if dtype.kind in "fV" else 0


def _widened(data: Any, kind: int = 0, cut: bool = False) -> Value:
    """A value in double; `kind` is what the model has where the data do not say it."""
    if isinstance(data, Value):
        return data
    if isinstance(data, list):
        items = [_widened(item, kind) for item in data]
        return Value([item.data for item in items], next((item.kind for item in items if item.kind), kind))
    dtype = getattr(data, "dtype", None)
    if dtype is None or dtype == object:
        return Value(data)
    if dtype == WIDE:
        return Value(data, kind, cut)
    found = _kind_of(dtype)
    return Value(data.astype(WIDE), kind or found, cut) if found in NARROW else Value(data)


def _plain(value: Value) -> Any:
    return value.data


def _tensor(tensor: TensorProto, folder: str | None) -> Value:
    import onnx.numpy_helper

    if tensor_data.is_stored(tensor):
        if folder is None:
            raise EngineError("in float64: external data without a folder")
        tensor = tensor_data.loaded(tensor, folder)
    return _widened(onnx.numpy_helper.to_array(tensor))


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


def _is_idle(node: NodeProto, inputs: Sequence[Value]) -> bool:
    """Whether a Dropout lets everything pass."""
    if node.op_type != "Dropout":
        return False
    if any(a.name == "is_test" for a in node.attribute):
        return any(a.name == "is_test" and a.i for a in node.attribute)
    return len(inputs) < 3 or inputs[2].data is None or not bool(inputs[2].data)


def _attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _cast(twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]) -> list[Value]:
    held = _attribute(node, "to")
    if held is not None and held.type == AttributeProto.STRING:  # below opset 6
        to = TensorProto.DataType.Value(held.s.decode())
    else:
        to = held.i if held is not None else 0
    return [_to(twin, node, inputs[0], to, opsets)]


def _cast_like(
    twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]
) -> list[Value]:
    like = inputs[1]
    to = like.kind or TensorProto.DOUBLE if like.data.dtype == WIDE else _type_of(like.data)
    return [_to(twin, node, inputs[0], to, opsets)]


def _type_of(data: Any) -> int:
    import onnx.helper

    return TensorProto.STRING if data.dtype.kind in "OSU" else onnx.helper.np_dtype_to_tensor_dtype(data.dtype)


def _to(twin: Twin, node: NodeProto, value: Value, to: int, opsets: Mapping[str, int]) -> Value:
    """Floats stay double, whichever they are cast to; where a narrower one is cast back, it is rounded there."""
    data = value.data
    floating = getattr(data, "dtype", None) == WIDE
    here = value.kind or TensorProto.DOUBLE
    if floating and to in _RANK:
        kind = 0 if to == TensorProto.DOUBLE else to
        if _RANK[to] < _RANK[here] or (to != here and _RANK[to] == _RANK[here] == 1):
            cut = value.cut or not twin._unrounded.intersection(node.output)
            return Value(data, kind, cut)
        if value.cut and _RANK[to] > _RANK[here]:
            return Value(data.astype(_dtype(here)).astype(WIDE), kind)
        return Value(data, kind, value.cut)
    if to in NARROW and getattr(data, "dtype", None) is not None and data.dtype.kind in "iub":
        return Value(data.astype(WIDE), to)
    call = NodeProto(op_type="Cast", output=["y"])
    call.attribute.add(name="to", type=AttributeProto.INT, i=TensorProto.DOUBLE if to in NARROW else to)
    saturate = _attribute(node, "saturate")
    if saturate is not None:
        call.attribute.add().CopyFrom(saturate)
    if floating and value.kind and (to == TensorProto.STRING or to not in _WHOLE):
        data = data.astype(_dtype(value.kind))
    (made,) = twin.calls.run(call, max(min(opsets.get("", 1), _NEWEST), 9), [data], [None])
    return _widened(made, to if to in NARROW else 0)


_WHOLE = {
    TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip


def _constant(
    twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]
) -> list[Value]:
    held = _attribute(node, "value")
    if held is not None:
        return [_tensor(held.t, twin._folder)]
    for attribute in node.attribute:
        if attribute.name == "value_float":
            return [Value(np.asarray(attribute.f, WIDE), TensorProto.FLOAT)]
        if attribute.name == "value_floats":
            return [Value(np.asarray(attribute.floats, WIDE), TensorProto.FLOAT)]
    return twin._call(node, inputs, opsets.get("", 1))


def _identity(
    twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]
) -> list[Value]:
    return [inputs[0]]


def _dropout(
    twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]
) -> list[Value]:
    data = inputs[0].data
    since = opsets.get("", 1)
    mask = Value(np.ones(data.shape, bool)) if since >= 10 else Value(np.ones_like(data), inputs[0].kind)
    return [inputs[0], mask]


def _if(twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]) -> list[Value]:
    branch = _attribute(node, "then_branch" if bool(np.all(inputs[0].data)) else "else_branch")
    assert branch is not None
    return twin._graph(branch.g, scope, [], opsets)


_MOST_TURNS = 100_000


def _loop(twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]) -> list[Value]:
    held = _attribute(node, "body")
    assert held is not None
    most = int(inputs[0].data) if inputs and inputs[0].data is not None else _MOST_TURNS
    go_on = bool(inputs[1].data) if len(inputs) > 1 and inputs[1].data is not None else True
    state, rows, turn = list(inputs[2:]), list[list[Value]](), 0
    while go_on and turn < most:
        if turn >= _MOST_TURNS:
            raise EngineError("in float64: a Loop without an end")
        given = [Value(np.asarray(turn, np.int64)), Value(np.asarray(True)), *state]
        made = twin._graph(held.g, scope, given, opsets)
        go_on = bool(made[0].data)
        state = made[1 : 1 + len(state)]
        rows.append(made[1 + len(state) :])
        turn += 1
    count = len(held.g.output) - 1 - len(state)
    if not rows and count:
        raise EngineError("in float64: a Loop of no turns")
    return [*state, *(_stacked([row[k] for row in rows]) for k in range(count))]


def _stacked(values: Sequence[Value], axis: int = 0) -> Value:
    return Value(np.stack([value.data for value in values], axis), values[0].kind)


def _scan(twin: Twin, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Mapping[str, int]) -> list[Value]:
    held, number = _attribute(node, "body"), _attribute(node, "num_scan_inputs")
    if opsets.get("", 1) < 9 or held is None or number is None:
        raise EngineError("in float64: Scan of opset 8")

    def listed(name: str, count: int) -> list[int]:
        found = _attribute(node, name)
        return list(found.ints) if found is not None else [0] * count

    state, series = list(inputs[: -number.i]), inputs[-number.i :]
    outs = len(held.g.output) - len(state)
    axes, ways = listed("scan_input_axes", number.i), listed("scan_input_directions", number.i)
    made_axes, made_ways = listed("scan_output_axes", outs), listed("scan_output_directions", outs)
    length = series[0].data.shape[axes[0]]
    rows: list[list[Value]] = []
    for turn in range(length):
        at = [length - 1 - turn if way else turn for way in ways]
        given = [Value(np.take(v.data, k, axis), v.kind) for v, k, axis in zip(series, at, axes, strict=True)]
        made = twin._graph(held.g, scope, [*state, *given], opsets)
        state = made[: len(state)]
        rows.append(made[len(state) :])
    if not rows and outs:
        raise EngineError("in float64: a Scan of no turns")
    columns = [[row[k] for row in (rows[::-1] if made_ways[k] else rows)] for k in range(outs)]
    return [*state, *(_stacked(column, axis) for column, axis in zip(columns, made_axes, strict=True))]


_SPECIAL: dict[str, Callable[[Twin, NodeProto, Sequence[Value], Scope, Mapping[str, int]], list[Value]]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": _constant,
    "Dropout": _dropout,
    "Identity": _identity,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}


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
