"""How the parts of attention are read: products of matrices, masks, and queries that may attend no key."""

from __future__ import annotations

from math import inf

from opshift.passes.algebra import Terms
from opshift.passes.protos import NodeProto
from opshift.passes.terms import FLOATS, Reader, Rule
from opshift.passes.terms_arithmetic import added
from opshift.passes.terms_layout import chosen_size, elementwise


def _multiplied(reader: Reader, node: NodeProto) -> int | None:
    """Numbers stand in front of a product of matrices; shares that are no numbers are taken as 0 there or not."""
    if reader.kind(node.input[0]) not in FLOATS:
        return None
    terms, coefficient, operands = reader.terms, 1.0, []
    for name in node.input:
        term = reader.term(name)
        if terms.is_op(term, "Guarded"):
            term = terms.keys[term][3][0]
        number, powers = terms.factors(term)
        rest = terms.product(1.0, powers)
        coefficient *= number
        operands.append(rest)
    return terms.scaled(terms.op("MatMul", (), *operands), coefficient)


def _biased(reader: Reader, node: NodeProto) -> int | None:
    """Adding 0 to what is allowed and -inf to the rest is choosing what is allowed, and -inf."""
    if len(node.input) == 2:
        terms, pair = reader.terms, [reader.term(name) for name in node.input]
        for bias, scores in (pair, pair[::-1]):
            key = terms.keys[bias]
            if terms.is_op(bias, "Where") and [terms.value(term) for term in key[3][1:]] == [0.0, -inf]:
                return terms.op("Where", (), key[3][0], scores, key[3][2])
    return added(reader, node)


_sizes = elementwise(chosen_size)


def _chosen(reader: Reader, node: NodeProto) -> int:
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
        return bool(terms.keys[condition][3] == (shares,))
    if not terms.is_op(condition, "Equal"):
        return False
    compared = terms.keys[condition][3]
    return terms.keys[shares][3][0] in compared and any(terms.value(term) == -inf for term in compared)


def _is_allowed(terms: Terms, condition: int, shares: int) -> bool:
    if not terms.is_op(shares, "Softmax"):
        return False
    scores = terms.keys[shares][3][0]
    return terms.is_op(scores, "Where") and terms.keys[scores][3][0] == condition


RULES: dict[str, Rule] = {"MatMul": _multiplied, "Add": _biased, "Where": _chosen}
