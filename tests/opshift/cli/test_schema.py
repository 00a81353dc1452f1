"""What `--format json` prints follows one schema, which is published: documents of every verb, errors included."""

import json
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest

from opshift.cli import main as cli
from opshift.jobs import documents
from opshift.verification.verdict import OutputReport, Verification
from tests.opshift.jobs import schema
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "a = Abs(x) t = Mul(a, w) y = HardSwish(t)"
    held = "float[3] w = {1, 2, 3}"
    onnx.save(model(body, 18, constants=held, **IO), "in.onnx")
    onnx.save(model(body, 18, constants=held.replace("2", "4"), **IO), "other.onnx")
    onnx.save(model("a = ReduceL2<keepdims=1>(x) y = Mod<fmod=1>(x, a)", 18, **IO), "reduced.onnx")
    onnx.save(
        model('a = BitShift<direction="LEFT">(x, x) y = BitwiseNot(a)', 18, inputs="uint8[2] x", outputs="uint8[2] y"),
        "bits.onnx",
    )
    onnx.save(model("y = example.Gelu2(x)", 17, domains='"example" : 1', **IO), "custom.onnx")
    cli.main(["strip", "in.onnx", "stripped.onnx", "--threshold", "8", "--format", "json"])
    Path("broken.onnx").write_text("no model")
    return tmp_path


COMMANDS = {
    "convert in.onnx out.onnx --opset 13": "conversion",
    "convert in.onnx out.onnx --opset 13 --optimize --modernize": "conversion",
    "convert in.onnx out.onnx --opset 13 --no-verify": "conversion",
    "convert in.onnx out.onnx --opset 13 --dry-run": "conversion",
    "convert in.onnx out.onnx --opset 17 --atol 0.1": "conversion",
    "convert bits.onnx out.onnx --opset 9": "conversion",
    "convert custom.onnx out.onnx --opset 13": "conversion",
    "inline in.onnx out.onnx --op HardSwish": "conversion",
    "inline in.onnx out.onnx --target rknn-2.1": "conversion",
    "fold in.onnx out.onnx": "conversion",
    "convert in.onnx broken.onnx custom.onnx --out-dir out --opset 13": "conversions",
    "extract in.onnx out.onnx --to t": "conversion",
    "merge in.onnx in.onnx out.onnx": "conversion",
    "strip in.onnx out.onnx --threshold 8": "sharing",
    "fill stripped.onnx out.onnx": "sharing",
    "diff in.onnx in.onnx": "difference",
    "diff in.onnx reduced.onnx": "difference",
    "verify in.onnx in.onnx": "verification",
    "verify in.onnx other.onnx": "verification",
    "verify in.onnx custom.onnx": "verification",
    "verify in.onnx reduced.onnx": "verification",
    "verify in.onnx other.onnx --rtol 9 --engine reference": "verification",
    "inspect in.onnx": "inspection",
    "inspect custom.onnx": "inspection",
    "inspect in.onnx --target rknn-2.1": "prospect",
    "inspect bits.onnx --opset 9": "prospect",
    "inspect in.onnx --target all": "prospects",
    "targets": "targets",
    "convert in.onnx out.onnx --opset 99": "error",
    "convert in.onnx": "error",
    "convert broken.onnx out.onnx --opset 13": "error",
    "verify in.onnx none.onnx": "error",
    "verify in.onnx other.onnx --rtol z:1": "error",
    "inspect": "error",
    "inspekt": "error",
}


@cache
def validator(kind=""):
    """Of documents of a kind, or of all kinds."""
    held = json.loads(documents.schema_file().read_text(encoding="utf-8"))
    kinds = [{"$ref": f"#/$defs/{kind}"}] if kind else held["anyOf"]
    return jsonschema.Draft202012Validator({**held, "anyOf": kinds})


@pytest.mark.parametrize(
    "command", [pytest.param(typed, marks=pytest.mark.long) if typed == "targets" else typed for typed in COMMANDS]
)
def test_what_is_printed_follows_the_schema(here, capsys, command):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["opshift", *command.split(), "--format", "json"])
        assert cli.main() in range(7)
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["schema"] == documents.VERSION == "opshift/1"
    assert found["command"] == command.split()[0].replace("inspekt", "")
    validator(COMMANDS[command]).validate(found)
    validator().validate(found)


@pytest.mark.long
def test_documents_say_what_they_are(here, capsys):
    """No document fits another kind's schema."""
    kinds = [part["$ref"].rpartition("/")[2] for part in validator().schema["anyOf"]]
    assert set(COMMANDS.values()) == set(kinds)
    for command in ("verify in.onnx in.onnx", "inspect in.onnx", "targets", "fold in.onnx out.onnx"):
        cli.main([*command.split(), "--format", "json"])
        found = json.loads(capsys.readouterr().out)
        for kind in kinds:
            assert validator(kind).is_valid(found) is (kind == COMMANDS[command])


def test_numbers_that_json_does_not_have_are_null(here, capsys, monkeypatch):
    reported = (
        OutputReport("y", float("inf"), float("nan"), why="inf"),
        OutputReport("z", np.float64(1.5), -float("inf")),
    )
    seen = Verification("different", absolute=float("inf"), outputs=reported)
    monkeypatch.setattr("opshift.verification.verify.verify_apart", lambda *_, **__: seen)
    assert cli.main(["verify", "in.onnx", "in.onnx", "--format", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    validator().validate(found)
    assert found["absolute"] is None
    assert [(held["difference"], held["allowed"]) for held in found["outputs"]] == [(None, None), (1.5, None)]


def test_the_schema_is_published_and_printed(capsys):
    assert cli.main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert printed == schema.render(), "run: python -m tests.lab schema"
    assert all(file.read_text(encoding="utf-8") == printed for file in schema.FILES)
    jsonschema.Draft202012Validator.check_schema(json.loads(printed))
    assert "the largest difference of any output" in printed
