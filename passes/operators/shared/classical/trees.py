"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble as nodes of the default domain.

What their texts leave open is decided as onnxruntime 1.32 does: test_tree_kernels.py, among the tests, lists it.
"""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.classes import Labels, class_labels, label_of
from opshift.passes.operators.shared.classical.forest import has_doubles, parameter, read_ensemble, read_listed
from opshift.passes.operators.shared.classical.numbers import rows_as, width
from opshift.passes.operators.shared.classical.post_transforms import TRANSFORMS, apply_transform, checked_transform
from opshift.passes.operators.shared.classical.sums import AVERAGE, MAX, MIN, NOTHING, SUM, Totals, totals
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.says import says

T = TensorProto
OPSET = 18
FASTER = "several times as fast from opset 11 on, which has GatherElements"
AGGREGATES = (AVERAGE, SUM, MIN, MAX)  # as TreeEnsemble numbers them
NUMBERED = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""The transforms of TreeEnsemble by number, of which onnxruntime swaps 1 and 2 of the text."""


@says("Replaced the tree classifier by Gather from tables of its nodes, level by level, and ArgMax of the votes")
def classify_by_tables(node: Node) -> list[str]:
    return _classify(node, elements=True)


@says("Replaced the tree classifier by comparing all nodes, Where among the leaves, and ArgMax of the votes")
def classify_by_choices(node: Node) -> list[str]:
    node.remarks.append(FASTER)
    return _classify(node, elements=False)


def _classify(node: Node, *, elements: bool) -> list[str]:
    labels = class_labels(node, "classlabels_int64s", "classlabels_strings")
    transform = checked_transform(node)
    elem_type = _compares_in(node)
    forest = read_listed(node, "class", len(labels.values), _dtype(elem_type))
    node.close("sums the votes in another order")
    found = totals(
        node.build,
        rows_as(node, elem_type),
        elem_type,
        width(node),
        forest,
        SUM,
        elem_type,
        node.proto.ByteSize(),
        elements=elements,
    )
    return classify(node, labels, transform, found, elem_type, positive=bool((forest.vote_weights >= 0).all()))


def classify(node: Node, labels: Labels, transform: str, found: Totals, elem_type: int, *, positive: bool) -> list[str]:
    """The labels and the scores of added votes; `positive` tells that all weights are at least 0."""
    base = list(parameter(node, "base_values"))
    if len(labels.values) == 1:
        scores = _scores_of_one(node, found, base, transform, elem_type)
        return [label_of(node, labels, node.build.ArgMax(scores, axis=1, keepdims=0)), _float(node, scores, elem_type)]
    if len(labels.values) == 2:
        positive = positive and len(found.targets) < 2
        scores, compared = _scores_of_two(node, found, base, transform, elem_type, positive=positive)
    else:
        if base and len(base) != len(labels.values):
            raise fault(f"base_values has {len(base)} entries for {len(labels.values)} classes", node.proto)
        compared = _add_base(node, _all_columns(node, found, len(labels.values), elem_type), base, elem_type)
        scores = apply_transform(node.build, compared, transform, elem_type)
        if not base and found.voted(list(range(len(labels.values))), told=True) is not True:
            node.remarks.append("a class without votes has the score 0; onnxruntime never chooses it")
    return [label_of(node, labels, node.build.ArgMax(compared, axis=1, keepdims=0)), _float(node, scores, elem_type)]


@says("Replaced the tree regressor by Gather from tables of its nodes, level by level, and the sum of the leaves")
def regress_by_tables(node: Node) -> str:
    return _regress(node, elements=True)


@says("Replaced the tree regressor by comparing all nodes, Where among the leaves, and their sum")
def regress_by_choices(node: Node) -> str:
    node.remarks.append(FASTER)
    return _regress(node, elements=False)


def _regress(node: Node, *, elements: bool) -> str:
    count = _count(node)
    elem_type = _compares_in(node)
    aggregate = node.attributes.get("aggregate_function", SUM)
    if aggregate not in AGGREGATES:
        raise fault(f"aggregate_function is {aggregate!r}; it is one of {', '.join(AGGREGATES)}", node.proto)
    base = list(parameter(node, "base_values"))
    if base and len(base) != count:
        raise fault(f"base_values has {len(base)} entries for {count} targets", node.proto)
    forest = read_listed(node, "target", count, _dtype(elem_type))
    transform = checked_transform(node)
    node.close("sums the leaves in another order")
    found = totals(
        node.build,
        rows_as(node, elem_type),
        elem_type,
        width(node),
        forest,
        aggregate,
        elem_type,
        node.proto.ByteSize(),
        elements=elements,
    )
    return _float(node, _targets(node, found, count, aggregate, base, transform, elem_type), elem_type)


