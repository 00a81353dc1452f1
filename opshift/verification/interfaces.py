"""Match inputs and outputs of two models, by name or position, also in different precisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opshift.passes.model.formats import FORMATS, Floats, Integers
from opshift.passes.model.messages import ModelProto, TensorProto, ValueInfoProto, copy_model
from opshift.passes.model.traversal import bodies, own_names
from opshift.passes.model.types import type_text
from opshift.passes.records import replace
from opshift.verification.feeding.asked import Asked
from opshift.verification.parts import rename_values
from opshift.verification.side import Side

_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

Types = Mapping[str, tuple[int, int]]


def casts(before: ModelProto, after: ModelProto) -> Types:
    """Find inputs and outputs that have different float types in the two models. Runs before the models are run."""

    def values(model: ModelProto) -> Iterator[ValueInfoProto]:
        yield from model.graph.input
        yield from model.graph.output

    second = {value.name: value.type.tensor_type.elem_type for value in values(after)}
    pairs = {v.name: (v.type.tensor_type.elem_type, second.get(v.name, 0)) for v in values(before)}
    return {n: (a, b) for n, (a, b) in pairs.items() if a != b and _stand_for_each_other(a, b)}


_INTEGERS = (TensorProto.INT64, TensorProto.INT32)


def _stand_for_each_other(a: int, b: int) -> bool:
    return (a in _FLOATS and b in _FLOATS) or _carries(b, a) or (a, b) == _INTEGERS


def _carries(wide: int, narrow: int) -> bool:
    """Whether a wide type holds all numbers of a narrow one that numpy lacks, such as float8 and int4.

    Asked for each pair of inputs or outputs.
    """
    one, other = FORMATS.get(narrow), FORMATS.get(wide)
    is_foreign = isinstance(one, Floats) or (isinstance(one, Integers) and one.highest < 127)
    return is_foreign and one is not None and other is not None and other.holds(one)


def round_inputs(feeds: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Round inputs of the first model so that the second can have the same."""
    return {n: _cast(_cast(v, types[n][1]), types[n][0]) if n in types else v for n, v in feeds.items()}


def as_second(feeds: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Cast inputs to the types of the second model."""
    return {name: _cast(value, types[name][1]) if name in types else value for name, value in feeds.items()}


def in_narrower(a: Any, b: Any) -> tuple[Any, Any]:
    """Cast two float arrays to the narrower type. Runs on outputs before they are compared."""
    import numpy as np

    from opshift.verification.bounds import half_unit, is_float

    if not (is_float(a) and is_float(b)):
        return (a, b.astype(a.dtype)) if a.dtype == np.int64 else (a.astype(b.dtype), b)
    narrow = max((a.dtype, b.dtype), key=half_unit)
    if narrow.name in ("float16", "bfloat16", "float32", "float64"):
        return a.astype(narrow), b.astype(narrow)
    with np.errstate(all="ignore"):
        rounded = b.astype(narrow)
    same = np.array_equal(rounded.astype(b.dtype), b, equal_nan=True)
    return (a, rounded) if same else (a.astype(b.dtype), b)


def in_type(value: Any, to: int) -> Any:
    """Convert floats to another type; any other value stays. Runs on outputs before they are compared."""
    from opshift.verification.bounds import is_float

    return _cast(value, to) if is_float(value) else value


def _cast(value: Any, to: int) -> Any:
    """Convert an array to an ONNX element type. Used for inputs and outputs whose types differ."""
    import onnx.helper

    return value.astype(onnx.helper.tensor_dtype_to_np_dtype(to))


Matched = tuple[Side, Side, str, list[str]]
"""Two models whose inputs and outputs are called alike; why there are none; and what is to be said of it."""


def match(before: Side, after: Side, wanted: Asked) -> Matched:
    """Rename the second model's inputs and outputs as in the first.

    They stand for each other by name, as the user says (`--map`), or else by position where types agree.
    """
    model, remarks = after.model, list[str]()
    names: dict[str, str] = {}
    for what, one, other in (
        ("output", list(before.model.graph.output), list(model.graph.output)),
        ("input", _list_required_inputs(before.model, wanted), _list_required_inputs(model, wanted)),
    ):
        pairs, why = _pair_up(what, one, other, wanted)
        if why:
            return before, after, why, []
        for a, b in pairs.items():
            if a != b:
                names[b] = a
        moved = [f'"{a}" with "{b}"' for a, b in pairs.items() if a != b and wanted.map.get(a) != b]
        if moved:
            remarks.append(f"{what}s are compared by position: {', '.join(moved[:8])} (--map A=B says otherwise)")
    if names:
        taken = own_names(model.graph) & set(names.values()) - set(names)
        model = rename_values(model, {**names, **{name: f"{name}~other" for name in taken}})
    order = [value.name for value in before.model.graph.output]
    if [value.name for value in model.graph.output] != order:
        model = copy_model(model)
        model.graph.output.sort(key=lambda value: order.index(value.name))
        remarks.append("the outputs are in another order")
    if ignored := _list_ignored_defaults(before.model, model, wanted):
        names_of = ", ".join(f'"{name}"' for name in ignored[:8]) + (" and others" if len(ignored) > 8 else "")
        remarks.append(f"tested at the default of {names_of} only: the second model takes no other value there")
    return before, replace(after, model=model), "", remarks


_OVERRIDABLE = 4
"""The IR version from which on an initializer is an input only if users may give another value."""


def _list_ignored_defaults(before: ModelProto, after: ModelProto, wanted: Asked) -> list[str]:
    """List inputs with a default that the first model uses and the second does not. Runs before models are compared."""

    def used(model: ModelProto) -> list[str]:
        read = {name for body in bodies(model) for node in body.node for name in node.input}
        initialized = {tensor.name for tensor in model.graph.initializer}
        return [value.name for value in model.graph.input if value.name in initialized & read]

    if before.ir_version < _OVERRIDABLE:
        return []
    kept = {*used(after), *wanted.values}
    return [name for name in used(before) if name not in kept]


def _list_required_inputs(model: ModelProto, wanted: Asked) -> list[ValueInfoProto]:
    initialized = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initialized and value.name not in wanted.values]


def _pair_up(
    what: str, one: Sequence[ValueInfoProto], other: Sequence[ValueInfoProto], wanted: Asked
) -> tuple[dict[str, str], str]:
    """Pair names of the first model with those of the second, or say why that fails."""
    a, b = [value.name for value in one], [value.name for value in other]
    said = {name: to for name, to in wanted.map.items() if name in a and to in b}
    if set(a) == set(b) and not said:
        return {name: name for name in a}, ""
    rest = [name for name in a if name not in said], [name for name in b if name not in said.values()]
    types = [{v.name: type_text(v.type) or "" for v in values} for values in (one, other)]
    alike = len(rest[0]) == len(rest[1]) and all(
        _element(types[0][x]) == _element(types[1][y]) for x, y in zip(*rest, strict=True)
    )
    if not alike:
        option = "; --map A=B says which stand for each other" if len(a) == len(b) else ""
        return {}, f"the {what}s are {b} instead of {a}{option}"
    same = {name: name for name in rest[0] if name in rest[1]}
    left = [name for name in rest[0] if name not in same], [name for name in rest[1] if name not in same]
    return {**said, **same, **dict(zip(*left, strict=True))}, ""


def _element(kind: str) -> str:
    """The type of a value without its sizes."""
    return kind.partition("[")[0]
