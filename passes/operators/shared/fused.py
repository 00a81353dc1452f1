"""Activations that vendors' operators apply to what they compute, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.rewrite.node import Node

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ParametricSoftplus": ("alpha", "beta"),
    "Relu": (),
    "ScaledTanh": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""The activations that onnxruntime fuses into products, with the attributes that each has to have."""


OF_CONVOLUTIONS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""The same for convolutions, which have them as a list; others are ignored."""


def activated_convolution_of(node: Node, x: str) -> str:
    """The activation of a convolution, if `node` names one."""
    attributes = node.attributes
    if "activation" not in attributes:
        return x
    needed = OF_CONVOLUTIONS.get(attributes["activation"], ())
    given = list(attributes.get("activation_params", ())) if needed else []
    named = dict(zip(needed, given, strict=False)) if len(given) == len(needed) else {}
    return activate(node, x, OF_CONVOLUTIONS, named)


def activate(node: Node, x: str, names: Mapping[str, Sequence[str]], given: Mapping[str, float]) -> str:
    """The activation that `node` names, one of `names`, of a value; `given` are its attributes."""
    build, name = node.build, node.attributes.get("activation", "")
    needed = names.get(name)
    if needed is None or given.keys() != set(needed):
        has = f" with {', '.join(given)}" if given else ""
        raise CannotConvert(node, f"activation={name!r}{has}", supported=f"{_spell(names)}")
    if name == "Clip":
        elem_type = node.elem_type()
        return str(build.Clip(x, build.constant(given["min"], elem_type), build.constant(given["max"], elem_type)))
    if name == "ScaledTanh":
        return scaled_tanh(node, x, given["alpha"], given["beta"])
    if name == "ParametricSoftplus":
        return parametric_softplus(node, x, given["alpha"], given["beta"])
    return str(build.emit(name, [x], dict(given)))


def scaled_tanh(node: Node, x: str, alpha: float, beta: float) -> str:
    """alpha * tanh(beta * x)"""
    build, elem_type = node.build, node.elem_type()
    return str(build.Mul(build.Tanh(build.Mul(x, build.constant(beta, elem_type))), build.constant(alpha, elem_type)))


def parametric_softplus(node: Node, x: str, alpha: float, beta: float) -> str:
    """alpha * log(1 + exp(beta * x))"""
    build, elem_type = node.build, node.elem_type()
    return str(
        build.Mul(build.Softplus(build.Mul(x, build.constant(beta, elem_type))), build.constant(alpha, elem_type))
    )


def _spell(names: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name}({', '.join(of)})" if of else name for name, of in names.items())
