"""Fields of messages: what is kept, put and measured of them."""

import onnx
import pytest
from onnx import NodeProto
from opshift.passes.model.encoding import fields

NODES = [NodeProto(op_type=name) for name in "ABCDE"]


def graph(count=5):
    return onnx.GraphProto(name="g", node=NODES[:count])


def told(held):
    return "".join(node.op_type for node in held)


@pytest.mark.parametrize(("kept", "left"), [([1, 1, 1], "ABC"), ([0, 1, 0], "B"), ([0, 0, 0], ""), ([1, 0, 1], "AC")])
def test_what_is_kept_stays_in_its_order(kept, left):
    made = graph(3)
    fields.retain(made.node, [bool(keep) for keep in kept])
    assert told(made.node) == left


def raw(name):
    body = NodeProto(op_type=name).SerializeToString()
    return fields.tag(onnx.GraphProto.NODE_FIELD_NUMBER) + fields.prefix_length(body)


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ({}, "ABCDE"),
        ({0: [NodeProto(op_type="x")]}, "xBCDE"),
        ({4: [NodeProto(op_type="x"), NodeProto(op_type="y")]}, "ABCDxy"),
        ({2: []}, "ABDE"),
        ({1: [raw("x")], 3: [NodeProto(op_type="y"), raw("z")]}, "AxCyzE"),
        ({index: [raw("x")] for index in range(5)}, "xxxxx"),
        ({index: [] for index in range(5)}, ""),
        ({0: [], 1: [raw("x"), raw("y"), raw("z")]}, "xyzCDE"),
    ],
)
@pytest.mark.parametrize("of", [onnx.GraphProto, onnx.FunctionProto])
def test_nodes_are_put_in_the_places_of_others(taken, left, of):
    body = of(name="g", node=NODES)
    if of is onnx.FunctionProto:
        at = fields.tag(onnx.FunctionProto.NODE_FIELD_NUMBER)
        taken = {
            i: [at + made[1:] if isinstance(made, bytes) else made for made in nodes] for i, nodes in taken.items()
        }
    fields.put(body, taken)
    assert told(body.node) == left
    assert body.name == "g"


def test_a_node_among_those_in_its_place_is_moved():
    body = graph()
    stays = body.node[2]
    fields.put(body, {0: [], 2: [NodeProto(op_type="x"), stays, raw("y")], 3: [body.node[3]]})
    assert told(body.node) == "BxCyDE"


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 1 << 40, (1 << 64) - 1])
def test_numbers_of_varying_length(value):
    data = fields.encode_number(value)
    assert fields.varint(b"ab" + data + b"cd", 2) == (value, 2 + len(data))
    assert onnx.TensorProto.FromString(b"\x10" + fields.encode_number(value & 127)).data_type == value & 127
    if value < 20000:
        assert fields.prefix_length(bytes(value)) == data + bytes(value)


def test_a_number_that_does_not_end():
    assert fields.varint(b"\xff" * 9 + b"\1", 0) == ((1 << 64) - 1, 10)
    with pytest.raises(fields.Malformed, match="a number is longer than 10 bytes"):
        fields.varint(b"\xff" * 10 + b"\1", 0)


def test_a_tag_says_which_field_has_bytes():
    assert fields.tag(1) == b"\x0a"
    assert fields.tag(15) == b"\x7a"
    with pytest.raises(AssertionError, match="in one byte"):
        fields.tag(16)
