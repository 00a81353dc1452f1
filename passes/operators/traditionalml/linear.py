"""LinearClassifier and LinearRegressor of ai.onnx.ml: a product with coefficients, and what becomes of scores."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.classes import class_labels, label_of
from opshift.passes.operators.shared.classical.numbers import rows_as, width
from opshift.passes.operators.shared.classical.post_transforms import apply_transform, checked_transform
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
ML = "ai.onnx.ml"
OPSET = 18


@says("Replaced LinearClassifier by MatMul with the coefficients, and ArgMax for the label")
def classify(node: Node) -> list[str]:
    build, labels = node.build, class_labels(node, "classlabels_ints", "classlabels_strings")
    transform, classes = checked_transform(node), len(labels.values)
    coefficients = node.attributes.get("coefficients", [])
    rows = _rows_of(node, len(coefficients), (1, classes) if classes == 2 else (classes,))
    scores = _product(node, rows, coefficients)
    if rows == classes:
        places = build.ArgMax(scores, axis=1, keepdims=0)
        return [label_of(node, labels, places), apply_transform(build, scores, transform, T.FLOAT)]
    if transform == "PROBIT":
        raise CannotConvert(
            node, "post_transform=PROBIT has one score for two classes, and the other score is undefined"
        )
    if transform == "LOGISTIC":
        scores = build.Concat(build.Neg(scores), scores, axis=1)
        places = build.ArgMax(scores, axis=1, keepdims=0)
        return [label_of(node, labels, places), str(build.Sigmoid(scores))]
    node.remarks.append("chooses the class with the larger score, which onnxruntime does not do between 0 and 0.5")
    scores = build.Concat(build.Sub(build.constant(1.0, T.FLOAT), scores), scores, axis=1)
    return [label_of(node, labels, build.ArgMax(scores, axis=1, keepdims=0)), str(scores)]


@says("Replaced LinearRegressor by MatMul with the coefficients and Add of the intercepts")
def regress(node: Node) -> str:
    targets, coefficients = node.attributes.get("targets", 1), node.attributes.get("coefficients", [])
    transform = checked_transform(node)
    scores = _product(node, _rows_of(node, len(coefficients), (targets,)), coefficients)
    if targets == 1 and transform != "PROBIT":  # of one score the kernel makes nothing else
        return scores
    return apply_transform(node.build, scores, transform, T.FLOAT)


def _rows_of(node: Node, count: int, possible: tuple[int, ...]) -> int:
    """How many rows of coefficients there are; raises `InvalidModel` where they fit neither classes nor features."""
    features, intercepts = width(node), node.attributes.get("intercepts", [])
    fits = [rows for rows in possible if rows and count and count % rows == 0]
    if features is not None:
        fits = [rows for rows in fits if rows * features == count]
    if intercepts:
        fits = [rows for rows in fits if rows == len(intercepts)]
    if not fits:
        asked = " or ".join(map(str, possible))
        told = "" if features is None else f" of {features} features"
        raise fault(f"{count} coefficients, {len(intercepts)} intercepts for {asked} scores{told}", node.proto)
    return fits[-1]


def _product(node: Node, rows: int, coefficients: list[float]) -> str:
    node.close("sums in another order")
    weights = np.asarray(coefficients, np.float32).reshape(rows, -1).T
    intercepts = node.attributes.get("intercepts", [])
    bias = node.build.constant(intercepts, T.FLOAT) if any(intercepts) else None
    return str(node.build.Gemm(rows_as(node, T.FLOAT), node.build.constant(weights, T.FLOAT), bias))


defined("LinearClassifier", classify, opset=OPSET, domain=ML)
defined("LinearRegressor", regress, opset=OPSET, domain=ML)
