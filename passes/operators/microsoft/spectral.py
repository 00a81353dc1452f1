"""Rfft and Irfft: the transform of the last axis of a real signal of even length, and its inverse."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced Rfft by DFT of the last axis, with onesided=1")
def transform(node: Node) -> str:
    _check(node)
    build = node.build
    return str(build.DFT(build.Unsqueeze(node.input(0), [-1]), onesided=1))


@says("Replaced Irfft by the inverse DFT of the mirrored spectrum")
def transform_back(node: Node) -> str:
    _check(node)
    build, half = node.build, node.input(0)
    inner = build.Slice(half, [-2], [0], [-2], [-1])  # neither the first nor the last frequency has a mirrored one
    mirrored = build.Mul(inner, build.constant([1.0, -1.0], node.elem_type()))
    signal = build.DFT(build.Concat(half, mirrored, axis=-2), inverse=1)
    return str(build.Squeeze(build.Slice(signal, [0], [1], [-1]), [-1]))


def _check(node: Node) -> None:
    found = {
        name: node.attributes.get(name, default)
        for name, default in (("signal_ndim", 1), ("normalized", 0), ("onesided", 1))
    }
    if found != {"signal_ndim": 1, "normalized": 0, "onesided": 1}:
        said = ", ".join(f"{name}={value}" for name, value in found.items())
        raise CannotConvert(node, f"{said}", supported="signal_ndim=1, normalized=0, onesided=1")


defined("Rfft", transform, opset=20, domain=MICROSOFT)
defined("Irfft", transform_back, opset=20, domain=MICROSOFT)
