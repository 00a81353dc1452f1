"""The wire format, field by field: what is no message, what stays in one, and numbers as protobuf does not write them."""

import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.model import tensor_data
from opshift.passes.model.encoding.fields import Malformed, encode_number

from opshift.files import foreign, skeletons, varints, wire


def listed(data):
    return list(wire.fields(data, 0, len(data)))


def field(number, value):
    return encode_number(number << 3 | wire.BYTES) + encode_number(len(value)) + value


@pytest.mark.parametrize("number", [1, 15, 16, 17, 2047, 2048])
def test_a_tag_is_as_long_as_its_number_demands(number):
    tag = encode_number(number << 3)
    assert listed(tag + b"\x05") == [(number << 3, 0, len(tag), len(tag) + 1)]


@pytest.mark.parametrize("size", [0, 127, 128, 16384])
def test_a_length_is_as_long_as_it_has_to_be(size):
    ((_, begin, start, stop),) = listed(field(1, bytes(size)))
    assert (begin, start, stop) == (0, 1 + len(encode_number(size)), 1 + len(encode_number(size)) + size)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\x01", "a field has number 0"),
        (b"\x02\x01x", "a field has number 0"),
        (b"\x0c", "wire type 4 does not exist"),
        (b"\x0e\x00", "wire type 6 does not exist"),
        (b"\x0a\x05abc", wire.TRUNCATED),
        (b"\x09\x01\x02", wire.TRUNCATED),
        (b"\x0d\x01\x02", wire.TRUNCATED),
        (b"\x0b\x14", "a group ends that did not begin"),
    ],
)
def test_what_is_no_message_is_told(data, why):
    with pytest.raises(Malformed, match=why):
        listed(data)
    assert why in skeletons.complaint(data)


def test_a_message_that_ends_in_a_number_is_cut_off():
    for data in (b"\x08", b"\x08\x80", b"\x80", b"\x0a"):
        assert skeletons.complaint(data) == wire.TRUNCATED
        with pytest.raises(Malformed, match=wire.TRUNCATED):
            skeletons.skeleton(data, "m", "s")


@pytest.mark.parametrize(("levels", "why"), [(wire.LEVELS, ""), (wire.LEVELS + 1, wire.TOO_DEEP)])
def test_groups_are_as_deep_as_messages_may_be(levels, why):
    data = (b"\xab\x06" * levels) + (b"\xac\x06" * levels)
    assert skeletons.complaint(data) == why


def test_a_bomb_of_messages_ends_in_words():
    body = b""
    for _ in range(500):
        for number in (6, 5, 1):
            body = field(number, body)
    with pytest.raises(Malformed, match=wire.TOO_DEEP):
        skeletons.skeleton(field(7, body), "m", "s", 0)


def thinned(tensor, large=8):
    """What becomes of an initializer, and whether its data are left in the file."""
    data = field(7, field(5, tensor))
    made = ModelProto.FromString(skeletons.skeleton(data, "m", "s", large)).graph.initializer[0]
    return made, tensor_data.is_embedded(made)


def test_data_of_just_the_size_that_is_large_stay():
    data = TensorProto(raw_data=bytes(10)).SerializeToString()  # with their tag and their length
    assert [thinned(data, large)[1] for large in (11, 12, 13)] == [True, False, False]


