"""Types and shapes: inferred once for the source model from its inputs, lazily and without its weights; node by node
for what the conversion adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opshift.passes import process
from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import Path as Path
from opshift.passes.analysis.formals import refers
from opshift.passes.analysis.knowledge import Known
from opshift.passes.changes import Change
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    default_domain,
)
from opshift.passes.model.traversal import bodies, subgraphs
from opshift.passes.model.types import Dim, elem_type_of, has_shape, tensor_type

from opshift import functions

Opened = Callable[[ModelProto, int], Known]
"""What is known of the main graph of a model, at the opset of its nodes."""
SCAN_WITHOUT_BATCH = 9  # the opset from which on Scan has neither a batch axis nor sequence_lens
OVERRIDABLE_SINCE = 4  # the IR version from which on an initializer that is also an input is only a default
_LONGEST = 1 << 20  # elements: inference makes room for each of a vector's, whatever its type claims


_SHAPES = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}
"""The operators whose result has as many dimensions as a vector that they take has elements, and which input it is."""

_ROUNDS = 32  # of inference, each of which takes in the ranks that the one before let follow
_HIGHEST = 64  # rank that is believed

SHAPE_TO_INPUT, RANK_BY_LENGTH = 5, 21
"""Reshape took its shape as an input; its schema told the rank by the length of a shape that it cannot read."""


class Inference:
    """Answers for the values of one source model."""

    def __init__(self, source: ModelProto, opened: Opened):
        self._source = source
        self._opened = opened
        self._types: dict[Path, dict[str, TypeProto]] | None = None
        self.granted: frozenset[str] = frozenset()
        """Values whose inferred shapes hold of sizes of 1 or more alone."""

    @property
    def was_asked(self) -> bool:
        """Whether types were inferred, which happens at the first question."""
        return self._types is not None

    def now(self) -> None:
        """Infer the types of the model as it is now, which may be changed later."""
        if self._types is None:
            self._types, self.granted = _infer(self._source, self._opened)

    def type(self, path: Path, name: str) -> TypeProto | None:
        """The inferred type of a value of the source graph at `path`."""
        self.now()
        return (self._types or {}).get(path, {}).get(name)

    def contradictions(self) -> list[Change]:
        """What the model declares of shapes that is not so, as far as anybody asked for types."""
        return [] if self._types is None else list(claims.contradictions(self._source, self.type))

    def node(self, node: NodeProto, opset: int, scope: Known) -> None:
        """Infer the outputs of one made node, and of the made nodes it hangs on, into `scope.typed`."""
        pending = [(node, opset)]
        visited: set[str] = set()
        while pending:
            current, version = pending[-1]
            origins = [scope.origin(name) for name in current.input if not _is_known(scope.stated(name))]
            waiting = [o for o in origins if o is not None and o[0].output[0] not in visited]
            visited.add(current.output[0])
            if waiting:
                pending += waiting
                continue
            pending.pop()
            _infer_node(current, version, scope)
            scope.judged(current)


def _infer_node(node: NodeProto, opset: int, scope: Known) -> None:
    import onnx
    import onnx.defs
    import onnx.shape_inference

    if node.op_type in HOLDING_GRAPHS and not node.domain and scope.context.descended.isdisjoint(node.output):
        HOLDING_GRAPHS[node.op_type](node, opset, scope)
    if not schemas.known_domain(node.domain) or any(True for _ in subgraphs(node)):
        return
    types = {name: _short(found) for name in node.input if name and (found := _known(scope, name)) is not None}
    data = {}
    for name in types:
        held = scope.tensor(name, tensors.SMALL)
        if held is not None:
            data[name] = held
    try:
        domain = default_domain(node.domain)
        if node.op_type == "Reshape" and not domain and opset >= SHAPE_TO_INPUT:
            opset = max(opset, RANK_BY_LENGTH)
        schema = onnx.defs.get_schema(node.op_type, opset, domain)
        imports = [onnx.OperatorSetIdProto(domain=domain, version=opset)]
        inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=imports)
        if opset < 6 and node.op_type == "Cast":
            inferred = _infer_old_cast(node, types)
    except Exception:  # inference only ever adds knowledge; a node it cannot judge stays unknown
        return
    if refers(node):
        inferred = _without_references(node, inferred)
    scope.typed.update({name: kind for name, kind in inferred.items() if name in node.output})


_TYPING = frozenset(["dtype", "output_datatype", "output_dtype", "stash_type", "to"])


def _without_references(node: NodeProto, inferred: dict[str, TypeProto]) -> dict[str, TypeProto]:
    """What follows without the attributes that callers of a function give: they are taken for zeros."""
    referred = {a.name for a in node.attribute if a.ref_attr_name and a.type != AttributeProto.FLOAT}
    if not _TYPING.isdisjoint(referred):
        return {}
    for kind in inferred.values() if referred else ():
        if kind.WhichOneof("value") == "tensor_type":
            kind.tensor_type.ClearField("shape")
    return inferred


def _is_long(kind: TypeProto) -> bool:
    dims = kind.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST


def _short(kind: TypeProto) -> TypeProto:
    """The type without the length of a vector that is too long to make room for."""
    if not _is_long(kind):
        return kind
    made = TypeProto()
    made.CopyFrom(kind)
    made.tensor_type.shape.dim[0].Clear()
    return made


def _infer_old_cast(node: NodeProto, types: dict[str, TypeProto]) -> dict[str, TypeProto]:
    """The schema of Cast, which spelled its type below opset 6, infers nothing there."""
    made = TypeProto()
    if node.input[0] in types:
        made.CopyFrom(types[node.input[0]])
    made.tensor_type.elem_type = TensorProto.DataType.Value(node.attribute[0].s.decode())
    return {node.output[0]: made}


def _infer_branches(node: NodeProto, opset: int, scope: Known) -> None:
    """What both branches of a made If agree upon: the element type, the rank, single dimensions."""
    yielded = []
    for _, _, graph in subgraphs(node):
        inner = scope.inside(graph, opset)
        yielded.append([(inner.elem_type(value.name), inner.shape(value.name)) for value in graph.output])
    for name, found in zip(node.output, zip(*yielded, strict=True), strict=True):
        kinds = {elem_type for elem_type, _ in found}
        if len(kinds) == 1 and 0 not in kinds:
            scope.typed[name] = tensor_type(kinds.pop(), _agreed([shape for _, shape in found]))


def _infer_loop(node: NodeProto, opset: int, scope: Known) -> None:
    """What a made Loop carries has the shape of before and after a round; what it collects, one axis more."""
    body, carried = next(graph for _, _, graph in subgraphs(node)), max(len(node.input) - 2, 0)
    inner, arriving = scope.inside(body, opset), [value.name for value in body.input]
    inner.seed(arriving[:2], [tensor_type(TensorProto.INT64, []), tensor_type(TensorProto.BOOL, [])])
    started = [scope.type(name) for name in node.input[2:]]
    inner.seed(arriving[2:], [kind and tensor_type(elem_type_of(kind)) for kind in started])
    for k, (name, value) in enumerate(zip(node.output, body.output[1:], strict=False)):
        elem_type, shape = inner.elem_type(value.name), inner.shape(value.name)
        if k < carried:
            shape = _agreed([scope.shape(node.input[2 + k]), shape])
        else:
            shape = None if shape is None else [None, *shape]
        scope.seed([name], [tensor_type(elem_type, shape)])


def _infer_scan(node: NodeProto, opset: int, scope: Known) -> None:
    """The states of a made Scan keep their shapes; what it collects has one axis more, as long as what it scans."""
    held = {attribute.name: attribute for attribute in node.attribute}
    body, scanned, batch = held["body"].g, held["num_scan_inputs"].i, int(opset < SCAN_WITHOUT_BATCH)
    operands = list(node.input)[batch:]
    states, known = len(operands) - scanned, [scope.shape(name) for name in operands]
    inner = scope.inside(body, opset)

    def axes(name: str) -> dict[int, int]:
        return dict(enumerate(held[name].ints)) if name in held else {}

    length: Dim = None
    elements: list[TypeProto] = []
    for k, (operand, shape) in enumerate(zip(operands, known, strict=True)):
        if shape is not None:
            shape = shape[batch:]
            if k >= states and shape:
                axis = axes("scan_input_axes").get(k - states, 0)
                length = shape[axis] if length is None else length
                shape = [dim for i, dim in enumerate(shape) if i != axis % len(shape)]
        elements.append(tensor_type(scope.elem_type(operand), shape))
    inner.seed([value.name for value in body.input], elements)
    first = next((shape[:1] for shape in known if shape), [None]) if batch else []
    for k, (name, value) in enumerate(zip(node.output, body.output, strict=False)):
        elem_type, shape = inner.elem_type(value.name), inner.shape(value.name)
        if shape is not None:
            if k >= states:
                axis = axes("scan_output_axes").get(k - states, 0) % (len(shape) + 1)
                shape = [*shape[:axis], length, *shape[axis:]]
            shape = first + shape
        scope.seed([name], [tensor_type(elem_type, shape)])


HOLDING_GRAPHS = {"If": _infer_branches, "Loop": _infer_loop, "Scan": _infer_scan}


def _agreed(shapes: list[list[Dim] | None]) -> list[Dim] | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return [dims[0] if len(set(dims)) == 1 else None for dims in zip(*known, strict=True)]


def _known(scope: Known, name: str) -> TypeProto | None:
    owner = scope.owner(name)
    if owner is scope and scope.origin(name) is not None:
        return scope.stated(name)
    return scope.type(name)


def _is_known(kind: TypeProto | None) -> bool:
    return kind is not None and (kind.WhichOneof("value") != "tensor_type" or kind.tensor_type.HasField("shape"))


def _infer(source: ModelProto, opened: Opened) -> tuple[dict[Path, dict[str, TypeProto]], frozenset[str]]:
    """The types of values by the path of their graph, and the names of those that hold of sizes of 1 or more alone."""
    import onnx.shape_inference

    light = without_weights(source)
    light.functions.extend(_definitions(source))
    claims.withdraw(light)
    try:
        with process.at_most(_room(light)):
            inferred = onnx.shape_inference.infer_shapes(light, data_prop=True)
            silent = _is_silent(inferred.graph)
            more = silent and _compute_constants(light, opened) | claims.state_lengths(light, inferred)
            for _ in range(_ROUNDS if silent else 0):
                if not _add_ranks(light.graph, inferred.graph, {}) | more:
                    break
                inferred = onnx.shape_inference.infer_shapes(light, data_prop=True)
                more = False
    except Exception:  # a model that inference cannot digest still has its declared types
        return {}, frozenset()
    found: dict[Path, dict[str, TypeProto]] = {}
    pending: list[tuple[Path, GraphProto]] = [((), inferred.graph)]
    while pending:
        path, graph = pending.pop()
        found[path] = {
            value.name: value.type
            for value in (*graph.value_info, *graph.output, *graph.input)
            if elem_type_of(value.type) or value.type.WhichOneof("value") not in (None, "tensor_type")
        }
        for index, node in enumerate(graph.node):
            if node.attribute:
                pending += [((*path, (index, attribute, k)), g) for attribute, k, g in subgraphs(node)]
    return found, frozenset(claims.granted(inferred))


def _is_silent(graph: GraphProto) -> bool:
    """Whether inference left something open."""
    stated = {
        value.name
        for value in (*graph.value_info, *graph.output)
        if has_shape(value.type) and not any(map(claims.is_made_up, claims.symbols(value.type)))
    }
    return any(name not in stated for node in graph.node for name in node.output if name)


def _compute_constants(light: ModelProto, opened: Opened) -> bool:
    """Let Constants take the place of nodes of the main graph that compute small ones; False if there are none."""
    opset = next((entry.version for entry in light.opset_import if not default_domain(entry.domain)), 1)
    scope = opened(light, opset)
    held = set(scope.initializers)
    computed: dict[int, TensorProto] = {}
    for index, node in enumerate(light.graph.node):
        if node.op_type != "Constant":
            named = [name for name in node.input if name]
            if not named or not held.issuperset(named) or len(node.output) != 1:
                continue
            tensor = scope.tensor(node.output[0], tensors.SMALL)
            if tensor is None or tensors.size(tensor) > tensors.SMALL:
                continue
            computed[index] = tensor
        elif any(tensors.size(attribute.t) > tensors.SMALL for attribute in node.attribute):
            continue  # which `without_weights` left without its values
        held.update(node.output)
    for index, tensor in computed.items():
        node = light.graph.node[index]
        node.op_type = "Constant"
        del node.input[:], node.attribute[:]
        node.attribute.append(make_attribute("value", tensor))
    return bool(computed)


def _add_ranks(light: GraphProto, inferred: GraphProto, lengths: dict[str, int]) -> bool:
    """State in `light` the ranks that follow from the lengths of shapes that nodes compute; whether there were any.

    `lengths` are those of vectors that are known around the graphs.
    """
    kinds = {value.name: value.type for value in (*inferred.input, *inferred.value_info, *inferred.output)}
    lengths = {name: n for name, n in lengths.items() if name not in kinds}
    lengths |= {tensor.name: tensor.dims[0] for tensor in inferred.initializer if len(tensor.dims) == 1}
    for name, kind in kinds.items():
        dims = kind.tensor_type.shape.dim
        if len(dims) == 1 and dims[0].HasField("dim_value"):
            lengths[name] = dims[0].dim_value
    stated = {value.name: value for value in (*light.value_info, *light.output)}
    found = False
    for node, told in zip(light.node, inferred.node, strict=True):
        for (_, _, graph), (_, _, other) in zip(subgraphs(node), subgraphs(told), strict=True):
            found |= _add_ranks(graph, other, lengths)
        at = _SHAPES.get(node.op_type) if not node.domain else None
        if at is None or len(node.input) <= at or node.input[at] not in lengths:
            continue
        name = node.output[0]
        known = kinds.get(name)
        if known is not None and known.tensor_type.HasField("shape"):
            continue
        rank = lengths[node.input[at]]
        if node.op_type == "Expand":
            data = kinds.get(node.input[0])
            if data is None or not data.tensor_type.HasField("shape"):
                continue
            rank = max(rank, len(data.tensor_type.shape.dim))
        if not 0 < rank <= _HIGHEST:
            continue
        value = stated.get(name) or light.value_info.add(name=name)
        if known is not None:
            value.type.CopyFrom(known)
        value.type.tensor_type.shape.SetInParent()
        for _ in range(rank):
            value.type.tensor_type.shape.dim.add()
        found = True
    return found


def contradiction(source: ModelProto) -> str:
    """What ONNX's strict inference finds wrong with a model; empty for nothing."""
    import onnx.shape_inference

    light = without_weights(source)
    try:
        with process.at_most(_room(light)):
            onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except MemoryError:
        return "vectors that it computes are too long"
    except Exception as error:
        return " ".join(str(error).split())
    return ""


