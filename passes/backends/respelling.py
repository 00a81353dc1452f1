"""Write a call in another form where a backend refuses a value of an attribute or an input, a rank, or outputs that
nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from sys import float_info

from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.backends.obstacles import find_refused_value
from opshift.passes.changes import Change, Result
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model

Fresh = Callable[[str], str]
Respell = Callable[[NodeProto, Scope, Fresh], list[NodeProto]]
"""What a call becomes; none where sizes do not tell."""


def find_respelled(backend: Backend) -> list[Limit]:
    """Find limits of which a call can be written in another form."""
    return [each for each in backend.limits if any(_find_form(each, op) for _, op in each.ops)]


def _find_form(limit: Limit, op: str) -> tuple[str, frozenset[str], Respell] | None:
    forms = [_FORMS[limit.attribute]] if limit.attribute in _FORMS else []
    forms = _OF_RANKS if limit.ranks else _OF_OUTPUTS if limit.read else _OF_SHARED if limit.own else forms
    forms = [_OF_INPUTS[name] for name in (*limit.unused, *limit.given) if name in _OF_INPUTS] or forms
    return next((form for form in forms if op in form[1]), None)


def respell(source: ModelProto, backend: Backend, folder: str | None = None) -> Result:
    """Write calls of the main graph anew that a limit of the backend refuses, if sizes allow it.

    Other calls stay, and are for the conversion to replace or to refuse.
    """
    limits = find_respelled(backend)
    called = {(node.domain, node.op_type) for node in source.graph.node}
    if not any(limit.ops & called for limit in limits):
        return Result(source, (), ())
    scope, fresh = open_main_graph(source, folder), Names(source).fresh
    nodes, changes = list[NodeProto](), list[Change]()
    for node in source.graph.node:
        version = schemas.since("", node.op_type, scope.opset) or 1
        parts, how = list[NodeProto](), ""
        for limit in limits:
            form = None if node.domain or parts else _find_form(limit, node.op_type)
            if form is not None and _is_refused(limit, node, version, scope):
                how, _, write = form
                parts = write(node, scope, fresh)
        nodes += parts or [node]
        if parts:
            changes.append(Change(node.name or node.output[0], node.op_type, "", version, version, how))
    if not changes:
        return Result(source, (), ())
    model = copy_model(source)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return Result(model, tuple(changes), ())


def _is_refused(limit: Limit, node: NodeProto, version: int, scope: Scope) -> bool:
    """Whether a limit of the backend refuses a call, so that it has to be written in another form.

    Asked for each limit of a node's operator.
    """
    schema = schemas.schema("", node.op_type, version)
    if schema is None or not limit.holds("", node.op_type, version):
        return False
    if limit.ranks:
        dims = scope.shape(node.input[0])
        return dims is not None and len(dims) not in limit.ranks
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
        return not given.issuperset(limit.given)
    return bool(find_refused_value(limit, node, schema, scope)) or not given.isdisjoint(limit.unused)


def _spell_pads(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Pads in place of `auto_pad`: SAME pads so that each output has ceil(size / stride) elements."""
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    auto, dims = given.get("auto_pad", "NOTSET"), scope.shape(node.input[0])
    weights = scope.shape(node.input[1]) if "Conv" in node.op_type else None
    kernel = given.get("kernel_shape") or (weights or [])[2:]
    if dims is None or not kernel or len(dims) != len(kernel) + 2 or not all(isinstance(size, int) for size in kernel):
        return []
    count = len(kernel)
    strides, dilations = given.get("strides") or [1] * count, given.get("dilations") or [1] * count
    if auto == "VALID":
        pads = [0] * 2 * count
        if given.get("ceil_mode"):  # runtimes disagree
            return []
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        if any(step != 1 and size > 1 for step, size in zip(dilations, kernel, strict=True)):
            return []  # runtimes disagree
        begins, ends = list[int](), list[int]()
        for size, window, stride in zip(dims[2:], kernel, strides, strict=True):
            if not isinstance(size, int) and stride != 1:
                return []
            known = size if isinstance(size, int) else 1
            total = max(0, (-(-known // stride) - 1) * stride + window - known)
            less, more = total // 2, total - total // 2
            begins.append(less if auto == "SAME_UPPER" else more)
            ends.append(more if auto == "SAME_UPPER" else less)
        pads = begins + ends
    else:
        return []
    spelled = NodeProto()
    spelled.CopyFrom(node)
    del spelled.attribute[:]
    left_out = ("auto_pad", "pads", "ceil_mode")  # with SAME, rounding up changes nothing
    spelled.attribute.extend(attribute for attribute in node.attribute if attribute.name not in left_out)
    spelled.attribute.append(make_attribute("pads", pads))
    return [spelled]


def _spell_gathers(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """A Gather along each axis that is padded with elements of the data."""
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    inputs = [*node.input, *[""] * 4]
    mode, dims = given.get("mode", "constant"), scope.shape(inputs[0])
    pads = given.get("pads") or (scope.ints(inputs[1]) if inputs[1] else None)
    axes = scope.ints(inputs[3]) if inputs[3] else list(range(len(dims or [])))
    if mode not in ("reflect", "edge", "wrap") or dims is None or pads is None or axes is None:
        return []
    if len(pads) != 2 * len(axes):
        return []
    made, value = list[NodeProto](), inputs[0]
    for place, axis in enumerate(axes):
        begin, end, size = pads[place], pads[place + len(axes)], dims[axis]
        if begin or end:
            if not isinstance(size, int) or size < 1 or (mode == "reflect" and max(begin, end) >= size):
                return []
            index, padded = fresh(f"{node.output[0]}/index"), fresh(f"{node.output[0]}/axis_{axis % len(dims)}")
            tensor = tensors.int64s([_find_source(at, size, mode) for at in range(-begin, size + end)])
            made.append(NodeProto(op_type="Constant", output=[index], attribute=[make_attribute("value", tensor)]))
            made.append(NodeProto(op_type="Gather", input=[value, index], output=[padded]))
            made[-1].attribute.append(make_attribute("axis", axis % len(dims)))
            value = padded
    if made:
        made[-1].output[0], made[-1].name = node.output[0], node.name
    return made


def _spell_steps(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Slice by steps: along each axis, rows of one step in length, and of these the first column."""
    dims, (starts, ends, axes, steps) = scope.shape(node.input[0]), (scope.ints(name) for name in node.input[1:])
    if steps is not None and set(steps) == {1}:
        plain = NodeProto()
        plain.CopyFrom(node)
        del plain.input[-1]
        return [plain]
    if dims is None or starts is None or ends is None or steps is None or (axes is None and node.input[3]):
        return []
    if not all(isinstance(size, int) for size in dims):
        return []
    made, value, sizes = list[NodeProto](), node.input[0], [size for size in dims if isinstance(size, int)]

    def add(op: str, *numbers: list[int]) -> None:
        nonlocal value
        names = [fresh(f"{node.output[0]}/{op}") for _ in numbers]
        for name, held in zip(names, numbers, strict=True):
            made.append(NodeProto(op_type="Constant", output=[name]))
            made[-1].attribute.append(make_attribute("value", tensors.int64s(held)))
        made.append(NodeProto(op_type=op, input=[value, *names], output=[fresh(f"{node.output[0]}/rows")]))
        value = made[-1].output[0]

    for start, end, axis, step in zip(starts, ends, axes or range(len(starts)), steps, strict=True):
        axis %= len(sizes)
        begin, stop, _ = slice(start, end, step).indices(sizes[axis])
        count = len(range(begin, stop, step))
        first = max(0, min(begin, sizes[axis] - count * step))  # where whole rows begin
        if step < 1 or not count or first + count * step > sizes[axis]:
            return []
        if (first, first + count * step) != (0, sizes[axis]):
            add("Slice", [first], [first + count * step], [axis])
        if step > 1:
            rest = prod(sizes[axis + 1 :])
            rows = [*sizes[:axis], count] if rest > 1 or axis < 2 else [*sizes[: axis - 1], sizes[axis - 1] * count]
            add("Reshape", [*rows, step * rest])
            add("Slice", [(begin - first) * rest], [(begin - first + 1) * rest], [len(rows)])
            add("Reshape", [*sizes[:axis], count, *sizes[axis + 1 :]])
        sizes[axis] = count
    made[-1].output[0], made[-1].name = node.output[0], node.name
    return made


def _leave_out_region(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Resize without the region that it does not crop; below 13, an input that is left out is an empty constant."""
    mode = next((a.s for a in node.attribute if a.name == "coordinate_transformation_mode"), b"")
    if mode == b"tf_crop_and_resize" or (0 in (scope.shape(node.input[1]) or ())):
        return []
    spelled = NodeProto()
    spelled.CopyFrom(node)
    spelled.input[1] = "" if scope.opset >= _AXES_ARE_INPUT else fresh(f"{node.output[0]}/roi")
    empty = NodeProto(op_type="Constant", output=[spelled.input[1]])
    empty.attribute.append(make_attribute("value", tensors.tensor([], TensorProto.FLOAT)))
    return [*([empty] if spelled.input[1] else []), spelled]


def _spell_condition(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """A condition of one element as a vector."""
    if scope.opset < _SHAPE_IS_INPUT:
        return []
    shape, condition = fresh(f"{node.output[0]}/shape"), fresh(f"{node.input[0]}/vector")
    spelled = NodeProto()
    spelled.CopyFrom(node)
    spelled.input[0] = condition
    one = make_attribute("value", tensors.int64s([1]))
    return [
        NodeProto(op_type="Constant", output=[shape], attribute=[one]),
        NodeProto(op_type="Reshape", input=[node.input[0], shape], output=[condition]),
        spelled,
    ]


def _spell_reshape(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Replace Flatten by Reshape to a matrix, for a backend that takes no such Flatten; empty if a size is unknown."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    dims = scope.shape(node.input[0]) or []
    sizes = [size for size in dims if isinstance(size, int)]
    if scope.opset < _SHAPE_IS_INPUT or len(sizes) != len(dims) or not -len(sizes) <= axis <= len(sizes) or 0 in sizes:
        return []
    axis += len(sizes) if axis < 0 else 0
    shape = fresh(f"{node.output[0]}/shape")
    matrix = make_attribute("value", tensors.int64s([prod(sizes[:axis]), prod(sizes[axis:])]))
    return [
        NodeProto(op_type="Constant", output=[shape], attribute=[matrix]),
        NodeProto(op_type="Reshape", name=node.name, input=[node.input[0], shape], output=node.output),
    ]


def _spell_reductions(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Write one reduction for each axis, the last axis first: axes before it keep their places.

    Runs for ReduceMax, ReduceMean and ReduceMin where the target file says that the backend reduces one axis at a time.
    """
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    rank, is_input = scope.rank(node.input[0]), len(node.input) > 1
    axes = scope.ints(node.input[1]) if is_input else given.get("axes")
    if rank is None or not axes:
        return []
    made, value = list[NodeProto](), node.input[0]
    for axis in sorted({axis % rank for axis in axes}, reverse=True):
        reduced = fresh(f"{node.output[0]}/axis_{axis}")
        reduction = NodeProto(op_type=node.op_type, input=[value], output=[reduced])
        reduction.attribute.extend(attribute for attribute in node.attribute if attribute.name != "axes")
        if is_input:
            reduction.input.append(fresh(f"{reduced}/axes"))
            made.append(NodeProto(op_type="Constant", output=reduction.input[1:]))
            made[-1].attribute.append(make_attribute("value", tensors.int64s([axis])))
        else:
            reduction.attribute.append(make_attribute("axes", [axis]))
        made.append(reduction)
        value = reduced
    made[-1].output[0], made[-1].name = node.output[0], node.name
    return made


def _spell_squeeze(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Keep the reduced axes, and squeeze them afterwards."""
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    axes = [given.get("axis", 0)] if node.op_type == "ArgMax" else given.get("axes")
    dynamic = node.input[1] if len(node.input) > 1 else ""
    if given.get("noop_with_empty_axes") and not axes:
        return []
    kept, result = fresh(f"{node.output[0]}/kept"), node.output[0]
    reduced = NodeProto(op_type=node.op_type, name=node.name, input=node.input, output=[kept])
    reduced.attribute.extend(attribute for attribute in node.attribute if attribute.name != "keepdims")
    reduced.attribute.append(make_attribute("keepdims", 1))
    squeezed = NodeProto(op_type="Squeeze", input=[kept], output=[result])
    if node.name:
        squeezed.name = fresh(f"{node.name}/Squeeze")
    if not axes and not dynamic:  # all are 1 then
        return [reduced, squeezed]
    if scope.opset < _AXES_ARE_INPUT:
        squeezed.attribute.append(make_attribute("axes", axes))
        return [reduced, squeezed]
    named = dynamic or fresh(f"{result}/axes")
    squeezed.input.append(named)
    constant = NodeProto(op_type="Constant", output=[named])
    constant.attribute.append(make_attribute("value", tensors.int64s(axes or [])))
    return [reduced, squeezed] if dynamic else [constant, reduced, squeezed]


def _spell_mode(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Pad with the mode that it has by default."""
    spelled = NodeProto()
    spelled.CopyFrom(node)
    spelled.attribute.append(make_attribute("mode", "constant"))
    return [spelled]


def _spell_bounds(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """The largest number as the bound that a Clip of floats lacks, which ONNX defines for it."""
    kind = scope.elem_type(node.input[0])
    largest: dict[int, float] = {
        TensorProto.FLOAT: 2.0**128 - 2.0**104,
        TensorProto.FLOAT16: 65504.0,
        TensorProto.DOUBLE: float_info.max,
    }
    if kind not in largest:
        return []
    spelled, nodes = NodeProto(), list[NodeProto]()
    spelled.CopyFrom(node)
    spelled.input.extend([""] * (3 - len(node.input)))
    for place, bound in ((1, -largest[kind]), (2, largest[kind])):
        if not spelled.input[place]:
            spelled.input[place] = fresh(f"{node.output[0]}/bound")
            value = make_attribute("value", tensors.tensor(bound, kind))
            nodes.append(NodeProto(op_type="Constant", output=[spelled.input[place]], attribute=[value]))
    return [*nodes, spelled]


def _spell_zero_states(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Zeros as the initial states of an LSTM that has none."""
    dims, weights = scope.shape(node.input[0]) or [], scope.shape(node.input[2]) or []
    if any(attribute.name == "layout" and attribute.i for attribute in node.attribute):
        return []
    sizes = [*weights[:1], *dims[1:2], *weights[2:]]
    kind = scope.elem_type(node.input[0])
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(dims) or not kind or scope.opset < _CONSTANTS_OF_INT64:
        return []
    spelled = NodeProto()
    spelled.CopyFrom(node)
    spelled.input.extend([""] * (_FIRST_STATE + 2 - len(node.input)))
    shape, zeros = fresh(f"{node.output[0]}/sizes"), fresh(f"{node.output[0]}/zeros")  # onnx2tf turns axes of constants
    sizes_of, value = make_attribute("value", tensors.int64s(known)), make_attribute("value", tensors.tensor([0], kind))
    for place in (_FIRST_STATE, _FIRST_STATE + 1):
        spelled.input[place] = spelled.input[place] or zeros
    return [
        NodeProto(op_type="Constant", output=[shape], attribute=[sizes_of]),
        NodeProto(op_type="ConstantOfShape", input=[shape], output=[zeros], attribute=[value]),
        spelled,
    ]


def _spell_directions(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """One node for each direction, which reads its input forward: that of a reverse one is turned before and after."""
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    directions = {"reverse": ["reverse"], "bidirectional": ["forward", "reverse"]}.get(given.get("direction", ""), [])
    dims, inputs = scope.shape(node.input[0]), [*node.input, *[""] * 8][:8]
    if given.get("layout") or inputs[_LENGTHS] or "activation_alpha" in given or "activation_beta" in given:
        return []
    if dims is None or not isinstance(dims[0], int) or scope.opset < _CONSTANTS_OF_INT64:
        return []
    nodes, results = list[NodeProto](), list[list[str]]()
    steps = list(range(dims[0]))[::-1]

    def gather(value: str, places: list[int]) -> str:
        index, result = fresh(f"{node.output[0]}/index"), fresh(f"{node.output[0]}/part")
        constant = make_attribute("value", tensors.int64s(places))
        nodes.append(NodeProto(op_type="Constant", output=[index], attribute=[constant]))
        nodes.append(NodeProto(op_type="Gather", input=[value, index], output=[result]))
        return result

    for place, direction in enumerate(directions):
        both = len(directions) > 1
        data = gather(inputs[0], steps) if direction == "reverse" else inputs[0]
        parts = [gather(value, [place]) if value and both else value for value in inputs[1:]]
        turned = NodeProto(op_type=node.op_type, input=[data, *parts][: len(node.input)])
        turned.output.extend(fresh(f"{name}/{direction}") if name else "" for name in node.output)
        for attribute in node.attribute:
            if attribute.name == "activations":
                count = len(attribute.strings) // len(directions)
                turned.attribute.append(
                    make_attribute("activations", attribute.strings[place * count : (place + 1) * count])
                )
            elif attribute.name != "direction":
                turned.attribute.append(attribute)
        nodes.append(turned)
        states = turned.output[0]
        results.append([gather(states, steps) if states and direction == "reverse" else states, *turned.output[1:]])
    for place, name in enumerate(node.output):
        if name:
            joined = NodeProto(op_type="Concat", input=[result[place] for result in results], output=[name])
            joined.attribute.append(make_attribute("axis", 1 if place == 0 else 0))
            nodes.append(joined)
    return nodes


def _spell_last_state(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Take the last hidden state of a recurrent node, Y_h, from the states of all steps, Y.

    If the cell state of an LSTM is read, Y gets a name alone: Y_h has to stay where it is.
    """
    states, last, cell = (*node.output, "", "")[:3]
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    unread, dims = ("", *scope.context.unread), scope.shape(node.input[0])
    if last in unread or given.get("layout") or (len(node.input) > _LENGTHS and node.input[_LENGTHS]):
        return []
    spelled = NodeProto()
    spelled.CopyFrom(node)
    spelled.output[0] = states or fresh(f"{last}/states")
    if cell not in unread:
        return [] if states else [spelled]
    if dims is None or not isinstance(dims[0], int) or dims[0] < 1 or scope.opset < _CONSTANTS_OF_INT64:
        return []
    del spelled.output[1:]
    directions = {"reverse": [0], "bidirectional": [dims[0] - 1, 0]}.get(given.get("direction", ""), [dims[0] - 1])
    nodes, parts = [spelled], list[str]()

    def gather(value: str, place: int, sizes: list[int]) -> str:
        index, result = fresh(f"{last}/index"), fresh(f"{last}/step")
        constant = make_attribute("value", tensors.int64s([place], sizes))
        nodes.append(NodeProto(op_type="Constant", output=[index], attribute=[constant]))
        nodes.append(NodeProto(op_type="Gather", input=[value, index], output=[result]))
        return result

    for direction, step in enumerate(directions):
        state = gather(spelled.output[0], step, [])
        parts.append(gather(state, direction, [1]) if len(directions) > 1 else state)
    if len(parts) > 1:
        nodes.append(NodeProto(op_type="Concat", input=parts, attribute=[make_attribute("axis", 0)]))
        nodes[-1].output.append(last)
    else:
        nodes[-1].output[0] = last
    return nodes


def _find_chain(node: NodeProto, scope: Scope) -> list[NodeProto]:
    """The nodes that make an input of a call from another one, as Sigmoid does in `Mul(x, Sigmoid(x))`."""
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


def _copy_chain(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Compute an input again, for this call alone."""
    nodes, renamed = list[NodeProto](), dict[str, str]()
    for each in (*_find_chain(node, scope), node):
        copy = NodeProto()
        copy.CopyFrom(each)
        del copy.input[:]
        copy.input.extend(renamed.get(name, name) for name in each.input)
        if each is not node:
            copy.output[0] = renamed[each.output[0]] = fresh(f"{each.output[0]}/own")
            copy.name = fresh(f"{each.name}/own") if each.name else ""
        nodes.append(copy)
    return nodes


def _spell_forward(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """A Scan forward along first axes: its inputs are transposed and turned before it, and its results after it."""
    given = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    states = len(node.input) - given["num_scan_inputs"]
    nodes = list[NodeProto]()

    def add(op: str, value: str, *constants: int, order: list[int] | None = None) -> str:
        names = [fresh(f"{value}/{op}") for _ in constants]
        for name, number in zip(names, constants, strict=True):
            nodes.append(NodeProto(op_type="Constant", output=[name]))
            nodes[-1].attribute.append(make_attribute("value", tensors.int64s([number])))
        nodes.append(NodeProto(op_type=op, input=[value, *names], output=[fresh(f"{value}/forward")]))
        nodes[-1].attribute.extend([make_attribute("perm", order)] if order else [])
        return nodes[-1].output[0]

    def read(kind: str, names: list[str]) -> list[tuple[int, int, bool]]:
        axes, turned = given.get(f"scan_{kind}_axes"), given.get(f"scan_{kind}_directions")
        axes, turned = axes or [0] * len(names), turned or [0] * len(names)
        ranks = [scope.rank(name) or 0 if axis else 1 for name, axis in zip(names, axes, strict=True)]
        return [(axis % rank if rank else -1, rank, back) for axis, rank, back in zip(axes, ranks, turned, strict=True)]

    inputs, outputs = list(node.input), list(node.output)
    read_in, written = read("input", inputs[states:]), read("output", outputs[states:])
    if scope.opset < _STEPS_ARE_INPUT or any(axis < 0 for axis, _, _ in read_in + written):
        return []
    for place, (axis, rank, back) in enumerate(read_in, states):
        if axis:
            inputs[place] = add("Transpose", inputs[place], order=[axis, *(i for i in range(rank) if i != axis)])
        if back:
            inputs[place] = add("Slice", inputs[place], *_TURN)
    spelled = NodeProto(op_type="Scan", name=node.name, input=inputs)
    spelled.attribute.extend(a for a in node.attribute if a.name in ("body", "num_scan_inputs"))
    nodes.append(spelled)
    for place, (axis, rank, back) in enumerate(written, states):
        value = outputs[place]
        if value and (axis or back):
            value = outputs[place] = fresh(f"{value}/first")
            if back:
                value = add("Slice", value, *_TURN)
            if axis:
                value = add("Transpose", value, order=[*range(1, axis + 1), 0, *range(axis + 1, rank)])
            nodes[-1].output[0] = node.output[place]
    spelled.output.extend(outputs)
    return nodes


def _spell_slices(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Gather of constant indices as a Slice for each run of indices that follow each other, joined by Concat."""
    dims, indices = scope.shape(node.input[0]), scope.array(node.input[1])
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    if dims is None or indices is None or not isinstance(size := dims[axis], int) or scope.opset < _STEPS_ARE_INPUT:
        return []
    axis %= len(dims)
    places = [index % size for index in indices.reshape(-1).tolist()]
    starts = [at for at, place in enumerate(places) if at == 0 or place != places[at - 1] + 1]
    shape = [*dims[:axis], *indices.shape, *dims[axis + 1 :]]
    sizes = [size for size in shape if isinstance(size, int)]
    if not 0 < len(starts) <= _MOST_PARTS or (indices.ndim > 1 and len(sizes) < len(shape)):
        return []
    nodes, parts = list[NodeProto](), list[str]()

    def hold(hint: str, numbers: list[int]) -> str:
        name = fresh(f"{node.output[0]}/{hint}")
        nodes.append(NodeProto(op_type="Constant", output=[name]))
        nodes[-1].attribute.append(make_attribute("value", tensors.int64s(numbers)))
        return name

    axes = hold("axes", [axis])
    for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
        bounds = hold("start", [places[start]]), hold("end", [places[end - 1] + 1])
        parts.append(fresh(f"{node.output[0]}/part"))
        nodes.append(NodeProto(op_type="Slice", input=[node.input[0], *bounds, axes], output=parts[-1:]))
    if len(parts) > 1:
        nodes.append(NodeProto(op_type="Concat", input=parts, output=[fresh(f"{node.output[0]}/joined")]))
        nodes[-1].attribute.append(make_attribute("axis", axis))
    if indices.ndim > 1:
        joined, to = nodes[-1].output[0], hold("shape", sizes)
        nodes.append(NodeProto(op_type="Reshape", input=[joined, to], output=[joined]))
    nodes[-1].output[0], nodes[-1].name = node.output[0], node.name
    return nodes


def _leave_out_axis(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Gather of rows of a constant without its axis, 0, which it has by default: then it is an embedding."""
    if any(attribute.i for attribute in node.attribute) or not scope.is_constant(node.input[0]):
        return []
    return [NodeProto(op_type="Gather", name=node.name, input=node.input, output=node.output)]


def _spell_products(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Pow by 3 or 4 as products."""
    exponent, kind = scope.array(node.input[1]), scope.elem_type(node.input[0])
    if exponent is None or exponent.size != 1 or exponent.ndim > (scope.rank(node.input[0]) or 0):
        return []
    count = float(exponent.reshape(-1)[0])
    if count not in (3, 4) or kind != TensorProto.FLOAT:
        return []
    square = fresh(f"{node.output[0]}/square")
    second = square if count == 4 else node.input[0]
    return [
        NodeProto(op_type="Mul", input=[node.input[0], node.input[0]], output=[square]),
        NodeProto(op_type="Mul", name=node.name, input=[square, second], output=node.output),
    ]


def _spell_negation(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Neg as a product with -1."""
    kind = scope.elem_type(node.input[0])
    if kind not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
        return []
    minus = fresh(f"{node.output[0]}/minus")
    value = make_attribute("value", tensors.tensor(-1, kind))
    return [
        NodeProto(op_type="Constant", output=[minus], attribute=[value]),
        NodeProto(op_type="Mul", name=node.name, input=[node.input[0], minus], output=node.output),
    ]


def _spell_copies(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Expand as a Concat of copies along each axis that grows, between Reshapes to three axes."""
    dims, wanted = scope.shape(node.input[0]) or [], scope.ints(node.input[1]) or []
    sizes = [size for size in dims if isinstance(size, int)]
    if not wanted or len(sizes) < len(dims) or 0 in sizes or 0 in wanted:
        return []
    rank = max(len(sizes), len(wanted))
    sizes, wanted = [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(wanted)) + wanted
    nodes, value = list[NodeProto](), node.input[0]

    def reshape(to: list[int]) -> None:
        nonlocal value
        shape, result = fresh(f"{node.output[0]}/shape"), fresh(f"{node.output[0]}/copies")
        constant = make_attribute("value", tensors.int64s(to))
        nodes.append(NodeProto(op_type="Constant", output=[shape], attribute=[constant]))
        nodes.append(NodeProto(op_type="Reshape", input=[value, shape], output=[result]))
        value = result

    for axis, count in enumerate(wanted):
        if sizes[axis] == 1 and count > 1:
            if count > _MOST_PARTS:
                return []
            reshape([prod(sizes[:axis]), 1, prod(sizes[axis + 1 :])])
            nodes.append(NodeProto(op_type="Concat", input=[value] * count, output=[fresh(f"{value}/joined")]))
            nodes[-1].attribute.append(make_attribute("axis", 1))
            value, sizes[axis] = nodes[-1].output[0], count
    reshape(sizes)
    nodes[-1].output[0], nodes[-1].name = node.output[0], node.name
    return nodes


def _spell_fewer_axes(node: NodeProto, scope: Scope, fresh: Fresh) -> list[NodeProto]:
    """Transpose where axes of size 1 are left out, and those that stay beside each other are one.

    One that is cut into parts stays: pnnx reads queries, keys and values of five axes, and no Reshape to them.
    """
    dims = scope.shape(node.input[0]) or []
    sizes = [size for size in dims if isinstance(size, int)]
    order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [])
    if not sizes or len(sizes) < len(dims) or 0 in sizes:
        return []
    readers = {reader.op_type for reader in scope.body.node if node.output[0] in reader.input}
    if not readers.isdisjoint(("Gather", "Slice", "Split")):
        return []
    order = order or list(range(len(sizes)))[::-1]
    groups = list[list[int]]()
    for axis in order:
        if sizes[axis] != 1:
            last = groups[-1][-1] if groups else len(sizes)
            if last < axis and prod(sizes[last + 1 : axis]) == 1:
                groups[-1].append(axis)
            else:
                groups.append([axis])
    placed = sorted(groups)
    shapes = [prod(sizes[axis] for axis in group) for group in placed], [sizes[axis] for axis in order]
    held = [fresh(f"{node.output[0]}/shape") for _ in shapes]
    fewer, turned = fresh(f"{node.output[0]}/fewer"), fresh(f"{node.output[0]}/turned")
    perm = make_attribute("perm", [placed.index(group) for group in groups])
    return [
        *(
            NodeProto(op_type="Constant", output=[name], attribute=[make_attribute("value", tensors.int64s(shape))])
            for name, shape in zip(held, shapes, strict=True)
        ),
        NodeProto(op_type="Reshape", input=[node.input[0], held[0]], output=[fewer]),
        NodeProto(op_type="Transpose", input=[fewer], output=[turned], attribute=[perm]),
        NodeProto(op_type="Reshape", name=node.name, input=[turned, held[1]], output=node.output),
    ]


def _find_source(at: int, size: int, mode: str) -> int:
    """The element of an axis that stands at a place before, in or behind it."""
    if mode == "wrap":
        return at % size
    if mode == "edge":
        return min(max(at, 0), size - 1)
    return size - 1 - abs(size - 1 - at % (2 * size - 2)) if size > 1 else 0


_FORMS: dict[str, tuple[str, frozenset[str], Respell]] = {
    "auto_pad": (
        "Computed pads from sizes in place of auto_pad",
        frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"}),
        _spell_pads,
    ),
    "Y": ("Replaced Pow by products", frozenset({"Pow"}), _spell_products),
    "axes": ("Reduced one axis at a time", frozenset({"ReduceMax", "ReduceMean", "ReduceMin"}), _spell_reductions),
    "axis": ("Replaced Flatten by Reshape to known sizes", frozenset({"Flatten"}), _spell_reshape),
    "direction": (
        "Computed each direction forward, the reverse one on a turned input",
        frozenset({"GRU", "LSTM", "RNN"}),
        _spell_directions,
    ),
    "indices": ("Replaced Gather by Slice and Concat", frozenset({"Gather"}), _spell_slices),
    "keepdims": (
        "Kept the reduced axes, and squeezed them",
        frozenset({"ArgMax", "ReduceMax", "ReduceMin", "ReduceSum"}),
        _spell_squeeze,
    ),
    "mode": ("Replaced Pad by Gather with known indices", frozenset({"Pad"}), _spell_gathers),
    **{
        f"scan_{kind}_{what}": ("Let a Scan run forward along first axes", frozenset({"Scan"}), _spell_forward)
        for kind in ("input", "output")
        for what in ("axes", "directions")
    },
}
"""By attribute: the sentence, the operators, and how a call is written."""
_OF_RANKS: list[tuple[str, frozenset[str], Respell]] = [
    ("Reshaped the condition to one axis", frozenset({"If"}), _spell_condition),
    _FORMS["axis"],
    ("Replaced Neg by a product with -1", frozenset({"Neg"}), _spell_negation),
    ("Replaced Expand by Concat of copies", frozenset({"Expand"}), _spell_copies),
    ("Transposed fewer axes", frozenset({"Transpose"}), _spell_fewer_axes),
]
"""The same for ranks of the first input."""
_OF_OUTPUTS: list[tuple[str, frozenset[str], Respell]] = [
    ("Computed the states of all steps, and took the last one", frozenset({"GRU", "LSTM", "RNN"}), _spell_last_state),
]
"""Forms of calls for limits that name outputs which a node must read."""
_OF_SHARED: list[tuple[str, frozenset[str], Respell]] = [
    ("Gave a Mul an input of its own", frozenset({"Mul"}), _copy_chain),
]
"""Forms of calls for limits that name operators whose result a call must not share."""
_OF_INPUTS: dict[str, tuple[str, frozenset[str], Respell]] = {
    "axis": ("Left out the default axis of Gather", frozenset({"Gather"}), _leave_out_axis),
    "initial_h": ("Gave an LSTM zeros as its initial states", frozenset({"LSTM"}), _spell_zero_states),
    "max": ("Gave Clip the largest number as the bound that it lacks", frozenset({"Clip"}), _spell_bounds),
    "mode": ("Wrote the default mode of Pad", frozenset({"Pad"}), _spell_mode),
    "roi": ("Left out the unused region of Resize", frozenset({"Resize"}), _leave_out_region),
    "steps": ("Replaced steps of Slice by Reshape and Slice", frozenset({"Slice"}), _spell_steps),
}
"""Forms of calls by the input or attribute that a limit forbids or demands."""
_FIRST_STATE = 5  # the place of initial_h among the inputs of LSTM
_CHAIN = 3  # how many nodes there are between the two inputs of a HardSwish: Add, Clip and Div
_AXES_ARE_INPUT = 13  # the opset of Squeeze from which on
_CONSTANTS_OF_INT64 = 9  # the opset of Constant from which on
_LENGTHS = 4  # the input sequence_lens of recurrent operators
_STEPS_ARE_INPUT = 10  # the opset of Slice from which on
_TURN = -1, -(1 << 63), 0, -1  # starts, ends, axes and steps of a Slice that turns the first axis
_MOST_PARTS = 256  # of one node
_SHAPE_IS_INPUT = 5  # the opset of Reshape from which on