def test_what_says_that_it_lies_elsewhere_stays_as_it_is():
    tensor = TensorProto(raw_data=bytes(100), data_location=TensorProto.EXTERNAL)
    made, taken = thinned(tensor.SerializeToString())
    assert made == tensor
    assert not taken
    tensor = TensorProto(raw_data=bytes(100))
    tensor.external_data.add(key="location", value="w")
    assert thinned(tensor.SerializeToString()) == (tensor, False)


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        (TensorProto(data_type=TensorProto.FLOAT, raw_data=bytes(100)), 100),
        (TensorProto(data_type=TensorProto.STRING, raw_data=bytes(100)), None),
        (TensorProto(data_type=TensorProto.FLOAT, float_data=[1] * 25), 100),
        (TensorProto(data_type=TensorProto.COMPLEX64, float_data=[1] * 25), 100),
        (TensorProto(data_type=TensorProto.COMPLEX128, double_data=[1] * 25), 200),
        (TensorProto(data_type=TensorProto.DOUBLE, float_data=[1] * 25), None),
        (TensorProto(data_type=TensorProto.FLOAT, double_data=[1] * 25), None),
        (TensorProto(data_type=TensorProto.INT64, int64_data=[1] * 25), None),
        (TensorProto(data_type=TensorProto.FLOAT, float_data=[1] * 25, raw_data=bytes(100)), None),
        (TensorProto(name="between", data_type=TensorProto.FLOAT, float_data=[1] * 25, raw_data=bytes(100)), None),
    ],
)
def test_only_data_in_the_form_of_external_data_are_found_as_such(tensor, found):
    made, taken = thinned(tensor.SerializeToString())
    assert taken
    assert tensor_data.place(made).length == found
    assert len(tensor_data.place(made).fields) == (2 if tensor.name else 1)


def test_a_number_in_the_place_of_bytes_is_no_data():
    for wrong in (b"\x48\x07", b"\x21\x01\x02\x03\x04\x05\x06\x07\x08"):  # of `raw_data`, of `float_data`
        data = field(7, field(5, TensorProto(raw_data=bytes(100)).SerializeToString() + wrong))
        assert tensor_data.FIELDS.encode() not in skeletons.skeleton(data, "m", "s", 8)


def test_a_file_goes_through_whatever_stands_behind_its_tensors():
    inner = TensorProto(name="w", data_type=TensorProto.FLOAT, raw_data=bytes(range(100))).SerializeToString()
    other = field(10, b"doc") + b"\xa0\x06\x07"
    for data in (
        field(7, field(5, inner) + other + field(5, inner)) + other,
        field(7, field(5, inner)) + field(20, field(1, field(5, inner))) + field(20, b""),
    ):
        thin = skeletons.skeleton(data, "m", "s", 8)
        pieces = skeletons.whole(thin)
        made = b"".join(p if isinstance(p, bytes) else data[p.start : p.end] for p in pieces)
        assert ModelProto.FromString(made) == ModelProto.FromString(data)
        assert (len(thin), sum(isinstance(p, skeletons.ByteRange) for p in pieces)) != (len(data), 0)


def test_a_long_list_of_an_attribute_is_not_looked_at_number_by_number(monkeypatch):
    looked = []
    monkeypatch.setattr(skeletons, "fields", lambda *given: (looked.append(one) or one for one in wire.fields(*given)))
    tree = ModelProto()
    node = tree.graph.node.add(op_type="TreeEnsembleRegressor")
    node.attribute.add(name="nodes_values", floats=[0.5] * 1000)
    node.attribute.add(name="nodes_modes", strings=[b"LEAF"] * 1000)
    node.attribute.add(name="nodes_treeids", ints=range(1000))
    data = tree.SerializeToString()
    assert skeletons.skeleton(data, "m", "s", 8) == data
    assert len(looked) < 30
    with pytest.raises(Malformed, match="truncated"):
        skeletons.skeleton(data[:-1], "m", "s", 8)


def test_tensors_of_an_attribute_with_a_list_are_left_in_the_file():
    odd = ModelProto()
    attribute = odd.graph.node.add().attribute.add(ints=range(1000))
    attribute.tensors.add(data_type=TensorProto.FLOAT, raw_data=bytes(100))
    made = ModelProto.FromString(skeletons.skeleton(odd.SerializeToString(), "m", "s", 8))
    assert tensor_data.is_embedded(made.graph.node[0].attribute[0].tensors[0])
    assert made.graph.node[0].attribute[0].ints == attribute.ints


