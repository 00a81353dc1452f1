"""What is to be fixed in a model: sizes of its inputs, and inputs that become constants."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opshift.passes.inputs.interface import check_name, fits, of_elements, tensor
from opshift.passes.inputs.sizes import Sizes, size_of, sizes
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.records import dataclass, field
from opshift.passes.spelling import texts

Values = str | Mapping[str, Any] | Iterable[str]
"""By the name of an input, or as text: `sr=16000`, `mask=mask.npy`."""


@dataclass(frozen=True)
class Wanted:
    """What is to be fixed.

    Attributes:
        shapes: by the name of an input.
        sizes: by the name of a symbolic dimension.
        values: by the name of an input: an array, a number, a list of numbers, or text that stands for one of these.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.shapes or self.sizes or self.values)

    def with_numbers(self, others: Wanted) -> Wanted:
        """Add what is to be fixed beyond this; for the same name, the others hold."""
        shapes, sizes = {**self.shapes, **others.shapes}, {**self.sizes, **others.sizes}
        return Wanted(shapes, sizes, {**self.values, **others.values})


NOTHING = Wanted()


def parse_wanted(fix_shape: Sizes | None = None, set_: Values | None = None) -> Wanted:
    """Read sizes and values of inputs, from the command line or from Python.

    Raises:
        ValueError: it has no meaning.
        OSError: a file cannot be read.
    """
    shapes, symbols = sizes(fix_shape)
    return Wanted(shapes, symbols, values(set_))


def values(given: Values | None) -> dict[str, Any]:
    """The values of inputs by name; those in files are read."""
    if isinstance(given, Mapping):
        held = dict(given)
    else:
        held = {}
        for text in texts(given, "give values by the names of inputs, such as {'sr': 16000}"):
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise ValueError(f"--set takes NAME=VALUE or NAME=FILE.npy, not {text!r}")
            held[name] = value
    return {name: _read(value) for name, value in held.items()}


def _read(value: Any) -> Any:
    """What a `.npy` holds; anything else as it is."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).endswith(".npy"):
        return value
    import numpy as np

    path = os.fspath(value)
    try:
        return np.load(tensor_data.reachable(path), allow_pickle=False)
    except (ValueError, EOFError):
        raise OSError(22, "not a .npy file that numpy can read without running code", path) from None


@dataclass(frozen=True)
class ResolvedInputs:
    """What is to be fixed in one model, whose inputs and dimensions these are."""

    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    values: Mapping[str, Any]


def resolve(of: Wanted, model: ModelProto) -> ResolvedInputs:
    """Turn wanted sizes and values into dimensions and arrays of this model's inputs.

    Raises:
        ValueError: it has no such input or dimension, or one of another rank, size or type.
    """
    inputs = {value.name: value.type for value in model.graph.input}
    for name in (*of.shapes, *of.values):
        check_name(name, inputs, "input")
    symbols = {name for value_type in inputs.values() for dim in tensor(value_type).shape.dim if (name := symbol(dim))}
    for name in of.sizes:
        check_name(name, symbols, "symbolic dimension")
    arrays = {name: array(name, value, inputs[name], of.shapes.get(name)) for name, value in of.values.items()}
    shapes = {**of.shapes, **{name: held.shape for name, held in arrays.items()}}
    found = dict(of.sizes)
    for name, shape in shapes.items():
        if inputs[name].WhichOneof("value") not in ("tensor_type", "optional_type"):
            raise ValueError(f"input {name!r} is not a tensor, so its shape cannot be set")
        fits(name, inputs[name], shape)
        for dim, size in zip(tensor(inputs[name]).shape.dim, shape, strict=False):
            if (dimension := symbol(dim)) and found.setdefault(dimension, size) != size:
                raise ValueError(
                    f"dimension {dimension!r} cannot be both {found[dimension]} and {size} (input {name!r})"
                )
    computed = {name: size for name in symbols if (size := size_of(name, found)) is not None}
    return ResolvedInputs(shapes, {**found, **computed}, arrays)


def array(name: str, given: Any, value_type: TypeProto, shape: Sequence[int] | None = None) -> Any:
    """A value of an input as an array of the input's type; raises `ValueError` where it is none.

    One number stands for an array of one element, whatever the rank of the input is.
    """
    import numpy as np

    if value_type.WhichOneof("value") != "tensor_type" or not value_type.tensor_type.elem_type:
        raise ValueError(f"input {name!r} is not a tensor of a known type, so it cannot be set to a value")
    elem_type = value_type.tensor_type.elem_type
    if isinstance(given, (np.ndarray, np.generic)):
        held = of_elements(name, given, elem_type)
    else:
        held = _convert(name, _parse(given, elem_type) if isinstance(given, str) else given, elem_type)
        dims = value_type.tensor_type.shape.dim
        if not held.ndim and all(dim.dim_value == 1 or not is_fixed(dim) for dim in dims):
            held = held.reshape([1] * len(dims))
    fits(name, value_type, held.shape)
    if shape is not None and tuple(shape) != held.shape:
        raise ValueError(
            f"the value of input {name!r} has shape {list(held.shape)}, but --fix-shape asks for {list(shape)}"
        )
    return held


def _parse(text: str, elem_type: int) -> Any:
    """What was typed: a number, `true`, a list in brackets, or a text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    if elem_type == TensorProto.STRING:
        return found if isinstance(found, list) else text
    if isinstance(found, str):
        lowered = found.strip().lower()
        if lowered in ("true", "false"):
            return lowered == "true"
        try:
            return float(found)
        except ValueError:
            return found
    return found


def _convert(name: str, given: Any, elem_type: int) -> Any:
    """Numbers, or texts, as an array of a type that holds them; raises `ValueError` where it does not."""
    import numpy as np
    import onnx.helper

    try:
        held = np.array(given, dtype=object)
        members = [_plain(value) for value in held.reshape(-1)]
    except ValueError:
        raise ValueError(f"the value {given!r} of input {name!r} is not an array") from None
    if elem_type == TensorProto.STRING:
        fit, dtype = all(isinstance(value, str) for value in members), np.dtype(object)
        made = np.array(members, dtype=object)
    else:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        made, fit = _numbers(members, elem_type, dtype)
    if not fit:
        what = "strings" if elem_type == TensorProto.STRING else str(dtype)
        raise ValueError(f"input {name!r} cannot have the value {given!r}; its elements are {what}")
    return made.reshape(held.shape)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _numbers(members: list[Any], elem_type: int, dtype: Any) -> tuple[Any, bool]:
    """These as an array of the type, and whether it holds them: floats are rounded, nothing else is."""
    import numpy as np

    if elem_type == TensorProto.BOOL:
        fit = all(isinstance(value, bool) for value in members)
        return np.array(members if fit else [], dtype=bool), fit
    if any(isinstance(value, bool) or not isinstance(value, (int, float, complex)) for value in members):
        return np.empty(0), False
    whole = "int" in str(dtype)
    if any(isinstance(value, complex) for value in members) and dtype.kind != "c":
        return np.empty(0), False
    if whole and not all(isinstance(value, int) for value in members):
        return np.empty(0), False
    try:
        with np.errstate(all="ignore"):
            made = np.array(members, dtype=object if whole else None).astype(dtype)
    except (OverflowError, ValueError, TypeError):
        return np.empty(0), False
    if whole:
        return made, [int(value) for value in made] == members
    wide = np.array(members, dtype="complex128" if dtype.kind == "c" else "float64")
    return made, bool((np.isfinite(made.astype(wide.dtype)) == np.isfinite(wide)).all())
