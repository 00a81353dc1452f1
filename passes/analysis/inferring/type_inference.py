"""Types and shapes: inferred once for the source model from its inputs, lazily and without its weights; node by node
for what the conversion adds."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from google.protobuf.message import Error as ProtobufError
from opshift.passes import process
from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import Path
from opshift.passes.analysis.inferring import corrected
from opshift.passes.analysis.inferring.inferred_defaults import state_all
from opshift.passes.analysis.inferring.node_inference import infer_node, is_known
from opshift.passes.analysis.inferring.weightless import surveyed, without_weights
from opshift.passes.analysis.knowledge import Known
from opshift.passes.analysis.shapes import Shapes, Sizes, granted, graph_types
from opshift.passes.changes import Change
from opshift.passes.errors import InvalidModel
from opshift.passes.model import installed, legality, schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    default_domain,
)
from opshift.passes.model.traversal import Calls, bodies, census, declarations, holding, subgraphs, with_nested
from opshift.passes.model.types import has_shape

from opshift import functions

Opened = Callable[[ModelProto, int], Known]
"""What is known of the main graph of a model, at the opset of its nodes."""


_SHAPES = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}
"""The operators whose result has as many dimensions as a vector that they take has elements, and which input it is."""

_ROUNDS = 32  # of inference, each of which takes in the ranks that the one before let follow
_HIGHEST = 64  # rank that is believed


class Inference:
    """Answers for the values of one source model."""

    def __init__(self, source: ModelProto, opened: Opened):
        self._source = source
        self._opened = opened
        self._shapes: dict[Path, Shapes] | None = None
        self._inferred: ModelProto | None = None
        self._granted: set[str] = set()
        self._contradictions: list[Change] | None = None
        self._told: set[tuple[Known, str]] | None = None
        self.less: set[str] = set()
        """Values of whose sizes an older onnx may know less than the newest."""

    @property
    def was_asked(self) -> bool:
        """Whether types were inferred, which happens at the first question."""
        return self._shapes is not None

    def now(self) -> None:
        """Infer the types of the model as it is now, which may be changed later."""
        if self._shapes is None:
            self._shapes, self._inferred = _infer(self._source, self._opened)
            if installed.infers_less():
                self.less = _known_less(self._source, self._shapes.values())

    def type(self, path: Path, name: str) -> TypeProto | None:
        """The inferred type of a value of the source graph at `path`."""
        known = self._of(path)
        found = None if known is None else known.types.get(name)
        return found if found is not None and _is_told(found) else None

    def sizes(self, path: Path, name: str) -> Sizes | None:
        """The sizes of that type; None where it has no shape."""
        known = self._of(path)
        found = None if known is None else known.of(name)
        return found if found is not None and self.type(path, name) is not None else None

    def _of(self, path: Path) -> Shapes | None:
        if self._shapes is None:
            self.now()
        return (self._shapes or {}).get(path)

    @property
    def granted(self) -> set[str]:
        """Values whose inferred shapes hold of sizes of 1 or more alone, as far as anybody asked for types."""
        if self._inferred is not None:
            self._granted, self._inferred = granted(self._inferred, self._anywhere), None
        return self._granted

    def _anywhere(self, name: str) -> Sizes | None:
        """The sizes of a value of any graph."""
        held = (self._shapes or {}).values()
        return next((found for shapes in held if (found := shapes.of(name)) is not None), None)

    def contradictions(self) -> list[Change]:
        """What the model declares of shapes that is not so, as far as anybody asked for types."""
        if self._shapes is None:
            return []
        if self._contradictions is None:
            self._contradictions = list(claims.contradictions(self._source, self.type))
        return self._contradictions

    def node(self, node: NodeProto, opset: int, scope: Known) -> None:
        """Infer the outputs of one made node, and of the made nodes it hangs on, into `scope.typed`.

        The graphs that nodes hold ask in turn. Until the first question is answered each node is inferred once: what it
        hangs on was inferred before it, so that a second time would tell nothing else.
        """
        if self._told is not None:
            self._follow(node, opset, scope, self._told)
            return
        self._told = set()
        try:
            self._follow(node, opset, scope, self._told)
        finally:
            self._told = None

    def _follow(self, node: NodeProto, opset: int, scope: Known, told: set[tuple[Known, str]]) -> None:
        pending = [(node, opset)]
        visited: set[str] = set()
        while pending:
            current, version = pending[-1]
            visited.add(current.output[0])
            if (scope, current.output[0]) in told:
                pending.pop()
                continue
            origins = [scope.origin(name) for name in current.input if not is_known(scope.stated(name))]
            waiting = [o for o in origins if o is not None and o[0].output[0] not in visited]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            infer_node(current, version, scope)
            if self.less and not self.less.isdisjoint(current.input):
                self.less.update(name for name in current.output if not is_whole(scope.typed.get(name)))
            scope.judged(current)
            told.add((scope, current.output[0]))


def _infer(source: ModelProto, opened: Opened) -> tuple[dict[Path, Shapes], ModelProto | None]:
    """The types of values by the path of their graph, and the model in which they were found, if it may be misread."""
    light, (held, calls) = surveyed(source)
    defined = _definitions(light, calls)
    if defined:
        light.functions.extend(defined)
        held, calls = census([*reversed(light.functions), light.graph])
    _check_installed(light)
    claims.withdraw(light, held)
    ops = {(default_domain(domain), op) for domain, op in calls}
    try:
        with process.at_most(lambda: _room(light)):
            inferred = corrected.inferred(light, ops)
            known = Shapes(graph_types(inferred.graph))
            silent = _is_silent(inferred.graph, known)
            more = silent and _compute_constants(light, opened)
            if silent and ("", "Range") in ops:
                more |= claims.state_lengths(light, inferred)
            for _ in range(_ROUNDS if silent else 0):
                if not _add_ranks(light.graph, inferred.graph, kinds=known.types) | more:
                    break
                inferred = corrected.inferred(light, ops)
                known = Shapes(graph_types(inferred.graph))
                more = False
    except Exception:  # a model that inference cannot digest still has its declared types
        return {}, None
    found: dict[Path, Shapes] = {(): known}
    pending: list[tuple[Path, GraphProto]] = [((), inferred.graph)] if len(held) > 1 else []
    while pending:
        path, graph = pending.pop()
        for index, node in holding(graph):
            inner = [((*path, (index, attribute, k)), g) for attribute, k, g in subgraphs(node)]
            found.update((at, Shapes(graph_types(g))) for at, g in inner)
            pending += inner
    return found, inferred if ("", "Reshape") in ops else None


def _is_told(kind: TypeProto) -> bool:
    """Whether a type says anything."""
    return bool(kind.tensor_type.elem_type) or kind.WhichOneof("value") not in (None, "tensor_type")


_SIZED = frozenset(["Reshape", "Expand", "Einsum", "Gemm", "MeanVarianceNormalization"])
"""The operators of which onnx has inferred more since 1.18."""


def _known_less(source: ModelProto, inferred: Iterable[Shapes]) -> set[str]:
    """What these make where sizes are left open, and what hangs on that."""
    known = {name: kind for held in inferred for name, kind in held.types.items()}
    found: set[str] = set()
    for body in bodies(source):
        for node in body.node:
            if node.op_type in _SIZED or not found.isdisjoint(node.input):
                found.update(name for name in node.output if not is_whole(known.get(name)))
    return found


def is_whole(kind: TypeProto | None) -> bool:
    """Whether a type leaves nothing open but what the model itself gives a name."""
    if kind is None or not has_shape(kind):
        return False
    dims = kind.tensor_type.shape.dim
    named = (dim.dim_param for dim in dims if not dim.HasField("dim_value"))
    return all(name and not claims.is_made_up(name) for name in named)


def _is_silent(graph: GraphProto, known: Shapes) -> bool:
    """Whether inference left something open, by which these shapes are `known`."""
    shapes = (known.of(name) for node in graph.node for name in node.output[:] if name)
    return any(
        sizes is None or any(isinstance(size, str) and claims.is_made_up(size) for size in sizes) for sizes in shapes
    )


def _compute_constants(light: ModelProto, opened: Opened) -> bool:
    """Let Constants take the place of nodes of the main graph that compute small ones; False if there are none."""
    opset = next((entry.version for entry in light.opset_import if not default_domain(entry.domain)), 1)
    scope = opened(light, opset)
    held = {"", *scope.initializers}
    computed: dict[int, TensorProto] = {}
    for index, node in enumerate(light.graph.node):
        if node.op_type != "Constant":
            named = node.input[:]
            if not held.issuperset(named) or not any(named) or len(node.output) != 1:
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


def _add_ranks(
    light: GraphProto,
    inferred: GraphProto,
    outer: Callable[[str], int | None] = lambda _: None,
    kinds: Mapping[str, TypeProto] | None = None,
) -> bool:
    """State in `light` the ranks that follow from the lengths of shapes that nodes compute; whether there were any.

    `outer` tells the lengths of vectors that are known around the graphs, `kinds` what is `inferred`, if it was read.
    """
    shaped = [node for node in light.node if node.op_type in _SHAPES and not node.domain]
    nested = holding(light)
    if not shaped and not nested:
        return False
    kinds = graph_types(inferred) if kinds is None else kinds
    lengths = {tensor.name: tensor.dims[0] for tensor in inferred.initializer if len(tensor.dims) == 1}

    def length(name: str) -> int | None:
        if name in kinds:
            dims = kinds[name].tensor_type.shape.dim
            if len(dims) == 1 and dims[0].HasField("dim_value"):
                return int(dims[0].dim_value)
        return lengths.get(name) if name in kinds or name in lengths else outer(name)

    stated = {value.name: value for value in (*light.value_info, *light.output)}
    found = False
    for index, node in nested:
        for (_, _, graph), (_, _, other) in zip(subgraphs(node), subgraphs(inferred.node[index]), strict=True):
            found |= _add_ranks(graph, other, length)
    for node in shaped:
        name = node.output[0]
        rank = _rank(node, kinds, length)
        if rank is None:
            continue
        value = stated.get(name) or light.value_info.add(name=name)
        if name in kinds:
            value.type.CopyFrom(kinds[name])
        value.type.tensor_type.shape.SetInParent()
        for _ in range(rank):
            value.type.tensor_type.shape.dim.add()
        found = True
    return found


def _rank(node: NodeProto, kinds: Mapping[str, TypeProto], length: Callable[[str], int | None]) -> int | None:
    """The rank of what a node makes by the length of the shape that it takes, if it is not among the `kinds`."""
    at, known = _SHAPES[node.op_type], kinds.get(node.output[0])
    if len(node.input) <= at or (known is not None and known.tensor_type.HasField("shape")):
        return None
    rank = length(node.input[at])
    if rank is not None and node.op_type == "Expand":
        data = kinds.get(node.input[0])
        if data is None or not data.tensor_type.HasField("shape"):
            return None
        rank = max(rank, len(data.tensor_type.shape.dim))
    return rank if rank is not None and 0 < rank <= _HIGHEST else None


def contradiction(source: ModelProto, *, checked: bool = True) -> str:
    """What ONNX's strict inference finds wrong with a model, as `onnx.checker` takes it, if so; empty for nothing."""
    import onnx.shape_inference

    light = without_weights(source, checked=checked)
    _check_installed(light)
    try:
        with process.at_most(lambda: _room(light)):
            onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except MemoryError:
        return "vectors that it computes are too long"
    except Exception as error:
        return " ".join(str(error).split())
    return ""


