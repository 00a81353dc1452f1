"""A network of OpenVINO IR as an ONNX model at one opset; what has no counterpart is refused, all of it at once."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from opshift.functions import OPENVINO
from opshift.passes.analysis.scope import Context, Scope, has_shape
from opshift.passes.changes import Change, Result
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel, Refusal
from opshift.passes.model import schemas, tensor_data
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from opshift.passes.model.schemas import legal_types
from opshift.passes.model.types import Dim, tensor_type, type_text
from opshift.passes.openvino import (  # noqa: F401 (each registers what it maps)
    bags,
    blocks,
    colors,
    control,
    decoding,
    detection,
    elementwise,
    generate_proposals,
    indexing,
    layout,
    nn,
    normalization,
    pools,
    position_sensitive,
    priors,
    proposal,
    recurrent,
    reduction,
    regions,
    resampling,
    spectral,
    suppression,
    yolo,
)
from opshift.passes.openvino.layer import MAPPINGS, OPSET, Layer, Nested, Unmapped
from opshift.passes.openvino.network import Body, Dims, End, Entry, Network, Port, element_type, split_names
from opshift.passes.openvino.refused import REFUSED
from opshift.passes.openvino.stated import forget_sizes
from opshift.passes.rewrite.builder import Builder

INTERNAL = ("RMS",)  # operators that OpenVINO's own transformations make
SMALL = 1024  # bytes of a constant that comes into the message: a parameter rather than a weight
DOMAIN = "openvino"
"""What reports call the domain of IR's layers."""
STATED = "ONNX needs the rank of each input and output"


def translate(network: Network, folder: str | None) -> Result:
    """The network as ONNX at `OPSET`, with weights as external data in the file that IR has for them.

    Args:
        network: read and checked by `xml_file`.
        folder: where the file of its weights lies.

    Raises:
        InvalidModel: a small constant cannot be read.
    """
    model = ModelProto(ir_version=schemas.ir_version("", OPSET), producer_name="opshift")
    model.opset_import.add(domain="", version=OPSET)
    model.graph.name = network.name or "network"
    for key, value in network.metadata.items():
        model.metadata_props.add(key=key, value=value)
    forget_sizes(network.graph)
    whole = _SharedByGraphs(model, network, folder)
    _Graph(network.graph, model.graph, whole).translate()
    if whole.refusals:
        return Result(None, (), tuple(whole.refusals))
    used = {(node.domain, node.op_type) for node in model.graph.node if node.domain == OPENVINO}
    if used:
        model.opset_import.add(domain=OPENVINO, version=1)
        made = convert.convert_model(model, {"": OPSET}, ops=used, folder=folder)
        return Result(made.model, tuple(whole.changes), made.refusals)
    return Result(model, tuple(whole.changes), ())


class _SharedByGraphs:
    """What the graphs of one network share."""

    def __init__(self, model: ModelProto, network: Network, folder: str | None):
        self.model = model
        self.weights = network.weights
        self.folder = folder
        self.refusals: list[Refusal] = []
        self.changes: list[Change] = []
        self.taken: Counter[str] = Counter()
        self.context = Context(model, _names_of(network), folder)

    def name(self, wanted: str) -> str:
        """`wanted`, with a number where another value has that name already."""
        name = wanted
        while self.taken[name]:
            self.taken[wanted] += 1
            name = f"{wanted}.{self.taken[wanted]}"
        self.taken[name] += 1
        return name


