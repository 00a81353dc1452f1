"""Operators without a kernel in the installed onnxruntime, judged by what it loads."""

import json
import math
import re

import onnx
import onnxruntime
import pytest

import opshift
from opshift.cli import main as cli
from opshift.verification import missing_kernels as kernels
from opshift.verification import proof
from opshift.verification.engines import TOO_LONG, EngineError, Reference
from tests.exported import store
from tests.support import model

ROI = "y = RoiAlign<output_height=2, output_width=2>(x, r, b)"
IO = {"inputs": "float[1,2,6,6] x, float[2,4] r, int64[2] b", "outputs": "float[2,2,2,2] y"}


def loads(of):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(of.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return "Could not find an implementation" not in str(error)
    return True


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("framework", store.frameworks())
def test_what_exporters_write_is_told_apart(framework):
    for export in store.sample(framework):
        assert (not kernels.without(export.model)) == loads(export.model), export.name


@pytest.mark.newest
@pytest.mark.parametrize("opset", [16, 21, 22, 25])
def test_a_kernel_runs_the_version_that_it_begins_with(opset):
    of = model(ROI, opset, **IO)
    assert (not kernels.without(of)) == loads(of)


@pytest.mark.long
@pytest.mark.newest
def test_it_is_the_first_thing_that_is_said(tmp_path, capsys):
    """onnx.reference proves it, so that it is written."""
    onnx.save(model(ROI, 16, **IO), tmp_path / "in.onnx")
    command = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "22"]
    assert cli.main(command) == 0
    said = f"onnxruntime {onnxruntime.__version__} has no kernel of RoiAlign-22 and does not load the result; "
    assert capsys.readouterr().out.splitlines()[0] == f"{said}opset 21 is the nearest that it does"
    assert cli.main([*command, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["unloaded"].startswith(said)
    assert cli.main([*command[:-1], "21"]) == 0
    assert "no kernel" not in capsys.readouterr().out


def test_functions_need_none_and_without_onnxruntime_nothing_is_said(monkeypatch):
    assert kernels.without(model("y = HardSwish(x)", 22, inputs="float[2] x", outputs="float[2] y")) == ""
    monkeypatch.setattr(kernels, "_kernels", dict)
    assert kernels.without(model(ROI, 22, **IO)) == ""


@pytest.mark.newest
def test_a_drawn_region_that_takes_too_long_is_a_remark_and_no_difference(tmp_path, monkeypatch, capsys):
    """onnx.reference takes 12 s for a region of RoiAlign with thousands of samples, which onnxruntime runs for the source."""
    run = proof.Prover._run_in

    def impatient(self, session, feeds, seconds=math.inf):
        if session.engine == Reference.engine and seconds == proof.HASTE:
            raise EngineError(f"{TOO_LONG} {seconds:g} s")
        return run(self, session, feeds)

    monkeypatch.setattr(proof.Prover, "_run_in", impatient)
    onnx.save(model(ROI, 16, **IO), tmp_path / "in.onnx")
    assert cli.main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "22"]) == 0
    printed = capsys.readouterr().out
    assert "could only be tested" not in printed
    remark = 'remark: "y": not tested on some inputs: onnx.reference takes longer than 2 s for each'
    assert len(re.findall(remark, printed)) == printed.count("takes longer") == 1


def test_a_form_that_no_engine_runs_is_not_covered():
    """No engine has a kernel of Clip-1; that says nothing of what it computes."""
    before, after = (
        model("y = Clip<min=0.0, max=1.0>(x)", opset, inputs="float[N] x", outputs="float[N] y") for opset in (7, 5)
    )
    found = opshift.verify(before, after)
    assert (found.status, found.why.startswith("Clip at 'y' could not be run: ")) == ("unverified", True)


def test_a_form_on_which_the_reference_fails_is_not_covered():
    """onnx.reference cannot join what a Loop without turns makes, and onnxruntime exchanges no bfloat16."""
    none = "m = Cast<to=7>(k) z = Sub(m, m) l = Loop(z, , x) <body = b (int64 i, bool c, bfloat16[2] v) => (bool d, bfloat16[2] w, bfloat16[2] s) "
    none += "{ d = Identity(c) w = Identity(v) s = Identity(v) }>"
    io = {"inputs": "bfloat16[2] x, int32 k", "outputs": "bfloat16[2] y"}
    before = model("m = Cast<to=7>(k) y = Identity(x)", 19, **io)
    after = model(f"{none.replace('l = Loop', 'y, l = Loop')}", 19, **io)
    found = opshift.verify(before, after)
    assert (found.status, "onnx.reference" in found.why) == ("unverified", True)


@pytest.mark.parametrize("kind", ["float8e4m3fn", "float8e5m2"])
def test_float8_has_a_zero_point_of_0(kind):
    """onnxruntime ignores others."""
    for op, one, other in (("QuantizeLinear", "float", kind), ("DequantizeLinear", kind, "float")):
        io = {"inputs": f"{one}[5] x, float s, {kind} z", "outputs": f"{other}[5] y"}
        source = model(f"y = {op}(x, s, z)", 21, **io)
        assert opshift.verify(source, opshift.inline(source, [op])).status == "equal"