@says("Replaced TreeEnsemble by Gather from tables of its nodes, level by level, and the sum of the leaves")
def evaluate_by_tables(node: Node) -> str:
    return _evaluate(node, elements=True)


@says("Replaced TreeEnsemble by comparing all nodes, Where among the leaves, and their sum")
def evaluate_by_choices(node: Node) -> str:
    node.remarks.append(FASTER)
    return _evaluate(node, elements=False)


def _evaluate(node: Node, *, elements: bool) -> str:
    count, elem_type = _count(node), node.elem_type()
    aggregate, transform = node.attributes.get("aggregate_function", 1), numbered_transform(node, count)
    if not 0 <= aggregate < len(AGGREGATES):
        raise fault(f"aggregate_function={aggregate}: unknown number", node.proto)
    forest = read_ensemble(node, count, _dtype(elem_type))
    wide = T.FLOAT if elem_type == T.FLOAT16 else elem_type
    if any(value < 0 or value > 32 or value != int(value) for held in forest.members.values() for value in held):
        node.remarks.append("compares members of sets exactly; onnxruntime may truncate fractions")
    node.close("sums the leaves in another order")
    forest.vote_weights = forest.vote_weights.astype(_dtype(wide))
    found = totals(
        node.build,
        rows_as(node, elem_type),
        elem_type,
        width(node),
        forest,
        AGGREGATES[aggregate],
        wide,
        node.proto.ByteSize(),
        elements=elements,
    )
    values = _targets(node, found, count, AGGREGATES[aggregate], [], transform, wide)
    return recast(node.build, values, wide, elem_type)


def numbered_transform(node: Node, count: int) -> str:
    """The transform of a TreeEnsemble with `count` targets."""
    number = node.attributes.get("post_transform", 0)
    if not 0 <= number < len(NUMBERED):
        raise fault(f"post_transform={number}: unknown number", node.proto)
    if number in (1, 2) and count > 1:
        read, text = NUMBERED[number], TRANSFORMS[number]
        node.remarks.append(
            f"post_transform={number} means {read} in onnxruntime, {text} in ONNX's text; used onnxruntime's"
        )
    return NUMBERED[number]


def _compares_in(node: Node) -> int:
    """The type of the kernel: double for double, float for all others; where it has none, as wide as the parameters."""
    elem_type = node.elem_type()
    return T.DOUBLE if elem_type == T.DOUBLE or has_doubles(node) else T.FLOAT


def _dtype(elem_type: int) -> Any:
    dtypes: dict[int, Any] = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16}
    return dtypes[elem_type]


def _count(node: Node) -> int:
    count = int(node.attributes.get("n_targets", 0))
    if count < 1:
        raise fault(f"n_targets is {count}", node.proto)
    return count


def _float(node: Node, values: str, elem_type: int) -> str:
    return recast(node.build, values, elem_type, T.FLOAT)


def _one_column(node: Node) -> str:
    """The shape of one column, as many rows as there are rows of features."""
    build, x = node.build, node.input(0)
    rows = build.constant([1], T.INT64) if node.scope.rank(x) == 1 else build.Slice(build.Shape(x), [0], [1], [0])
    return str(build.Concat(rows, build.constant([1], T.INT64), axis=0))


def _column(node: Node, found: Totals, target: int, elem_type: int) -> str:
    """The scores of one class or target."""
    build = node.build
    if target not in found.targets:
        return str(build.Expand(build.constant(0.0, elem_type), _one_column(node)))
    if len(found.targets) == 1:
        return found.values
    return str(build.Gather(found.values, [found.targets.index(target)], axis=1))


def _all_columns(node: Node, found: Totals, count: int, elem_type: int) -> str:
    """The scores of all, 0 for those without a vote."""
    if len(found.targets) == count:
        return found.values
    build = node.build
    if not found.targets:
        return str(build.Concat(*[_column(node, found, 0, elem_type)] * count, axis=1))
    padded = build.Concat(found.values, _column(node, found, -1, elem_type), axis=1)
    places = [found.targets.index(t) if t in found.targets else len(found.targets) for t in range(count)]
    return str(build.Gather(padded, places, axis=1))


def _add_base(node: Node, scores: str, base: list[float], elem_type: int) -> str:
    return str(node.build.Add(scores, node.build.constant(base, elem_type))) if any(base) else scores


