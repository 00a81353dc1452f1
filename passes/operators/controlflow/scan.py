"""Scan: it iterated over a batch of sequences and now iterates over one sequence along any axis; and before, a Loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, keep_held
from opshift.passes.model.types import Dim, tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.subgraphs import carry_in_float
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto

SINCE_9 = dict.fromkeys(("scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"))


@says("Put the Scan over the sequence into a Scan over the batch, as Scan-8 has a batch axis")
def scan_of_a_scan(node: Node) -> Replacement:
    lengths, operands, directions = _operands(node)
    scanned = len(directions)
    fresh, batch = node.scope.context.names.fresh, GraphProto(name="batch")
    formals = [fresh(f"{name}/sequence") for name in operands]
    results = [fresh(f"{name}/sequence") for name in node.outputs]
    inner = NodeProto()
    inner.CopyFrom(node.proto)
    inner.name = fresh(f"{node.name}/sequence")
    kept = [a for a in node.proto.attribute if a.name != "directions"]
    del inner.attribute[:]
    inner.attribute.extend(kept)
    if any(directions):
        inner.attribute.append(make_attribute("scan_input_directions", directions))
    inner.input[:], inner.output[:] = formals, results
    if lengths:
        _stop_at_length(node, inner, batch, len(operands) - scanned, fresh("length"))
    batch.input.extend(_formal(node, name, formal) for name, formal in zip(operands, formals, strict=True))
    batch.node.append(inner)
    for name, result in zip(node.outputs, results, strict=True):
        batch.output.append(_formal(node, name, result))
    everything = ([lengths] if lengths else []) + operands
    over = {"body": batch, "num_scan_inputs": len(everything), "directions": None}
    finals = node.build.again(node.proto, everything, **over)
    return [finals] if isinstance(finals, str) else list(finals)


def _operands(node: Node) -> tuple[str, list[str], list[int]]:
    """sequence_lens, the states with what is scanned, and in which direction each of the latter is."""
    lengths, operands = node.input(0), node.inputs[1:]
    directions = node.attributes.get("directions") or [0] * node.attributes["num_scan_inputs"]
    if lengths and any(directions):
        raise CannotConvert(
            node,
            "the Scan runs backwards and has sequence_lens",
            supported="a reversed scan or sequence_lens, not both",
        )
    return lengths, operands, directions


def _formal(node: Node, name: str, formal: str) -> Any:
    value = GraphProto().input.add(name=formal)
    if name and (elem_type := node.scope.elem_type(name)):
        value.type.CopyFrom(tensor_type(elem_type))
    return value


def _stop_at_length(node: Node, inner: NodeProto, batch: GraphProto, states: int, length: str) -> None:
    """Beyond the length of a sequence its states stay what they are; a counter is carried as one more state."""
    fresh = node.scope.context.names.fresh
    body = next(a.g for a in inner.attribute if a.name == "body")
    at, after, goes_on = fresh("step"), fresh("step"), fresh("goes_on")
    zero, one = (node.build.constant(number, T.INT64) for number in (0, 1))
    body.node.append(NodeProto(op_type="Less", input=[at, length], output=[goes_on]))
    body.node.append(NodeProto(op_type="Add", input=[at, one], output=[after]))
    for old, new in zip(list(body.input)[:states], list(body.output)[:states], strict=True):
        held = fresh(new.name)
        body.node.append(NodeProto(op_type="Where", input=[goes_on, new.name, old.name], output=[held]))
        new.name = held
    counter = [body.input.add(name=at), body.output.add(name=after), batch.input.add(name=length)]
    for value in counter:
        value.type.CopyFrom(tensor_type(T.INT64, []))
    for values in (body.input, body.output):
        values.insert(0, values.pop())
    inner.input.insert(0, zero)
    inner.output.insert(0, fresh("steps"))


@says("Added a batch axis of size 1 to the inputs of Scan")
def batch_of_one(node: Node) -> Replacement:
    build, states = node.build, len(node.inputs) - node.attributes["num_scan_inputs"]
    _state_shapes(node, states)
    axes = [0] * states + (node.attributes.get("scan_input_axes") or [0] * node.attributes["num_scan_inputs"])
    operands = [_in_a_batch(node, i, axis) for i, axis in enumerate(axes)]
    directions = node.attributes.get("scan_input_directions", [])
    batched = build.again(
        node.proto,
        ["", *operands],
        **SINCE_9,
        directions=directions if any(directions) else None,
    )
    results = [batched] if isinstance(batched, str) else list(batched)
    axes = node.attributes.get("scan_output_axes", [])
    for k, backwards in enumerate(node.attributes.get("scan_output_directions", [])):
        if backwards and node.outputs[states + k]:
            results[states + k] = _reverse(node, results[states + k], node.outputs[states + k])
    results = [build.Squeeze(name, axes=[0]) for name in results]
    for k, axis in enumerate(axes):
        if axis and node.outputs[states + k]:
            perm = _axis_first(node, axis, _rank_of_output(node, states + k))
            inverse = [perm.index(position) for position in range(len(perm))]
            results[states + k] = build.Transpose(results[states + k], perm=inverse)
    return results


def _in_a_batch(node: Node, index: int, axis: int) -> str:
    """An input as a batch of one, its elements along `axis`; steps below know no size that is merely declared."""
    build, scope, name = node.build, node.scope, node.input(index)
    turned = build.Transpose(name, perm=_axis_first(node, axis, node.rank(index))) if axis else name
    made, dims = build.Unsqueeze(turned, axes=[0]), scope.shape_in_source(name)
    if dims is None and (rank := scope.rank(name)) is not None:
        dims = [None] * rank
    if dims is not None and not all(isinstance(dim, int) for dim in dims):
        order = _axis_first(node, axis, len(dims)) if axis else range(len(dims))
        build.set_type(made, scope.elem_type(name), [1, *(dims[k] for k in order)])
    return str(made)


def _state_shapes(node: Node, states: int) -> None:
    """Write the shapes of what the body yields, which runtimes ask for there."""
    axes = node.attributes.get("scan_output_axes", [])
    for k, (name, value) in enumerate(zip(node.outputs, node.attributes["body"].output, strict=True)):
        shape = node.scope.shape(name) if name else None
        if shape is None or value.type.tensor_type.HasField("shape"):
            continue
        if k >= states:
            axis = axes[k - states] if axes else 0
            del shape[_axis_first(node, axis, len(shape))[0]]
        value.type.CopyFrom(tensor_type(node.scope.elem_type(name), shape))


def _axis_first(node: Node, axis: int, rank: int) -> list[int]:
    if not -rank <= axis < rank:
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    return [axis % rank, *(other for other in range(rank) if other != axis % rank)]


def _rank_of_output(node: Node, index: int) -> int:
    shape = node.scope.shape(node.outputs[index])
    if shape is None:
        raise node.unknown("rank", node.outputs[index])
    return len(shape)


def _reverse(node: Node, batched: str, like: str) -> str:
    """A Scan that hands on what it reads from the end to the beginning."""
    fresh = node.scope.context.names.fresh
    body = GraphProto(name="backwards")
    body.input.append(_formal(node, like, fresh("element")))
    body.output.append(_formal(node, like, fresh("element")))
    body.node.append(NodeProto(op_type="Identity", input=[body.input[0].name], output=[body.output[0].name]))
    return str(node.build.Scan(None, batched, body=body, num_scan_inputs=1, directions=[1]))


@says("Replaced negative axes of Scan by positive ones")
def axes_from_the_front(node: Node) -> None:
    states = len(node.inputs) - node.attributes["num_scan_inputs"]

    def count(name: str, rank: Callable[[int], int]) -> None:
        axes = node.attributes.get(name, [])
        if any(axis < 0 for axis in axes):
            node.attributes[name] = [axis + rank(states + k) if axis < 0 else axis for k, axis in enumerate(axes)]

    count("scan_input_axes", node.rank)
    count("scan_output_axes", lambda k: _rank_of_output(node, k))


# --- 8: before Scan existed ---------------------------------------------------------------------------------


@says("Replaced Scan by a Loop over the sequence, inside a Loop over the batch")
def loop_over_elements(node: Node) -> list[str]:
    lengths, operands, _ = _operands(node)
    build, first = node.build, node.build.constant(0, T.INT64)
    reversed_ = any(node.attributes.get("directions", []))
    order = _places(node, operands[-1], T.INT64, backwards=True) if reversed_ else ""
    places = _places(node, operands[-1], T.DOUBLE) if lengths else ""
    lengths = build.Cast(lengths, to=T.DOUBLE) if lengths else ""
    if any(dims and dims[0] == 1 for dims in (_sizes(node, name) for name in operands)):
        length = build.Gather(lengths, first, axis=0) if lengths else ""
        rows = _over_a_sequence(
            node, build, [build.Squeeze(name, axes=[0]) for name in operands], length, order, places
        )
        for row, name in zip(rows, node.outputs, strict=True):
            dims = node.scope.shape(name) if name else None
            build.set_type(row, node.scope.elem_type(name), dims and dims[1:])
        return [build.Unsqueeze(row, axes=[0]) for row in rows]

    rows_of = [_rows_of(build, name) for name in operands]

    def one_sequence(inner: Builder, at: str) -> list[str]:
        taken = [inner.Gather(name, at, axis=axis) for name, axis in rows_of]
        for row, (_, axis) in zip(taken, rows_of, strict=True):
            if axis:
                inner.set_type(row, T.STRING, [None] * axis)
        return _over_a_sequence(node, inner, taken, inner.Gather(lengths, at, axis=0) if lengths else "", order, places)

    stacked = _loop(node, build, build.Gather(build.Shape(operands[-1]), first), [], [], one_sequence)
    for row, name in zip(stacked, node.outputs, strict=True):
        build.set_type(row, node.scope.elem_type(name), node.scope.shape(name) if name else None)
    return stacked


def _rows_of(build: Builder, name: str) -> tuple[str, int]:
    """A value and the axis along which its rows lie: onnxruntime gathers whole rows of strings along the last alone."""
    rank = build.scope.rank(name)
    if rank is None or rank < 2 or build.scope.elem_type(name) != T.STRING:
        return name, 0
    return str(build.Transpose(name, perm=[*range(1, rank), 0])), rank - 1


def _sizes(node: Node, name: str) -> list[Dim] | None:
    """What is inferred of a value of the source, which may declare other sizes, or known of one made here."""
    return node.scope.shape(name) if node.scope.node_made(name) else node.scope.shape_in_source(name)


def _places(node: Node, batch: str, elem_type: int, *, backwards: bool = False) -> str:
    """The places in a sequence, made outside of the Loop: Sub and Cast changed, and are not converted inside of it."""
    build, dims = node.build, _sizes(node, batch)
    if dims and isinstance(length := dims[1], int):
        return str(build.constant(list(range(length))[:: -1 if backwards else 1], elem_type))
    size = build.set_type(build.Gather(build.Shape(batch), build.constant(1, T.INT64)), T.INT64, [])
    places = build.set_type(flat_indices.count(build, size), T.INT64, [None])
    if backwards:
        last = build.set_type(build.Sub(size, build.constant(1, T.INT64)), T.INT64, [])
        places = build.Neg(build.Sub(places, last))
    return recast(build, places, T.INT64, elem_type)


def _over_a_sequence(
    node: Node, build: Builder, operands: list[str], length: str, order: str, places: str
) -> list[str]:
    """The last states and the rows of one sequence; beyond its length the states stay what they are."""
    directions, body = node.attributes.get("directions", []), node.attributes["body"]
    states = len(operands) - node.attributes["num_scan_inputs"]
    trips = build.Gather(build.Shape(operands[-1]), node.build.constant(0, T.INT64))
    rows_of = [_rows_of(build, name) for name in operands[states:]]

    def one_element(inner: Builder, at: str) -> list[str]:
        backwards = inner.Gather(order, at, axis=0) if order else ""
        for k, formal in enumerate(list(body.input)[states:]):
            place = backwards if directions and directions[k] else at
            name, axis = rows_of[k]
            element = NodeProto(op_type="Gather", input=[name, place], output=[formal.name])
            if axis:
                element.attribute.append(make_attribute("axis", axis))
            inner.nodes.append(element)
        inner.nodes.extend(body.node)
        results = [value.name for value in body.output]
        if not length:
            return results
        goes_on = inner.Less(inner.Gather(places, at, axis=0), length)
        held = zip(results[:states], [value.name for value in body.input], strict=False)
        return [_either(inner, goes_on, *pair) for pair in held] + results[states:]

    return _loop(node, build, trips, operands[:states], list(body.input)[:states], one_element, body)


def _either(build: Builder, condition: str, a: str, b: str) -> str:
    then, other = build.branch(lambda _: a, "held"), build.branch(lambda _: b, "held")
    return str(build.If(condition, then_branch=then, else_branch=other))


def _loop(
    node: Node,
    build: Builder,
    trips: str,
    start: list[str],
    formals: list[Any],
    round_of: Callable[[Builder, str], list[str]],
    like: GraphProto | None = None,
) -> list[str]:
    """A Loop whose body yields what `round_of` makes, as many states as there are formals first.

    It carries at least one value, as it had to, and holds only nodes that never changed: they are not converted again.
    """
    fresh, graph = node.scope.context.names.fresh, GraphProto(name=like.name if like else "batch")
    at, going, goes_on, unread, still_unread = map(fresh, ("at", "going", "goes_on", "unread", "still_unread"))
    inner = Builder(build.scope.inside(graph, build.opset), build.opset)
    results = round_of(inner, at)
    for name, elem_type in ((at, T.INT64), (going, T.BOOL), (unread, T.FLOAT)):
        graph.input.add(name=name).type.CopyFrom(tensor_type(elem_type, []))
    for name, elem_type in ((goes_on, T.BOOL), (still_unread, T.FLOAT)):
        graph.output.add(name=name).type.CopyFrom(tensor_type(elem_type, []))
    graph.input.extend(formals)
    for k, name in enumerate(results):
        if like is None:
            graph.output.add(name=name)
        else:
            graph.output.append(like.output[k])
            graph.output[-1].name = name
    graph.node.extend(inner.nodes)
    for name, result in ((going, goes_on), (unread, still_unread)):
        graph.node.append(NodeProto(op_type="Identity", input=[name], output=[result]))
    if like is not None:
        keep_held(graph, like)
        graph.value_info.extend(value for value in list(like.input)[len(formals) :] if value.HasField("type"))
    zero = node.build.constant(0.0, T.FLOAT)
    made = build.emit("Loop", [trips, None, zero, *start], {"body": graph}, outputs=len(results) + 1)
    build.keep_graphs()
    return list(made[1:])


changed("Scan", 8, Pair(down=loop_over_elements))
changed("Scan", 9, Pair(up=scan_of_a_scan, down=batch_of_one))
changed("Scan", 11, Pair(down=axes_from_the_front))
changed("Scan", 16, Pair(down=carry_in_float(0, 0)))
