"""The stage that carries types, from the verbs on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from opshift.passes.goals import Goal
from opshift.passes.model.types import NUMBERS
from opshift.passes.types.carriers import read_carriers

import opshift
from opshift.cli.main import main
from tests.support import model

T = TensorProto
pytestmark = [pytest.mark.newest, pytest.mark.usefixtures("in_this_process")]
NARROW = model("y = Cast<to=17>(x)", 19, inputs="float[4] x", outputs="float8e4m3fn[4] y")
INSIDE = model("b = Cast<to=16>(x) c = Add(b, b) y = Cast<to=1>(c)", 21, inputs="float[N] x", outputs="float[N] y")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(NARROW, "narrow.onnx")
    onnx.save(INSIDE, "inside.onnx")
    return tmp_path


def kind_of(found: onnx.ModelProto) -> int:
    return int(found.graph.output[0].type.tensor_type.elem_type)


def test_it_comes_before_the_opset_and_says_what_it_does():
    stages = Goal({"": 13}, carriers=read_carriers(["float8e4m3fn=float"])).stages()
    assert [stage.name for stage in stages] == ["carry float8e4m3fn in float", "convert to opset 13"]


def test_what_is_refused_without_it_is_told_to_be_possible_with_it(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "narrow.onnx", "out.onnx", "--opset", "13"]) == 3
    assert "try --interface float8e4m3fn=float" in capsys.readouterr().out
    assert not Path("out.onnx").exists()


def test_a_model_is_carried_and_proved(here: Path, capsys: pytest.CaptureFixture[str]):
    line = "convert narrow.onnx out.onnx --opset 13 --interface float8=float --format json"
    assert main(line.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verification"]["status"] == "equal"
    assert told["verification"]["cast"] == ["y"]
    assert {change["grade"] for change in told["changes"]} == {"exact"}
    assert kind_of(onnx.load("out.onnx")) == T.FLOAT


def test_values_between_of_another_type_are_no_landmarks(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "inside.onnx", "out.onnx", "--opset", "12", "--interface", "bfloat16=float"]) == 0
    assert "equal: the same values" in capsys.readouterr().out


def test_outputs_are_compared_in_the_type_in_which_the_source_computes(here: Path, capsys: pytest.CaptureFixture[str]):
    body = "b = Cast<to=16>(x) c = Exp(b) d = Div(c, b) e = Tanh(d) y = Cast<to=1>(e)"
    onnx.save(model(body, 21, inputs="float[64] x", outputs="float[64] y"), "coarse.onnx")
    assert main(["convert", "coarse.onnx", "out.onnx", "--opset", "12", "--interface", "bfloat16=float"]) == 0
    assert "compared in bfloat16, in which the first model computes" in capsys.readouterr().out


def test_a_result_that_is_not_rounded_is_found(here: Path, capsys: pytest.CaptureFixture[str]):
    other = model("y = Identity(x)", 13, inputs="float[4] x", outputs="float[4] y")
    onnx.save(other, "other.onnx")
    assert main(["verify", "narrow.onnx", "other.onnx"]) == 4
    assert "DIFFERENT" in capsys.readouterr().out


def test_an_unfit_type_is_a_matter_of_usage(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "inside.onnx", "out.onnx", "--interface", "bfloat16=float16"]) == 2
    assert "float16 does not hold all values" in capsys.readouterr().err


def test_python_has_the_same_word(here: Path):
    older = opshift.convert_version(NARROW, 13, interface="float8e4m3fn=float")
    assert kind_of(older) == T.FLOAT
    alone = opshift.convert_version(NARROW, interface=["float8=float16"])
    assert kind_of(alone) == T.FLOAT16
    assert alone.opset_import[0].version == 19
    planned = opshift.plan(NARROW, 13, interface=["float8=float"])
    assert not planned.refusals
    assert kind_of(opshift.inline(NARROW, interface="float8=float")) == T.FLOAT
    (found,) = opshift.convert_files(["narrow.onnx"], "old", 13, interface=["float8=float"])
    assert found.code == 0


def test_the_nearest_opset_is_that_of_what_is_carried(here: Path):
    source = model(
        "q = Cast<to=17>(x) y = StringConcat(s, s)", 20, inputs="float[4] x, string[1] s", outputs="string[1] y"
    )
    source.graph.output.add(name="q").type.CopyFrom(NARROW.graph.output[0].type)
    planned = opshift.plan(source, 13, interface=["float8=float"])
    assert planned.nearest == 20
    assert {refusal.op for refusal in planned.refusals} == {"StringConcat"}


def test_weights_are_counted_by_type(here: Path, capsys: pytest.CaptureFixture[str]):
    source = model(
        "w = DequantizeLinear(p, s) y = Add(x, w)",
        21,
        constants="float s = {0.5}",
        inputs="float[5] x",
        outputs="float[5] y",
    )
    source.graph.initializer.append(onnx.helper.make_tensor("p", NUMBERS["INT4"], [5], np.arange(5)))
    onnx.save(source, "weights.onnx")
    assert main(["inspect", "weights.onnx"]) == 0
    assert "int4" in capsys.readouterr().out
