"""The command line for backends: what is replaced, inspected and refused for a target or by a deny list."""

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from opshift.passes.backends import target_files

from opshift.cli import main as cli
from tests.opshift.cli.test_main import ROWS, listing
from tests.support import model

pytestmark = pytest.mark.posix


NPU = 'name = "npu"\nsource = "its manual"\n[versions."1"]\nopset = 15\nir = 8\nlacks = ["ReduceL2", "MatMul"]\nstatic_shapes = true\n'


@pytest.fixture
def npu(tmp_path):
    path = tmp_path / "npu.toml"
    path.write_text(NPU)
    return str(path)


@pytest.fixture
def norm(tmp_path):
    path = tmp_path / "norm.onnx"
    onnx.save(model("y = ReduceL2(x, a)", 18, constants="int64[1] a = {1}", **ROWS), path)
    return path


def test_inline_for_a_target_replaces_what_it_lacks(norm, npu, tmp_path, capsys):
    assert cli.main(["inline", str(norm), "--target", npu, "--fix-shape", "x:4,3"]) == 0
    assert "equal: the same " in capsys.readouterr().out
    written = onnx.load(tmp_path / "norm.for-npu-1.onnx")
    assert [n.op_type for n in written.graph.node] == ["Mul", "ReduceSum", "Sqrt"]
    assert (written.opset_import[0].version, written.ir_version) == (15, 8)


def test_sizes_that_a_target_needs_are_asked_for(norm, npu, tmp_path, capsys):
    line = [str(norm), str(tmp_path / "out.onnx"), "--target", npu]
    for verb in ("inline", "convert"):
        for more in ([], ["--dry-run"], ["--no-verify"]):
            assert cli.main([verb, *line, *more]) == 3
            *_, why, _, last = capsys.readouterr().out.splitlines()
            assert why == 'refused: input "x": dimension N is dynamic; supported: fixed sizes; try --fix-shape x:?,3'
            assert last == "not written for npu-1; try --fix-shape x:?,3 with a number for each ?"
    assert listing(tmp_path) == ["norm.onnx", "npu.toml"]
    assert cli.main(["convert", *line, "--fix-shape", "x:4,3"]) == 0
    assert cli.main(["convert", *line, "--fix-shape", "N=4"]) == 0


@pytest.mark.long
def test_a_value_that_decides_an_if_is_asked_for(tmp_path, capsys):
    rates = """
        <ir_version: 8, opset_import: ["" : 16]> g (float[N,4] x, int64 rate) => (float[M,4] y) {
            wide = Constant<value = int64 {16000}>() is_wide = Equal(rate, wide)
            y = If(is_wide) <then_branch = a () => (float[N,4] t) { t = Abs(x) },
                             else_branch = b () => (float[K,4] e) { e = Concat<axis = 0>(x, x) }>
        }"""
    onnx.save(onnx.parser.parse_model(rates), tmp_path / "rates.onnx")
    line = ["convert", str(tmp_path / "rates.onnx"), str(tmp_path / "out.onnx"), "--target", "rknn-2.5"]
    assert cli.main(line) == 3
    assert capsys.readouterr().out.splitlines()[-1] == (
        "not written: cannot express If for rknn-2.5; try --fix-shape x:?,4 --set rate=? with a number for each ?"
    )
    assert cli.main([*line, "--fix-shape", "x:1,4"]) == 3
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "not written: cannot express If for rknn-2.5; try --set rate=? with a number for each ?"
    )
    assert cli.main([*line, "--fix-shape", "x:1,4", "--set", "rate=8000"]) == 0
    assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["Concat"]
    capsys.readouterr()
    assert cli.main(["inspect", str(tmp_path / "rates.onnx"), "--target", "rknn-2.5"]) == 3
    assert capsys.readouterr().out.splitlines()[-1] == (
        "rknn-2.5 reads this model once inputs are fixed; try --fix-shape x:?,4 --set rate=? with a number for each ?"
    )


