"""Bytes of files in other files, whatever the kernel says, and what users give in the place of a path."""

import errno
import os

import onnx
import onnx_ir
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto

from opshift.files import copying, lending, model_file
from tests.opshift.files.weights import WEIGHT, saved, source

pytestmark = pytest.mark.posix


@pytest.fixture
def ends(tmp_path):
    """A file to copy from, and one to copy to."""
    (tmp_path / "from").write_bytes(bytes(range(100)))
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb", buffering=0) as target:
        yield source.fileno(), target.fileno()


@pytest.mark.parametrize("name", ["EXDEV", "ENOSYS", "EINVAL", "EOPNOTSUPP", "ENOTSUP", "EPERM", "EBADF", "ETXTBSY"])
def test_what_the_kernel_cannot_do_is_done_by_hand(name, ends, tmp_path, monkeypatch):
    calls = []

    def refuses(*_):
        calls.append(1)
        raise OSError(getattr(errno, name), "no")

    monkeypatch.setattr(os, "copy_file_range", refuses, raising=False)
    monkeypatch.setattr(copying, "_CHUNK", 30)
    copying.copy_range(*ends, 5, 95)
    assert (tmp_path / "to").read_bytes() == bytes(range(5, 95))
    assert len(calls) == 1


def test_other_errors_are_told(ends, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    with pytest.raises(OSError, match="no room"):
        copying.copy_range(*ends, 0, 9)


def test_the_kernel_is_asked_for_what_it_does_at_once(ends, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "copy_file_range", lambda *given: asked.append(given[2:]) or given[2], raising=False)
    copying.copy_range(*ends, 7, 7 + (1 << 31) + 5)
    assert asked == [(1 << 30, 7), (1 << 30, 7 + (1 << 30)), (5, 7 + (1 << 31))]


def test_a_file_that_ended_is_no_error_of_the_system(ends, monkeypatch):
    for more in ({}, {"copy_file_range": None}):
        for name in more:
            monkeypatch.delattr(os, name)
        with pytest.raises(OSError, match="became shorter") as ended:
            copying.copy_range(*ends, 90, 101)
        assert ended.value.errno == 0


def test_all_bytes_are_written_however_few_are_taken(monkeypatch):
    taken = []
    monkeypatch.setattr(os, "write", lambda _, data: taken.append(bytes(data[:3])) or len(taken[-1]))
    copying.write_all(9, b"12345678")
    assert taken == [b"123", b"456", b"78"]


def test_each_file_is_opened_once_and_closed(tmp_path):
    (tmp_path / "w").write_bytes(bytes(10))
    place = tensor_data.DataPlace("w", 0, 10)
    with copying.Sources(tmp_path) as sources:
        opened = sources.open(place)
        assert sources.open(tensor_data.DataPlace("w", 2, 3)) == opened
        with pytest.raises(InvalidModel, match="has 10 bytes; a tensor needs bytes 2 to 11"):
            sources.open(tensor_data.DataPlace("w", 2, 9))
        (tmp_path / "w").write_bytes(bytes(9))
        with pytest.raises(InvalidModel, match="has 9 bytes"):
            sources.open(place)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened)


# --- what users give ----------------------------------------------------------------------------------------


def test_a_path_lends_a_message_and_gets_one_with_its_data(tmp_path):
    path = saved(tmp_path)
    for given in (path, str(path)):
        with lending.lend(given) as loan:
            assert (loan.proto, loan.folder) == (source(), str(tmp_path))
        made = model_file.read(path, whole=0, large=64)
        assert loan.back(made) is made
        assert made == source()


def test_a_message_lends_itself():
    given = source()
    with lending.lend(given) as loan:
        assert loan.proto is given
        assert loan.folder is None
        other = ModelProto()
        assert loan.back(other) is other


def test_an_ir_model_lends_a_message_and_gets_its_kind(tmp_path):
    path = saved(tmp_path, embedded=False)
    given = onnx_ir.load(path)
    proto, folder = lending.load_model(given)
    assert isinstance(proto, ModelProto)
    assert folder == str(tmp_path)
    assert onnx_ir.to_proto(onnx_ir.load(path)).graph.node == proto.graph.node
    with lending.lend(given) as loan:
        assert loan.folder is None
        back = loan.back(loan.proto)
    assert isinstance(back, onnx_ir.Model)
    assert back.graph.initializers["w"].const_value.numpy().tobytes() == WEIGHT.tobytes()


@pytest.mark.parametrize("given", [None, 3, onnx.GraphProto()])
def test_anything_else_is_refused_by_its_kind(given):
    with pytest.raises(InvalidModel, match=f"or an onnx_ir.Model, not {type(given).__name__}"):
        lending.load_model(given)
