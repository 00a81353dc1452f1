"""What is computed of each element: in any shape, and of constants once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.passes.analysis.polynomial import Number
from opshift.passes.model.attributes import attribute_value
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule

_COMPUTING = frozenset(
    [
        *("Add", "Clip", "Div", "Max", "Min", "Mul", "Pow", "Sub"),
        *("Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
        *("Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
    ]
)
_MOST = 12  # nodes between two Reshapes or Transposes


class _Between:
    """Elementwise nodes between a Reshape, or Transposes of one order, and the node behind."""

    def __init__(self, last: Call, op: str):
        self.firsts: list[Call] = []
        self.nodes: list[Call] = []  # each after those that it reads
        self._seen: dict[str, bool] = {}
        self._last = last
        self._op = op
        self.fits = self._reach(last, 0) and bool(self.firsts) and self._is_closed()

    def _reach(self, call: Call, index: int) -> bool:
        name, made = call.input(index), call.maker(index)
        if name in self._seen:
            return self._seen[name]
        self._seen[name] = False
        if made is None:
            return False
        if made.op == self._op and self._is_alike(made):
            self.firsts.append(made)
            self._seen[name] = True
            return True
        if made.op not in _COMPUTING or len(self.nodes) >= _MOST:
            return False
        indices = [k for k in range(len(made.inputs)) if made.input(k)]
        bounds = 1 if made.op == "Clip" else len(made.inputs)  # from where on inputs stay scalars, whatever the shape
        if not all(self._is_scalar(made, k) or (k < bounds and self._reach(made, k)) for k in indices):
            return False
        self.nodes.append(made)
        self._seen[name] = True
        return True

    def _is_alike(self, first: Call) -> bool:
        """Whether a node that changes shape or order may be removed together with those that were found."""
        if self._op == "Reshape":
            return not self.firsts
        perm = first.attribute("perm")
        return perm is not None and all(other.attribute("perm") == perm for other in self.firsts)

    @staticmethod
    def _is_scalar(call: Call, index: int) -> bool:
        held = call.space.tensor(call.input(index))
        return held is not None and not held.dims

    def _is_closed(self) -> bool:
        """Whether nothing else reads what is between; a Reshape may stay for others."""
        inside = [name for node in [*self.nodes, self._last] for name in node.proto.input]
        space = self._last.space
        made = [node.output for node in (self.nodes if self._op == "Reshape" else [*self.firsts, *self.nodes])]
        return all(space.whole.check_uses(name, inside.count(name)) and not space.is_protected(name) for name in made)

    def compute(self, call: Call, shapes: Mapping[str, tuple[Number, ...]]) -> str:
        """Compute the same in front of `call` of what the first nodes read; the results have these `shapes`."""
        names = {first.output: first.input(0) for first in self.firsts}
        for node in self.nodes:
            inputs = [names.get(name, name) for name in node.proto.input]
            names[node.output] = call.emit(node.op, inputs, shapes.get(node.output), **_attributes(node))
        return names[self._last.input(0)]


def _attributes(call: Call) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in call.proto.attribute}


@says("Removed a Reshape and the Reshape that undoes it, around elementwise operators")
@rule("Reshape")
def compute_unreshaped(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op not in _COMPUTING:
        return None
    between = _Between(call, "Reshape")
    if not between.fits:
        return None
    first = between.firsts[0]
    reshaped = call.shape_of(first.output)
    if reshaped is not None:
        call.space.learn(call.input(0), reshaped)
    shape_values.follow(call)
    shape, source = call.shape_of(call.output), first.shape()
    if shape is None or shape != source:
        return None
    return between.compute(call, {node.output: shape for node in between.nodes})


@says("Merged Transposes before and behind elementwise operators")
@rule("Transpose")
def compute_untransposed(call: Call) -> Outcome:
    """Compute Transpose(Sqrt(Transpose(x))) as Transpose(Sqrt(x)), also with an Unsqueeze before the last Transpose."""
    view = call.maker_if("Unsqueeze") if call.alone() else None
    last = view or call
    made, perm, added = last.maker(), call.attribute("perm"), view.axes() if view is not None else []
    if made is None or perm is None or added is None or made.op not in _COMPUTING:
        return None
    between = _Between(last, "Transpose")
    if not between.fits:
        return None
    order = between.firsts[0].attribute("perm")
    shapes = {}
    for node in between.nodes:
        shape = call.shape_of(node.output)
        if shape is not None and len(shape) == len(order):
            shapes[node.output] = tuple(shape[order.index(axis)] for axis in range(len(order)))
    name = between.compute(call, shapes)
    new = {axis % len(perm) for axis in added}
    left = [axis for axis in range(len(perm)) if axis not in new]
    if view is not None:
        name = call.emit("Unsqueeze", [name, *view.inputs[1:]], **_attributes(view))
    call.read(name)
    call.set("perm", [axis if axis in new else left[order[left.index(axis)]] for axis in perm])
    return EDITED