def _beside(model: ModelProto, names: Container[str]) -> dict[str, TypeProto]:
    """The shapes of these values by ONNX's inference, whatever is declared of them."""
    import onnx.shape_inference

    light = without_weights(model, checked=True)
    for value in declarations(light):
        if value.name in names:
            claims.forget(value.type)
    try:
        with process.at_most(lambda: _room(light)):
            inferred = onnx.shape_inference.infer_shapes(light)
    except Exception:  # what it cannot digest stays as it is declared
        return {}
    return {v.name: v.type for v in declarations(inferred) if v.name in names and has_shape(v.type)}


def mend(model: ModelProto, source: ModelProto) -> list[Change]:
    """Let `model` declare what ONNX's inference makes of its values, wherever `source` declares otherwise of them.

    Where that leaves a contradiction, it is among what inference says nothing of: that is left open.
    """
    state_all(*census([*reversed(model.functions), model.graph]))
    declared = claims.declared(source)
    known = _beside(model, declared)
    claims.mend(model, known)
    if contradiction(model):
        claims.open_unconfirmed(model, declared, known)
    return list(claims.contradictions(source, lambda _, name: known.get(name)))


@contextmanager
def blaming(source: ModelProto) -> Iterator[None]:
    """Rewrites trust that nodes have what they must have: `InvalidModel` says where they fail for want of it."""
    try:
        yield
    except (InvalidModel, ProtobufError):
        raise
    except Exception as error:
        for problem in legality.problems(source):
            raise InvalidModel(f"the model is not valid: {problem.op} {problem.node!r} is {problem.why}") from error
        if why := contradiction(source):
            raise InvalidModel(f"the model is not valid: {why}") from error
        if isinstance(error, ValueError):  # which to a user means something that was asked for in vain
            raise RuntimeError(str(error)) from error
        raise


def _check_installed(light: ModelProto) -> None:
    """Raise `Lacking` where the installed onnx infers something else than the opsets that are imported say."""
    if not installed.is_old():
        return
    holders: list[ModelProto | FunctionProto] = [light, *light.functions]
    for holder in holders:
        body = holder if isinstance(holder, FunctionProto) else holder.graph
        nodes = (node for inner in with_nested([body]) for node in inner.node)
        installed.check_inference({(node.domain, node.op_type) for node in nodes}, opsets(holder))


def _room(light: ModelProto) -> int:
    """Far more memory than inference takes for a model whose vectors are no longer than those of any real one."""
    return (1 << 29) + 64 * light.ByteSize()


def _definitions(light: ModelProto, calls: Calls) -> list[FunctionProto]:
    """The definitions of what the model calls and ONNX does not know, so that its results have types."""
    own = {(function.domain, function.name) for function in light.functions}
    found: list[FunctionProto] = []
    for op in calls:
        if schemas.known_domain(op[0]) or op in own or not functions.defined(*op):
            continue
        function = FunctionProto()
        function.CopyFrom(functions.any_body(*op))
        function.domain, function.name = op
        found.append(function)
    return found
