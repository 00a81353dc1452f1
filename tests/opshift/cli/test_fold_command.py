"""`opshift fold`, `--modernize` and `--optimize`: what is written, what is said, and what is not possible."""

import json
from pathlib import Path

import onnx
import pytest
from opshift.passes.stages import fold

from opshift.cli import main as cli
from opshift.jobs import exit_codes
from tests.support import model, show

pytestmark = pytest.mark.usefixtures("in_this_process")

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
SPELLED = "s = Mul(x, x) t = ReduceSum<keepdims=1>(s, a) y = Sqrt(t)"
WITH_IDENTITY = "i = Identity(x) s = Mul(i, i) t = ReduceSum<keepdims=1>(s, a) y = Sqrt(t)"
NPU = 'name = "npu"\nsource = "its manual"\n[versions."1"]\nopset = 15\nir = 8\n'


def saved(path, body=SPELLED, opset=13):
    onnx.save(model(body, opset, constants="int64[1] a = {1}", **ROWS), path)
    return str(path)


def ops(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.fixture
def spelled(tmp_path):
    return saved(tmp_path / "in.onnx")


def npu(folder, *rows):
    (folder / "npu.toml").write_text(NPU + "\n".join(rows))
    return str(folder / "npu.toml")


def test_fold_writes_what_it_proved(spelled, tmp_path, capsys):
    assert cli.main(["fold", spelled, str(tmp_path / "out.onnx")]) == 0
    written = onnx.load(tmp_path / "out.onnx")
    assert show(written) == "y = ReduceL2<axes=[1], keepdims=1>(x)"
    assert (written.opset_import[0].version, written.ir_version) == (13, 7)
    printed = capsys.readouterr().out
    assert "1 x ReduceL2, close" in printed
    assert "Folded Mul, ReduceSum, Sqrt into ReduceL2" in printed
    assert "nodes 3 -> 1" in printed
    assert "grade: " in printed
    assert "equal: the same " in printed


def test_a_model_without_anything_to_fold_is_written_all_the_same(tmp_path, capsys):
    source = saved(tmp_path / "in.onnx", "y = ReduceSum<keepdims=1>(x, a)")
    assert cli.main(["fold", source]) == 0
    assert "nothing to fold" in capsys.readouterr().out
    assert (tmp_path / "in.folded.onnx").read_bytes() == Path(source).read_bytes()


def test_nothing_is_said_about_folding_where_nobody_asked(spelled, capsys):
    assert cli.main(["convert", spelled, "--opset", "18"]) == 0
    assert "fold" not in capsys.readouterr().out


def test_only_operators_that_are_named(spelled, tmp_path, capsys):
    assert cli.main(["fold", spelled, "--op", "ReduceL1"]) == 0
    assert "nothing to fold" in capsys.readouterr().out
    assert cli.main(["fold", spelled, str(tmp_path / "out.onnx"), "--op", "ReduceL1", "--op", "ReduceL2"]) == 0
    assert ops(tmp_path / "out.onnx") == ["ReduceL2"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--op", "Gelo"], "unknown operator 'Gelo'; did you mean Gelu?\n"),
        (["--op", "qqqqqqqq"], "unknown operator 'qqqqqqqq'\n"),
        (["--op", "my::ReduceL2"], "unknown operator 'my::ReduceL2'"),
        (["--op", "opshift.openvino::ReduceL3"], "did you mean opshift.openvino::ReduceL1?\n"),
        (["--op", "Cos"], "Cos has no definition that could be folded"),
        (["--op", "Conv"], "Conv has no definition that could be folded"),
        (["--op", "Gelu"], "Gelu came with opset 20, and the model is at 13; convert it first (--opset 20)"),
        (["--op", "ReduceL2", "--opset", "rknn-0"], "known"),
    ],
)
def test_usage_errors(spelled, tmp_path, capsys, arguments, complaint):
    assert cli.main(["fold", spelled, str(tmp_path / "out.onnx"), *arguments]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("command", [["fold"], ["convert", "--modernize"]])
def test_an_opset_is_reached_before(spelled, tmp_path, command, capsys):
    assert cli.main([*command, spelled, "--opset", "18"]) == 0
    assert show(onnx.load(tmp_path / "in.opset18.onnx")) == "y = ReduceL2<keepdims=1>(x, [1])"
    assert "equal: the same " in capsys.readouterr().out


def test_an_operator_may_come_with_the_opset_that_is_asked_for(spelled, capsys):
    assert cli.main(["fold", spelled, "--op", "Gelu", "--opset", "20"]) == 0
    assert "nothing to fold" in capsys.readouterr().out


def test_a_refused_conversion_folds_nothing(tmp_path, capsys):
    onnx.save(model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y"), tmp_path / "in.onnx")
    assert cli.main(["fold", str(tmp_path / "in.onnx"), "--opset", "13"]) == 3
    printed = capsys.readouterr().out
    assert "nor at any opset between that and 20" in printed
    assert "nothing to fold" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_what_a_target_lacks_is_not_brought_in(tmp_path, capsys):
    source = saved(tmp_path / "in.onnx", opset=15)
    for rows in (
        'lacks = ["ReduceL2", "ReduceSumSquare"]',
        '[[limits]]\nops = ["ReduceL2", "ReduceSumSquare"]\ntypes = ["double"]\nwhy = "as it says"',
    ):
        target = npu(tmp_path, rows)
        for command in (["fold"], ["convert", "--modernize"]):
            assert cli.main([*command, source, str(tmp_path / "out.onnx"), "--opset", target]) == 0
            assert ops(tmp_path / "out.onnx") == ["Mul", "ReduceSum", "Sqrt"]
            assert "nothing to fold" in capsys.readouterr().out
    assert (
        cli.main(
            ["fold", source, "--op", "ReduceL2", "--opset", npu(tmp_path, 'lacks = ["ReduceL2", "ReduceSumSquare"]')]
        )
        == 2
    )
    assert (
        capsys.readouterr().err
        == "opshift: npu-1 does not support ReduceL2, which this change writes; leave out the target or the change\n"
    )
    assert cli.main(["fold", source, str(tmp_path / "out.onnx"), "--opset", npu(tmp_path)]) == 0
    assert ops(tmp_path / "out.onnx") == ["ReduceL2"]


def test_what_is_inlined_does_not_come_back(tmp_path):
    source = saved(tmp_path / "in.onnx", "y = ReduceL2<axes=[1]>(x)")
    arguments = ["inline", source, str(tmp_path / "out.onnx"), "--modernize"]
    assert cli.main([*arguments, "--op", "ReduceL2", "--op", "ReduceSumSquare"]) == 0
    assert ops(tmp_path / "out.onnx") == ["Mul", "ReduceSum", "Sqrt"]
    assert cli.main([*arguments, "--target", npu(tmp_path, 'lacks = ["ReduceL2", "ReduceSumSquare"]')]) == 0
    assert ops(tmp_path / "out.onnx") == ["Mul", "ReduceSum", "Sqrt"]
    source = saved(tmp_path / "in.onnx")
    assert cli.main([*arguments, "--op", "ReduceL1"]) == 0
    assert ops(tmp_path / "out.onnx") == ["ReduceL2"]


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (["convert", "--opset", "18"], ["Mul", "ReduceSum", "Sqrt"]),
        (["convert", "--opset", "18", "--modernize"], ["ReduceL2"]),
        (["inline", "--op", "ReduceL1"], ["Mul", "ReduceSum", "Sqrt"]),
        (["inline", "--target", "onnxruntime-1.8"], ["Mul", "ReduceSum", "Sqrt"]),
        (["fold"], ["ReduceL2"]),
    ],
)
def test_nothing_is_optimized_unless_asked(tmp_path, command, left):
    source, output = saved(tmp_path / "in.onnx", WITH_IDENTITY), tmp_path / "out.onnx"
    verb, *options = command
    assert cli.main([verb, source, str(output), *options]) == 0
    assert "Identity" in ops(output)
    assert cli.main([verb, source, str(output), *options, "--optimize"]) == 0
    assert ops(output) == left


