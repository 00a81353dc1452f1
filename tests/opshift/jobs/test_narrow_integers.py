"""Integers are narrowed from the command line, and proved."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

import opshift
from opshift.cli.main import main
from tests.support import model

T = TensorProto
BODY = "a = Add(x, one) b = Mod(a, five) y = Gather(t, b)"
CONSTANTS = "int64 one = {1}, int64 five = {5}, float[5] t = {0, 1, 2, 3, 4}"
SOURCE = model(BODY, 17, inputs="int64[N] x", outputs="float[N] y", constants=CONSTANTS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(SOURCE, "in.onnx")
    return tmp_path


def test_it_is_told_what_was_assumed_and_how_it_was_proved(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32"]) == 0
    told = capsys.readouterr().out
    assert "int32: 3 nodes; 0 casts between nodes, 1 at inputs and outputs" in told
    assert 'assumed: "x" lies within 2^20 of 0; --val-range tells otherwise' in told
    assert "grade: narrowed" in told
    assert "with the types put back equal: the same values" in told
    assert "2 kinds of nodes compute the same at the limits of their ranges" in told


def test_inputs_become_int32_where_that_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]):
    line = "convert in.onnx out.onnx --types int64=int32 --interface narrow --val-range x:[0,4] --format json"
    assert main(line.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["types"]["assumed"] == ['"x" lies in [0.0, 4.0]']
    assert told["verification"]["status"] == "equal"
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.elem_type == T.INT32


def test_why_nothing_changes_is_told(here: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(model("y = Mul(x, x)", 17, inputs="int64[N] x", outputs="int64[N] y"), "in.onnx")
    assert main(["convert", "in.onnx", "out.onnx", "--types", "int64=int32"]) == 0
    assert 'keeps its type: 1 x Mul: "y" may be 1099511627776, which is beyond int32' in capsys.readouterr().out


def test_python_has_the_same_word(here: Path):
    result = opshift.convert_version(SOURCE, types="int64=int32", interface="narrow")
    assert result.graph.input[0].type.tensor_type.elem_type == T.INT32
