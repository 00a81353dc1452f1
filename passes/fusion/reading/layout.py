"""How operators that move elements are read: shapes and what is computed from them, Reshape, Transpose."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.fusion.keys import NUMBER, ONES, TENSOR, VECTOR, Key
from opshift.passes.fusion.reader import FLOATS, Reader, Rule
from opshift.passes.fusion.terms import Terms
from opshift.passes.model import numbers
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.model.traversal import integer

_SMALL = 32  # axes
_LAST = (0, 1, 3, 2)  # the last two axes change places


def vector(terms: Terms, elements: tuple[int, ...]) -> int:
    """A vector of integers: a constant, if all of its elements are."""
    values = [terms.value(element) for element in elements]
    if len(values) == 1 and values[0] is not None:
        return terms.of(ONES, values[0], 1)
    if values and all(value is not None and value.is_integer() for value in values):
        return terms.of(TENSOR, TensorProto.INT64, (len(values),), tuple(int(v) for v in values if v is not None))
    return terms.of(VECTOR, elements)


def _shape(reader: Reader, node: NodeProto) -> int | None:
    dims = reader.dims(node.input[0])
    if dims is None:
        return None
    return vector(reader.terms, dims[slice(integer(node, "start", 0), integer(node, "end", len(dims)))])


def _gather(reader: Reader, node: NodeProto) -> int | None:
    """An element of a shape, or several."""
    elements, places = reader.elements(node.input[0]), reader.ints(node.input[1])
    if elements is None or places is None or integer(node, "axis", 0):
        return None
    if not all(-len(elements) <= place < len(elements) for place in places):
        return None
    if reader.terms.keys[reader.term(node.input[1])].kind == NUMBER:
        return elements[places[0]]
    return vector(reader.terms, tuple(elements[place] for place in places))


def _fill(reader: Reader, node: NodeProto) -> int | None:
    """A small constant of one value."""
    held = next((a.t for a in node.attribute if a.name == "value"), None)
    values = [0.0] if held is None else numbers.read(held)
    sizes = [reader.terms.value(size) for size in reader.elements(node.input[0]) or ()]
    if not values or len(sizes) != 1 or sizes[0] is None or not 0 < sizes[0] <= numbers.FEW:
        return None
    return vector(reader.terms, (reader.terms.number(values[0]),) * int(sizes[0]))


def _count(reader: Reader, node: NodeProto) -> int | None:
    """A small Range of constants."""
    values = [reader.terms.value(reader.term(name)) for name in node.input]
    if None in values or reader.elem_type(node.input[0]) in FLOATS:
        return None
    start, limit, delta = (int(value) for value in values if value is not None)
    counted = range(start, limit, delta) if delta else ()
    return vector(reader.terms, tuple(map(reader.terms.number, counted))) if 0 < len(counted) <= _SMALL else None


def elementwise(compute: Callable[[Terms, list[int]], int | None]) -> Rule:
    """What is computed for each element of shapes of the same length, or of one number; not of those of scalars."""

    def rule(reader: Reader, node: NodeProto) -> int | None:
        terms, parts = reader.terms, [reader.elements(name) for name in node.input]
        for index, name in enumerate(node.input):
            if parts[index] is None and terms.value(reader.term(name)) is not None:
                parts[index] = (reader.term(name),)
        sizes = {len(part) for part in parts if part is not None}
        if None in parts or 0 in sizes or len(sizes - {1}) != 1:
            return None
        made = []
        for place in range(max(sizes)):
            made.append(compute(terms, [part[place if len(part) > 1 else 0] for part in parts if part]))
        return None if None in made else vector(terms, tuple(term for term in made if term is not None))

    return rule


def same_size(terms: Terms, pair: list[int]) -> int | None:
    """Whether two dimensions are the same; none is negative."""
    a, b = (terms.value(term) for term in pair)
    if pair[0] == pair[1]:
        return terms.number(1)
    if a is not None and b is not None:
        return terms.number(a == b)
    stated = b if a is None else a
    return terms.number(0) if stated is not None and stated < 0 else None


def chosen_size(terms: Terms, operands: list[int]) -> int | None:
    condition = terms.value(operands[0])
    return None if condition is None else operands[1] if condition else operands[2]


def product_of_sizes(terms: Terms, pair: list[int]) -> int | None:
    a, b = (terms.value(term) for term in pair)
    return None if a is None or b is None else terms.number(a * b)


def slice_of_elements(reader: Reader, node: NodeProto) -> int | None:
    elements = reader.elements(node.input[0])
    if elements is None:
        return None
    if len(node.input) > 1:
        bounds = [reader.ints(name) if name else None for name in node.input[1:]]
    else:
        bounds = [next((tuple(a.ints) for a in node.attribute if a.name == name), None) for name in ("starts", "ends")]
    if any(bound is None or len(bound) != 1 for bound in bounds) or len(bounds) < 2:
        return None
    start, end, *more = (bound[0] for bound in bounds if bound)
    return vector(reader.terms, elements[start:end]) if more in ([], [0], [0, 1]) else None


def concatenate(reader: Reader, node: NodeProto) -> int | None:
    parts = [reader.elements(name) for name in node.input]
    if integer(node, "axis", 1) not in (0, -1) or any(part is None for part in parts):
        return None
    return vector(reader.terms, tuple(element for part in parts if part for element in part))


def _squeeze(reader: Reader, node: NodeProto) -> int | None:
    """Squeeze and Unsqueeze of the same axes undo each other."""
    axes, elements = reader.axes(node), reader.elements(node.input[0])
    if elements is not None and len(elements) == 1:
        return elements[0]
    return reader.terms.op("Squeeze", (("axes", axes),), reader.term(node.input[0])) if axes else None


def unsqueeze(reader: Reader, node: NodeProto) -> int | None:
    name = node.input[1] if len(node.input) > 1 else ""
    axes = reader.ints(name) if name else next((tuple(a.ints) for a in node.attribute if a.name == "axes"), None)
    rank, terms, inner = reader.rank(node.input[0]), reader.terms, reader.term(node.input[0])
    if not axes:
        return None
    if len(axes) == 1 and axes[0] in (0, -1) and (rank == 0 or terms.keys[inner].kind == NUMBER):
        return vector(terms, (inner,))
    if any(axis >= 0 for axis in axes):
        if rank is None:
            return None
        axes = tuple(axis - rank - len(axes) if axis >= 0 else axis for axis in axes)
    axes = tuple(sorted(axes))
    key = terms.keys[inner]
    if terms.is_op(inner, "Squeeze") and key.parameters == (("axes", axes),):
        return int(key.operands[0])
    return terms.op("Unsqueeze", (("axes", axes),), inner)


def _reshape(reader: Reader, node: NodeProto) -> int | None:
    if len(node.input) < 2:
        return None
    inner = reader.term(node.input[0])
    one = reader.terms.value(inner) is not None or (
        reader.rank(node.input[0]) == 0 and reader.elem_type(node.input[0]) not in FLOATS
    )
    if one and reader.ints(node.input[1]) in ((1,), (-1,)):
        return vector(reader.terms, (inner,))
    wanted, before, after = (
        reader.elements(node.input[1]),
        reader.dims(node.input[0]),
        reader.scope.shape(node.output[0]),
    )
    terms = reader.terms
    if wanted is None:
        known = reader.dims(node.output[0]) if after is not None and None not in after else None
        return None if known is None else reshape(terms, reader.term(node.input[0]), before, known)
    target = reader.target(node, wanted, before)
    if target is None:
        return None
    if after is not None and len(after) == len(target):
        known = reader.dims(node.output[0]) or target
        target = tuple(
            k if terms.value(t) == -1 and terms.value(k) is not None else t for t, k in zip(target, known, strict=True)
        )
    return reshape(terms, reader.term(node.input[0]), before, target)


def reshape(terms: Terms, x: int, before: Key | None, target: Key) -> int:
    """The last of several shapes counts; the last two axes change places behind it."""
    key = terms.keys[x]
    if terms.is_op(x, "Reshape"):
        before, x = terms.reshaped.get(x), key.operands[0]
        return reshape(terms, x, before, target)
    if before is not None and _is_same(terms, before, target):
        return x
    if terms.is_op(x, "Squeeze") and _drop_axes_of_one(terms, key.parameter, target) == before:
        return int(key.operands[0])
    if terms.is_op(x, "Transpose") and before is not None and len(target) == 4 and target[2:] == before[1:]:
        perm, (inner,) = key.parameter, key.operands
        if len(perm) == 3 and perm[1] > perm[2]:  # the last two axes change places behind the Reshape, not before
            rows, columns = before[2], before[1]
            straight = transpose(terms, inner, (perm[0], perm[2], perm[1]))
            apart = reshape(terms, straight, (before[0], rows, columns), (*target[:2], rows, columns))
            return transpose(terms, apart, _LAST)
    coefficient, x = _apart(terms, x)
    made = terms.op("Reshape", (("shape", target),), x)
    if before is not None:
        terms.reshaped[made] = before
    return terms.times(made, coefficient)


def _is_same(terms: Terms, before: Key, target: Key) -> bool:
    """Whether a Reshape is to the shape that is there: one dimension that is computed is what the others leave."""
    pairs = list(zip(before, target, strict=False))
    computed = [wanted for dim, wanted in pairs if dim != wanted]
    return len(before) == len(target) and (not computed or (len(computed) == 1 and terms.value(computed[0]) == -1))


def _drop_axes_of_one(terms: Terms, axes: Key, target: Key) -> Key | None:
    """A shape without axes of one element; None where it has others there."""
    places = {axis + len(target) for axis in axes}
    if any(place < 0 or terms.value(target[place]) != 1 for place in places):
        return None
    return tuple(dim for place, dim in enumerate(target) if place not in places)


def _expand(reader: Reader, node: NodeProto) -> int | None:
    """Expand to the shape that is there, or of a number to a small vector."""
    before, target = reader.dims(node.input[0]), reader.elements(node.input[1])
    value = reader.terms.value(reader.term(node.input[0]))
    if value is not None and target is not None and len(target) == 1:
        size = reader.terms.value(target[0])
        if size is not None and 1 <= size <= numbers.FEW:
            held = reader.elem_type(node.input[0]) in FLOATS or reader.elem_type(node.input[0])
            key = (TENSOR, held, (int(size),), (value,) * int(size))
            return reader.terms.of(ONES, value, 1) if size == 1 else reader.terms.of(*key)
    return reader.term(node.input[0]) if before is not None and before == target else None


def _transpose(reader: Reader, node: NodeProto) -> int | None:
    perm = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), None)
    rank = reader.rank(node.input[0])
    if perm is None:
        if rank is None:
            return None
        perm = tuple(range(rank))[::-1]
    return transpose(reader.terms, reader.term(node.input[0]), perm)


def transpose(terms: Terms, x: int, perm: tuple[int, ...]) -> int:
    """Transpose of Transpose is one, or none."""
    coefficient, x = _apart(terms, x)
    if terms.is_op(x, "Transpose"):
        first, x = terms.keys[x].parameter, terms.keys[x].operands[0]
        perm = tuple(first[axis] for axis in perm)
    made = x if perm == tuple(range(len(perm))) else terms.op("Transpose", (("perm", perm),), x)
    return terms.times(made, coefficient)


def _apart(terms: Terms, x: int) -> tuple[float, int]:
    """A number in front of a term, and the rest."""
    coefficient, powers = terms.factors(x)
    return (coefficient, terms.product(1.0, powers)) if coefficient != 1 and powers else (1.0, x)


RULES: dict[str, Rule] = {
    "Shape": _shape,
    "Gather": _gather,
    "ConstantOfShape": _fill,
    "Range": _count,
    "Equal": elementwise(same_size),
    "Slice": slice_of_elements,
    "Concat": concatenate,
    "Squeeze": _squeeze,
    "Unsqueeze": unsqueeze,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Expand": _expand,
}
