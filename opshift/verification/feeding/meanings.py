"""Find out what inputs mean: indices, axes, lengths, masks, or one of a few numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from opshift.passes.inputs.interface import tensor
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import Body, integer, with_nested
from opshift.passes.records import dataclass, field

# What an integer input means to its consumer, by operator and position.
_MEANING = {
    **{(op, 1): "index" for op in ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")},
    **{(op, 1): "axes" for op in ("CumProd", "CumSum", "Squeeze", "Unsqueeze")},
    **{(op, 4): "length" for op in ("RNN", "GRU", "LSTM")},
    ("ReverseSequence", 1): "length",
    ("RoiAlign", 2): "zeros",  # places of images, which onnxruntime 1.17 does not check
    ("Reshape", 1): "shape",
    ("Expand", 1): "ones",
    ("Tile", 1): "ones",
    ("ConstantOfShape", 0): "sizes",
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
    ("Loop", 0): "iterations",
    ("Div", 0): "dividend",
    ("Mod", 0): "dividend",
    ("Div", 1): "divisor",
    ("Mod", 1): "divisor",
}
_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
_WEAK = ("", "dividend", "divisor")  # what any other consumer overrules
# The table that an input is an index of, by operator and position, as onnxruntime writes it.
_TABLES = {("EmbedLayerNormalization", 0): 2, ("EmbedLayerNormalization", 1): 4, ("GatherBlockQuantized", 1): 0}
# Patterns for the name of an input, and its meaning where nodes tell none.
_NAMED = ((r"mask", "mask"), (r"(^|_)(len|lens|lengths?)($|_)", "length"), (r"token_type|segment_id", "type"))
# Operators whose result holds the numbers that they are given first.
_PASSING = frozenset(["Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Expand"])
_SELECTING = _PASSING | {"Slice", "Gather", "GatherND", "Tile"}
_COMPARING = frozenset(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
_KNOWN_WORDS = frozenset(["cats_strings", "classes_strings", "keys_strings", "pool_strings"])
_MOST_WORDS = 1000
_LOW = -1000.0  # what masks are multiplied by, so that nothing is left of what they leave out
INTEGERS = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))


@dataclass(frozen=True)
class Meanings:
    """What is known of inputs, by name.

    Attributes:
        of: the meaning of an input to the first consumer that tells one, else by its name.
        below: the size of the smallest table that an input is an index of.
        compared: the constants that an input is compared with.
        axes: the input and the axis that a length is one of.
        words: the strings that the model knows.
        categories: the strings besides which an encoder takes none, by input and column (None for all columns).
    """

    of: dict[str, str] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
    compared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    axes: dict[str, tuple[str, int]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    categories: dict[str, dict[int | None, tuple[str, ...]]] = field(default_factory=dict)


def constants(model: ModelProto) -> dict[str, TensorProto]:
    """Collect the tensors of a model by value, and by values that are casts of them. Runs before nodes are read."""
    tensors_by_name: dict[str, TensorProto] = {}
    for graph in with_nested([model.graph]):
        tensors_by_name.update((tensor.name, tensor) for tensor in getattr(graph, "initializer", ()))
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                tensors_by_name.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
            elif node.op_type in ("Identity", "Cast", "DequantizeLinear") and node.input[0] in tensors_by_name:
                tensors_by_name[node.output[0]] = tensors_by_name[node.input[0]]
    return tensors_by_name


def meanings(model: ModelProto, taken: Mapping[str, TypeProto]) -> Meanings:
    """Read the meanings of inputs from the nodes of a model, subgraphs included, and from their names.

    Runs once, before inputs are drawn.
    """
    integers = {name for name, value_type in taken.items() if tensor(value_type).elem_type in INTEGERS}
    reads_words = any(tensor(value_type).elem_type == TensorProto.STRING for value_type in taken.values())
    meanings_found = Meanings(words=_collect_strings(model) if reads_words else ())
    if reads_words:
        meanings_found.categories.update(_collect_categories(model, taken))
    reader = _Reader(meanings_found, integers, set(taken), constants(model))
    for graph in with_nested([model.graph]):
        reader.read(graph)
    for name in (name for name in taken if meanings_found.of.get(name, "") in _WEAK):
        named = next((meaning for pattern, meaning in _NAMED if re.search(pattern, name.lower())), "")
        compared = meanings_found.compared.get(name, ())
        if name in reader.masks or named == "mask" or (compared and {0, 1}.issuperset(compared)):
            meanings_found.of.setdefault(name, "mask")
        elif named and name in integers:
            meanings_found.of[name] = named
    return meanings_found


def _collect_strings(model: ModelProto) -> tuple[str, ...]:
    """Collect the categories, keys and constants of a model that are strings; string inputs are drawn from them.

    Runs once, before inputs are drawn.
    """
    words: list[bytes] = []
    for graph in with_nested([model.graph]):
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            if attribute.name in _KNOWN_WORDS:
                words += attribute.strings
    for constant in constants(model).values():
        words += constant.string_data
    return tuple(dict.fromkeys(word.decode(errors="replace") for word in words[:_MOST_WORDS]))


def _collect_categories(model: ModelProto, taken: Iterable[str]) -> dict[str, dict[int | None, tuple[str, ...]]]:
    """Collect the categories of encoders that fail at others, by the input and column that they read.

    Runs once, before inputs are drawn.
    """
    tensors_by_name, by_input = constants(model), dict[str, dict[int | None, tuple[str, ...]]]()
    origins: dict[str, tuple[str, int | None]] = {name: (name, None) for name in taken}
    for node in model.graph.node:
        origin = origins.get(node.input[0]) if node.input else None
        if origin is None:
            continue
        attributes = {attribute.name: attribute for attribute in node.attribute}
        selects = node.op_type == "Gather" and integer(node, "axis", 0) in (1, -1)
        if node.op_type in _PASSING:
            origins[node.output[0]] = origin
        elif (selects or node.op_type == "ArrayFeatureExtractor") and node.input[1] in tensors_by_name:
            columns = tensors.array(tensors_by_name[node.input[1]])
            if columns is not None and columns.size == 1:
                origins[node.output[0]] = origin[0], int(columns.item())
        elif node.op_type == "OneHotEncoder" and "zeros" in attributes and not attributes["zeros"].i:
            words = attributes["cats_strings"].strings if "cats_strings" in attributes else ()
            if words:
                categories = tuple(word.decode(errors="replace") for word in words)
                by_input.setdefault(origin[0], {})[origin[1]] = categories
    return by_input


class _Reader:
    """Follows inputs through operators that leave their numbers as they are."""

    def __init__(self, found: Meanings, integers: set[str], taken: set[str], held: Mapping[str, TensorProto]):
        self._found, self._taken, self._held = found, taken, held
        self._origins = {name: name for name in integers}
        self._chosen = {name: name for name in taken}  # through selections, and what is left of 1
        self.masks: set[str] = set()
        self._axes: dict[str, tuple[str, int]] = {name: (name, 0) for name in taken}  # where the first axis comes from

    def read(self, graph: Body) -> None:
        """Read the nodes of a graph in order, and note what each tells about the inputs.

        Runs for the main graph and its subgraphs.
        """
        for node in graph.node:
            if not self._chosen.keys().isdisjoint(node.input) and not normalize_domain(node.domain):
                self._read_node(node)
                self._find_masks(node)
                scales = ("", *node.input[1:3])[-1]
                if node.op_type in ("Resize", "Upsample") and scales in self._taken:
                    self._found.of[scales] = "scales"
                zero_point = next(iter(node.input[2:]), "")
                if node.op_type in _QUANTIZING and zero_point in self._taken - self._origins.keys():
                    self._found.of[zero_point] = "zero"  # of float8: onnxruntime ignores others
                self._note_first_axis(node)
            for index, name in enumerate(node.input if node.domain == "com.microsoft" else ()):
                if name in self._origins and (node.op_type, index) in _TABLES:
                    self._found.of.setdefault(self._origins[name], "index")
                    self._note_table_size(node, self._origins[name], node.input[_TABLES[node.op_type, index]])

    def _read_node(self, node: NodeProto) -> None:
        """Note what one node tells about inputs: an index of Gather, an axis, a length, a number compared with a
        constant. Runs for each node that reads an input.
        """
        for index, name in enumerate(node.input):
            origin = self._origins.get(name)
            if origin is None:
                continue
            if index == 0 and node.op_type in _PASSING:
                self._origins.setdefault(node.output[0], origin)
            reduces = index == 1 and node.op_type.startswith("Reduce")
            meaning = "axes" if reduces else _MEANING.get((node.op_type, index), "")
            if meaning and self._found.of.get(origin, "") in _WEAK:
                self._found.of[origin] = meaning
            if meaning == "index":
                self._note_table_size(node, origin, node.input[0])
            elif meaning == "length" and node.input[0] in self._axes:
                of, first = self._axes[node.input[0]]
                self._found.axes.setdefault(origin, (of, first + integer(node, "time_axis", 0)))
            elif node.op_type in _COMPARING:
                self._remember_compared(node.input, origin)

    def _find_masks(self, node: NodeProto) -> None:
        """Find masks: inputs cast to truths, or multiplied by a very low number. Runs for nodes that read an input."""
        name = next((name for name in node.input if name in self._chosen), None)
        if name is None:
            return
        origin = self._chosen[name]
        if (node.op_type in _SELECTING and name == node.input[0]) or (
            node.op_type == "Sub" and self._read_number(node.input[0]) == 1
        ):
            self._chosen.setdefault(node.output[0], origin)
        is_truth = node.op_type == "Cast" and integer(node, "to", 0) == TensorProto.BOOL
        if is_truth or (node.op_type == "Mul" and min(map(self._read_number, node.input)) <= _LOW):
            self.masks.add(origin)

    def _note_first_axis(self, node: NodeProto) -> None:
        """Remember which axis of an input is the first one of what a node makes of it."""
        axis = self._axes.get(node.input[0]) if node.input else None
        if axis is None or node.op_type not in ("Cast", "Identity", "Transpose") or (axis[1] and node.attribute):
            return
        perm = next((attribute_value(a) for a in node.attribute if a.name == "perm"), [0])
        self._axes[node.output[0]] = axis[0], axis[1] + perm[0]

    def _read_number(self, name: str) -> float:
        """Read a constant of one element; 0 for anything else. Runs for nodes that read an input."""
        tensor = self._held.get(name)
        array = tensors.array(tensor) if tensor is not None and max(tensor.dims, default=1) == 1 else None
        return float(array.item()) if array is not None and array.size == 1 and array.dtype.kind in "iuf" else 0.0

    def _note_table_size(self, node: NodeProto, origin: str, name: str) -> None:
        """Note the size of the table that an input is an index of. Runs for nodes that read an input."""
        table, size = self._held.get(name), 0
        if node.op_type == "OneHot":
            size = int(self._read_number(node.input[1]))
        elif table is not None and not node.op_type.startswith("Scatter") and node.op_type != "GatherND":
            axis = integer(node, "axis", 0)
            size = table.dims[axis] if -len(table.dims) <= axis < len(table.dims) else 0
        if size:
            self._found.below[origin] = min(size, self._found.below.get(origin, size))

    def _remember_compared(self, names: Iterable[str], origin: str) -> None:
        """Remember the number that an input is compared with; several numbers are classes, which it is one of.

        Runs for nodes that read an input.
        """
        known = self._found.compared.setdefault(origin, ())
        for constant in (self._held[name] for name in names if name in self._held):
            numbers = tensors.integers(constant) or []
            if len(numbers) == 1:
                self._found.compared[origin] = tuple(dict.fromkeys([*known, *numbers]))
            elif numbers and min(numbers) == 0:
                self._found.of.setdefault(origin, "index")
                self._found.below.setdefault(origin, max(numbers) + 1)