def test_numbers_are_asked_for_where_a_target_of_dynamic_sizes_reads_the_model_with_them(tmp_path, capsys):
    (tmp_path / "npu.toml").write_text(
        'name = "npu"\nsource = "s"\nlimits = [{ ops = ["Slice"], constant = ["starts"] }]\n[versions."1"]\nopset = 13\n'
        '[versions."1".measured]\nShape = "1-4"\nSlice = "1-4"\nAbs = "1-4"\n'
    )
    text = "s = Shape(x) y = Slice(x, s, e, a)"
    constants = {"constants": "int64[1] e = {9}, int64[1] a = {0}"}
    onnx.save(model(text, 13, inputs="float[N] x", outputs="float[M] y", **constants), tmp_path / "in.onnx")
    line = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", str(tmp_path / "npu.toml")]
    assert cli.main(line) == 3
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "not written for npu-1; try --fix-shape x:? with a number for each ?"
    )
    assert cli.main([*line, "--fix-shape", "x:4"]) == 0
    onnx.save(model("y = Abs(x)", 13, inputs="float[N] x", outputs="float[N] y"), tmp_path / "in.onnx")
    assert cli.main(line) == 0, "it reads dynamic sizes"
    text = "y = Slice(x, s, e, a)"
    onnx.save(model(text, 13, inputs="float[N] x, int64[1] s", outputs="float[M] y", **constants), tmp_path / "in.onnx")
    assert cli.main(line) == 0, "no number for N makes s a constant"
    assert "not supported: Slice" in capsys.readouterr().out


def test_inline_for_a_target_names_all_that_has_no_definition(npu, tmp_path, capsys):
    path = tmp_path / "product.onnx"
    onnx.save(model("t = MatMul(x, x) y = MatMul(t, x)", 13, inputs="float[1,2,2] x", outputs="float[1,2,2] y"), path)
    assert cli.main(["inline", str(path), "--target", npu]) == 3
    printed = capsys.readouterr().out
    assert 'refused: 2 x MatMul "t" "y": it is a basic operator' in printed
    assert printed.endswith("not written: cannot express MatMul for npu-1\n")
    assert listing(tmp_path) == ["npu.toml", "product.onnx"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("deny.txt", "# what the compiler rejects\nReduceL2  # the norm\n\n"), ("deny.toml", 'ops = ["ReduceL2"]')],
)
def test_inline_by_a_deny_list(norm, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert cli.main(["inline", str(norm), str(tmp_path / "out.onnx"), "--deny", str(tmp_path / name)]) == 0
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Mul", "ReduceSum", "Sqrt"]


def test_a_deny_list_without_operators_is_a_usage_error(norm, tmp_path, capsys):
    (tmp_path / "deny.toml").write_text('lacks = ["ReduceL2"]')
    assert cli.main(["inline", str(norm), "--deny", str(tmp_path / "deny.toml")]) == 2
    assert "has no list `ops`" in capsys.readouterr().err


def test_inline_by_domain(tmp_path, capsys):
    path, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) { t = my.F(x) y = my.G(t) }'
        '<domain: "my", opset_import: ["" : 17]> F (a) => (b) { b = Relu(a) }'
        '<domain: "my", opset_import: ["" : 17]> G (a) => (b) { b = Abs(a) }'
    )
    onnx.save(onnx.parser.parse_model(text), path)
    assert cli.main(["inline", str(path), str(output), "--domain", "my"]) == 0
    assert [n.op_type for n in onnx.load(output).graph.node] == ["Relu", "Abs"]
    assert cli.main(["inline", str(path), str(output), "--domain", "other"]) == 2
    assert "no operator of domain 'other'" in capsys.readouterr().err


def test_inspect_for_a_target(norm, npu, capsys):
    assert cli.main(["inspect", str(norm), "--target", npu]) == 3
    printed = capsys.readouterr().out
    assert printed.endswith(
        "npu-1 reads this model once inputs are fixed; try --fix-shape x:?,3 with a number for each ?\n"
    )
    assert cli.main(["inspect", str(norm), "--target", npu, "--fix-shape", "N=2"]) == 0
    printed = capsys.readouterr().out
    assert "not supported: opset: the model has 18; supported: at most 15" in printed
    assert 'not supported: ReduceL2 "y": not supported' in printed
    assert "would be rewritten: 1 x ReduceL2" in printed
    assert "opshift inline --target npu-1" in printed
    assert cli.main(["inspect", str(norm), "--target", "onnxruntime-1.31"]) == 0
    printed = capsys.readouterr().out
    assert "believed (documented): 1 x ReduceL2" in printed
    assert "runs this model as it is, according to its documentation" in printed
    assert cli.main(["inspect", str(norm), "--target", npu, "--format", "json"]) == 3
    held = json.loads(capsys.readouterr().out)["target"]
    assert held["obstacles"][1]["text"] == 'ReduceL2 "y": not supported'
    assert held["needs"][0]["node"] == "x"


