"""Sequences whose makers list their tensors, and how what they hold lies in one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import GraphProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.types import Dim, elem_type_of, tensor_type
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

T = TensorProto
_LISTING = ("SequenceEmpty", "SequenceConstruct")


def construct(scope: Scope, name: str) -> list[str] | None:
    """The tensors of a sequence whose maker lists them; None for any other."""
    made = scope.producer(name)
    listed = made is not None and not normalize_domain(made.domain) and made.op_type in _LISTING
    return list(made.input) if made is not None and listed else None


@dataclass(frozen=True)
class SequenceLayout:
    """How the elements of a sequence lie in one tensor: one after the other along `axis`, scalars as vectors of one."""

    elem_type: int
    axis: int
    others: tuple[int, ...]
    scalars: bool

    def value_type(self) -> TypeProto:
        """The type of the sequence."""
        dims: list[Dim] = [*self.others]
        dims.insert(self.axis, None)
        made = TypeProto()
        made.sequence_type.elem_type.CopyFrom(tensor_type(self.elem_type, [] if self.scalars else dims))
        return made


def is_sequence(node: Node, name: str) -> bool:
    """Whether a value is known to be a sequence."""
    value_type = node.scope.type(name) if name else None
    return value_type is not None and value_type.WhichOneof("value") == "sequence_type"


def scope_inside(node: Node, graph: GraphProto) -> Scope:
    """What is known of the values of a graph that the node holds."""
    return node.scope.inside(graph, node.build.opset)


def elements_of(node: Node, scope: Scope, name: str) -> list[str]:
    """What a sequence is made of where it comes from."""
    found = construct(scope, name)
    if found is None:
        raise CannotConvert(
            node,
            f'the elements of the sequence "{name}" are dynamic',
            supported="a sequence that the same graph constructs",
        )
    return found


def layout_of(node: Node, name: str, held: list[tuple[Scope, str]]) -> SequenceLayout:
    """Along which axis elements can be joined: one whose shape is the same for all but one axis."""
    value_types = [scope.type(element) for scope, element in held]
    shapes = [scope.shape(element) for scope, element in held]
    known = [shape for shape in shapes if shape is not None]
    elem_types = {elem_type_of(value_type) for value_type in value_types if value_type is not None}
    ranks = {len(shape) for shape in known}
    if len(known) < len(held) or len(ranks) != 1 or len(elem_types) != 1 or 0 in elem_types:
        raise CannotConvert(
            node,
            f'the tensors in the sequence "{name}" have unknown ranks, or different ones',
            supported="tensors of one known rank",
        )
    if not known[0]:
        return SequenceLayout(elem_types.pop(), 0, (), True)
    same = [dims[0] if len(set(dims)) == 1 and isinstance(dims[0], int) else None for dims in zip(*known, strict=True)]
    varying = [axis for axis, dim in enumerate(same) if dim is None]
    if len(varying) > 1:
        raise CannotConvert(
            node,
            f'the tensors in the sequence "{name}" may differ in size along {len(varying)} axes',
            supported="shapes that differ along one axis",
        )
    axis = varying[0] if varying else 0
    return SequenceLayout(
        elem_types.pop(), axis, tuple(dim for k, dim in enumerate(same) if k != axis and dim is not None), False
    )


def as_one_tensor(build: Builder, layout: SequenceLayout, elements: list[str]) -> list[str]:
    """The elements in one tensor, and how long each is along the axis."""
    if not elements:
        dims = [*layout.others]
        dims.insert(layout.axis, 0)
        nothing = np.zeros(dims, dtype=object if layout.elem_type == T.STRING else np.int64)
        return [build.constant(nothing, layout.elem_type), build.constant([], T.INT64)]
    if layout.scalars:
        elements = [build.Unsqueeze(element, axes=[0]) for element in elements]
    sizes = [build.Gather(build.Shape(element), [layout.axis], axis=0) for element in elements]
    if len(elements) == 1:
        return [elements[0], sizes[0]]
    return [build.Concat(*elements, axis=layout.axis), build.Concat(*sizes, axis=0)]


def emit_with_graphs(
    node: Node, inputs: Sequence[str], graphs: Mapping[str, GraphProto], count: int, layouts: dict[int, SequenceLayout]
) -> list[str]:
    """The outputs of the node with other graphs, sequences among them put together from their elements and sizes."""
    made = node.build.emit(node.op_type, inputs, dict(graphs), outputs=count)
    node.build.keep_graphs()
    build, values, results = node.build, iter([made] if isinstance(made, str) else made), []
    for k, name in enumerate(node.outputs):
        value = next(values)
        if k not in layouts:
            if name and (value_type := node.scope.type(name)) is not None:
                node.scope.typed[value] = value_type
            results.append(value)
            continue
        layout, sizes = layouts[k], next(values)
        build.set_type(value, layout.elem_type)
        build.set_type(sizes, T.INT64, [None])
        if layout.scalars:
            sequence = build.SplitToSequence(value, axis=0, keepdims=0)
        else:
            sequence = build.SplitToSequence(value, sizes, axis=layout.axis)
        node.scope.typed[sequence] = layout.value_type()
        results.append(sequence)
    return results
