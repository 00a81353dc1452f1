"""The head of a node's bytes is split as protobuf itself reads it."""

from __future__ import annotations

import pytest
from onnx import NodeProto
from opshift.passes.conversion import convert
from opshift.passes.model.encoding import node_bytes
from opshift.passes.model.encoding.fields import prefix_length

from tests.support import model


def read(node: NodeProto, values: node_bytes.Values) -> node_bytes.Key | None:
    """The key of a node, of whose names `values` learn."""
    return node_bytes.read([node], {node.op_type}, values, {}, lambda _, key: key)[0]


SIZES = [0, 1, 127, 128, 129, 16_383, 16_384]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 1), (1, 1), (3, 0), (2, 3)])
def test_names_of_any_length(inputs: int, outputs: int, size: int, named: bool) -> None:
    node = NodeProto(op_type="Op", domain="\n\x01a\x12\x01b\x1a\x01c", doc_string='"')
    node.input.extend("i" * (size + k) for k in range(inputs))
    node.output.extend("ö" * (size // 2) + "\n\x12\x1a" * k for k in range(outputs))
    node.name = "n" * size if named else ""
    data, rest = node.SerializeToString(), NodeProto()
    rest.CopyFrom(node)
    for field in ("input", "output", "name"):
        rest.ClearField(field)
    values = node_bytes.Values()
    assert read(node, values) == (rest.SerializeToString(), inputs, outputs)
    assert values.made == {prefix_length(name.encode()): 0 for name in node.output if name}
    assert values.early == {prefix_length(name.encode()) for name in node.input}
    assert values.nodes == ([prefix_length(node.name.encode())] if node.HasField("name") else [])
    assert values.omitting == [0] * (list(node.input) + list(node.output)).count("")
    assert node_bytes.texts(node_bytes.names(data, inputs + outputs)) == [*node.input, *node.output, node.name]


def test_a_node_of_names_alone() -> None:
    node = NodeProto(input=["a"], output=["b"])
    data = node.SerializeToString()
    assert read(node, node_bytes.Values()) == (b"", 1, 1)
    assert node_bytes.texts(node_bytes.names(data, 2)) == ["a", "b", ""]


def test_what_is_no_text_is_not_passed_off_as_one() -> None:
    with pytest.raises(UnicodeDecodeError):
        node_bytes.texts([b"\x02\xff\xfe"])


@pytest.mark.parametrize("size", SIZES)
def test_long_names_survive_a_conversion(size: int) -> None:
    body = " ".join(f"v{i + 1} = {'ReduceMax<axes=[1]>' if i % 2 else 'Relu'}(v{i})" for i in range(12))
    source = model(body, 13, inputs="float[N,8] v0", outputs="float[N,1] v12")
    for node in source.graph.node:
        node.name = "é" * (size // 2) + node.output[0]
    made = convert.convert(source, {"": 18}).model
    assert made is not None
    assert [node.name for node in made.graph.node] == [node.name for node in source.graph.node]
    assert [list(node.input)[:1] for node in made.graph.node] == [list(node.input) for node in source.graph.node]
    assert {len(node.input) for node in made.graph.node if node.op_type == "ReduceMax"} == {2}
