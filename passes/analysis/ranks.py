"""Find ranks by operators alone: a Relu has the rank of its input, whatever the sizes are.

This answers most questions about ranks, so that types of the whole model need not be inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.model import tensors
from opshift.passes.model.messages import NodeProto, normalize_domain
from opshift.passes.model.types import Dim, dims_of

_NEARBY = 64  # the most nodes that are looked at for one question

_CUT_OFF = [
    "Celu",
    "Clip",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "PRelu",
    "Relu",
    "Selu",
    "ThresholdedRelu",
]
_SMOOTH = ["LogSoftmax", "Mish", "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh"]
_NUMBERS = ["Abs", "Cast", "Ceil", "Erf", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sqrt"]
_NORMALIZED = ["BatchNormalization", "Dropout", "InstanceNormalization", "LRN", "LayerNormalization"]
_MOVED = ["AveragePool", "Concat", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Pad", "ScatterElements", "Slice"]
_IN_PARTS = ["Split", "TopK"]  # all outputs have the rank of the first input
SIZED_AS_THE_FIRST = frozenset([*_CUT_OFF, *_SMOOTH, *_NUMBERS, *_NORMALIZED, "Identity"])
"""Operators whose first output has the shape of their first input."""

_AS_THE_FIRST = frozenset([*SIZED_AS_THE_FIRST, *_MOVED, *_IN_PARTS])
"""Operators whose first output has the rank of their first input."""

_AS_THE_SECOND = frozenset(["Conv", "ConvTranspose"])
"""Operators whose output has the rank of their second input, the weights, whose type is mostly known."""

_LOGIC = ["And", "Equal", "Greater", "Less", "Or", "Where", "Xor"]
_ARITHMETIC = ["Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum"]
BROADCAST = frozenset([*_LOGIC, *_ARITHMETIC])
BROADCAST_SINCE = 8  # from this opset on, all of these broadcast


def rank(scope: KnownBody, name: str) -> int | None:
    """Find the rank of a tensor; None if the nodes nearby do not tell it."""
    return RankLook().rank(scope, name)


class RankLook:
    """Answers one question, and looks at `_NEARBY` nodes at most."""

    def __init__(self) -> None:
        self._left = _NEARBY

    def rank(self, scope: KnownBody, name: str) -> int | None:
        owner = scope.owner(name) if name else None
        if owner is None:
            return None
        if (dims := certain_dims(owner, name)) is not None:
            return len(dims)
        made = self.maker(owner, name)
        if made is None:
            return None
        node, opset = made
        if node.op_type in _AS_THE_FIRST:
            return self.rank(owner, node.input[0])
        if node.op_type in _AS_THE_SECOND:
            return self.rank(owner, node.input[1])
        if node.op_type in BROADCAST:
            return max(_all(self.rank, owner, node.input), default=None) if opset >= BROADCAST_SINCE else None
        return _RANKS[node.op_type](self, owner, node) if node.op_type in _RANKS else None

    def length(self, scope: KnownBody, name: str) -> int | None:
        """Find the length of a vector; None if the nodes nearby do not tell it."""
        owner = scope.owner(name) if name else None
        if owner is None:
            return None
        if (dims := certain_dims(owner, name)) is not None:
            return dims[0] if len(dims) == 1 and isinstance(dims[0], int) else None
        made = self.maker(owner, name)
        return _LENGTHS[made[0].op_type](self, owner, made[0]) if made and made[0].op_type in _LENGTHS else None

    def maker(self, owner: KnownBody, name: str) -> tuple[NodeProto, int] | None:
        """Find the node that computes a value as its first output, and its opset; None once too many were looked at."""
        self._left -= 1
        made = owner.source_of(name) if self._left >= 0 else None
        if made is None or normalize_domain(made[0].domain):
            return None
        return made if made[0].output[0] == name or made[0].op_type in _IN_PARTS else None


def certain_dims(owner: KnownBody, name: str) -> list[Dim] | None:
    known = owner.certain(name)
    return None if known is None else dims_of(known)


def _all(ask: Callable[[KnownBody, str], int | None], owner: KnownBody, names: Sequence[str]) -> list[int]:
    """Ask about all names; returns an empty list if one answer is unknown."""
    found = list[int]()
    for name in names:
        answer = ask(owner, name)
        if answer is None:
            return []
        found.append(answer)
    return found


def _rank_of_transpose(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    order = read_ints_attribute(node, "perm")
    return len(order) if order else look.rank(owner, node.input[0])


def _rank_of_product(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    ranks = _all(look.rank, owner, node.input)
    return max(ranks) if ranks and min(ranks) > 1 else None


def _rank_of_reshape(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    if len(node.input) < 2:
        return len(read_ints_attribute(node, "shape") or ()) or None
    return look.length(owner, node.input[1])


def _rank_of_squeeze(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    axes, before = _axes(owner, node), look.rank(owner, node.input[0])
    return before - len(axes) if before is not None and axes and before >= len(axes) else None


def _rank_of_unsqueeze(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    axes, before = _axes(owner, node), look.rank(owner, node.input[0])
    return before + len(axes) if before is not None and axes else None


def _rank_of_matrix(look: RankLook, owner: KnownBody, node: NodeProto) -> int:
    return 2


def _rank_of_gather(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    ranks = _all(look.rank, owner, node.input)
    return sum(ranks) - 1 if ranks and ranks[0] else None


def _length_of_input(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    return look.length(owner, node.input[0])


def _length_of_concat(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    lengths = _all(look.length, owner, node.input)
    return sum(lengths) if lengths else None


def _length_of_shape(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    return None if node.attribute else look.rank(owner, node.input[0])


def _length_of_slice(look: RankLook, owner: KnownBody, node: NodeProto) -> int | None:
    whole, bounds = look.length(owner, node.input[0]), list[int]()
    for name in node.input[1:]:
        held = read_held_integers(owner, name)
        if held is None or len(held) != 1:
            return None
        bounds += held
    if whole is None or not 2 <= len(bounds) <= 4:
        return None
    start, end, axis, step = (*bounds, 0, 1) if len(bounds) == 2 else (*bounds, 1)[:4]
    return len(range(whole)[start:end:step]) if axis in (0, -1) and step > 0 else None


def _axes(owner: KnownBody, node: NodeProto) -> list[int] | None:
    """Read the axes of a node, in an attribute or an input; None if they are dynamic, or if all are meant."""
    axes = read_ints_attribute(node, "axes") if len(node.input) < 2 else read_held_integers(owner, node.input[1])
    return axes if axes and len(set(axes)) == len(axes) else None


def read_held_integers(owner: KnownBody, name: str) -> list[int] | None:
    held = owner.tensor(name, tensors.SMALL) if name else None
    return None if held is None else tensors.integers(held)


def read_ints_attribute(node: NodeProto, name: str) -> list[int] | None:
    return next((list(a.ints) for a in node.attribute if a.name == name and not a.ref_attr_name), None)


_Tell = Callable[[RankLook, KnownBody, NodeProto], "int | None"]
_RANKS: dict[str, _Tell] = {
    "ConstantOfShape": _length_of_input,
    "Flatten": _rank_of_matrix,
    "Gather": _rank_of_gather,
    "Gemm": _rank_of_matrix,
    "MatMul": _rank_of_product,
    "Reshape": _rank_of_reshape,
    "Squeeze": _rank_of_squeeze,
    "Transpose": _rank_of_transpose,
    "Unsqueeze": _rank_of_unsqueeze,
}
_LENGTHS: dict[str, _Tell] = {
    "Cast": _length_of_input,
    "Concat": _length_of_concat,
    "Shape": _length_of_shape,
    "Slice": _length_of_slice,
}
