"""A command ends with all that it started, once its time is over."""

import subprocess
import sys
import time

import pytest

from tests.lab.proof.running import alive, descendants, kill, run

pytestmark = pytest.mark.posix

SLEEPING = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"


@pytest.mark.long
def test_exit_codes_are_answers():
    assert run(["--version"]).status == "equal"
    assert run(["verify", "missing.onnx", "missing.onnx"]).status == "exit 5"


def test_a_command_ends_when_its_time_is_over():
    answer = run(["--version"], limit=0)
    assert answer.status == "over 0 s"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_children_are_found_and_end():
    parent = subprocess.Popen([sys.executable, "-c", SLEEPING])
    until = time.perf_counter() + 20
    while not (children := descendants(parent.pid)) and time.perf_counter() < until:
        time.sleep(0.05)
    assert len(children) == 1
    assert alive(children[0])
    kill([parent.pid, *children])
    parent.wait()
    while alive(children[0]) and time.perf_counter() < until:
        time.sleep(0.05)
    assert not alive(children[0])
