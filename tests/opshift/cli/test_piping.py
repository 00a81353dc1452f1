"""Models that come by pipes, and go to the standard output."""

import json
import subprocess
import sys

import onnx
import pytest

from tests.support import model

pytestmark = pytest.mark.posix


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model("y = Relu(x)", 18, inputs="float[N,3] x", outputs="float[N,3] y"), "in.onnx")
    return tmp_path


def shell(line):
    line = line.replace("opshift", f"{sys.executable} -m opshift")
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True)


def opset(data):
    return onnx.load_model_from_string(data).opset_import[0].version


@pytest.mark.long
@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_a_model_comes_by_the_standard_input(here, name):
    done = shell(f"cat in.onnx | opshift convert {name} out.onnx --opset 13")
    assert (done.returncode, done.stderr) == (0, b"")
    assert opset((here / "out.onnx").read_bytes()) == 13
    assert done.stdout.decode().splitlines()[-1] == "written to out.onnx"


@pytest.mark.long
def test_a_model_comes_from_a_command(here):
    done = shell("opshift verify in.onnx <(cat in.onnx)")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.long
@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_model_goes_to_the_standard_output_and_words_to_the_other(here, name):
    done = shell(f"opshift convert in.onnx {name} --opset 13")
    assert (done.returncode, opset(done.stdout)) == (0, 13)
    assert done.stderr.decode().splitlines()[-1] == "written to standard output"


@pytest.mark.long
def test_models_go_from_command_to_command(here):
    done = shell("opshift convert - - --opset 13 <in.onnx | opshift convert - - --opset 12 --format json | cat")
    assert (done.returncode, opset(done.stdout)) == (0, 12)
    said = done.stderr.decode()
    assert json.loads(said[said.index("{") :])["output"] == "standard output"


def test_a_refusal_writes_nothing(here):
    onnx.save(model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y"), "text.onnx")
    done = shell("cat text.onnx | opshift convert - - --opset 13")
    assert (done.returncode, done.stdout) == (3, b"")


def test_what_is_no_model_is_told_of_the_standard_input(here):
    done = shell("echo no model | opshift inspect -")
    assert done.returncode == 5
    assert done.stderr.startswith(b"opshift: standard input: not an ONNX model")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("verify - -", "only one model"),
        ("convert - --opset 13", "give an output"),
        ("convert - --opset 13 --in-place", "--in-place needs a model in a file"),
        ("convert in.onnx - --opset 13 --external-data all", "needs an output file"),
        ("convert - --out-dir out --opset 13", "is not a file"),
    ],
)
def test_what_no_pipe_can_do_is_usage(here, typed, said):
    done = shell(f"opshift {typed} <in.onnx")
    assert done.returncode == 2
    assert said in done.stderr.decode()
