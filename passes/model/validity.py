"""Whether a model is one that ONNX allows: what `onnx.checker` finds wrong, without a look at weights.

`DIFFERENT` says where the verdict is another one on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from opshift.passes.errors import InvalidModel, OutOfOrder, brief
from opshift.passes.model import legality, schemas, tensor_validity
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    normalize_domain,
)

DIFFERENT = {
    "operators that runtimes have in the default domain": "they are refused, not broken: see `RUNTIME_EXTENSIONS`",
    "GroupNormalization 18, which was deprecated after the fact": "models of its time are right",
    "`ai.onnx` for the default domain, in imports or nodes": "the specification makes it an alias",
    "an input or output of the graph whose type has no shape": "it says that nothing is known of the shape",
    "an output of the model without a type": "it follows from the nodes; runtimes compute it",
    "attributes without a type in IR 1": "the field came with IR 2",
    "functions at an opset that means another operator than the model's": "each function is read at its own opset",
    "more than 10,000 functions, or calls 100 deep": "a limit against malice; another one counts nodes",
    "whether external data lie where they are said to": "looked up beside the model, when it is read",
    "bits behind the last value of packed data": "weights are not looked at",
    "values of a sparse tensor in external data": "the checker cannot read them",
    "opsets that are imported twice, or are newer than all that are known": "nobody can tell what is meant",
    "a function that calls itself, in any IR version": "nobody can run it",
}
"""What the checker decides otherwise, and why it is decided so here."""

RUNTIME_EXTENSIONS: dict[str, int] = {
    **dict.fromkeys(["Affine", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler"], 0),
    **dict.fromkeys(["ATen", "ConstantFill", "ParametricSoftplus", "Scale", "ScaledTanh"], 0),
    **dict.fromkeys(["DisentangledAttention_TRT", "EfficientNMS_TRT", "MultilevelCropAndResize_TRT"], 0),
    **dict.fromkeys(["PyramidROIAlign_TRT", "MemcpyFromHost", "MemcpyToHost", "SimplifiedLayerNormalization"], 0),
    "LayerNormalization": 17,
    "MeanVarianceNormalization": 9,
    "ThresholdedRelu": 10,
}
"""Operators that onnxruntime has in the default domain, or ONNX had as experiments, and when they became ONNX's own."""

_DEPRECATED_LATER = {("GroupNormalization", 18)}
_WITH_MORE_ATTRIBUTES = {("LayerNormalization", 17)}
"""Operators that may have attributes which their schemas do not have."""

_NEWEST_IR = 14
_WITHOUT_OPERATORS = "ai.onnx.training"
FUNCTIONS_SINCE = 8
_OPTIONAL_INPUTS_SINCE = 4
_TYPED_SINCE = 2
_IMPORTS_SINCE = 3

_VALUE_FIELDS = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "tp": AttributeProto.TYPE_PROTO,
    "sparse_tensor": AttributeProto.SPARSE_TENSOR,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
    "sparse_tensors": AttributeProto.SPARSE_TENSORS,
    "type_protos": AttributeProto.TYPE_PROTOS,
}
_MESSAGES = {_VALUE_FIELDS[name]: name for name in ("t", "g", "tp", "sparse_tensor")}

Scope = tuple[set[str], ...]
"""The names that are known at a place, innermost graph first."""


def fault(why: str, node: NodeProto | None = None, where: str = "") -> InvalidModel:
    """What is wrong with a model, and which node shows it."""
    told = f" ({where})" if where else ""
    if node is not None:
        name = node.name or next(filter(None, node.output), "")
        domain = normalize_domain(node.domain)
        op = f"{domain}::{node.op_type}" if domain else node.op_type
        return InvalidModel(brief(f'the model is not valid: {op} "{name}"{told}: {why}'))
    return InvalidModel(brief(f"the model is not valid{told}: {why}"))


