"""What is computed of each element: in any shape, and of constants once."""

from __future__ import annotations

from opshift.passes.model.attributes import attribute_value
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import Outcome, rule

_OF_ONE = frozenset(
    [
        *("Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
        *("Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
    ]
)
_OF_SEVERAL = frozenset(["Add", "Clip", "Div", "Max", "Min", "Mul", "Pow", "Sub"])
_MOST = 12  # nodes between two Reshapes


class _Between:
    """The nodes between a Reshape and one that takes it back, if they compute element by element."""

    def __init__(self, last: Call):
        self.first: Call | None = None
        self.nodes: list[Call] = []  # each after those that it reads
        self._seen: dict[str, bool] = {}
        self._last = last
        self.fits = self._reach(last, 0) and self.first is not None and self._is_closed()

    def _reach(self, call: Call, index: int) -> bool:
        name, made = call.input(index), call.maker(index)
        if name in self._seen:
            return self._seen[name]
        self._seen[name] = False
        if made is None:
            return False
        if made.op == "Reshape" and (self.first is None or self.first.proto is made.proto):
            self.first = made
            self._seen[name] = True
            return True
        if (made.op not in _OF_ONE and made.op not in _OF_SEVERAL) or len(self.nodes) >= _MOST:
            return False
        indices = [k for k in range(len(made.inputs)) if made.input(k)]
        bounds = 1 if made.op == "Clip" else len(made.inputs)  # from where on inputs stay scalars, whatever the shape
        if not all(self._is_scalar(made, k) or (k < bounds and self._reach(made, k)) for k in indices):
            return False
        self.nodes.append(made)
        self._seen[name] = True
        return True

    @staticmethod
    def _is_scalar(call: Call, index: int) -> bool:
        held = call.space.tensor(call.input(index))
        return held is not None and not held.dims

    def _is_closed(self) -> bool:
        """Whether nothing else reads what is between."""
        inside = [name for node in [*self.nodes, self._last] for name in set(node.proto.input)]
        space = self._last.space
        made = [node.output for node in self.nodes]
        return all(space.whole.check_uses(name, inside.count(name)) and not space.is_protected(name) for name in made)


@says("Removed a Reshape and the Reshape that undoes it, around elementwise operators")
@rule("Reshape")
def compute_unreshaped(call: Call) -> Outcome:
    made = call.maker()
    if made is None or (made.op not in _OF_ONE and made.op not in _OF_SEVERAL):
        return None
    between = _Between(call)
    if not between.fits or between.first is None:
        return None
    reshaped = call.shape_of(between.first.output)
    if reshaped is not None:
        call.space.learn(call.input(0), reshaped)
    shape_values.follow(call)
    shape, source = call.shape_of(call.output), between.first.shape()
    if shape is None or shape != source:
        return None
    names = {between.first.output: between.first.input(0)}
    for node in between.nodes:
        attributes = {a.name: attribute_value(a) for a in node.proto.attribute}
        inputs = [names.get(name, name) for name in node.proto.input]
        names[node.output] = call.emit(node.op, inputs, shape, **attributes)
    return names[call.input(0)]