class _Graph:
    """One graph on its way into ONNX. `bound` are the values of an outer graph that inputs of a body stand for."""

    def __init__(
        self,
        body: Body,
        graph: GraphProto,
        whole: _SharedByGraphs,
        outer: Scope | None = None,
        bound: dict[str, str] | None = None,
    ):
        self.body = body
        self.graph = graph
        self.whole = whole
        self.bound = bound
        self.values: dict[End, str] = {}
        self.results: dict[str, str] = {}
        self.lost: set[str] = set()  # values that hang on a layer that is refused
        self.declared: dict[str, ValueInfoProto] = {}
        self.read = set(body.edges.values())
        self._name_all()
        self.scope = Scope(graph, whole.context, OPSET, outer)

    def _name_all(self) -> None:
        """Every value has a name, and its type is declared, before anything is made of it."""
        for entry in self.body.layers:
            for index, port in enumerate(entry.outputs):
                end = End(entry.id, port.id)
                if self.bound is not None and entry.type == "Parameter":
                    if entry.id not in self.bound:
                        raise Unmapped(f"input {entry.id} of its body is not connected")
                    self.values[end] = self.bound[entry.id]
                    continue
                plain = entry.name if len(entry.outputs) == 1 else f"{entry.name}.{index}"
                name = self.whole.name(next(iter(port.names), plain) or f"layer{entry.id}")
                self.values[end] = name
                value_type = _declare(entry, port)
                if entry.type == "Parameter":
                    self.graph.input.add(name=name).type.CopyFrom(value_type)
                elif entry.type != "Const" and port.elem_type:
                    self.declared[name] = self.graph.value_info.add(name=name)
                    self.declared[name].type.CopyFrom(value_type)

    def translate(self) -> None:
        for entry in self.body.layers:
            try:
                self._add(entry)
            except Unmapped as error:
                outputs = [self.values[End(entry.id, port.id)] for port in entry.outputs]
                self.lost.update(outputs)  # what reads them is judged by the types that they are declared to have
                self.scope.record(NodeProto(op_type=entry.type, domain=DOMAIN, output=outputs), OPSET)
                kind = f"{entry.type}-{entry.version}" if entry.version else f"{entry.type} ({entry.opset})"
                where = f"layer {entry.id}"
                self.whole.refusals.append(Refusal(entry.name, kind, DOMAIN, 0, True, str(error), where))

    def _nest(self, body: Body, bound: dict[str, str]) -> Nested:
        graph = GraphProto(name=self.whole.name("body"))
        inner = _Graph(body, graph, self.whole, self.scope, bound)
        build = Builder(inner.scope, OPSET)

        def finish(results: Sequence[str]) -> list[str]:
            graph.node.extend(build.nodes)
            inner.translate()
            missing = [result for result in results if result not in inner.results]
            if missing:
                raise Unmapped(f"its body has no result {missing[0]}, or one that ONNX cannot express")
            return [inner.results[result] for result in results]

        return Nested(graph, build, finish)

    def _add(self, entry: Entry) -> None:
        if entry.type == "Parameter":
            kind = entry.attributes.get("element_type", "")
            if self.bound is None and not element_type(kind):
                raise Unmapped(f"element_type={kind or 'dynamic'}, which ONNX does not have")
            if self.bound is None and _partial(entry) is None:
                raise Unmapped(f"an input of dynamic rank; {STATED}")
            return
        if entry.type == "Const":
            tensor = _constant(entry, self.values[End(entry.id, entry.outputs[0].id)], self.whole)
            self.scope.hold(tensor.name, tensor)
            return
        inputs = [self.values[self.body.edges[End(entry.id, port.id)]] for port in entry.inputs]
        if not self.lost.isdisjoint(inputs):
            self.lost.update(self.values[End(entry.id, port.id)] for port in entry.outputs)
        if entry.type == "Result":
            self.results[entry.id] = inputs[0]
            if self.bound is None:
                self._result(entry, inputs[0])
            return
        mapping = MAPPINGS.get(entry.type)
        if mapping is None or (not entry.opset.startswith("opset") and entry.type not in INTERNAL):
            raise Unmapped(REFUSED.get(entry.type, "opshift does not know this layer"))
        like = NodeProto(name=entry.name, output=[self.values[End(entry.id, entry.outputs[0].id)]])
        unread = {k for k, port in enumerate(entry.outputs) if End(entry.id, port.id) not in self.read}
        layer = Layer(entry, inputs, Builder(self.scope, OPSET, like), self._nest, unread)
        try:
            made = mapping(layer)
            layer.check_attributes()
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # of numbers that fit no such layer
            raise Unmapped(f"its attributes and inputs do not fit together ({error})") from error
        self._finish(entry, layer, [made] if isinstance(made, str) else list(made))

    def _finish(self, entry: Entry, layer: Layer, made: list[str]) -> None:
        nodes = layer.build.nodes
        makers = {name: node for node in nodes for name in node.output}
        read = {name for node in nodes for name in node.input}
        for port, name in zip(entry.outputs, made, strict=False):
            final = self.values[End(entry.id, port.id)]
            if name in makers and name not in read and made.count(name) == 1:
                outputs = list(makers[name].output)
                outputs[outputs.index(name)] = final
                makers[name].output[:] = outputs
                if (stated := self.scope.typed.get(name)) is not None:
                    self.scope.typed[final] = stated
                makers[final] = makers[name]
            else:
                nodes.append(NodeProto(op_type="Identity", input=[name], output=[final]))
        for port in entry.outputs[len(made) :]:  # nobody reads them
            if (value := self.declared.pop(self.values[End(entry.id, port.id)], None)) is not None:
                self.graph.value_info.remove(value)
        if nodes:
            nodes[-1].name = entry.name
        for node in nodes:
            self._check(node)
            self.scope.record(node, OPSET)
        self.graph.node.extend(nodes)
        self._declare_scalars(entry)
        for remark in layer.remarks:
            how = f"{entry.type} is computed by {', '.join(dict.fromkeys(node.op_type for node in nodes))}"
            self.whole.changes.append(
                Change(entry.name, entry.type, DOMAIN, entry.version, OPSET, how, "close", remark)
            )

    def _declare_scalars(self, entry: Entry) -> None:
        """A port without dimensions is a scalar or of any rank, which the nodes that make it tell."""
        for port in entry.outputs:
            value = self.declared.get(self.values[End(entry.id, port.id)])
            if value is not None and not port.dims and (value_type := self.scope.type(value.name)) is not None:
                value.type.CopyFrom(value_type)

    def _check(self, node: NodeProto) -> None:
        """Operators of ONNX are not there for each element type."""
        schema = schemas.schema(node.domain, node.op_type, OPSET) if not node.domain else None
        for index, name in enumerate(node.input if schema is not None else ()):
            value_type = self.scope.type(name) if name else None
            spelled = None if value_type is None else type_text(value_type)
            if schema is None or spelled is None:
                continue
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            if not legal_types(spelled, formal):
                raise Unmapped(f"ONNX has no {node.op_type} of {spelled}")

    def _result(self, entry: Entry, source: str) -> None:
        """The value itself is the output where a layer makes it and no other result has taken it."""
        own = source in {name for node in self.graph.node for name in node.output}
        if not own or any(source == value.name for value in self.graph.output):
            names = entry.attributes.get("output_names", "")
            final = self.whole.name(next(filter(None, split_names(names)), "") or entry.name or f"layer{entry.id}")
            node = NodeProto(op_type="Identity", name=entry.name, input=[source], output=[final])
            self.graph.node.append(node)
            self.scope.record(node, OPSET)
        else:
            final = source
        value_type = self.scope.type(source)
        if value_type is None or not has_shape(value_type):
            if source in self.lost:
                return
            raise Unmapped(f"an output of dynamic rank; {STATED}")
        self.graph.output.add(name=final).type.CopyFrom(value_type)
        for index in [k for k, value in enumerate(self.graph.value_info) if value.name == final]:
            del self.graph.value_info[index]


