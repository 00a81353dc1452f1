"""Between which numbers the integers of a model lie, as shapes, indices, constants and arithmetic on them tell.

Where nothing tells it, a range is assumed, and what was assumed is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import inf, isfinite, prod, trunc
from typing import NamedTuple

from opshift.passes.model import tensors
from opshift.passes.model.messages import FunctionProto, GraphProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import results
from opshift.passes.types.constants import read
from opshift.passes.types.problem import Place, Problem, Value

T = TensorProto

MOST = 2**31 - 1
"""The largest int32; no size is larger."""
ASSUMED = 2**20
"""How large numbers are taken to be at most that nothing bounds."""
SIZES = "sizes, and what is computed of them, are below 2^31"
BOUNDED = "sizes are at most those of --input-shape"


class Interval(NamedTuple):
    """The least and the largest number of a value, and what was assumed to know them."""

    low: float
    high: float
    basis: frozenset[str] = frozenset()

    @property
    def fits(self) -> bool:
        """Whether all its numbers are int32."""
        return self.low >= -MOST - 1 and self.high <= MOST

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))

    def join(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high), self.basis | other.basis)


SIZED = Interval(0, MOST, frozenset([SIZES]))
Known = Interval | None
_TYPES: Mapping[int, Interval] = {
    T.BOOL: Interval(0, 1),
    T.INT8: Interval(-128, 127),
    T.UINT8: Interval(0, 255),
    T.INT16: Interval(-(2**15), 2**15 - 1),
    T.UINT16: Interval(0, 2**16 - 1),
    T.INT32: Interval(-MOST - 1, MOST),
    T.UINT32: Interval(0, 2**32 - 1),
}
_MOVING = frozenset(
    [
        *("Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Tile", "Slice", "Split"),
        *("Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence", "DepthToSpace", "SpaceToDepth"),
        *("ReduceMax", "ReduceMin", "TopK", "Unique", "Ceil", "Floor", "Round"),
    ]
)
"""Operators whose first result holds numbers of their first input, or such as lie among them."""
_KEEPING = frozenset(
    [
        *("Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Tile"),
        *("ReverseSequence", "DepthToSpace", "SpaceToDepth"),
    ]
)
"""Operators whose result holds all numbers of their first input; Slice may take one column of many."""
_INDICES = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1, "NonMaxSuppression": 0, "Shape": 0, "Size": 0}
"""Which output of an operator holds indices, or sizes."""


class Ranges:
    """The ranges of all values of a problem.

    Args:
        problem: the model.
        shape: tells the sizes of a value of the main graph.
        folder: where external data lie.
        given: what the user says of inputs, by name; an empty name is for all others.
        open_ends: values that hold ends of Slice alone, by identity: those beyond int32 mean what its ends mean.
        bound: tells the largest sizes of a value of the main graph; None where nothing bounds sizes.
    """

    def __init__(
        self,
        problem: Problem,
        shape: Callable[[str], Sequence[int | str | None] | None],
        folder: str | None,
        given: Mapping[str, tuple[float, float]],
        open_ends: Container[int] = (),
        bound: Callable[[str], Sequence[int | str | None] | None] | None = None,
    ):
        self._problem = problem
        self._shape = shape
        self._folder = folder
        self._given = given
        self._open_ends = open_ends
        self._bound = bound
        self._known: dict[tuple[int, str], Known] = {}
        for value in problem.main.values.values():
            if value.maker < 0 and value.tensor is None:
                self._known[id(problem.main), value.name] = self._of_input(value)
        self._run(problem.main)

    def of(self, value: Value) -> Known:
        """The range of a value; None where nothing bounds it."""
        if id(value) in self._open_ends:
            return Interval(-MOST - 1, MOST)
        key = id(value.place), value.name
        if key not in self._known:
            self._known[key] = self._of_constant(value.tensor) if value.tensor is not None else None
        return self._known[key]

    def _find(self, place: Place, name: str) -> Known:
        value = place.find(name) if name else None
        return self.of(value) if value is not None else None

    def _of_constant(self, tensor: TensorProto) -> Known:
        held = read(tensor, self._folder)
        if held is None or held.dtype.kind not in "iufb":
            return None
        if not held.size:
            return Interval(0, 0)
        low, high = held.min().item(), held.max().item()
        return Interval(low, high) if isfinite(low) and isfinite(high) else None

    def _of_input(self, value: Value) -> Known:
        if value.elem_type != T.INT64:
            return _TYPES.get(value.elem_type)
        if (given := self._given.get(value.name, self._given.get(""))) is not None:
            return Interval(trunc(given[0]), trunc(given[1]), frozenset([f'"{value.name}" lies in {list(given)}']))
        if (length := self._table(value)) is not None:
            said = f'"{value.name}" holds indices of a table of {length}'
            return Interval(-length, length - 1, frozenset([said]))
        said = f'"{value.name}" lies within 2^20 of 0; --val-range tells otherwise'
        return Interval(-ASSUMED, ASSUMED, frozenset([said]))

    def _table(self, value: Value) -> int | None:
        """The length of the shortest axis that all numbers of a value point into, whatever branch is taken."""
        found: list[int] = []
        pending, seen = [value], set[tuple[int, int]]()
        while pending:
            each = pending.pop()
            for place, index, at in each.readers:
                if index < 0 or place is not value.place or (id(place), index) in seen:
                    continue
                node = place.nodes[index]
                if node.op_type == "Gather" and at == 1 and not normalize_domain(node.domain):
                    data = place.find(node.input[0])
                    shape = self._sizes(place, data) if data is not None else None
                    axis = int(place.value_of(node, "axis", 0))
                    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
                    found += [size] if isinstance(size, int) and size > 0 else []
                elif node.op_type in _KEEPING and at == 0:
                    seen.add((id(place), index))
                    made = place.values.get(node.output[0])
                    pending += [made] if made is not None else []
        return min(found, default=None)

    def _sizes(self, place: Place, value: Value | None) -> Sequence[int | str | None] | None:
        if value is None:
            return None
        if value.tensor is not None:
            return list(value.tensor.dims)
        return self._shape(value.name) if value.place is self._problem.main else None

    # --- nodes --------------------------------------------------------------------------------------------------

    def _run(self, place: Place) -> None:
        for index, node in enumerate(place.nodes):
            if node.op_type in ("If", "Loop", "Scan"):
                self._inner(place, index, node)
            elif index in place.calls:
                self._call(place, index, node)
            elif node.op_type != "Constant" or normalize_domain(node.domain):
                for at, name in enumerate(node.output):
                    if name:
                        known = self._range_of_output(place, node, at)
                        self._known[id(place), name] = _wrap(known, place.values.get(name))

    def _call(self, place: Place, index: int, node: NodeProto) -> None:
        inner = place.calls[index]
        function = inner.body
        assert isinstance(function, FunctionProto), "calls are of functions"
        for formal, name in zip(function.input, node.input, strict=False):
            self._known[id(inner), formal] = self._find(place, name)
        self._run(inner)
        for name, formal in zip(node.output, function.output, strict=False):
            if name:
                self._known[id(place), name] = self._find(inner, formal)

    def _inner(self, place: Place, index: int, node: NodeProto) -> None:
        """If yields what its branches do; what a Loop carries is bounded only where no round moves the bounds."""
        bodies = [inner for (at, _, _), inner in place.inner.items() if at == index]
        if node.op_type != "If":
            for inner in bodies:
                self._loop(place, inner, node)
            return
        for inner in bodies:
            self._run(inner)
        for at, name in enumerate(node.output):
            yielded = (self._find(inner, results(inner.body)[at]) for inner in bodies)
            self._known[id(place), name] = _join(yielded)

    def _loop(self, place: Place, inner: Place, node: NodeProto) -> None:
        head = 2 if node.op_type == "Loop" else 0  # the count of rounds and the condition
        body = inner.body
        formals = [value.name for value in body.input] if isinstance(body, GraphProto) else []
        if head and formals:
            self._known[id(inner), formals[0]] = Interval(0, MOST - 1, frozenset([SIZES]))
        given = zip(formals[head:], node.input[head:], strict=False)
        carried = {formal: self._find(place, name) for formal, name in given}
        yielded = results(body)[head - 1 if head else 0 :]
        moved = True
        while moved:
            self._known.update({(id(inner), formal): known for formal, known in carried.items()})
            self._run(inner)
            moved = False
            for formal, name in zip(carried, yielded, strict=False):
                start, last = carried[formal], self._find(inner, name)
                if start is not None and (last is None or last.low < start.low or last.high > start.high):
                    carried[formal], moved = None, True
        starts = [*carried.values(), *([None] * len(yielded))]
        for made, name, start in zip(node.output, yielded, starts, strict=False):
            if made:
                last = self._find(inner, name)
                self._known[id(place), made] = last if name not in yielded[: len(carried)] else _join([start, last])

    def _range_of_output(self, place: Place, node: NodeProto, at: int) -> Known:
        op = node.op_type
        if normalize_domain(node.domain):
            return None
        if _INDICES.get(op) == at:
            return self._range_of_sizes(place, node)
        if op == "Unique" and at:
            return SIZED
        read = [self._find(place, name) for name in node.input]
        rule = _RULES.get(op)
        if rule is not None:
            return rule(self, place, node, read)
        if op in _MOVING:
            return read[0] if read else None
        return None

    def _largest(self, place: Place, value: Value | None) -> tuple[list[int], frozenset[str]] | None:
        """The sizes of a value, or the largest that it has, and what was assumed to know them."""
        shape = self._sizes(place, value)
        sizes = [size for size in shape or () if isinstance(size, int)]
        if shape is not None and len(sizes) == len(shape):
            return sizes, frozenset()
        if self._bound is None or value is None or value.place is not self._problem.main:
            return None
        shape = self._bound(value.name)
        sizes = [size for size in shape or () if isinstance(size, int)]
        return (sizes, frozenset([BOUNDED])) if shape is not None and len(sizes) == len(shape) else None

    def _range_of_sizes(self, place: Place, node: NodeProto) -> Interval:
        """Sizes, or indices below them: known ones as they are."""
        largest = self._largest(place, place.find(node.input[0]))
        if node.op_type == "NonMaxSuppression":  # batches, classes and boxes
            largest = self._largest(place, place.find(node.input[1]))
        if largest is None:
            return SIZED
        sizes, basis = largest
        if node.op_type == "Shape":
            held = sizes[slice(place.value_of(node, "start", 0), place.value_of(node, "end"))]
            return Interval(0 if basis else min(held, default=0), max(held, default=0), basis)
        count = prod(sizes)
        if node.op_type == "Size":
            return Interval(0 if basis else count, count, basis)
        return Interval(0, max(sizes, default=1), basis)

    def count(self, place: Place, node: NodeProto, at: int = 0) -> Interval:
        """How many elements of an input are added up at most."""
        largest = self._largest(place, place.find(node.input[at]))
        if largest is None:
            return Interval(1, MOST, frozenset([SIZES]))
        sizes, basis = largest
        return Interval(0 if basis else min(prod(sizes), 1), prod(sizes), basis)

    def cast(self, place: Place, node: NodeProto) -> Known:
        """What a number that was cast lies between."""
        value = place.find(node.input[0])
        if value is None:
            return _assume("what is cast")
        known = self.of(value)
        if known is not None:
            return Interval(trunc(known.low), trunc(known.high), known.basis)
        return _TYPES.get(value.elem_type) or _assume("what is cast to integers")


def _wrap(known: Known, value: Value | None) -> Known:
    """The range of a result in its own type: 1 - 2 is 255 in uint8."""
    limit = _TYPES.get(value.elem_type) if value is not None else None
    if known is None or limit is None or (limit.low <= known.low and known.high <= limit.high):
        return known
    return limit


def _assume(what: str) -> Interval:
    return Interval(-ASSUMED, ASSUMED, frozenset([f"{what} is between -2^20 and 2^20"]))


def _join(known: Iterable[Known]) -> Known:
    held = list(known)
    if not held or any(each is None for each in held):
        return None
    first, *rest = [each for each in held if each is not None]
    for each in rest:
        first = first.join(each)
    return first


def _corners(a: Interval, b: Interval, compute: Callable[[float, float], float]) -> Interval:
    """A result that is largest and least where its operands are; of sizes it is taken to be a size, too."""
    ends = [compute(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    found = Interval(min(ends), max(ends), a.basis | b.basis)
    if all(SIZES in each.basis or each.size <= ASSUMED for each in (a, b)) and SIZES in found.basis:
        return found._replace(low=max(found.low, -MOST), high=min(found.high, MOST))
    return found


Rule = Callable[[Ranges, Place, NodeProto, Sequence[Known]], Known]


def _arithmetic(compute: Callable[[float, float], float]) -> Rule:
    def rule(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
        first, *rest = read
        for each in rest:
            if first is None or each is None:
                return None
            first = _corners(first, each, compute)
        return first

    return rule


def _product(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    a, b = read
    if a is None or b is None:
        return None
    found = _corners(a, b, lambda x, y: x * y)
    others = [each for each in (a, b) if SIZES not in each.basis]
    if SIZES in found.basis and any(each.basis for each in others):  # numbers of an input, as many as there are sizes
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return found._replace(low=min(ends), high=max(ends))
    return found


def _quotient(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    a, b = read
    if a is None:
        return None
    least = 1.0
    if b is not None and (b.low > 0 or b.high < 0):
        least = min(abs(b.low), abs(b.high))
    basis = a.basis | (b.basis if b is not None else frozenset())
    value = place.find(node.output[0])
    if value is not None and value.elem_type in (T.FLOAT, T.DOUBLE, T.FLOAT16) and (b is None or b.low <= 0 <= b.high):
        return None
    size = a.size / least
    low = 0 if a.low >= 0 and b is not None and b.low >= 0 else -size
    high = 0 if a.high <= 0 and b is not None and b.low >= 0 else size
    return (
        Interval(trunc(low), trunc(high), basis)
        if value is None or value.elem_type == T.INT64
        else Interval(low, high, basis)
    )


def _remainder(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    a, b = read
    if b is None:
        return a if a is None else Interval(-a.size, a.size, a.basis)
    low = 0 if b.low >= 0 and (not place.value_of(node, "fmod", 0) or (a is not None and a.low >= 0)) else -b.size
    return Interval(low, b.size, b.basis | (a.basis if a is not None else frozenset()))


def _sum(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    """As many numbers as there are elements; of zeros and ones, it counts them."""
    if read[0] is None:
        return None
    count = ranges.count(place, node)
    if SIZES in count.basis and read[0].size > 1 and SIZES not in read[0].basis:
        return None
    found = _corners(read[0], count, lambda x, y: x * y)
    return Interval(min(found.low, read[0].low), max(found.high, read[0].high), found.basis)


def _whole_product(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    """Of sizes, which is a size; of numbers that are known, as many as there are."""
    count = ranges.count(place, node)
    if read[0] is None or read[0].low < 0 or SIZES in read[0].basis:
        return read[0] if read[0] is not None and read[0].low >= 0 else None
    if SIZES in count.basis or count.high > 64:
        return None
    return Interval(0, max(read[0].high, 1) ** count.high, read[0].basis)


def _powers(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    a, b = read
    if a is None or b is None or b.low < 0 or b.high > 62:
        return None
    size = a.size**b.high
    return Interval(0 if a.low >= 0 or (b.low == b.high and b.low % 2 == 0) else -size, size, a.basis | b.basis)


def _clip(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    """min(max(x, low), high)"""
    bounds = []
    for at, name, open_end in ((1, "min", -inf), (2, "max", inf)):
        held = place.value_of(node, name)
        end = Interval(open_end, open_end) if held is None else Interval(held, held)
        bounds.append(read[at] if len(read) > at and node.input[at] else end)
    a = read[0] or Interval(-inf, inf)
    least, most = (each or Interval(-inf, inf) for each in bounds)
    low, high = min(max(a.low, least.low), most.low), min(max(a.high, least.high), most.high)
    return Interval(low, high, a.basis | least.basis | most.basis) if isfinite(low) and isfinite(high) else None


def _extreme(choose: Callable[[Iterable[float]], float]) -> Rule:
    def rule(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
        held = [each for each in read if each is not None]
        if not held or len(held) < len(read):
            return None
        basis = frozenset[str]().union(*(each.basis for each in held))
        return Interval(choose(each.low for each in held), choose(each.high for each in held), basis)

    return rule


def _progression(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    return _join(read[:2])


def _fill(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    held = place.value_of(node, "value")
    array = tensors.array(held) if held is not None else None
    return Interval(0, 0) if array is None or not array.size else Interval(array.min().item(), array.max().item())


def _pad(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    fill = read[2] if len(read) > 2 and node.input[2] else Interval(0, 0)
    return _join([read[0], fill])


def _negate(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    return None if read[0] is None else Interval(-read[0].high, -read[0].low, read[0].basis)


def _magnitude(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    return None if read[0] is None else Interval(0, read[0].size, read[0].basis)


def _mask(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    held = [each for each in read if each is not None and each.low >= 0]
    return Interval(0, min(each.high for each in held), held[0].basis) if held else None


def _scatter(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    """Numbers of both; `reduction` may add up all updates in one place."""
    found, reduction = _join([read[0], read[2]]), place.value_of(node, "reduction", "none")
    if found is None or reduction in ("none", "max", "min"):
        return found
    count = ranges.count(place, node, 2)
    if reduction != "add" or (SIZES in count.basis and found.size > 1):
        return None
    times = count.high + (SIZES not in count.basis)  # and the number that was there; a count of ones is a size
    low, high = found.low * times, found.high * times
    return Interval(min(found.low, low), max(found.high, high), found.basis | count.basis)


def _one_hot(ranges: Ranges, place: Place, node: NodeProto, read: Sequence[Known]) -> Known:
    return read[2] if len(read) > 2 else None


_RULES: Mapping[str, Rule] = {
    "Abs": _magnitude,
    "Add": _arithmetic(lambda x, y: x + y),
    "BitwiseAnd": _mask,
    "Cast": lambda ranges, place, node, read: ranges.cast(place, node),
    "CastLike": lambda ranges, place, node, read: ranges.cast(place, node),
    "Clip": _clip,
    "Concat": lambda ranges, place, node, read: _join(read),
    "ConstantOfShape": _fill,
    "CumSum": _sum,
    "Div": _quotient,
    "Max": _extreme(max),
    "Min": _extreme(min),
    "Mod": _remainder,
    "Mul": _product,
    "Neg": _negate,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Pow": _powers,
    "Range": _progression,
    "ReduceProd": _whole_product,
    "ReduceSum": _sum,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Sign": lambda ranges, place, node, read: Interval(-1, 1),
    "Sub": _arithmetic(lambda x, y: x - y),
    "Sum": _arithmetic(lambda x, y: x + y),
    "Trilu": lambda ranges, place, node, read: _join([read[0], Interval(0, 0)]),
    "Where": lambda ranges, place, node, read: _join(read[1:]),
}
