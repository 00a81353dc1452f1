"""Everything works where POSIX is not: files, the command line, the process that runs a model, and paths of Windows."""

import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes import process
from opshift.passes.model import tensor_data

import opshift
from opshift.cli import main as cli
from opshift.files import external, model_file, writing
from opshift.probing.worker import Task, Worker
from opshift.verification import isolation

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = [path for top in ("opshift", "passes", "functions") for path in sorted(ROOT.joinpath(top).rglob("*.py"))]
ABSENT = {
    os: "pread copy_file_range fork wait4 posix_fadvise O_NOFOLLOW O_NONBLOCK killpg setsid sendfile mkfifo",
    signal: "SIGALRM SIGKILL alarm pthread_sigmask SIGHUP",
}


@pytest.fixture
def windows(monkeypatch):
    """Takes away what Windows lacks."""
    for module, names in ABSENT.items():
        for name in names.split():
            monkeypatch.delattr(module, name, raising=False)
    for name in ("resource", "fcntl", "termios"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(isolation, "forks", lambda: False)


@pytest.fixture
def source(tmp_path):
    """A model with a weight that is copied from file to file."""
    weight = onnx.numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")
    nodes = [
        onnx.helper.make_node("Add", ["x", "w"], ["t"]),
        onnx.helper.make_node("ReduceMax", ["t"], ["y"], keepdims=1),
    ]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [4096]), ("y", [1])))
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [weight])
    path = tmp_path / "in.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def weight_of(path):
    return onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0])


@pytest.mark.parametrize("policy", ["none", "all", "copy", "keep"])
def test_weights_go_from_file_to_file(windows, source, tmp_path, policy):
    model = model_file.read(source, whole=0, large=16)
    assert tensor_data.is_embedded(model.graph.initializer[0]), "else nothing is copied"
    with model_file.Draft(model, tmp_path / "out.onnx", tmp_path, policy) as draft:
        draft.publish()
    np.testing.assert_array_equal(weight_of(tmp_path / "out.onnx"), np.arange(4096))
    again = model_file.read(tmp_path / "out.onnx", whole=0, large=16)
    (tmp_path / "far").mkdir()
    with model_file.Draft(again, tmp_path / "far" / "out.onnx", tmp_path, "copy") as draft:
        draft.publish()
    np.testing.assert_array_equal(weight_of(tmp_path / "far" / "out.onnx"), np.arange(4096))


@pytest.mark.long
def test_a_command_converts_and_proves_in_a_process_of_its_own(windows, source, tmp_path, capsys):
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13"]) == 0
    assert "equal: the same " in capsys.readouterr().out
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 13


@pytest.mark.long
def test_what_a_process_of_its_own_does_is_told(windows, source, tmp_path):
    said = []
    opshift.verify(source, source, runs=2, progress=lambda *told: said.append(told))
    assert ("run the second model", 2, 2) in said


def test_a_script_that_tries_a_backend_is_run_once(tmp_path, monkeypatch):
    """Processes that begin afresh run the main script of who began them, unless they are kept from it."""
    (tmp_path / "script.py").write_text(f"open({str(tmp_path / 'again')!r}, 'w').close()", encoding="utf-8")
    script = types.ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Neg(x) }')
    worker = Worker("opshift.verification.engines:OnnxRuntime")
    try:
        assert worker.run(
            Task(model.SerializeToString(), {"x": np.array(2, np.float32)}, [np.array(-2, np.float32)])
        ).agrees
    finally:
        worker.stop()
    assert not (tmp_path / "again").exists()
    assert sys.modules["__main__"] is script


def test_commands_that_only_look(windows, source, capsys):
    for typed in (["inspect", str(source)], ["targets"], ["ledger", "--op", "Resize"], ["inspect", str(source), "--opset", "11"]):  # fmt: skip
        assert cli.main(typed) == 0


def test_limits_that_cannot_be_set_are_not(windows):
    with process.ours(), process.at_most(1 << 20):
        assert len(bytes(1 << 22)) == 1 << 22


def test_a_process_ends_in_time_without_an_alarm(windows, monkeypatch):
    ended = []
    monkeypatch.setattr(isolation, "_apart", True)
    monkeypatch.setattr(os, "_exit", ended.append)
    isolation.end_after(0)
    for timer in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
        timer.join()
    assert ended == [isolation._LATE]
    assert isolation.Ended(isolation._LATE).late


def test_the_way_in_which_windows_ends_a_process_is_told(windows):
    assert "exit code 0xc0000005" in str(isolation.Ended(0xC0000005))


def test_a_file_that_is_open_is_replaced_once_it_is_closed(windows, source, tmp_path, monkeypatch):
    held, replace = [tmp_path], os.replace

    def refuses(*paths):
        if held:
            held.clear()
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        replace(*paths)

    monkeypatch.setattr(os, "replace", refuses)
    with model_file.Draft(model_file.read(source), tmp_path / "out.onnx", tmp_path) as draft:
        draft.publish()
    assert (tmp_path / "out.onnx").exists()


def test_a_file_that_stays_open_is_an_output_that_cannot_be_written(windows, source, tmp_path, monkeypatch, capsys):
    def refuses(*_):
        raise PermissionError(13, "being used by another process", str(tmp_path / "x.part"), None, str(tmp_path))

    monkeypatch.setattr(os, "replace", refuses)
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13", "--no-verify"]) == 6
    assert (
        capsys.readouterr().err
        == f"opshift: {tmp_path / 'out.onnx'} cannot be written: being used by another process\n"
    )
    assert os.listdir(tmp_path) == ["in.onnx"]


