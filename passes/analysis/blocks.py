"""Find the width of channel blocks (NCHWc) in a model that onnxruntime saved fully optimized.

A block has 8 or 16 channels, as many as a vector register of the machine that saved the model, and no attribute tells
which. The width follows from sizes, as channels are padded with zeros to whole blocks. A run cannot tell it: a machine
with another width reads the file wrongly, without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.model.schemas import NCHWC
from opshift.passes.model.traversal import bodies

WIDTHS = (8, 16)
_ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
        *("Identity", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "QuickGelu", "Reciprocal", "Relu"),
        *("Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh"),
    ]
)
"""Elementwise operators, which onnxruntime leaves between blocked ones: the order of channels does not matter."""

_RANK, _VIEWED = 4, 5
"""The ranks of a blocked value, and of one in which blocks have an axis of their own, the last one."""

_asked: ContextVar[int | None] = ContextVar("asked", default=None)


@contextmanager
def assume_width(width: int | None) -> Iterator[None]:
    """In this context, assume a width if a model does not tell it (`--nchwc-width`); None assumes nothing."""
    token = _asked.set(width if width is not None else _asked.get())
    try:
        yield
    finally:
        _asked.reset(token)


class Blocks(NamedTuple):
    """The blocks of a model.

    Attributes:
        width: the channels of a block; 0 if unknown.
        why: why the width is unknown, or why the blocks cannot be undone.
        channels: the number of real channels (without padding) of blocked values, if known.
        taken: the number of real input channels of convolutions, by their output.
    """

    width: int
    why: str = ""
    channels: Mapping[str, int] = {}
    taken: Mapping[str, int] = {}


def blocks(model: ModelProto, folder: str | None) -> Blocks:
    """Find the width of a model's blocks.

    24 channels rule out a width of 16. 16 channels of which 8 are real rule out 8. Weights other than 0 in the padding
    rule out either.
    """
    found = [_BlockedGraph(body, folder) for body in bodies(model) if isinstance(body, GraphProto)]
    why = next((body.why for body in found if body.why), "")
    if why:
        return Blocks(0, why)
    possible = [width for width in WIDTHS if all(body.may_have(width) for body in found)]
    asked = _asked.get()
    if asked is not None and asked not in possible:
        return Blocks(0, f"its sizes do not fit blocks of {asked} (--nchwc-width)")
    if asked is None and len(possible) != 1:
        return Blocks(0, _OPEN if possible else "its sizes do not fit blocks of 8 or 16")
    width = possible[0] if asked is None else asked
    for body in found:
        body.count_by_weights(width)
    channels = {name: count for body in found for name, count in body.real.items()}
    taken = {name: count for body in found for name, count in body.real_inputs()}
    return Blocks(width, channels=channels, taken=taken)


_OPEN = (
    "its channels lie in blocks of 8 or 16, and the file does not tell which; try --nchwc-width 8 (saved on AVX2) or "
    "16 (AVX-512, NEON)"
)


def rename_values_in_blocks(model: ModelProto, folder: str | None) -> ModelProto:
    """Copy the model with new names for blocked values: without blocks, these have their numbers in another order."""
    made, found = (
        ModelProto(),
        [_BlockedGraph(body, folder).blocked if isinstance(body, GraphProto) else set() for body in bodies(model)],
    )
    made.CopyFrom(model)
    fresh = Names(model).fresh
    for body, blocked in zip(bodies(made), found, strict=True):
        outputs = {value.name for value in body.output} if isinstance(body, GraphProto) else set()
        names = {name: fresh(f"{name}/in_order") for name in sorted(blocked - outputs)}
        for node in body.node if names else ():
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in body.value_info if names else ():
            value.name = names.get(value.name, value.name)
    return made


def without_views(model: ModelProto, folder: str | None) -> ModelProto:
    """Replace Reshapes that give blocks their own axis by Identity; returns the model itself if there are none."""
    found = [_BlockedGraph(body, folder).views if isinstance(body, GraphProto) else set() for body in bodies(model)]
    if not any(found):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for body, views in zip(bodies(made), found, strict=True):
        for node in body.node:
            if node.op_type == "Reshape" and node.output[0] in views:
                node.op_type = "Identity"
                del node.input[1:], node.attribute[:]
    return made


def undo_blocks(weights: Any, width: int, *, inputs: bool) -> Any:
    """Put blocked output channels of a convolution's weights in plain order; with `inputs`, input channels too."""
    outer, inner, height, across = weights.shape
    if inputs:
        split = weights.reshape(outer // width, inner // width, height, across, width, width)
        return split.transpose(0, 5, 1, 4, 2, 3).reshape(weights.shape)
    return weights.reshape(outer // width, inner, height, across, width).transpose(0, 4, 1, 2, 3).reshape(weights.shape)


def takes_blocks(inner: int, outer: int, group: int, width: int) -> tuple[bool, bool]:
    """Tell whether a convolution reads blocks, and whether the input channels of its weights are blocked."""
    if group > 1:
        alone = inner == 1 and outer == group  # each channel has one filter
        return True, not alone
    return inner >= width, inner >= width


class _BlockedGraph:
    """One graph: its blocked values, groups of values with equal channels, and the widths that fit."""

    def __init__(self, body: GraphProto, folder: str | None):
        self.why = ""
        self.real: dict[str, int] = {}
        self._held = {tensor.name: tensor for tensor in body.initializer}
        self._given = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in body.input}
        self._folder = folder
        self.blocked: set[str] = set()
        self._root: dict[str, str] = {}
        self._convolutions: list[NodeProto] = []
        self._whole: set[str] = set()  # values that are joined block by block
        self.views: set[str] = set()
        """Values behind a Reshape that gives blocks an axis of their own, or removes it."""
        self._widths: set[int] = set()  # of such axes
        self._filled: dict[str, set[int]] = {}  # how many channels a value has, zeros included, by its root
        self._stated: dict[str, set[int]] = {}
        for node in body.node:
            self._look(node)
        if any(value.name in self.blocked for value in body.output):
            self.why = "a value in blocked layout is an output of the graph"
        for name in self.blocked:
            stated = self._stated.get(self._find(name), set())
            if len(stated) > 1:
                self.why = "values of one blocked layout have different numbers of channels"
            elif stated:
                self.real[name] = next(iter(stated))
        if any(self.real.get(name, 0) % WIDTHS[0] for name in self._whole):
            self.why = "Concat joins blocks that are padded with zeros"

    def count_by_weights(self, width: int) -> None:
        """Count real channels by weights, if nothing else tells: all are real if the last one has a weight."""
        for node in self._convolutions:
            name, weights = node.input[0], self._held[node.input[1]]
            outer, inner = weights.dims[:2]
            group = self._attribute(node, "group", 1)
            if name in self.real or group > 1 or not takes_blocks(inner, outer, group, width)[1]:
                continue
            values = self._array(weights)
            if values is not None and undo_blocks(values, width, inputs=True)[:, -1].any():
                root = self._find(name)
                self.real.update({other: inner for other in self.blocked if self._find(other) == root})

    def real_inputs(self) -> Iterator[tuple[str, int]]:
        """Count the real input channels of convolutions, without the padding of blocks, by the convolution's output."""
        for node in self._convolutions:
            if (count := self.real.get(node.input[0])) is not None:
                yield node.output[0], count

    def _find(self, name: str) -> str:
        while name in self._root:
            name = self._root[name]
        return name

    def _join(self, names: Sequence[str]) -> None:
        first = self._find(names[0])
        for name in names[1:]:
            root = self._find(name)
            if root != first:
                self._root[root] = first
                self._filled.setdefault(first, set()).update(self._filled.pop(root, ()))
                self._stated.setdefault(first, set()).update(self._stated.pop(root, ()))

    def _look(self, node: NodeProto) -> None:
        read, made = [name for name in node.input if name in self.blocked], node.output[0] if node.output else ""
        if node.domain != NCHWC:
            if not read:
                return
            values = [name for name in node.input if name not in self._held]
            shape = tensors.integers(self._held[node.input[1]]) if self._is_reshaped(node) else None
            if shape is not None and (len(shape) == _VIEWED or self._widths):
                self._view(node, shape)
            elif node.op_type == "Concat" and self._attribute(node, "axis", 0) == 1 and len(read) == len(node.input):
                self.blocked.add(made)
                self._whole.update(read)
            elif node.op_type in _ELEMENTWISE and len(read) == len(values) and self._are_scalars(node):
                self.blocked.add(made)
                self._join([*read, made])
            else:
                self.why = f"{node.op_type} reads a value in blocked layout"
            return
        if node.op_type == "ReorderOutput":
            stated = self._stated.setdefault(self._find(node.input[0]), set())
            stated.add(self._attribute(node, "channels", 0))
            return
        self.blocked.add(made)
        if node.op_type == "Conv":
            self._convolve(node)
        elif node.op_type != "ReorderInput":
            self._join([node.input[0], made])
        elif len(dims := self._given.get(node.input[0], [])) == _RANK:
            count = dims[-1 if self._attribute(node, "channels_last", 0) else 1]
            self._stated.setdefault(self._find(made), set()).update({count} if count else ())

    def _is_reshaped(self, node: NodeProto) -> bool:
        return node.op_type == "Reshape" and len(node.input) > 1 and node.input[1] in self._held

    def _view(self, node: NodeProto, shape: Sequence[int]) -> None:
        """Note a Reshape that gives blocks an axis of their own, or removes it; the channels stay equal."""
        self.views.add(node.output[0])
        self.blocked.add(node.output[0])
        self._join([node.input[0], node.output[0]])
        if len(shape) == _VIEWED:
            self._widths.add(shape[-1])

    def _convolve(self, node: NodeProto) -> None:
        self._convolutions.append(node)
        weights = self._held.get(node.input[1])
        if weights is None or len(weights.dims) != 4:
            self.why = "the weights of a blocked convolution are not constant"
            return
        self._filled.setdefault(self._find(node.output[0]), set()).add(weights.dims[0])
        if len(node.input) > 3 and node.input[3]:
            self._join([node.input[3], node.output[0]])
        if weights.dims[1] == 1 and self._attribute(node, "group", 1) == weights.dims[0]:
            self._join([node.input[0], node.output[0]])

    def _are_scalars(self, node: NodeProto) -> bool:
        """Tell whether all constants that a node reads are scalars."""
        return all(tensors.size(self._held[name]) == 1 for name in node.input if name in self._held)

    def _attribute(self, node: NodeProto, name: str, default: int) -> Any:
        return next((attribute_value(a) for a in node.attribute if a.name == name), default)

    def may_have(self, width: int) -> bool:
        """Tell whether all sizes, and the zeros of the padding, fit blocks of a width."""
        if self._widths - {width}:
            return False
        for name, filled in self._filled.items():
            stated = self._stated.get(name, set())
            if filled and any({_round_up(count, width)} != filled for count in stated):
                return False
        return all(self._fits(node, width) for node in self._convolutions)

    def _fits(self, node: NodeProto, width: int) -> bool:
        weights, group = self._held[node.input[1]], self._attribute(node, "group", 1)
        outer, inner = weights.dims[:2]
        blocked, inside = takes_blocks(inner, outer, group, width)
        if blocked != (node.input[0] in self.blocked) or outer % width or (inside and inner % width):
            return False
        made = self.real.get(node.output[0], outer)
        taken = self.real.get(node.input[0], inner) if inside and group == 1 else inner
        if inside and group == 1 and _round_up(taken, width) != inner:
            return False
        if (made, taken) == (outer, inner):
            return True
        values = self._array(weights)
        if values is None:
            return True
        plain = undo_blocks(values, width, inputs=inside)
        return not plain[made:].any() and not plain[:, taken:].any()

    def _array(self, held: TensorProto) -> Any:
        loaded = tensor_data.load(held, self._folder)
        return None if loaded is None else tensors.array(loaded)


def _round_up(count: int, width: int) -> int:
    return -(-count // width) * width
