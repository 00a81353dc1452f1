"""Numbers on the very line at which operators decide: equal ones that are compared, whole ones that are rounded.

Random numbers hardly ever lie there. Where one form decides by other nodes than the other, such numbers stand in the
place of what they read in both.

And numbers that hide behind others in a narrow precision, whose roundings are measured by all elements: what an
activation makes of negative ones beside positive ones, what guards a division beside a variance that is far larger.
Where one form has other nodes of these than the other, such numbers stand there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, default_domain
from opshift.verification.places.lines import constants, range_of, upwards

Level = tuple[str, Any]
"""`beside` a value of that name; on the `line` of a number; on the `whole` numbers, of steps of one size from a start
on, and the middles between them; along an `axis` of which several elements are the largest and the smallest. `below` 0
alone; `small` alone, about a number."""

_BESIDE = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_WHOLE = frozenset(["Ceil", "Floor", "Round"])
_ZERO = frozenset(["NonZero", "Sign"])
_AXIS = {"ArgMax": 0, "ArgMin": 0, "Hardmax": -1, "TopK": -1}
_LINES = {"Shrink": ("lambd", 0.5), "ThresholdedRelu": ("alpha", 1.0)}
_DECIDING = {*_BESIDE, *_WHOLE, *_ZERO, *_AXIS, *_LINES, "Cast", "QuantizeLinear"}
_UNITS = (1.0, 0.0)


def changed(before: GraphProto, after: GraphProto) -> dict[str, tuple[NodeProto, tuple[Level, ...]]]:
    """What is read where a form decides by nodes that the other one has not: the first of these, and the lines."""
    return _changed(before, after, _DECIDING, _levels)


def alone(before: GraphProto, after: GraphProto) -> dict[str, tuple[NodeProto, tuple[Level, ...]]]:
    """The same of what an activation or a normalization reads: the numbers that are to stand there alone."""
    return _changed(before, after, {*_BENT, *_GUARDED}, _hidden)


def _changed(
    before: GraphProto,
    after: GraphProto,
    ops: Collection[str],
    levels_of: Callable[[NodeProto, Mapping[str, int], Mapping[str, Any]], Iterator[tuple[str, Level]]],
) -> dict[str, tuple[NodeProto, tuple[Level, ...]]]:
    found: dict[str, tuple[NodeProto, tuple[Level, ...]]] = {}
    one, other = (
        [node for node in graph.node if node.op_type in ops and not default_domain(node.domain)]
        for graph in (before, after)
    )
    for graph, nodes, others in ((before, one, other), (after, other, one)):
        known = {key for node in others for key in _keys(node)}
        made = {name: index for index, node in enumerate(graph.node) for name in node.output}
        held = constants(graph) if nodes else {}
        theirs = {*(n for node in (before if graph is after else after).node for n in node.output)}
        for node in nodes:
            for name, level in levels_of(node, made, held) if known.isdisjoint(_keys(node)) else ():
                name, level = _shared(name, level, graph, made, held, theirs)
                if node.op_type == "QuantizeLinear" and name in made and name not in theirs:
                    continue  # what stands for it quantizes what it computes itself
                first, levels = found.get(name, (node, ()))
                found[name] = first, tuple(dict.fromkeys([*levels, level]))
    return found


def _shared(
    name: str,
    level: Level,
    graph: GraphProto,
    made: Mapping[str, int],
    held: Mapping[str, Any],
    theirs: Collection[str],
) -> tuple[str, Level]:
    """What a value that only one form has is an affine function of, and where that is on the level."""
    how, at = level
    while how in ("line", "whole") and name in made and name not in theirs:
        found = upwards(graph.node[made[name]], held)
        if found is None:
            break
        name, back = found
        step, start = back(1.0) - back(0.0), back(0.0)
        at = back(at) if how == "line" else (step * at[0], step * at[1] + start)
    return name, (how, at)


def _keys(node: NodeProto) -> Iterator[tuple[Any, ...]]:
    """Each tells a node that decides alike: the same of the same, or under the same name."""
    attributes = tuple(sorted((a.name, a.SerializeToString(deterministic=True)) for a in node.attribute))
    yield node.op_type, attributes, "of", tuple(node.input)
    yield node.op_type, attributes, "as", tuple(node.output)


def _levels(node: NodeProto, made: Mapping[str, int], held: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    op, attributes = node.op_type, {a.name: attribute_value(a) for a in node.attribute}
    if op in _BESIDE:
        other, name = sorted(node.input, key=lambda name: -2 if name in held else made.get(name, -1))
        if name not in held and name != other:
            yield name, ("beside", other)
    elif op in _WHOLE or (op == "Cast" and attributes.get("to") in _INTEGERS):
        yield node.input[0], ("whole", _UNITS)
    elif op == "QuantizeLinear":
        scale = range_of(held, node.input[1])
        if scale is not None and scale[0] == scale[1] > 0:
            yield node.input[0], ("whole", (scale[0], 0.0))
    elif op in _ZERO or (op == "Cast" and attributes.get("to") == TensorProto.BOOL):
        yield node.input[0], ("line", 0.0)
    elif op in _AXIS:
        yield node.input[0], ("axis", int(attributes.get("axis", _AXIS[op])))
    elif op in _LINES:
        name, default = _LINES[op]
        for sign in (-1, 1)[op != "Shrink" :]:
            yield node.input[0], ("line", sign * float(attributes.get(name, default)))


_INTEGERS = frozenset(
    TensorProto.DataType.Value(f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)
)  # fmt: skip


_BENT = frozenset(["Celu", "Elu", "LeakyRelu", "PRelu", "Selu"])
_GUARDED = frozenset(["GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"])
_LEAST = 2.0**-8
"""What is squared, and summed, in float16, too."""


def _hidden(node: NodeProto, made: Mapping[str, int], held: Mapping[str, Any]) -> Iterator[tuple[str, Level]]:
    if node.op_type in _BENT:
        yield node.input[0], ("below", 0.0)
    else:
        guard = next((float(attribute_value(a)) for a in node.attribute if a.name == "epsilon"), 1e-5)
        yield node.input[0], ("small", max(guard, 0.0) ** 0.5)


def levelled(value: Any, levels: Sequence[Level], values: Mapping[str, Any]) -> Any:
    """The value, of which some elements lie on each of the lines; raises ValueError where they do not fit."""
    import numpy as np

    found = value.copy()
    if any(how == "below" for how, _ in levels):
        found = -np.abs(found)
    for at in (at for how, at in levels if how == "small"):
        largest = float(np.abs(found[np.isfinite(found)]).max(initial=0.0))
        found = found * found.dtype.type(max(at, _LEAST) / largest if largest else 1.0)
    for axis in (at for how, at in levels if how == "axis"):
        found = _tied(found, axis)
    flat = found.reshape(-1)
    lines = [
        made for how, at in levels if how in ("line", "beside", "whole") for made in _lines(value, how, at, values)
    ]
    for number, line in enumerate(lines):
        flat[number :: len(lines) + 1] = line.reshape(-1)[number :: len(lines) + 1]
    return found


def _lines(value: Any, how: str, at: Any, values: Mapping[str, Any]) -> list[Any]:
    """What the value is on a line."""
    import numpy as np

    if how == "line":
        with np.errstate(over="ignore"):
            return [np.full_like(value, at)]
    if how == "beside":
        return [_fitted(values[at], value.shape).astype(value.dtype)]
    step, start = (value.dtype.type(part) for part in at)
    whole = np.rint((value - start) / step)
    return [whole * step + start, (whole + value.dtype.type(0.5)) * step + start]


def _fitted(other: Any, shape: tuple[int, ...]) -> Any:
    """Of a value that another one of this shape is compared with, what the first of its elements meet."""
    import numpy as np

    while other.ndim > len(shape):
        other = other[0]
    met = tuple(slice(0, size) for size in shape[len(shape) - other.ndim :])
    return np.broadcast_to(other[met], shape)


def _tied(value: Any, axis: int) -> Any:
    """The value between the next to least and the next to largest, or more, of each row."""
    import numpy as np

    size = value.shape[axis]
    if size < 2:
        return value
    ordered, few = np.sort(value, axis), max(1, size // 4)
    return np.clip(value, np.take(ordered, [few], axis), np.take(ordered, [size - 1 - few], axis))
