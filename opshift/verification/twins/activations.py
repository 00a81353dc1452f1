"""Functions of each element that onnxruntime lacks in double, as their texts write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = Any
Attributes = Mapping[str, Any]


def _float(number: float) -> float:
    """What an attribute that is left out is: its default, as float32 holds it."""
    return np.float32(number).item()


def erf(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size).reshape(x.shape)


def _celu(x: Array, attributes: Attributes) -> Array:
    alpha = attributes.get("alpha", 1.0)
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)


def _elu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, attributes.get("alpha", 1.0) * np.expm1(x), x)


def _gelu(x: Array, attributes: Attributes) -> Array:
    if attributes.get("approximate", "none") == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + erf(x / math.sqrt(2)))


def _hard_sigmoid(x: Array, attributes: Attributes) -> Array:
    return np.clip(attributes.get("alpha", _float(0.2)) * x + attributes.get("beta", 0.5), 0, 1)


def _selu(x: Array, attributes: Attributes) -> Array:
    alpha, gamma = attributes.get("alpha", _float(1.67326319)), attributes.get("gamma", _float(1.05070102))
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


ACTIVATIONS: dict[str, Callable[[Array, Attributes], Array]] = {
    "Celu": _celu,
    "Elu": _elu,
    "Erf": lambda x, _: erf(x),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda x, _: x * np.clip(_float(1 / 6) * x + 0.5, 0, 1),
    "LeakyRelu": lambda x, attributes: np.where(x < 0, attributes.get("alpha", _float(0.01)) * x, x),
    "Mish": lambda x, _: x * np.tanh(np.logaddexp(0, x)),
    "Selu": _selu,
    "Softsign": lambda x, _: x / (1 + np.abs(x)),
    "ThresholdedRelu": lambda x, attributes: np.where(x > attributes.get("alpha", 1.0), x, 0.0),
}
