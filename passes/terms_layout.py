"""How operators that move elements are read: shapes and what is computed from them, Reshape, Transpose."""

from __future__ import annotations

from opshift.passes.algebra import NUMBER, ONES, TENSOR, VECTOR, Key, Terms
from opshift.passes.protos import NodeProto, TensorProto
from opshift.passes.terms import Reader, Rule, integer

END = 2**31 - 1


def vector(terms: Terms, elements: tuple[int, ...]) -> int:
    """A vector of integers: a constant, if all of its elements are."""
    values = [terms.value(element) for element in elements]
    if len(values) == 1 and values[0] is not None:
        return terms.of(ONES, values[0], 1)
    if values and None not in values:
        return terms.of(TENSOR, TensorProto.INT64, (len(values),), tuple(int(v) for v in values if v is not None))
    return terms.of(VECTOR, elements)


def _shape(reader: Reader, node: NodeProto) -> int | None:
    dims = reader.dims(node.input[0])
    if dims is None:
        return None
    return vector(reader.terms, dims[slice(integer(node, "start", 0), integer(node, "end", len(dims)))])


def _gathered(reader: Reader, node: NodeProto) -> int | None:
    """An element of a shape, or several."""
    elements, places = reader.elements(node.input[0]), reader.ints(node.input[1])
    if elements is None or places is None or integer(node, "axis", 0):
        return None
    if not all(-len(elements) <= place < len(elements) for place in places):
        return None
    if reader.terms.keys[reader.term(node.input[1])][0] == NUMBER:
        return elements[places[0]]
    return vector(reader.terms, tuple(elements[place] for place in places))


def _sliced(reader: Reader, node: NodeProto) -> int | None:
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


def _concatenated(reader: Reader, node: NodeProto) -> int | None:
    parts = [reader.elements(name) for name in node.input]
    if integer(node, "axis", 1) not in (0, -1) or any(part is None for part in parts):
        return None
    return vector(reader.terms, tuple(element for part in parts if part for element in part))


def _squeezed(reader: Reader, node: NodeProto) -> int | None:
    """Squeeze and Unsqueeze of the same axes undo each other."""
    axes, elements = reader.axes(node), reader.elements(node.input[0])
    if elements is not None and len(elements) == 1:
        return elements[0]
    return reader.terms.op("Squeeze", (("axes", axes),), reader.term(node.input[0])) if axes else None


def _unsqueezed(reader: Reader, node: NodeProto) -> int | None:
    name = node.input[1] if len(node.input) > 1 else ""
    axes = reader.ints(name) if name else next((tuple(a.ints) for a in node.attribute if a.name == "axes"), None)
    rank, terms, inner = reader.rank(node.input[0]), reader.terms, reader.term(node.input[0])
    if not axes:
        return None
    if len(axes) == 1 and axes[0] in (0, -1) and (rank == 0 or terms.keys[inner][0] == NUMBER):
        return vector(terms, (inner,))
    if any(axis >= 0 for axis in axes):
        if rank is None:
            return None
        axes = tuple(axis - rank - len(axes) if axis >= 0 else axis for axis in axes)
    axes = tuple(sorted(axes))
    key = terms.keys[inner]
    if terms.is_op(inner, "Squeeze") and key[2] == (("axes", axes),):
        return int(key[3][0])
    return terms.op("Unsqueeze", (("axes", axes),), inner)


def _reshaped(reader: Reader, node: NodeProto) -> int | None:
    if len(node.input) < 2:
        return None
    wanted, before, after = (
        reader.elements(node.input[1]),
        reader.dims(node.input[0]),
        reader.scope.shape(node.output[0]),
    )
    terms = reader.terms
    if wanted is None:
        known = reader.dims(node.output[0]) if after is not None and None not in after else None
        return None if known is None else reshape(terms, reader.term(node.input[0]), before, known)
    target = list(wanted)
    for index, element in enumerate(wanted):
        value = terms.value(element)
        if value == 0 and not integer(node, "allowzero", 0):
            if before is None or index >= len(before):
                return None
            target[index] = before[index]
        elif value == -1 and after is not None and len(after) == len(wanted) and after[index] is not None:
            target[index] = (reader.dims(node.output[0]) or wanted)[index]
    return reshape(terms, reader.term(node.input[0]), before, tuple(target))


def reshape(terms: Terms, x: int, before: Key | None, target: Key) -> int:
    """The last of several shapes counts; two axes that become one only while others are transposed stay two."""
    key = terms.keys[x]
    if terms.is_op(x, "Reshape"):
        before, x = terms.reshaped.get(x), key[3][0]
        return reshape(terms, x, before, target)
    if before == target:
        return x
    if terms.is_op(x, "Transpose") and key[2] == (("perm", (0, 2, 1)),) and terms.is_op(key[3][0], "Reshape"):
        joined = key[3][0]
        shape, (_, _, ((_, joint),), (inner,)) = terms.reshaped.get(joined), terms.keys[joined]
        kept = shape is not None and len(shape) == 4 and joint[1:] == shape[2:]
        if shape is not None and kept and target == (*shape[:2], shape[3], shape[2]):
            return transpose(terms, inner, (0, 1, 3, 2))
    coefficient, x = _apart(terms, x)
    made = terms.op("Reshape", (("to", target),), x)
    if before is not None:
        terms.reshaped[made] = before
    return terms.scaled(made, coefficient)


def _transposed(reader: Reader, node: NodeProto) -> int | None:
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
        _, _, ((_, first),), (x,) = terms.keys[x]
        perm = tuple(first[axis] for axis in perm)
    made = x if perm == tuple(range(len(perm))) else terms.op("Transpose", (("perm", perm),), x)
    return terms.scaled(made, coefficient)


def _apart(terms: Terms, x: int) -> tuple[float, int]:
    """A number in front of a term, and the rest."""
    coefficient, powers = terms.factors(x)
    return (coefficient, terms.product(1.0, powers)) if coefficient != 1 and powers else (1.0, x)


RULES: dict[str, Rule] = {
    "Shape": _shape,
    "Gather": _gathered,
    "Slice": _sliced,
    "Concat": _concatenated,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Reshape": _reshaped,
    "Transpose": _transposed,
}