def check(model: ModelProto) -> None:
    """Raise `InvalidModel` for the first thing that ONNX does not allow."""
    check_header(model)
    check_graph(model)
    check_functions(model)


def check_graph(model: ModelProto) -> None:
    """The same for the graph of a model, and those that are nested in it."""
    ValidityWalk(model.ir_version, imports(model)).graph(model.graph, (), main=True)


def check_header(model: ModelProto) -> None:
    """The same for what a model says before its graph."""
    version = model.ir_version
    if not 1 <= version <= _NEWEST_IR:
        raise fault(f"unknown IR version {version}; supported: 1 to {_NEWEST_IR}")
    keys = [entry.key for entry in model.metadata_props]
    if len(set(keys)) < len(keys):
        raise fault(f"metadata_props has {_twice(keys)!r} twice")
    if version >= _IMPORTS_SINCE and not model.opset_import:
        raise fault("it imports no opset, which is required from IR version 3 on")
    if version < _IMPORTS_SINCE and model.opset_import:
        raise fault(f"it imports an opset, which IR version {version} does not allow")


def check_functions(model: ModelProto) -> None:
    """The same for the functions; IR versions that know none do not look at them."""
    if model.ir_version < FUNCTIONS_SINCE:
        return
    seen: set[tuple[str, str, str]] = set()
    for function in model.functions:
        key = function.domain, function.name, function.overload
        if key in seen:
            raise fault(f"function {function.name!r} of domain {function.domain!r} is defined twice")
        seen.add(key)
    for function in model.functions:
        where = f"function {function.name}"
        ValidityWalk(model.ir_version, imports(function), where).function(function)


def imports(holder: ModelProto | FunctionProto) -> dict[str, int]:
    """The opset by domain; a model of IR 1 or 2 says nothing and means 1."""
    found = {normalize_domain(entry.domain): entry.version for entry in holder.opset_import}
    if isinstance(holder, ModelProto) and holder.ir_version < _IMPORTS_SINCE:
        found.setdefault("", 1)
    return found


