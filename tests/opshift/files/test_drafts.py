"""Drafts: what is written beside a model's place until it is published, and what is left of it where that fails."""

import os
from pathlib import Path

import onnx
import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data

from opshift.files import external, model_file
from opshift.files.writing import CannotWrite
from tests.opshift.files.weights import WEIGHT, listing, saved, source

pytestmark = pytest.mark.posix

DATA = WEIGHT.tobytes()


def lazily(path):
    return model_file.read(path, whole=0, large=64)


def moved(folder, location):
    """A model whose data lie at a location in its folder."""
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    path = saved(folder, embedded=False)
    (folder / "weights.bin").rename(folder / location)
    held = onnx.load(path, load_external_data=False)
    for tensor in external.external(held):
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    path.write_bytes(held.SerializeToString())
    return held


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


def test_data_whose_model_could_not_be_put_in_its_place_are_taken_back(here, there, monkeypatch):
    replace = os.replace

    def broken(draft, final):
        if final.name == "out.onnx":
            raise OSError(5, "broken disk")
        replace(draft, final)

    monkeypatch.setattr(os, "replace", broken)
    held = moved(here, "far/weights.bin")
    with (
        pytest.raises(CannotWrite, match="broken disk") as told,
        model_file.Draft(held, there / "out.onnx", here) as draft,
    ):
        draft.publish()
    assert told.value.filename == str(there / "out.onnx")
    assert list(there.iterdir()) == []


def test_what_an_interrupt_left_while_it_was_removed_is_removed(here, monkeypatch):
    unlink, interrupts = Path.unlink, [KeyboardInterrupt]

    def once(self, **how):
        if interrupts:
            raise interrupts.pop()
        unlink(self, **how)

    draft = model_file.Draft(lazily(saved(here)), here / "out.onnx", here, "all", external.Packing(64))
    monkeypatch.setattr(Path, "unlink", once)
    with pytest.raises(KeyboardInterrupt), draft:
        assert len(listing(here)) == 3
    assert listing(here) == ["in.onnx"]


@pytest.mark.parametrize(
    ("name", "together", "same", "written"),
    [
        ("weights.bin", False, False, "weights.bin"),
        ("weights.bin", False, True, "out.weights.bin"),
        ("weights.bin", True, False, "out.onnx.weights.bin"),
        ("weights.bin", True, True, "out.onnx.weights.bin"),
        ("out.onnx.data", True, False, "out.onnx.data"),
        ("out.onnx.data", True, True, "out.onnx.out.onnx.data"),
        ("far/weights.bin", False, False, "far/weights.bin"),
        ("far/out.onnx.data", True, False, "far/out.onnx.data"),
    ],
)
def test_copied_data_have_names_of_their_own(name, together, same, written, here, there):
    held = moved(here, name)
    folder = here if same else there
    before = listing(folder)
    with model_file.Draft(held, folder / "out.onnx", here, "copy", together=together) as draft:
        assert draft.publish() == folder / "out.onnx"
    assert listing(folder) == sorted([*before, "out.onnx", written])
    assert DATA in (folder / written).read_bytes()
    assert external.locations(model_file.read(folder / "out.onnx")) == [written]


@pytest.mark.parametrize(("together", "name"), [(True, "out.onnx.weights.bin"), (False, "weights.bin")])
def test_data_that_are_there_from_an_earlier_run_are_used_again(together, name, here, there):
    held = moved(here, "weights.bin").SerializeToString()
    path = there / name
    for _ in range(2):
        with model_file.Draft(onnx.ModelProto.FromString(held), there / "out.onnx", here, together=together) as draft:
            draft.publish()
            made = path.stat().st_ino
        assert listing(there) == ["out.onnx", path.name]
        assert path.stat().st_ino == made
    others = [bytes(path.stat().st_size), path.read_bytes() + b"more"]
    for other in others:
        path.write_bytes(other)
        draft = model_file.Draft(onnx.ModelProto.FromString(held), there / "out.onnx", here, together=together)
        with pytest.raises(CannotWrite, match="would overwrite it; remove it, or") as told, draft:
            pass
        assert (told.value.errno, told.value.filename) == (0, str(path)), "it is no error of the system's"
        assert path.read_bytes() == other
        assert listing(there) == ["out.onnx", path.name]


def test_a_draft_is_read_with_its_data_where_they_lie_until_it_is_published(here, there):
    held = moved(here, "far/weights.bin")
    with model_file.Draft(held, there / "out.onnx", here) as draft:
        made = draft.read_back()
        (tensor,) = [each for each in external.tensors(made) if each.name == "w"]
        assert external.locations(made)[0].startswith("far/.weights.bin.")
        assert tensor_data.load_or_raise(tensor, str(there)).raw_data == DATA
        assert draft.size == next(path for path in there.glob("*.part")).stat().st_size
    assert list(there.iterdir()) == []


