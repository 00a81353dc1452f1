"""Paths as Windows and macOS have them: drives, separators, prefixes of long ones, and names that know no case."""

import builtins
import io
import ntpath
import os
import posixpath
import sys

import numpy as np
import onnx
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import Goal
from opshift.passes.model import tensor_data

import opshift
from opshift.cli import main as cli
from opshift.cli.printing import printable
from opshift.files import external, urls
from opshift.jobs import batch
from opshift.jobs.rewrite import Manner
from opshift.verification import isolation
from tests.support import model

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


@pytest.mark.parametrize(
    "location",
    ["C:\\w.bin", "C:w.bin", "\\w.bin", "/w.bin", "\\\\host\\share\\w.bin", "..\\w.bin", "a\\..\\..\\w.bin", "a/../w.bin", "w.bin:x", ""],
)  # fmt: skip
def test_locations_that_lead_out_of_the_folder_on_windows(location):
    with pytest.raises(InvalidModel, match="outside"):
        tensor_data.parts_of(location, ntpath)


@pytest.mark.parametrize("location", ["sub\\w.bin", "sub/w.bin", ".\\sub\\w.bin"])
def test_both_separators_are_read_on_windows_and_slashes_are_written(location):
    assert tensor_data.parts_of(location, ntpath) == ["sub", "w.bin"]
    assert external.prefix_location(location, "m.", ntpath) == "sub/m.w.bin"


LONG = "\\" + "m" * 250


@pytest.mark.parametrize(
    ("path", "folder", "location"),
    [
        (f"\\\\?\\C:{LONG}\\w.bin", f"C:{LONG}", "w.bin"),
        (f"C:{LONG}\\w.bin", f"\\\\?\\c:{LONG}", "w.bin"),
        (f"\\\\?\\UNC\\host\\share{LONG}\\w.bin", f"\\\\host\\share{LONG}", "w.bin"),
        ("D:\\m\\w.bin", "C:\\m", "D:/m/w.bin"),
        ("C:\\w.bin", "C:\\m", "../w.bin"),
    ],
)
def test_long_paths_and_other_drives_are_referred_to(path, folder, location):
    assert tensor_data.location_of(path, folder, ntpath) == location


def test_a_location_has_slashes_whatever_the_system():
    assert tensor_data.location_of("C:\\m\\sub\\w.bin", "C:\\m", ntpath) == "sub/w.bin"
    assert tensor_data.location_of("/m/sub/w.bin", "/m", posixpath) == "sub/w.bin"
    assert tensor_data.parts_of("a\\b", posixpath) == ["a\\b"], "a name may hold one there"


@pytest.mark.parametrize(
    ("path", "opened"),
    [
        ("C:\\m\\in.onnx", "C:\\m\\in.onnx"),
        ("C:\\" + "m" * 250 + "\\a/..\\in.onnx", "\\\\?\\C:\\" + "m" * 250 + "\\in.onnx"),
        ("\\\\host\\share\\" + "m" * 250, "\\\\?\\UNC\\host\\share\\" + "m" * 250),
        ("\\\\?\\C:\\" + "m" * 250, "\\\\?\\C:\\" + "m" * 250),
    ],
)
def test_long_paths_are_opened(path, opened):
    assert tensor_data.reachable(path, ntpath) == opened
    assert tensor_data.reachable("/" + "m" * 500, posixpath) == "/" + "m" * 500


@pytest.mark.parametrize("system", ["win32", "darwin", "linux"])
def test_names_that_differ_by_case_are_one_file_but_on_linux(monkeypatch, tmp_path, system):
    monkeypatch.setattr(sys, "platform", system)
    models = [str(tmp_path / "a" / "m.onnx"), str(tmp_path / "b" / "M.ONNX")]
    if system == "linux":
        assert len(batch.arrange(models, str(tmp_path / "out"), Goal({}), Manner())) == 2
        return
    with pytest.raises(ValueError, match="would both be written to"):
        batch.arrange(models, str(tmp_path / "out"), Goal({}), Manner())


