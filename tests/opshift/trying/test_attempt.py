"""`inline --target ... --try`: what is replaced, what is said and kept, and what is not written; with a make-believe backend."""

import json
from dataclasses import replace

import onnx
import pytest
from opshift.passes.backends import target_files

from opshift.cli import main as cli
from opshift.trying import trial
from opshift.verification import adapters
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.side import Side
from tests.support import model

pytestmark = pytest.mark.usefixtures("quick_workers", "in_this_process")

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
FIXED = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}
CLIPPED = {"constants": "float l = {-1}, float h = {1}"}
BELIEVED = adapters.Adapter("tests.opshift.trying.believed:Believed", packages=("numpy",))
TARGET = """
name = "believed"
source = "made up"
[versions."0.5"]
opset = 22
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(adapters.KNOWN, "believed", BELIEVED)
    (tmp_path / "believed.toml").write_text(TARGET)
    return tmp_path


def tried(capsys, body, *more, opset=22, io=IO):
    onnx.save(model(body, opset, **io), "in.onnx")
    code = cli.main(["inline", "in.onnx", "out.onnx", "--target", "believed.toml", "--try", "--runs", "1", *more])
    return code, capsys.readouterr().out


def ops():
    return [node.op_type for node in onnx.load("out.onnx").graph.node]


def test_what_runs_stays_as_it_is(here, capsys):
    code, out = tried(capsys, "a = Abs(x) y = Elu(a)")
    assert (code, ops()) == (0, ["Abs", "Elu"])
    assert "with the same results (1 try)" in out
    assert out.splitlines()[-1] == "written to out.onnx"


def test_it_is_run_on_one_sample_of_sizes_that_users_feed(here):
    source = model("y = Relu(x)", 17, inputs="float[N,3,H,W] x", outputs="float[N,3,H,W] y")
    held = trial.run_source(Side(source), DRAWN)
    assert [feeds["x"].shape for feeds in held.feeds] == [(1, 3, 64, 96), (1, 3, 96, 64), (1, 3, 37, 53)]


def test_what_runs_at_once_keeps_its_sizes_open(here, capsys):
    code, out = tried(capsys, "a = Abs(x) y = Elu(a)")
    assert (code, "fixed" in out) == (0, False)
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_without_being_asked_it_is_not_tried(here, capsys):
    onnx.save(model("y = HardSwish(x)", 22, **IO), "in.onnx")
    assert cli.main(["inline", "in.onnx", "out.onnx", "--target", "believed.toml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written to out.onnx; not tried in believed-0.5"
    assert ops() == ["HardSwish"]


def test_what_the_words_name_is_expanded_and_nothing_else(here, capsys):
    code, out = tried(capsys, "a = HardSwish(x) b = HardSwish(a) y = Mish(b)", io=FIXED)
    assert code == 0
    assert "HardSwish" not in ops()
    assert "Mish" in ops()
    assert "refuses HardSwish with 2-D input: expanded, 2 nodes" in out


def test_what_no_words_name_is_found_by_halves_and_learnt(here, capsys):
    body = "a = Elu(x) b = Mish(a) c = Abs(b) y = Mul(c, x)"
    code, out = tried(capsys, body, "--learn", "my.toml")
    assert (code, "Mish" in ops(), "Elu" in ops()) == (0, False, True)
    assert "refuses Mish with 2-D input of symbolic sizes: expanded, 1 node" in out
    assert "saved in my.toml" in out
    learnt = target_files.read("my.toml")["believed-0.5"]
    assert [(limit.ops, limit.numbers, limit.why) for limit in learnt.limits] == [
        (frozenset({("", "Mish")}), True, "shapes must be numbers here")
    ]
    assert cli.main(["inline", "in.onnx", "again.onnx", "--target", "my.toml"]) == 0
    assert [node.op_type for node in onnx.load("again.onnx").graph.node] == ops()


@pytest.mark.parametrize("first", ["Elu", "Selu"])
def test_of_a_combination_one_goes(here, capsys, first):
    other = "Selu" if first == "Elu" else "Elu"
    code, _ = tried(capsys, f"a = {first}(x) b = Abs(a) c = {other}(b) y = Abs(c)")
    assert code == 0
    assert ({"Elu", "Selu"} & set(ops())) == {first}


def test_other_values_are_mended(here, capsys):
    code, out = tried(capsys, "a = Gelu(x) y = Abs(a)")
    assert code == 0
    assert "Gelu" not in ops()
    assert "computes otherwise Gelu" in out


@pytest.mark.parametrize("fixed", ["2", "N"])
def test_what_overflows_is_found_by_its_values_and_bounded(here, capsys, fixed):
    """Words name nothing here, and Tanh has no definition that could take its place."""
    io = {"inputs": f"float[{fixed},3] x", "outputs": f"float[{fixed},3] y", "constants": "float k = {1000}"}
    code, out = tried(capsys, "a = Abs(x) b = Mul(a, k) t = Tanh(b) y = Add(t, x)", io=io)
    assert (code, ops()) == (0, ["Abs", "Mul", "Clip", "Tanh", "Add"])
    assert "computes otherwise Tanh with 2-D input" in out
    assert "clipped its input where exponentials overflow" in out
    assert "grade: close" in out


def test_constants_alone_are_no_piece_that_fails(here, capsys):
    body = "k = Constant<value_float=1000.0>() b = Abs(x) a = Mul(b, k) y = Tanh(a)"
    code, out = tried(capsys, body)
    assert (code, ops()) == (0, ["Constant", "Abs", "Mul", "Clip", "Tanh"])
    assert "computes otherwise Tanh" in out


def test_what_overflows_in_a_branch_is_found(here, capsys):
    body = """
      a = Abs(x) b = Mul(a, k) s = ReduceSum<keepdims=0>(a) c = Greater(s, z)
      y = If(c) <then_branch = yes () => (float[N,3] p) { p = Tanh(b) },
                 else_branch = no () => (float[N,3] q) { q = Identity(b) }>
    """
    code, _ = tried(capsys, body, io={**IO, "constants": "float k = {1000}, float z = {0}"})
    assert code == 0
    branches = [a.g for node in onnx.load("out.onnx").graph.node for a in node.attribute if a.HasField("g")]
    assert ["Clip", "Tanh"] in [[node.op_type for node in graph.node] for graph in branches]


def test_what_overflows_in_a_function_is_found(here, capsys):
    (here / "believed.toml").write_text(TARGET + "functions = true\n")
    source = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 22, "my": 1]>
      g (float[N,3] x) => (float[N,3] y) <float k = {1000}> { a = Abs(x) b = Mul(a, k) c = my.outer(b) y = Add(c, x) }
      <domain: "my", opset_import: ["": 22]> inner (p) => (q) { q = Tanh(p) }
      <domain: "my", opset_import: ["": 22, "my": 1]> outer (r) => (t) { s = my.inner(r) t = Neg(s) }""")
    onnx.save(source, "in.onnx")
    assert cli.main(["inline", "in.onnx", "out.onnx", "--target", "believed.toml", "--try", "--runs", "1"]) == 0
    assert "computes otherwise Tanh" in capsys.readouterr().out
    assert ops() == ["Abs", "Mul", "Clip", "Tanh", "Neg", "Add"]


