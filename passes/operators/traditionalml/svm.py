"""SVMClassifier and SVMRegressor of ai.onnx.ml: kernels of the rows and the support vectors, and products of these."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.classes import Labels, class_labels, label_of
from opshift.passes.operators.shared.classical.numbers import rows_as, width
from opshift.passes.operators.shared.classical.post_transforms import apply_transform, checked_transform
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
ML = "ai.onnx.ml"
OPSET = 18
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
ROUNDS = 100  # after which the kernel gives up the coupling of probabilities
DIFFERENCES = 4096  # elements of a row by which RBF subtracts each support vector; of more it multiplies


@says("Replaced SVMClassifier by kernels of rows and support vectors, and votes of each pair of classes")
def classify(node: Node) -> list[str]:
    build, labels = node.build, class_labels(node, "classlabels_ints", "classlabels_strings")
    transform, sizes = checked_transform(node), node.attributes.get("vectors_per_class", [])
    classes = len(labels.values)
    node.close("sums in another order")
    if not sizes:
        return _classify_by_planes(node, labels, transform)
    if len(sizes) != classes or min(sizes) < 0:
        raise fault(f"vectors_per_class has {len(sizes)} entries for {classes} classes", node.proto)
    pairs = list(combinations(range(classes), 2))
    scores = _scores_of_pairs(node, sizes, pairs)
    wins = build.Cast(build.Greater(scores, build.constant(0.0, T.FLOAT)), to=T.FLOAT)
    won, lost = np.zeros((len(pairs), classes), np.float32), np.zeros(classes, np.float32)
    for place, (one, other) in enumerate(pairs):
        won[place, one], won[place, other] = 1, -1
        lost[other] += 1
    votes = build.Add(build.MatMul(wins, build.constant(won, T.FLOAT)), build.constant(lost, T.FLOAT))
    label = label_of(node, labels, build.ArgMax(votes, axis=1, keepdims=0))
    if node.attributes.get("prob_a", []) and node.attributes.get("prob_b", []):
        return [label, apply_transform(build, _probabilities(node, scores, pairs, classes), transform, T.FLOAT)]
    if classes > 2:
        return [label, apply_transform(build, scores, transform, T.FLOAT)]
    return [label, _scores_of_two(node, scores, transform)]


@says("Replaced SVMRegressor by kernels of rows and support vectors, times the coefficients, plus rho")
def regress(node: Node) -> str:
    build, coefficients = node.build, node.attributes.get("coefficients", [])
    node.close("sums in another order")
    checked_transform(node)  # of which the kernel makes nothing
    if node.attributes.get("n_supports", 0):
        given = np.asarray(coefficients, np.float32)
        order = _interleaved(given > 0, given)
        x, coefficients = _kernels(node, order), given[order].tolist()
    else:
        _check_width(node, len(coefficients))
        x = rows_as(node, T.FLOAT)
    rho = node.attributes.get("rho", [])
    if len(rho) != 1 or not coefficients:
        raise fault(f"{len(coefficients)} coefficients, {len(rho)} rho", node.proto)
    weights = build.constant(np.asarray(coefficients, np.float32)[:, None], T.FLOAT)
    scores = build.Add(build.MatMul(x, weights), build.constant(rho, T.FLOAT))
    if not node.attributes.get("one_class", 0):
        return str(scores)
    one, other = (build.constant(value, T.FLOAT) for value in (1.0, -1.0))
    return str(build.Where(build.Greater(scores, build.constant(0.0, T.FLOAT)), one, other))


def _classify_by_planes(node: Node, labels: Labels, transform: str) -> list[str]:
    """Without support vectors: a product with the coefficients of each class, all with the first rho."""
    build, coefficients = node.build, node.attributes.get("coefficients", [])
    classes, rho = len(labels.values), node.attributes.get("rho", [])
    if not coefficients or len(coefficients) % classes or not rho:
        raise fault(f"{len(coefficients)} coefficients, {len(rho)} rho for {classes} classes", node.proto)
    _check_width(node, len(coefficients) // classes)
    weights = np.asarray(coefficients, np.float32).reshape(classes, -1).T
    scores = build.MatMul(rows_as(node, T.FLOAT), build.constant(weights, T.FLOAT))
    scores = build.Add(scores, build.constant(rho[:1], T.FLOAT))
    if classes == 2:
        node.remarks.append("chooses the class with the larger score, which onnxruntime does not always do")
    places = build.ArgMax(scores, axis=1, keepdims=0)
    return [label_of(node, labels, places), apply_transform(build, scores, transform, T.FLOAT)]


def _check_width(node: Node, features: int) -> None:
    held = width(node)
    if held is not None and held != features:
        raise fault(f"coefficients or support vectors of {features} features, but there are {held}", node.proto)


def _interleaved(sides: Any, coefficients: Any) -> Any:
    """An order of support vectors in which those of all sides take turns.

    What they add to a score is of one sign on one side and of the other on the other. One side after the other, sums
    become far larger than the score, and round accordingly: the kernel adds in double.
    """
    weights, places = np.abs(np.asarray(coefficients, np.float64)), np.zeros(len(sides))
    for side in np.unique(sides):
        own = weights[sides == side]
        places[sides == side] = (np.cumsum(own) - own / 2) / (own.sum() or 1.0)
    return np.argsort(places, kind="stable")


def _kernels(node: Node, order: Any) -> str:
    """The kernel of each row and each of the support vectors, in an order."""
    build, held, count = node.build, node.attributes.get("support_vectors", []), len(order)
    if not count or not held or len(held) % count:
        raise fault(f"support_vectors has {len(held)} entries for {count} vectors", node.proto)
    name = node.attributes.get("kernel_type", "LINEAR")
    if name not in KERNELS:
        raise fault(f"kernel_type is {name!r}; it is one of {', '.join(KERNELS)}", node.proto)
    given = [*node.attributes.get("kernel_params", []), 0.0, 0.0, 0.0]
    gamma, shift, degree = given[:3]
    vectors = np.asarray(held, np.float32).reshape(count, -1)[order]
    _check_width(node, vectors.shape[1])
    x = rows_as(node, T.FLOAT)
    if name == "RBF":
        return str(build.Exp(build.Mul(_distances(build, x, vectors), build.constant(-gamma, T.FLOAT))))
    products = build.MatMul(x, build.constant(vectors.T, T.FLOAT))
    if name == "LINEAR":
        return str(products)
    inner = build.Add(build.Mul(products, build.constant(gamma, T.FLOAT)), build.constant(shift, T.FLOAT))
    return str(build.Tanh(inner) if name == "SIGMOID" else build.Pow(inner, build.constant(degree, T.FLOAT)))


def _distances(build: Builder, x: str, vectors: Any) -> str:
    """The squared distances of rows and vectors; of many x x - 2 x v + v v, counted from the mean of the vectors."""
    if vectors.size <= DIFFERENCES:
        away = build.Sub(build.Unsqueeze(x, [1]), build.constant(vectors[None], T.FLOAT))
        return str(build.ReduceSum(build.Mul(away, away), [2], keepdims=0))
    middle = vectors.mean(axis=0)
    x, vectors = build.Sub(x, build.constant(middle, T.FLOAT)), vectors - middle
    own = build.ReduceSum(build.Mul(x, x), [1], keepdims=1)
    doubled = build.MatMul(x, build.constant(-2 * vectors.T, T.FLOAT))
    found = build.Add(build.Add(own, doubled), build.constant((vectors * vectors).sum(axis=1), T.FLOAT))
    finite = build.Less(own, build.constant(np.inf, T.FLOAT))  # infinity is infinitely far, not inf - inf
    return str(build.Where(finite, build.Relu(found), own))


def _scores_of_pairs(node: Node, sizes: list[int], pairs: list[tuple[int, int]]) -> str:
    """One score for each pair of classes, of the support vectors of both."""
    count, rho = sum(sizes), node.attributes.get("rho", [])
    coefficients = np.asarray(node.attributes.get("coefficients", []), np.float32)
    if coefficients.size != (len(sizes) - 1) * count or len(rho) != len(pairs):
        raise fault(f"{coefficients.size} coefficients, {len(rho)} rho for {len(pairs)} pairs of classes", node.proto)
    coefficients = coefficients.reshape(len(sizes) - 1, count)
    ends = np.cumsum([0, *sizes])
    weights = np.zeros((count, len(pairs)), np.float32)
    for place, (one, other) in enumerate(pairs):
        weights[ends[one] : ends[one + 1], place] = coefficients[other - 1, ends[one] : ends[one + 1]]
        weights[ends[other] : ends[other + 1], place] = coefficients[one, ends[other] : ends[other + 1]]
    build, order = node.build, _interleaved(np.repeat(np.arange(len(sizes)), sizes), np.abs(coefficients).sum(axis=0))
    kernels = _kernels(node, order)
    return str(build.Gemm(kernels, build.constant(weights[order], T.FLOAT), build.constant(rho, T.FLOAT)))


def _scores_of_two(node: Node, score: str, transform: str) -> str:
    """[-s, s], or [1 - s, s] under SOFTMAX and SOFTMAX_ZERO, which are not applied."""
    build = node.build
    if transform == "PROBIT":
        raise CannotConvert(
            node, "post_transform=PROBIT has one score for two classes, and the other score is undefined"
        )
    if transform in ("SOFTMAX", "SOFTMAX_ZERO"):
        return str(build.Concat(build.Sub(build.constant(1.0, T.FLOAT), score), score, axis=1))
    scores = build.Concat(build.Neg(score), score, axis=1)
    return apply_transform(build, scores, transform, T.FLOAT)


def _probabilities(node: Node, scores: str, pairs: list[tuple[int, int]], classes: int) -> str:
    """The probability of each class, coupled of those of pairs (Wu, Lin and Weng), as many rounds as libsvm makes."""
    build = node.build
    a, b = node.attributes["prob_a"], node.attributes["prob_b"]
    if len(a) != len(pairs) or len(b) != len(pairs):
        raise fault(f"{len(a)} prob_a, {len(b)} prob_b for {len(pairs)} pairs of classes", node.proto)
    inner = build.Add(build.Mul(scores, build.constant(a, T.FLOAT)), build.constant(b, T.FLOAT))
    chosen = build.Sigmoid(build.Neg(inner))
    least, most = build.constant(1e-7, T.FLOAT), build.constant(1 - 1e-7, T.FLOAT)
    chosen = build.Max(build.Min(chosen, most), least)
    # Columns of all pairs (i, j) of different classes: r_ij is the probability of i against j, and r_ji what is left.
    both = build.Concat(chosen, build.Sub(build.constant(1.0, T.FLOAT), chosen), axis=1)
    column = {pair: place for place, pair in enumerate([*pairs, *((j, i) for i, j in pairs)])}
    rows = []
    for i in range(classes):
        against = build.Gather(both, [column[j, i] for j in range(classes) if j != i], axis=1)
        for_it = build.Gather(both, [column[i, j] for j in range(classes) if j != i], axis=1)
        own = build.ReduceSum(build.Mul(against, against), [1], keepdims=1)
        others = build.Neg(build.Mul(against, for_it))
        before = build.Slice(others, [0], [i], [1]) if i else None
        behind = build.Slice(others, [i], [classes], [1]) if i < classes - 1 else None
        rows.append(str(build.Concat(*filter(None, (before, own, behind)), axis=1)))
    return _couple(build, rows, classes)


def _couple(build: Builder, rows: list[str], classes: int) -> str:
    """Minimize p Q p, where `rows` are those of Q, class after class until Q p is p Q p within 0.005 / classes."""
    whole = build.Concat(*(build.Unsqueeze(row, [1]) for row in rows), axis=1)
    one, enough = build.constant(1.0, T.FLOAT), build.constant(0.005 / classes, T.FLOAT)
    own = [build.Gather(row, [i], axis=1) for i, row in enumerate(rows)]
    start = build.Expand(build.constant(1 / classes, T.FLOAT), build.Shape(rows[0]))  # where it ends if there is a NaN

    def body(inner: Builder, _: str, so_far: list[str]) -> list[str]:
        p = so_far[0]
        product = inner.Squeeze(inner.MatMul(whole, inner.Unsqueeze(p, [2])), [2])
        value = inner.ReduceSum(inner.Mul(p, product), [1], keepdims=1)
        away = inner.ReduceMax(inner.Abs(inner.Sub(product, value)), [1], keepdims=1)
        waits = inner.GreaterOrEqual(away, enough)
        after = p
        for i, row in enumerate(rows):
            gradient = inner.Gather(product, [i], axis=1)
            step = inner.Div(inner.Sub(value, gradient), own[i])
            scale = inner.Add(step, one)
            chosen = inner.constant([[float(i == j) for j in range(classes)]], T.FLOAT)
            after = inner.Div(inner.Add(after, inner.Mul(step, chosen)), scale)
            twice = inner.Add(inner.Mul(step, own[i]), inner.Add(gradient, gradient))
            value = inner.Div(inner.Div(inner.Add(value, inner.Mul(step, twice)), scale), scale)
            product = inner.Div(inner.Add(product, inner.Mul(step, row)), scale)
        left = inner.ReduceSum(inner.Cast(waits, to=T.FLOAT), keepdims=0)
        return [inner.Cast(left, to=T.BOOL), inner.Where(waits, after, p)]

    value_type = tensor_type(T.FLOAT, [None, classes])
    return build.loop(max(ROUNDS, classes), [(start, value_type)], body, ends=True)[0]


defined("SVMClassifier", classify, opset=OPSET, domain=ML)
defined("SVMRegressor", regress, opset=OPSET, domain=ML)
