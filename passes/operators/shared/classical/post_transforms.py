"""What models of ai.onnx.ml make of their scores, as onnxruntime computes it."""

from __future__ import annotations

from opshift.passes.model.validity import fault
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def checked_transform(node: Node) -> str:
    """The post_transform of a node; raises `InvalidModel` for one that there is not."""
    name = node.attributes.get("post_transform", "NONE")
    if name not in TRANSFORMS:
        raise fault(f"post_transform is {name!r}; it is one of {', '.join(TRANSFORMS)}", node.proto)
    return str(name)


def apply_transform(build: Builder, scores: str, transform: str, elem_type: int) -> str:
    """A matrix of scores, one column a class or target."""
    if transform == "SOFTMAX":
        return str(build.Softmax(scores, axis=1))
    if transform == "LOGISTIC":
        return str(build.Sigmoid(scores))
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_others(build, scores, elem_type)
    if transform == "PROBIT":
        return probit(build, scores, elem_type)
    return scores


def _softmax_of_others(build: Builder, scores: str, elem_type: int) -> str:
    """Softmax in which a score within 1e-7 of 0 counts as itself times exp(-the largest score)."""
    largest = build.ReduceMax(scores, [1], keepdims=1)
    away = build.Greater(build.Abs(scores), build.constant(1e-7, elem_type))
    small = build.Mul(scores, build.Exp(build.Neg(largest)))
    parts = build.Where(away, build.Exp(build.Sub(scores, largest)), small)
    return str(build.Div(parts, build.ReduceSum(parts, [1], keepdims=1)))


def probit(build: Builder, scores: str, elem_type: int) -> str:
    """The quantile of the normal distribution, by Winitzki's formula for the inverse of the error function.

    z = 2 p - 1;  l = log(1 - z z);  v = 2 / (pi a) + l / 2;  sqrt(2) sign(z) sqrt(sqrt(v v - l / a) - v);  a = 0.147

    The last difference is -l / a / (sqrt(v v - l / a) + v), which does not cancel near p = 0.5 as the kernel's does.
    """

    def constant(value: float) -> str:
        return build.constant(value, elem_type)

    z = build.Sub(build.Mul(scores, constant(2.0)), constant(1.0))
    log = build.Log(build.Mul(build.Sub(constant(1.0), z), build.Add(constant(1.0), z)))
    v = build.Add(build.Mul(log, constant(0.5)), constant(2.0 / (3.14159 * 0.147)))
    part = build.Mul(log, constant(-1.0 / 0.147))
    root = build.Sqrt(build.Add(build.Mul(v, v), part))
    away = build.Where(build.Greater(v, constant(0.0)), build.Div(part, build.Add(root, v)), build.Sub(root, v))
    return str(build.Mul(build.Mul(build.Sign(z), build.Sqrt(away)), constant(1.41421356)))