@pytest.mark.long
def test_names_that_a_pipe_has_no_letters_for_are_spelled_out(source):
    model = onnx.load(source)
    model.graph.output[0].name = model.graph.node[1].output[0] = "größe→"
    onnx.save(model, source)
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252:strict", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "opshift", "inspect", str(source)], capture_output=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "größe\\u2192" in done.stdout.decode("cp1252")


def test_a_file_that_is_looked_through_is_replaced_a_moment_later(source, tmp_path, monkeypatch):
    held, replace, paused = [1, 2, 3], os.replace, []

    def refuses(*paths):
        if held:
            raise PermissionError(13, "being used by another process", str(held.pop()))
        replace(*paths)

    monkeypatch.setattr(os, "replace", refuses)
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(time, "sleep", paused.append)
    (tmp_path / "new").write_bytes(b"new")
    model_file._replace(tmp_path / "new", source)
    assert source.read_bytes() == b"new"
    assert paused == sorted(paused)
    assert 0 < sum(paused) < 1


def test_backslashes_between_folders_are_read_everywhere(tmp_path, capsys):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) { y = Add(x, w) }'
    )
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    weight.external_data.add(key="location", value="sub\\w.bin")
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "in.onnx")
    (tmp_path / "sub").mkdir()
    np.arange(4, dtype=np.float32).tofile(tmp_path / "sub" / "w.bin")
    assert cli.main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "13"]) == 0
    held = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer[0].external_data
    assert [entry.value.replace("\\", "/") for entry in held if entry.key == "location"] == ["sub/w.bin"]
    np.testing.assert_array_equal(weight_of(tmp_path / "out.onnx"), np.arange(4))


@pytest.mark.posix
def test_a_name_with_a_backslash_is_a_name_where_there_is_such_a_file(tmp_path):
    model = onnx.ModelProto()
    held = model.graph.initializer.add(name="w", data_location=1).external_data.add(key="location")
    (tmp_path / "sub").mkdir()
    for made, read in (("sub/w.bin", "sub/w.bin"), ("sub\\w.bin", "sub\\w.bin")):
        held.value = "sub\\w.bin"
        (tmp_path / made).write_bytes(b"")
        external.check(model, tmp_path)
        assert held.value == read


@pytest.mark.parametrize("page", ["", "page.html"])
def test_what_cannot_be_removed_does_not_hide_what_could_not_be_written(
    windows, source, tmp_path, monkeypatch, capsys, page
):
    """A read-only disk refuses both, and so does Windows what is open."""

    def refuses(*_, **__):
        raise OSError(30, "Read-only file system", "x.part")

    for name in ("touch", "unlink", "write_text"):
        monkeypatch.setattr(pathlib.Path, name, refuses)
    monkeypatch.chdir(tmp_path)
    assert (
        cli.main(
            ["convert", "in.onnx", "out.onnx", "--opset", "13", "--no-verify", *(["--report", page] if page else [])]
        )
        == 6
    )
    assert capsys.readouterr().err == "opshift: out.onnx cannot be written: Read-only file system\n"


def test_folders_for_a_while_are_left_where_something_in_them_is_open():
    """Windows does not remove what is open, which is no reason to fail: `writing.scratch` alone makes such folders."""
    for path in SOURCES:
        assert path.name == "writing.py" or "TemporaryDirectory" not in path.read_text("utf-8"), path
    assert "ignore_cleanup_errors=True" in pathlib.Path(writing.__file__).read_text("utf-8")


@pytest.mark.parametrize("what", ["markdown", "definitions"])
def test_what_is_kept_as_a_file_is_the_same_everywhere(monkeypatch, what):
    """A pipe of Windows has other letters, and ends lines with two characters."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="\r\n")
    monkeypatch.setattr(sys, "stdout", pipe)
    monkeypatch.setattr("opshift.catalog.ledger.as_markdown", lambda: "1 → 2\n")
    monkeypatch.setattr("opshift.catalog.definitions.as_markdown", lambda: "1 → 2\n")
    assert cli.main(["ledger", f"--{what}"]) == 0
    assert pipe.buffer.getvalue() == "1 → 2\n".encode()


def test_texts_end_their_lines_alike_everywhere():
    """So that what is generated has the same bytes: `write_text` ends lines as the system does, unless it is told."""
    for path in SOURCES:
        for call in re.findall(r"\.write_text\(.*\)", path.read_text("utf-8")):
            assert 'newline="\\n"' in call or "str(number)" in call, (path, call)


@pytest.mark.long
def test_nothing_that_windows_lacks_is_imported_at_the_top():
    absent = ("resource", "fcntl", "pwd", "grp", "termios")
    code = (
        "import builtins\n"
        "real = builtins.__import__\n"
        "def look(name, globals=None, *rest, **named):\n"
        f"    if name in {absent} and (globals or {{}}).get('__name__', '').startswith('opshift'): raise ImportError(name)\n"
        "    return real(name, globals, *rest, **named)\n"
        "builtins.__import__ = look\n"
        "import opshift.cli.main, opshift.cli.commands, opshift.api, opshift.jobs.batch, opshift.verification.combined\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
