"""Tolerances and engines that a user names: they decide in the place of the bounds, and are printed beside the difference."""

import json

import onnx
import pytest

import opshift
from opshift.cli import main as cli
from opshift.verification.tolerances import Tolerance, tolerances
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y, float[N,3] z"}
BODY = "a = Sin(x) y = Add(a, e) z = Mul(y, y)"


@pytest.fixture
def pair(tmp_path):
    """Two models; the first output of the second is 0.001 above that of the first."""
    for name, held in (("before", 0.5), ("after", 0.501)):
        onnx.save(model(BODY, 17, constants=f"float e = {{{held}}}", **IO), tmp_path / f"{name}.onnx")
    return [str(tmp_path / "before.onnx"), str(tmp_path / "after.onnx")]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 4, "DIFFERENT"),
        pytest.param(["--atol", "y:0.01", "--atol", "z:0.01"], 0, "largest difference "),
        pytest.param(["--rtol", "0.5", "--atol", "0.01"], 0, "largest difference "),
        (["--atol", "y:0.01"], 4, 'DIFFERENT at "'),
        (["--atol", "y:0.0001", "--atol", "z:1"], 4, 'DIFFERENT at "'),
        (["--rtol", "1e-6"], 4, "elements differ"),
    ],
)
def test_tolerances_decide_output_by_output(pair, capsys, options, code, said):
    assert cli.main(["verify", *pair, *options]) == code
    assert said in capsys.readouterr().out


def test_a_tolerance_of_nothing_is_stricter_than_the_bounds():
    """A sum in another order: rounding, which the bounds allow for."""
    io = {"inputs": "float[64] x, float[64] u, float[64] v", "outputs": "float[64] y"}
    before, after = (model(body, 17, **io) for body in ("s = Add(x, u) y = Add(s, v)", "t = Add(u, v) y = Add(x, t)"))
    assert opshift.verify(before, after)
    found = opshift.verify(before, after, atol=0)
    assert not found
    assert "by more than rtol 0, atol 0" in found.why


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--atol", "yy:1"], "the model has no output 'yy'; did you mean 'y'?"),
        (["--rtol", "x:1"], "the model has no output 'x'; it has 'y', 'z'"),
        (["--rtol", "y:"], "--rtol takes NUMBER or OUTPUT:NUMBER, such as --rtol 1e-3 or --rtol logits:1e-3, not 'y:'"),
        (["--atol", "-1"], "opshift: atol must be a number, 0 or more, not -1"),
        (["--atol", "nan"], "opshift: atol must be a number, 0 or more, not nan"),
        (["--engine", "onnxrt"], "opshift has no engine 'onnxrt'; did you mean 'onnxruntime'?"),
        (["--engine", "reference,reference,onnxruntime"], "give one engine"),
    ],
)
@pytest.mark.parametrize("verb", ["verify", "convert", "fold", "inline"])
def test_what_has_no_meaning_is_usage(pair, tmp_path, capsys, verb, options, why):
    more = {"convert": ["--opset", "13"], "inline": ["--op", "Sin"]}.get(verb, [])
    places = pair if verb == "verify" else [pair[0], str(tmp_path / "out.onnx")]
    assert cli.main([verb, *places, *more, *options]) == 2
    assert why in capsys.readouterr().err


def test_an_engine_that_is_not_installed_is_usage(pair, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert cli.main(["verify", *pair, "--engine", "openvino"]) == 2
    assert "openvino is not installed: pip install opshift[openvino]" in capsys.readouterr().err


def test_a_number_for_all_and_one_by_name():
    held = tolerances(1e-3, {"y": 0.5})
    assert held == {"": Tolerance(1e-3, 0.0), "y": Tolerance(1e-3, 0.5)}
    assert tolerances(["a:b:2", "3"], None) == {"a:b": Tolerance(2.0, 0.0), "": Tolerance(3.0, 0.0)}
    assert tolerances(None, None) == {}
    with pytest.raises(ValueError, match="takes NUMBER or OUTPUT:NUMBER"):
        tolerances({"y": "x"}, None)


@pytest.mark.parametrize("engine", ["onnxruntime", "reference", "openvino", "openvino,reference"])
def test_engines_run_both_forms_or_one_each(pair, capsys, engine):
    if "openvino" in engine:
        pytest.importorskip("openvino")
    names = " and ".join(engine.replace("reference", "onnx.reference").split(","))
    assert cli.main(["verify", pair[0], pair[0], "--engine", engine, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == names
    assert cli.main(["verify", *pair, "--engine", engine]) == 4
    assert capsys.readouterr().out.startswith('DIFFERENT at "y": ')


def test_one_model_in_two_engines_may_differ():
    """OpenVINO reads the axes of opset 13 as if there were none."""
    pytest.importorskip("openvino")
    held = model(
        "a = Abs(x) b = ReduceL1<axes=[1]>(a) y = Add(x, b)", 13, inputs="float[4,3] x", outputs="float[4,3] y"
    )
    found = opshift.verify(held, held, engine=("onnxruntime", "openvino"))
    assert (found.status, found.tensor, found.engine) == ("different", "y", "onnxruntime and openvino")


def test_conversions_take_them(pair, tmp_path):
    results = opshift.convert_files([pair[0]], tmp_path / "all", 13, engine="reference", rtol={"y": 0.1})
    found = results[0].outcome.verification
    assert (found.status, found.engine) == ("equal", "onnx.reference")
    command = ["convert", pair[0], str(tmp_path / "out.onnx"), "--opset", "13"]
    assert cli.main([*command, "--engine", "reference", "--atol", "1e-5"]) == 0
