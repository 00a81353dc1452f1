"""Whether a difference is no larger than what a rounding of the inputs makes of it: then a close result may have it, too,
and an exact one, if it is of numbers alone: kernels of two versions round the same sum in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from opshift.passes.model.traversal import bodies

from opshift.verification import bounds
from tests.random.models import FLOATS, Source, constants
from tests.random.values import tensor
from tests.random.worker import flat

ROOM = {"exact": 1, "close": 64}  # times what roundings of the inputs change
UNITS = 8  # of its precision that a number is moved by, more or less
SUMS = ("BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "STFT")


def rocked(source: Source, way: int = 1) -> Source:
    """The source with each floating-point number a few units of its precision off, up or down."""
    model = ModelProto()
    model.CopyFrom(flat(source.model))
    for constant in constants(model):
        if constant.data_type in FLOATS:
            constant.CopyFrom(tensor(_off(onnx.numpy_helper.to_array(constant), way), constant.name))
    _rock_sums(model, way)
    return replace(source, model=model, feeds={name: _off(value, way) for name, value in source.feeds.items()})


def as_unsteady(expected: Sequence[Any], outputs: Sequence[Any], *moved: Sequence[Any], grade: str = "close") -> bool:
    """Whether outputs are as far from those expected as those of inputs moved in some way are, wherever they are far."""
    runs = [run for run in moved if len(run) == len(expected)]
    if not runs or len(expected) != len(outputs):
        return False
    return all(
        identical(*values[:2]) or _unsteady(grade, *values) for values in zip(expected, outputs, *runs, strict=True)
    )


def identical(one: Any, other: Any) -> bool:
    """Whether two values are the same bits, or elements."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(identical, one, other))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return one is None and other is None
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "OSU":
        return one.tolist() == other.tolist()
    return one.tobytes() == other.tobytes()


def _off(value: Any, way: int) -> Any:
    """Equal numbers stay equal, others move by different parts of their size, those of the other sign among them: else what
    sums leave would stay as it is."""
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float16, np.float32, np.float64):
        return value
    with np.errstate(all="ignore"):
        parts = 1 + np.where(np.isfinite(value), np.cos(value.astype(np.float64) - 1), 0) / 2
        return np.asarray(value * (1 + way * UNITS * np.finfo(value.dtype).eps * parts), value.dtype)  # a scalar, too


def _rock_sums(model: ModelProto, way: int) -> None:
    """What is left where a sum is 0 is nothing but rounding, whatever the inputs are: the ends of windows of Blackman,
    which are 0.42 - 0.5 + 0.08, and numbers of a Fourier transform. These, and other windows, are read with a rounding of
    the largest of them added, which is not the same for all, so that both sides of a window are apart."""
    found = [(body, node) for body in bodies(model) for node in body.node if node.op_type in SUMS]
    inferred = onnx.shape_inference.infer_shapes(model) if found else model
    stated = (v for body in bodies(inferred) for v in (*body.value_info, *body.output) if isinstance(v, ValueInfoProto))
    kinds = {value.name: value.type.tensor_type.elem_type for value in stated}
    for body, node in found:
        kind = kinds.get(node.output[0], TensorProto.UNDEFINED)
        if kind in (TensorProto.FLOAT, TensorProto.DOUBLE):
            at = [made.output[0] for made in body.node if made.output].index(node.output[0]) + 1
            for place, new in enumerate(_added(node, onnx.helper.tensor_dtype_to_np_dtype(kind), way), at):
                body.node.insert(place, new)


def _added(node: NodeProto, kind: np.dtype[Any], way: int) -> Iterator[NodeProto]:
    """Nodes that add a rounding to the output of a node, which has another name from now on."""
    (out,) = node.output
    node.output[0] = f"{out}/before"
    held = {"axis": np.array(0), "none": np.zeros((), kind), "most": np.array(np.finfo(np.float32).max, kind)}
    held |= {"unit": np.array(way * UNITS * np.finfo(kind).eps, kind), "one": np.ones((), kind), "all": np.array([-1])}
    for name, value in held.items():
        yield onnx.helper.make_node("Constant", [], [f"{out}/{name}"], value=tensor(value))
    for op, *names, result in (
        ("Abs", "before", "sizes"),
        ("ReduceMax", "sizes", "largest"),
        ("Less", "largest", "most", "finite"),
        ("Where", "finite", "largest", "none", "size"),
        ("Mul", "size", "unit", "rounding"),
        ("Shape", "before", "shape"),
        ("Expand", "one", "shape", "ones"),
        ("Reshape", "ones", "all", "row"),
        ("CumSum", "row", "axis", "places"),
        ("Cos", "places", "parts"),
        ("Reshape", "parts", "shape", "part"),
        ("Mul", "part", "rounding", "moved"),
    ):
        yield onnx.helper.make_node(op, [f"{out}/{name}" for name in names], [f"{out}/{result}"])
    yield onnx.helper.make_node("Add", [node.output[0], f"{out}/moved"], [out])


def _unsteady(grade: str, expected: Any, output: Any, *moved: Any) -> bool:
    arrays = (expected, output, *moved)
    if not all(isinstance(value, np.ndarray) for value in arrays):
        return False
    if len({v.shape for v in arrays}) > 1:
        return grade == "close" and any(value.shape != expected.shape for value in moved)
    equal = np.equal(expected, output)
    if expected.dtype.type not in (np.float16, np.float32, np.float64):
        moves = np.any([np.not_equal(expected, value) for value in moved], axis=0) & (grade == "close")
        return bool((equal | moves).all())
    if grade == "exact" and (equal & (expected == 0) & (np.signbit(expected) != np.signbit(output))).any():
        return False
    with np.errstate(all="ignore"):
        apart, *rocks = (np.abs(value.astype(np.float64) - expected) for value in (output, *moved))
        sizes = np.abs(expected.astype(np.float64))
        usual = np.sqrt(np.mean(np.square(sizes[np.isfinite(sizes)]))) if np.isfinite(sizes).any() else 0.0
        floor = bounds.UNITS[grade] / 2 * np.finfo(expected.dtype).eps * np.maximum(sizes, usual)  # as `compare` has it
        same = equal | (np.isnan(expected) & np.isnan(output))
        kinds = np.any([_kinds(expected) != _kinds(value) for value in moved], axis=0) & (grade == "close")
        near = apart <= ROOM[grade] * np.fmax.reduce(rocks) + floor
        return bool((same | kinds | near | ((grade == "close") & _near_infinity(expected, output, *moved))).all())


def _near_infinity(expected: Any, output: Any, *moved: Any) -> Any:
    """Where a number may come from a division by nothing but a rounding, and goes no further beyond infinity than one does."""
    wide = [value.astype(np.float64) for value in (expected, output, *moved)]
    large = np.fmin(*np.abs(wide[:2])) > 1 / np.sqrt(np.finfo(expected.dtype).eps)
    apart, *rocks = (np.abs(1 / value - 1 / wide[0]) for value in wide[1:])
    return large & (apart <= ROOM["close"] * np.fmax.reduce(rocks))


def _kinds(values: Any) -> Any:
    """2 for what is no number, 1 and -1 for infinities, 0 for numbers."""
    return np.where(np.isnan(values), 2, np.where(np.isinf(values), np.sign(values), 0))
