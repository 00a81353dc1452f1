"""Find operators that move a window over a feature map, and the maps that are smaller than their window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import with_nested
from opshift.passes.records import dataclass
from opshift.verification.feeding.meanings import constants

_WEIGHT = {"QLinearConv": 3, "QLinearConvTranspose": 3}  # where the kernel stands; elsewhere it is the second input
_CONVOLUTIONS = frozenset(["Conv", "ConvInteger", "ConvTranspose", "DeformConv", "FusedConv", *_WEIGHT])
_POOLS = frozenset(["MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"])
_TAPS = {"cubic": 4, "linear": 2, "bilinear": 2}


@dataclass(frozen=True)
class Window:
    """A node that reads `sizes` elements of `value` at once, along the axes from `axis` on."""

    node: NodeProto
    value: str
    axis: int
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f'{self.node.op_type} "{self.node.name or self.node.output[0]}"'

    def lacking(self, shape: Sequence[Any]) -> bool:
        """Check if a feature map is smaller than the window, to choose larger inputs; False if sizes are unknown."""
        seen = shape[self.axis :][: len(self.sizes)]
        if len(seen) < len(self.sizes) or not all(isinstance(size, int) and size >= 0 for size in seen):
            return False
        return any(size > there for size, there in zip(self.sizes, seen, strict=True))


def windows(model: ModelProto) -> list[Window]:
    """Find the windows of a model that are larger than one element. Runs before sizes are chosen."""
    tensors_by_name = constants(model)
    candidates = (_find_window(node, tensors_by_name) for graph in with_nested([model.graph]) for node in graph.node)
    return [window for window in candidates if window is not None and max(window.sizes, default=0) > 1]


def infer_shapes(
    model: ModelProto, folder: str | None, shapes: Mapping[str, Sequence[int]], names: Iterable[str]
) -> dict[str, list[Any]]:
    """Infer shapes of values from the shapes of inputs; empty where nothing is known. Used without a run of the
    model.
    """
    from opshift.passes.analysis.scope import open_main_graph
    from opshift.passes.inputs.wanted import Wanted
    from opshift.passes.inputs.writing import write_into_copy

    fixed = Wanted(shapes={name: tuple(shape) for name, shape in shapes.items()})
    with suppress(InvalidModel, ValueError):
        scope = open_main_graph(write_into_copy(model, fixed), folder)
        return {name: scope.shape_in_source(name) or [] for name in names}
    return {}


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: attribute_value(attribute) for attribute in node.attribute}


def _find_window(node: NodeProto, held: Mapping[str, TensorProto]) -> Window | None:
    """Find the window of a node: the kernel of a convolution or pool, the taps of a Resize, the frame of an STFT;
    None for others. Runs for each node.
    """
    op = node.op_type
    if op in _CONVOLUTIONS or op in _POOLS:
        given = _attributes(node)
        weight = held.get(node.input[_WEIGHT.get(op, 1)]) if op in _CONVOLUTIONS else None
        kernel = given.get("kernel_shape") or (weight.dims[2:] if weight is not None else ())
        ones = [1] * len(kernel)
        sizes = [(k - 1) * d + 1 for k, d in zip(kernel, given.get("dilations") or ones, strict=False)]
        if op.endswith("Transpose"):
            sizes = [-(-size // step) for size, step in zip(sizes, given.get("strides") or ones, strict=False)]
        return Window(node, node.input[0], 2, tuple(sizes))
    if op in ("Resize", "Upsample"):
        taps = _TAPS.get(_attributes(node).get("mode", "nearest"), 1)
        return Window(node, node.input[0], 2, (taps, taps))
    if op == "STFT":
        frame = held.get(node.input[3]) if len(node.input) > 3 else None
        window = held.get(node.input[2]) if len(node.input) > 2 else None
        frames = tensors.integers(frame) if frame is not None else list(window.dims) if window is not None else None
        return Window(node, node.input[0], 1, tuple(frames[:1])) if frames else None
    if op == "Pad" and _attributes(node).get("mode") in ("reflect", "wrap"):
        pads = held.get(node.input[1]) if len(node.input) > 1 else None
        added = (tensors.integers(pads) if pads is not None else _attributes(node).get("pads")) or []
        rank = len(added) // 2
        more = [max(pair) for pair in zip(added[:rank], added[rank:], strict=False)]
        return Window(node, node.input[0], 0, tuple(pad + 1 if pad > 0 else 1 for pad in more))
    return None
