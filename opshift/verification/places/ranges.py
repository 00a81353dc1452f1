"""Between which numbers a value of a graph can lie, whatever the model is given.

What is claimed holds of finite numbers, and of values that have elements: the largest of none is the least there is.
Numbers outside are neither run by force nor said to lack; where nobody knows, None says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opshift.passes.analysis import scope
from opshift.passes.model import imports
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, default_domain
from opshift.verification.places.lines import Piece, constants, range_of

ANY: Piece = (-math.inf, math.inf)

_DEPTH = 32  # of values that are followed
_POSITIVE: Piece = (0, math.inf)

_WITHIN: Mapping[str, Piece] = {
    **dict.fromkeys(("Exp", "LpPool", "ReduceL2", "Relu", "Softplus", "Sqrt"), _POSITIVE),
    **dict.fromkeys(("Hardmax", "HardSigmoid", "Sigmoid", "Softmax"), (0, 1)),
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Not", "Or", "Xor"), (0, 1)),
    **dict.fromkeys(("Cos", "Erf", "Sin", "Softsign", "Tanh"), (-1, 1)),
    **dict.fromkeys(("BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "Gemm", "GroupNormalization"), ANY),
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "Log", "MatMul", "MatMulInteger"), ANY),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QuantizeLinear"), ANY),
    **dict.fromkeys(("Celu", "Elu", "Gelu", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Selu", "Swish"), ANY),
}
"""What operators yield of anything. Some of the last line yield nothing far below 0, which no form
of a model is written with in mind."""

_KEEPING = (
    *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "GlobalAveragePool", "Identity"),
    *("GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMean", "ReduceMin", "Reshape", "Slice", "SpaceToDepth", "Split"),
    *("Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze"),
)
"""What holds nothing but what the first input holds, or something between."""

_COUNTING = frozenset(["Abs", "Add", "Div", "Mul", "Neg", "Pow", "ReduceL1", "ReduceSum", "ReduceSumSquare", "Sub"])
"""What wraps around where numbers are whole: only of floats is something known."""
FLOATS = frozenset([TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
_WHOLE: Mapping[int, Piece] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
    TensorProto.INT32: (-(2.0**31), 2.0**31 - 1),
    TensorProto.INT64: (-(2.0**63), 2.0**63),
}

_BOUNDED = frozenset(["HardSigmoid", "Sigmoid", "Softsign", "Tanh"])
_SHARES = frozenset(["HardSigmoid", "Sigmoid"])


class Ranges:
    """The same of all values of a main graph."""

    def __init__(self, model: ModelProto):
        self._held = constants(model.graph)
        self._scope = scope.of_model(model, imports.opsets(model).get("", 1))
        self._makers = {name: (node, k) for node in model.graph.node for k, name in enumerate(node.output) if name}
        self._given = {value.name for value in model.graph.input}
        self._known: dict[str, Piece | None] = {}

    def of(self, name: str, depth: int = _DEPTH) -> Piece | None:
        """The least and the largest number; None where nobody knows."""
        if name in self._held:
            found = range_of(self._held, name)
            return found if found is not None and all(map(math.isfinite, found)) else ANY
        if name in self._given:
            return ANY
        if name not in self._known:
            self._known[name] = None
            self._known[name] = self._made(*self._makers[name], depth - 1) if name in self._makers and depth else None
        return self._known[name]

    def _made(self, node: NodeProto, index: int, depth: int) -> Piece | None:
        """What a node makes at the index of an output."""
        op = node.op_type
        if default_domain(node.domain):
            return None
        if op in ("GRU", "LSTM", "RNN"):
            return self._state(node, index, depth)
        if index and op != "Split":
            return None
        if op in _WITHIN:
            return _WITHIN[op]
        if op in _COUNTING:
            kind = self._scope.elem_type(node.output[0])
            if kind not in FLOATS:
                return ANY if kind else None
        given = [self.of(name, depth) if name else None for name in node.input]
        if op == "DequantizeLinear" and given[0] in (None, ANY):
            given[0] = _WHOLE.get(self._scope.elem_type(node.input[0]))
        return _RULES[op](node, given) if op in _RULES and given else None

    def _state(self, node: NodeProto, index: int, depth: int) -> Piece | None:
        """What a recurrent network yields: what its activations do, or what it begins with where it has no turn."""
        if node.op_type == "LSTM" and index == 2:  # the cell adds up
            return ANY
        names = _attributes(node).get("activations", [])
        shares = names[::2] if node.op_type == "GRU" else []  # how much of the state before is kept
        if not (_BOUNDED.issuperset(names) and _SHARES.issuperset(shares)):
            return None
        lengths, begun = [*node.input[4:6], "", ""][:2]
        if not begun or not (lengths or node.op_type == "GRU"):
            return -1, 1
        start = self.of(begun, depth)
        return _around((-1, 1), start) if start is not None else None


Given = Sequence[Piece | None]
Rule = Callable[[NodeProto, Given], "Piece | None"]


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute}


def _around(*pieces: Piece) -> Piece:
    return min(low for low, _ in pieces), max(high for _, high in pieces)


def _least(*pieces: Piece) -> Piece:
    return min(low for low, _ in pieces), min(high for _, high in pieces)


def _largest(*pieces: Piece) -> Piece:
    return max(low for low, _ in pieces), max(high for _, high in pieces)


def _added(*pieces: Piece) -> Piece:
    return sum(low for low, _ in pieces), sum(high for _, high in pieces)


def _negated(piece: Piece) -> Piece:
    return -piece[1], -piece[0]


def _product(one: Piece, other: Piece) -> Piece:
    ends = [a * b if a and b else 0.0 for a in one for b in other]
    return min(ends), max(ends)


def _quotient(one: Piece, other: Piece) -> Piece:
    if other[0] > 0 or other[1] < 0:
        return _product(one, (1 / other[1], 1 / other[0]))
    return _POSITIVE if one[0] >= 0 and other[0] >= 0 else ANY


def _power(base: Piece, exponent: Piece) -> Piece:
    return _POSITIVE if base[0] >= 0 or (exponent[0] == exponent[1] and not exponent[0] % 2) else ANY


def _total(data: Piece) -> Piece:
    return (0.0 if data[0] >= 0 else -math.inf), (0.0 if data[1] <= 0 else math.inf)


def _of_all(rule: Callable[..., Piece], since: int = 0) -> Rule:
    """A rule on what all inputs hold; beside one that is any number, what nobody knows is no matter."""

    def ruled(node: NodeProto, given: Given) -> Piece | None:
        pieces = [piece for piece, name in zip(given[since:], node.input[since:], strict=True) if name]
        known = [piece for piece in pieces if piece is not None]
        if len(known) == len(pieces):
            return rule(*known)
        return ANY if ANY in known else None

    return ruled


def _of_first(rule: Callable[[Piece], Piece]) -> Rule:
    return lambda _, given: rule(given[0]) if given[0] is not None else None


def _multiplied(node: NodeProto, given: Given) -> Piece | None:
    return _POSITIVE if node.input[0] == node.input[1] else _of_all(_product)(node, given)


def _at(node: NodeProto, given: Given, index: int, absent: Piece) -> Piece | None:
    """What an input holds that may be left out."""
    return given[index] if any(node.input[index : index + 1]) else absent


def _clipped(node: NodeProto, given: Given) -> Piece:
    held, found = _attributes(node), given[0] or ANY
    for index, name, choose, absent in ((1, "min", _largest, -math.inf), (2, "max", _least, math.inf)):
        bound = float(held.get(name, absent))
        found = choose(found, _at(node, given, index, (bound, bound)) or ANY)
    return found


def _cast(node: NodeProto, given: Given) -> Piece | None:
    to, found = int(_attributes(node).get("to", 0)), given[0]
    if to == TensorProto.BOOL:
        return 0, 1
    if to in FLOATS or found is None:
        return found
    low, high = _WHOLE.get(to, (0, 0))
    return found if low <= found[0] and found[1] <= high else ANY  # what is larger wraps around


def _padded(node: NodeProto, given: Given) -> Piece | None:
    held = _attributes(node)
    if held.get("mode", "constant") != "constant":
        return given[0]
    filled = _at(node, given, 2, (held.get("value", 0.0),) * 2)
    return _around(given[0], filled) if given[0] is not None and filled is not None else None


def _dequantized(node: NodeProto, given: Given) -> Piece:
    zero = _at(node, given, 2, (0, 0)) or ANY
    return _product(_added(given[0] or ANY, _negated(zero)), given[1] or ANY)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_KEEPING, lambda _, given: given[0]),
    **dict.fromkeys(("Abs", "ReduceL1", "ReduceSumSquare"), lambda *_: _POSITIVE),
    **dict.fromkeys(("Add", "Sum"), _of_all(_added)),
    **dict.fromkeys(("Concat", "Mean"), _of_all(_around)),
    "AveragePool": _of_first(lambda data: _around(data, (0, 0))),  # padding may count
    "Cast": _cast,
    "Clip": _clipped,
    "DequantizeLinear": _dequantized,
    "Div": _of_all(_quotient),
    "Dropout": lambda node, given: None if any(node.input[2:]) else given[0],  # training scales
    "Max": _of_all(_largest),
    "Min": _of_all(_least),
    "Mul": _multiplied,
    "Neg": _of_all(_negated),
    "Pad": _padded,
    "Pow": _of_all(_power),
    "ReduceSum": _of_first(_total),
    "Sub": _of_all(lambda one, other: _added(one, _negated(other))),
    "Where": _of_all(_around, since=1),
}
