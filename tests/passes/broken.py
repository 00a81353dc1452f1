"""Models broken in one place each: what every kind of mistake makes of a model that is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    helper,
)
from opshift.passes.model.traversal import bodies

Mistake = Callable[[ModelProto, Random], bool]
"""Breaks a model, and says whether it held what can be broken so."""

MISTAKES: dict[str, Mistake] = {}


def broken(model: ModelProto, seed: int = 0) -> Iterator[tuple[str, ModelProto]]:
    """The model with each mistake that can be made in it."""
    for name, mistake in MISTAKES.items():
        made = ModelProto()
        made.CopyFrom(model)
        if mistake(made, Random(f"{name} {seed}")):
            yield name, made


def _value(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])


def _tensor(name: str) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [1], [0.5])


def _made(model: ModelProto) -> str:
    return next((name for node in model.graph.node for name in node.output if name), "none")


def _foreign(model: ModelProto, domain: str) -> None:
    model.opset_import.add(domain=domain, version=1)
    model.graph.node[0].domain = domain


def _reverse(graph: GraphProto) -> None:
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in reversed(graph.node)]
    del graph.node[:]
    graph.node.extend(nodes)


def _moved(graph: GraphProto) -> NodeProto:
    first = NodeProto.FromString(graph.node[0].SerializeToString())
    del graph.node[0]
    return first


def _deprecated(node: NodeProto) -> NodeProto:
    return helper.make_node("Upsample", node.input[:1], node.output[:1], scales=[1.0], mode="nearest")


def _attr(name: str, value: object) -> AttributeProto:
    return helper.make_attribute(name, value)


def _refer(attribute: AttributeProto) -> None:
    attribute.ref_attr_name = "outer"


def _of_model(name: str, change: Callable[[ModelProto], object]) -> None:
    def make(model: ModelProto, _: Random) -> bool:
        change(model)
        return True

    MISTAKES[name] = make


def _of_node(name: str, fits: Callable[[NodeProto], object], change: Callable[[NodeProto], object]) -> None:
    def make(model: ModelProto, random: Random) -> bool:
        found = [node for body in bodies(model) for node in body.node if fits(node)]
        if found:
            change(random.choice(found))
        return bool(found)

    MISTAKES[name] = make


def _of_graph(name: str, fits: Callable[[GraphProto], object], change: Callable[[GraphProto], object]) -> None:
    def make(model: ModelProto, random: Random) -> bool:
        found = [body for body in bodies(model) if isinstance(body, GraphProto) and fits(body)]
        if found:
            change(random.choice(found))
        return bool(found)

    MISTAKES[name] = make


def _of_tensor(name: str, fits: Callable[[TensorProto], object], change: Callable[[TensorProto], object]) -> None:
    def make(model: ModelProto, random: Random) -> bool:
        held = [t for body in bodies(model) if isinstance(body, GraphProto) for t in body.initializer]
        held += [a.t for body in bodies(model) for node in body.node for a in node.attribute if a.HasField("t")]
        found = [tensor for tensor in held if fits(tensor)]
        if found:
            change(random.choice(found))
        return bool(found)

    MISTAKES[name] = make


def _attribute(name: str, kind: Callable[[AttributeProto], object], change: Callable[[AttributeProto], object]) -> None:
    def fits(node: NodeProto) -> bool:
        return any(map(kind, node.attribute))

    _of_node(name, fits, lambda node: change(next(filter(kind, node.attribute))))


def _named(node: NodeProto) -> bool:
    return bool(node.input and node.input[0] and node.output and node.output[0])


_of_model("no IR version", lambda m: m.ClearField("ir_version"))
_of_model("IR version 0", lambda m: setattr(m, "ir_version", 0))
_of_model("IR version 99", lambda m: setattr(m, "ir_version", 99))
_of_model("IR 2 with imports", lambda m: setattr(m, "ir_version", 2))
_of_model("IR 3", lambda m: setattr(m, "ir_version", 3))
_of_model("no imports", lambda m: m.ClearField("opset_import"))
_of_model("imports of another domain alone", lambda m: setattr(m.opset_import[0], "domain", "other"))
_of_model("metadata twice", lambda m: [m.metadata_props.add(key="k", value=v) for v in "ab"])
_of_model("an input twice", lambda m: m.graph.input.append(m.graph.input[0]) if m.graph.input else None)
_of_model("an output nobody makes", lambda m: m.graph.output.add(name="nobody's").CopyFrom(_value("nobody's")))
_of_model("an input without a name", lambda m: m.graph.input.append(_value("")))
_of_model("an input without a type", lambda m: m.graph.input.append(ValueInfoProto(name="typeless")))
_of_model("an operator of a domain not imported", lambda m: m.graph.node[0].MergeFrom(NodeProto(domain="not.imported")))
_of_model("an operator of the training domain", lambda m: _foreign(m, "ai.onnx.training"))
_of_model("an operator of a domain of one's own", lambda m: _foreign(m, "my.own"))
_of_model("an initializer without a name", lambda m: m.graph.initializer.append(_tensor("")))
_of_model("an initializer nobody reads", lambda m: m.graph.initializer.append(_tensor("left over")))
_of_model("an initializer twice", lambda m: m.graph.initializer.extend([_tensor("two"), _tensor("two")]))
_of_model("an initializer named as a value", lambda m: m.graph.initializer.append(_tensor(_made(m))))
_of_model("an input named as a value", lambda m: m.graph.input.append(_value(_made(m))))
_of_model("newer by far", lambda m: setattr(m.opset_import[0], "version", 5))
_of_model("opset 1", lambda m: setattr(m.opset_import[0], "version", 1))
_of_model("opset 28", lambda m: setattr(m.opset_import[0], "version", 28))

_of_graph("a graph without a name", lambda g: g.name, lambda g: g.ClearField("name"))
_of_graph("nodes the other way round", lambda g: len(g.node) > 1, lambda g: _reverse(g))
_of_graph("the first node last", lambda g: len(g.node) > 1, lambda g: g.node.append(_moved(g)))
_of_graph("a node twice", lambda g: g.node, lambda g: g.node.append(g.node[-1]))
_of_graph("a node gone", lambda g: g.node, lambda g: g.node.__delitem__(0))
_of_graph("an output of another name", lambda g: g.output, lambda g: setattr(g.output[0], "name", "renamed"))
_of_graph("an output without a name", lambda g: g.output, lambda g: g.output[0].ClearField("name"))

_of_node("reads what it makes", _named, lambda n: n.input.__setitem__(0, n.output[0]))
_of_node("makes what it reads", _named, lambda n: n.output.__setitem__(0, n.input[0]))
_of_node("makes a value twice", lambda n: len(n.output) and n.output[0], lambda n: n.output.append(n.output[0]))
_of_node("reads what nobody makes", _named, lambda n: n.input.__setitem__(0, "nobody's"))
_of_node("leaves out its first input", _named, lambda n: n.input.__setitem__(0, ""))
_of_node("leaves out its last input", _named, lambda n: n.input.__setitem__(len(n.input) - 1, ""))
_of_node("leaves out its first output", _named, lambda n: n.output.__setitem__(0, ""))
_of_node("has no inputs", lambda n: n.input, lambda n: n.ClearField("input"))
_of_node("has no outputs", lambda n: n.output, lambda n: n.ClearField("output"))
_of_node("has neither", lambda n: True, lambda n: [n.ClearField("input"), n.ClearField("output")])
_of_node("has an input more", _named, lambda n: n.input.append(n.input[0]))
_of_node("has nine inputs more", _named, lambda n: n.input.extend([n.input[0]] * 9))
_of_node("has an output more", _named, lambda n: n.output.append("one more"))
_of_node("has nine outputs more", _named, lambda n: n.output.extend(f"more {i}" for i in range(9)))
_of_node("names no operator", lambda n: True, lambda n: n.ClearField("op_type"))
_of_node("is of no known operator", lambda n: True, lambda n: setattr(n, "op_type", "NoSuchOperator"))
_of_node("is spelled in lower case", lambda n: not n.domain, lambda n: setattr(n, "op_type", n.op_type.lower()))
_of_node("is an experiment", lambda n: not n.domain, lambda n: setattr(n, "op_type", "ImageScaler"))
_of_node("is deprecated", lambda n: len(n.input) == 1, lambda n: n.CopyFrom(_deprecated(n)))
_of_node("is of the other known domain", lambda n: not n.domain, lambda n: setattr(n, "domain", "ai.onnx.ml"))
_of_node("has an unknown attribute", lambda n: True, lambda n: n.attribute.append(helper.make_attribute("unknown", 1)))
_of_node("notes something", lambda n: True, lambda n: n.attribute.append(helper.make_attribute("__note", 1)))
_of_node("has an attribute twice", lambda n: n.attribute, lambda n: n.attribute.append(n.attribute[0]))
_of_node("has no attributes", lambda n: n.attribute, lambda n: n.ClearField("attribute"))

_attribute("an attribute without a name", lambda a: a.name, lambda a: a.ClearField("name"))
_attribute("an attribute of another name", lambda a: a.name, lambda a: setattr(a, "name", f"{a.name}s"))
_attribute("an attribute without a type", lambda a: a.type, lambda a: a.ClearField("type"))
_attribute("an attribute of type 0", lambda a: a.type, lambda a: setattr(a, "type", AttributeProto.UNDEFINED))
_attribute("an integer that is said to be a float", lambda a: a.type == 2, lambda a: setattr(a, "type", 1))
_attribute("a float in place of an integer", lambda a: a.type == 2, lambda a: a.CopyFrom(_attr(a.name, 1.5)))
_attribute("an integer in place of integers", lambda a: a.type == 7, lambda a: a.CopyFrom(_attr(a.name, 1)))
_attribute("integers in place of text", lambda a: a.type == 3, lambda a: a.CopyFrom(_attr(a.name, [1, 2])))
_attribute("two values", lambda a: a.type == 2, lambda a: setattr(a, "f", 1.0))
_attribute("two lists", lambda a: a.type == 7, lambda a: a.floats.append(1.0))
_attribute("an integer without its value", lambda a: a.type == 2, lambda a: a.ClearField("i"))
_attribute("a list without values", lambda a: a.type == 7, lambda a: a.ClearField("ints"))
_attribute("a tensor without its value", lambda a: a.type == 4, lambda a: a.ClearField("t"))
_attribute("a graph without its value", lambda a: a.type == 5, lambda a: a.ClearField("g"))
_attribute("a reference with a value", lambda a: a.type == 2, lambda a: setattr(a, "ref_attr_name", "outer"))
_attribute("a reference to a tensor", lambda a: a.type == 4, lambda a: [a.ClearField("t"), _refer(a)])


def _plain(tensor: TensorProto) -> bool:
    return bool(tensor.raw_data or tensor.float_data or tensor.int64_data or tensor.int32_data)


_of_tensor("a tensor without a type", _plain, lambda t: t.ClearField("data_type"))
_of_tensor("a tensor of type 0", _plain, lambda t: setattr(t, "data_type", 0))
_of_tensor("a tensor of an unknown type", _plain, lambda t: setattr(t, "data_type", 99))
_of_tensor("a tensor of text", _plain, lambda t: setattr(t, "data_type", TensorProto.STRING))
_of_tensor("a tensor of doubles", _plain, lambda t: setattr(t, "data_type", TensorProto.DOUBLE))
_of_tensor("a tensor of bytes", _plain, lambda t: setattr(t, "data_type", TensorProto.INT8))
_of_tensor("a tensor of half bytes", _plain, lambda t: setattr(t, "data_type", TensorProto.INT4))
_of_tensor("a tensor of complex numbers", _plain, lambda t: setattr(t, "data_type", TensorProto.COMPLEX128))
_of_tensor("too few values", _plain, lambda t: t.dims.append(2))
_of_tensor("values for no element", _plain, lambda t: t.dims.append(0))
_of_tensor("a negative dimension", _plain, lambda t: t.dims.append(-1))
_of_tensor("two negative dimensions", _plain, lambda t: t.dims.extend([-1, -1]))
_of_tensor("too large to count", _plain, lambda t: t.dims.extend([1 << 40, 1 << 40]))
_of_tensor("a byte less", lambda t: t.raw_data, lambda t: setattr(t, "raw_data", t.raw_data[:-1]))
_of_tensor("a byte more", lambda t: t.raw_data, lambda t: setattr(t, "raw_data", t.raw_data + b"\0"))
_of_tensor("no data", lambda t: t.raw_data, lambda t: t.ClearField("raw_data"))
_of_tensor("empty data", lambda t: t.raw_data, lambda t: setattr(t, "raw_data", b""))
_of_tensor("data in two fields", lambda t: t.raw_data, lambda t: t.float_data.append(1.0))
_of_tensor(
    "data in another field", lambda t: t.float_data, lambda t: [t.ClearField("float_data"), t.double_data.append(1)]
)
_of_tensor("external data nowhere", _plain, lambda t: [_empty(t), setattr(t, "data_location", TensorProto.EXTERNAL)])
_of_tensor("external data and its own", _plain, lambda t: setattr(t, "data_location", TensorProto.EXTERNAL))


def _empty(tensor: TensorProto) -> None:
    for field in ("raw_data", "float_data", "int64_data", "int32_data"):
        tensor.ClearField(field)


def _sparse(indices: TensorProto | None, dims: list[int], values: list[int] | None = None) -> Mistake:
    def make(model: ModelProto, _: Random) -> bool:
        sparse = SparseTensorProto(dims=dims)
        sparse.values.CopyFrom(helper.make_tensor("sparse", TensorProto.FLOAT, values or [2], [1.0, 2.0]))
        if indices is not None:
            sparse.indices.CopyFrom(indices)
        model.graph.sparse_initializer.append(sparse)
        return True

    return make


def _indices(dims: list[int], held: list[int], kind: int = TensorProto.INT64) -> TensorProto:
    return helper.make_tensor("indices", kind, dims, held)


MISTAKES |= {
    "sparse": _sparse(_indices([2], [0, 5]), [2, 3]),
    "sparse by coordinates": _sparse(_indices([2, 2], [0, 1, 1, 2]), [2, 3]),
    "sparse out of order": _sparse(_indices([2], [5, 0]), [2, 3]),
    "sparse out of range": _sparse(_indices([2], [0, 6]), [2, 3]),
    "sparse coordinates out of order": _sparse(_indices([2, 2], [1, 1, 0, 2]), [2, 3]),
    "sparse coordinates out of range": _sparse(_indices([2, 2], [0, 3, 1, 1]), [2, 3]),
    "sparse coordinates of another rank": _sparse(_indices([2, 1], [0, 1]), [2, 3]),
    "sparse without indices": _sparse(None, [2, 3]),
    "sparse with int32 indices": _sparse(_indices([2], [0, 5], TensorProto.INT32), [2, 3]),
    "sparse with too many indices": _sparse(_indices([3], [0, 1, 2]), [2, 3]),
    "sparse without dimensions": _sparse(_indices([2], [0, 5]), []),
    "sparse with a dimension of 0": _sparse(_indices([2], [0, 5]), [2, 0]),
    "sparse with values in a matrix": _sparse(_indices([2], [0, 5]), [2, 3], [1, 2]),
}


def _function(change: Callable[[ModelProto], object]) -> Mistake:
    def make(model: ModelProto, _: Random) -> bool:
        model.ir_version = max(model.ir_version, 8)
        own = [entry for entry in model.opset_import if not entry.domain]
        if not own:
            return False
        node = helper.make_node("Add", ["a", "b"], ["c"])
        if own[0].version < 7:
            return False
        model.functions.append(helper.make_function("local", "f", ["a", "b"], ["c"], [node], own))
        change(model)
        return True

    return make


MISTAKES |= {
    "a function": _function(lambda m: None),
    "a function twice": _function(lambda m: m.functions.append(m.functions[-1])),
    "a function of another overload": _function(lambda m: m.functions.add(overload="o").MergeFrom(m.functions[-2])),
    "a function without a name": _function(lambda m: m.functions[-1].ClearField("name")),
    "a function without a domain": _function(lambda m: m.functions[-1].ClearField("domain")),
    "a function in the default domain": _function(lambda m: setattr(m.functions[-1], "domain", "")),
    "a function with an input twice": _function(lambda m: m.functions[-1].input.append("a")),
    "a function with an output twice": _function(lambda m: m.functions[-1].output.append("c")),
    "a function with an attribute twice": _function(lambda m: m.functions[-1].attribute.extend("aa")),
    "a function with an output nobody makes": _function(lambda m: m.functions[-1].output.append("d")),
    "a function that makes a value twice": _function(lambda m: m.functions[-1].node.append(m.functions[-1].node[0])),
    "a function that makes its input": _function(lambda m: m.functions[-1].node[0].output.__setitem__(0, "a")),
    "a function that reads what nobody makes": _function(lambda m: m.functions[-1].node[0].input.__setitem__(0, "x")),
    "a function with an unknown operator": _function(lambda m: setattr(m.functions[-1].node[0], "op_type", "Nothing")),
    "a function without imports": _function(lambda m: m.functions[-1].ClearField("opset_import")),
    "a function of a domain not imported": _function(lambda m: setattr(m.functions[-1].node[0], "domain", "other")),
    "a function with an unknown attribute": _function(
        lambda m: m.functions[-1].node[0].attribute.append(helper.make_attribute("unknown", 1))
    ),
}


def _inside(node: NodeProto, *inner: NodeProto, result: str = "inner", made: str = "outer") -> Mistake:
    """An If beside the graph, whose branches hold nodes."""

    def make(model: ModelProto, _: Random) -> bool:
        held = GraphProto(name="branch", node=inner, output=[_value(result)])
        model.graph.initializer.append(helper.make_tensor("condition", TensorProto.BOOL, [], [True]))
        if model.ir_version < 4:
            model.graph.input.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, []))
        made_by = helper.make_node("If", ["condition"], [made], then_branch=held, else_branch=held)
        model.graph.node.extend([node, made_by])
        return True

    return make


def _constant(name: str) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=_tensor(name))


MISTAKES |= {
    "an If": _inside(_constant("before"), helper.make_node("Neg", ["before"], ["inner"])),
    "an If that hides a value": _inside(_constant("before"), _constant("before"), result="before"),
    "an If that reads what comes later": _inside(_constant("before"), helper.make_node("Neg", ["outer"], ["inner"])),
    "an If that makes its own output": _inside(_constant("before"), _constant("outer"), result="outer"),
    "an If whose output is not its own": _inside(_constant("before"), _constant("inner"), result="before"),
    "an If out of order": _inside(_constant("before"), helper.make_node("Neg", ["a"], ["inner"]), _constant("a")),
    "an If that makes a value twice": _inside(_constant("before"), _constant("inner"), _constant("inner")),
    "an If whose values are made again": _inside(_constant("before"), _constant("inner"), made="inner"),
}
