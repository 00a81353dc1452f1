"""The evidence of a proof is written beside a result, and replayed."""

import json

import onnx
import pytest

from opshift.cli import main as cli
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def proved(tmp_path):
    source, result, evidence = (tmp_path / name for name in ("in.onnx", "out.onnx", "evidence.json"))
    io = {"inputs": "float[N,4] x", "outputs": "float[N,1] y", "constants": "int64[1] a = {1}"}
    onnx.save(model("y = ReduceL2<keepdims=1>(x, a)", 18, **io), source)
    assert cli.main(["convert", str(source), str(result), "--opset", "13", "--evidence", str(evidence)]) == 0
    return source, result, evidence


def test_it_says_what_was_proved(proved):
    held = json.loads(proved[2].read_text())
    assert held["status"] == "equal"
    assert [(region["before"], region["after"]) for region in held["regions"]] == [(["ReduceL2"], ["ReduceL2"])]
    assert held["regions"][0]["runs"] > 2
    assert held["engines"]["onnx"] == onnx.__version__
    assert held["models"]["before"] != held["models"]["after"]


def test_it_holds_when_it_is_proved_again(proved, capsys):
    source, result, evidence = map(str, proved)
    assert cli.main(["verify", "--evidence", evidence, source, result]) == 0
    assert "the evidence is confirmed: equal, 1 kind of changed parts proved again" in capsys.readouterr().out


def test_it_does_not_hold_of_what_it_never_said(proved, capsys):
    source, result, evidence = proved
    held = json.loads(evidence.read_text())
    held["regions"][0]["status"] = "different"
    evidence.write_text(json.dumps(held))
    assert cli.main(["verify", "--evidence", str(evidence), str(source), str(result)]) == 4
    assert "ReduceL2 -> ReduceL2 at 'y': equal, in the evidence different" in capsys.readouterr().out


def test_other_models_are_refused(proved, capsys):
    source, _, evidence = map(str, proved)
    assert cli.main(["verify", "--evidence", evidence, source, source]) == 2
    assert "is not the model of this evidence" in capsys.readouterr().err


def test_what_is_no_evidence_is_refused(proved, tmp_path, capsys):
    source, result, _ = map(str, proved)
    (tmp_path / "other.json").write_text("{}")
    assert cli.main(["verify", "--evidence", str(tmp_path / "other.json"), source, result]) == 2
    assert "is not an evidence file of opshift" in capsys.readouterr().err


def test_nothing_is_written_where_nothing_is_proved(proved, tmp_path, capsys):
    source, result, _ = map(str, proved)
    assert cli.main(["convert", source, result, "--opset", "13", "--no-verify", "--evidence", "e.json"]) == 2
    assert "--evidence has no effect with --no-verify" in capsys.readouterr().err
