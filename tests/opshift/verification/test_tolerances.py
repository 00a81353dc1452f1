"""Tolerances and engines that a user names: they decide in the place of the bounds, and are printed beside the error."""

import json
from importlib.metadata import PackageNotFoundError

import ml_dtypes
import numpy as np
import onnx
import pytest

import opshift
from opshift.cli import main as cli
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerance, judge, tolerances
from opshift.verification.verify import verify_sides
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
        (["--atol", "0.01"], 0, '"y" is 0.001 from the source, tolerance 0.01; "z" is'),
        (["--atol", "y:0.01"], 4, 'DIFFERENT first at tensor "z"'),
        (["--atol", "y:0.01", "--atol", "z:0.01"], 0, '"y" is 0.001 from the source, tolerance 0.01'),
        (["--atol", "y:0.0001", "--atol", "z:1"], 4, '"y" is 0.001 from the source, tolerance 0.0001'),
        (["--rtol", "0.5", "--atol", "0.01"], 0, '"y" is 0.001 from the source, tolerance'),
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
        (["--rtol", "y:"], "'y:' is no tolerance; write --rtol NUMBER or --rtol OUTPUT:NUMBER"),
        (["--atol", "-1"], "opshift: atol is a number, 0 or more, not -1"),
        (["--atol", "nan"], "opshift: atol is a number, 0 or more, not nan"),
        (["--engine", "onnxrt"], "opshift has no engine 'onnxrt'; did you mean 'onnxruntime'?"),
        (["--engine", "reference,reference,onnxruntime"], "3 engines are named"),
    ],
)
@pytest.mark.parametrize("verb", ["verify", "convert", "fold", "inline"])
def test_what_has_no_meaning_is_usage(pair, tmp_path, capsys, verb, options, why):
    more = {"convert": ["--opset", "13"], "inline": ["--op", "Sin"]}.get(verb, [])
    places = pair if verb == "verify" else [pair[0], str(tmp_path / "out.onnx")]
    assert cli.main([verb, *places, *more, *options]) == 2
    assert why in capsys.readouterr().err


def test_an_engine_that_is_not_installed_is_usage(pair, capsys, monkeypatch):
    def none(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("importlib.metadata.version", none)
    assert cli.main(["verify", *pair, "--engine", "openvino"]) == 2
    assert "openvino is not installed: pip install opshift[openvino]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "agree"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], Tolerance(), True),
        ([1.0, np.nan], [1.0, 2.0], Tolerance(9, 9), False),
        ([np.inf], [-np.inf], Tolerance(9, 9), False),
        ([np.inf], [3e38], Tolerance(9, 9), False),
        ([10.0], [11.0], Tolerance(rtol=0.1), True),
        ([10.0], [11.1], Tolerance(rtol=0.1), False),
        ([0.0], [-0.0], Tolerance(), True),
        ([], [], Tolerance(), True),
    ],
)
def test_floats(a, b, tolerance, agree):
    for dtype in (np.float32, np.float16, np.float64):
        with np.errstate(over="ignore"):
            pair = np.array(a, dtype), np.array(b, dtype)
        if dtype is np.float16 and 3e38 in b:
            continue
        assert (not judge("y", *pair, tolerance).why) is agree


def test_other_types():
    big = np.array([2**53, 7]), np.array([2**53 + 1, 7])
    assert judge("y", *big, Tolerance(atol=0.5)).why
    assert not judge("y", *big, Tolerance(atol=1)).why
    assert not judge("y", np.array([3], np.uint8), np.array([2], np.uint8), Tolerance(atol=1)).why
    four = [np.array([value], ml_dtypes.int4) for value in (-8, 7)]
    assert judge("y", *four, Tolerance(atol=14)).why
    assert not judge("y", *four, Tolerance(atol=15)).why
    assert judge("y", np.array([True]), np.array([False]), Tolerance(atol=9)).why
    assert judge("y", np.array(["a"], object), np.array(["b"], object), Tolerance(atol=9)).why
    assert judge("y", np.zeros(2), np.zeros(3), Tolerance(atol=9)).why
    assert judge("y", np.zeros(2), np.zeros(2, np.int64), Tolerance(atol=9)).why
    assert judge("y", [np.zeros(2)], [np.ones(2)], Tolerance(atol=0.5)).why
    assert not judge("y", [np.zeros(2)], [np.ones(2)], Tolerance(atol=1)).why


def test_a_number_for_all_and_one_by_name():
    held = tolerances(1e-3, {"y": 0.5})
    assert held == {"": Tolerance(1e-3, 0.0), "y": Tolerance(1e-3, 0.5)}
    assert tolerances(["a:b:2", "3"], None) == {"a:b": Tolerance(2.0, 0.0), "": Tolerance(3.0, 0.0)}
    assert tolerances(None, None) == {}
    with pytest.raises(ValueError, match="a number, 0 or more, not x"):
        tolerances({"y": "x"}, None)


@pytest.mark.parametrize("engine", ["onnxruntime", "reference", "openvino", "openvino,reference"])
def test_engines_run_both_forms_or_one_each(pair, capsys, engine):
    if "openvino" in engine:
        pytest.importorskip("openvino")
    names = " and ".join(engine.replace("reference", "onnx.reference").split(","))
    assert cli.main(["verify", pair[0], pair[0], "--engine", engine, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == names
    assert cli.main(["verify", *pair, "--engine", engine]) == 4
    assert f"first at tensor \"y\", which Add 'y' makes of values that agree ({names}" in capsys.readouterr().out


def test_one_model_in_two_engines_may_differ(tmp_path, monkeypatch):
    """OpenVINO reads the axes of opset 13 as if there were none; the smallest models show it again."""
    pytest.importorskip("openvino")
    held = model(
        "a = Abs(x) b = ReduceL1<axes=[1]>(a) y = Add(x, b)", 13, inputs="float[4,3] x", outputs="float[4,3] y"
    )
    found = opshift.verify(held, held, engine=("onnxruntime", "openvino"), repro=tmp_path / "r")
    assert (found.status, found.op) == ("different", "ReduceL1")
    command = (tmp_path / "r" / "command.txt").read_text().split()
    assert command[-2:] == ["--engine", "onnxruntime,openvino"]
    monkeypatch.chdir(tmp_path / "r")
    assert cli.main(command[1:]) == 4


def test_conversions_take_them(pair, tmp_path, capsys):
    command = ["convert", pair[0], str(tmp_path / "out.onnx"), "--opset", "13"]
    assert cli.main([*command, "--engine", "reference", "--atol", "1e-5"]) == 0
    said = capsys.readouterr().out
    assert "onnx.reference" in said
    assert '"y" is 0 from the source, tolerance 1e-05' in said
    results = opshift.convert_files([pair[0]], tmp_path / "all", 13, engine="reference", rtol={"y": 0.1})
    found = results[0].outcome.verification
    assert (found.engine, [output.judge for output in found.outputs]) == (
        "onnx.reference",
        ["tolerance", "bit for bit"],
    )


def test_an_output_of_another_type_is_another_output(tmp_path):
    """The type that nobody declares, too."""
    before, after = (model(f"y = Cast<to={kind}>(x)", 17, inputs="float[2] x", outputs="y") for kind in (1, 11))
    for held in (before, after):
        held.graph.output[0].ClearField("type")
    found = verify_sides(Side(before), Side(after))
    assert (found.status, found.why) == ("different", "type float64 instead of float32")
