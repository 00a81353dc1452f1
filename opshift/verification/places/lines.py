"""Where operators begin to compute something else: a Relu at 0, a Clip at its bounds, a quantized value at its ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, default_domain

Piece = tuple[float, float]
"""Numbers between two lines."""

_MOST = 1 << 16
"""Elements of a constant that is looked into."""


def constants(graph: GraphProto) -> dict[str, TensorProto]:
    """The constants of a graph."""
    held = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        tensor = tensors.of_constant(node) if node.op_type == "Constant" and node.output else None
        if tensor is not None:
            held[node.output[0]] = tensor
    return held


def range_of(held: Mapping[str, TensorProto], name: str) -> Piece | None:
    """The least and the largest number of a constant; None for what is none."""
    tensor = held.get(name)
    if tensor is None or not 0 < tensors.size(tensor) <= _MOST:
        return None
    values = tensors.array(tensor)
    if values is None or values.dtype.kind in "OSUc":
        return None
    return float(values.astype("float64").min()), float(values.astype("float64").max())


def pieces(node: NodeProto, held: Mapping[str, TensorProto]) -> Iterator[tuple[str, list[Piece]]]:
    """The values that a node computes something else of on either side of a line, each with the numbers in between."""
    if node.op_type not in _LOOKED_AT or default_domain(node.domain) or not node.input:
        return
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    if node.op_type in _LINES:
        yield node.input[0], _between(_LINES[node.op_type](attributes))
    elif node.op_type in _MOVING:
        yield node.input[0], [(-_MOVING[node.op_type], _MOVING[node.op_type])]
    elif node.op_type == "Clip":
        yield node.input[0], _between(_bounds(node, attributes, held))
    elif node.op_type == "QuantizeLinear":
        yield node.input[0], _between(_ends(node, attributes, held))
    elif node.op_type == "Where":
        yield node.input[0], _between([0.5])
    elif node.op_type in _TWO and len(node.input) == 2:
        for name, other in (tuple(node.input), tuple(node.input)[::-1]):
            found = range_of(held, other)
            if found is not None:
                yield name, _between([found[0]])


def _between(lines: list[float]) -> list[Piece]:
    ends = [-math.inf, *sorted({line for line in lines if math.isfinite(line) and abs(line) < _FAR}), math.inf]
    return list(pairwise(ends)) if len(ends) > 2 else []


def _bounds(node: NodeProto, attributes: Mapping[str, Any], held: Mapping[str, TensorProto]) -> list[float]:
    found = [float(attributes[name]) for name in ("min", "max") if name in attributes]
    return found + [known[0] for name in node.input[1:] if (known := range_of(held, name)) is not None]


def _ends(node: NodeProto, attributes: Mapping[str, Any], held: Mapping[str, TensorProto]) -> list[float]:
    """What becomes the least and the largest integer; of several scales, the outermost."""
    scale = range_of(held, node.input[1])
    zero = held.get(node.input[2]) if len(node.input) > 2 else None
    kind = zero.data_type if zero is not None else attributes.get("output_dtype") or TensorProto.UINT8
    if scale is None or kind not in _ENDS:
        return []
    low, high = range_of(held, node.input[2]) or (0.0, 0.0) if zero is not None else (0.0, 0.0)
    return [scale[1] * (_ENDS[kind][0] - high), scale[1] * (_ENDS[kind][1] - low)]


_FAR = 1e30
"""Lines farther away say that there is none."""

_LINES: dict[str, Callable[[Mapping[str, Any]], list[float]]] = {
    **dict.fromkeys(("Abs", "Celu", "Elu", "LeakyRelu", "PRelu", "Relu", "Selu", "Sign"), lambda _: [0.0]),
    "HardSigmoid": lambda a: _of_hard_sigmoid(a.get("alpha", 0.2), a.get("beta", 0.5)),
    "HardSwish": lambda _: [-3.0, 3.0],
    "Shrink": lambda a: [-a.get("lambd", 0.5), a.get("lambd", 0.5)],
    "ThresholdedRelu": lambda a: [a.get("alpha", 1.0)],
}


def _of_hard_sigmoid(alpha: float, beta: float) -> list[float]:
    return [-beta / alpha, (1 - beta) / alpha] if alpha else []


_MOVING = {"Erf": 3.0, "Gelu": 4.0, "Mish": 15.0, "Sigmoid": 16.0, "Softplus": 15.0, "Tanh": 8.0}
"""Up to which magnitude a function moves in a way that the precision of numbers shows."""

_TWO = frozenset(["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"])

_ENDS: dict[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}

_LOOKED_AT = {*_LINES, *_MOVING, *_TWO, "Clip", "QuantizeLinear", "Where"}


def upwards(node: NodeProto, held: Mapping[str, TensorProto]) -> tuple[str, Callable[[float], float]] | None:
    """What a node moves, scales or leaves as it is, and which number becomes one that it yields; None for all else."""
    if default_domain(node.domain) or not node.input:
        return None
    if node.op_type in _LEAVING:
        return node.input[0], lambda made: made
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2:
        return None
    known = [range_of(held, name) for name in node.input]
    second = known[0] is None
    found = known[1 if second else 0]
    if (known[0] is not None and known[1] is not None) or found is None:
        return None
    name, by = node.input[0 if second else 1], found[0]
    if node.op_type == "Add":
        return name, lambda made: made - by
    if node.op_type == "Sub":
        return name, (lambda made: made + by) if second else (lambda made: by - made)
    if node.op_type == "Mul":
        return (name, lambda made: made / by) if by else None
    return (name, lambda made: made * by) if second and by else None


_LEAVING = frozenset(["Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
