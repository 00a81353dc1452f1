"""Between which numbers a value of a graph can lie, whatever the model is given."""

from __future__ import annotations

import math
from collections.abc import Mapping

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, default_domain
from opshift.verification.places.lines import Piece, range_of

ANY: Piece = (-math.inf, math.inf)

_DEPTH = 32  # of values that are followed

_WITHIN: Mapping[str, Piece] = {
    **dict.fromkeys(("Abs", "Exp", "ReduceL1", "ReduceL2", "ReduceSumSquare"), (0, math.inf)),
    **dict.fromkeys(("Relu", "Softplus", "Sqrt"), (0, math.inf)),
    **dict.fromkeys(("HardSigmoid", "Sigmoid", "Softmax"), (0, 1)),
    **dict.fromkeys(("Cos", "Erf", "GRU", "LSTM", "RNN", "Sin", "Softsign", "Tanh"), (-1, 1)),
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Not", "Or", "Xor"), (0, 1)),
    **dict.fromkeys(("BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DequantizeLinear", "Gemm"), ANY),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization", "LayerNormalization", "MatMul"), ANY),
    **dict.fromkeys(("MatMulInteger", "Neg", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Sub"), ANY),
    **dict.fromkeys(("Celu", "Elu", "Gelu", "HardSwish", "LeakyRelu", "Log", "Mish", "PRelu", "Selu", "Swish"), ANY),
}
"""What operators yield of anything; of these that never yield less than some small number, that is as good as 0."""

_KEEPING = frozenset(
    [
        "AveragePool",
        "Cast",
        "Concat",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
    ]
)
_KEEPING |= {"GlobalAveragePool", "GlobalMaxPool", "Max", "MaxPool", "Mean", "Min", "ReduceMax", "ReduceMean", "Slice"}
_KEEPING |= {"Identity", "ReduceMin", "Reshape", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
"""What yields nothing but what it is given, or something between."""

_FIRST = _KEEPING - {"Concat", "Max", "Mean", "Min"}


class Ranges:
    """The same of all values of a main graph."""

    def __init__(self, graph: GraphProto, held: Mapping[str, TensorProto]):
        self._held = held
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._given = {value.name for value in graph.input}
        self._known: dict[str, Piece | None] = {}

    def of(self, name: str, depth: int = _DEPTH) -> Piece | None:
        """The least and the largest number; None where nobody knows."""
        if name in self._held:
            return range_of(self._held, name) or ANY
        if name in self._given:
            return ANY
        if name not in self._known:
            node = self._makers.get(name)
            self._known[name] = None
            self._known[name] = self._made(node, depth - 1) if node is not None and depth else None
        return self._known[name]

    def _made(self, node: NodeProto, depth: int) -> Piece | None:
        if default_domain(node.domain):
            return None
        if node.op_type in _WITHIN:
            return _WITHIN[node.op_type]
        if node.op_type == "Clip":
            return self._clipped(node)
        names = node.input[:1] if node.op_type in _FIRST else node.input
        given = [self.of(name, depth) for name in names if name]
        if node.op_type in ("Mul", "Div", "Add", "Sum", "Where") and ANY in given:
            return (0, math.inf) if node.op_type == "Mul" and len(set(node.input)) == 1 else ANY
        if any(one is None for one in given) or not given:
            return None
        low, high = (f(end) for f, end in zip((min, max), zip(*filter(None, given), strict=True), strict=True))
        if node.op_type in _KEEPING or (node.op_type == "Where" and len(given) == 3):
            return low, high
        if node.op_type in ("Mul", "Div", "Add", "Sum", "ReduceSum"):
            return (0, math.inf) if low >= 0 else ANY
        if node.op_type == "Pow":
            return (0, math.inf) if given[0][0] >= 0 or given[1] == (2, 2) else ANY  # type: ignore[index]
        return None

    def _clipped(self, node: NodeProto) -> Piece:
        held = {a.name: float(attribute_value(a)) for a in node.attribute}
        ends = [range_of(self._held, name) if name else None for name in (*node.input[1:], "", "")][:2]
        low, high = (end[0] if end is not None else None for end in ends)
        return held.get("min", -math.inf if low is None else low), held.get("max", math.inf if high is None else high)
