"""Paths and URLs, which of them are local, and what is sent to others."""

import fsspec
import pytest

from opshift.files import urls


@pytest.mark.parametrize(
    ("path", "local", "elsewhere"),
    [
        ("a b/m%20.onnx", "a b/m%20.onnx", False),
        ("file:///a%20b/m.onnx", "/a b/m.onnx", False),
        ("memory://a/m.onnx", "memory://a/m.onnx", True),
    ],
)
def test_which_paths_are_local(path, local, elsewhere):
    assert (urls.local(path), urls.is_url(path)) == (local, elsewhere)


@pytest.fixture
def place():
    """An empty folder that is not on this disk."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.rm("/", recursive=True)


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.bin").write_text(text)
    model = folder / "m.onnx"
    model.write_text("a model")
    return model


def held(place):
    return {name.rsplit("/", 1)[-1]: place.cat(name).decode() for name in place.find("/")}


def test_what_lies_there_already_is_not_sent_again(place, tmp_path, monkeypatch):
    place.pipe("/far/a.bin", b"same")
    sent = []
    put = type(place).put_file
    monkeypatch.setattr(type(place), "put_file", lambda self, *given: sent.append(given[1]) or put(self, *given))
    urls.send(written(tmp_path, a="same", b="new", c="newer"), "memory://far/m.onnx")
    assert [name.rsplit("/", 1)[-1] for name in sent] == ["b.bin", "c.bin", "m.onnx"]
    assert held(place) == {"a.bin": "same", "b.bin": "new", "c.bin": "newer", "m.onnx": "a model"}


def test_other_data_are_not_overwritten(place, tmp_path):
    place.pipe("/far/b.bin", b"older")
    with pytest.raises(FileExistsError):
        urls.send(written(tmp_path, a="new", b="newer", c="new"), "memory://far/m.onnx")
    assert held(place) == {"b.bin": "older"}


def test_what_was_sent_in_vain_is_taken_back(place, tmp_path, monkeypatch):
    place.pipe("/far/a.bin", b"same")
    put = type(place).put_file

    def broken(self, source, target, *given):
        put(self, source, target, *given)
        if target.endswith(".onnx"):
            raise OSError("no room")

    monkeypatch.setattr(type(place), "put_file", broken)
    with pytest.raises(OSError, match="no room"):
        urls.send(written(tmp_path, a="same", b="new"), "memory://far/m.onnx")
    assert held(place) == {"a.bin": "same"}
