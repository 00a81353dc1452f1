"""The evidence of a proof is written beside a result, and replayed."""

import itertools
import json

import numpy as np
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


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("optimize --rebatch 4", "--rebatch"),
        ("optimize --drop-output y", "--drop-output"),
        ("optimize --add-output a", "--add-output"),
        ("convert --opset 13 --map tensor", "--map"),
        ("extract --to a", "extract"),
        ("merge --connect y=x", "merge"),
    ],
)
def test_what_verify_could_not_repeat_is_refused(proved, tmp_path, capsys, typed, named):
    source, _, evidence = map(str, proved)
    before = proved[2].read_bytes()
    command, *rest = typed.split()
    files = [source, source] if command == "merge" else [source]
    assert cli.main([command, *files, str(tmp_path / "new.onnx"), *rest, "--evidence", evidence]) == 2
    assert f"--evidence does not work with {named}\n" in capsys.readouterr().err
    assert proved[2].read_bytes() == before
    assert not (tmp_path / "new.onnx").exists()


def test_what_cannot_be_told_of_is_not_written(proved, tmp_path, capsys):
    source, result, _ = map(str, proved)
    before = proved[1].read_bytes()
    places = [tmp_path / "none" / "e.json", tmp_path / f"{'long' * 100}.json"]  # the second is only found out late
    for output, place in itertools.product((result, str(tmp_path / "new.onnx")), places):
        assert cli.main(["convert", source, output, "--opset", "12", "--evidence", str(place)]) == 6
        assert f"{place} cannot be written" in capsys.readouterr().err
    assert proved[1].read_bytes() == before
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize(
    ("place", "policy"),
    [
        ("in", []),
        ("in", ["--external-data", "all", "--threshold", "0"]),
        ("in", ["--external-data", "keep"]),  # elsewhere, the data that are kept would lie in another folder
        ("out", []),
        ("out", ["--external-data", "all", "--threshold", "0"]),
    ],
)
def test_data_beside_the_models_are_of_the_evidence(tmp_path, monkeypatch, place, policy):
    source = tmp_path / "in" / "m.onnx"
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    io = {"inputs": "float[N,4] x", "outputs": "float[N,4] y", "constants": "float[4] w = {1, 2, 3, 4}"}
    made = model("y = Mul(x, w)", 18, **io)
    made.graph.initializer[0].raw_data = np.float32([1, 2, 3, 4]).tobytes()
    made.graph.initializer[0].ClearField("float_data")
    onnx.save(made, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)
    command = ["in/m.onnx", f"{place}/r.onnx", "--opset", "13", "--evidence", "e.json"]
    assert cli.main(["convert", *command, *policy]) == 0
    assert len(json.loads((tmp_path / "e.json").read_text())["models"]["after"]) == 2
    assert cli.main(["verify", "--evidence", "e.json", *command[:2]]) == 0


@pytest.fixture
def pair(tmp_path):
    """Two models that compute the same where `s` is 1, and differ by half a part of a thousand at `x` = 2."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    io = {"inputs": "float[2] x, float[1] s", "outputs": "float[2] y"}
    onnx.save(model("y = Mul(x, s)", 18, **io), paths[0])
    onnx.save(
        model("t = Mul(s, s)\n d = Mul(x, w)\n y = Mul(d, t)", 18, **io, constants="float[1] w = {1.0005}"), paths[1]
    )
    return [str(path) for path in paths]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--inputs", "given.npz"), ("--set", "s=1"), ("--rtol", "0.001")],
    ids=["inputs", "set", "tolerance"],
)
def test_what_was_asked_for_is_asked_for_again(pair, tmp_path, monkeypatch, capsys, option, value):
    """Without one of the three options, the models differ."""
    monkeypatch.chdir(tmp_path)
    np.savez("given.npz", x=np.array([2, -3], np.float32), s=np.ones(1, np.float32))
    typed = {"--inputs": "given.npz", "--rtol": "0.001"} if option != "--set" else {"--set": "s=1", "--rtol": "0.001"}
    options = [text for name_and_value in typed.items() for text in name_and_value]
    assert cli.main(["verify", *pair, *options, "--evidence", "e.json"]) == 0
    (tmp_path / "given.npz").unlink()
    assert cli.main(["verify", *pair, "--evidence", "e.json"]) == 0
    assert "the evidence is confirmed: equal" in capsys.readouterr().out
    held = json.loads((tmp_path / "e.json").read_text())
    kept = {"--inputs": "inputs", "--set": "values", "--rtol": "tolerances"}[option]
    held["how"][kept] = type(held["how"][kept])()
    (tmp_path / "e.json").write_text(json.dumps(held))
    assert cli.main(["verify", *pair, "--evidence", "e.json"]) == 4
    assert "now different, in the evidence equal" in capsys.readouterr().out


def test_the_engine_runs_again(pair, tmp_path, capsys):
    evidence = str(tmp_path / "e.json")
    asked = ["--engine", "reference,onnxruntime", "--rtol", "0.1", "--set", "s=1"]
    assert cli.main(["verify", *pair, *asked, "--evidence", evidence]) == 0
    capsys.readouterr()
    assert cli.main(["verify", *pair, "--evidence", evidence, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verification"]["engine"] == "onnx.reference and onnxruntime"


def test_only_the_same_values_count_again(pair, tmp_path, capsys):
    evidence = str(tmp_path / "e.json")
    assert cli.main(["verify", *pair, "--rtol", "0.1", "--set", "s=1", "--exact", "--evidence", evidence]) == 4
    assert cli.main(["verify", *pair, "--evidence", evidence]) == 0
    assert "the evidence is confirmed: different" in capsys.readouterr().out
