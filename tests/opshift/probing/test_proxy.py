"""A backend under an interpreter of its own: what it runs, how it fails, and that nothing of it stays."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from opshift.probing import installed
from opshift.probing.proxy import Absent, Proxy
from opshift.probing.worker import Impatient, Run, Task, Verdict, Yield
from tests.support import model

NPU = str(Path(__file__).parents[1] / "adapters" / "npu.py")
X = np.array([[1, -2, 3]], np.float32)

pytestmark = pytest.mark.posix  # os.kill, process groups


@pytest.fixture(scope="module")
def npu():
    made = Proxy(NPU, sys.executable, 20)
    yield made
    made.stop()


def source(body, kind="float"):
    return model(body, 22, inputs="float[1,3] x", outputs=f"{kind}[1,3] y").SerializeToString()


def task(body, expected):
    return Task(source(body), {"x": X}, [expected])


def processes(mark):
    """The processes whose command names a folder."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if mark in line and "ps -eo" not in line]


@pytest.mark.long
def test_it_says_its_release(npu):
    import onnxruntime

    told = npu.hello()
    assert told["release"] == onnxruntime.__version__
    assert told["options"] == ["--no-fuse"]


def test_what_runs_agrees_or_differs_and_one_process_serves_all(npu):
    assert npu.run(task("y = Relu(x)", np.maximum(X, 0))).agrees
    first = npu.path("")
    assert npu.run(task("y = Relu(x)", X)) == Verdict("differs", "other values")
    assert npu.path("") == first


def test_integers_come_back_in_the_type_that_the_model_declares(npu):
    found = npu.ask(Run(source("y = Cast<to = 7>(x)", "int64"), [{"x": X}]))
    assert found.outputs[0][0].dtype == np.int64
    np.testing.assert_array_equal(found.outputs[0][0], [[1, -2, 3]])


def test_the_one_line_that_says_why_is_found_between_a_hundred(npu):
    found = npu.ask(Run(source("y = Mish(x)"), [{"x": X}]))
    assert found == Yield([], "cannot lower 'Mish'", loaded=False)


@pytest.mark.long
def test_options_go_to_the_compiler():
    held = Proxy(NPU, sys.executable, 20, ["--no-fuse"])
    try:
        assert held.run(task("y = Elu(x)", np.where(X > 0, X, np.expm1(X)))).agrees
    finally:
        held.stop()


def test_what_it_leaves_in_the_folder_for_temporary_files_goes_with_it(tmp_path):
    (tmp_path / "npu.py").write_text(
        "import tempfile\n"
        "PACKAGE, REASONS, OPTIONS = 'onnxruntime', [], []\n"
        "class Session:\n"
        "    def __init__(self, *_):\n"
        "        raise RuntimeError(tempfile.mkdtemp())\n"
    )
    held = Proxy(str(tmp_path / "npu.py"), sys.executable, 20)
    refused = held.run(task("y = Relu(x)", X))
    assert refused.status == "refused"
    left = refused.why.rpartition(" ")[2]
    assert os.path.isdir(left)
    held.stop()
    assert not os.path.exists(left)


@pytest.mark.long
def test_what_dies_says_its_last_words_and_is_started_anew(npu):
    assert npu.run(task("y = Relu(x)", np.maximum(X, 0))).agrees
    died = npu.run(task("y = Celu(x)", X))
    assert died == Verdict("died", "its compiler ended: Segmentation fault; error: no such unit")
    assert npu.run(task("y = Relu(x)", np.maximum(X, 0))).agrees


@pytest.mark.long
def test_what_hangs_is_ended_with_all_that_it_started():
    held = Proxy(NPU, sys.executable, 1.5)
    folder = held.path("").rstrip("/")
    assert held.run(task("y = ThresholdedRelu(x)", X)) == Verdict("hung", "no answer within 1.5 s")
    deadline = time.monotonic() + 5
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    assert not os.path.exists(folder)


@pytest.mark.long
def test_nothing_stays_when_the_process_that_asks_is_killed():
    code = (
        "import os, signal, sys; from opshift.probing.proxy import Proxy; "
        f"p = Proxy({NPU!r}, sys.executable, 20); print(p.path(''), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    folder = done.stdout.strip().rstrip("/")
    assert folder
    deadline = time.monotonic() + 5
    while (os.path.exists(folder) or processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes(folder)
    assert not os.path.exists(folder)


@pytest.mark.long
def test_an_interpreter_that_does_not_have_it_says_so(tmp_path):
    (tmp_path / "lost.py").write_text("import nowhere_to_be_found\n")
    with pytest.raises(Absent, match="does not have the backend: No module named 'nowhere_to_be_found'"):
        Proxy(str(tmp_path / "lost.py"), sys.executable, 20).hello()
    with pytest.raises(Absent, match="is no interpreter of Python: No such file"):
        Proxy(NPU, str(tmp_path / "python"), 20).hello()


@pytest.mark.long
def test_an_interpreter_is_named_or_set(monkeypatch, tmp_path):
    monkeypatch.setenv("OPSHIFT_PYTHON_NPU", sys.executable)
    found = installed.find("npu", None, NPU)
    assert found.python == sys.executable
    with pytest.raises(ValueError, match="name the interpreter that has it with --python or OPSHIFT_PYTHON_NPU"):
        installed.find("npu", str(tmp_path / "python"), NPU)
    with pytest.raises(ValueError, match="does not exist; give --adapter the path"):
        installed.find("npu", None, str(tmp_path / "npu.py"))
    with pytest.raises(ValueError, match="so --python has no effect"):
        installed.find("onnxruntime", sys.executable)


@pytest.mark.parametrize("interpreter", ["/bin/ls", "/bin/nosuch", "/bin"])
def test_what_is_no_interpreter_is_not_told_to_install_the_package(interpreter):
    with pytest.raises(ValueError, match=f"{interpreter} is no interpreter of Python: .*--python") as refused:
        installed.find("mnn", interpreter)
    assert "pip install" not in str(refused.value)


def test_after_some_hangs_nothing_more_is_waited_for():
    class Hanging:
        asked = 0

        def ask(self, question, seconds=0):
            self.asked += 1
            return Verdict("hung")

    hanging = Hanging()
    held = Impatient(hanging, 2)
    assert [held.run(None).status for _ in range(4)] == ["hung"] * 4
    assert hanging.asked == 2
    held.begin()
    assert held.run(None).why == ""
    assert hanging.asked == 3