def _room(light: ModelProto) -> int:
    """Far more memory than inference takes for a model whose vectors are no longer than those of any real one."""
    return (1 << 29) + 64 * light.ByteSize()


def _definitions(source: ModelProto) -> list[FunctionProto]:
    """The definitions of what the model calls and ONNX does not know, so that its results have types."""
    own = {(function.domain, function.name) for function in source.functions}
    found: dict[tuple[str, str], FunctionProto] = {}
    for body in bodies(source):
        for node in body.node:
            op = (node.domain, node.op_type)
            if schemas.known_domain(node.domain) or op in own or op in found or not functions.defined(*op):
                continue
            function = found[op] = FunctionProto()
            function.CopyFrom(functions.any_body(*op))
            function.domain, function.name = op
    return list(found.values())


def without_weights(source: ModelProto) -> ModelProto:
    """A copy for inference, in which every large initializer of the main graph is an input of the same type.

    Its large Constants have sizes, but no values.
    """
    light = ModelProto(ir_version=max(source.ir_version, 4))
    light.opset_import.extend(source.opset_import)
    light.functions.extend(source.functions)
    graph, old = light.graph, source.graph
    graph.name = old.name or "graph"
    graph.node.extend(old.node)
    for node in graph.node:
        if node.op_type == "Constant" and not default_domain(node.domain):
            for attribute in node.attribute:
                if attribute.HasField("t") and tensors.size(attribute.t) > tensors.SMALL:
                    attribute.t.CopyFrom(TensorProto(dims=attribute.t.dims, data_type=attribute.t.data_type))
    graph.input.extend(old.input)
    graph.output.extend(old.output)
    graph.value_info.extend(old.value_info)
    inputs = {value.name for value in old.input}
    for sparse in old.sparse_initializer:  # to its readers a tensor like any other, to inference a type of its own
        if sparse.values.name not in inputs:
            _add_input(graph, sparse.values.name, sparse.values.data_type, sparse.dims)
    for tensor in old.initializer:
        if source.ir_version >= OVERRIDABLE_SINCE and tensor.name in inputs:
            continue  # whoever runs the model may give another value
        if tensors.size(tensor) <= tensors.SMALL and not tensor.external_data:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in inputs:
            _add_input(graph, tensor.name, tensor.data_type, tensor.dims)
    for value in graph.input:
        if _is_long(value.type):
            value.type.tensor_type.shape.dim[0].Clear()
    if any(default_domain(entry.domain) != entry.domain for entry in light.opset_import):
        _without_alias(light)
    return light


def _add_input(graph: GraphProto, name: str, elem_type: int, dims: Iterable[int]) -> None:
    value = graph.input.add(name=name)
    value.type.tensor_type.elem_type = elem_type
    value.type.tensor_type.shape.SetInParent()
    for dim in dims:
        value.type.tensor_type.shape.dim.add().dim_value = dim


def _without_alias(light: ModelProto) -> None:
    """ONNX's inference knows the default domain by its empty name alone."""
    holders: list[ModelProto | FunctionProto] = [light, *light.functions]
    for holder in holders:
        for entry in holder.opset_import:
            entry.domain = default_domain(entry.domain)
    for body in bodies(light):
        for node in body.node:
            if node.domain:
                node.domain = default_domain(node.domain)