def test_of_what_does_not_run_other_values_are_not_at_fault(here, capsys):
    code, out = tried(capsys, "a = Gelu(x) b = Abs(a) c = Atan(b) y = Neg(c)", "--op", "Neg")
    assert code == 3
    assert "it fails at Atan" in out
    assert "the smallest model that shows it has 1 node" in out


def test_sizes_are_fixed_where_nothing_else_helps_and_no_more_than_needed(here, capsys):
    io = {"inputs": "float[N,M] x", "outputs": "float[N,M] y"}
    code, out = tried(capsys, "c = Clip(x, l, h) y = Asin(c)", "--input-shape", "x:4,5", io={**io, **CLIPPED})
    assert code == 0
    dims = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [(dim.dim_value, dim.dim_param) for dim in dims] == [(4, ""), (0, "M")]
    assert "fixed N=4, which it was run on" in out


def test_what_says_the_default_says_nothing(here, capsys):
    body = "a = LeakyRelu<alpha=0.01>(x) y = Abs(a)"
    code, out = tried(capsys, body)
    assert (code, ops()) == (0, ["LeakyRelu", "Abs"])
    assert not onnx.load("out.onnx").graph.node[0].attribute
    assert "removed attributes that equal their defaults" in out
    code, _ = tried(capsys, body.replace("0.01", "0.02"))
    assert (code, "LeakyRelu" in ops()) == (0, False)


def test_a_crash_is_mended(here, capsys):
    code, out = tried(capsys, "y = Celu(x)")
    assert code == 0
    assert "Celu" not in ops()
    assert "ends at Celu" in out


def test_what_stays_wrong_is_not_written(here, capsys):
    """Of Gelu nothing is left to be tried where it may not be expanded."""
    code, out = tried(capsys, "y = Gelu(x)", "--tries", "1", "--dry-run")
    assert (code, list(here.glob("out.onnx"))) == (4, [])
    code, out = tried(capsys, "y = Gelu(x)", "--tries", "1")
    assert (code, list(here.glob("out.onnx"))) == (4, [])
    assert "runs it, but with other results (1 try)" in out
    assert out.splitlines()[-1].startswith("not written: believed")
    assert "--tries" in out.splitlines()[-1]


