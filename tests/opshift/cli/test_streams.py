"""What is printed where nobody can take it, and requests to end at any moment."""

import _imp
import json
import os
import signal
import subprocess
import sys
import time
from importlib.machinery import ExtensionFileLoader, ModuleSpec

import onnx
import pytest

from opshift.cli import interrupts
from opshift.cli import main as cli
from tests.support import model


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model("y = Relu(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y"), "in.onnx")
    return tmp_path


@pytest.mark.posix
@pytest.mark.parametrize("typed", ["targets", "ledger --markdown", "inspect in.onnx --format json", "inspect none.onnx --format json"])  # fmt: skip
def test_a_standard_output_that_is_full_is_6(here, capsys, monkeypatch, typed):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(typed.split()) == 6
    assert capsys.readouterr().err == "opshift: cannot write to standard output: No space left on device\n"


@pytest.mark.posix
def test_an_error_that_cannot_be_told_keeps_its_code(here, monkeypatch):
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert cli.main(["inspect", "none.onnx"]) == 5
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_a_reader_that_leaves_on_windows_is_one_that_leaves(monkeypatch, tmp_path):
    with (tmp_path / "gone").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(os, "name", "nt")
        assert cli._fail_to_print(OSError(22, "Invalid argument")) == 141


@pytest.mark.long
def test_streams_that_are_closed_are_no_defect(here):
    closed = "import os, sys; [os.close(n) for n in (0, 1, 2)]; os.execv(sys.executable, [sys.executable, '-m', 'opshift', *sys.argv[1:]])"
    typed = ["convert", "in.onnx", "out.onnx", "--opset", "13"]
    done = subprocess.run([sys.executable, "-c", closed, *typed], check=False)
    assert done.returncode == 0
    assert onnx.load("out.onnx").opset_import[0].version == 13


def test_without_onnx_it_is_said_what_to_install(here):
    code = (
        "import importlib.util as util, sys; find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'onnx' else find(name, *more)\n"
        "from opshift.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    for typed in (["inspect", "in.onnx"], ["inspect", "in.onnx", "--format", "json"], ["targets"]):
        done = subprocess.run([sys.executable, "-c", code, *typed], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "opshift: opshift needs onnx: pip install onnx\n")


def test_no_memory_for_a_compiled_module_is_a_line(here, capsys, monkeypatch):
    def fails(*_):
        raise ImportError("x.so: failed to map segment from shared object", name="onnx.x")

    monkeypatch.setattr("opshift.files.model_file.read", fails)
    assert cli.main(["inspect", "in.onnx"]) == 5
    assert capsys.readouterr().err == "opshift: not enough memory for this model\n"


def test_an_interrupt_waits_for_a_compiled_module(monkeypatch):
    seen = []

    def runs(_):
        interrupts.interrupt(signal.SIGINT, sys._getframe())
        seen.append("loaded")

    def loads():
        loader.exec_module(ModuleSpec("x", loader))
        for _ in range(1000):
            time.sleep(0.01)

    monkeypatch.setattr(_imp, "exec_dynamic", runs)
    loader = ExtensionFileLoader("x", "x.so")
    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        loads()
    assert seen == ["loaded"]
    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        signal.getsignal(signal.SIGINT)(signal.SIGINT, None)


@pytest.mark.posix
def test_an_interrupt_waits_for_types_of_messages():
    """Where one is raised while protobuf makes them, it crashes."""
    seen = []
    code = "def makes():\n    interrupt(2, frame())\n    seen.append('made')\n    return range(1000)"
    space = {
        "__name__": "google.protobuf.internal.builder",
        "interrupt": interrupts.interrupt,
        "seen": seen,
        "frame": sys._getframe,
    }
    exec(code, space)

    def builds():
        for _ in space["makes"]():
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        builds()
    assert seen == ["made"]


def test_a_wide_table_breaks_what_is_too_long_and_cuts_nothing_off(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["targets"]) == 0
    assert "…" not in capsys.readouterr().out
    monkeypatch.setenv("TERM", "dumb")
    assert cli.main(["targets"]) == 0
    assert "│" not in capsys.readouterr().out


def test_models_of_unlike_outputs_are_not_said_to_have_been_run(here, capsys):
    onnx.save(model("z = Shape(x)", 18, inputs="float[N,3] x", outputs="int64[2] z"), "other.onnx")
    assert cli.main(["verify", "in.onnx", "other.onnx"]) == 4
    assert capsys.readouterr().out.startswith("DIFFERENT: the outputs are ['z'] instead of ['y']")
    assert cli.main(["verify", "in.onnx", "other.onnx", "--format", "json"]) == 4
    assert json.loads(capsys.readouterr().out)["status"] == "different"