class ValidityWalk:
    """Looks at each node once, in order; of calls that differ in names alone the schema is asked once."""

    def __init__(self, ir_version: int, opsets: dict[str, int], where: str = ""):
        self._ir = ir_version
        self._opsets = opsets
        self._where = where
        self._judge = legality.LegalityJudge()

    @property
    def is_early(self) -> bool:
        """Whether every initializer is an input as well."""
        return self._ir < _OPTIONAL_INPUTS_SINCE

    @property
    def has_operators(self) -> bool:
        """Whether the default domain is imported."""
        return "" in self._opsets

    def takes_all_of(self, domain: str) -> bool:
        """Whether a domain is imported, and nobody says how its operators are called."""
        name = normalize_domain(domain)
        return name in self._opsets and not schemas.is_onnx_domain(name) and name != _WITHOUT_OPERATORS

    def graph(self, graph: GraphProto, outer: Scope, *, main: bool = False) -> None:
        """Raise `InvalidModel` for the first fault of a graph, in which the names of `outer` are known."""
        own = self.frame(graph, main=main)
        self._nodes(graph.node, own, outer)
        for value in graph.output:
            if value.name not in own:
                self._fail(f"no node computes {value.name!r}, an output of graph {graph.name!r}")

    def frame(self, graph: GraphProto, *, main: bool) -> set[str]:
        """The same for all of a graph but its nodes; the names of its inputs and initializers."""
        own = self.values(graph, main=main)
        self._initializers(graph, own)
        return own

    def values(self, graph: GraphProto, *, main: bool) -> set[str]:
        """The same for the inputs and outputs of a graph; the names of the inputs."""
        if not graph.name:
            self._fail("a graph has no name")
        for value in (*graph.input, *graph.output):
            if not value.name:
                self._fail("an input or output of a graph has no name")
        for value in graph.input if main else ():
            if missing := missing_of(value):
                self._fail(f"{value.name!r}, an input of the model, has no {missing}")
        return self._distinct([value.name for value in graph.input], "inputs of a graph")

    def function(self, function: FunctionProto) -> None:
        """The same for a function, which knows nothing but its inputs."""
        self._nodes(function.node, self.formals(function), ())

    def formals(self, function: FunctionProto) -> set[str]:
        """The same for all of a function but its nodes; the names of its inputs."""
        if not function.name:
            self._fail("a function has no name")
        if not function.HasField("domain"):
            self._fail("it has no domain, which every function has")
        own = self._distinct(function.input, "inputs of a function")
        self._distinct(function.output, "outputs of a function")
        self._distinct(function.attribute, "attributes of a function")
        return own

    def passes(self, node: NodeProto) -> bool:
        """Whether `call` finds nothing."""
        try:
            self.call(node)
        except InvalidModel:
            return False
        return True

    def call(self, node: NodeProto) -> None:
        """Raise `InvalidModel` for what is wrong with a node, whatever its values are called; graphs stay shut."""
        if not node.op_type:
            self._fail("a node has no op_type", node)
        if not node.input and not node.output:
            self._fail("a node has neither inputs nor outputs", node)
        domain = normalize_domain(node.domain)
        opset = self._opsets.get(domain)
        if opset is None:
            self._fail(f"its domain {domain or 'ai.onnx'!r} is not imported", node)
        if node.attribute:
            names = [attribute.name for attribute in node.attribute]
            if len(set(names)) < len(names):
                self._fail(f"attribute {_twice(names)!r} is given twice", node)
            for attribute in node.attribute:
                self._attribute(attribute, node)
        schema = schemas.schema(domain, node.op_type, opset)
        if is_runtime_extension(domain, node.op_type, opset) or (
            schema and (node.op_type, schema.since) in _DEPRECATED_LATER
        ):
            return
        if domain == _WITHOUT_OPERATORS:
            self._fail("its domain has no operators", node)
        if why := self._why_not(node, opset, schema):
            self._fail(f"not legal at opset {opset}: {why}", node)
        if schema is not None:
            self._fits(node, schema)

    def _why_not(self, node: NodeProto, opset: int, schema: schemas.Schema | None) -> str:
        why = self._judge.why_not(node, opset)
        if not why or schema is None or (node.op_type, schema.since) not in _WITH_MORE_ATTRIBUTES:
            return why
        known = NodeProto(op_type=node.op_type, input=node.input, output=node.output)
        known.attribute.extend(attribute for attribute in node.attribute if attribute.name in schema.attributes)
        return self._judge.why_not(known, opset)

    def _fits(self, node: NodeProto, schema: schemas.Schema) -> None:
        """What a schema asks of a call besides the number of its inputs and the types of its attributes."""
        for role, names, formals in (("input", node.input, schema.inputs), ("output", node.output, schema.outputs)):
            if "" not in names:
                continue
            for index, (name, formal) in enumerate(zip(names, formals, strict=False)):
                if not name and formal.option == "Single":
                    self._fail(f"{role} {index} ({formal.name}) is missing, but required", node)
        for attribute in node.attribute:
            field = _MESSAGES.get(attribute.type)
            if field and not attribute.ref_attr_name and not attribute.HasField(field):
                self._fail(f"attribute {attribute.name!r} holds no value", node)
            if attribute.name == "num_outputs" and not schema.domain and 0 < attribute.i < len(node.output):
                why = f"num_outputs={attribute.i} with {len(node.output)} outputs"
                self._fail(f"{why}, which may crash ONNX's shape inference", node)

    def _initializers(self, graph: GraphProto, own: set[str]) -> None:
        """Their names become known."""
        seen: set[str] = set()
        for tensor in graph.initializer:
            name = tensor.name
            if not name:
                self._fail("an initializer has no name")
            if name in seen:
                self._fail(f"initializer {name!r} is defined twice")
            self._tensor(tensor)
            if self.is_early and name not in own:
                self._fail(f"initializer {name!r} is not an input of the graph, as IR versions below 4 require")
            seen.add(name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            if not name:
                self._fail("a sparse initializer has no name")
            if name in seen:
                self._fail(f"initializer {name!r} is defined twice")
            self._sparse(sparse)
            seen.add(name)
            own.add(name)
        if not self.is_early:
            own |= seen

    def _nodes(self, nodes: Iterable[NodeProto], own: set[str], outer: Scope) -> None:
        """What they make becomes known."""
        for node in nodes:
            for name in node.input:
                if name and name not in own and not any(name in names for names in outer):
                    found = fault(f"it reads {name!r}, which no earlier node computes", node, self._where)
                    raise OutOfOrder(str(found))
            self.call(node)
            for attribute in node.attribute:
                for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                    self.graph(graph, (own, *outer))
            for name in node.output:
                if name:
                    if name in own or any(name in names for names in outer):
                        self._fail(f"it computes {name!r}, which exists already", node)
                    own.add(name)

    def _attribute(self, attribute: AttributeProto, node: NodeProto) -> None:
        name = attribute.name
        if not name:
            self._fail("an attribute has no name", node)
        if self._ir >= _TYPED_SINCE and not attribute.HasField("type"):
            self._fail(f"attribute {name!r} has no type", node)
        held = [_VALUE_FIELDS[field.name] for field, _ in attribute.ListFields() if field.name in _VALUE_FIELDS]
        if len(held) > 1:
            self._fail(f"attribute {name!r} holds {len(held)} values; it must hold one", node)
        if held and attribute.HasField("type") and held[0] != attribute.type:
            kinds = AttributeProto.AttributeType.Name
            self._fail(f"attribute {name!r} has type {kinds(attribute.type)}, but holds {kinds(held[0])}", node)
        if attribute.HasField("t"):
            self._tensor(attribute.t, node)
        if attribute.HasField("sparse_tensor"):
            self._sparse(attribute.sparse_tensor, node)
        for tensor in attribute.tensors:
            self._tensor(tensor, node)
        for sparse in attribute.sparse_tensors:
            self._sparse(sparse, node)

    def _tensor(self, tensor: TensorProto, node: NodeProto | None = None) -> None:
        if why := tensor_validity.fault(tensor):
            self._fail(f"tensor {tensor.name!r} {why}", node)

    def _sparse(self, sparse: SparseTensorProto, node: NodeProto | None = None) -> None:
        if not sparse.HasField("values"):
            self._fail("a sparse tensor has no values", node)
        self._tensor(sparse.values, node)
        if sparse.HasField("indices"):
            self._tensor(sparse.indices, node)
        if why := tensor_validity.sparse_fault(sparse):
            self._fail(f"sparse tensor {sparse.values.name!r} {why}", node)

    def _distinct(self, names: Iterable[str], role: str) -> set[str]:
        held = list(names)
        found = set(held)
        if len(found) < len(held):
            self._fail(f"{_twice(held)!r} is twice among the {role}")
        return found

    def _fail(self, why: str, node: NodeProto | None = None) -> NoReturn:
        raise fault(why, node, self._where)


def is_runtime_extension(domain: str, op: str, opset: int) -> bool:
    """Tell whether a runtime has an operator in the default domain that ONNX does not have at this opset."""
    since = RUNTIME_EXTENSIONS.get(op) if not domain else None
    return since is not None and (since == 0 or opset < since)


def _twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def missing_of(value: ValueInfoProto) -> str:
    """What the type of an input or output of a model lacks."""
    which = value.type.WhichOneof("value")
    if which is None:
        return "type"
    held = getattr(value.type, which)
    if which == "opaque_type":
        return "" if held.name else "name of its type"
    needed = ("key_type", "value_type") if which == "map_type" else ("elem_type",)
    return "" if all(map(held.HasField, needed)) else "element type"
