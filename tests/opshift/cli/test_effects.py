"""Options that would be of no effect, commands that are not known, and outputs that are no models are told at once."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from opshift.cli import elsewhere
from opshift.cli import main as cli
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def here(tmp_path, monkeypatch):
    made = model("y = Add(x, w)", 18, inputs="float[N,2] x", outputs="float[N,2] y", constants="float[2] w = {1, 2}")
    onnx.save(made, tmp_path / "in.onnx")
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "w"))  # raw, as data files are
    onnx.save(made, tmp_path / "far.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, typed):
    code = cli.main(typed.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--threshold 0", "--threshold needs --external-data all"),
        ("--threshold 0 --external-data none", "--threshold needs --external-data all"),
        ("--threshold -1 --external-data all", "--threshold must be 0 or more, not -1"),
        ("--seed 0 --no-verify", "--seed has no effect with --no-verify"),
        ("--runs 0 --no-verify", "--runs has no effect with --no-verify"),
        ("--jobs 2", "--jobs and --backend need --out-dir"),
        ("--report a.html --out-dir all", "--report works with one model only, not with --out-dir"),
        ("-v -q", "argument -q/--quiet: not allowed with argument -v/--verbose"),
        ("--repro in.onnx", "in.onnx is a file; give a new folder"),
    ],
)
def test_what_would_be_of_no_effect(here, capsys, options, why):
    before = sorted(here.iterdir())
    code, _, err = told(capsys, f"convert in.onnx --opset 13 {options}")
    assert (code, err.splitlines()[0]) == (2, f"opshift: {why}")
    assert sorted(here.iterdir()) == before


def test_a_threshold_is_that_of_all_data(here, capsys):
    assert told(capsys, "convert in.onnx small.onnx --opset 13 --external-data all --threshold 8")[0] == 0
    assert (here / "small.onnx.data").exists()
    assert told(capsys, "convert in.onnx none.onnx --opset 13 --external-data all")[0] == 0
    assert not (here / "none.onnx.data").exists()


@pytest.mark.parametrize("name", ["out.tflite", "out.xml", "OUT.PT", "out.onnx.gz"])
def test_what_is_written_is_onnx(here, capsys, name):
    code, _, err = told(capsys, f"convert in.onnx {name} --opset 13")
    assert (code, err) == (
        2,
        f"opshift: {name} is not an ONNX file name; give a name that ends in .onnx\n",
    )
    assert not (here / name).exists()


@pytest.mark.parametrize("name", ["out", "out.pb", "out.ort-model", "v1.2"])
def test_other_names_are_the_users(here, capsys, name):
    assert told(capsys, f"convert in.onnx {name} --opset 13")[0] == 0
    assert onnx.load(here / name, format="protobuf").opset_import[0].version == 13


VERBS = "convert, inline, fold, optimize, extract, merge, strip, fill, verify, diff, inspect, ledger, targets, schema, probe"


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("", f"give a command: {VERBS}"),
        ("help", f"unknown command 'help'; commands are {VERBS}"),
        ("convrt in.onnx", "unknown command 'convrt'; did you mean convert?"),
        ("simplify in.onnx", "unknown command 'simplify'; type: opshift optimize IN OUT"),
        ("convert-version in.onnx", "unknown command 'convert-version'; type: opshift convert IN OUT --opset N"),
        ("convert in.onnx out.onnx 13", "'13' is not a model; an opset is given by --opset 13"),
        ("verify in.onnx", "the following arguments are required: AFTER"),
    ],
)
def test_commands_that_are_not_known(here, capsys, typed, why):
    code, _, err = told(capsys, typed)
    assert (code, err.splitlines()[0]) == (2, f"opshift: {why}")


@pytest.mark.parametrize(
    ("verb", "first"), [("convert", "--opset"), ("inline", "--op"), ("fold", "--op"), ("optimize", "--fix-shape")]
)
def test_help_begins_with_what_the_verb_is_about(capsys, verb, first):
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    page = capsys.readouterr().out
    assert page.startswith(f"usage: opshift {verb} [options] PATH [PATH ...]\n")
    options = re.findall(r"^  (--[\w-]+)", page, re.M)
    assert options[0] == first
    assert len(options) == len(set(options))
    groups = re.findall(r"^(\w.*):$", page, re.M)
    assert groups[-4:] == ["other changes", "output", "verification", "messages"]


def test_lines_to_type_begin_with_a_command():
    assert {line.split()[0] for line in elsewhere.COMMANDS} < set(VERBS.split(", "))
    assert not set(" ".join(elsewhere.COMMANDS.values()).split()) & set(VERBS.split(", "))


def test_each_command_says_what_it_does(capsys):
    for verb in VERBS.split(", "):
        with pytest.raises(SystemExit):
            cli.main([verb, "--help"])
        assert re.search(r"\n\n[A-Z].*\.\n\n", capsys.readouterr().out), verb


def test_weights_that_were_left_behind_are_told(here, capsys):
    assert "with data in 1 file: 139 bytes" in told(capsys, "inspect far.onnx")[1]
    (here / "w.bin").unlink()
    lines = told(capsys, "inspect far.onnx")[1].splitlines()
    assert "missing data files: w.bin" in lines
    assert not any("with data" in line for line in lines)
    code, out, _ = told(capsys, "convert far.onnx out.onnx --opset 13")
    assert code == 3
    assert out.splitlines()[-1] == (
        "not written: add the file of its weights, or try --no-verify, which writes a model that nobody has run"
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("convert in.onnx out.onnx --opset 18", "nothing to do: the model is already as you asked"),
        ("convert in.onnx out.onnx --target onnxruntime", "nothing to do: the model is already as you asked"),
        ("convert in.onnx out.onnx --quantization qoperator", "nothing to do: the model is already as you asked"),
        ("optimize in.onnx out.onnx", "nothing to do: the model is already as you asked"),
        ("convert in.onnx out.onnx --optimize", "nothing to do: the model is already as you asked"),
        ("convert in.onnx out.onnx --modernize", "nothing to fold"),
        ("fold in.onnx out.onnx", "nothing to fold"),
        ("inline in.onnx out.onnx --op Relu", "nothing to inline: the model has no Relu"),
    ],
)
def test_where_nothing_is_to_be_done_that_is_said_once(here, capsys, typed, said):
    code, out, _ = told(capsys, typed)
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("nothing")] == [said]


@pytest.mark.parametrize("options", ["--opset 13", "--opset 18 --ir-version 9", "--opset 18 --fix-shape N=2"])
def test_where_something_is_done_nothing_of_the_kind_is_said(here, capsys, options):
    assert "nothing" not in told(capsys, f"convert in.onnx out.onnx {options}")[1]


def test_of_what_is_refused_it_is_not_said(here, capsys):
    code, out, _ = told(capsys, "inline in.onnx out.onnx --op Add")
    assert (code, "nothing to" in out.replace("nothing simpler to", "")) == (3, False)
