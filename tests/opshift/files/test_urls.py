"""Paths and URLs, which of them are local, what is fetched from others, and what is sent there."""

import builtins

import fsspec
import pytest
from opshift.passes.errors import InvalidModel

from opshift.files import urls
from tests.opshift.files.weights import listing, saved
from tests.opshift.networks import Net


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
    with pytest.raises(FileExistsError, match="would overwrite it") as told:
        urls.send(written(tmp_path, a="new", b="newer", c="new"), "memory://far/m.onnx")
    assert (told.value.errno, told.value.filename) == (0, "memory:///far/b.bin"), "it is no error of the system's"
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


def test_other_data_of_the_same_size_are_not_overwritten(place, tmp_path):
    place.pipe("/far/a.bin", b"old")
    with pytest.raises(FileExistsError):
        urls.send(written(tmp_path, a="new"), "memory://far/m.onnx")
    assert held(place) == {"a.bin": "old"}


def test_a_model_is_replaced_and_folders_go_along(place, tmp_path):
    place.pipe("/far/m.onnx", b"an older model")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.bin").write_text("data")
    urls.send(written(tmp_path), "memory://far/m.onnx")
    assert place.cat("/far/m.onnx") == b"a model"
    assert place.cat("/far/deep/a.bin") == b"data"


def test_a_model_is_fetched_with_the_data_that_are_there(place, tmp_path):
    (tmp_path / "from").mkdir()
    path = saved(tmp_path / "from", embedded=False)
    place.pipe("/far/m.onnx", path.read_bytes())
    for number, content in enumerate((None, b"data")):
        folder = tmp_path / str(number)
        folder.mkdir()
        if content is not None:
            place.pipe("/far/weights.bin", path.with_name("weights.bin").read_bytes())
        assert urls.fetch("memory://far/m.onnx", folder) == folder / "m.onnx"
        assert listing(folder) == ["m.onnx", *["weights.bin"] * number]
        assert (folder / "m.onnx").read_bytes() == path.read_bytes()


def test_a_network_is_fetched_with_its_weights(place, tmp_path):
    net = Net()
    net.result(net.layer("ReLU", [net.parameter([2])], {}, [("f32", [2])]))
    (tmp_path / "from").mkdir()
    place.pipe("/far/net.xml", net.write(tmp_path / "from").read_bytes())
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        urls.fetch("memory://far/net.xml", folder)
        assert listing(folder) == ["net.bin"] * number + ["net.xml"]
        place.pipe("/far/net.bin", b"")


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"hello", "not an ONNX model")])
def test_what_cannot_be_fetched_is_told_by_its_url(content, why, place, tmp_path):
    if content is not None:
        place.pipe("/far/m.onnx", content)
    with pytest.raises(InvalidModel, match=f"^memory://far/m.onnx: {why}"):
        urls.fetch("memory://far/m.onnx", tmp_path)


def test_one_spelling_for_each_place(place):
    assert urls.identity("memory://far/m.onnx") == urls.identity("memory:///far/m.onnx") == "memory:///far/m.onnx"
    assert urls.join("memory://far/", "m.onnx") == urls.join("memory://far", "m.onnx") == "memory://far/m.onnx"
    assert urls.join("far/", "m.onnx") == "far/m.onnx".replace("/", urls.os.sep)


def test_wildcards_stand_for_what_is_there(place, tmp_path, monkeypatch):
    for name in ("b.onnx", "a.onnx", "c.txt"):
        place.pipe(f"/far/{name}", b"")
        (tmp_path / name).write_text("")
    (tmp_path / "deep.onnx").mkdir()
    (tmp_path / "deep.onnx" / "d.onnx").write_text("")
    (tmp_path / "[x].onnx").write_text("")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert urls.expand_paths(["memory://far/*.onnx"]) == ["memory:///far/a.onnx", "memory:///far/b.onnx"]
    assert urls.expand_paths(["memory://far/x.onnx"]) == ["memory://far/x.onnx"], "it may be written there"
    assert urls.expand_paths(["?.onnx", "none.onnx"]) == ["a.onnx", "b.onnx", "none.onnx"]
    assert urls.expand_paths(["[x].onnx"]) == ["[x].onnx"]
    assert urls.expand_paths(["[ab].onnx"]) == ["a.onnx", "b.onnx"]
    assert urls.expand_paths(["**/d.onnx"]) == [urls.os.path.join("deep.onnx", "d.onnx")]
    assert [urls.os.path.basename(name) for name in urls.expand_paths(["."])] == ["[x].onnx", "a.onnx", "b.onnx"]
    assert urls.expand_paths(["."], folders=False) == ["."]
    for nothing, why in (
        ("empty", "the folder holds no model"),
        ("x*", "no file has this name"),
        ("memory://far/x*", "no file has this name"),
    ):
        with pytest.raises(ValueError, match=why):
            urls.expand_paths([nothing])


def test_what_no_package_opens_is_told(monkeypatch):
    with pytest.raises(ValueError, match=r"unknown://x: .*unknown"):
        urls.identity("unknown://x")
    find = builtins.__import__

    def without(name, *rest):
        if name.startswith("fsspec"):
            raise ImportError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install opshift\[batch\]"):
        urls.identity("memory://x")