def test_inspect_for_all_that_were_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(model("a = IsNaN(x) y = Not(a)", 20, inputs="float[N,2] x", outputs="bool[N,2] y"), "nan.onnx")
    measured = [
        'name = "one"\nsource = "s"\n[versions."1"]\nopset = 20\n[versions."1".measured]\nIsNaN = "2"\nNot = "2"\n',
        'name = "two"\nsource = "s"\n[versions."1"]\nopset = 17\nlacks = ["IsNaN"]\n[versions."1".measured]\nNot = "2"\n',
        'name = "three"\nsource = "s"\n[versions."1"]\nopset = 20\nsupports = ["Relu"]\nstatic_shapes = true\n'
        '[versions."1".measured]\nRelu = "2"\n',
        'name = "four"\nsource = "documented"\n[versions."1"]\nopset = 20\n',
        'name = "five"\nsource = "s"\nlimits = [{ ops = ["Not"], constant = ["X"] }]\n[versions."1"]\nopset = 20\n'
        'supports = ["IsNaN", "Not"]\n'
        '[versions."1".measured]\nIsNaN = "2"\n',
        'name = "six"\nsource = "s"\n[versions."1"]\nopset = 20\nstatic_shapes = true\n'
        '[versions."1".measured]\nIsNaN = "2"\nNot = "2"\n',
    ]
    known = {name: backend for text in measured for name, backend in target_files.parse(text, "t").items()}
    monkeypatch.setattr(target_files, "targets", lambda: known)
    assert cli.main(["inspect", "nan.onnx", "--target", "all"]) == 0
    one, two, three, five, six = capsys.readouterr().out.splitlines()[-5:]
    assert one == "one-1: perhaps read as it is: 2 of 2 nodes unknown (dynamic sizes were not measured)"
    assert two.startswith("two-1: read after `opshift convert --target two-1`, which rewrites 1 x IsNaN")
    assert three.startswith("three-1: not read: ")
    fixed = "try --fix-shape x:?,2 with a number for each ?"
    assert three.endswith(f"; {fixed}")
    assert five.startswith('five-1: not read, as far as it was measured: Not "y": input X "a" is dynamic')
    assert six == f"six-1: read once inputs are fixed; {fixed}"
    assert cli.main(["inspect", "nan.onnx", "--target", "all", "--fix-shape", "N=3", "--format", "json"]) == 0
    held = json.loads(capsys.readouterr().out)["targets"]
    assert list(held) == ["one-1", "two-1", "three-1", "five-1", "six-1"]
    assert [row["op"] for row in held["five-1"]["unread"]] == ["Not"]
    assert held["two-1"]["unread"] == []
    assert held["three-1"]["needs"] == []
    assert cli.main(["inspect", "nan.onnx", "--fix-shape", "N=3"]) == 2
    assert cli.main(["inspect", "nan.onnx", "--target", "five-1"]) == 0
    assert 'opshift cannot replace Not "y": input X "a" is dynamic' in capsys.readouterr().out


def test_inspect_names_a_call_that_is_read_in_another_form_only(tmp_path, capsys):
    body = "a = Sigmoid(x) b = Mul(x, a) y = Add(a, b)"
    onnx.save(model(body, 13, inputs="float[1,4] x", outputs="float[1,4] y"), tmp_path / "silu.onnx")
    line = ["inspect", str(tmp_path / "silu.onnx"), "--target"]
    assert cli.main([*line, "rknn-2.5"]) == 0
    printed = capsys.readouterr().out
    assert 'not supported: Mul "b": the target reads it only in another form, which opshift can write' in printed
    assert printed.endswith("`opshift inline --target rknn-2.5` makes it a model that rknn-2.5 reads\n")
    assert cli.main([*line, "all"]) == 0
    printed = capsys.readouterr().out
    assert "rknn-2.5: read after `opshift convert --target rknn-2.5`, which rewrites 2 x Mul, 1 x Sigmoid" in printed
    assert "mnn-3.6: read as it is\n" in printed


