"""Names of symbolic dimensions that importers with a grammar of their own can read: a letter, then digits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from opshift.passes.model.messages import FunctionProto, ModelProto, ValueInfoProto
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import is_fixed, symbol

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def are_plain(model: ModelProto) -> bool:
    """Whether all sizes of a model's inputs are numbers or identifiers."""
    return all(_is_plain(dim) for value in model.graph.input for dim in _dims(value))


def sizes(model: ModelProto, feeds: Mapping[str, Any]) -> list[str]:
    """The sizes of inputs that are no numbers as they are in what the model is run on, as `--fix-shape` takes them."""
    held: dict[str, str] = {}
    for value in model.graph.input:
        shape = getattr(feeds.get(value.name), "shape", None)
        dims = list(_dims(value))
        if shape is None or len(dims) != len(shape):
            continue
        names = {symbol(dim): size for dim, size in zip(dims, shape, strict=True) if not is_fixed(dim)}
        if all(_PLAIN.fullmatch(name) for name in names):
            held |= {name: f"{name}={size}" for name, size in names.items()}
        else:
            held[f"{value.name}:"] = f"{value.name}:{','.join(map(str, shape))}"
    return list(held.values())


def plain(model: ModelProto) -> ModelProto:
    """The model with other names for the symbols that are none; the same size keeps the same name.

    Sizes of inputs without a name get one each.
    """
    made = ModelProto()
    made.CopyFrom(model)
    held = {dim.dim_param for value in _values(made) for dim in _dims(value)}
    fresh = (name for k in count() if (name := f"S{k}") not in held)
    names: dict[str, str] = {}
    inputs = {value.name for value in made.graph.input}
    for value in _values(made):
        for dim in _dims(value):
            if _is_plain(dim):
                continue
            if symbol(dim):
                if dim.dim_param not in names:
                    names[dim.dim_param] = next(fresh)
                dim.dim_param = names[dim.dim_param]
            elif value.name in inputs:
                dim.dim_param = next(fresh)
            else:
                dim.Clear()
    return made


def _is_plain(dim: Any) -> bool:
    if dim.HasField("dim_value"):
        return bool(dim.dim_value >= 0)
    return _PLAIN.fullmatch(dim.dim_param) is not None


def _values(model: ModelProto) -> Iterator[ValueInfoProto]:
    for body in bodies(model):
        yield from body.value_info
        if not isinstance(body, FunctionProto):
            yield from body.input
            yield from body.output


def _dims(value: ValueInfoProto) -> Iterator[Any]:
    yield from value.type.tensor_type.shape.dim
