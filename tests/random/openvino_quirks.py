"""Layers of which OpenVINO computes something else than its specification says, or that this leaves open: one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.verification.adapters import literally


@dataclass(frozen=True)
class Call:
    """A layer, and the values of its inputs."""

    node: Any
    values: tuple[Any, ...]

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.node.get_attributes().get(name, default)


@dataclass(frozen=True)
class Quirk:
    types: tuple[str, ...]
    when: str
    gives: str
    text: str
    applies: Callable[[Call], bool]
    evidence: Callable[[], tuple[Any, list[Any]]]  # a layer of parameters, and what these are fed
    right: Any = None  # by the text; None where it tells nothing, or OpenVINO may give the same by chance


def no_axes(call: Call) -> bool:
    return call.values[1].size == 0


def element_behind(call: Call) -> bool:
    """Whether a place that vanishes lies outside of its axis."""
    data, begin = call.values[:2]
    masks = {name: [*call.attribute(f"{name}_mask", []), *[0] * len(begin)] for name in MASKS}
    axis = 0
    for place, index in enumerate(begin):
        if masks["ellipsis"][place]:
            axis = data.ndim - sum(not masks["new_axis"][k] for k in range(place + 1, len(begin)))
        elif not masks["new_axis"][place]:
            first = 0 if masks["begin"][place] else index
            if masks["shrink_axis"][place] and not -data.shape[axis] <= first < data.shape[axis]:
                return True
            axis += 1
    return False


MASKS = ("begin", "new_axis", "shrink_axis", "ellipsis")


def new_beside_vanishing(call: Call) -> bool:
    """Whether there are new axes and such as vanish, and axes of the data that no place stands for."""
    begin = call.values[1]
    new, gone, rest = ([*call.attribute(f"{name}_mask", []), *[0] * len(begin)][: len(begin)] for name in MASKS[1:])
    return bool(any(new) and any(gone) and not any(rest) and len(begin) - sum(new) < call.values[0].ndim)


def longer_than_its_axis(call: Call) -> bool:
    if len(call.values) < 3:
        return False
    data, axes, wanted = call.values
    return any(size > data.shape[axis] for axis, size in zip(axes, wanted, strict=True))


def any_rest(call: Call) -> bool:
    """Whether a size is what an empty one leaves."""
    return not call.attribute("special_zero") and 0 in call.values[1] and -1 in call.values[1]


def signal_of_nothing(call: Call) -> bool:
    data, axes = call.values[:2]
    dims = data.shape if call.node.get_type_name() == "RDFT" else data.shape[:-1]  # the last axis is not counted
    return 0 in (dims[axis] for axis in axes)


def reads_beyond(call: Call) -> bool:
    """Whether a signal needs more numbers than an IRDFT is given."""
    data, axes, *wanted = call.values
    held = [data.shape[axis if axis >= 0 else axis - 1] for axis in axes]  # the last axis is not counted
    sizes = [int(size) for size in wanted[0]] if wanted else [-1] * len(held)
    size = sizes[-1] if sizes[-1] != -1 else 2 * (held[-1] - 1)
    return size // 2 + 1 > held[-1] or any(more > count for more, count in zip(sizes[:-1], held, strict=False))


def no_element(call: Call) -> bool:
    return call.values[0].size == 0


def selects_nothing(call: Call) -> bool:
    return call.values[1].size == 0 or (len(call.values) > 2 and not call.values[2].any())


def selects_fewer(call: Call) -> bool:
    """Whether a version that states how many boxes there are, not how many there may be, selects fewer."""
    stated = call.node.get_output_partial_shape(0)[0]
    version = call.node.get_type_info().version_id
    if version not in ("opset1", "opset3", "opset4") or stated.is_dynamic:
        return False
    number = int(version.removeprefix("opset"))
    alone, feeds = _made(
        call.node.get_type_name(), [*map(np.array, call.values)], version=number, vague=0, **call.node.get_attributes()
    )
    return len(_computed(alone.outputs(), parameters(alone), feeds)[0]) < stated.get_length()


def nothing_for_empty_ones(call: Call) -> bool:
    """Whether segments without elements are to stay empty, which -1 says."""
    return len(call.values) > 4 and bool((call.values[4] < 0).any())


def truths_of_another(call: Call) -> bool:
    to_bool = call.attribute("destination_type") == "boolean"
    return bool(to_bool and call.node.input_value(0).get_index() > 0)


def near_one(call: Call) -> bool:
    return bool((np.abs(call.values[0]) > 0.996).any())


def longer_than_nothing(call: Call) -> bool:
    data, lengths = call.values
    return data.shape[call.attribute("seq_axis", 1)] == 0 and lengths.max(initial=0) > 0


def crops_more(call: Call) -> bool:
    data, begin, end = call.values[:3]
    return any(size + before + behind < 0 for size, before, behind in zip(data.shape, begin, end, strict=True))


def less_than_nothing(call: Call) -> bool:
    """Whether the pads of a transposed convolution take more elements than there are."""
    if call.attribute("auto_pad", "explicit") != "explicit" or len(call.values) > 2:
        return False
    names = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")
    rank = len(call.attribute("strides"))
    sides = (value.shape[-rank:] for value in call.values)
    counts = (call.attribute(name) or [0] * rank for name in names)
    return any(
        step * (size - 1) + gap * (kernel - 1) + 1 + more < before + behind
        for size, kernel, step, gap, before, behind, more in zip(*sides, *counts, strict=True)
    )


def _made(
    kind: str, inputs: Sequence[Any], constants: Sequence[Any] = (), version: int = 1, vague: int = 2, **attributes: Any
) -> Any:
    """A layer of inputs, of which so many may have any size, and of constants behind them."""
    from openvino import PartialShape, opset13
    from openvino.utils.node_factory import NodeFactory

    shapes = [[-1] * value.ndim if place < vague else list(value.shape) for place, value in enumerate(inputs)]
    given = [opset13.parameter(PartialShape(shape), value.dtype) for shape, value in zip(shapes, inputs, strict=True)]
    held = [opset13.constant(value) for value in constants]
    return NodeFactory(f"opset{version}").create(kind, [*given, *held], attributes), list(inputs)


def _truths_of_the_second_part() -> tuple[Any, list[Any]]:
    from openvino import opset13

    x = opset13.parameter([4], np.float32)
    parts = opset13.split(x, opset13.constant(0), 2)
    return opset13.convert(parts.output(1), "boolean"), [np.float32([0, 0, 1, 2])]


X = np.float32([[1, -2], [-3, 4]])
BOXES = np.float32([[[0, 0, 2, 2], [0, 0, 2, 2]]])
IMAGE = np.ones((1, 1, 1, 1), np.float32)
REDUCTIONS = tuple(
    f"Reduce{what}" for what in ("L1", "L2", "LogicalAnd", "LogicalOr", "Max", "Mean", "Min", "Prod", "Sum")
)

QUIRKS = (
    Quirk(REDUCTIONS, "the run tells that there are no axes", "has no elements, or magnitudes", "the data as they are", no_axes,
          lambda: _made("ReduceL1", [X, np.zeros(0, np.int64)], version=4, keep_dims=True), X),
    Quirk(("StridedSlice",), "an element that vanishes lies outside of its axis", "takes the last one, or what nobody wrote",
          "nothing; where sizes are known, it is refused", element_behind,
          lambda: _made("StridedSlice", [X], [np.array([2]), np.array([3]), np.array([1])], begin_mask=[0], end_mask=[0], shrink_axis_mask=[1])),
    Quirk(("StridedSlice",), "an axis vanishes beside a new one, and some have no place", "leaves some elements unwritten", "the elements of the data",
          new_beside_vanishing,
          lambda: _made("StridedSlice", [X], [np.array([0, 0]), np.array([1, 1]), np.array([1, 1])], begin_mask=[0, 0], end_mask=[0, 0],
                        new_axis_mask=[1, 0], shrink_axis_mask=[0, 1]), X[:1]),
    Quirk(("Reshape",), "a rest stands beside a size of 0", "has 0 there, or 1 where the sizes are constants", "any number", any_rest,
          lambda: _made("Reshape", [X[:, :0], np.array([0, -1])], vague=1, special_zero=False)),
    Quirk(("RDFT",), "a signal is longer than its axis", "leaves all unwritten, or no element", "zeros behind the data", longer_than_its_axis,
          lambda: _made("RDFT", [X], [np.array([1]), np.array([3])], version=9),
          np.stack([(found := np.fft.rfft(X, 3, 1)).real, found.imag], -1).astype(np.float32)),
    Quirk(("RDFT", "DFT", "IDFT"), "a signal has no element", "has no elements, or such as nobody wrote", "nothing", signal_of_nothing,
          lambda: _made("RDFT", [X[:, :0]], [np.array([1])], version=9)),
    Quirk(("IRDFT",), "more numbers are needed than there are", "reads what lies behind them", "nothing of where they come from", reads_beyond,
          lambda: _made("IRDFT", [X[:, :, None] * np.float32([1, 0])], [np.array([1]), np.array([9])], version=9)),
    Quirk(("NonMaxSuppression",), "there is no box, or none to be selected", "leaves the count unwritten", "0", selects_nothing,
          lambda: _made("NonMaxSuppression", [np.zeros((1, 0, 4), np.float32), np.zeros((1, 1, 0), np.float32)], [np.array(4)], version=9, vague=0)),
    Quirk(("SpaceToBatch", "BatchToSpace"), "there is no element", "has other sizes", "as many blocks as there are", no_element,
          lambda: _made("BatchToSpace", [np.zeros((0, 4, 2), np.float32)], [np.array(n) for n in ([1, 2, 1], [0, 0, 0], [0, 0, 0])], version=2),
          np.zeros((0, 8, 2), np.float32)),
    Quirk(("ReverseSequence",), "a sequence without elements has a length", "has no elements", "lengths from 1 to the size of the axis", longer_than_nothing,
          lambda: _made("ReverseSequence", [X[:, :0]], [np.array([1, 1])], batch_axis=0, seq_axis=1)),
    Quirk(("Pad",), "more is cropped than there is", "has no elements", "a size below 0", crops_more,
          lambda: _made("Pad", [X], [np.array([0, -1]), np.array([0, -2])], version=12, pad_mode="constant")),
    Quirk(("ConvolutionBackpropData", "GroupConvolutionBackpropData"), "pads take more elements than there are", "has no elements",
          "a size below 0", less_than_nothing,
          lambda: _made("ConvolutionBackpropData", [IMAGE], [IMAGE], strides=[1, 1], dilations=[1, 1], pads_begin=[2, 0], pads_end=[1, 0])),
    Quirk(("NonMaxSuppression",), "fewer boxes are selected than are stated", "has these alone, and what follows reads on", "rows of -1 behind them",
          selects_fewer,
          lambda: _made("NonMaxSuppression", [BOXES, np.float32([[[2, 1]]])], [np.array(2), np.float32(0.5), np.float32(0)], version=4, vague=0),
          np.array([[0, 0, 0], [-1, -1, -1]])),
    Quirk(("EmbeddingSegmentsSum",), "an empty one takes no row", "has no elements, or leaves them unwritten", "zeros", nothing_for_empty_ones,
          lambda: _made("EmbeddingSegmentsSum", [X, np.array([1])], [np.array([1]), np.array(2), np.array(-1)], version=3), np.stack([0 * X[1], X[1]])),
    Quirk(("Convert",), "truths are made of another output than the first", "makes them of the first", "those of what it reads", truths_of_another,
          _truths_of_the_second_part, np.array([True, True])),
    Quirk(("ErfInv",), "a number is near 1 or -1", "is up to 0.5 % off", "the inverse of erf", near_one,
          lambda: _made("ErfInv", [np.float32([0.9999])], version=17), np.float32([2.751063])),
)  # fmt: skip


def excuse(model: Any, feeds: Sequence[Any]) -> str:
    """Why OpenVINO is no judge of a network on these inputs; empty where it is one."""
    made = model.clone()
    layers = [node for node in made.get_ordered_ops() if any(node.get_type_name() in row.types for row in QUIRKS)]
    calls = [Call(node, values) for node, values in zip(layers, _given(made, layers, feeds), strict=False)]
    return next(
        (
            f"openvino: {call.node.get_type_name()} where {row.when} {row.gives}"
            for call in calls
            for row in QUIRKS
            if call.node.get_type_name() in row.types and row.applies(call)
        ),
        "",
    )


def _given(model: Any, layers: Sequence[Any], feeds: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The values of the inputs of each layer, computed without the layers themselves; none where that does not run."""
    wanted = [value for node in layers for value in node.input_values() if not _is_constant(value)]
    if not wanted:
        return [tuple(value.get_node().get_data() for value in node.input_values()) for node in layers]
    try:
        computed = iter(_computed(wanted, model.get_parameters(), feeds))
    except RuntimeError:
        return []
    return [
        tuple(value.get_node().get_data() if _is_constant(value) else next(computed) for value in node.input_values())
        for node in layers
    ]


def _computed(values: Sequence[Any], given: Sequence[Any], feeds: Sequence[Any]) -> list[Any]:
    import openvino

    asked = openvino.Model([openvino.opset13.result(value) for value in values], list(given), "asked")
    found = openvino.Core().compile_model(asked, "CPU", literally())(list(feeds))
    return [np.array(found[index]) for index in range(len(values))]


def parameters(node: Any) -> list[Any]:
    """What has to be fed to a layer, in the order in which it reads it."""
    sources = [value.get_node() for value in node.input_values()]
    return [source for source in sources if source.get_type_name() == "Parameter"] + [
        given for source in sources for given in parameters(source)
    ]


def _is_constant(value: Any) -> bool:
    return bool(value.get_node().get_type_name() == "Constant")
