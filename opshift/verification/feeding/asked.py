"""The user's options for a verification: inputs, engines, tolerances."""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opshift.passes.inputs.interface import check_name, fits, of_type, required_inputs, tensor
from opshift.passes.inputs.sizes import Sizes
from opshift.passes.inputs.sizes import sizes as parsed_sizes
from opshift.passes.inputs.wanted import ResolvedInputs, Values, Wanted, resolve
from opshift.passes.inputs.wanted import values as parsed_values
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, TensorProto, TypeProto
from opshift.passes.model.types import symbol
from opshift.passes.records import dataclass, field, replace
from opshift.passes.spelling import texts
from opshift.verification.tolerances import Given, Tolerances, tolerances

Feeds = Mapping[str, Any]
Inputs = str | os.PathLike[str] | Feeds | Sequence[Feeds | str | os.PathLike[str]]
Engines = str | Sequence[str]
Ranges = str | Mapping[str, tuple[float, float]] | tuple[float, float] | Iterable[str]

_RANGE = r"\[\s*([^\s,\[\]]+)\s*,\s*([^\s,\[\]]+)\s*\]"
_OPTIONAL = ("openvino",)  # engines that opshift does not bring along


@dataclass(frozen=True)
class Asked:
    """The user's options for a verification.

    Attributes:
        inputs: a file or a folder, arrays by name, or several of these.
        shapes: by the name of an input.
        sizes: by the name of a symbolic dimension.
        ranges: the least and the largest number, by the name of an input; the empty name stands for all others.
        runs: on how many sets of inputs to run.
        seed: of what is drawn.
        save: the file or folder that keeps what both models ran on.
        repro: the folder that gets the smallest models that still differ, where the two do.
        engines: what is to run the first form, and what the second; empty for those that load them.
        tolerances: how far apart outputs may be, by name, in the place of the bounds.
        values: what inputs are given, by name; a second form may have constants in their place.
        map: outputs and inputs of the second model by the names of those in the first that they stand for.
        evidence: the file that gets what the proof rests on.
        smooth: whether neighbouring pixels and samples are alike in each second set, as in photos and sounds.
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
    values: Mapping[str, Any] = field(default_factory=dict)
    map: Mapping[str, str] = field(default_factory=dict)
    evidence: str | None = None
    smooth: bool = False

    @property
    def sets(self) -> tuple[Feeds, ...]:
        """The user's inputs, once `checked` has read them."""
        return self.inputs if isinstance(self.inputs, tuple) else ()

    def range_of(self, name: str) -> tuple[float, float] | None:
        """The range that the user gave for an input, if any."""
        return self.ranges.get(name, self.ranges.get(""))


DRAWN = Asked()
"""Nothing: all inputs are drawn."""


def read_options(
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
    set_: Values | None = None,
    map_: Mapping[str, str] | Iterable[str] | None = None,
    evidence: str | None = None,
) -> Asked:
    """Read the options of the command line, or the arguments of `opshift.verify`. Runs before any model is read.

    Raises:
        ValueError: for what has no meaning.
    """
    for name, number, least in (("runs", 1 if runs is None else runs, 1), ("seed", seed, 0)):
        if not hasattr(number, "__index__") or number < least:
            raise ValueError(f"{name} must be {least} or more, not {number!r}")
    if not (inputs is None or isinstance(inputs, (os.PathLike, Iterable))):
        raise ValueError(f"give inputs as a path, as arrays by name, or as a list of those, not {inputs!r}")
    shapes, sizes = parsed_sizes(input_shape)
    allowed = tolerances(rtol, atol)
    return Asked(
        inputs,
        shapes,
        sizes,
        _read_ranges(val_range),
        runs,
        seed,
        _check_new_path(save_inputs),
        _check_new_path(repro, is_folder=True),
        _read_engines(engine),
        allowed,
        parsed_values(set_),
        _read_map(map_),
        evidence,
    )


