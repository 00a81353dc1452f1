"""The dimensions of values of which the terms of sizes tell more than inference knows."""

from __future__ import annotations

from opshift.passes.fusion.keys import LEAF
from opshift.passes.fusion.reader import Dims, DimsRule, Reader
from opshift.passes.model.messages import NodeProto, normalize_domain
from opshift.passes.model.traversal import integer

_TO_THE_END = 2**31 - 1  # no axis is longer


def _same_dims(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    return before


def _broadcast(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    return reader.together([reader.dims(operand, depth - 1) for operand in node.input])


def _reshape(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    target = reader.elements(node.input[1]) if len(node.input) > 1 else None
    return None if target is None else reader.target(node, target, before)


def _expand(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    return reader.together([before, reader.elements(node.input[1])])


def _transpose(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    if before is None:
        return None
    perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), list(range(len(before)))[::-1])
    return tuple(before[axis] for axis in perm) if sorted(perm) == list(range(len(before))) else None


def _multiply(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    other = reader.dims(node.input[1], depth - 1)
    if before is None or other is None or len(before) < 2 or len(other) < 2:
        return None
    outer = reader.together([before[:-2], other[:-2]])
    return None if outer is None else (*outer, before[-2], other[-1])


def _reduce(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    axes = None if before is None else reader.axes(node)
    if before is None or axes is None:
        return None
    places, kept = {axis % len(before) for axis in axes}, integer(node, "keepdims", 1)
    one = reader.terms.number(1)
    return tuple(one if axis in places else dim for axis, dim in enumerate(before) if kept or axis not in places)


def _gather(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    places = reader.dims(node.input[1], depth - 1)
    if before is None or places is None:
        return None
    axis = integer(node, "axis", 0) % len(before)
    return (*before[:axis], *places, *before[axis + 1 :])


def _pick(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    return reader.dims(node.input[1], depth - 1)


def _join(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    """Those of a Concat; along its own axis only a number can be told."""
    parts = [before, *(reader.dims(name, depth - 1) for name in node.input[1:])]
    known = [part for part in parts if part is not None]
    if before is None or len(known) < len(parts) or len({len(part) for part in known}) > 1:
        return None
    axis = integer(node, "axis", 1) % len(before)
    sizes = [reader.terms.value(part[axis]) for part in known]
    numbers = [size for size in sizes if size is not None and size >= 0]
    total = reader.terms.number(sum(numbers) if len(numbers) == len(sizes) else -1)
    return (*before[:axis], total, *before[axis + 1 :])


def _dims_of_slice(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    """Read the dimensions of a Slice along one axis, with constant bounds or from 0 to some size."""
    if before is None or len(node.input) < 4:
        return None
    ends, known = reader.elements(node.input[2]), reader.ints(node.input[2])
    bounds = [reader.ints(name) if name else (1,) for name in (node.input[1], *node.input[3:])]
    if ends is None or len(ends) != 1 or any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, axis, *steps = (bound[0] for bound in bounds if bound)
    size, end = reader.terms.value(before[axis]), None if known is None else known[0]
    if start == 0 and end is not None and end >= _TO_THE_END and steps in ([], [1]):
        return before
    if size is None or size < 0 or steps not in ([], [1]):
        return None
    made = list(before)
    if end is not None:
        made[axis] = reader.terms.number(len(range(int(size))[start:end]))
    elif start == 0 and reader.terms.keys[ends[0]].kind == LEAF:
        made[axis] = reader.terms.op("Least", (("most", size),), ends[0])
    else:
        return None
    return tuple(made)


def _piece(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    """Those of each element of a sequence that a value was split into, if they are the same."""
    maker = reader.scope.maker(node.input[0])
    if maker is None or maker.op_type != "SplitToSequence" or normalize_domain(maker.domain) or len(maker.input) < 2:
        return None
    whole, size = reader.dims(maker.input[0], depth - 1), reader.terms.value(reader.term(maker.input[1]))
    if whole is None or size is None:
        return None
    axis, made = integer(maker, "axis", 0), list(whole)
    length = reader.terms.value(whole[axis])
    if length is None or size <= 0 or length % size:
        return None
    made[axis] = reader.terms.number(size)
    return tuple(made)


def _unsqueeze(reader: Reader, node: NodeProto, before: Dims | None, depth: int) -> Dims | None:
    axes = reader.ints(node.input[1]) if len(node.input) > 1 else None
    if axes is None:
        axes = next((tuple(a.ints) for a in node.attribute if a.name == "axes"), None)
    if before is None or not axes:
        return None
    rank = len(before) + len(axes)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(places) != len(axes):
        return None
    left = iter(before)
    return tuple(reader.terms.number(1) if axis in places else next(left) for axis in range(rank))


_KEEPING = (
    "Abs Cast CastLike Clip Cos Dropout Erf Exp Gelu HardSwish Identity LayerNormalization Log Neg Not "
    "RMSNormalization Reciprocal Relu Sigmoid Sin Softmax Sqrt Swish Tanh Trilu"
)
_BROADCASTING = "Add And Div Equal Greater Less Max Min Mul Or Pow Sub Where"

RULES: dict[str, DimsRule] = {
    **dict.fromkeys(_KEEPING.split(), _same_dims),
    **dict.fromkeys(_BROADCASTING.split(), _broadcast),
    "Concat": _join,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _pick,
    "MatMul": _multiply,
    **dict.fromkeys(["ReduceMax", "ReduceMean", "ReduceSum"], _reduce),
    "Reshape": _reshape,
    "SequenceAt": _piece,
    "Slice": _dims_of_slice,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
