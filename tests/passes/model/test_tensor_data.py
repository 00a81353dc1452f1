"""Tensors whose bytes lie in a file: where, and what is no place."""

import ntpath
import os
import posixpath

import numpy as np
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.tensor_data import DataPlace


def stored(dims=(2,), kind=TensorProto.FLOAT, **entries):
    made = TensorProto(name="w", dims=dims, data_type=kind, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ({}, DataPlace("")),
        ({"location": "f"}, DataPlace("f", 0, None)),
        ({"location": "f", "offset": "", "length": 0}, DataPlace("f", 0, 0)),
        ({"location": "f", "offset": 0, "length": 1}, DataPlace("f", 0, 1)),
        ({"location": "f", "offset": 8, "length": 16}, DataPlace("f", 8, 16)),
        ({"location": "f", tensor_data.FIELDS: "9.7 1-3 5-9"}, DataPlace("f", 0, None, ((1, 3), (5, 9)), "9.7")),
    ],
)
def test_a_tensor_says_where_it_lies(entries, found):
    assert tensor_data.place(stored(**entries)) == found
    assert tensor_data.is_embedded(stored(**entries)) == (tensor_data.FIELDS in entries)


@pytest.mark.parametrize(
    "entries", [{"offset": -1}, {"length": -1}, {"offset": "x"}, {"length": ""}, {tensor_data.FIELDS: "9.7 1-"}]
)
def test_what_is_no_place_is_refused(entries):
    with pytest.raises(InvalidModel, match="tensor 'w' has external data whose offset or length is not a number"):
        tensor_data.place(stored(location="f", **entries))


def test_a_tensor_refers_to_what_it_is_told():
    tensor = onnx.numpy_helper.from_array(np.zeros(2, np.float32), "w")
    assert not tensor_data.is_stored(tensor)
    assert not tensor_data.is_embedded(tensor)
    tensor_data.refer(tensor, "f", None)
    assert tensor_data.is_stored(tensor)
    assert tensor_data.place(tensor) == DataPlace("f")
    tensor_data.refer(tensor, "g", (4, 12))
    assert tensor_data.place(tensor) == DataPlace("g", 4, 8)
    tensor_data.mark(tensor, "h", "9.7", [(1, 3), (5, 9)], (6, 8))
    assert tensor_data.place(tensor) == DataPlace("h", 6, 2, ((1, 3), (5, 9)), "9.7")


@pytest.mark.parametrize(("length", "expected"), [(None, 8), (5, 5), (0, 0)])
def test_what_is_embedded_has_a_length(length, expected):
    tensor = stored(location="f", offset=3, **({} if length is None else {"length": length}))
    tensor_data.embed(tensor)
    assert tensor_data.place(tensor) == DataPlace("f", 3, expected)
    assert tensor_data.is_embedded(tensor)


@pytest.mark.parametrize(
    ("kind", "dims", "bits", "size"),
    [
        (1, (2, 3), 32, 24),
        (11, (), 64, 8),
        (22, (3,), 4, 2),
        (25, (4,), 2, 1),
        (25, (5,), 2, 2),
        (99, (3,), 8, 3),
        (1, (0,), 32, 0),
    ],
)
def test_bytes_follow_from_type_and_dims(kind, dims, bits, size):
    assert tensor_data.bits(kind) == bits
    assert tensor_data.nbytes(stored(dims, kind)) == size


@pytest.mark.parametrize("location", ["", "/f", "../f", "a/../f", "a\\..\\f", "f\0"])
def test_what_lies_outside_is_refused(location, tmp_path):
    with pytest.raises(InvalidModel, match="is outside the model's folder"):
        tensor_data.path(tmp_path, location)


@pytest.mark.parametrize("location", ["C:f", "f:stream", "\\f", "/f", "\\\\host\\f"])
def test_drives_and_streams_are_outside_on_windows(location):
    with pytest.raises(InvalidModel, match="is outside"):
        tensor_data.parts_of(location, ntpath)


def test_locations_are_paths_of_their_system():
    assert tensor_data.parts_of("a/./b/f", posixpath) == ["a", "b", "f"]
    assert tensor_data.parts_of("a/b\\f", ntpath) == ["a", "b", "f"]
    assert tensor_data.parts_of("a\\f:x", posixpath) == ["a\\f:x"]
    assert tensor_data.location_of("/m/a/f", "/m", posixpath) == "a/f"
    assert tensor_data.location_of("C:\\m\\a\\f", "c:\\m", ntpath) == "a/f"
    assert tensor_data.location_of("\\\\?\\C:\\m\\f", "C:\\m", ntpath) == "f"
    assert tensor_data.location_of("\\\\?\\UNC\\h\\s\\f", "\\\\h\\s", ntpath) == "f"
    assert tensor_data.location_of("D:\\m\\f", "C:\\m", ntpath) == "D:/m/f"


