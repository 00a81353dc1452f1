"""Model files at the level of the wire: what comes out of a file unread goes back into another as it was.

Protobuf's own parser is the judge.
"""

import errno
import os
import random
from functools import cache

import onnx
import onnx.parser
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.encoding.fields import encode_number

from opshift.files import copying, external, model_file, skeletons, wire
from tests import pairs

LARGE = 24


def spliced(data, pieces):
    return b"".join(piece if isinstance(piece, bytes) else data[piece.start : piece.end] for piece in pieces)


def through(data, large=LARGE):
    """The skeleton of a model, and the bytes of the file that is made from it."""
    thin = skeletons.skeleton(data, "model.onnx", "stamp", large)
    model = ModelProto.FromString(thin)
    pieces = skeletons.whole(model.SerializeToString())
    made = spliced(data, pieces)
    assert skeletons.length_of(pieces) == len(made)
    return model, made


def tensor(**fields):
    return TensorProto(name="w", dims=[16], **fields)


RAW = bytes(range(64))
HELD = {
    "raw": tensor(data_type=TensorProto.FLOAT, raw_data=RAW),
    "floats": tensor(data_type=TensorProto.FLOAT, float_data=map(float, range(16))),
    "doubles": tensor(data_type=TensorProto.DOUBLE, double_data=map(float, range(16))),
    "complex": TensorProto(dims=[8], data_type=TensorProto.COMPLEX64, float_data=map(float, range(16))),
    "int32": tensor(data_type=TensorProto.INT32, int32_data=range(-8, 8)),
    "float16": tensor(data_type=TensorProto.FLOAT16, int32_data=range(15360, 15376)),
    "int64": tensor(data_type=TensorProto.INT64, int64_data=range(-8, 8)),
    "uint64": tensor(data_type=TensorProto.UINT64, uint64_data=range(2**60, 2**60 + 16)),
    "strings": tensor(data_type=TensorProto.STRING, string_data=[b"four"] * 16),
    "explicit": tensor(data_type=TensorProto.FLOAT, raw_data=RAW, data_location=TensorProto.DEFAULT, doc_string="d"),
    "nothing": tensor(data_type=TensorProto.FLOAT),
}
PLACES = 28 + 20 + 12  # in the main graph, the function and the training graphs


def everywhere(held):
    """A model that holds a tensor in every place that there is."""
    constant = helper.make_node("Constant", [], ["c"], value=held)
    many = NodeProto(
        op_type="Many", domain="own", attribute=[AttributeProto(name="many", type=9, tensors=[held, held])]
    )
    sparse = onnx.SparseTensorProto(values=held, indices=held, dims=[4])
    lists = NodeProto(op_type="Sparse", domain="own")
    lists.attribute.add(name="one", type=AttributeProto.SPARSE_TENSOR).sparse_tensor.CopyFrom(sparse)
    lists.attribute.add(name="two", type=AttributeProto.SPARSE_TENSORS).sparse_tensors.extend([sparse, sparse])
    inner = GraphProto(name="inner", node=[constant, many], initializer=[held], sparse_initializer=[sparse])
    branch = NodeProto(op_type="If", attribute=[AttributeProto(name="then_branch", type=AttributeProto.GRAPH, g=inner)])
    branch.attribute.add(name="all", type=AttributeProto.GRAPHS).graphs.extend([inner, inner])
    function = onnx.FunctionProto(name="F", domain="own", node=[branch, constant])
    function.attribute_proto.add(name="default", type=AttributeProto.TENSOR).t.CopyFrom(held)
    model = ModelProto(ir_version=10, functions=[function])
    model.graph.CopyFrom(
        GraphProto(name="g", node=[lists, branch], initializer=[held, held], sparse_initializer=[sparse])
    )
    model.training_info.add(initialization=inner, algorithm=inner)
    return model


@pytest.mark.parametrize("kind", HELD)
def test_data_are_left_in_the_file_wherever_they_are(kind):
    model = everywhere(HELD[kind])
    data = model.SerializeToString()
    thin, made = through(data)
    assert ModelProto.FromString(made) == model
    held = list(external.tensors(thin))
    assert len(held) == PLACES
    assert all(tensor_data.is_embedded(t) == (kind != "nothing") for t in held)
    assert [t.name for t in held] == [HELD[kind].name] * PLACES