def test_models_are_found_whatever_the_case_in_which_their_names_end(tmp_path):
    for name in ("A.ONNX", "b.onnx", "c.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [os.path.basename(found) for found in urls.expand_paths([str(tmp_path)])] == ["A.ONNX", "b.onnx"]


@pytest.mark.parametrize("path", ["C:\\m\\in.onnx", "C:/m/in.onnx", "\\\\host\\share\\in.onnx", "file:///C:/in.onnx"])
def test_drives_and_shares_are_local(path):
    assert not urls.is_url(path)


@pytest.fixture
def short_paths(monkeypatch):
    """As on Windows, what has 260 characters or more is opened with a prefix alone, which stands for the root here."""
    prefix = "/proc/self/root"

    def limited(function):
        def checked(path, *rest, **named):
            text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
            if len(text) >= 260 and not text.startswith(prefix):
                raise FileNotFoundError(2, "The system cannot find the path specified", text)
            return function(path, *rest, **named)

        return checked

    for name in [
        "stat",
        "lstat",
        "open",
        "mkdir",
        "replace",
        "unlink",
        "rmdir",
        "scandir",
        "listdir",
        "access",
        "chmod",
    ]:
        monkeypatch.setattr(os, name, limited(getattr(os, name)))
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", limited(module.open))
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: os.path.abspath(path))
    reachable = lambda path, *_: path if len(path) < 240 or path.startswith(prefix) else prefix + os.path.abspath(path)  # noqa: E731
    monkeypatch.setattr(tensor_data, "reachable", reachable)
    monkeypatch.setattr(isolation, "call", lambda function, *arguments, **named: function(*arguments, **named))


@pytest.mark.posix
@pytest.mark.parametrize(
    "typed",
    [
        "convert {f}/in.onnx {f}/out.onnx --opset 13 --report {f}/page.html --save-inputs {f}/x.npz",
        "convert {f}/in.onnx {f}/out.onnx --opset 13 --external-data all --threshold 0",
        "convert {f}/in.onnx --in-place --opset 13 --inputs {f}/given.npz",
        "convert {f} --out-dir {f}/made --opset 13",
        "convert {f}/*.onnx --out-dir {f}/made --opset 13",
        "inline {f}/in.onnx --deny {f}/deny.txt",
        "inspect {f}/in.onnx",
        "inline {f}/in.onnx --target {f}/mine.toml",
        "inspect {f}/in.onnx --target {f}/mine.toml",
        "convert {f}/in.onnx --opset {f}/mine.toml",
        "optimize {f}/in.onnx --set x={f}/x.npy",
        "verify {f}/in.onnx {f}/in.onnx --report {f}/page.html",
    ],
)
def test_commands_take_long_paths(tmp_path, request, typed):
    folder = tmp_path.joinpath(*["d" * 50] * 5)
    folder.mkdir(parents=True)
    onnx.save(model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS), folder / "in.onnx")
    (folder / "deny.txt").write_text("Gelu\n", encoding="utf-8")
    told = 'name = "{}"\ntitle = "mine"\nsource = "seen"\n{}[versions."1"]\nopset = 18\nir = 8\n'
    (folder / "mine.toml").write_text(told.format("mine", f'base = "{folder}/base.toml"\n'), encoding="utf-8")
    (folder / "base.toml").write_text(told.format("base", ""), encoding="utf-8")
    np.savez(folder / "given.npz", x=np.ones((2, 3), np.float32))
    np.save(folder / "x.npy", np.ones((2, 3), np.float32))
    request.getfixturevalue("short_paths")
    assert cli.main(typed.format(f=folder).split()) == 0


@pytest.mark.posix
def test_python_takes_long_paths(tmp_path, request):
    folder = tmp_path.joinpath(*["d" * 50] * 5)
    folder.mkdir(parents=True)
    one, other = (model(f"y = {op}(x)", 18, inputs="float[2] x", outputs="float[2] y") for op in ("Sin", "Cos"))
    np.savez(folder / "given.npz", x=np.ones(2, np.float32))
    request.getfixturevalue("short_paths")
    assert opshift.verify(one, one, inputs=folder / "given.npz", save_inputs=folder / "kept")
    assert opshift.verify(one, one, inputs=folder / "kept")
    assert not opshift.verify(one, other, repro=folder / "small")
    assert os.path.exists(tensor_data.reachable(str(folder / "small" / "before.onnx")))


def test_what_is_told_of_long_paths_lacks_their_prefix():
    assert printable("\\\\?\\C:\\m\\in.onnx: \\\\?\\UNC\\host\\share") == "C:\\m\\in.onnx: \\\\host\\share"
