"""The command line over damaged files: an exit code that says so, never a defect, and nothing left behind."""

import random
import re
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from opshift.cli import main as cli
from opshift.jobs import exit_codes

ROOT = Path(__file__).parents[2]
SOURCES = {
    "encoder": (ROOT / "examples" / "encoder.onnx").read_bytes(),
    **{
        name: onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13, "own": 1]> {text}').SerializeToString()
        for name, text in {
            "axes": "g (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { s = ReduceSum(x, a) y = Softmax<axis=1>(s) }",
            "branches": """g (float[N,3] x, bool c) => (float[N,3] y) {
                y = If (c) <then_branch = t () => (float[N,3] p) { p = Clip(x) },
                            else_branch = e () => (float[N,3] q) { q = LeakyRelu<alpha=0.5>(x) }> }""",
            "function": """g (float[N,3] x) => (float[N,M] y) { y = own.F<k=2>(x) }
                <opset_import: ["": 13], domain: "own"> F<k>(x) => (y) { y = Flatten<axis: int = @k>(x) }""",
        }.items()
    },
}
ROUNDS = 40


def damaged(data, chance):
    if chance.random() < 0.25:
        return data[: chance.randrange(len(data))]
    flipped = bytearray(data)
    for _ in range(chance.choice([1, 1, 4, 16])):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


@pytest.mark.parametrize("source", SOURCES)
def test_damage_is_reported_and_leaves_nothing(source, tmp_path, capsys):
    chance = random.Random(source)
    model, output = tmp_path / "model.onnx", tmp_path / "out.onnx"
    for _ in range(ROUNDS):
        model.write_bytes(damaged(SOURCES[source], chance))
        opset, form = str(chance.randint(1, 28)), chance.choice(["text", "json"])
        code = cli.main(["convert", str(model), str(output), "--opset", opset, "--no-verify", "--format", form])
        said = capsys.readouterr().err
        assert code in (
            exit_codes.DONE,
            exit_codes.USAGE,
            exit_codes.REFUSED,
            exit_codes.DIFFERENT,
            exit_codes.UNREADABLE,
        ), said
        assert output.exists() == (code == exit_codes.DONE)
        assert code != exit_codes.UNREADABLE or said.count("\n") == 1
        output.unlink(missing_ok=True)
        assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_names_that_are_no_utf8_are_shown_all_the_same(form, tmp_path, capsys):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["":13, "own":1]> g (float x) => (float y) { a=Relu(x) y=own.Name(a) }'
    )
    path, output = tmp_path / "model.onnx", tmp_path / "out.onnx"
    model.graph.node[1].domain = ""
    path.write_bytes(model.SerializeToString().replace(b"Name", b"N\xff\xfee"))
    assert cli.main(["convert", str(path), str(output), "--opset", "12", "--format", form]) == exit_codes.UNREADABLE
    assert "not UTF-8" in capsys.readouterr().err


def test_names_with_line_breaks_and_escapes_stay_on_one_line(tmp_path, capsys):
    hostile = "a\n\x1b[2Jb"
    for attribute, op, domain, code in (
        (hostile, "Elu", "", exit_codes.UNREADABLE),
        ("alpha", hostile, "", exit_codes.UNREADABLE),
        ("alpha", "Elu", hostile, exit_codes.UNREADABLE),
    ):
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { y = Elu<alpha=0.5>(x) }'
        )
        model.graph.node[0].op_type = op
        model.graph.node[0].attribute[0].name = attribute
        for version in (1, 2) if domain else ():
            model.opset_import.add(domain=domain, version=version)
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        assert cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "21"]) == code
        captured = capsys.readouterr()
        assert "2J" in captured.out + captured.err
        assert "\x1b" not in captured.out + captured.err
        assert captured.err.count("\n") == 1


def test_an_input_of_no_type_is_told(tmp_path):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { y = Relu(x) }')
    model.graph.input[0].type.tensor_type.ClearField("elem_type")
    path, output = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    assert cli.main(["convert", str(path), str(output), "--opset", "15"]) == exit_codes.UNREADABLE
    assert not output.exists()


@pytest.mark.long
def test_bytes_that_a_fuzzer_chooses(tmp_path):
    command = [sys.executable, "-m", "tests.opshift.fuzz", "--runs", "400", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(tmp_path.glob("crash*"))
    runs = re.findall(r"Done (\d+) runs|(\d+) inputs", done.stdout + done.stderr)
    assert int("".join(runs[-1])) == 400


@pytest.mark.long
def test_what_would_be_nested_too_deeply_afterwards_is_refused(tmp_path, capsys):
    """CumSum becomes a loop below opset 11, which is deeper than the branch it stands in."""
    node = onnx.helper.make_node("CumSum", ["x", "axis"], ["o"])
    for _ in range(31):
        branches = {}
        for name, inner in (("then", node), ("else", onnx.helper.make_node("Neg", ["x"], ["n"]))):
            yielded = [onnx.ValueInfoProto(name=inner.output[0])]
            branches[f"{name}_branch"] = onnx.helper.make_graph([inner], name, [], yielded)
        node = onnx.helper.make_node("If", ["c"], ["o"], **branches)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[N,3] x, bool c, int32 axis) => (float[N,3] o) { o = Neg(x) }'
    )
    model.graph.node[0].CopyFrom(node)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert (
        cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "12", "--no-verify"]) == exit_codes.DONE
    )
    assert (
        cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "10", "--no-verify"])
        == exit_codes.REFUSED
    )
    assert "100 levels" in capsys.readouterr().out
