"""Layers that hold graphs: If, Loop and TensorIterator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opshift.passes.model.messages import GraphProto, TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.openvino.layer import Layer, Made, Nested, Unmapped, layer
from opshift.passes.openvino.network import Body, Mapped

T = TensorProto
FOREVER = 2**63 - 1


@layer("If")
def branch(of: Layer) -> Made:
    """Both bodies read the values of the graph outside; their results have the order of the outputs."""
    graphs = {}
    for tag in ("then", "else"):
        body = _body(of, f"{tag}_body")
        nested = of.nest(body, {port.inner: _outer(of, port) for port in body.inputs})
        graphs[f"{tag}_branch"] = _close(nested, nested.finish(_results(of, body)))
    condition = _scalar(of, of.input(0))
    return _all(of.build.emit("If", [condition], graphs, outputs=len(of.entry.outputs)))


@dataclass
class _Rounds:
    """What the ports of a loop mean: by the id of an input of its body, or of a result."""

    carried: list[tuple[Mapped, str]] = field(default_factory=list)  # inputs, and the results that they come from
    bound: dict[str, str] = field(default_factory=dict)
    sliced: list[Mapped] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    stacked: list[Mapped] = field(default_factory=list)
    goes_on: str = ""


@layer("Loop", "TensorIterator")
def loop(of: Layer) -> Made:
    """Inputs with an axis are cut into single elements of it, and results with one are joined along it."""
    body = _body(of, "body")
    parts = _sort(of, body)
    count, go = _rounds(of, parts)
    fresh = of.build.scope.context.names.fresh
    at, going = fresh("Loop/round"), fresh("Loop/go")
    names = {port.inner: fresh("Loop/so_far") for port, _ in parts.carried}
    own = {inner: fresh("Loop/part") for inner in [*(port.inner for port in parts.sliced), *parts.counters]}
    nested = of.nest(body, {**parts.bound, **names, **own})
    for name, elem_type in ((at, T.INT64), (going, T.BOOL)):
        nested.graph.input.add(name=name).type.CopyFrom(tensor_type(elem_type, []))
    for port, _ in parts.carried:
        carried = tensor_type(of.type_of(_outer(of, port)), _parameter(body, port.inner))
        nested.graph.input.add(name=names[port.inner]).type.CopyFrom(carried)
    b = nested.build
    for port in parts.sliced:
        where = b.Reshape(at, [1])
        whole = _outer(of, port)
        if _step(port) < 0:
            size = b.Gather(b.Shape(whole), b.constant([int(port.attributes["axis"])], T.INT64))
            where = b.Sub(b.Sub(size, [1]), where)
        _rename_last(nested, b.Gather(whole, where, axis=int(port.attributes["axis"])), own[port.inner])
    for inner in parts.counters:
        entry = next(entry for entry in body.layers if entry.id == inner)
        counted = b.Reshape(at, [1]) if entry.outputs[0].dims else at
        _rename_last(nested, b.Cast(counted, to=entry.outputs[0].elem_type or T.INT64), own[inner])
    wanted = [*([parts.goes_on] if parts.goes_on else []), *(result for _, result in parts.carried)]
    results = nested.finish([*wanted, *(port.inner for port in parts.stacked)])
    inside = of.build.__class__(b.scope, b.opset)
    if parts.goes_on:
        results[0] = inside.Reshape(results[0], inside.constant([], T.INT64))
    else:
        results.insert(0, inside.Identity(going))
    first = len(results) - len(parts.stacked)
    for place, port in enumerate(parts.stacked):
        results[first + place] = inside.Squeeze(results[first + place], [int(port.attributes["axis"])])
    nested.graph.node.extend(inside.nodes)
    graph = _close(nested, results)
    given = [count, go, *(_outer(of, port) for port, _ in parts.carried)]
    made = _all(of.build.emit("Loop", given, {"body": graph}, outputs=len(results) - 1))
    return _outputs(of, body, parts, made)


def _sort(of: Layer, body: Body) -> _Rounds:
    parts, back = _Rounds(), {to: start for start, to in body.back_edges}
    for port in body.inputs:
        if port.attributes.get("purpose") == "current_iteration":
            parts.counters.append(port.inner)
        elif "axis" in port.attributes:
            _check_whole(port)
            parts.sliced.append(port)
        elif port.inner in back:
            parts.carried.append((port, back[port.inner]))
        else:
            parts.bound[port.inner] = _outer(of, port)
    for port in body.outputs:
        if port.attributes.get("purpose") == "execution_condition":
            parts.goes_on = port.inner
        elif "axis" in port.attributes:
            _check_whole(port)
            parts.stacked.append(port)
        elif port.inner not in back.values():
            raise Unmapped("an output of the last iteration is not carried to the next one", supported="carried values")
    return parts


def _check_whole(port: Mapped) -> None:
    """Parts of one element, of the whole axis, forward or backward."""
    size = _number(port.attributes, "part_size", "1")
    held = _number(port.attributes, "start", "0"), _number(port.attributes, "end", "-1"), _step(port)
    if size != 1 or held not in ((0, -1, 1), (-1, 0, -1)):
        raise Unmapped(
            f"slices of {size}, from {held[0]} to {held[1]} in steps of {held[2]}",
            supported="slices of size 1 over all",
        )


def _step(port: Mapped) -> int:
    return _number(port.attributes, "stride", "1")


def _number(attributes: Mapping[str, str], name: str, default: str) -> int:
    try:
        return int(attributes.get(name, default))
    except ValueError:
        raise Unmapped(f"{name}={attributes[name]!r} is not a number") from None


def _rounds(of: Layer, parts: _Rounds) -> tuple[str | None, str | None]:
    """How many rounds, and whether there is a first one. A count of -1 is none."""
    if of.type == "TensorIterator":
        if not parts.sliced:
            raise Unmapped("no input is sliced, so the number of iterations is unknown")
        port = parts.sliced[0]
        axis = _number(port.attributes, "axis", "0")
        size = of.build.Gather(of.build.Shape(_outer(of, port)), of.build.constant(axis, T.INT64))
        return str(size), None
    held = of.constant(0)
    count: str | None = None
    if held is None:
        wide = _scalar(of, of.int64(0))
        count = of.build.Where(of.build.Less(wide, 0), of.build.constant(FOREVER, T.INT64), wide)
    elif held[0] >= 0:
        count = of.build.constant(held[0], T.INT64)
    return count, _scalar(of, of.input(1))


def _outputs(of: Layer, body: Body, parts: _Rounds, made: list[str]) -> list[str]:
    """The value of each port, in the order of the ports."""
    last = {result: name for (_, result), name in zip(parts.carried, made, strict=False)}
    joined = {id(port): name for port, name in zip(parts.stacked, made[len(parts.carried) :], strict=True)}
    found = {}
    for port in body.outputs:
        if port.attributes.get("purpose") == "execution_condition":
            continue
        if "axis" not in port.attributes:
            found[port.port] = last[port.inner]
            continue
        name, axis = joined[id(port)], _number(port.attributes, "axis", "0")
        entry = next(p for p in of.entry.outputs if p.id == port.port)
        rank = len(entry.dims)
        if not rank:
            raise Unmapped("the rank of a concatenated output is unknown")
        axis %= rank
        name = of.permute(name, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
        if _step(port) < 0:
            name = of.build.Slice(name, [-1], [-FOREVER], [axis], [-1])
        found[port.port] = name
    missing = [port.id for port in of.entry.outputs if port.id not in found]
    if missing:
        raise Unmapped(f"port {missing[0]} has no input")
    return [found[port.id] for port in of.entry.outputs]


def _body(of: Layer, tag: str) -> Body:
    if tag not in of.entry.bodies:
        raise Unmapped(f"it has no {tag}")
    return of.entry.bodies[tag]


def _outer(of: Layer, port: Mapped) -> str:
    """The value outside that a port of a body stands for."""
    for place, outer in enumerate(of.entry.inputs):
        if outer.id == port.port:
            return of.input(place)
    raise Unmapped(f"it has no port {port.port}")


def _results(of: Layer, body: Body) -> list[str]:
    by_port = {port.port: port.inner for port in body.outputs}
    if set(by_port) != {port.id for port in of.entry.outputs}:
        raise Unmapped("its bodies and its ports have different outputs")
    return [by_port[port.id] for port in of.entry.outputs]


def _parameter(body: Body, inner: str) -> list[int | str | None] | None:
    """The shape that an input of a body declares; none where it may be any."""
    entry = next(entry for entry in body.layers if entry.id == inner)
    dims = entry.outputs[0].dims if entry.outputs else ()
    if not dims and entry.attributes.get("shape", "...").strip():
        return None
    return [dim if dim >= 0 else None for dim in dims]


def _close(nested: Nested, results: list[str]) -> GraphProto:
    """The graph with its outputs, each a value that it makes itself, once."""
    scope, build = nested.build.scope, nested.build.__class__(nested.build.scope, nested.build.opset)
    taken: set[str] = set()
    for result in results:
        made = {name for node in nested.graph.node for name in node.output}
        name = result if result in made and result not in taken else build.Identity(result)
        taken.add(name)
        output = nested.graph.output.add(name=name)
        value_type = scope.type(result)
        if value_type is not None:
            output.type.CopyFrom(value_type)
    nested.graph.node.extend(build.nodes)
    for index in reversed(range(len(nested.graph.value_info))):
        if nested.graph.value_info[index].name in taken:
            del nested.graph.value_info[index]
    return nested.graph


def _rename_last(nested: Nested, name: str, wanted: str) -> None:
    """Give the value that was made last the name that the body knows it by."""
    node = nested.build.nodes[-1]
    node.output[:] = [wanted if output == name else output for output in node.output]
    nested.build.scope.record(node, nested.build.opset)


def _scalar(of: Layer, name: str) -> str:
    """A value of one element without axes."""
    dims = of.dims_of(name)
    return name if dims == [] else str(of.build.Reshape(name, of.build.constant([], T.INT64)))


def _all(made: str | list[str]) -> list[str]:
    return [made] if isinstance(made, str) else list(made)
