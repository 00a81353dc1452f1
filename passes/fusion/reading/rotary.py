"""How rotated halves are read: x * cos + (-x2, x1) * sin, however the halves are taken apart and joined.

`Turned` is (-x2, x1) for the halves x1 and x2 of the last axis, `Twice` a value behind itself along it.
"""

from __future__ import annotations

from opshift.passes.fusion.reader import FLOATS, Reader, Rule
from opshift.passes.fusion.reading.layout import concatenate, slice_of_elements, unsqueeze
from opshift.passes.fusion.terms import Terms
from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import integer

_LAST = ("axis", -1)


def _part(terms: Terms, x: int, start: int, end: int) -> int:
    return terms.op("Part", (_LAST, ("start", start), ("end", end)), x)


def parts(reader: Reader, node: NodeProto) -> list[int] | None:
    """The outputs of a Split along the last axis."""
    dims = reader.dims(node.input[0])
    size = None if not dims else reader.terms.value(dims[-1])
    if (
        dims is None
        or size is None
        or integer(node, "axis", 0) not in (-1, len(dims) - 1)
        or reader.scope.is_open(node)
    ):
        return None
    given = node.input[1] if len(node.input) > 1 else ""
    sizes = reader.ints(given) if given else None
    if given and sizes is None:
        return None
    if sizes is None:
        sizes = next((tuple(a.ints) for a in node.attribute if a.name == "split"), None)
    if sizes is None:
        count = len(node.output)
        sizes = (int(size) // count,) * count
    if sum(sizes) != size:
        return None
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    x = reader.term(node.input[0])
    return [_part(reader.terms, x, start, start + size) for start, size in zip(starts, sizes, strict=True)]


def _slice_of_last_axis(reader: Reader, node: NodeProto) -> int | None:
    """A part of the last axis."""
    if reader.elem_type(node.input[0]) not in FLOATS:
        return slice_of_elements(reader, node)
    dims, bounds = reader.dims(node.input[0]), [reader.ints(name) if name else None for name in node.input[1:]]
    size = None if not dims else reader.terms.value(dims[-1])
    if dims is None or size is None or len(bounds) < 3 or any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, end, axis, *steps = (bound[0] for bound in bounds if bound)
    if axis not in (-1, len(dims) - 1) or steps not in ([], [1]):
        return None
    kept = range(int(size))[start:end]
    return _part(reader.terms, reader.term(node.input[0]), kept.start, kept.stop)


def _join(reader: Reader, node: NodeProto) -> int | None:
    terms, dims = reader.terms, reader.dims(node.input[0])
    if len(node.input) != 2 or reader.elem_type(node.input[0]) not in FLOATS:
        return concatenate(reader, node)
    if dims is None or integer(node, "axis", 1) not in (-1, len(dims) - 1):
        return None
    a, b = (reader.term(name) for name in node.input)
    if a == b:
        return terms.op("Twice", (), a)
    turned = _turn(terms, a, b)
    return _rotate(terms, a, b) if turned is None else turned


def _turn(terms: Terms, a: int, b: int) -> int | None:
    """(-x2, x1) of the halves of x."""
    coefficient, powers = terms.factors(a)
    if coefficient != -1 or list(powers.values()) != [1]:
        return None
    halves = _halves(terms, b, *powers)
    return None if halves is None else terms.op("Turned", (), halves)


def _halves(terms: Terms, first: int, second: int) -> int | None:
    """What two terms are the halves of."""
    if not (terms.is_op(first, "Part") and terms.is_op(second, "Part")):
        return None
    one, other = terms.keys[first], terms.keys[second]
    _, (_, start), (_, middle) = one.parameters
    _, (_, then), (_, end) = other.parameters
    whole = one.operands == other.operands and start == 0 and then == middle and end == 2 * middle
    return int(one.operands[0]) if whole else None


def _rotate(terms: Terms, a: int, b: int) -> int | None:
    """(x1 * cos - x2 * sin, x1 * sin + x2 * cos) is x * (cos, cos) + (-x2, x1) * (sin, sin)."""
    first, second = _pair(terms, a), _pair(terms, b)
    if first is None or second is None:
        return None
    for one, two in ((first[0], first[1]), (first[1], first[0])):
        (x1, cosine, plus), (x2, sine, minus) = one, two
        x = _halves(terms, x1, x2)
        if x is None or (plus, minus) != (1, -1):
            continue
        if sorted(second) != sorted([(x1, sine, 1.0), (x2, cosine, 1.0)]):
            continue
        turned = terms.op("Turned", (), x)
        by = (terms.op("Twice", (), cosine), terms.op("Twice", (), sine))
        return terms.add(terms.mul(x, by[0]), terms.mul(turned, by[1]))
    return None


def _pair(terms: Terms, term: int) -> list[tuple[int, int, float]] | None:
    """A sum of two products of a part with something else, as (part, other, sign)."""
    constant, members = terms.members(term)
    if constant or len(members) != 2:
        return None
    found = []
    for member, sign in members.items():
        coefficient, powers = terms.factors(member)
        part = next((base for base in powers if terms.is_op(base, "Part")), None)
        if part is None or len(powers) != 2 or coefficient != 1 or set(powers.values()) != {1}:
            return None
        found.append((part, next(base for base in powers if base != part), sign))
    return found


def _each(op: str) -> Rule:
    """What is computed of each element is computed of a value before it stands behind itself."""

    def rule(reader: Reader, node: NodeProto) -> int | None:
        terms, term = reader.terms, reader.term(node.input[0])
        if not terms.is_op(term, "Twice"):
            return None
        return terms.op("Twice", (), terms.op(op, (), terms.keys[term].operands[0]))

    return rule


def _unsqueeze(reader: Reader, node: NodeProto) -> int | None:
    made, terms = unsqueeze(reader, node), reader.terms
    if made is None or not terms.is_op(made, "Unsqueeze"):
        return made
    axes, inner = terms.keys[made].parameters, terms.keys[made].operands[0]
    if not terms.is_op(inner, "Twice") or -1 in terms.keys[made].parameter:
        return made
    return terms.op("Twice", (), terms.op("Unsqueeze", axes, terms.keys[inner].operands[0]))


RULES: dict[str, Rule] = {
    "Slice": _slice_of_last_axis,
    "Concat": _join,
    "Cos": _each("Cos"),
    "Sin": _each("Sin"),
    "Unsqueeze": _unsqueeze,
}
