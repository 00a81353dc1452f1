"""What the integers that a model is given mean to it: indices, axes, lengths, or one of a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto, default_domain
from opshift.passes.model.traversal import Body, with_nested
from opshift.passes.records import dataclass, field
from opshift.passes.specialization.interface import tensor

# What an integer input means to its consumer, by operator and position.
_MEANING = {
    **{(op, 1): "index" for op in ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")},
    **{(op, 1): "axes" for op in ("Squeeze", "Unsqueeze")},
    **{(op, 1): "axis" for op in ("CumSum", "CumProd")},
    **{(op, 4): "length" for op in ("RNN", "GRU", "LSTM")},
    ("ReverseSequence", 1): "length",
    ("Reshape", 1): "shape",
    ("Expand", 1): "ones",
    ("Tile", 1): "ones",
    ("ConstantOfShape", 0): "counting",
    ("OneHot", 0): "index",
    ("OneHot", 1): "many",
    ("TopK", 1): "ones",
    ("Slice", 1): "zeros",
    ("Slice", 2): "many",
    ("Slice", 3): "axes",
    ("Slice", 4): "ones",
    ("Pad", 1): "ones",
    ("Range", 0): "zeros",
    ("Range", 1): "many",
    ("Range", 2): "ones",
    ("Trilu", 1): "ones",
    ("Loop", 0): "turns",
    ("Div", 1): "divisor",
    ("Mod", 1): "divisor",
}
# Operators whose result holds the numbers that they are given first.
_PASSING = frozenset(["Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Expand"])
# Operators that compute with numbers, whatever they are.
_COMPUTING = _PASSING | {"Abs", "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Clip", "Max"}
_COMPUTING |= {"Concat", "MatMulInteger", "Mean", "Min", "Mul", "Neg", "ReduceMax", "ReduceMin", "ReduceSum", "Sign"}
_COMPUTING |= {"Sub", "Sum", "Where", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}
_DIVIDING = frozenset(["Div", "Mod"])
_COMPARING = frozenset(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
INTEGERS = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))


@dataclass(frozen=True)
class Meanings:
    """What is known of integer inputs, by name.

    Attributes:
        of: what an input means to the first consumer that says so.
        below: the size of the smallest table that an input is an index of.
        compared: the constants that an input is compared with.
        used: the inputs whose numbers may tell sizes, places or lengths, wherever they go.
        divided: the inputs whose numbers are divided, or divide: by 0, and the least of all by -1, processes end.
        is_any: whether there are such inputs.
    """

    of: dict[str, str] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
    compared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    divided: set[str] = field(default_factory=set)
    is_any: bool = False


def meanings(model: ModelProto, taken: Mapping[str, TypeProto]) -> Meanings:
    """What the nodes of a model, subgraphs included, make of its integers; nothing is read where it takes none."""
    origins = {name: name for name, kind in taken.items() if tensor(kind).elem_type in INTEGERS}
    found = Meanings(is_any=bool(origins))
    if origins:
        reader = _Reader(found, origins)
        for graph in with_nested([model.graph]):
            reader.read(graph)
    return found


class _Reader:
    """Follows integers from the inputs through operators that leave them as they are."""

    def __init__(self, found: Meanings, origins: dict[str, str]):
        self._found, self._origins = found, origins
        self._held: dict[str, TensorProto] = {}
        self._reached = {name: {name} for name in origins}

    def read(self, graph: Body) -> None:
        self._held.update((tensor.name, tensor) for tensor in getattr(graph, "initializer", ()))
        for node in graph.node:
            if node.op_type == "Constant":
                self._held.update((node.output[0], a.t) for a in node.attribute if a.name == "value" and node.output)
            elif not default_domain(node.domain):
                self._node(node)
            self._follow(node)

    def _follow(self, node: NodeProto) -> None:
        """Where numbers go, computed with or not."""
        for index, name in enumerate(node.input):
            reached = self._reached.get(name)
            if not reached:
                continue
            if node.op_type in _DIVIDING and (index == 0 or name in self._origins):
                self._found.divided.update(reached)
            elif (node.op_type, index) in _MEANING or default_domain(node.domain) or node.op_type not in _COMPUTING:
                self._found.used.update(reached)
            for made in node.output:
                self._reached[made] = self._reached.get(made, set()) | reached

    def _node(self, node: NodeProto) -> None:
        for index, name in enumerate(node.input):
            origin = self._origins.get(name)
            if origin is None:
                continue
            if index == 0 and node.op_type in _PASSING:
                self._origins.setdefault(node.output[0], origin)
            meaning = "axes" if index == 1 and _reduces(node) else _MEANING.get((node.op_type, index), "")
            if meaning:
                self._found.of.setdefault(origin, meaning)
            if meaning == "index":
                self._bound(node, origin)
            elif node.op_type in _COMPARING:
                self._compared(node.input, origin)

    def _bound(self, node: NodeProto, origin: str) -> None:
        table = self._held.get(node.input[0])
        if table is None or not node.op_type.startswith("Gather") or node.op_type == "GatherND":
            return
        axis = next((attribute_value(a) for a in node.attribute if a.name == "axis"), 0)
        if -len(table.dims) <= axis < len(table.dims):
            self._found.below[origin] = min(table.dims[axis], self._found.below.get(origin, table.dims[axis]))

    def _compared(self, names: Iterable[str], origin: str) -> None:
        for name in names:
            tensor = self._held.get(name)
            numbers = None if tensor is None or any(size != 1 for size in tensor.dims) else tensors.integers(tensor)
            known = self._found.compared.get(origin, ())
            self._found.compared[origin] = tuple(dict.fromkeys([*known, *(numbers or ())]))


def _reduces(node: NodeProto) -> bool:
    family = schemas.schema(node.domain, node.op_type, schemas.latest()) if not default_domain(node.domain) else None
    return family is not None and family.family == "reduction"
