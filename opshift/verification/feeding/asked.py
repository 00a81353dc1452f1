"""What a user says of a verification: the inputs, and where to keep them; the engines; how far apart outputs may be."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.spelling import hint
from opshift.verification.adapters import JUDGES
from opshift.verification.feeding import files
from opshift.verification.tolerances import Given, Tolerances, tolerances

Feeds = Mapping[str, Any]
Inputs = str | os.PathLike[str] | Feeds | Sequence[Feeds]
Sizes = str | Mapping[str, int | Sequence[int]] | Iterable[str]
Engines = str | Sequence[str]
Ranges = str | Mapping[str, tuple[float, float]] | tuple[float, float] | Iterable[str]

_LIST = re.compile(r"\[?\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]?")
_RANGE = re.compile(r"\[\s*([^\s,\[\]]+)\s*,\s*([^\s,\[\]]+)\s*\]")
_OPTIONAL = ("openvino",)  # engines that opshift does not bring along
_SHOWN = 12  # names in an error


@dataclass(frozen=True)
class Asked:
    """What a user says of a verification.

    Attributes:
        inputs: a file or a folder, arrays by name, or several of the latter.
        shapes: by the name of an input.
        sizes: by the name of a symbolic dimension.
        ranges: the least and the largest number, by the name of an input; the empty name stands for all others.
        runs: on how many sets of inputs to run.
        seed: of what is drawn.
        save: the file or folder that keeps what both models ran on.
        repro: the folder that gets the smallest models that still differ, where the two do.
        engines: what is to run the first form, and what the second; empty for those that load them.
        tolerances: how far apart outputs may be, by name, in the place of the bounds.
    """

    inputs: Inputs | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    runs: int | None = None
    seed: int = 0
    save: str | None = None
    repro: str | None = None
    engines: tuple[str, ...] = ()
    tolerances: Tolerances = field(default_factory=dict)

    @property
    def sets(self) -> tuple[Feeds, ...]:
        """The inputs that were given, once `checked` has read them."""
        return self.inputs if isinstance(self.inputs, tuple) else ()

    def range_of(self, name: str) -> tuple[float, float] | None:
        """Between which numbers the elements of an input are to lie."""
        return self.ranges.get(name, self.ranges.get(""))


DRAWN = Asked()
"""Nothing: all inputs are drawn."""


def asked(
    inputs: Inputs | None = None,
    input_shape: Sizes | None = None,
    val_range: Ranges | None = None,
    runs: int | None = None,
    seed: int = 0,
    save_inputs: str | os.PathLike[str] | None = None,
    repro: str | os.PathLike[str] | None = None,
    engine: Engines | None = None,
    rtol: Given | None = None,
    atol: Given | None = None,
) -> Asked:
    """The same from what was typed, or given in Python; raises `ValueError` for what has no meaning."""
    if runs is not None and runs < 1:
        raise ValueError(f"--runs is 1 or more, not {runs}")
    if seed < 0:
        raise ValueError(f"--seed is 0 or more, not {seed}")
    shapes, sizes = _sizes(input_shape)
    allowed = tolerances(rtol, atol)
    return Asked(
        inputs, shapes, sizes, _ranges(val_range), runs, seed, _new(save_inputs), _new(repro), _engines(engine), allowed
    )


def _engines(given: Engines | None) -> tuple[str, ...]:
    """One for both forms, or one for each, as `openvino,onnxruntime`."""
    if given is None:
        return ()
    names = given.split(",") if isinstance(given, str) else list(given)
    for name in names:
        known(name, JUDGES, "engine", whose="opshift")
        if name in _OPTIONAL:
            _require(name)
    if len(names) > 2:
        raise ValueError(f"{len(names)} engines are named; one for both forms, or one for each")
    return names[0], names[-1]


def _require(package: str) -> None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and hardly ever asked

    try:
        version(package)
    except PackageNotFoundError:
        raise ValueError(f"{package} is not installed: pip install opshift[{package}]") from None


def _new(path: str | os.PathLike[str] | None) -> str | None:
    """A place to write to; what lies in a folder already would be taken for what was written."""
    if path is None:
        return None
    place = os.path.abspath(path)
    if os.path.isdir(place) and os.listdir(place):
        raise ValueError(f"{place} holds something already; name a new folder")
    return place


def _sizes(given: Sizes | None) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    shapes: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}
    if isinstance(given, Mapping):
        for name, size in given.items():
            if isinstance(size, int):
                sizes[name] = size
            else:
                shapes[name] = tuple(size)
    else:
        for text in [given] if isinstance(given, str) else given or ():
            name, colon, rest = text.rpartition(":")
            found = _LIST.fullmatch(rest.strip())
            if colon and name and found:
                shapes[name] = tuple(int(size) for size in found[1].split(",") if size.strip())
            else:
                sizes.update(_symbols(text))
    for name, held in (*shapes.items(), *((name, (size,)) for name, size in sizes.items())):
        if any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in held):
            raise ValueError(f"the sizes of {name!r} are whole numbers, 0 or more, not {held}")
    return shapes, sizes


def _symbols(text: str) -> dict[str, int]:
    """`batch=4,seq=128`: sizes of symbolic dimensions."""
    found = {}
    for part in text.split(","):
        name, equals, size = part.rpartition("=")
        if not equals or not name.strip() or not size.strip().isdecimal():
            raise ValueError(f"{text!r} is neither NAME:SIZE,SIZE,... nor DIMENSION=SIZE,...")
        found[name.strip()] = int(size)
    return found


def _ranges(given: Ranges | None) -> dict[str, tuple[float, float]]:
    held: dict[str, tuple[float, float]] = {}
    if isinstance(given, Mapping):
        held = {name: (float(low), float(high)) for name, (low, high) in given.items()}
    elif isinstance(given, tuple) and len(given) == 2 and not any(isinstance(bound, str) for bound in given):
        held = {"": (float(given[0]), float(given[1]))}
    else:
        for text in [given] if isinstance(given, str) else given or ():
            name, _, rest = str(text).rpartition(":")
            found = _RANGE.fullmatch(rest.strip())
            try:
                held[name] = (float(found[1]), float(found[2]))  # type: ignore[index]
            except (TypeError, ValueError):
                raise ValueError(f"{text!r} is no range; write NAME:[LEAST,LARGEST]") from None
    for name, (low, high) in held.items():
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError(f"no number lies in the range [{low:g},{high:g}]{f' of {name!r}' if name else ''}")
    return held


def checked(wanted: Asked, model: ModelProto) -> Asked:
    """The same with the inputs read, each of which is one that the model takes.

    Raises:
        ValueError: there is no such input or dimension, or it has another rank, size or type.
        OSError: a file cannot be read.
    """
    taken = files.taken(model)
    for name in (*wanted.shapes, *filter(None, wanted.ranges)):
        known(name, taken, "input")
    symbols = {dim.dim_param for kind in taken.values() for dim in files.tensor(kind).shape.dim if dim.dim_param}
    for name in wanted.sizes:
        known(name, symbols, "symbolic dimension")
    for name, shape in wanted.shapes.items():
        _fits(name, taken[name], shape)
        for dim, size in zip(files.tensor(taken[name]).shape.dim, shape, strict=False):
            if wanted.sizes.get(dim.dim_param, size) != size:
                raise ValueError(f"{dim.dim_param!r} cannot be {wanted.sizes[dim.dim_param]} and {size} (in {name!r})")
    for name in filter(None, wanted.tolerances):
        known(name, [value.name for value in model.graph.output], "output")
    for name, bounds in wanted.ranges.items():
        if name:
            _holds(name, taken[name], bounds)
    if wanted.inputs is None:
        return wanted
    sets = files.read(wanted.inputs, taken) if isinstance(wanted.inputs, (str, os.PathLike)) else _several(wanted)
    if not sets:
        raise ValueError("no inputs are given")
    return replace(wanted, inputs=tuple(_of_types(held, taken, wanted) for held in sets))


def known(name: str, names: Iterable[str], what: str, whose: str = "the model") -> None:
    """Raise `ValueError` for a name that is none of these."""
    held = list(dict.fromkeys(names))
    if name in held:
        return
    more = f", and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    have = f"it has {', '.join(map(repr, sorted(held)[:_SHOWN]))}{more}" if held else "it has none"
    raise ValueError(f"{whose} has no {what} {name!r}{hint(name, held, repr) or f'; {have}'}")


def _several(wanted: Asked) -> list[Feeds]:
    given: Any = wanted.inputs
    held = [given] if isinstance(given, Mapping) else list(given)
    if not all(isinstance(one, Mapping) for one in held):
        raise ValueError("inputs are a path, arrays by name, or a list of the latter")
    return held


def _of_types(held: Feeds, taken: Mapping[str, TypeProto], wanted: Asked) -> Feeds:
    """One set of inputs, each as an engine takes it."""
    found = {}
    for name, value in held.items():
        known(name, taken, "input")
        found[name] = _of_type(name, value, taken[name])
        asked_for = wanted.shapes.get(name)
        if asked_for is not None and getattr(found[name], "shape", asked_for) != asked_for:
            raise ValueError(f"input {name!r} is of shape {list(found[name].shape)}, not {list(asked_for)}")
    return found


def _of_type(name: str, value: Any, kind: TypeProto) -> Any:
    import numpy as np
    import onnx.helper

    which = kind.WhichOneof("value")
    if which == "optional_type":
        return None if value is None else _of_type(name, value, kind.optional_type.elem_type)
    if which == "sequence_type":
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"input {name!r} is a sequence: a list of arrays")
        return [_of_type(name, one, kind.sequence_type.elem_type) for one in value]
    array = np.asarray(value)
    elem_type = kind.tensor_type.elem_type
    if elem_type == TensorProto.STRING:
        if array.dtype.kind not in "OSU":
            raise ValueError(f"input {name!r} is {array.dtype}; the model takes strings")
        array = array.astype(str).astype(object)
    elif elem_type in TensorProto.DataType.values() and elem_type:
        wanted = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:  # types that numpy keeps as bytes
            array = array.view(wanted)
        if array.dtype != wanted:
            raise ValueError(f"input {name!r} is {array.dtype}; the model takes {wanted}")
    _fits(name, kind, array.shape)
    return array


def _fits(name: str, kind: TypeProto, shape: Sequence[int]) -> None:
    """Raise `ValueError` for a shape that is not what the model says of its input."""
    declared = files.tensor(kind)
    if not declared.HasField("shape"):
        return
    dims = declared.shape.dim
    text = ",".join(dim.dim_param or (str(dim.dim_value) if files.is_fixed(dim) else "?") for dim in dims)
    if len(dims) != len(shape):
        raise ValueError(f"input {name!r} has rank {len(dims)} ([{text}]), not {len(shape)} ({list(shape)})")
    for dim, size in zip(dims, shape, strict=True):
        if files.is_fixed(dim) and dim.dim_value != size:
            raise ValueError(f"input {name!r} has shape [{text}], which {list(shape)} does not fit")


def _holds(name: str, kind: TypeProto, bounds: tuple[float, float]) -> None:
    """Raise `ValueError` for a range that the type of an input does not have."""
    import numpy as np
    import onnx.helper

    elem_type = files.tensor(kind).elem_type
    if elem_type == TensorProto.STRING:
        raise ValueError(f"input {name!r} holds strings, which have no range")
    if elem_type not in TensorProto.DataType.values() or not elem_type:
        return
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    if dtype.kind in "iu" and dtype.isbuiltin == 1:
        held = np.iinfo(dtype)
        if bounds[0] < held.min or bounds[1] > held.max or math.floor(bounds[1]) < math.ceil(bounds[0]):
            raise ValueError(f"input {name!r} is {dtype}, which holds no [{bounds[0]:g},{bounds[1]:g}]")