@pytest.mark.parametrize("kind", HELD)
def test_a_reference_is_loaded_as_the_tensor_that_was_there(kind, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(everywhere(HELD[kind]).SerializeToString())
    model = model_file.read(path, whole=0, large=LARGE)
    loaded = [tensor_data.load(t, str(tmp_path)) for t in external.tensors(model)]
    assert [t.SerializeToString() for t in loaded] == [HELD[kind].SerializeToString()] * PLACES
    assert model_file.embed_data(model, str(tmp_path)) == everywhere(HELD[kind])


@pytest.mark.parametrize("kind", ["raw", "floats", "doubles", "complex"])
def test_what_lies_in_the_file_as_external_data_would_is_named_as_such(kind):
    model, _ = through(everywhere(HELD[kind]).SerializeToString())
    found = tensor_data.place(model.graph.initializer[0])
    data = everywhere(HELD[kind]).SerializeToString()[found.offset : found.offset + found.length]
    assert data == onnx.numpy_helper.to_array(HELD[kind]).tobytes()


def test_unknown_fields_and_groups_survive():
    held = HELD["raw"].SerializeToString() + b"\xa2\x06\x03new" + b"\xab\x06\x08\x01\xac\x06"  # field 100, group 101
    graph = b"\x2a" + bytes([len(held)]) + held + b"\xa0\x06\x07"
    data = (
        b"\x3a"
        + encode_number(len(graph))
        + graph
        + b"\xa5\x06\x01\x02\x03\x04\xa1\x06\x01\x02\x03\x04\x05\x06\x07\x08"
    )
    model, made = through(data)
    assert tensor_data.is_embedded(model.graph.initializer[0])
    assert ModelProto.FromString(made) == ModelProto.FromString(data)
    assert all(part in made for part in (b"\xa2\x06\x03new", b"\xab\x06\x08\x01\xac\x06", b"\xa0\x06\x07"))


def group(field, *inner):
    """A group of unknown fields: what an older protobuf wrote."""
    return encode_number(field << 3 | 3) + b"".join(inner) + encode_number(field << 3 | 4)


def test_groups_within_groups_survive():
    unknown = group(101, b"\x08\x01", group(7, b"\x12\x03abc", group(9)), b"\x15\x01\x02\x03\x04", group(8))
    data = everywhere(HELD["raw"]).SerializeToString() + unknown
    _, made = through(data)
    assert made.endswith(unknown)
    assert ModelProto.FromString(made) == ModelProto.FromString(data)
    deep = b""
    for _ in range(200):
        deep = group(7, deep)
    for wrong in (deep, encode_number(101 << 3 | 3) + encode_number(102 << 3 | 4)):
        with pytest.raises(DecodeError):
            ModelProto.FromString(data + wrong)
        with pytest.raises(wire.Malformed):
            through(data + wrong)


def test_the_size_of_a_file_is_told_without_writing_it():
    for kind in HELD:
        data = everywhere(HELD[kind]).SerializeToString()
        assert model_file.size(ModelProto.FromString(data)) == len(data)
        model, _ = through(data)
        assert model_file.size(model) == len(data)


def test_references_survive_renaming_moving_and_copying_and_go_with_their_tensor():
    source = everywhere(HELD["floats"])
    data = source.SerializeToString()
    model = ModelProto.FromString(skeletons.skeleton(data, "m", "s", LARGE))
    model.graph.initializer[0].name = "renamed"
    model.graph.node[1].attribute[0].g.initializer.add().CopyFrom(model.graph.initializer[0])
    del model.graph.initializer[0]
    made = ModelProto.FromString(spliced(data, skeletons.whole(model.SerializeToString())))
    moved = made.graph.node[1].attribute[0].g.initializer[1]
    assert (moved.name, moved.float_data) == ("renamed", HELD["floats"].float_data)
    assert len(made.graph.initializer) == 1


def nested(depth):
    """Ifs inside each other, each of which is three messages: a node, an attribute, a graph."""
    graph = GraphProto(name="g", initializer=[HELD["raw"]])
    for _ in range(depth):
        attribute = AttributeProto(name="then_branch", type=AttributeProto.GRAPH, g=graph)
        graph = GraphProto(name="g", node=[NodeProto(op_type="If", attribute=[attribute])])
    return graph


def test_what_is_nested_too_deeply_for_protobuf_is_refused_in_words(tmp_path):
    verdicts = {}
    for depth in range(28, 40):
        body = nested(20).SerializeToString()
        for _ in range(depth - 20):  # not even written by protobuf from some depth on
            for number in (6, 5, 1):  # graph in attribute in node in graph
                body = bytes([number << 3 | 2]) + encode_number(len(body)) + body
        path = tmp_path / "model.onnx"
        path.write_bytes(b"\x3a" + encode_number(len(body)) + body)
        try:
            ModelProto.FromString(path.read_bytes())
            verdicts[depth] = True
        except DecodeError:
            verdicts[depth] = False
        for whole, large in ((0, 0), (0, 1 << 20), (1 << 30, 0)):
            if verdicts[depth]:
                assert model_file.read(path, whole=whole, large=large).HasField("graph")
            else:
                with pytest.raises(InvalidModel, match="deeper than 100 levels"):
                    model_file.read(path, whole=whole, large=large)
    assert set(verdicts.values()) == {True, False}


def wrapped(body: bytes, *numbers: int) -> bytes:
    """Some bytes as a field of a message that is a field of another, the outermost first."""
    for number in reversed(numbers):
        body = bytes([number << 3 | 2]) + encode_number(len(body)) + body
    return body


def test_depth_is_blamed_only_where_it_is_too_deep():
    for levels, why in ((wire.LEVELS, ""), (wire.LEVELS + 1, skeletons.TOO_DEEP)):
        steps = [(1, 5, 6)[k % 3] for k in range(levels - 2)]  # node in graph, attribute in node, graph in attribute
        assert skeletons.complaint(wrapped(b"", 7, *steps)) == why


@pytest.mark.parametrize("kind", [6, 7])
def test_wire_types_that_do_not_exist_are_named(kind, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(everywhere(HELD["raw"]).SerializeToString() + bytes([15 << 3 | kind, 0]))
    for whole in (0, 1 << 30):
        with pytest.raises(InvalidModel, match=f"wire type {kind} does not exist"):
            model_file.read(path, whole=whole, large=LARGE)


@pytest.mark.parametrize("whole", [0, 1 << 30])
def test_a_graph_or_a_tensor_in_two_parts_is_one(whole, tmp_path):
    """Protobuf merges what a message has once and a file holds twice."""
    first, second = (ModelProto(graph=GraphProto(initializer=[HELD[name]])) for name in ("raw", "floats"))
    twice = 2 * wrapped(HELD["floats"].SerializeToString(), 5)  # the tensor of an attribute
    path = tmp_path / "model.onnx"
    path.write_bytes(first.SerializeToString() + second.SerializeToString() + wrapped(twice, 7, 1, 5))
    read = external.runnable(model_file.read(path, whole=whole, large=LARGE), str(tmp_path), embedded=True)
    assert read == ModelProto.FromString(path.read_bytes())


@pytest.mark.long
@pytest.mark.parametrize("large", [LARGE, 1 << 20])
def test_every_truncation_is_noticed_or_still_a_message(large, tmp_path):
    data = everywhere(HELD["int64"]).SerializeToString()
    path = tmp_path / "model.onnx"
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        try:
            expected = ModelProto.FromString(data[:end])
        except DecodeError:
            expected = ModelProto()
        if expected.HasField("graph"):
            assert model_file.embed_data(model_file.read(path, whole=0, large=large), str(tmp_path)) == expected
        else:
            with pytest.raises(InvalidModel):
                model_file.read(path, whole=0, large=large)


def test_a_model_cannot_pass_off_references_of_its_own(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret" * 100)
    model = everywhere(HELD["raw"])
    forged = model.graph.initializer[0]
    tensor_data.mark(forged, "secret", "", [(0, 600)], None)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for whole in (0, 1 << 30):
        with pytest.raises(InvalidModel, match="reserved"):
            model_file.read(path, whole=whole, large=LARGE)


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(everywhere(HELD["raw"]).SerializeToString())
    model = model_file.read(path, whole=0, large=LARGE)
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidModel, match="changed while"), model_file.Draft(model, tmp_path / "out.onnx"):
        pass
    assert os.listdir(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("first", [0, 5, 4096])
@pytest.mark.parametrize("broken", ["", "EXDEV", "ENOSYS", "absent"])
def test_ranges_are_copied_whatever_the_kernel_does(first, broken, tmp_path, monkeypatch):
    def refuses(*_):
        raise OSError(getattr(errno, broken), "no")

    if broken == "absent":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    elif broken:
        monkeypatch.setattr(os, "copy_file_range", refuses, raising=False)
    content = random.Random(0).randbytes(3 * copying._CHUNK + 3)
    (tmp_path / "from").write_bytes(content)
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb") as target:
        copying.copy_range(source.fileno(), target.fileno(), first, len(content) - 7)
        with pytest.raises(OSError, match="became shorter") as ended:
            copying.copy_range(source.fileno(), target.fileno(), len(content) - 7, len(content) + 1)
    assert type(ended.value) is OSError, "it is no error of the system's"
    assert (tmp_path / "to").read_bytes() == content[first:]


# --- random structure ---------------------------------------------------------------------------------------


def number(value, extra):
    """A varint, with `extra` bytes more than it needs."""
    found = bytearray()
    while value > 127 or (extra and len(found) < 9):
        found.append(value & 127 | 128)
        value >>= 7
        extra -= not value and extra > 0
    found.append(value)
    return bytes(found)


@st.composite
def messages(draw, kind, depth=0):
    """The bytes of a message of a type: its fields in any order, any number of times, in any encoding."""
    parts = [field_bytes(draw, field, depth) for field in draw(chosen(kind, depth < 8))]
    return b"".join([*parts, draw(UNKNOWN)])


EXTRA = st.sampled_from([0, 0, 0, 1, 3])
UNKNOWN = st.sampled_from([b""] * 45 + [b"\xa2\x06\x03new", b"\xab\x06\x08\x01\xac\x06", b"\xa0\x06\x07"])
BYTES, TEXT, NUMBERS = st.binary(max_size=80), st.text(max_size=3), st.binary(min_size=1, max_size=40)


@cache
def chosen(kind, nested):
    """Some fields of a type, those with tensors in them more often."""
    known = [f for f in kind.fields if f.message_type is None or nested]
    leading = [f for f in known if f.number in wire.children(kind) or f.name.endswith("_data")]
    return st.lists(st.sampled_from([*known, *leading * 3]), max_size=5) if known else st.just([])


def field_bytes(draw, field, depth):
    extra = draw(EXTRA)
    if field.message_type is not None:
        value = draw(messages(field.message_type, depth + 1))
    elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        value = draw(BYTES) if field.type == field.TYPE_BYTES else draw(TEXT).encode()
    else:
        width = {field.TYPE_FLOAT: 4, field.TYPE_DOUBLE: 8}.get(field.type, 0)
        items = [item % 41 for item in draw(NUMBERS)]
        encoded = [i.to_bytes(width, "little") if width else number(i, extra) for i in items]
        if not field.has_options or not field.GetOptions().packed or len(items) == 1:
            wire_type = {0: 0, 4: 5, 8: 1}[width]
            return b"".join(number(field.number << 3 | wire_type, 0) + item for item in encoded[:1])
        value = b"".join(encoded)
    return number(field.number << 3 | 2, extra) + number(len(value), extra) + value


def parsed(data):
    try:
        return ModelProto.FromString(data)
    except DecodeError:
        return None


def check_like_protobuf(data, large):
    """What protobuf reads goes through unharmed; what it does not is refused, or as unreadable afterwards."""
    expected = parsed(data)
    try:
        _, made = through(data, large)
    except (wire.Malformed, DecodeError):
        assert expected is None
        return
    again = parsed(made)
    if expected is None:
        assert again is None
    else:
        assert again.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(HELD)), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4), st.integers(0)
)
def test_random_damage_is_judged_as_protobuf_does(kind, changes, end):
    data = bytearray(everywhere(HELD[kind]).SerializeToString())
    for where, byte in changes:
        data[where % len(data)] = byte
    check_like_protobuf(bytes(data[: len(data) - end % 3]), LARGE)


@pytest.mark.long
def test_random_messages_go_through_and_are_worth_it():
    """The strategy makes messages that protobuf reads, with tensors that are left in the file."""
    found = []

    @settings(max_examples=len(pairs.some(range(300), 3)), deadline=None, derandomize=True)
    @given(messages(ModelProto.DESCRIPTOR), st.sampled_from([0, 1, LARGE, 1 << 20]))
    def look(data, large):
        check_like_protobuf(data, large)
        if parsed(data) is not None:
            found.append(skeletons.skeleton(data, "m", "s", 0).count(tensor_data.FIELDS.encode()))

    look()
    assert len(found) > 20
    assert sum(count > 0 for count in found) > 0
