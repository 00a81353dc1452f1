"""What the head of a tensor's bytes tells of it."""

import onnx
import onnx.helper
import pytest
from onnx import AttributeProto, NodeProto, TensorProto
from opshift.passes.model.encoding import tensor_bytes


def tensor(kind=1, dims=(2,), **data):
    return TensorProto(data_type=kind, dims=dims, **(data or {"name": "w", "float_data": [1.5, 2.5]}))


def sure(held):
    data = held.SerializeToString()
    return tensor_bytes.right(data, 0, len(data))


@pytest.mark.parametrize(
    ("held", "right"),
    [
        (tensor(), True),
        (tensor(dims=()), True),
        (tensor(dims=(3,)), False),
        (tensor(dims=(1, 2)), True),
        (tensor(dims=(0,), name="w"), True),
        (tensor(dims=(0,)), False),
        (tensor(dims=(2,), name="w", raw_data=bytes(8)), True),
        (tensor(dims=(2,), name="w", raw_data=bytes(9)), True),
        (tensor(dims=(2,), name="w", raw_data=bytes(7)), False),
        (tensor(dims=(0,), name="w", raw_data=bytes(1)), False),
        (tensor(dims=(2,), name="w" * 200, raw_data=bytes(8)), True),
        (tensor(dims=(2,), raw_data=bytes(8)), True),
        (tensor(dims=(2,), name="w"), False),
        (tensor(dims=(2,), name="w", float_data=[1, 2], raw_data=bytes(8)), False),
        (tensor(kind=11, dims=(1,), name="w", raw_data=bytes(8)), True),
        (tensor(kind=11, dims=(2,), name="w", raw_data=bytes(8)), False),
        (tensor(kind=11, dims=(1,), name="w", float_data=[1, 2]), False),
        (tensor(kind=22, dims=(3,), name="w", raw_data=bytes(2)), True),
        (tensor(kind=22, dims=(5,), name="w", raw_data=bytes(2)), False),
        (tensor(kind=8, dims=(1,), name="w", raw_data=b"a"), False),
        (tensor(kind=99, dims=(1,), name="w", raw_data=b"a"), False),
        (tensor(kind=0, dims=(1,), name="w", raw_data=b"a"), False),
        (tensor(dims=(2,), name="w", raw_data=bytes(8), doc_string="d"), False),
        (tensor(dims=(1 << 62, 2, 0), name="w"), False),
        (tensor(dims=(-1, 0), name="w"), False),
        (tensor(dims=(2,), name="w", double_data=[1, 2]), False),
    ],
)
def test_what_is_sure_to_be_right_is(held, right):
    found = sure(held)
    assert (found is not None) is right
    if found is not None:
        data = held.SerializeToString()
        onnx.checker.check_tensor(held)
        if held.name:
            assert data[found.name :][: found.end - found.name].endswith(held.name.encode())
            assert found.end == len(data) - (len(held.raw_data) + 2 if held.raw_data else 0)
        else:
            assert (found.name, found.end) == (0, 0)
        assert bool(found.floats) == bool(held.float_data)


def constant(**said):
    return onnx.helper.make_node("Constant", [], ["y"], value=tensor(dims=(2,), raw_data=bytes(8)), **said)


@pytest.mark.parametrize(
    ("change", "right"),
    [
        (lambda node: None, True),
        (lambda node: setattr(node, "doc_string", "d"), False),
        (lambda node: setattr(node, "domain", "there"), False),
        (lambda node: setattr(node, "op_type", "Constants"), False),
        (lambda node: setattr(node.attribute[0], "name", "values"), False),
        (lambda node: setattr(node.attribute[0], "doc_string", "d"), False),
        (lambda node: node.attribute.add(name="more"), False),
        (lambda node: node.attribute.append(node.attribute[0]), False),
        (lambda node: node.attribute[0].t.dims.append(2), False),
        (lambda node: setattr(node.attribute[0].t, "raw_data", bytes(300)), True),
        (lambda node: node.attribute[0].CopyFrom(AttributeProto(name="value", type=AttributeProto.TENSOR)), False),
    ],
)
def test_a_constant_of_a_tensor_that_is_right(change, right):
    node = constant()
    change(node)
    data = node.SerializeToString()
    at = len(NodeProto(output=["y"]).SerializeToString())
    assert tensor_bytes.is_constant(data, at) is right


def weights(count, **said):
    return [
        tensor(dims=(2,), name=f"w{index}", **(said or {"raw_data": bytes([index % 256] * 8)}))
        for index in range(count)
    ]


@pytest.mark.parametrize("said", [{}, {"float_data": [1.5, 2.5]}, {"int32_data": [1, 2], "data_type": 6}])
def test_tensors_are_called_as_they_are(said):
    held = weights(300, **{name: data for name, data in said.items() if name != "data_type"})
    for each in held:
        each.data_type = said.get("data_type", 1)
    held[7].name = "v" * 200
    held[8].name = "a much longer name"
    held[9].dims[:] = [1, 2]
    spelled = tensor_bytes.names(held)
    names = [name[2:] if name[0] >= 128 else name[1:] for name in spelled]
    assert names == [each.name.encode() for each in held]


@pytest.mark.parametrize("index", [0, 1, 150, 299])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.ClearField("name"),
        lambda t: t.dims.append(2),
        lambda t: setattr(t, "raw_data", bytes(7)),
        lambda t: t.ClearField("raw_data"),
        lambda t: setattr(t, "data_type", 11),
        lambda t: t.float_data.extend([1, 2]),
        lambda t: t.double_data.append(1),
    ],
)
def test_one_that_is_not_right_is_found(index, change):
    held = weights(300)
    change(held[index])
    assert tensor_bytes.names(held) is None


def test_those_that_hold_much_are_not_read_as_bytes():
    """But where none of the first ones does."""
    much = TensorProto(name="much", data_type=1, dims=[1 << 17], raw_data=bytes(1 << 19))
    assert list(tensor_bytes._bytes([*weights(2), much])) == [*(w.SerializeToString() for w in weights(2)), b""]
    assert tensor_bytes.names([*weights(2), much]) == [b"\2w0", b"\2w1", b"\4much"]
    at_most = TensorProto(name="most", data_type=1, dims=[1 << 16])
    assert list(tensor_bytes._bytes([at_most])) == [at_most.SerializeToString()]
    first = weights(tensor_bytes._FIRST)
    assert list(tensor_bytes._bytes([*first, much]))[-1] == much.SerializeToString()
    assert list(tensor_bytes._bytes([*first[1:], much, much]))[-2:] == [b"", b""]
    broken = TensorProto(name="much", data_type=1, dims=[1 << 17], raw_data=bytes(8))
    assert tensor_bytes.names([*weights(2), broken]) is None