def test_long_paths_of_windows_say_that_they_are_whole():
    short, long = "C:\\" + "a" * 236, "C:\\" + "a" * 237
    assert (len(short), len(long)) == (239, 240)
    assert tensor_data.reachable(short, ntpath) == short
    assert tensor_data.reachable(long, ntpath) == "\\\\?\\" + long
    assert tensor_data.reachable("\\\\?\\" + long, ntpath) == "\\\\?\\" + long
    assert tensor_data.reachable("\\\\h\\s\\" + "a" * 240, ntpath) == "\\\\?\\UNC\\h\\s\\" + "a" * 240
    assert tensor_data.reachable(long, posixpath) == long


@pytest.mark.posix
def test_links_are_not_followed(tmp_path):
    (tmp_path / "f").write_bytes(b"12345678")
    (tmp_path / "inner").mkdir()
    os.symlink(tmp_path / "f", tmp_path / "inner" / "link")
    os.symlink(tmp_path / "inner", tmp_path / "folder")
    for location in ("inner/link", "folder/f"):
        with pytest.raises(InvalidModel, match="is a symbolic link"):
            tensor_data.path(tmp_path, location)
    assert tensor_data.path(tmp_path, "f") == os.path.realpath(tmp_path / "f")
    with pytest.raises(OSError, match="symbolic link"):
        tensor_data.regular(str(tmp_path / "inner" / "link"), os.O_RDONLY)


@pytest.mark.posix
def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidModel, match="external data 'pipe' cannot be read: no regular file"):
        tensor_data.open_file(tmp_path, DataPlace("pipe"))


def test_a_file_that_cannot_hold_it_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(bytes(8))
    status = os.stat(tmp_path / "f")
    assert tensor_data.stamp_of(status) == f"8.{status.st_mtime_ns}"
    for found in (
        DataPlace("f"),
        DataPlace("f", 8),
        DataPlace("f", 2, 6),
        DataPlace("f", stamp=tensor_data.stamp_of(status)),
    ):
        assert tensor_data.misfit(found, status) == ""
        tensor_data.open_file(tmp_path, found).close()
    for found, why in (
        (DataPlace("f", 9), "external data 'f' has 8 bytes; a tensor needs bytes 9 to 9"),
        (DataPlace("f", 2, 7), "external data 'f' has 8 bytes; a tensor needs bytes 2 to 9"),
        (DataPlace("f", stamp="7.1"), "f: the file changed while it was read"),
        (DataPlace("g"), "external data 'g' cannot be read: No such file or directory"),
    ):
        with pytest.raises(InvalidModel, match=why):
            tensor_data.open_file(tmp_path, found)


@pytest.mark.parametrize("length", [None, 8])
def test_bytes_are_read_from_their_place(tmp_path, length):
    values = np.array([1.5, -2.0], np.float32)
    (tmp_path / "f").write_bytes(b"head" + values.tobytes() + b"tail")
    entries = {"location": "f", "offset": 4} | ({} if length is None else {"length": length})
    tensor = stored(**entries)
    made = tensor_data.load_or_raise(tensor, str(tmp_path))
    assert onnx.numpy_helper.to_array(made).tolist() == [1.5, -2.0]
    assert (made.name, made.HasField("data_location"), len(made.external_data)) == ("w", False, 0)
    assert len(tensor.external_data) == len(entries)
    assert tensor_data.load(made, None) is made
    assert tensor_data.load(tensor, str(tmp_path)) == made


def test_fields_of_a_model_file_are_read_together(tmp_path):
    held = TensorProto(float_data=[1.5, -2.0]).SerializeToString()
    (tmp_path / "f").write_bytes(b"head" + held[:6] + b"--" + held[6:])
    tensor = stored()
    middle = 4 + 6
    tensor_data.mark(tensor, "f", "", [(4, middle), (middle + 2, middle + 2 + len(held) - 6)], None)
    assert tensor_data.load_or_raise(tensor, str(tmp_path)).float_data[:] == [1.5, -2.0]


@pytest.mark.parametrize("entries", [{"location": "f", "offset": 4}, {"location": "g"}, {"location": "../f"}])
def test_what_cannot_be_had_is_none(tmp_path, entries):
    (tmp_path / "f").write_bytes(bytes(8))
    assert tensor_data.load(stored(**entries), str(tmp_path)) is None
    with pytest.raises(InvalidModel):
        tensor_data.load_or_raise(stored(**entries), str(tmp_path))
    with pytest.raises(InvalidModel, match="the model was given without the path of its folder"):
        tensor_data.load_or_raise(stored(**entries), None)


def test_what_is_lent_is_no_file_and_ends():
    with tensor_data.lend(lambda offset: bytes([offset] * 8)) as location:
        tensor = stored(location=location, offset=3)
        made = tensor_data.load_or_raise(tensor, None)
        assert (made.raw_data, made.HasField("data_location")) == (b"\3" * 8, False)
    assert tensor_data.load(tensor, None) is None
