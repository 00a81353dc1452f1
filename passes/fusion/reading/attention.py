"""How the parts of attention are read: products of matrices, masks, and queries that may attend no key."""

from __future__ import annotations

from math import inf

from opshift.passes.fusion.reader import FLOATS, Reader, Rule
from opshift.passes.fusion.reading.arithmetic import sum_of_terms
from opshift.passes.fusion.reading.layout import chosen_size, elementwise, transpose
from opshift.passes.fusion.terms import Terms
from opshift.passes.model.messages import NodeProto


def _multiply(reader: Reader, node: NodeProto) -> int | None:
    """Numbers stand in front of a product of matrices; shares that are no numbers are taken as 0 there or not."""
    if reader.elem_type(node.input[0]) not in FLOATS:
        return None
    a, b = (reader.term(name) for name in node.input)
    return product(reader.terms, a, b)


def product(terms: Terms, a: int, b: int) -> int:
    """The product of two matrices, with the numbers of both in front of it."""
    if terms.is_op(a, "Guarded"):
        a = terms.keys[a].operands[0]
    (ca, fa), (cb, fb) = terms.factors(a), terms.factors(b)
    return terms.times(terms.op("MatMul", (), terms.product(1.0, fa), terms.product(1.0, fb)), ca * cb)


def _contract(reader: Reader, node: NodeProto) -> int | None:
    """An Einsum of two operands over one index is a product of matrices."""
    equation = next((a.s.decode() for a in node.attribute if a.name == "equation"), "").replace(" ", "")
    sides, _, out = equation.partition("->")
    first, _, second = sides.partition(",")
    if not first or not second or not out or any(len(set(labels)) != len(labels) for labels in (first, second, out)):
        return None
    if not (first + second + out).isalpha() or reader.elem_type(node.input[0]) not in FLOATS:
        return None
    batch = "".join(label for label in out if label in first and label in second)
    rows, columns = ([label for label in out if label in of and label not in batch] for of in (first, second))
    summed = [label for label in first if label in second and label not in out]
    if len(rows) != 1 or len(columns) != 1 or len(summed) != 1 or {*first, *second} != {*out, *summed}:
        return None
    terms, given = reader.terms, [reader.term(name) for name in node.input]
    wanted = ("".join([batch, *rows, *summed]), "".join([batch, *summed, *columns]))
    turned = [
        transpose(terms, term, tuple(labels.index(label) for label in order))
        for term, labels, order in zip(given, (first, second), wanted, strict=True)
    ]
    made = "".join([batch, *rows, *columns])
    return transpose(terms, product(terms, *turned), tuple(made.index(label) for label in out))


def _masked_scores(reader: Reader, node: NodeProto) -> int | None:
    """Read scores plus Where(allowed, 0, -inf) as Where(allowed, scores, -inf)."""
    if len(node.input) == 2:
        terms, pair = reader.terms, [reader.term(name) for name in node.input]
        for bias, scores in (pair, pair[::-1]):
            key = terms.keys[bias]
            if terms.is_op(bias, "Where") and [terms.value(term) for term in key.operands[1:]] == [0.0, -inf]:
                return terms.op("Where", (), key.operands[0], scores, key.operands[2])
    return sum_of_terms(reader, node)


_sizes = elementwise(chosen_size)


def _choose(reader: Reader, node: NodeProto) -> int:
    if (known := _sizes(reader, node)) is not None:
        return known
    terms, (condition, yes, no) = reader.terms, reader.operands(node.input)
    if terms.value(yes) == 0 and _is_empty(terms, condition, no):
        return terms.op("Guarded", (), no)
    if terms.value(no) == 0 and _is_allowed(terms, condition, yes):
        return terms.op("Guarded", (), yes)
    return terms.op("Where", (), condition, yes, no)


def _is_empty(terms: Terms, condition: int, shares: int) -> bool:
    """Whether a condition tells where shares are not numbers, or where their scores exclude a key."""
    if not terms.is_op(shares, "Softmax"):
        return False
    if terms.is_op(condition, "IsNaN"):
        return bool(terms.keys[condition].operands == (shares,))
    if not terms.is_op(condition, "Equal"):
        return False
    compared = terms.keys[condition].operands
    return terms.keys[shares].operands[0] in compared and any(terms.value(term) == -inf for term in compared)


def _is_allowed(terms: Terms, condition: int, shares: int) -> bool:
    if not terms.is_op(shares, "Softmax"):
        return False
    scores = terms.keys[shares].operands[0]
    return terms.is_op(scores, "Where") and terms.keys[scores].operands[0] == condition


RULES: dict[str, Rule] = {"MatMul": _multiply, "Einsum": _contract, "Add": _masked_scores, "Where": _choose}