def test_the_rights_of_a_file_stay(here):
    for name, rights in (("in.onnx", 0o640), ("other.onnx", 0o604)):
        path = here / name
        path.write_bytes(source().SerializeToString())
        path.chmod(rights)
        with model_file.Draft(lazily(path), path, here) as draft:
            draft.publish()
        assert path.stat().st_mode & 0o777 == rights


def test_a_name_that_leaves_no_room_for_a_longer_one(here):
    path = here / ("m" * 200 + ".onnx")
    with model_file.Draft(source(), path, here) as draft:
        (held,) = here.iterdir()
        assert held.name.startswith("." + "m" * 100 + ".")
        draft.publish()
    assert listing(here) == [path.name]


def test_what_killed_processes_left_is_removed(here):
    mine = [".m.onnx.0123456789ab.part", ".m.onnx.data.0123456789ab.part", "far/.m.onnx.0123456789ab.part"]
    mine.append("." + "l" * 100 + ".0123456789ab.part")
    others = [".n.onnx.0123456789ab.part", ".m.onnx.0123456789.part", ".m.onnx2.0123456789ab.part", "m.onnx"]
    for name in (*mine, *others):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(b"")
    model_file.sweep(here, ["m.onnx", "l" * 120 + ".onnx"])
    assert listing(here) == sorted(others)


def test_what_somebody_else_removes_meanwhile_is_gone(here):
    class Seen(type(here)):
        def rglob(self, _):
            return [here / ".m.onnx.0123456789ab.part"]

    model_file.sweep(Seen(here), ["m.onnx"])


# --- messages -----------------------------------------------------------------------------------------------


def test_as_much_as_protobuf_reads_is_read(monkeypatch):
    data = source().SerializeToString()
    monkeypatch.setattr(model_file, "MOST", len(data))
    assert model_file.parse(data) == source()
    monkeypatch.setattr(model_file, "MOST", len(data) - 1)
    with pytest.raises(InvalidModel, match="m: the model has more than 2 GB"):
        model_file.parse(data, "m")


@pytest.mark.parametrize(
    ("size", "why"), [(100, "protobuf cannot write the model: too deep, it says"), (101, "more than 2 GB")]
)
def test_what_protobuf_does_not_write_is_refused(size, why, monkeypatch):
    class Unwritten:
        def SerializeToString(self):
            raise ValueError("too deep,\n  it says")

        def ByteSize(self):
            return size

    monkeypatch.setattr(model_file, "MOST", 100)
    with pytest.raises(InvalidModel, match=why):
        model_file.serialize(Unwritten())


def spoiled(change):
    """A model one of whose names is no text."""
    model = source()
    model.functions.add(name="f", domain="own", input=["i"], output=["o"]).node.add(op_type="Abs")
    name = "<name>"
    change(model, name)
    return onnx.ModelProto.FromString(model.SerializeToString().replace(name.encode(), b"\xffname\xff"))


@pytest.mark.parametrize(
    "change",
    [
        lambda model, name: model.opset_import.add(domain=name),
        lambda model, name: setattr(model.graph.node[0], "op_type", name),
        lambda model, name: setattr(model.graph.node[0], "domain", name),
        lambda model, name: setattr(model.graph.node[0], "name", name),
        lambda model, name: model.graph.node[0].input.append(name),
        lambda model, name: model.graph.node[0].output.append(name),
        lambda model, name: model.graph.node[0].attribute.add(name=name),
        lambda model, name: setattr(model.graph.input[0], "name", name),
        lambda model, name: setattr(model.graph.output[0], "name", name),
        lambda model, name: model.graph.value_info.add(name=name),
        lambda model, name: setattr(model.graph.initializer[0], "name", name),
        lambda model, name: setattr(model.functions[0], "name", name),
        lambda model, name: setattr(model.functions[0], "domain", name),
        lambda model, name: model.functions[0].input.append(name),
        lambda model, name: model.functions[0].output.append(name),
        lambda model, name: setattr(model.functions[0].node[0], "name", name),
    ],
)
def test_a_name_that_is_no_text_is_found_wherever_it_is(change):
    assert not model_file.names_are_texts(spoiled(change))


def test_names_that_are_texts():
    assert model_file.names_are_texts(spoiled(lambda *_: None))


# --- where data go ------------------------------------------------------------------------------------------


def held_in_nodes():
    """A model with a tensor of 256 bytes in a Constant, and in nodes that no runtime reads from external data."""
    tensor = TensorProto(dims=[256], data_type=TensorProto.UINT8, raw_data=bytes(range(256)))
    nodes = [
        onnx.helper.make_node("Constant", [], [f"c{number}"], domain=domain, value=tensor)
        for number, domain in enumerate(("", "own"))
    ]
    nodes.append(onnx.helper.make_node("Other", [], ["c2"], value=tensor))
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []))


