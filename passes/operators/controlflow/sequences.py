"""If and Loop, before sequences could leave them: what a sequence holds goes out as one tensor, with the sizes."""

from __future__ import annotations

from dataclasses import dataclass

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import Dim, elem_type_of, tensor_type
from opshift.passes.operators.shared.sequences import constructed
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@dataclass(frozen=True)
class Layout:
    """How the elements of a sequence lie in one tensor: one after the other along `axis`, scalars as vectors of one."""

    elem_type: int
    axis: int
    others: tuple[int, ...]
    scalars: bool

    def kind(self) -> TypeProto:
        """The type of the sequence."""
        dims: list[Dim] = [*self.others]
        dims.insert(self.axis, None)
        made = TypeProto()
        made.sequence_type.elem_type.CopyFrom(tensor_type(self.elem_type, [] if self.scalars else dims))
        return made


@says("Branches yielded tensors only: of a sequence, they yield what it holds as one tensor, and the sizes.")
def sequences_yielded_as_tensors(node: Node) -> Replacement:
    sequences = [k for k, name in enumerate(node.outputs) if _is_sequence(node, name)]
    if not sequences:
        return None
    branches: dict[str, GraphProto] = {name: graph for name, _, graph in subgraphs(node.proto)}
    insides = {name: _inside(node, graph) for name, graph in branches.items()}
    layouts: dict[int, Layout] = {}
    for k in sequences:
        held = [
            (insides[name], element) for name, graph in branches.items()
            for element in _elements(node, insides[name], graph.output[k].name)
        ]  # fmt: skip
        layouts[k] = _layout(node, node.outputs[k], held)
    for name, graph in branches.items():
        inner, outputs = Builder(insides[name], node.build.opset, node.proto), list(graph.output)
        del graph.output[:]
        for k, value in enumerate(outputs):
            if k not in layouts:
                graph.output.append(value)
                continue
            elements = _elements(node, insides[name], value.name)
            node.scope.context.released.add(value.name)
            pair = _joined(inner, layouts[k], elements)
            for made, elem_type in zip(pair, (layouts[k].elem_type, T.INT64), strict=True):
                graph.output.add(name=inner.Identity(made)).type.CopyFrom(tensor_type(elem_type))
        graph.node.extend(inner.nodes)
    count = len(node.outputs) + len(sequences)
    made = node.build.emit("If", node.inputs, dict(branches), outputs=count)
    node.build.keep_graphs()
    return _apart(node, [made] if isinstance(made, str) else made, layouts)


@says("Loops carried tensors only: of a sequence, they carry what it holds as one tensor, and the sizes.")
def sequences_carried_as_tensors(node: Node) -> Replacement:
    carried = node.inputs[2:]
    sequences = [k for k, name in enumerate(carried) if _is_sequence(node, name)]
    if not sequences:
        return None
    build, body = node.build, node.attributes["body"]
    inside, inner = _inside(node, body), Builder(_inside(node, body), build.opset, node.proto)
    arriving, leaving = list(body.input)[2:], list(body.output)[1:]
    start: list[str] = []
    layouts: dict[int, Layout] = {}
    formals: list[tuple[str, TypeProto]] = []
    results: list[tuple[str, TypeProto]] = []
    for k, name in enumerate(carried):
        if k not in sequences:
            start.append(name)
            formals.append((arriving[k].name, arriving[k].type))
            results.append((leaving[k].name, leaving[k].type))
            continue
        first = _elements(node, node.scope, name)
        appended = _appended(node, body, arriving[k].name, leaving[k].name)
        held = [(node.scope, element) for element in first] + [(inside, element) for element in appended]
        layout = layouts[k] = _layout(node, name, held)
        kinds = [tensor_type(layout.elem_type), tensor_type(T.INT64)]
        start += _joined(build, layout, first)
        joined = [node.scope.context.names.fresh(f"{arriving[k].name}/{part}") for part in ("held", "sizes")]
        formals += zip(joined, kinds, strict=True)
        more = _joined(inner, layout, appended)
        grown = [inner.Concat(a, b, axis=x) for a, b, x in zip(joined, more, (layout.axis, 0), strict=True)]
        results += zip(grown, kinds, strict=True)
    results += [(value.name, value.type) for value in leaving[len(carried) :]]
    body.node.extend(inner.nodes)
    for values, wanted in ((body.input, formals), (body.output, results)):
        del values[2 if values is body.input else 1 :]
        for name, kind in wanted:
            values.add(name=name).type.CopyFrom(kind)
    made = build.emit("Loop", [*node.inputs[:2], *start], {"body": body}, outputs=len(results))
    build.keep_graphs()
    return _apart(node, [made] if isinstance(made, str) else made, layouts)