def test_a_dry_run_lists_what_would_be_folded(spelled, tmp_path, capsys):
    assert cli.main(["fold", spelled, "--dry-run"]) == 0
    assert "Folded Mul, ReduceSum, Sqrt into ReduceL2" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_in_place(spelled):
    assert cli.main(["fold", spelled, "--in-place"]) == 0
    assert ops(spelled) == ["ReduceL2"]


def test_json(spelled, capsys):
    assert cli.main(["fold", spelled, "--format", "json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert (held["folded"], held["before"]["nodes"], held["after"]["nodes"]) == (1, 3, 1)
    assert held["after"]["ops"] == {"ReduceL2": 1}
    assert held["changes"][0]["op"] == "ReduceL2"
    assert held["grade"] == held["changes"][0]["grade"]
    assert held["verification"]["status"] == "equal"
    assert cli.main(["convert", spelled, "--opset", "18", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["folded"] is None


def test_many_models(tmp_path, capsys):
    names = ("a.onnx", "b.onnx")
    sources = [saved(tmp_path / names[0]), saved(tmp_path / names[1], "y = ReduceSum<keepdims=1>(x, a)")]
    assert cli.main(["fold", *sources, "--out-dir", str(tmp_path / "out"), "--no-verify"]) == 0
    assert [ops(tmp_path / "out" / name) for name in names] == [["ReduceL2"], ["ReduceSum"]]
    first, second, last = capsys.readouterr().out.splitlines()
    assert "1 change, " in first
    assert "nothing to fold" in second
    assert last == "2 models: 2 done"
    assert cli.main(["fold", *sources, "--out-dir", str(tmp_path / "out"), "--op", "Gelu"]) == 2
    assert capsys.readouterr().out.count("not possible") == 3


def test_an_invalid_model_is_one_line(tmp_path, capsys):
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = my.F(x) }'
    text += '<domain: "my", opset_import: ["my" : 1]> F (a) => (b) { b = my.F(a) }'
    broken = onnx.parser.parse_model(text)
    broken.opset_import.add(domain="my", version=1)
    onnx.save(broken, tmp_path / "in.onnx")
    assert cli.main(["fold", str(tmp_path / "in.onnx")]) == 5
    assert capsys.readouterr().err == "opshift: function 'F' calls itself, directly or through others\n"


def test_a_defect_of_the_engine_is_no_usage_error(spelled, monkeypatch, capsys):
    def broken(*_, **__):
        raise ValueError("not enough values")

    monkeypatch.setattr(fold, "fold", broken)
    assert cli.main(["fold", spelled]) == exit_codes.DEFECT
    assert "a bug in opshift: RuntimeError: not enough values" in capsys.readouterr().err


def test_stages_are_shown_where_somebody_asks(spelled, tmp_path, capsys):
    for asked in ([], ["-v"], ["--dry-run"]):
        assert (
            cli.main(["fold", spelled, str(tmp_path / f"{len(asked)}.onnx"), "--optimize", "--no-verify", *asked]) == 0
        )
        lines = [line.rpartition(",")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("stage ")]
        assert len(lines) == (4 if asked else 0)
    assert lines[0] == "stage 1: fold: 1 change"
    assert lines[3] == "stage 4: optimize: nothing to change"
    assert cli.main(["fold", spelled, "--optimize", "--dry-run", "--format", "json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert [(stage["name"], stage["changes"]) for stage in stages][:1] == [("fold", 1)]
    assert all(stage["seconds"] >= 0 for stage in stages)
