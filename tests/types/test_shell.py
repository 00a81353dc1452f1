"""`--types` as a person types it: what is written, and what is said of a mistake."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

from opshift.cli.main import main
from tests.support import model
from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types import judge
from tests.types.case import CASES, normal

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def convert(tmp_path, capsys):
    """Convert a case, and return the exit code, what was written, and what was said."""

    def run(name, *options):
        target = tmp_path / "out.onnx"
        onnx.save(CASES[name].model, tmp_path / "in.onnx")
        code = main(["convert", str(tmp_path / "in.onnx"), str(target), *options])
        said = capsys.readouterr()
        return code, onnx.load(target) if target.exists() else None, said.out + said.err

    return run


@pytest.mark.parametrize("interface", ["keep", "narrow"])
@pytest.mark.parametrize(
    "name",
    [
        "cast_there",
        "layer_norm_variance",
        "loop_state",
        "mask_added_twice_and_clipped",
        "weights_in_constant_nodes",
    ],
)
def test_a_right_result_is_written(name, interface, convert):
    code, written, _ = convert(name, "--types", "float16", "--interface", interface)
    assert code == 0
    assert judge.judge(CASES[name], written, narrow=interface == "narrow").wrong == ()


def test_a_narrow_interface_that_no_budget_allows_is_not_passed_over(convert):
    code, written, _ = convert("cast_there", "--types", "float16", "--interface", "narrow", "--budget", "1e-9")
    assert code in (3, 4)
    assert written is None


@pytest.mark.newest
def test_a_type_that_the_opset_lacks_names_the_opset_that_has_it(tmp_path, capsys):
    source = model("y = Conv(x, w)", 17, inputs="float[1,2,8,8] x", outputs="float[1,N,H,W] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(normal(4, 2, 3, 3), "w"))
    onnx.save(source, tmp_path / "in.onnx")
    command = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--types", "bfloat16"]
    assert main([*command, "--opset", "18"]) == 3
    said = capsys.readouterr().out
    assert "try --opset 22" in said
    assert said.endswith("not written: the types cannot be changed as asked\n")
    assert main([*command, "--opset", "22"]) == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--keep", "op:Nope"],
        ["--keep", "node:nope*"],
        ["--only", "value:nope"],
        ["--budget", "nope:0.1"],
        ["--interface", "input:nope=float16"],
    ],
)
def test_a_name_that_is_not_there_is_told(options, convert):
    _, _, said = convert("cast_there", "--types", "float16", *options)
    assert "nope" in said.lower()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--float16"], "--types float16"),
        (["--fp16"], "--types float16"),
        (["--dtype", "fp16"], "--types float16"),
        (["--keep-io-types"], "--types float16"),
        (["--op-block-list", "Conv"], "--keep op:NAME"),
        (["--node-block-list", "a"], "--keep node:NAME"),
        (["--nodes_to_exclude", "a"], "--keep node:NAME"),
        (["--calibration_data", "real.npz"], "--inputs FILE.npz"),
    ],
)
def test_options_of_other_converters_answer_with_the_line_to_type(options, line, convert):
    code, written, said = convert("cast_there", *options)
    assert (code, written) == (2, None)
    assert line in said


def test_a_budget_that_cannot_hold_writes_nothing(convert):
    code, written, said = convert("cast_there", "--types", "float16", "--budget", "1e-7")
    assert code == 3
    assert written is None
    assert "--budget" in said


def test_ranges_that_leave_too_few_weights_write_nothing(tmp_path, capsys):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    made = model("h = Mul(x, c) i = MatMul(h, w) y = Tanh(i)", 17, inputs="float[2,64] x", outputs="float[2,64] y")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(50_000), "c"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(normal(64, 64), "w"))
    onnx.save(made, source)
    command = ["convert", str(source), str(target), "--types"]
    assert main([*command, "float16"]) == 3
    said = capsys.readouterr().out
    assert not target.exists()
    assert 'only 0% of the float weights can be float16; MatMul "i" keeps its type: it reaches' in said
    assert "try --inputs FILE.npz with real data, or --types bfloat16, or --keep op:MatMul" in said
    np.savez(tmp_path / "real.npz", x=normal(2, 64, scale=1e-3))
    assert main([*command, "float16", "--inputs", str(tmp_path / "real.npz")]) == 0
    assert main([*command, "float16", "--keep", "op:MatMul"]) == 0


def test_what_stays_wide_is_said_and_kept_a_second_time(tmp_path, capsys):
    source, once, twice = (str(tmp_path / name) for name in ("in.onnx", "once.onnx", "twice.onnx"))
    onnx.save(CASES["layer_norm_variance"].model, source)
    assert main(["convert", source, once, "--types", "float16"]) == 0
    assert "Pow" in capsys.readouterr().out
    assert any("Pow" in one.value or "p" in one.value for one in onnx.load(once).metadata_props)
    assert main(["convert", once, twice, "--types", "float16"]) == 0
    assert onnx.load(twice) == onnx.load(once)


@pytest.mark.parametrize("options", [[], ["--external-data", "copy"], ["--external-data", "all"]])
def test_large_weights_in_other_files(options, tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,256] x) => (float[2,256] y) { h = MatMul(x, w) y = Relu(h) }'
    source = onnx.parser.parse_model(text)
    source.graph.initializer.append(onnx.numpy_helper.from_array(normal(256, 256, scale=0.1), "w"))
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    path, target = tmp_path / "in" / "model.onnx", tmp_path / "out" / "model.onnx"
    onnx.save(
        onnx.ModelProto.FromString(source.SerializeToString()), path, save_as_external_data=True, location="weights"
    )
    held = [file.read_bytes() for file in (path, tmp_path / "in" / "weights")]
    assert main(["convert", str(path), str(target), "--types", "float16", *options]) == 0
    found = judge.judge_model(source, onnx.load(target), [{"x": normal(2, 256, seed=1)}])
    assert (found.wrong, found.wide) == ((), ())
    assert [file.read_bytes() for file in (path, tmp_path / "in" / "weights")] == held
