"""RNN, GRU and LSTM written out: one Scan a direction over the time, with the products of X made before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import GraphProto, TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.says import says

T = TensorProto
X, W, R, B, LENGTHS, FIRST_H, FIRST_C, PEEPHOLES = range(8)  # inputs; those of GRU and RNN end before FIRST_C
W_SCALE, W_ZERO, R_SCALE, R_ZERO = range(8, 12)  # of quantized weights
QUANTIZED = "DynamicQuantize"  # before the name of what has such
ATTENDING = "Attn"  # before the name of what attends to a memory
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
PARAMETERS: dict[str, dict[str, float]] = {  # of activations, with their defaults
    "Relu": {},
    "Tanh": {},
    "Sigmoid": {},
    "Softsign": {},
    "Softplus": {},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
}


@dataclass(frozen=True)
class Activation:
    """An activation with its parameters, applied to what is cut off at `clip`."""

    op: str
    parameters: dict[str, float]
    clip: float | None

    def __call__(self, build: Builder, x: str, elem_type: int) -> str:
        if self.clip is not None:
            x = build.Clip(x, *(build.constant(bound, elem_type) for bound in (-self.clip, self.clip)))
        return str(build.emit(self.op, [x], dict(self.parameters)))


@dataclass(frozen=True)
class Matrix:
    """What stands at the right of a product; with a scale it is quantized, and so is what it is multiplied with."""

    name: str
    scale: str = ""
    zero: str = ""

    def __call__(self, build: Builder, x: str) -> str:
        if not self.scale:
            return str(build.MatMul(x, self.name))
        integers, scale, zero = build.emit("DynamicQuantizeLinear", [x], outputs=3)
        product = build.Cast(build.MatMulInteger(integers, self.name, zero, self.zero), to=T.FLOAT)
        return str(build.Mul(product, build.Mul(scale, self.scale)))


@dataclass(frozen=True)
class Weights:
    """What one direction multiplies its state with, transposed; the names stand outside of the Scan."""

    state: Matrix
    hidden: Matrix = Matrix("")  # of GRU, where the reset gate comes before the product
    bias: str = ""  # where it comes after the product
    peepholes: Sequence[str] = ()


@dataclass(frozen=True)
class Attention:
    """What one direction of an LSTM attends to with H, and reads in the next step, beside X."""

    entry: Matrix
    again: Matrix
    width: int
    of: Callable[[Builder, str], str]
    """What is read next, of the builder of a step and H."""


@says("Replaced the recurrent operator (RNN, GRU or LSTM) by a Scan over time")
def scan_over_time(node: Node, attention: Callable[[int], Attention] | None = None) -> list[str]:
    """`attention` is asked for what each direction attends to, by its number."""
    node.close("the recurrence is computed from its definition")
    directions = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}
    wanted = node.attributes.get("direction", "forward")
    if wanted not in directions:
        raise CannotConvert(node, f"direction={wanted!r}", supported=f"{', '.join(directions)}")
    activations, count = list(_activations(node)), len(ACTIVATIONS[_kind(node)])
    results = [
        _direction(node, number, backwards, activations[number * count :][:count], attention and attention(number))
        for number, backwards in enumerate(directions[wanted])
    ]
    joined = zip((1, 0, 0), zip(*results, strict=True), strict=False)  # Y has the time before the direction
    return [
        _join(node.build, values, axis) if output else ""
        for output, (axis, values) in zip(node.outputs, joined, strict=False)
    ]


def _kind(node: Node) -> str:
    return node.op_type.removeprefix(QUANTIZED).removeprefix(ATTENDING)


def _is_quantized(node: Node) -> bool:
    return node.op_type.startswith(QUANTIZED)


def _join(build: Builder, values: Sequence[str], axis: int) -> str:
    apart = [build.Unsqueeze(value, [axis]) for value in values]
    return apart[0] if len(apart) == 1 else str(build.Concat(*apart, axis=axis))


def _activations(node: Node) -> Iterator[Activation]:
    given, clip = node.attributes.get("activations"), node.attributes.get("clip")
    twice = 2 if node.attributes.get("direction") == "bidirectional" else 1
    spelled = {name.lower(): name for name in PARAMETERS}
    names = [spelled.get(name.lower(), "") for name in given] if given else ACTIVATIONS[_kind(node)] * twice
    if "" in names or len(names) != len(ACTIVATIONS[_kind(node)]) * twice:
        raise CannotConvert(node, f"activations={given}", supported=f"{', '.join(PARAMETERS)}")
    values = {p: iter(_values(node, p, sum(p in PARAMETERS[name] for name in names))) for p in ("alpha", "beta")}
    for name in names:
        yield Activation(name, {p: next(values[p], default) for p, default in PARAMETERS[name].items()}, clip)


def _values(node: Node, parameter: str, takers: int) -> list[float]:
    values: list[float] = node.attributes.get(f"activation_{parameter}", [])
    if values and len(values) != takers:
        raise CannotConvert(node, f"activation_{parameter} has {len(values)} values", supported=f"{takers}")
    return values


def _direction(
    node: Node, number: int, backwards: int, activations: list[Activation], attention: Attention | None
) -> list[str]:
    """Y, Y_h and for LSTM Y_c of one direction, without the axis of directions."""
    build, elem_type, lengths = node.build, node.elem_type(), node.input(LENGTHS)
    x, gates = node.input(X), GATES[_kind(node)]
    turned = backwards and lengths  # each sequence at its own end
    x = build.ReverseSequence(x, _int64(node), time_axis=0, batch_axis=1) if turned else x
    size = _size(node)
    linear = bool(node.op_type == "GRU" and node.attributes.get("linear_before_reset", 0))
    weights, bias = _weights(node, number, size, linear=linear)
    x = build.Where(_is_running(node), x, build.constant(0.0, elem_type)) if lengths and _is_quantized(node) else x
    x = (attention.entry if attention else _matrix(node, W, number))(build, x)
    x = build.Add(x, bias) if bias else x
    starts, widths = [_start(node, index, number, size) for index in _states(node)], [size for _ in _states(node)]
    if attention:
        starts, widths = [*starts, _zeros(node, attention.width)], [*widths, attention.width]
    scanned = [x, _valid(node)] if lengths else [x]
    body = _step(node, weights, activations, [size] * gates, attention, masked=bool(lengths), linear=linear)
    reversed_ = int(bool(backwards and not lengths))
    attributes = {
        "body": body,
        "num_scan_inputs": len(scanned),
        "scan_input_directions": [reversed_] * len(scanned),
        "scan_output_directions": [reversed_],
    }
    *last, y = build.emit("Scan", [*starts, *scanned], attributes, outputs=len(starts) + 1)
    for state, width in zip(last, widths, strict=True):
        build.set_type(state, elem_type, [None, width])
    build.set_type(y, elem_type, [None, None, size])
    y = build.ReverseSequence(y, _int64(node), time_axis=0, batch_axis=1) if turned else y
    return [y, *last[: len(_states(node))]]


def _states(node: Node) -> list[int]:
    return [FIRST_H, FIRST_C] if _kind(node) == "LSTM" else [FIRST_H]


def _size(node: Node) -> int:
    dims = node.scope.shape(node.input(R)) or [None, None]
    size = node.attributes.get("hidden_size", dims[-2 if _is_quantized(node) else -1])
    if not isinstance(size, int):
        raise CannotConvert(
            node, "the attribute hidden_size is missing and cannot be inferred", supported="the attribute"
        )
    return size


def _int64(node: Node) -> str:
    return recast(node.build, node.input(LENGTHS), T.INT32, T.INT64)


def _matrix(node: Node, index: int, number: int) -> Matrix:
    """The weights of one direction for X or the state; quantized ones are held as they are multiplied."""
    build = node.build
    own = build.Gather(node.input(index), number, axis=0)
    if not _is_quantized(node):
        return Matrix(build.Transpose(own, perm=[1, 0]))
    scale, zero = (W_SCALE, W_ZERO) if index == W else (R_SCALE, R_ZERO)
    return Matrix(own, *(build.Gather(node.input(of), number, axis=0) for of in (scale, zero)))


def _weights(node: Node, number: int, size: int, *, linear: bool) -> tuple[Weights, str]:
    """The weights of one direction for the state, and what is added to the products of X."""
    build, whole = node.build, size * GATES[_kind(node)]
    state = _matrix(node, R, number)
    of_state = bias = ""
    if node.input(B):
        both = build.Gather(node.input(B), number, axis=0)
        bias, of_state = build.emit("Split", [both, [whole, whole]], {"axis": 0}, outputs=2)
        bias = bias if linear else build.Add(bias, of_state)
    if node.op_type == "GRU" and not linear:
        gates, hidden = build.emit("Split", [state.name, [2 * size, size]], {"axis": 1}, outputs=2)
        return Weights(Matrix(gates), Matrix(hidden)), bias
    if _is_quantized(node):  # the kernel adds it last, and what rounds otherwise is quantized otherwise
        bias, of_state, linear = "", bias, True
    apart = build.Gather(node.input(PEEPHOLES), number, axis=0) if node.input(PEEPHOLES) else ""
    peepholes = build.emit("Split", [apart, [size] * 3], {"axis": 0}, outputs=3) if apart else ()
    return Weights(state, bias=of_state if linear else "", peepholes=peepholes), bias


def _start(node: Node, index: int, number: int, size: int) -> str:
    return str(node.build.Gather(node.input(index), number, axis=0)) if node.input(index) else _zeros(node, size)


def _zeros(node: Node, size: int) -> str:
    build, elem_type, dims = node.build, node.elem_type(), node.scope.shape(node.input(X)) or [None] * 3
    batch = dims[1]
    if isinstance(batch, int) and batch * size <= 4096:
        return build.constant(np.zeros((batch, size)), elem_type)
    batch = build.Slice(build.Shape(node.input(X)), [1], [2])
    zeros = build.ConstantOfShape(build.Concat(batch, [size], axis=0))
    return recast(build, zeros, T.FLOAT, elem_type)


def _valid(node: Node) -> str:
    """Of shape (time, batch, 1): whether a sequence has not ended yet."""
    build = node.build
    return str(build.Unsqueeze(build.Less(_times(node), _int64(node)), [2]))


def _is_running(node: Node) -> str:
    """Compute for each step whether some sequence goes on, of shape (time, 1, 1)."""
    build = node.build
    longest = build.ReduceMax(_int64(node), keepdims=0)
    return str(build.Unsqueeze(build.Less(_times(node), longest), [2]))


def _times(node: Node) -> str:
    """Of shape (time, 1)."""
    build = node.build
    return str(build.Unsqueeze(build.Range(0, build.Gather(build.Shape(node.input(X)), 0), 1), [1]))


def _step(
    node: Node,
    weights: Weights,
    activations: list[Activation],
    sizes: list[int],
    attention: Attention | None,
    *,
    masked: bool,
    linear: bool,
) -> GraphProto:
    """What happens at one time, as the body of a Scan: states and X(t) * W + B in, states and output out."""
    elem_type, size, graph = node.elem_type(), sizes[0], GraphProto(name="step")
    fresh = node.scope.context.names.fresh
    names = [fresh(f"{node.op_type}/{name}") for name in ["H", "C"][: len(_states(node))]]
    widths = [size for _ in names]
    if attention:
        names, widths = [*names, fresh(f"{node.op_type}/A")], [*widths, attention.width]
    x = fresh(f"{node.op_type}/X")
    for name, width in zip([*names, x], [*widths, sum(sizes)], strict=True):
        graph.input.add(name=name).type.CopyFrom(tensor_type(elem_type, [None, width]))
    build = Builder(node.scope.inside(graph, node.build.opset), node.build.opset, node.proto)
    if attention:
        sums = build.Add(x, attention.again(build, names[2]))
        gates = [*activations[:2], replace(activations[2], clip=None)]  # its kernel does not cut C off
        after = _lstm(node, build, weights, gates, names[:2], sums)
        after = [*after, attention.of(build, after[0])]
    elif _kind(node) == "LSTM":
        after = _lstm(node, build, weights, activations, names, x)
    elif node.op_type == "GRU":
        after = [_gru(node, build, weights, activations, names[0], x, linear=linear)]
    else:
        after = [activations[0](build, build.Add(x, weights.state(build, names[0])), elem_type)]
    y = after[0]
    if masked:
        valid = fresh(f"{node.op_type}/valid")
        graph.input.add(name=valid).type.CopyFrom(tensor_type(T.BOOL, [None, 1]))
        y = build.Where(valid, y, build.constant(0.0, elem_type))
        after = [build.Where(valid, new, old) for new, old in zip(after, names, strict=True)]
    else:
        y = build.Identity(y)
    graph.node.extend(build.nodes)
    for name, width in zip((*after, y), (*widths, size), strict=True):
        graph.output.add(name=name).type.CopyFrom(tensor_type(elem_type, [None, width]))
    return graph


def _lstm(
    node: Node, build: Builder, weights: Weights, activations: list[Activation], before: list[str], x: str
) -> list[str]:
    """C = f * C + i * g(c) and H = o * h(C), the gates in the order i, o, f, c."""
    elem_type, (f, g, h), (hidden, cell), size = node.elem_type(), activations, before, _size(node)
    sums = build.Add(x, weights.state(build, hidden))
    sums = build.Add(sums, weights.bias) if weights.bias else sums
    entry, exit_, forget, new = build.emit("Split", [sums, [size] * 4], {"axis": -1}, outputs=4)
    if weights.peepholes:
        entry = build.Add(entry, build.Mul(weights.peepholes[0], cell))
        forget = build.Add(forget, build.Mul(weights.peepholes[2], cell))
    entry = f(build, entry, elem_type)
    if node.attributes.get("input_forget", 0):
        forget = build.Sub(build.constant(1.0, elem_type), entry)
    else:
        forget = f(build, forget, elem_type)
    cell = build.Add(build.Mul(forget, cell), build.Mul(entry, g(build, new, elem_type)))
    if weights.peepholes:
        exit_ = build.Add(exit_, build.Mul(weights.peepholes[1], cell))
    return [build.Mul(f(build, exit_, elem_type), h(build, cell, elem_type)), cell]


def _gru(
    node: Node, build: Builder, weights: Weights, activations: list[Activation], hidden: str, x: str, *, linear: bool
) -> str:
    """H = (1 - z) * g(h) + z * H, the gates in the order z, r, h; r reaches H before or after its product."""
    elem_type, (f, g), size = node.elem_type(), activations, _size(node)
    if linear:
        product = weights.state(build, hidden)
        product = build.Add(product, weights.bias) if weights.bias else product
        gates, new = build.emit("Split", [x, [2 * size, size]], {"axis": -1}, outputs=2)
        own_gates, own = build.emit("Split", [product, [2 * size, size]], {"axis": -1}, outputs=2)
        gates = f(build, build.Add(gates, own_gates), elem_type)
        update, reset = build.emit("Split", [gates, [size, size]], {"axis": -1}, outputs=2)
        new = build.Add(new, build.Mul(reset, own))
    else:
        gates, new = build.emit("Split", [x, [2 * size, size]], {"axis": -1}, outputs=2)
        gates = f(build, build.Add(gates, weights.state(build, hidden)), elem_type)
        update, reset = build.emit("Split", [gates, [size, size]], {"axis": -1}, outputs=2)
        new = build.Add(new, weights.hidden(build, build.Mul(reset, hidden)))
    new = g(build, new, elem_type)
    kept = build.Mul(update, hidden)
    return str(build.Add(build.Mul(build.Sub(build.constant(1.0, elem_type), update), new), kept))
