"""Einsum, which opset 12 brought: operands are combined one after the other with MatMul, or Mul and ReduceSum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
ELLIPSIS = "..."
CARRIER: dict[int, int] = {**dict.fromkeys((T.INT8, T.INT16, T.UINT8, T.UINT16), T.INT32), T.FLOAT16: T.FLOAT}


@dataclass(frozen=True)
class Term:
    """A value and the label of each of its axes; dimensions under an ellipsis are labelled 0, 1, ..."""

    value: str
    labels: list[str]
    dims: list[Dim]


@says("Replaced Einsum by Mul, MatMul and ReduceSum, two operands at a time")
def contracted_pair_by_pair(node: Node) -> str:
    elem_type = node.elem_type()
    carrier = CARRIER.get(elem_type, elem_type)
    if elem_type in (T.FLOAT16, T.FLOAT, T.DOUBLE):
        node.close("sums in another order")
    terms, result = _parse(node, elem_type, carrier)
    first, *others = _alike(node, [_without_diagonals(node, term) for term in terms])
    while others:
        second, *others = others
        needed = {*result, *(label for term in others for label in term.labels)}
        first, second = (
            _sum(node, term, needed.union(other.labels)) for term, other in ((first, second), (second, first))
        )
        first = _product(node, first, second, needed)
    total = _sum(node, first, set(result))
    order = [total.labels.index(label) for label in result]
    value = total.value if order == sorted(order) else node.build.Transpose(total.value, perm=order)
    return recast(node.build, value, carrier, elem_type)


def _parse(node: Node, elem_type: int, carrier: int) -> tuple[list[Term], list[str]]:
    equation = node.attributes["equation"].replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(node.inputs):
        raise CannotConvert(node, f"the equation has {len(texts)} terms, but there are {len(node.inputs)} operands")
    hidden = {node.rank(i) - len(t.replace(ELLIPSIS, "")) for i, t in enumerate(texts) if ELLIPSIS in t}
    if len(hidden) > 1 or min(hidden, default=0) < 0:
        raise CannotConvert(node, "the ellipses (...) of the equation stand for different numbers of dimensions")
    covered = [str(k) for k in range(max(hidden, default=0))]
    terms = []
    for index, text in enumerate(texts):
        labels = _labels(text, covered)
        if len(labels) != node.rank(index) or not all(label.isalnum() for label in labels):
            raise CannotConvert(
                node, f"the term {text!r} of the equation does not fit an operand of rank {node.rank(index)}"
            )
        value = recast(node.build, node.input(index), elem_type, carrier)
        terms.append(Term(value, labels, list(node.scope.shape(node.input(index)) or [])))
    if arrow:
        return terms, _labels(right, covered)
    counts = Counter(label for term in terms for label in term.labels if label not in covered)
    return terms, [*covered, *sorted(label for label, count in counts.items() if count == 1)]


def _labels(text: str, covered: list[str]) -> list[str]:
    before, dots, after = text.partition(ELLIPSIS)
    return [*before, *(covered if dots else []), *after]


def _without_diagonals(node: Node, term: Term) -> Term:
    """A label that occurs twice means the elements at which both indices are the same."""
    build = node.build
    twice = next((label for label in term.labels if term.labels.count(label) > 1), None)
    if twice is None:
        return term
    i = term.labels.index(twice)
    j = term.labels.index(twice, i + 1)
    sizes = {dim for dim in (term.dims[i], term.dims[j]) if isinstance(dim, int)}
    if len(sizes) > 1:
        raise CannotConvert(
            node, f"the label {twice!r} of the equation stands for dimensions of different sizes: {sorted(sizes)}"
        )
    size = next(iter(sizes), None)
    if size is None:
        raise CannotConvert(node, f"the equation takes the diagonal along {twice!r}, whose size is unknown")
    others = [k for k in range(len(term.labels)) if k not in (i, j)]
    last = build.Transpose(term.value, perm=[*others, i, j])
    flat = build.Reshape(last, [*(0 for _ in others), size * size])
    diagonal = build.Gather(flat, [k * (size + 1) for k in range(size)], axis=len(others))
    labels, dims = [*(term.labels[k] for k in others), twice], [*(term.dims[k] for k in others), size]
    return _without_diagonals(node, Term(diagonal, labels, dims))


def _alike(node: Node, terms: list[Term]) -> list[Term]:
    """An axis of size 1 goes where another operand may be longer: it is repeated then, as engines do."""
    sizes: dict[str, set[Dim]] = {}
    for term in terms:
        for label, dim in zip(term.labels, term.dims, strict=True):
            sizes.setdefault(label, set()).add(dim)
    for label, found in sizes.items():
        known = sorted(dim for dim in found if isinstance(dim, int) and dim != 1)
        if len(known) > 1 and not label.isdigit():
            raise CannotConvert(
                node, f"the label {label!r} of the equation stands for dimensions of different sizes: {known}"
            )
    longer = {label for label, found in sizes.items() if found != {1} and not label.isdigit()}
    return [_without_ones(node, term, longer) for term in terms]


def _without_ones(node: Node, term: Term, longer: set[str]) -> Term:
    axes = [k for k, label in enumerate(term.labels) if label in longer and term.dims[k] == 1]
    if not axes:
        return term
    kept = [k for k in range(len(term.labels)) if k not in axes]
    value = node.build.Squeeze(term.value, axes=axes)
    return Term(value, [term.labels[k] for k in kept], [term.dims[k] for k in kept])


def _sum(node: Node, term: Term, needed: set[str]) -> Term:
    """Sum over the labels that nothing needs any more."""
    axes = [k for k, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    kept = [k for k in range(len(term.labels)) if k not in axes]
    value = node.build.ReduceSum(term.value, axes=axes, keepdims=0)
    return Term(value, [term.labels[k] for k in kept], [term.dims[k] for k in kept])


def _product(node: Node, a: Term, b: Term, needed: set[str]) -> Term:
    """Labels of both that are needed are a batch, the others are summed: a matrix product of what is left."""
    build = node.build
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in needed]
    inner = [label for label in both if label not in needed]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]
    dims = {**_fixed_sizes(a), **_fixed_sizes(b)}
    foldable = all(
        (len(first) == len(second) == 1) or _reshape_to([first, second], dims) is not None or flattened
        for first, second, flattened in ((rows, inner, not batch), (inner, columns, not batch), (rows, columns, False))
    )
    if not inner or not foldable or any(label.isdigit() for label in inner):
        labels = [*batch, *rows, *columns, *inner]
        value = build.Mul(*(_spread(node, term, labels) for term in (a, b)))
        return _sum(node, Term(value, labels, [dims.get(label) for label in labels]), needed)
    if _may_be_empty(batch, a, b):  # then an open size is computed, and stands where its axis stood
        rows, inner, columns = (sorted(group, key=dims.__contains__) for group in (rows, inner, columns))
        if any(label not in dims for label in columns) and (len(rows) != 1 or len(columns) != 1):
            a, b, rows, columns = b, a, columns, rows
    value = build.MatMul(_matrix(node, a, batch, rows, inner, dims), _matrix(node, b, batch, inner, columns, dims))
    labels = [*batch, *rows, *columns]
    if len(rows) != 1 or len(columns) != 1:
        value = _reshape(node, value, batch, [[label] for label in (*rows, *columns)], dims, (a, b))
    return Term(value, labels, [dims.get(label) for label in labels])


def _may_be_empty(batch: list[str], *terms: Term) -> bool:
    pairs = (pair for term in terms for pair in zip(term.labels, term.dims, strict=True))
    return any(label in batch and (not isinstance(dim, int) or not dim) for label, dim in pairs)


def _fixed_sizes(term: Term) -> dict[str, int]:
    """The sizes that are known; those under an ellipsis may be 1 for one operand and more for the other."""
    return {
        label: dim
        for label, dim in zip(term.labels, term.dims, strict=True)
        if isinstance(dim, int) and not label.isdigit()
    }


def _matrix(node: Node, term: Term, batch: list[str], rows: list[str], columns: list[str], dims: dict[str, int]) -> str:
    """The term with its batch first, then all rows as one axis, then all columns as one."""
    build, merged = node.build, len(rows) != 1 or len(columns) != 1
    sizes = _reshape_to([rows, columns], dims)
    if merged and sizes and sizes[1] < 0 and _may_be_empty(batch, term):
        axes = range(len(batch) + 2)
        return str(
            build.Transpose(_matrix(node, term, batch, columns, rows, dims), perm=[*axes[:-2], axes[-1], axes[-2]])
        )
    order = [term.labels.index(label) for label in (*batch, *rows, *columns)]
    value = term.value if order == sorted(order) else build.Transpose(term.value, perm=order)
    if not merged:
        return value
    if sizes is None:
        return str(build.Flatten(value, axis=len(rows)))
    return _reshape(node, value, batch, [rows, columns], dims, (term,))


def _reshape(
    node: Node, value: str, batch: list[str], groups: list[list[str]], dims: dict[str, int], terms: Iterable[Term]
) -> str:
    """The batch as it is, each group as one axis. Reshape finds out an open size, but none beside an empty batch.

    It is computed there, and if it is 0, which means to copy, its axis is the one that is copied.
    """
    build, copied = node.build, [0] * len(batch)
    sizes = _reshape_to(groups, dims) or []
    if -1 not in sizes or not _may_be_empty(batch, *terms):
        return str(build.Reshape(value, [*copied, *sizes]))
    at = sizes.index(-1)
    label = next(label for label in groups[at] if label not in dims)
    term = next(term for term in terms if label in term.labels)
    size = build.Gather(build.Shape(term.value), [term.labels.index(label)], axis=0)
    if (others := prod(dims[label] for label in groups[at] if label in dims)) != 1:
        size = build.Mul(size, [others])
    parts = [[*copied, *sizes[:at]], size, sizes[at + 1 :]]
    return str(build.Reshape(value, build.Concat(*filter(None, parts), axis=0)))


def _reshape_to(groups: list[list[str]], dims: dict[str, int]) -> list[int] | None:
    """The size of each group, -1 for an open one; None where several are open or one is empty."""
    labels = [label for group in groups for label in group]
    if 0 in (dims.get(label) for label in labels) or sum(label not in dims for label in labels) > 1:
        return None
    return [prod(dims[label] for label in group) if all(label in dims for label in group) else -1 for group in groups]


def _spread(node: Node, term: Term, labels: list[str]) -> str:
    """The term with an axis for each label, of size 1 for those that it does not have."""
    present = [label for label in labels if label in term.labels]
    order = [term.labels.index(label) for label in present]
    value = term.value if order == sorted(order) else node.build.Transpose(term.value, perm=order)
    absent = [k for k, label in enumerate(labels) if label not in term.labels]
    return str(node.build.Unsqueeze(value, axes=absent)) if absent else value


changed("Einsum", 12, Pair(down=contracted_pair_by_pair))
changed("Einsum", 28, ROUNDED)
