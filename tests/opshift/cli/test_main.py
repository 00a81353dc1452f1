"""The command line: exit codes, what is written and what is not, text and JSON."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import onnx
import onnx.numpy_helper
import pytest

import opshift
from opshift.cli import commands
from opshift.cli import main as cli
from opshift.files import model_file
from opshift.verification import verify
from opshift.verification.engines import EngineError
from tests.support import model

pytestmark = [pytest.mark.posix, pytest.mark.usefixtures("in_this_process")]

EXAMPLE = Path(__file__).parents[3] / "examples" / "encoder.onnx"
ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS), path)
    return path


def listing(path):
    return sorted(entry.name for entry in path.iterdir())


def test_convert_writes_what_it_proved(source, tmp_path, capsys):
    output = tmp_path / "out.onnx"
    assert cli.main(["convert", str(source), str(output), "--opset", "13"]) == 0
    written = onnx.load(output)
    assert written.opset_import[0].version == 13
    printed = capsys.readouterr().out
    assert "1 x ReduceMax 18 -> 13, exact: Moved axes of the reduction from input to attribute" in printed
    assert "equal: the same values\n" in printed
    assert str(output) in printed
    assert listing(tmp_path) == ["in.onnx", "out.onnx"]


def test_the_default_output_stands_beside_the_input(source, tmp_path):
    assert cli.main(["convert", str(source), "--opset", "13"]) == 0
    assert cli.main(["inline", str(source), "--op", "ReduceMax"]) == 3
    assert listing(tmp_path) == ["in.onnx", "in.opset13.onnx"]


def test_a_refusal_writes_nothing(tmp_path, capsys):
    path = tmp_path / "in.onnx"
    onnx.save(model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y"), path)
    assert cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13"]) == 3
    printed = capsys.readouterr().out
    assert 'refused: StringConcat "y" (opset 20 -> 19): no operator below opset 20 joins strings' in printed
    assert printed.endswith(
        "not written: cannot express StringConcat at opset 13, nor at any opset between that and 20\n"
    )
    assert listing(tmp_path) == ["in.onnx"]


def test_different_outputs_are_not_written(source, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        verify,
        "verify_apart",
        lambda *_, **__: verify.Verification(
            "different", engine="onnxruntime", runs=1, tensor="y", why="1 instead of 2"
        ),
    )
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13"]) == 4
    assert 'DIFFERENT at "y": 1 instead of 2' in capsys.readouterr().out
    assert listing(tmp_path) == ["in.onnx"]


def _fails():
    raise EngineError("it does not load")


def test_what_no_engine_runs_is_refused_unless_asked(tmp_path, capsys, monkeypatch):
    path, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(
        model(
            "t = my.Thing(x) y = ReduceMax(t, a)",
            18,
            constants="int64[1] a = {1}",
            domains='"my" : 1',
            **ROWS,
        ),
        path,
    )
    monkeypatch.setattr("opshift.verification.engines.OnnxRuntime.__init__", lambda *_, **__: _fails())
    monkeypatch.setattr("opshift.verification.engines.Reference.__init__", lambda *_, **__: _fails())
    assert cli.main(["convert", str(path), str(output), "--opset", "17"]) == 3
    assert "not proved: " in capsys.readouterr().out
    assert not output.exists()
    assert cli.main(["convert", str(path), str(output), "--opset", "17", "--no-verify"]) == 0
    assert onnx.load(output).opset_import[0].version == 17


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"not a model", "not an ONNX model"), (b"", "it is empty"), (None, "No such file")],
)
def test_unreadable_input_is_one_line(tmp_path, capsys, content, complaint):
    path = tmp_path / "in.onnx"
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13"]) == 5
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("opset", ["0", "99", "rknn-0", "x=3"])
def test_an_unknown_target_is_a_usage_error(source, tmp_path, capsys, opset):
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", opset]) == 2
    assert "known" in capsys.readouterr().err


def test_usage_errors_exit_with_2(capsys):
    for arguments in ([], ["convert"], ["convert", "x.onnx", "--opset", "13", "--format", "xml"]):
        assert cli.main(arguments) == 2
        assert "usage" in capsys.readouterr().err
    assert cli.main(["convert", "x.onnx"]) == 2
    assert "--opset, --target, --ir-version" in capsys.readouterr().err


def test_the_output_must_not_be_the_input(source, capsys):
    kept = source.read_bytes()
    assert cli.main(["convert", str(source), str(source), "--opset", "13"]) == 2
    assert "the output is the input" in capsys.readouterr().err
    assert source.read_bytes() == kept


def test_a_dry_run_writes_nothing(source, tmp_path, capsys):
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13", "--dry-run"]) == 0
    assert "1 x ReduceMax" in capsys.readouterr().out
    assert listing(tmp_path) == ["in.onnx"]


def test_json_for_pipelines(source, tmp_path, capsys):
    arguments = ["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13", "--format", "json"]
    assert cli.main(arguments) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["before"]["opsets"] == {"": 18}
    assert held["after"]["opsets"] == {"": 13}
    assert held["changes"][0]["op"] == "ReduceMax"
    assert held["verification"]["engine"] == "onnxruntime"
    assert held["grade"] == "exact"


def test_a_named_target_sets_opset_and_ir(source, tmp_path):
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "onnxruntime-1.2"]) == 0
    written = onnx.load(tmp_path / "out.onnx")
    assert (written.opset_import[0].version, written.ir_version) == (11, 6)


@pytest.mark.usefixtures("loads_to_26")
def test_onnx_reference_judges_what_onnxruntime_cannot_load(source, tmp_path, capsys):
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "latest"]) == 0
    assert "equal: the same " in capsys.readouterr().out


def test_inline_replaces_an_operator(tmp_path, capsys):
    path, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model("y = ReduceL2(x, a)", 18, constants="int64[1] a = {1}", **ROWS), path)
    assert cli.main(["inline", str(path), str(output), "--op", "ReduceL2"]) == 0
    assert [n.op_type for n in onnx.load(output).graph.node] == ["Mul", "ReduceSum", "Sqrt"]
    assert cli.main(["inline", str(path), str(output), "--op", "ReduceL2", "--target", "onnxruntime-1.2"]) == 0
    assert onnx.load(output).opset_import[0].version == 11
    assert cli.main(["inline", str(path), str(output)]) == 2
    assert "--op" in capsys.readouterr().err


def test_verify_compares_two_files(source, tmp_path, capsys):
    other = tmp_path / "other.onnx"
    onnx.save(model("y = ReduceMin(x, a)", 18, constants="int64[1] a = {1}", **ROWS), other)
    assert cli.main(["verify", str(source), str(source)]) == 0
    assert cli.main(["verify", str(source), str(other)]) == 4
    assert "DIFFERENT" in capsys.readouterr().out
    assert cli.main(["verify", str(source), str(other), "--format", "json"]) == 4
    assert json.loads(capsys.readouterr().out)["status"] == "different"


def test_inspect_keeps_no_model_of_an_opset(source, monkeypatch):
    shown = []
    monkeypatch.setattr(commands.display, "show_inspection", lambda *given, **how: shown.extend(given[3].values()))
    assert cli.main(["inspect", str(source)]) == 0
    assert len(shown) == 28
    assert [result.model for result in shown if result.model is not None] == []


def test_inspect_says_what_can_be_reached(source, capsys):
    assert cli.main(["inspect", str(source)]) == 0
    printed = capsys.readouterr().out
    assert "ReduceMax" in printed
    assert "opsets that work: 1-28" in printed
    assert cli.main(["inspect", str(source), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reach"]["13"]["reachable"]


@pytest.mark.parametrize(("module", "limit"), [(commands, "_TRIED_UNASKED"), (model_file, "WHOLE")])
def test_inspect_does_not_take_a_large_model_to_each_opset_unasked(module, limit, source, monkeypatch, capsys):
    monkeypatch.setattr(module, limit, 0)
    assert cli.main(["inspect", str(source)]) == 0
    assert "opsets that work: --reach tries all of them, --opset N one\n" in capsys.readouterr().out
    assert cli.main(["inspect", str(source), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reach"] == {}
    assert cli.main(["inspect", str(source), "--reach"]) == 0
    assert "opsets that work: 1-28\n" in capsys.readouterr().out


def test_targets_lists_them_with_their_source(capsys):
    assert cli.main(["targets"]) == 0
    printed = capsys.readouterr().out
    assert "onnxruntime-1.8" in printed
    assert "opset 14" in printed
    assert "compatibility.md" in printed
    assert cli.main(["targets", "--format", "json"]) == 0
    held = json.loads(capsys.readouterr().out)["targets"]
    assert held["onnxruntime-1.2"]["opset"] == 11
    assert "GridSample" in held["tensorrt-8.0"]["missing"] or held["tensorrt-8.0"]["opset"] < 16
    assert held["tensorrt-10.0"]["limits"]


def test_a_defect_is_one_line_too(source, monkeypatch, capsys):
    monkeypatch.setattr(model_file, "read", lambda *_, **__: 1 / 0)
    assert cli.main(["convert", str(source), "--opset", "13"]) == 1
    assert "a bug in opshift: ZeroDivisionError" in capsys.readouterr().err


def test_an_interrupt_leaves_nothing(source, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verify_apart", interrupted)
    assert cli.main(["convert", str(source), str(tmp_path / "out.onnx"), "--opset", "13"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert listing(tmp_path) == ["in.onnx"]


def test_the_example_in_the_readme(tmp_path, capsys):
    output = tmp_path / "encoder-9.onnx"
    assert cli.main(["convert", str(EXAMPLE), str(output), "--opset", "9"]) == 0
    assert "equal: the same " in capsys.readouterr().out
    onnx.checker.check_model(onnx.load(output), full_check=True)


def test_help_needs_no_heavy_import():
    code = "import sys; from opshift.cli import main as cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\nprint(sorted({'onnx', 'numpy', 'rich', 'onnxruntime', 'google'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stderr.strip() == "[]"
    assert "convert" in done.stdout


def test_a_conversion_without_verification_needs_no_onnx_package(source, tmp_path):
    code = (
        "import sys; from opshift.cli import main as cli\n"
        f"cli.main(['convert', {str(source)!r}, {str(tmp_path / 'out.onnx')!r}, '--opset', '13', '--no-verify', '--format', 'json'])\n"
        "print(sorted({'onnx', 'numpy', 'onnxruntime', 'onnxscript', 'opshift.verification.verify'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stderr.strip() == "[]"


def test_the_version_is_the_package_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    python = ".".join(map(str, sys.version_info[:3]))
    packages = f"onnx {version('onnx')}, onnxruntime {version('onnxruntime')}"
    assert capsys.readouterr().out.strip() == f"opshift {opshift.__version__} ({packages}, Python {python})"


def test_an_output_that_is_no_regular_file_is_left_alone(source, tmp_path):
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for output in (folder, pipe, Path(os.devnull)):
        assert cli.main(["convert", str(source), str(output), "--opset", "13"]) == 2
    assert listing(tmp_path) == ["folder", "in.onnx", "pipe"]
    assert pipe.is_fifo()
    assert not Path(os.devnull).is_file()


def test_a_terminal_gets_a_table_and_a_pipe_plain_lines(source, tmp_path, monkeypatch, capsys):
    arguments = ["convert", str(source), "--opset", "13", "--dry-run"]
    assert cli.main(arguments) == 0
    assert "opset 18 -> 13, IR version 8 -> 7, nodes 1, " in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main([*arguments, "-v"]) == 0
    printed = capsys.readouterr().out
    assert "before" in printed
    assert "│" in printed


@pytest.mark.long
@pytest.mark.parametrize("command", [["targets"], ["inspect", str(EXAMPLE)]])
def test_nothing_is_said_to_a_reader_who_has_left(command):
    printing = subprocess.Popen(
        [sys.executable, "-m", "opshift", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert printing.stdout is not None
    printing.stdout.close()
    assert printing.stderr is not None
    assert printing.stderr.read() == b""
    printing.stderr.close()
    assert printing.wait() == 141
