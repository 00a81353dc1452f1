"""The hook for pre-commit and the action for GitHub run commands that there are, with the exit codes that they rely on."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from opshift.cli import main as cli
from opshift.cli.parser import parse_arguments
from tests.support import model

pytestmark = pytest.mark.posix

ROOT = Path(__file__).parents[1]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
    onnx.save(model("y = Relu(x)", 13, **io), "old.onnx")
    onnx.save(model("y = Gelu(x)", 20, **io), "new.onnx")
    Path("broken.onnx").write_text("no model")
    return tmp_path


def test_the_hook_names_a_command():
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"entry: opshift (.*)", hook)
    options = parse_arguments([*entry[1].split(), "--target", "onnxruntime-1.16", "a.onnx", "b.onnx"])
    assert (options.command, options.strict, options.model, options.more) == ("inspect", True, "a.onnx", ["b.onnx"])
    assert re.compile(re.search(r"files: (.*)", hook)[1]).search("models/net.onnx")


@pytest.mark.parametrize(
    ("target", "models", "code"),
    [
        pytest.param("onnxruntime-1.16", "old.onnx", 0, marks=pytest.mark.long),
        pytest.param("onnxruntime-1.8", "old.onnx new.onnx", 3, marks=pytest.mark.long),
        ("13", "old.onnx", 0),
        pytest.param("13", "*.onnx", 5, marks=pytest.mark.long),
        pytest.param("onnxruntime-1.16", "old.onnx none.onnx", 5, marks=pytest.mark.long),
        ("nobody-1.0", "old.onnx", 2),
    ],
)
def test_the_action_runs(here, target, models, code):
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    script = re.search(r"- run: \|\n((?: {8}.*\n)+)", action)[1]
    command = Path(sys.executable).with_name("opshift")
    if not command.exists() or shutil.which("bash") is None:
        pytest.skip("no command is installed")
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env={**os.environ, "PATH": path, "TARGET": target, "MODELS": models},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr


def test_of_several_models_each_is_told_and_the_largest_code_counts(here, capsys):
    assert cli.main(["inspect", "old.onnx", "broken.onnx", "new.onnx", "--target", "onnxruntime-1.8"]) == 5
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("==")] == [
        "== old.onnx",
        "== broken.onnx",
        "== new.onnx",
    ]
    assert "not an ONNX model" in printed


def test_strict_is_about_what_a_target_reads_as_it_is(here, capsys):
    assert cli.main(["inspect", "new.onnx", "--target", "onnxruntime-1.8"]) == 0
    assert cli.main(["inspect", "new.onnx", "--target", "onnxruntime-1.8", "--strict"]) == 3
    assert cli.main(["inspect", "new.onnx", "--opset", "13", "--strict"]) == 3
    assert cli.main(["inspect", "new.onnx", "--opset", "20", "--strict"]) == 0
    capsys.readouterr()
    assert cli.main(["inspect", "new.onnx", "--strict"]) == 2
    assert cli.main(["inspect", "new.onnx", "old.onnx", "--format", "json"]) == 2
    assert "takes one model" in capsys.readouterr().out