def _read_map(given: Mapping[str, str] | Iterable[str] | None) -> dict[str, str]:
    """Read `y=output`: names of the first model with those of the second."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    pairs = {}
    for text in texts(given, "give names as 'A=B'"):
        first, equals, second = text.partition("=")
        if not (first and equals and second):
            raise ValueError(f"--map takes the name of an output of each model, such as --map A=B, not {text!r}")
        pairs[first] = second
    return pairs


def _read_engines(given: Engines | None) -> tuple[str, ...]:
    """Read one engine, or one for each model, as `openvino,onnxruntime`. Part of `read_options`."""
    if given is None:
        return ()
    from opshift.verification.adapters import JUDGES

    names = given.split(",") if isinstance(given, str) else texts(given, "give engines by name")
    for name in names:
        check_name(name, JUDGES, "engine", whose="opshift")
        if name in _OPTIONAL and importlib.util.find_spec(name) is None:
            raise ValueError(f"the engine {name} is not installed: pip install opshift[{name}]")
    if len(names) > 2:
        raise ValueError(f"give one engine, or one for each model, not {len(names)}")
    return names[0], names[-1]


def _check_new_path(path: str | os.PathLike[str] | None, *, is_folder: bool = False) -> str | None:
    """Check a path to write to: it must not exist, or be empty, so that nothing is mixed up. Part of `read_options`."""
    if path is None:
        return None
    place = tensor_data.reachable(os.fspath(path))
    if os.path.isdir(place) and os.listdir(place):
        raise ValueError(f"{place} is not empty; give a new folder")
    if is_folder and os.path.isfile(place):
        raise ValueError(f"{place} is a file; give a new folder")
    return place


def _read_ranges(given: Ranges | None) -> dict[str, tuple[float, float]]:
    """Read the ranges of inputs (`--val-range x:[0,1]`); raises `ValueError` for anything else."""
    pairs: dict[str, Any] = {}
    if isinstance(given, Mapping):
        pairs.update(given)
    elif isinstance(given, tuple) and len(given) == 2 and not any(isinstance(bound, str) for bound in given):
        pairs[""] = given
    else:
        for text in texts(given, "give ranges by the names of inputs, such as {'x': (0, 1)}"):
            name, _, rest = text.rpartition(":")
            match = re.fullmatch(_RANGE, rest.strip())
            pairs[name] = match.groups() if match else text
    ranges: dict[str, tuple[float, float]] = {}
    for name, pair in pairs.items():
        try:
            low, high = map(float, pair)
        except (TypeError, ValueError):
            if isinstance(pair, str):
                raise ValueError(f"write NAME:[LEAST,LARGEST], not {pair!r}") from None
            raise ValueError(
                f"the range of {name!r} must be two numbers, the least and the largest, not {pair!r}"
            ) from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError(
                f"the range [{low:g},{high:g}]{f' of {name!r}' if name else ''} must go from a least to a largest "
                "number, both finite"
            )
        ranges[name] = low, high
    return ranges


def check_inputs(wanted: Asked, model: ModelProto) -> Asked:
    """Read the inputs, and check that the model accepts them. Runs once the model is read.

    Raises:
        ValueError: there is no such input or dimension, or it has another rank, size or type.
        OSError: a file cannot be read.
    """
    wanted = _add_fixed(wanted, resolve(Wanted(values=wanted.values), model))
    given = required_inputs(model)
    for name in (*(wanted.shapes.keys() - wanted.values.keys()), *filter(None, wanted.ranges)):
        check_name(name, given, "input")
    symbols = {symbol(dim) for value_type in given.values() for dim in tensor(value_type).shape.dim} - {""}
    for name in wanted.sizes:
        check_name(name, symbols, "symbolic dimension")
    for name, shape in wanted.shapes.items():
        if name not in given:  # a default, which is set
            continue
        fits(name, given[name], shape)
        _check_sizes(name, given[name], shape, wanted.sizes)
    for name in filter(None, wanted.tolerances):
        check_name(name, [value.name for value in model.graph.output], "output")
    for name, bounds in wanted.ranges.items():
        if name:
            _check_range(name, given[name], bounds)
    if wanted.inputs is None:
        return wanted
    sets = _read_sets(wanted.inputs, given)
    if not sets:
        raise ValueError("the list of inputs is empty")
    if (wanted.runs or 0) > len(sets):
        raise ValueError(
            f"{wanted.runs} runs are asked for (runs), but {len(sets)} sets of inputs are given; give as "
            "many, or leave runs out"
        )
    return replace(wanted, inputs=tuple(_convert_types(feeds, given, wanted) for feeds in sets))


def at(wanted: Asked, fixed: Wanted, model: ModelProto) -> Asked:
    """Add sizes and values that the conversion fixes; raises as `checked`."""
    return check_inputs(_add_fixed(wanted, resolve(fixed, model)) if fixed else wanted, model)


def remaining(wanted: Asked, model: ModelProto) -> Asked:
    """Drop options about inputs and sizes that the change fixed, as the result does not have them any more.

    Runs after sizes were fixed, before the result is measured.
    """
    given = required_inputs(model)
    symbols = {symbol(dim) for value_type in given.values() for dim in tensor(value_type).shape.dim}
    inputs = wanted.inputs
    if isinstance(inputs, tuple):
        inputs = tuple({name: value for name, value in feeds.items() if name in given} for feeds in inputs)
    return replace(
        wanted,
        inputs=inputs,
        shapes={name: shape for name, shape in wanted.shapes.items() if name in given},
        sizes={name: size for name, size in wanted.sizes.items() if name in symbols},
        values={name: value for name, value in wanted.values.items() if name in given},
        ranges={name: ends for name, ends in wanted.ranges.items() if not name or name in given},
    )


def _add_fixed(wanted: Asked, of: ResolvedInputs) -> Asked:
    """Add the fixed sizes and values of a model; raises `ValueError` if the user asked for others.

    Part of `check_inputs`.
    """
    for name, size in (*of.shapes.items(), *of.sizes.items()):
        asked_for = wanted.shapes.get(name, size) if isinstance(size, tuple) else wanted.sizes.get(name, size)
        if asked_for != size:
            raise ValueError(f"{name!r} is fixed to {size} and cannot be {asked_for}")
    return replace(
        wanted,
        shapes={**wanted.shapes, **of.shapes},
        sizes={**wanted.sizes, **of.sizes},
        values={**wanted.values, **of.values},
    )


def _read_sets(inputs: Any, given: Mapping[str, TypeProto]) -> list[Feeds]:
    """Read inputs given as one set, a path, or a list of those. Part of `check_inputs`."""
    from opshift.verification.feeding import files

    sets: list[Feeds] = []
    for one in [inputs] if isinstance(inputs, (Mapping, str, os.PathLike)) else inputs:
        if isinstance(one, Mapping):
            sets.append(one)
        elif isinstance(one, (str, os.PathLike)):
            sets += files.read(one, given)
        else:
            raise ValueError("give inputs as a path, as arrays by name, or as a list of those")
    return sets


def _convert_types(held: Feeds, given: Mapping[str, TypeProto], wanted: Asked) -> Feeds:
    """Convert a set of inputs to the types that engines take. Part of `check_inputs`."""
    converted = {}
    for name, value in held.items():
        check_name(name, given, "input")
        converted[name] = of_type(name, value, given[name])
        asked_for = wanted.shapes.get(name)
        if asked_for is not None and getattr(converted[name], "shape", asked_for) != asked_for:
            raise ValueError(
                f"input {name!r} is given with shape {list(converted[name].shape)}, but --input-shape asks for "
                f"{list(asked_for)}"
            )
        if name in wanted.ranges:
            raise ValueError(
                f"values are given for input {name!r}, so a range for it has no effect; leave the range out"
            )
        _check_sizes(name, given[name], getattr(converted[name], "shape", ()), wanted.sizes)
    return converted


def _check_sizes(name: str, value_type: TypeProto, shape: Sequence[int], sizes: Mapping[str, int]) -> None:
    """Raise `ValueError` if a shape contradicts the size that was asked for a symbol. Part of `check_inputs`."""
    for dim, size in zip(tensor(value_type).shape.dim, shape, strict=False):
        if sizes.get(symbol(dim), size) != size:
            raise ValueError(
                f"dimension {symbol(dim)!r} cannot have two sizes, {sizes[symbol(dim)]} and {size} (in {name!r})"
            )


def _check_range(name: str, value_type: TypeProto, bounds: tuple[float, float]) -> None:
    """Raise `ValueError` if the type of an input cannot hold a range. Part of `check_inputs`."""
    import numpy as np
    import onnx.helper

    elem_type = tensor(value_type).elem_type
    if elem_type == TensorProto.STRING:
        raise ValueError(f"input {name!r} takes strings, so no range of numbers can be given for it")
    if elem_type not in TensorProto.DataType.values() or not elem_type:
        return
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    if dtype.kind in "iu" and dtype.isbuiltin == 1:
        limits = np.iinfo(dtype)
        if bounds[0] < limits.min or bounds[1] > limits.max or math.floor(bounds[1]) < math.ceil(bounds[0]):
            raise ValueError(
                f"input {name!r} has type {dtype}, which has no numbers in the range [{bounds[0]:g},{bounds[1]:g}]"
            )