def test_inspect_says_as_it_is_of_nothing_that_is_unknown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    of = model("a = Relu(x) y = my.F(a)", 13, inputs="float[N,2] x", outputs="float[N,2] y", domains='"my" : 1')
    onnx.save(of, "custom.onnx")
    onnx.save(model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y"), "relu.onnx")
    Path("tract.toml").write_text(
        'name = "tract"\nsource = "measured"\n[versions."1"]\nopset = 13\n[versions."1".measured]\nRelu = "1-2; T: float, not int32"\n'
    )
    assert cli.main(["inspect", "relu.onnx", "--target", "tract.toml"]) == 0
    read = capsys.readouterr().out
    assert "read (measured): 1 x Relu" in read
    assert read.splitlines()[-1] == "tract-1 runs this model as it is"
    cli.main(["inspect", "custom.onnx", "--target", "tract.toml"])
    unknown = capsys.readouterr().out
    assert (
        "unknown: 1 x Relu (dynamic sizes were not measured), 1 x my::F (the target says nothing about my)" in unknown
    )
    assert "as it is" not in unknown


def test_types_that_were_seen_to_fail_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(model("y = Relu(x)", 14, inputs="int32[2] x", outputs="int32[2] y"), "relu.onnx")
    Path("tract.toml").write_text(
        'name = "tract"\nsource = "measured"\n[versions."1"]\nopset = 18\n[versions."1".measured]\n'
        'Relu = "1-2; T: float, not int32"\nWhere = "1"\n'
    )
    assert cli.main(["inspect", "relu.onnx", "--target", "tract.toml"]) == 0
    said = capsys.readouterr().out
    assert 'not supported: Relu "y": "x" is int32, which failed when measured' in said
    assert "would be rewritten: 1 x Relu at 14" in said
    assert cli.main(["convert", "relu.onnx", "out.onnx", "--opset", "tract.toml"]) == 0
    assert "Relu" not in {node.op_type for node in onnx.load("out.onnx").graph.node}
    onnx.save(model("y = MatMul(x, x)", 13, inputs="int32[2,2] x", outputs="int32[2,2] y"), "product.onnx")
    Path("tract.toml").write_text(
        'name = "tract"\nsource = "measured"\n[versions."1"]\nopset = 18\n[versions."1".measured]\n'
        'MatMul = "2; T: float, not int32"\n'
    )
    capsys.readouterr()
    assert cli.main(["convert", "product.onnx", "out.onnx", "--opset", "tract.toml"]) == 0
    assert 'not supported: MatMul "y": "x" is int32, which failed when measured' in capsys.readouterr().out
    assert cli.main(["convert", "product.onnx", "--opset", "tract.toml", "--format", "json"]) == 0
    assert [row["op"] for row in json.loads(capsys.readouterr().out)["unread"]] == ["MatMul"]


def test_inspect_exits_with_3_for_a_model_that_cannot_be_rewritten(npu, tmp_path, capsys):
    path = tmp_path / "product.onnx"
    onnx.save(model("t = MatMul(x, x) y = MatMul(t, x)", 13, inputs="float[1,2,2] x", outputs="float[1,2,2] y"), path)
    assert cli.main(["inspect", str(path), "--target", npu]) == 3
    said = 'would be refused: 2 x MatMul "t" "y": it is a basic operator: there is nothing simpler to replace it with'
    assert said in capsys.readouterr().out


def test_a_broken_target_file_is_a_usage_error(norm, npu, capsys):
    Path(npu).write_text(NPU.replace("MatMul", "MatMull"))
    assert cli.main(["inline", str(norm), "--target", npu]) == 2
    assert "ONNX defines no operator MatMull" in capsys.readouterr().err