def test_only_what_runtimes_read_from_external_data_goes_there(here):
    model = held_in_nodes()
    files = external.arrange(model, here, here / "out.onnx", "all", external.Packing(256))
    assert [tensor_data.is_stored(tensor) for tensor in external.tensors(model)] == [True, False, False]
    assert files == {"out.onnx.data": [b"", bytes(range(256))]}


def test_a_data_file_has_a_name_that_no_data_lie_under(here):
    model = held_in_nodes()
    for name, tensor in zip(("out.onnx.data", "out.onnx.2.data", "x"), external.tensors(model), strict=True):
        (here / name).write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor_data.refer(tensor, name, None)
    assert list(external.arrange(model, here, here / "out.onnx", "all", external.Packing(1))) == ["out.onnx.3.data"]


def test_kept_data_keep_their_place_in_their_file(here, tmp_path):
    model = held_in_nodes()
    tensor = next(external.tensors(model))
    tensor.ClearField("raw_data")
    tensor_data.refer(tensor, "w", (8, 264))
    assert external.arrange(model, here, tmp_path / "out.onnx", "keep", external.Packing(1)) == {}
    assert tensor_data.place(tensor) == tensor_data.DataPlace("here/w", 8, 256)
    with pytest.raises(InvalidModel, match="outside the output's folder"):
        external.arrange(model, tmp_path, tmp_path / "elsewhere" / "out.onnx", "keep", external.Packing(1))


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dims=[2], data_type=TensorProto.STRING, string_data=[b"a", b"b"]),
        TensorProto(dims=[3], data_type=TensorProto.INT64, int64_data=[1, 2]),
    ],
)
def test_texts_and_what_does_not_fit_its_dims_have_no_bytes(tensor):
    assert external.raw(tensor) is None


def test_bytes_are_what_they_are():
    assert external.raw(TensorProto(dims=[3], data_type=TensorProto.INT64, raw_data=b"12345")) == b"12345"


# --- what a runtime reads -----------------------------------------------------------------------------------


def test_a_model_that_a_runtime_reads_is_the_same_one(here):
    model = model_file.read(saved(here, embedded=False))
    assert external.runnable(model, str(here)) is model
    aside = {}
    made = external.runnable(model, str(here), embedded=True, aside=aside)
    assert not any(map(tensor_data.is_stored, external.tensors(made)))
    assert not aside


def test_data_in_the_model_file_become_external_data_in_it(here):
    model = lazily(saved(here))
    found = [tensor_data.place(tensor) for tensor in external.tensors(model) if tensor.name == "w"]
    (made,) = [tensor for tensor in external.tensors(external.runnable(model, str(here))) if tensor.name == "w"]
    assert tensor_data.place(made) == tensor_data.DataPlace("in.onnx", found[0].offset, len(DATA))
    assert found[0].offset > 0


def numbers(folder, **fields):
    """A model with a tensor of numbers of varying length."""
    held = source()
    held.graph.initializer.add(name="n", dims=[100], **fields)
    (folder / "in.onnx").write_bytes(held.SerializeToString())
    return lazily(folder / "in.onnx")


def test_numbers_go_aside_where_a_message_has_no_room(here, monkeypatch):
    model = numbers(here, data_type=TensorProto.INT64, int64_data=range(100))
    size = model.ByteSize() + 102  # what is read of the file: 100 numbers of one byte, their tag and their length
    monkeypatch.setattr(external, "MOST", size)
    aside = {}
    made = external.runnable(model, str(here), aside=aside)
    assert (aside, list(made.graph.initializer[-1].int64_data)) == ({}, list(range(100)))
    monkeypatch.setattr(external, "MOST", size - 1)
    made = external.runnable(model, str(here), aside=aside)
    assert aside["n"].tolist() == list(range(100))
    assert tensor_data.is_stored(made.graph.initializer[-1])
    assert len(external.runnable(model, str(here)).graph.initializer[-1].int64_data) == 100
    assert tensor_data.is_embedded(model.graph.initializer[-1]), "the model stays what it was"


def test_texts_that_are_as_much_as_a_message_holds(here, monkeypatch):
    model = numbers(here, data_type=TensorProto.STRING, string_data=[b"two"] * 100)
    monkeypatch.setattr(external, "MOST", 500)
    assert len(external.runnable(model, str(here)).graph.initializer[-1].string_data) == 100
    monkeypatch.setattr(external, "MOST", 499)
    with pytest.raises(InvalidModel, match="this model has 500 bytes of them"):
        external.runnable(model, str(here))