def _names_of(network: Network) -> ModelProto:
    """A model that holds every name of a network, bodies included, and nothing else."""
    model = ModelProto()
    pending = [network.graph]
    while pending:
        for entry in pending.pop().layers:
            names = [entry.name, *(name for port in entry.outputs for name in port.names)]
            names += split_names(entry.attributes.get("output_names", ""))
            for name in filter(None, names):
                model.graph.value_info.add(name=name)
            pending += entry.bodies.values()
    return model


def _declare(entry: Entry, port: Port) -> TypeProto:
    """The type that a port states. Without dimensions it says nothing of the rank, but for constants and inputs."""
    if entry.type == "Parameter":
        elem_type = element_type(entry.attributes.get("element_type", ""))
        return tensor_type(elem_type, _partial(entry))
    dims: list[Dim] | None = [dim if dim >= 0 else None for dim in port.dims]
    return tensor_type(port.elem_type, dims or None)


def _partial(entry: Entry) -> list[Dim] | None:
    """The shape of a Parameter: `?` and `-1` are any number, `2..8` one of several, `...` any rank."""
    text = entry.attributes.get("shape", "").strip().strip("[]")
    if text == "...":
        return None
    parts = [part.strip() for part in text.split(",")] if text else []
    return [int(part) if part.isascii() and part.isdigit() else None for part in parts]


def _constant(entry: Entry, name: str, whole: _SharedByGraphs) -> TensorProto:
    """A Const layer as a tensor that refers to the file of the weights, or holds its bytes where they are few."""
    elem_type = element_type(entry.attributes["element_type"])
    if not elem_type:
        raise Unmapped(f"element_type={entry.attributes['element_type']}, which ONNX does not have")
    dims = shape_of(entry)
    offset, size = int(entry.attributes["offset"]), int(entry.attributes["size"])
    tensor = TensorProto(name=name, data_type=elem_type, dims=dims)
    if elem_type == TensorProto.STRING:
        raw = TensorProto(data_type=TensorProto.UINT8, dims=[size])
        tensor_data.refer(raw, whole.weights, (offset, offset + size))
        tensor.string_data.extend(_texts(tensor_data.load_or_raise(raw, whole.folder).raw_data, tensor))
        return tensor
    if tensor_data.nbytes(tensor) == 0:
        tensor.raw_data = b""
        return tensor
    tensor_data.refer(tensor, whole.weights, (offset, offset + size))
    return tensor_data.load_or_raise(tensor, whole.folder) if size < SMALL else tensor


def shape_of(entry: Entry) -> Dims:
    """The shape of a Const layer; raises `InvalidModel` where it is none."""
    parts = [part.strip() for part in entry.attributes.get("shape", "").split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidModel(f"the shape of Const {entry.name!r} is not a list of sizes")
    return tuple(map(int, parts))


def _texts(data: bytes, of: TensorProto) -> Iterable[bytes]:
    """The texts of a string constant: their number, the offsets where they begin and end, their bytes."""
    count = struct.unpack_from("<i", data)[0] if len(data) >= 4 else -1
    head = 4 + 4 * (count + 1)
    wanted = 1
    for dim in of.dims:
        wanted *= dim
    if count != wanted or head > len(data):
        raise InvalidModel(f"the strings of the constant {of.name!r} do not fit its shape")
    ends = struct.unpack_from(f"<{count + 1}i", data, 4)
    if any(a > b for a, b in pairwise(ends)) or ends[0] < 0 or head + ends[-1] > len(data):
        raise InvalidModel(f"the strings of the constant {of.name!r} lie outside its bytes")
    return [data[head + start : head + end] for start, end in pairwise(ends)]
