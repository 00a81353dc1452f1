"""Adagrad, Adam and Momentum: one update of tensors and of what is known of their gradients, by the text."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.passes.errors import CannotConvert
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

DOMAIN = "ai.onnx.preview.training"


class _Update:
    """What the updates have in common, for one of the tensors: its type, the rate and the regularized gradient."""

    def __init__(self, node: Node, tensors: list[str], at: int):
        self.build, self.attributes, self.elem_type = node.build, node.attributes, node.elem_type(at)
        self.x, gradient, *self.states = tensors
        self.rate = recast(self.build, node.input(0), node.elem_type(0), self.elem_type)
        self.count = self.build.Cast(node.input(1), to=self.elem_type)
        self.begun = self.build.Greater(self.count, self.number(0.0))
        self.gradient = self.build.Add(self.scale("norm_coefficient", self.x, 0.0), gradient)

    def number(self, value: float) -> str:
        return self.build.constant(value, self.elem_type)

    def attribute(self, name: str, default: float) -> str:
        return self.number(self.attributes.get(name, default))

    def scale(self, name: str, value: str, default: float) -> str:
        return str(self.build.Mul(self.attribute(name, default), value))

    def mix(self, name: str, default: float, before: str, now: str) -> str:
        """The attribute times what was, plus the rest of 1 times what is now."""
        build, share = self.build, self.attribute(name, default)
        return str(build.Add(build.Mul(share, before), build.Mul(build.Sub(self.number(1.0), share), now)))


def _updates(node: Node, states: int) -> Iterator[_Update]:
    """One for each tensor; the tensors come first, then their gradients, and then each kind of state."""
    held = node.inputs[2:]
    count, rest = divmod(len(held), 2 + states)
    if rest or not count or len(node.outputs) != count * (1 + states):
        found = f"{len(held)} tensors and {len(node.outputs)} results"
        raise CannotConvert(node, f"{found}", supported=f"{2 + states} inputs and {1 + states} outputs for each tensor")
    for at in range(count):
        yield _Update(node, held[at::count], 2 + at)


def _in_turn(results: list[tuple[str, ...]]) -> list[str]:
    return [value for values in zip(*results, strict=True) for value in values]


@says("Replaced Adagrad by X - R / (1 + T * decay_factor) * G / (sqrt(H) + epsilon)")
def adagrad(node: Node) -> list[str]:
    node.close("rounds in another order")
    results: list[tuple[str, ...]] = []
    for one in _updates(node, 1):
        build = one.build
        rate = build.Div(one.rate, build.Add(one.number(1.0), one.scale("decay_factor", one.count, 0.0)))
        squares = build.Add(one.states[0], build.Mul(one.gradient, one.gradient))
        adaptive = build.Add(build.Sqrt(squares), one.attribute("epsilon", 1e-6))
        step = build.Div(build.Mul(rate, one.gradient), adaptive)
        results.append((build.Sub(one.x, step), squares))
    return _in_turn(results)


@says("Replaced Adam by X - R' * V / (sqrt(H) + epsilon)")
def adam(node: Node) -> list[str]:
    node.close("rounds in another order")
    results: list[tuple[str, ...]] = []
    for one in _updates(node, 2):
        build = one.build
        mean = one.mix("alpha", 0.9, one.states[0], one.gradient)
        squares = one.mix("beta", 0.999, one.states[1], build.Mul(one.gradient, one.gradient))
        root = build.Add(build.Sqrt(squares), one.attribute("epsilon", 1e-6))
        decays = [build.Pow(one.attribute(name, d), one.count) for name, d in (("alpha", 0.9), ("beta", 0.999))]
        first, second = (build.Sub(one.number(1.0), decay) for decay in decays)
        started = build.Div(build.Mul(one.rate, build.Sqrt(second)), first)
        rate = build.Where(one.begun, started, one.rate)
        moved = build.Sub(one.x, build.Div(build.Mul(rate, mean), root))
        kept = build.Sub(one.number(1.0), one.attribute("norm_coefficient_post", 0.0))
        results.append((build.Mul(kept, moved), mean, squares))
    return _in_turn(results)


@says("Replaced Momentum by X - R * V, V = alpha * V + beta * G")
def momentum(node: Node) -> list[str]:
    node.close("rounds in another order")
    mode = node.attributes.get("mode", "")
    if mode not in ("standard", "nesterov"):
        raise CannotConvert(node, f"mode={mode!r}", supported="standard or nesterov")
    results: list[tuple[str, ...]] = []
    for one in _updates(node, 1):
        build = one.build
        beta = build.Where(one.begun, one.attribute("beta", 1.0), one.number(1.0))
        velocity = build.Add(one.scale("alpha", one.states[0], 0.0), build.Mul(beta, one.gradient))
        ahead = velocity if mode == "standard" else build.Add(one.gradient, one.scale("alpha", velocity, 0.0))
        results.append((build.Sub(one.x, build.Mul(one.rate, ahead)), velocity))
    return _in_turn(results)


defined("Adagrad", adagrad, opset=14, domain=DOMAIN)
defined("Adam", adam, opset=16, domain=DOMAIN)
defined("Momentum", momentum, opset=16, domain=DOMAIN)