def _unless_absent(node: Node, found: Totals, targets: list[int], scores: str, elem_type: int) -> str:
    """The scores of targets, and 0 where they have no vote."""
    voted = found.voted(targets)
    if voted is True:
        return scores
    zero = node.build.constant(0.0, elem_type)
    return str(node.build.Mul(scores, zero) if voted is False else node.build.Where(voted, scores, zero))


def _targets(
    node: Node, found: Totals, count: int, aggregate: str, base: list[float], transform: str, elem_type: int
) -> str:
    """The scores of a regressor; of a single target PROBIT alone is taken."""
    build = node.build
    if count == 1:
        score = _column(node, found, 0, elem_type)
        if found.targets and aggregate in NOTHING:
            score = _unless_absent(node, found, [0], score, elem_type)
        score = _add_base(node, score, base, elem_type)
        return apply_transform(build, score, transform if transform == "PROBIT" else "NONE", elem_type)
    scores = _add_base(node, _all_columns(node, found, count, elem_type), base, elem_type)
    if any(base) or aggregate in NOTHING:
        scores = _unless_absent(node, found, list(range(count)), scores, elem_type)
    return apply_transform(build, scores, transform, elem_type)


def _scores_of_one(node: Node, found: Totals, base: list[float], transform: str, elem_type: int) -> str:
    """The scores of a classifier with a single class, of which PROBIT alone makes something else."""
    if len(base) > 1:
        raise fault(f"base_values has {len(base)} entries for 1 class", node.proto)
    node.remarks.append("chooses the only label, where onnxruntime returns 1 or 0")
    score = _add_base(node, _column(node, found, 0, elem_type), base, elem_type)
    return apply_transform(node.build, score, transform if transform == "PROBIT" else "NONE", elem_type)


def _scores_of_two(
    node: Node, found: Totals, base: list[float], transform: str, elem_type: int, *, positive: bool
) -> tuple[str, str]:
    """The scores of two classes, and what to choose by: rows without a vote for the second have scores of their own."""
    if len(base) > 2:
        raise fault(f"base_values has {len(base)} entries for 2 classes", node.proto)
    build, second = node.build, found.voted([1])
    if len(found.targets) == 2 or len(base) == 2 or (positive and (found.targets == [1] or transform == "LOGISTIC")):
        node.remarks.append("chooses the class with the larger score, which onnxruntime does not always do")
    if len(base) == 1 and len(found.targets) == 2 and second is not True:
        raise CannotConvert(
            node,
            "the trees have one base value for two classes, and some rows get no vote for the second "
            "class, so its score is undefined",
        )
    alone, both = ("", ""), ("", "")
    if second is not True:
        alone = _scores_of_first(node, found, base, transform, elem_type, positive=positive)
    if second is not False:
        compared = _scores_of_both(node, found, base, elem_type)
        both = apply_transform(build, compared, transform, elem_type), compared
    if second is True or second is False:
        return both if second else alone
    return str(build.Where(second, both[0], alone[0])), str(build.Where(second, both[1], alone[1]))


def _scores_of_first(
    node: Node, found: Totals, base: list[float], transform: str, elem_type: int, *, positive: bool
) -> tuple[str, str]:
    """Votes for the first class alone are the second's score; the first's is what is left of 1, or their negative."""
    build, score = node.build, _column(node, found, 0, elem_type)
    if len(base) == 2:
        compared = build.Concat(
            _add_base(node, score, base[:1], elem_type), _column(node, found, -1, elem_type), axis=1
        )
        return apply_transform(build, compared, transform, elem_type), str(compared)
    if transform == "PROBIT":
        raise CannotConvert(
            node,
            "leaves vote for one of two classes only, and with post_transform=PROBIT the other score is undefined",
        )
    score = _add_base(node, score, base, elem_type)
    left = positive and transform != "LOGISTIC"
    other = build.Sub(build.constant(1.0, elem_type), score) if left else build.Neg(score)
    compared = str(build.Concat(other, score, axis=1))
    return apply_transform(build, compared, transform, elem_type) if transform == "LOGISTIC" else compared, compared


def _scores_of_both(node: Node, found: Totals, base: list[float], elem_type: int) -> str:
    """Two base values make the second score the first's votes with a base value, and the first its negative."""
    build, first, second = node.build, _column(node, found, 0, elem_type), _column(node, found, 1, elem_type)
    if len(base) == 2:
        second = _add_base(node, first, base[1:], elem_type)
        first = _unless_absent(node, found, [0], build.Neg(second), elem_type)
    elif base:
        first = _unless_absent(node, found, [0], _add_base(node, first, base, elem_type), elem_type)
    elif found.targets == [0, 1]:
        return found.values
    return str(build.Concat(first, second, axis=1))
