"""Ifs and Loops whose course is known: which branch is taken, or that a body runs once or never."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing import branches
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.schemas import legal_types
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import dims_of, elem_type_of, has_shape, type_text
from opshift.passes.simplification.workspace import Workspace

TAKEN = "Replaced If by the branch of its constant condition"
ONCE = "Replaced a Loop that runs once by its body"
NEVER = "Replaced a Loop that never runs by its inputs"
COURSES = frozenset([TAKEN, ONCE, NEVER])

_CONSTANTS_OF_ALL_TYPES = 9  # the opset from which on a Constant node holds them
_AXES_ARE_INPUTS = 13  # that from which on Unsqueeze takes them so
_SEQUENCES_ARE_YIELDED = 13  # the only one at which graphs yield what Identity does not take


class Course(NamedTuple):
    """What takes the place of a node, in a sentence, and how it is made."""

    how: str
    make: Callable[[], list[NodeProto]]


def course(node: NodeProto, space: Workspace) -> Course | None:
    """The course that an If or a Loop is known to take, if nothing hinders what is inside from standing outside."""
    if node.op_type == "If":
        return _branch(node, space)
    return _loop(node, space) if node.op_type == "Loop" and space.opset >= _CONSTANTS_OF_ALL_TYPES else None


def _branch(node: NodeProto, space: Workspace) -> Course | None:
    condition = _truth(node.input[0] if node.input else "", space)
    branch = None if condition is None else branches.branch_of(node, condition)
    if branch is None or len(branch.output) != len(node.output) or not _may_stand_outside(branch, space):
        return None
    if not _may_echo(branch, [value.name for value in branch.output], node.output, space):
        return None
    return Course(TAKEN, lambda: _with_stated_casts(branches.splice(node, branch, _fresh(space)), branch, space))


def _with_stated_casts(made: list[NodeProto], branch: GraphProto, space: Workspace) -> list[NodeProto]:
    """The same; before opset 6, where a Cast infers no type, what the branch states of them stands outside, too."""
    if space.opset < 6 and space.scope.graph is not None:
        stated = {value.name: value.type for value in branch.value_info}
        for old, new in zip(branch.node, made[len(branch.initializer) :], strict=False):
            if new.op_type == "Cast" and old.output[0] in stated:
                space.scope.graph.value_info.add(name=new.output[0]).type.CopyFrom(stated[old.output[0]])
    return made


def _loop(node: NodeProto, space: Workspace) -> Course | None:
    body = next((graph for name, _, graph in subgraphs(node) if name == "body"), None)
    carried = len(node.input) - 2
    if body is None or carried < 0 or len(body.input) != 2 + carried or not _may_stand_outside(body, space):
        return None
    if not carried <= len(node.output) <= len(body.output) - 1:
        return None
    count, condition = _number(node.input[0], space), _truth(node.input[1], space)
    if (count is not None and count <= 0) or condition is False:
        kinds = zip(body.input[2:], body.output[1:], strict=False)  # an optional may go in, and what it holds come out
        alike = all(given.type.WhichOneof("value") == left.type.WhichOneof("value") for given, left in kinds)
        return _never(node, carried, space) if alike else None
    goes_in = condition is True or not node.input[1]
    ends = count == 1 or (condition is True and (not node.input[0] or count is not None) and _ends(body))
    yields = [value.name for value in body.output[1:]]
    if not (goes_in and ends) or not _may_echo(body, yields, node.output, space):
        return None
    stacked = zip(body.output[1 + carried :], node.output[carried:], strict=False)
    if not all(_may_be_stacked(space.type(name) or value.type, space) for value, name in stacked if name):
        return None
    return Course(ONCE, lambda: _once(node, body, carried, space))


def _never(node: NodeProto, carried: int, space: Workspace) -> Course | None:
    """What is carried comes out as it went in; what is gathered is empty, where its other sizes are known."""
    if any(out and not _is_plain(out, space) for out in node.output[:carried]):
        return None
    empty: list[TensorProto] = []
    for name in node.output[carried:]:
        inference = space.whole.context.inference
        value_type = inference.type(space.path, name) if space.path is not None and name else None
        if name and (value_type is None or not has_shape(value_type) or name in inference.granted):
            return None
        dims = [0, *dims_of(value_type)[1:]] if value_type is not None else []
        if any(not isinstance(dim, int) for dim in dims):
            return None
        elem_type = elem_type_of(value_type) if value_type is not None else 0
        empty.append(TensorProto(data_type=elem_type, dims=[dim for dim in dims if isinstance(dim, int)]))

    def make() -> list[NodeProto]:
        pairs = zip(node.input[2:], node.output[:carried], strict=True)
        made = [NodeProto(op_type="Identity", input=[given], output=[name]) for given, name in pairs if name]
        gathered = zip(node.output[carried:], empty, strict=True)
        return made + [_constant(name, held) for name, held in gathered if name]

    return Course(NEVER, make)


def _once(node: NodeProto, body: GraphProto, carried: int, space: Workspace) -> list[NodeProto]:
    fresh = _fresh(space)
    number, condition = (fresh(value.name) for value in body.input[:2])
    ranks = [len(value.type.tensor_type.shape.dim) for value in body.input[:2]]
    made = [
        _constant(number, tensors.int64s([0], [1] * ranks[0])),
        _constant(condition, TensorProto(data_type=TensorProto.BOOL, dims=[1] * ranks[1], raw_data=b"\1")),
    ]
    names = zip((value.name for value in body.input), (number, condition, *node.input[2:]), strict=True)
    yields: list[tuple[str, str]] = []
    after: list[NodeProto] = []
    for index, (value, name) in enumerate(zip(body.output[1:], node.output, strict=False)):
        if not name:
            continue
        if index < carried:
            yields.append((value.name, name))
        else:
            single = fresh(f"{name}/single")
            yields.append((value.name, single))
            after += _unsqueeze(single, name, space)
    return [*made, *branches.inline_branch(body, yields, dict(names), fresh), *after]


def _may_be_stacked(value_type: TypeProto, space: Workspace) -> bool:
    """Whether Unsqueeze takes values of a type."""
    takes = schemas.schema("", "Unsqueeze", space.opset)
    return takes is not None and legal_types(type_text(value_type), takes.inputs[0])


def _unsqueeze(value: str, name: str, space: Workspace) -> list[NodeProto]:
    """A value with one more axis in front."""
    node = NodeProto(op_type="Unsqueeze", input=[value], output=[name])
    if space.opset < _AXES_ARE_INPUTS:
        node.attribute.append(make_attribute("axes", [0]))
        return [node]
    axes = _fresh(space)(f"{name}/axes")
    node.input.append(axes)
    return [_constant(axes, tensors.int64s([0])), node]


def _constant(name: str, held: TensorProto) -> NodeProto:
    return NodeProto(op_type="Constant", output=[name], attribute=[make_attribute("value", held)])


def _fresh(space: Workspace) -> Callable[[str], str]:
    return space.whole.context.names.fresh


def _number(name: str, space: Workspace) -> int | None:
    found = space.array(name) if name else None
    return int(found.reshape(-1)[0]) if found is not None and found.size == 1 else None


def _truth(name: str, space: Workspace) -> bool | None:
    found = space.array(name) if name else None
    return bool(found.reshape(-1)[0]) if found is not None and found.size == 1 else None


def _ends(body: GraphProto) -> bool:
    """Whether what a body says of going on is a constant, and no."""
    name = body.output[0].name
    held = next((tensor for tensor in body.initializer if tensor.name == name), None)
    if held is None:
        made = next((node for node in body.node if name in node.output), None)
        held = tensors.of_constant(made) if made is not None and made.op_type == "Constant" else None
    value = None if held is None else tensors.array(held)
    return value is not None and value.size == 1 and not value.reshape(-1)[0]


def _may_stand_outside(graph: GraphProto, space: Workspace) -> bool:
    """Whether nothing that a graph names has to keep its name, or its place."""
    if graph.sparse_initializer:
        return False
    named = chain(
        (value.name for value in graph.input),
        (tensor.name for tensor in graph.initializer),
        chain.from_iterable(inner.output for inner in graph.node),
    )
    return space.whole.fixed.isdisjoint(named)


def _may_echo(graph: GraphProto, yields: Sequence[str], outputs: Sequence[str], space: Workspace) -> bool:
    """Whether Identity takes what a graph yields of values that its nodes do not make, or yields twice."""
    made = {name for node in graph.node for name in node.output} | {tensor.name for tensor in graph.initializer}
    pairs = list(zip(yields, outputs, strict=False))
    return all(
        not outer or _is_plain(outer, space)
        for index, (name, outer) in enumerate(pairs)
        if name not in made or name in yields[:index]
    )


def _is_plain(name: str, space: Workspace) -> bool:
    """Whether Identity takes a value at this opset."""
    value_type = space.type(name) if space.opset == _SEQUENCES_ARE_YIELDED else None
    return space.opset != _SEQUENCES_ARE_YIELDED or (
        value_type is not None and value_type.WhichOneof("value") == "tensor_type"
    )
