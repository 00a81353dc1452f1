"""Rewrite calls that a limit of the backend refuses in a form that it accepts, such as Expand as Concat of copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from sys import float_info
from typing import Any

from opshift.passes.analysis.inferring.weightless import OVERRIDABLE_SINCE
from opshift.passes.analysis.scope import Context, Scope, open_main_graph
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.backends.obstacles import find_refused_value, find_shape_limit
from opshift.passes.changes import Change, Result
from opshift.passes.conversion.ir_versions import initializers_to_inputs
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas, tensors
from opshift.passes.model.editing.dead_code import drop_unused
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Replacement, Step
from opshift.passes.rewrite.replace import take_over
from opshift.passes.rewrite.says import says, sentence_of

_FORMS: dict[tuple[str, str], Step] = {}
"""Steps that rewrite a refused call, by what the limit is about (`_list_subjects`) and the operator."""
_OLDEST = 7  # before this opset, operands were not broadcast as they are now
_MOST_PARTS = 256  # of one node
_CHAIN = 3  # how many nodes there are between the two inputs of a HardSwish: Add, Clip and Div
_CONSTANT_OF_SHAPE, _SLICE_HAS_STEPS, _CLIP_HAS_INPUTS, _AXES_ARE_INPUT = 9, 10, 11, 13  # from these opsets on
_LENGTHS, _STATES = 4, (5, 6)  # the places of sequence_lens, initial_h and initial_c among the inputs of an LSTM
_REVERSE = [-1], [-(1 << 63)], [0], [-1]  # starts, ends, axes and steps of a Slice that reverses the first axis
_LARGEST: dict[int, float] = {
    TensorProto.FLOAT: 2.0**128 - 2.0**104,
    TensorProto.FLOAT16: 65504.0,
    TensorProto.DOUBLE: float_info.max,
}


def find_respelled(backend: Backend) -> list[Limit]:
    """List the limits for which this file has a form."""
    return [limit for limit in backend.limits if any(_find_form(limit, op) for _, op in limit.ops)]


def respell(source: ModelProto, backend: Backend, folder: str | None = None) -> Result:
    """Rewrite the calls of the main graph that a limit of the backend refuses, if their sizes are known.

    Other refused calls stay: the conversion then replaces or refuses them.
    """
    limits = find_respelled(backend)
    called = {(node.domain, node.op_type) for node in source.graph.node}
    scope = open_main_graph(source, folder) if any(limit.ops & called for limit in limits) else None
    if scope is None or scope.opset < _OLDEST:
        return Result(source, (), ())
    if not any(_find_forms(node, limits, scope) for node in source.graph.node):
        return Result(source, (), ())
    model, changes = copy_model(source), list[Change]()
    scope = Scope(model.graph, Context(model, source, folder), scope.opset, path=())
    nodes = [each for node in source.graph.node for each in _write(node, limits, scope, changes)]
    if not changes:
        return Result(source, (), ())
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    drop_unused(model, scope.context.released)
    if model.ir_version < OVERRIDABLE_SINCE:
        initializers_to_inputs(model)
    return Result(model, tuple(changes), ())


def find_unread_forms(source: ModelProto, backend: Backend, folder: str | None = None) -> list[Refusal]:
    """List the calls that `respell` would rewrite.

    `inspect --target` lists them with the obstacles.
    """
    changed = respell(source, backend, folder).changes
    return [
        Refusal(each.node, each.op, "", 0, False, "the target reads it only in another form, which opshift can write")
        for each in changed
    ]


def _find_forms(node: NodeProto, limits: list[Limit], scope: Scope) -> list[Step]:
    """List the steps that may rewrite a call which limits refuse; none if no limit refuses it."""
    version = schemas.since("", node.op_type, scope.opset) or 1
    formed = [(limit, _find_form(limit, node.op_type)) for limit in limits if not node.domain]
    return [form for limit, form in formed if form is not None and _is_refused(limit, node, version, scope)]


def _find_form(limit: Limit, op: str) -> Step | None:
    return next((form for subject in _list_subjects(limit) if (form := _FORMS.get((subject, op)))), None)


def _list_subjects(limit: Limit) -> list[str]:
    """Name what a limit is about: its kind, attributes or inputs; `no X` if X is required."""
    kind = [name for name in ("ranks", "read", "own", "repeated", "reached") if getattr(limit, name)]
    return kind or [*limit.unused, *(f"no {name}" for name in limit.given), limit.attribute]


def _write(
    proto: NodeProto, limits: list[Limit], scope: Scope, changes: list[Change], tried: frozenset[Step] = frozenset()
) -> list[NodeProto]:
    """Rewrite a call by the first form that applies, and the new nodes in the same way; returns the nodes."""
    for step in _find_forms(proto, limits, scope):
        copy = NodeProto()
        copy.CopyFrom(proto)
        node = Node(copy, scope, scope.opset, Builder(scope, scope.opset, proto))
        values = step(node) if step not in tried else None
        written = take_over(node, values) if values is not None else [*node.build.nodes, copy] * node.touched
        if written:
            version = schemas.since("", proto.op_type, scope.opset) or 1
            change = Change(
                node.name, proto.op_type, "", version, version, sentence_of(step), node.grade, "; ".join(node.remarks)
            )
            changes.append(change)
            return [each for part in written for each in _write(part, limits, scope, changes, tried | {step})]
    return [proto]


def _is_refused(limit: Limit, node: NodeProto, version: int, scope: Scope) -> bool:
    """Tell whether a limit of the backend refuses a call."""
    schema = schemas.schema("", node.op_type, version)
    if schema is None or not limit.holds("", node.op_type, version):
        return False
    if limit.ranks:
        return bool(find_shape_limit(limit, node, schema, scope))
    if limit.repeated:
        return bool(_find_repeated(node, scope))
    if limit.reached:
        return bool(_count_unreached(node, scope))
    if limit.own:
        chain = _find_chain(node, scope)
        shared = any(maker.output[0] in scope.context.shared for maker in chain)
        return shared and all(maker.op_type in limit.own for maker in chain)
    if limit.read:
        named = zip(schema.outputs, [*node.output, *[""] * len(schema.outputs)], strict=False)
        return any(output.name in limit.read and (not name or name in scope.context.unread) for output, name in named)
    given = {parameter.name for parameter, name in zip(schema.inputs, node.input, strict=False) if name}
    given |= {attribute.name for attribute in node.attribute}
    if limit.given:
        given |= {output.name for output, name in zip(schema.outputs, node.output, strict=False) if name}
        return not given.issuperset(limit.given)
    return bool(find_refused_value(limit, node, schema, scope)) or not given.isdisjoint(limit.unused)


def _form(subject: str, *ops: str) -> Callable[[Step], Step]:
    """Register a step that rewrites calls which a limit on `subject` refuses.

    The step changes nothing and returns None if it needs sizes that are unknown.
    """

    def register(step: Step) -> Step:
        _FORMS.update({(subject, op): step for op in ops})
        return step

    return register


def _find_sizes(node: Node) -> list[int] | None:
    """Find the sizes of the first input; None if one is unknown, or 0, which Reshape reads as "copy the size"."""
    dims = node.scope.shape(node.input(0))
    sizes = [size for size in dims or [] if isinstance(size, int)]
    return None if dims is None or len(sizes) < len(dims) or 0 in sizes else sizes


# --- convolutions, pools and pads --------------------------------------------------------------------------------


@_form("auto_pad", "AveragePool", "Conv", "LpPool", "MaxPool")
@says("Computed pads from sizes in place of auto_pad")
def _compute_pads(node: Node) -> None:
    """Write explicit pads: with SAME, each output has ceil(size / stride) elements."""
    given, dims = node.attributes, node.scope.shape(node.input(0))
    weights = node.scope.shape(node.input(1)) if node.op_type == "Conv" else None
    kernel, auto = given.get("kernel_shape") or (weights or [])[2:], given.get("auto_pad", "NOTSET")
    if dims is None or not kernel or len(dims) != len(kernel) + 2 or not all(isinstance(size, int) for size in kernel):
        return
    ones, begins, ends = [1] * len(kernel), list[int](), list[int]()
    strides, dilations = given.get("strides") or ones, given.get("dilations") or ones
    if auto == "VALID":
        if given.get("ceil_mode"):  # runtimes disagree
            return
        begins = ends = [0] * len(kernel)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        if any(step != 1 and size > 1 for step, size in zip(dilations, kernel, strict=True)):
            return  # runtimes disagree
        for size, window, stride in zip(dims[2:], kernel, strides, strict=True):
            if not isinstance(size, int) and stride != 1:
                return
            known = size if isinstance(size, int) else 1
            total = (-(-known // stride) - 1) * stride + window - known
            if total < -1 and weights is None:  # onnxruntime's pools leave out elements on both sides then
                return
            less, more = max(0, total) // 2, max(0, total) - max(0, total) // 2
            begins.append(less if auto == "SAME_UPPER" else more)
            ends.append(more if auto == "SAME_UPPER" else less)
    else:
        return
    for name in {"auto_pad", "ceil_mode"} & set(given):  # with SAME, rounding up changes nothing
        del given[name]
    given["pads"] = [*begins, *ends]


@_form("reached", "AveragePool", "Conv", "MaxPool")
@says("Cut off elements that no window reaches")
def _cut_unreached(node: Node) -> None:
    """Cut off padding at the end first, then data."""
    if node.opset < _SLICE_HAS_STEPS:
        return
    unreached, dims = _count_unreached(node.proto, node.scope), node.scope.shape(node.input(0)) or []
    pads, value = list(node.attributes.get("pads") or [0] * (2 * len(dims) - 4)), node.input(0)
    for axis, (count, size) in unreached.items():
        place = len(dims) - 2 + axis - 2
        padding = min(count, pads[place])
        pads[place] -= padding
        if count > padding:
            value = node.build.Slice(value, [0], [size - count + padding], [axis])
    node.set_input(0, value)
    node.attributes["pads"] = pads


def _count_unreached(node: NodeProto, scope: Scope) -> dict[int, tuple[int, int]]:
    """Count the elements at the end of each axis that no window reaches, padding included; returns the count and the
    size by axis.
    """
    given = {attribute.name: list(attribute.ints) for attribute in node.attribute if attribute.ints}
    dims, others = scope.shape(node.input[0]), {attribute.name for attribute in node.attribute if attribute.i}
    weights = scope.shape(node.input[1]) if node.op_type == "Conv" else None
    kernel: Sequence[Dim] = given.get("kernel_shape") or (weights or [])[2:]
    auto = any(attribute.name == "auto_pad" and attribute.s != b"NOTSET" for attribute in node.attribute)
    if dims is None or len(kernel) != len(dims) - 2 or auto or "ceil_mode" in others or any(node.output[1:]):
        return {}
    count, found = len(kernel), dict[int, tuple[int, int]]()
    pads, ones = given.get("pads") or [0] * (2 * count), [1] * count
    strides, dilations = given.get("strides") or ones, given.get("dilations") or ones
    for axis, (size, window) in enumerate(zip(dims[2:], kernel, strict=True)):
        if isinstance(size, int) and isinstance(window, int):
            left = size + pads[axis] + pads[axis + count] - dilations[axis] * (window - 1) - 1
            if 0 < left < strides[axis]:
                found[axis + 2] = left, size
    return found


@_form("mode", "Pad")
@says("Replaced Pad by Gather with known indices")
def _gather_padded(node: Node) -> str | None:
    """Replace Pad by a Gather along each axis: except with mode=constant, padding repeats elements of the data."""
    scope, mode, dims = node.scope, node.attributes.get("mode", "constant"), node.scope.shape(node.input(0))
    pads = node.attributes.get("pads") or scope.ints(node.input(1))
    axes = scope.ints(node.input(3)) if node.input(3) else list(range(len(dims or [])))
    if mode == "constant" or dims is None or pads is None or axes is None or len(pads) != 2 * len(axes):
        return None
    gathered = list[tuple[int, list[int]]]()
    for axis, begin, end in zip(axes, pads, pads[len(axes) :], strict=False):
        size = dims[axis]
        if not begin and not end:
            continue
        if not isinstance(size, int):
            return None
        kept, before, after = range(max(0, -begin), size + min(0, end)), max(0, begin), max(0, end)
        if not kept or (mode == "reflect" and max(before, after) >= len(kept)):
            return None
        places = range(-before, len(kept) + after)
        gathered.append((axis % len(dims), [kept[_find_source(at, len(kept), mode)] for at in places]))
    value = node.input(0)
    for axis, indices in gathered:
        value = node.build.Gather(value, indices, axis=axis)
    return value


def _find_source(at: int, size: int, mode: str) -> int:
    """Find which element of an axis Pad writes at the index `at`, which is negative before the first element."""
    if mode == "wrap":
        return at % size
    if mode == "edge":
        return min(max(at, 0), size - 1)
    return size - 1 - abs(size - 1 - at % (2 * size - 2)) if size > 1 else 0


@_form("no mode", "Pad")
@says("Wrote the default mode of Pad")
def _write_mode(node: Node) -> None:
    node.attributes["mode"] = "constant"


@_form("roi", "Resize")
@says("Left out the unused region of Resize")
def _leave_out_region(node: Node) -> None:
    """Leave out `roi`; below opset 13 it is required, and becomes an empty constant."""
    mode = node.attributes.get("coordinate_transformation_mode")
    if mode != "tf_crop_and_resize" and 0 not in (node.scope.shape(node.input(1)) or ()):
        node.set_input(1, "" if node.opset >= _AXES_ARE_INPUT else node.build.constant([], TensorProto.FLOAT))


# --- slices and shapes -------------------------------------------------------------------------------------------


@_form("steps", "Slice")
@says("Replaced steps of Slice by Reshape and Slice")
def _slice_rows(node: Node) -> str | None:
    """Reshape each axis to rows as long as its step, and take the first column of these."""
    sizes, (starts, ends, axes, steps) = _find_sizes(node), (node.scope.ints(name) for name in node.inputs[1:])
    if steps is not None and set(steps) == {1}:
        node.set_input(4, "")
        return None
    if sizes is None or starts is None or ends is None or steps is None or (axes is None and node.input(3)):
        return None
    sliced, build, value = list[tuple[int, int, int, int, int]](), node.build, node.input(0)
    for start, end, axis, step in zip(starts, ends, axes or range(len(starts)), steps, strict=True):
        size = sizes[axis]
        begin, stop, _ = slice(start, end, step).indices(size)
        count = len(range(begin, stop, step))
        first = max(0, min(begin, size - count * step))  # where whole rows begin
        if step < 1 or not count or first + count * step > size:
            return None
        sliced.append((axis % len(sizes), step, count, first, begin - first))
    for axis, step, count, first, offset in sliced:
        if (first, first + count * step) != (0, sizes[axis]):
            value = build.Slice(value, [first], [first + count * step], [axis])
        if step > 1:
            rest = prod(sizes[axis + 1 :])
            rows = [*sizes[:axis], count] if rest > 1 or axis < 2 else [*sizes[: axis - 1], sizes[axis - 1] * count]
            value = build.Reshape(value, [*rows, step * rest])
            value = build.Slice(value, [offset * rest], [(offset + 1) * rest], [len(rows)])
            value = build.Reshape(value, [*sizes[:axis], count, *sizes[axis + 1 :]])
        sizes[axis] = count
    return value


@_form("indices", "Gather")
@says("Replaced Gather by Slice and Concat")
def _slice_runs(node: Node) -> str | None:
    """Replace Gather by a Slice for each run of consecutive indices, joined by Concat."""
    build, dims, indices = node.build, node.scope.shape(node.input(0)), node.scope.array(node.input(1))
    axis = node.attributes.get("axis", 0)
    if dims is None or indices is None or not (size := dims[axis]) or node.opset < _SLICE_HAS_STEPS:
        return None
    axis %= len(dims)
    shape: list[Dim] = [*dims[:axis], *indices.shape, *dims[axis + 1 :]]
    sizes = [each for each in shape if isinstance(each, int) and each]
    if not isinstance(size, int) or (indices.ndim > 1 and len(sizes) < len(shape)):
        return None
    places = [index % size for index in indices.reshape(-1).tolist()]
    starts = [at for at, place in enumerate(places) if at == 0 or place != places[at - 1] + 1]
    if not 0 < len(starts) <= _MOST_PARTS:
        return None
    runs = zip(starts, [*starts[1:], len(places)], strict=True)
    parts = [build.Slice(node.input(0), [places[start]], [places[end - 1] + 1], [axis]) for start, end in runs]
    joined: str = build.Concat(*parts, axis=axis) if len(parts) > 1 else parts[0]
    return build.Reshape(joined, sizes) if indices.ndim > 1 else joined


@_form("ranks", "Gather")
@says("Gathered by a vector of indices, and reshaped the result")
def _gather_by_vector(node: Node) -> str | None:
    build, dims, index = node.build, node.scope.shape(node.input(0)), node.scope.shape(node.input(1))
    axis = node.attributes.get("axis", 0)
    if dims is None or index is None:
        return None
    shape = [*dims[: axis % len(dims)], *index, *dims[axis % len(dims) + 1 :]]
    sizes = [size for size in shape if isinstance(size, int) and size]
    if len(sizes) < len(shape):
        return None
    vector = build.Reshape(node.input(1), [prod(size for size in index if isinstance(size, int))])
    return str(build.Reshape(build.Gather(node.input(0), vector, axis=axis or None), sizes))


@_form("repeated", "Add", "Div", "Mul", "Sub")
@says("Left out the first axis of a constant, along which it repeats itself")
def _leave_out_batch(node: Node) -> None:
    for place, row in _find_repeated(node.proto, node.scope).items():
        node.set_input(place, node.build.constant(row, node.elem_type(place)))


def _find_repeated(node: NodeProto, scope: Scope) -> dict[int, np.ndarray[Any, Any]]:
    """Find constants that repeat one row along the batch axis; returns the row, by the place of the input."""
    found = dict[int, np.ndarray[Any, Any]]()
    dynamic = [scope.shape(name) or [] for name in node.input if not scope.is_constant(name)]
    for place, name in enumerate(node.input):
        dims = scope.shape(name) or []
        if any(len(other) == len(dims) > 1 and other[0] == dims[0] != 1 for other in dynamic):
            array = scope.array(name)
            if array is not None and len(array) and np.array_equal(array, np.broadcast_to(array[:1], array.shape)):
                found[place] = array[0]
    return found


@_form("axis", "Gather")
@says("Left out the default axis of Gather")
def _leave_out_axis(node: Node) -> None:
    """Leave out axis=0 if the data are constant: such a Gather is read as an embedding."""
    if not node.attributes["axis"] and node.scope.is_constant(node.input(0)):
        del node.attributes["axis"]


@_form("ranks", "Expand")
@says("Replaced Expand by Concat of copies")
def _concat_copies(node: Node) -> str | None:
    """Replace Expand by a Concat of copies along each axis that grows, reshaped to three axes."""
    sizes, wanted, build, value = _find_sizes(node), node.scope.ints(node.input(1)), node.build, node.input(0)
    if sizes is None or not wanted or 0 in wanted:
        return None
    rank = max(len(sizes), len(wanted))
    sizes, wanted = [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(wanted)) + wanted
    copied = [(axis, count) for axis, count in enumerate(wanted) if sizes[axis] == 1 and count > 1]
    if any(count > _MOST_PARTS for _, count in copied):
        return None
    for axis, count in copied:
        value = build.Reshape(value, [prod(sizes[:axis]), 1, prod(sizes[axis + 1 :])])
        value = build.Concat(*[value] * count, axis=1)
        sizes[axis] = count
    return str(build.Reshape(value, sizes))


@_form("ranks", "Transpose")
@says("Transposed fewer axes")
def _transpose_fewer_axes(node: Node) -> str | None:
    """Leave out axes of size 1, merge axes that stay neighbours, transpose, and reshape.

    A Transpose before Gather, Slice or Split stays: pnnx finds queries, keys and values by it, not by a Reshape.
    """
    sizes, build = _find_sizes(node), node.build
    readers = {reader.op_type for reader in node.scope.body.node if node.outputs[0] in reader.input}
    if sizes is None or not readers.isdisjoint(("Gather", "Slice", "Split")):
        return None
    order, groups = node.attributes.get("perm") or list(range(len(sizes)))[::-1], list[list[int]]()
    for axis in order:
        if sizes[axis] != 1:
            last = groups[-1][-1] if groups else len(sizes)
            if last < axis and prod(sizes[last + 1 : axis]) == 1:
                groups[-1].append(axis)
            else:
                groups.append([axis])
    placed = sorted(groups)
    fewer = build.Reshape(node.input(0), [prod(sizes[axis] for axis in group) for group in placed])
    transposed = build.Transpose(fewer, perm=[placed.index(group) for group in groups])
    return str(build.Reshape(transposed, [sizes[axis] for axis in order]))


@_form("ranks", "If")
@says("Reshaped the condition to one axis")
def _reshape_condition(node: Node) -> None:
    node.set_input(0, node.build.Reshape(node.input(0), [1]))


@_form("no split", "Split")
@says("Gave Split the sizes of its parts")
def _write_parts(node: Node) -> None:
    dims, axis, parts = node.scope.shape(node.input(0)), node.attributes.get("axis", 0), len(node.proto.output)
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if isinstance(size, int) and size % parts == 0:
        sizes = [size // parts] * parts
        if node.opset >= _AXES_ARE_INPUT:
            node.set_input(1, node.build.constant(tensors.int64s(sizes)))
        else:
            node.attributes["split"] = sizes


# --- numbers -----------------------------------------------------------------------------------------------------


@_form("axes", "ReduceMax", "ReduceMean", "ReduceMin")
@says("Reduced one axis at a time")
def _reduce_in_turn(node: Node) -> str | None:
    """Reduce the last axis first, so that axes before it keep their numbers. A mean of integers stays: it rounds."""
    rank, build, value = node.scope.rank(node.input(0)), node.build, node.input(0)
    axes = node.scope.ints(node.input(1)) if node.input(1) else node.attributes.get("axes")
    if rank is None or not axes or (node.op_type == "ReduceMean" and node.scope.elem_type(value) not in _LARGEST):
        return None
    if node.op_type == "ReduceMean":
        node.close("divides before it sums over the next axis")
    for axis in sorted({axis % rank for axis in axes}, reverse=True):
        if node.input(1):
            value = build.again(node.proto, [value, build.constant(tensors.int64s([axis]))])
        else:
            value = build.again(node.proto, [value], axes=[axis])
    return value


@_form("keepdims", "ArgMax", "ReduceMax", "ReduceMin", "ReduceSum")
@says("Kept the reduced axes, and squeezed them")
def _squeeze_reduced(node: Node) -> str | None:
    build, given, dynamic = node.build, node.attributes, node.input(1)
    axes = [given.get("axis", 0)] if node.op_type == "ArgMax" else given.get("axes") or node.scope.ints(dynamic)
    if given.get("noop_with_empty_axes") and not axes:
        return None
    kept, is_input = build.again(node.proto, node.inputs, keepdims=1), node.opset >= _AXES_ARE_INPUT
    if not axes and (axes is not None or not dynamic):  # all are 1 then
        return str(build.Squeeze(kept))
    return str(build.Squeeze(kept, dynamic or axes) if is_input else build.Squeeze(kept, axes=sorted(axes or [])))


@_form("no max", "Clip")
@says("Gave Clip the largest number as the bound that it lacks")
def _write_bounds(node: Node) -> None:
    """Write the largest float as a missing bound, as ONNX defines it; integers stay."""
    kind = node.scope.elem_type(node.input(0))
    for place, sign in ((1, -1), (2, 1)) if kind in _LARGEST and node.opset >= _CLIP_HAS_INPUTS else ():
        if not node.input(place):
            node.set_input(place, node.build.constant(sign * _LARGEST[kind], kind))


@_form("Y", "Pow")
@says("Replaced Pow by products")
def _multiply(node: Node) -> str | None:
    """Replace powers of 3 and 4 by products; other exponents stay."""
    build, x, exponent = node.build, node.input(0), node.scope.array(node.input(1))
    if exponent is None or exponent.size != 1 or exponent.ndim > (node.scope.rank(x) or 0):
        return None
    count = float(exponent.reshape(-1)[0])
    if count not in (3, 4) or node.scope.elem_type(x) != TensorProto.FLOAT:
        return None
    node.close("rounds each product")
    square = build.Mul(x, x)
    return str(build.Mul(square, square if count == 4 else x))


@_form("own", "Mul")
@says("Gave a Mul an input of its own")
def _compute_again(node: Node) -> None:
    renamed = dict[str, str]()
    for maker in _find_chain(node.proto, node.scope):
        renamed[maker.output[0]] = node.build.again(maker, [renamed.get(name, name) for name in maker.input])
    node.inputs = [renamed.get(name, name) for name in node.inputs]


def _find_chain(node: NodeProto, scope: Scope) -> list[NodeProto]:
    """List the nodes that compute one input of a call from the other, as Sigmoid does in `Mul(x, Sigmoid(x))`."""
    for value in node.input:
        others, chain = set(node.input) - {value}, list[NodeProto]()
        maker = scope.producer(value)
        while maker is not None and len(chain) < _CHAIN:
            chain.append(maker)
            read = [name for name in maker.input if name and not scope.is_constant(name)]
            if others.issuperset(read) and read:
                return chain[::-1]
            maker = scope.producer(read[0]) if len(read) == 1 else None
    return []


# --- nodes of several steps --------------------------------------------------------------------------------------


@_form("no initial_h", "LSTM")
@says("Gave an LSTM zeros as its initial states")
def _write_zero_states(node: Node) -> None:
    dims, weights = node.scope.shape(node.input(0)) or [], node.scope.shape(node.input(2)) or []
    kind = node.scope.elem_type(node.input(0))
    sizes = [size for size in (*weights[:1], *dims[1:2], *weights[2:]) if isinstance(size, int)]
    if node.attributes.get("layout") or len(sizes) != len(dims) or not kind or node.opset < _CONSTANT_OF_SHAPE:
        return
    zeros = node.build.ConstantOfShape(sizes, value=tensors.tensor([0], kind))  # onnx2tf turns axes of constants
    for place in _STATES:
        node.set_input(place, node.input(place) or zeros)


@_form("no Y_c", "LSTM")
@says("Named the last states, which nothing reads")
def _name_states(node: Node) -> None:
    first, *last = [*node.outputs, "", ""][:3]
    fresh = node.scope.context.names.fresh
    node.outputs = [first, *(name or fresh(f"{node.name}/{kind}") for name, kind in zip(last, ("h", "c"), strict=True))]


@_form("sequence_lens", "GRU", "LSTM", "RNN")
@says("Left out sequence lengths that are all of the input's length")
def _leave_out_lengths(node: Node) -> None:
    dims, lengths = node.scope.shape(node.input(0)) or [], node.scope.ints(node.input(_LENGTHS))
    steps = dims[1 if node.attributes.get("layout") else 0] if len(dims) > 1 else None
    if lengths is not None and set(lengths) == {steps}:
        node.set_input(_LENGTHS, "")


@_form("direction", "GRU", "LSTM", "RNN")
@says("Computed each direction forward, the reverse one on a reversed input")
def _compute_forward(node: Node) -> list[str] | None:
    """Write one forward node for each direction; the input and the result of a reverse one are reversed."""
    build, given, dims = node.build, node.attributes, node.scope.shape(node.input(0))
    directions = {"reverse": ["reverse"], "bidirectional": ["forward", "reverse"]}.get(given.get("direction", ""), [])
    if given.get("layout") or node.input(_LENGTHS) or "activation_alpha" in given or "activation_beta" in given:
        return None
    if dims is None or not isinstance(dims[0], int):
        return None
    results, both, steps = list[list[str]](), len(directions) > 1, list(range(dims[0]))[::-1]
    activations = given.get("activations", [])
    count = len(activations) // len(directions)
    for place, direction in enumerate(directions):
        is_reverse, own = direction == "reverse", activations[place * count : (place + 1) * count]
        data = build.Gather(node.input(0), steps) if is_reverse else node.input(0)
        parts = [build.Gather(value, [place]) if value and both else value for value in node.inputs[1:]]
        made = build.again(node.proto, [data, *parts], direction=None, activations=own or None)
        states, *last = [made] if isinstance(made, str) else made
        results.append([build.Gather(states, steps) if states and is_reverse else states, *last])
    joined = zip(*results, strict=True)
    return [build.Concat(*parts, axis=0 if place else 1) if all(parts) else "" for place, parts in enumerate(joined)]


@_form("read", "GRU", "LSTM", "RNN")
@says("Computed the states of all steps, and took the last one")
def _take_last_state(node: Node) -> Replacement:
    """Take the last hidden state of a recurrent node, Y_h, from the states of all steps, Y.

    If the cell state of an LSTM is read, too, only a name for Y is added: Y_h has to stay an output of the node.
    """
    build, given, dims = node.build, node.attributes, node.scope.shape(node.input(0))
    first, *others = node.outputs
    if not node.is_used(1) or given.get("layout") or node.input(_LENGTHS):
        return None
    if node.is_used(2):
        node.outputs = [first or node.scope.context.names.fresh(f"{node.outputs[1]}/states"), *others]
        return None
    if dims is None or not isinstance(dims[0], int) or dims[0] < 1:
        return None
    alone = NodeProto()
    alone.CopyFrom(node.proto)
    alone.output[:] = [first or others[0]]
    states, end = build.again(alone, node.inputs), dims[0] - 1
    steps = {"reverse": [0], "bidirectional": [end, 0]}.get(given.get("direction", ""), [end])
    parts = [build.Gather(states, step) for step in steps]
    if len(parts) > 1:
        parts = [build.Gather(part, [place]) for place, part in enumerate(parts)]
    return [states, build.Concat(*parts, axis=0) if len(parts) > 1 else parts[0], ""][: len(node.outputs)]


@says("Let a Scan run forward along first axes")
def _scan_forward(node: Node) -> list[str] | None:
    """Transpose and reverse inputs before the Scan and results after it, so that it runs forward along first axes."""
    build, given, scope = node.build, node.attributes, node.scope
    states = len(node.inputs) - given["num_scan_inputs"]

    def read(kind: str, names: list[str]) -> list[tuple[int, int, bool]]:
        axes, backward = given.get(f"scan_{kind}_axes"), given.get(f"scan_{kind}_directions")
        axes, backward = axes or [0] * len(names), backward or [0] * len(names)
        ranks = [scope.rank(name) or 0 if axis else 1 for name, axis in zip(names, axes, strict=True)]
        found = zip(axes, ranks, backward, strict=True)
        return [(axis % rank if rank else -1, rank, back) for axis, rank, back in found]

    inputs, read_in = node.inputs, read("input", node.inputs[states:])
    written = read("output", node.outputs[states:])
    if node.opset < _SLICE_HAS_STEPS or any(axis < 0 for axis, _, _ in read_in + written):
        return None
    for place, (axis, rank, back) in enumerate(read_in, states):
        if axis:
            inputs[place] = build.Transpose(inputs[place], perm=[axis, *(i for i in range(rank) if i != axis)])
        if back:
            inputs[place] = build.Slice(inputs[place], *_REVERSE)
    kinds = [f"scan_{kind}_{what}" for kind in ("input", "output") for what in ("axes", "directions")]
    made = build.again(node.proto, inputs, **dict.fromkeys(kinds))
    results = [made] if isinstance(made, str) else made
    for place, (axis, rank, back) in enumerate(written, states):
        if results[place] and back:
            results[place] = build.Slice(results[place], *_REVERSE)
        if results[place] and axis:
            order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
            results[place] = build.Transpose(results[place], perm=order)
    return results


for _kind in ("input", "output"):
    for _what in ("axes", "directions"):
        _form(f"scan_{_kind}_{_what}", "Scan")(_scan_forward)