def _is_sequence(node: Node, name: str) -> bool:
    kind = node.scope.type(name) if name else None
    return kind is not None and kind.WhichOneof("value") == "sequence_type"


def _inside(node: Node, graph: GraphProto) -> Scope:
    return Scope(graph, node.scope.context, node.build.opset, node.scope)


def _elements(node: Node, scope: Scope, name: str) -> list[str]:
    """What a sequence is made of where it comes from."""
    found = constructed(scope, name)
    if found is None:
        raise CannotConvert(
            node, f'what "{name}" holds is known only at run time; a sequence constructed there could be expressed'
        )
    return found


def _appended(node: Node, body: GraphProto, before: str, after: str) -> list[str]:
    """What a round appends to a sequence, from which the nodes that do so are taken away."""
    appended: list[str] = []
    while after != before:
        index = next((i for i, made in enumerate(body.node) if after in made.output), None)
        made = None if index is None else body.node[index]
        read = any(after in other.input for other in _nodes(body))
        if index is None or made is None or not _appends(made) or read:
            raise CannotConvert(node, f'it carries "{before}"; a sequence that is only appended to could be expressed')
        after = made.input[0]
        appended.insert(0, made.input[1])
        del body.node[index]
    if any(before in made.input for made in _nodes(body)):
        raise CannotConvert(node, f'it reads "{before}"; a sequence that is only appended to could be expressed')
    return appended


def _appends(made: NodeProto) -> bool:
    return made.op_type == "SequenceInsert" and not any(made.input[2:])


def _nodes(body: GraphProto) -> list[NodeProto]:
    """Every node of a graph and of the graphs in it."""
    found: list[NodeProto] = []
    pending = [body]
    while pending:
        graph = pending.pop()
        found += graph.node
        pending += [inner for made in graph.node for _, _, inner in subgraphs(made)]
    return found


def _layout(node: Node, name: str, held: list[tuple[Scope, str]]) -> Layout:
    """Along which axis elements can be joined: one whose shape is the same for all but one axis."""
    kinds = [scope.type(element) for scope, element in held]
    shapes = [scope.shape(element) for scope, element in held]
    known = [shape for shape in shapes if shape is not None]
    elem_types = {elem_type_of(kind) for kind in kinds if kind is not None}
    ranks = {len(shape) for shape in known}
    if len(known) < len(held) or len(ranks) != 1 or len(elem_types) != 1 or 0 in elem_types:
        raise CannotConvert(
            node, f'the shapes in "{name}" are unknown or of several ranks; one known rank could be expressed'
        )
    if not known[0]:
        return Layout(elem_types.pop(), 0, (), True)
    same = [dims[0] if len(set(dims)) == 1 and isinstance(dims[0], int) else None for dims in zip(*known, strict=True)]
    varying = [axis for axis, dim in enumerate(same) if dim is None]
    if len(varying) > 1:
        raise CannotConvert(
            node, f'the shapes in "{name}" may differ along {len(varying)} axes; along one could be expressed'
        )
    axis = varying[0] if varying else 0
    return Layout(
        elem_types.pop(), axis, tuple(dim for k, dim in enumerate(same) if k != axis and dim is not None), False
    )


def _joined(build: Builder, layout: Layout, elements: list[str]) -> list[str]:
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


def _apart(node: Node, made: list[str], layouts: dict[int, Layout]) -> list[str]:
    """The node's outputs, the sequences among them put together from their elements and sizes."""
    build, values, results = node.build, iter(made), []
    for k, name in enumerate(node.outputs):
        value = next(values)
        if k not in layouts:
            if name and (kind := node.scope.type(name)) is not None:
                node.scope.typed[value] = kind
            results.append(value)
            continue
        layout, sizes = layouts[k], next(values)
        build.typed(value, layout.elem_type)
        build.typed(sizes, T.INT64, [None])
        if layout.scalars:
            sequence = build.SplitToSequence(value, axis=0, keepdims=0)
        else:
            sequence = build.SplitToSequence(value, sizes, axis=layout.axis)
        node.scope.typed[sequence] = layout.kind()
        results.append(sequence)
    return results


changed("If", 13, Pair(down=sequences_yielded_as_tensors))
changed("Loop", 13, Pair(down=sequences_carried_as_tensors))
