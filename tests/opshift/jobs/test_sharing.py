"""From a file to one without its weights, and back; what is in the way, and that nothing is left behind then."""

import json
from itertools import pairwise

import numpy as np
import onnx
import pytest

from opshift.cli import main as cli
from tests.opshift.cli.test_main import listing
from tests.opshift.jobs.test_preparing import weighty
from tests.support import evaluate, model

pytestmark = pytest.mark.usefixtures("in_this_process")


def run(*typed):
    return cli.main([str(each) for each in typed])


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("name", ["small.onnx", "small.onnx.gz"])
def test_there_and_back(tmp_path, capsys, external, name):
    weighty(tmp_path / "in.onnx", external=external)
    (tmp_path / "there").mkdir()
    small, back = tmp_path / "there" / name, tmp_path / "there" / "back.onnx"
    assert run("strip", tmp_path / "in.onnx", small) == 0
    assert "removed 3 tensors, 120.0 kB" in capsys.readouterr().out
    assert small.stat().st_size < 1500
    assert run("fill", small, back) == 0
    assert listing(tmp_path / "there") == sorted(["back.onnx", name])
    made = onnx.load(back)
    onnx.checker.check_model(made, full_check=True)
    assert [tensor.name for tensor in made.graph.initializer] == ["w0", "w1", "w2"]
    assert run("verify", back, back) == 0


def test_a_model_without_its_weights_is_read_and_not_run(tmp_path, capsys):
    weighty(tmp_path / "in.onnx")
    small, out = tmp_path / "small.onnx", tmp_path / "out.onnx"
    assert run("strip", tmp_path / "in.onnx", small) == 0
    assert run("inspect", small) == 0
    capsys.readouterr()
    assert run("convert", small, out, "--opset", "13") == 3
    assert "`opshift fill` fills" in capsys.readouterr().out
    assert not out.exists()
    assert run("convert", small, out, "--opset", "13", "--no-verify") == 0


def test_long_names_become_short_in_a_large_file_alone(tmp_path, capsys):
    long = [f"model/a_very_long_scope_of_an_exporter_{k}/with/more/of/it" for k in range(500)]
    nodes = [f"{b} = {'Neg' if k % 2 else 'Abs'}({a})" for k, (a, b) in enumerate(pairwise(["x", *long]))]
    branch = (
        "then_branch = t () => (float[2] v0) { v0 = Neg(LAST) }, else_branch = e () => (float[2] w) { w = Abs(v0_) }"
    )
    text = " ".join(nodes) + f" v0_ = Exp(x) y = If(c) <{branch.replace('LAST', long[-1])}>"
    source = model(text.replace("/", "_"), 18, inputs="float[2] x, bool c", outputs="float[2] y")
    for k, node in enumerate(source.graph.node):
        node.name = f"model/a_very_long_scope/of_an_exporter/{k}"
    onnx.save(source, tmp_path / "in.onnx")
    assert run("strip", tmp_path / "in.onnx", tmp_path / "small.onnx") == 0
    assert "shortened 1005 names of values and nodes; .onnx.gz keeps them" in capsys.readouterr().out
    made = onnx.load(tmp_path / "small.onnx")
    onnx.checker.check_model(made, full_check=True)
    assert made.ByteSize() < source.ByteSize() / 3
    for condition in (True, False):
        feeds = {"x": np.array([1, -2], np.float32), "c": np.array(condition)}
        np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])
    assert run("strip", tmp_path / "in.onnx", tmp_path / "small.onnx.gz") == 0
    assert "shortened" not in capsys.readouterr().out


def test_in_json(tmp_path, capsys):
    weighty(tmp_path / "in.onnx")
    assert run("strip", tmp_path / "in.onnx", tmp_path / "small.onnx", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tensors"], found["bytes"]) == (3, 120000)
    assert found["before"] > 120000 > found["after"] > found["compressed"]


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["strip", "none.onnx", "out.onnx"], 5),
        (["strip", "broken.onnx", "out.onnx"], 5),
        (["strip", "in.onnx", "in.onnx"], 2),
        (["strip", "in.onnx", "."], 2),
        (["strip", "in.onnx", "nowhere/out.onnx"], 6),
        (["strip", "in.onnx", "out.onnx", "--threshold", "0"], 2),
        (["strip", "in.onnx"], 2),
        (["strip", "left.onnx", "out.onnx"], 5),
        (["fill", "in.onnx", "out.onnx"], 5),
        (["fill", "none.onnx", "out.onnx"], 5),
        (["fill", "broken.gz", "out.onnx"], 5),
    ],
)
def test_what_cannot_be_done_leaves_nothing(tmp_path, monkeypatch, typed, code):
    monkeypatch.chdir(tmp_path)
    weighty(tmp_path / "in.onnx")
    weighty(tmp_path / "left.onnx", external=True)
    (tmp_path / "whole.data").unlink()
    (tmp_path / "broken.onnx").write_text("no model")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8bbroken")
    before = listing(tmp_path)
    assert run(*typed) == code
    assert listing(tmp_path) == before