def test_what_cannot_be_reached_says_what_remains(here, capsys):
    code, out = tried(capsys, "a = Abs(x) b = Atan(a) c = Abs(b) y = Neg(c)", "--repro", "piece")
    assert (code, list(here.glob("out.onnx"))) == (3, [])
    assert "refuses it" in out
    assert "no arcs" in out
    assert "it fails at Atan" in out
    assert "the smallest model that shows it has 1 node" in out
    piece = onnx.load("piece/model.onnx")
    assert [node.op_type for node in piece.graph.node] == ["Atan"]
    assert (here / "piece" / "inputs" / "input_0.pb").exists()
    assert (here / "piece" / "outputs" / "output_0.pb").exists()
    assert "no arcs" in (here / "piece" / "words.txt").read_text()
    assert "--try" in (here / "piece" / "command.txt").read_text()


@pytest.mark.long
def test_what_never_ends_is_ended(here, capsys, monkeypatch):
    monkeypatch.setitem(adapters.KNOWN, "believed", replace(BELIEVED, seconds=0.3))
    code, out = tried(capsys, "y = ThresholdedRelu(x)", "--tries", "1")
    assert code == 3
    assert "does not finish" in out


def test_another_release_than_the_targets_is_said(here, capsys):
    _, out = tried(capsys, "y = Abs(x)")
    assert "the installed backend is believed" in out
    assert "the target 0.5" in out


def test_what_the_targets_file_refuses_is_tried_as_it_is(here, capsys):
    (here / "believed.toml").write_text(TARGET + 'lacks = ["Abs", "Max", "Where", "Neg", "Sub", "Mul", "Sign"]\n')
    code, out = tried(capsys, "y = Abs(x)")
    assert (code, ops()) == (0, ["Abs"])
    assert "ignoring the target file" in out


def test_many_are_tried_one_after_the_other(here, capsys):
    (here / "in").mkdir()
    onnx.save(model("y = HardSwish(x)", 22, **IO), "in/one.onnx")
    onnx.save(model("y = Atan(x)", 22, **IO), "in/two.onnx")
    arguments = ["--out-dir", "out", "--target", "believed.toml", "--try", "--runs", "1", "--learn", "my.toml"]
    assert cli.main(["inline", "in", *arguments]) == 3
    out = capsys.readouterr().out
    assert "runs in believed" in out
    assert "refused: no arcs" in out
    assert [path.name for path in (here / "out").iterdir()] == ["one.onnx"]
    assert [limit.ops for limit in target_files.read("my.toml")["believed-0.5"].limits] == [{("", "HardSwish")}]


def test_it_is_told_to_programs(here, capsys):
    _, out = tried(capsys, "y = HardSwish(x)", "--format", "json")
    found = json.loads(out)["tried"]
    assert (found["status"], found["learnt"][0]["operator"]) == ("agrees", "HardSwish")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--target", "rknn-2.1", "--try"], "does not have the backend"),
        (["--op", "Abs", "--try"], "--try needs --target"),
        (["--target", "believed.toml", "--tries", "3"], "--tries needs --try"),
        (["--target", "believed.toml", "--try", "--tries", "0"], "--tries must be 1 or more"),
        (["--target", "believed.toml", "--try", "--learn", "none/my.toml"], "the folder of this file does not exist"),
        (["--target", "believed.toml", "--try", "--learn", "in.onnx"], "in.onnx"),
        (["--target", "believed.toml", "--try", "--learn", "."], "not a target file"),
        (["--target", "believed.toml", "--try", "--seconds", "0"], "--seconds more than 0"),
        (["--target", "believed.toml", "--try", "--seconds", "nan"], "--seconds more than 0"),
        (["--target", "believed.toml", "--try", "--out-dir", ".", "--jobs", "2"], "one model at a time"),
    ],
)
def test_what_has_no_meaning(here, capsys, arguments, complaint):
    onnx.save(model("y = Abs(x)", 22, **IO), "in.onnx")
    assert cli.main(["inline", "in.onnx", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["onnxruntime", pytest.param("openvino", marks=pytest.mark.newest)])
def test_real_backends(here, capsys, backend):
    onnx.save(
        model("a = LayerNormalization(x, w) y = Gelu(a)", 20, constants="float[3] w = {1, 2, 3}", **IO), "in.onnx"
    )
    assert cli.main(["inline", "in.onnx", "out.onnx", "--target", backend, "--try", "--runs", "1"]) == 0
    assert f"runs in {backend}" in capsys.readouterr().out