def test_a_text_that_reads_like_a_reference_stays_one():
    """A model that was not read from a file may hold any."""
    text = tensor_data.FIELDS
    for tensor in (
        TensorProto(doc_string=text, raw_data=b"1"),
        TensorProto(name=text, data_location=TensorProto.EXTERNAL),
    ):
        model = ModelProto(producer_name=text, graph={"initializer": [tensor, TensorProto(name="w")], "name": text})
        data = model.SerializeToString()
        assert b"".join(skeletons.whole(data)) == data


# --- numbers of varying length ------------------------------------------------------------------------------


def unpacked(tmp_path, fields, **claimed):
    """What is made of a tensor's fields as they stand in a file."""
    head = TensorProto(name="w", **claimed).SerializeToString()
    start, data = len(head), head + b"".join(fields)
    (tmp_path / "m").write_bytes(data)
    held = TensorProto.FromString(head)
    ranges = []
    for part in fields:
        ranges.append((start, start + len(part)))
        start += len(part)
    tensor_data.mark(held, "m", "", ranges, None)
    return varints.values(held, str(tmp_path))


def test_no_numbers_are_no_values():
    assert varints.unpack(b"").tolist() == []
    assert varints.unpack(b"\x07\x80\x01").tolist() == [7, 128]


INT64 = {"data_type": TensorProto.INT64, "dims": [3]}


def test_values_as_protobuf_writes_them(tmp_path):
    assert unpacked(tmp_path, [field(7, b"\x01\x02\x03")], **INT64).tolist() == [1, 2, 3]
    assert unpacked(tmp_path, [field(7, b"\x01\x02"), field(7, b"\x03")], **INT64).tolist() == [1, 2, 3]
    held = unpacked(tmp_path, [field(7, b"\x01\x02\x03\x04\x05\x06")], data_type=TensorProto.INT64, dims=[2, 3])
    assert held.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("numbers", [b"\x01\x02", b"\x01\x02\x03\x04"])
def test_as_many_values_as_the_dims_claim(numbers, tmp_path):
    assert unpacked(tmp_path, [field(7, numbers)], **INT64) is None


def test_values_one_by_one_are_not_read_as_others(tmp_path):
    value = b"\x25\x03abc"  # of `float_data`, whose first byte reads as a length of three
    assert unpacked(tmp_path, [value] * 4, data_type=TensorProto.FLOAT, dims=[3]) is None


@pytest.mark.parametrize(
    "claimed",
    [
        {"data_type": TensorProto.STRING, "dims": [3]},
        {"data_type": TensorProto.UINT4, "dims": [6]},
        {"data_type": TensorProto.INT64, "dims": [0]},
    ],
)
def test_what_has_no_width_of_bytes_is_not_unpacked(claimed, tmp_path):
    assert unpacked(tmp_path, [field(7, b"\x01\x02\x03")], **claimed) is None


@pytest.mark.parametrize("part", [10, 11, 12, 19, 20])
def test_no_number_is_cut_in_two(part, tmp_path, monkeypatch):
    monkeypatch.setattr(varints, "_PART", part)
    values = [1, -1, 2**62, 300, -(2**63), 7] * 5
    data = b"".join(encode_number(value % 2**64) for value in values)
    found = unpacked(tmp_path, [field(7, data)], data_type=TensorProto.INT64, dims=[len(values)])
    assert found.view("i8").tolist() == values


def test_a_file_that_ends_early_has_not_all_values(tmp_path):
    held = TensorProto(name="w", **INT64)
    (tmp_path / "m").write_bytes(field(7, b"\x01\x02\x03")[:-1])
    tensor_data.mark(held, "m", "", [(0, 5)], None)
    assert varints.values(held, str(tmp_path)) is None


# --- what other files begin with ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("magic", "what"), [(magic, what) for _, magic, what in foreign._MAGIC], ids=lambda part: str(part[:9])
)
def test_magic_bytes_stand_where_they_stand(magic, what):
    offset = {b"TFL3": 4, b"ORTM": 4, b"ustar": 257}.get(magic, 0)
    assert foreign.describe_file(bytes(offset) + magic + bytes(20)) == what
    assert foreign.describe_file(bytes([9] * (offset + 1)) + magic + bytes(20)) != what
