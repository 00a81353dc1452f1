"""Sizes and inputs are fixed, and the batch is another, from the command line and from Python; the source is run as it is."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
import onnx_ir
import pytest
from opshift.passes import FixPass

import opshift
from opshift.cli import main as cli
from opshift.verification.engines import OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

RATES = """
    w = Equal(sr, rate) s = Shape(x) n = Gather(s, zero)
    y = If <then_branch = g () => (float[N,2] t) { m = Cast<to=1>(n) t = Add(x, m) },
            else_branch = h () => (float[N,2] f) { f = Neg(x) }> (w)
"""
IO = {
    "inputs": "float[batch,2] x, int64 sr",
    "outputs": "float[batch,2] y",
    "constants": "int64 rate = {16000}, int64 zero = {0}",
}
FIXED = ["--fix-shape", "batch=3", "--set", "sr=16000"]


def rates():
    return model(RATES, 18, **IO)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(rates(), "in.onnx")
    return tmp_path


def ops(path="out.onnx"):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_the_source_is_run_at_those_sizes_and_with_that_value(here, capsys):
    assert cli.main(["convert", "in.onnx", "out.onnx", *FIXED, "--opset", "13", "--save-inputs", "ran.npz"]) == 0
    assert "x 3x2, sr = 16000" in capsys.readouterr().out
    assert ops() == ["Add"]
    assert {value.name for value in onnx.load("out.onnx").graph.input} == {"x"}


@pytest.mark.parametrize("verb", ["convert", "inline", "fold", "optimize"])
def test_it_is_a_goal_by_itself(here, verb):
    assert cli.main([verb, "in.onnx", "out.onnx", *FIXED]) == 0
    assert not {"If", "Shape"} & {node.op_type for node in onnx.load("out.onnx").graph.node}


def test_a_value_may_lie_in_a_file(here):
    np.save("rate.npy", np.array(8000))
    assert cli.main(["optimize", "in.onnx", "out.onnx", "--fix-shape", "x:3,2", "--set", "sr=rate.npy"]) == 0
    assert ops() == ["Neg"]


def test_a_wrong_branch_is_noticed(here, monkeypatch, capsys):
    from opshift.passes.optimization import courses

    branch_of = courses.branches.branch_of
    monkeypatch.setattr(courses.branches, "branch_of", lambda node, condition: branch_of(node, not condition))
    assert cli.main(["convert", "in.onnx", "out.onnx", *FIXED]) == 4
    assert "DIFFERENT" in capsys.readouterr().out


def test_verify_feeds_the_value_to_the_first_alone(here):
    assert cli.main(["convert", "in.onnx", "out.onnx", *FIXED, "--no-verify"]) == 0
    shape = ["--input-shape", "batch=3"]
    assert cli.main(["verify", "in.onnx", "out.onnx", *shape, "--set", "sr=16000"]) == 0
    assert cli.main(["verify", "in.onnx", "out.onnx", *shape, "--set", "sr=8000"]) == 4
    assert cli.main(["verify", "in.onnx", "out.onnx", *shape]) == 4, "it has an input less"
    assert cli.main(["verify", "in.onnx", "in.onnx", *shape, "--set", "sr=8000"]) == 0


WRONG = [
    (["--fix-shape", "btach=3"], "did you mean 'batch'?"),
    (["--fix-shape", "z:3,2"], "no input 'z'"),
    (["--fix-shape", "x:3"], "rank 2"),
    (["--fix-shape", "x:3,4"], "has shape"),
    (["--fix-shape", "x"], "a size is written INPUT:SIZE"),
    (["--fix-shape", "x:1,3", "--fix-shape", "x:2,3"], "two shapes are given for input 'x': (1, 3) and (2, 3)"),
    (["--set", "sr"], "NAME=VALUE"),
    (["--set", "sr=fast"], "int64"),
    (["--set", "sr=[1,2]"], "rank 0"),
    (["--set", "srr=1"], "did you mean 'sr'?"),
    (["--rebatch", "some"], "dynamic"),
    (["--fix-shape", "batch=3", "--input-shape", "batch=4"], "fixed to 3"),
]


@pytest.mark.parametrize(("given", "why"), WRONG)
def test_what_is_not_possible_is_usage(here, capsys, given, why):
    for verb in ("convert", "optimize") if given[0] != "--set" else ("fold",):
        assert cli.main([verb, "in.onnx", "out.onnx", *given]) == 2
        assert why in capsys.readouterr().err
    assert not (here / "out.onnx").exists()


def test_another_batch_is_proved_sample_by_sample(here, capsys):
    onnx.save(model("y = Softmax(x)", 18, inputs="float[1,4] x", outputs="float[1,4] y"), "one.onnx")
    assert cli.main(["convert", "one.onnx", "--rebatch", "dynamic", "--annotate"]) == 0
    assert (here / "one.batch-dynamic.onnx").exists()
    assert "tested on 3 inputs: x 1x4; x 2x4; x 3x4" in capsys.readouterr().out


def test_inputs_of_another_batch_are_those_of_the_result(here, capsys):
    onnx.save(model("y = Mul(x, s)", 18, inputs="float[1,2] x, float s", outputs="float[1,2] y"), "one.onnx")
    np.save("two.npy", np.array([[1, 2], [3, 4]], np.float32))
    given = ["--set", "s=2", "--rebatch", "2", "--inputs"]
    assert cli.main(["convert", "one.onnx", "out.onnx", *given, "two.npy"]) == 0
    assert "x 2x2" in capsys.readouterr().out
    np.save("three.npy", np.ones((3, 2), np.float32))
    assert cli.main(["convert", "one.onnx", "out.onnx", *given, "three.npy"]) == 2
    assert "has shape" in capsys.readouterr().err


def test_what_mixes_samples_is_refused_by_its_name(here, capsys):
    onnx.save(model("y = Softmax<axis=0>(x)", 18, inputs="float[1,4] x", outputs="float[1,4] y"), "one.onnx")
    assert cli.main(["convert", "one.onnx", "out.onnx", "--rebatch", "8", "--format", "json"]) == 3
    (refusal,) = json.loads(capsys.readouterr().out)["refusals"]
    assert (refusal["op"], refusal["node"]) == ("Softmax", "y")
    assert not (here / "out.onnx").exists()


def test_an_opset_is_not_advised_where_samples_are_mixed(here, capsys):
    onnx.save(model("y = ReduceMean(x)", 18, inputs="float[1,3] x", outputs="float[1,1] y"), "mixing.onnx")
    assert cli.main(["convert", "mixing.onnx", "out.onnx", "--opset", "13", "--rebatch", "4"]) == 3
    assert "--opset" not in capsys.readouterr().out


@pytest.mark.parametrize(("size", "sizes"), [("4", "4"), ("dynamic", "N")])
def test_a_model_of_any_number_of_samples_is_proved_on_so_many_at_once(here, size, sizes, capsys):
    """Its mean is that of all of them."""
    onnx.save(model("m = ReduceMean(x) y = Sub(x, m)", 18, inputs="float[N,3] x", outputs="float[N,3] y"), "open.onnx")
    assert cli.main(["convert", "open.onnx", "out.onnx", "--opset", "13", "--rebatch", size]) == 0
    assert "equal" in capsys.readouterr().out
    (dim, _) = onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim
    assert sizes == (dim.dim_param or str(dim.dim_value))


def test_a_wrong_batch_is_noticed(here, monkeypatch, capsys):
    from opshift.passes.specialization import sample_rules

    monkeypatch.setitem(sample_rules.RULES, "Softmax", sample_rules.same)
    onnx.save(model("y = Softmax<axis=0>(x)", 18, inputs="float[1,4] x", outputs="float[1,4] y"), "one.onnx")
    assert cli.main(["convert", "one.onnx", "out.onnx", "--rebatch", "8"]) == 4
    assert "DIFFERENT" in capsys.readouterr().out


# --- from Python --------------------------------------------------------------------------------------------


def test_every_verb_takes_it_from_python(here):
    given = {"fix_shape": {"batch": 3}, "set": {"sr": 16000}, "annotate": True}
    for made in (
        opshift.convert_version(rates(), **given),
        opshift.fold(rates(), **given),
        opshift.optimize(rates(), **given),
        opshift.inline(rates(), ["Relu"], **given),
        opshift.inline(rates(), **given),
    ):
        assert [node.op_type for node in made.graph.node] == ["Add"]
        assert opshift.verify(rates(), made, input_shape={"batch": 3}, set={"sr": 16000})
    assert opshift.plan(rates(), **given).changes


def test_an_onnx_ir_model_comes_back_as_one():
    made = opshift.optimize(onnx_ir.from_proto(rates()), fix_shape="batch=3", set={"sr": np.array(16000)})
    assert [value.name for value in made.graph.inputs] == ["x"]
    fed = {"x": np.ones((3, 2), np.float32)}
    before = OnnxRuntime(rates()).run({**fed, "sr": np.array(16000)})
    np.testing.assert_array_equal(OnnxRuntime(onnx_ir.to_proto(made)).run(fed)[0], before[0])


def test_a_pipeline_fixes_it_too():
    found = FixPass("batch=3", {"sr": 16000})(onnx_ir.from_proto(rates()))
    assert found.modified
    assert [node.op_type for node in found.model.graph] == ["Add"]
    assert not FixPass({"x": (3, 2)})(found.model).modified


def test_a_path_becomes_a_message_with_another_batch(here):
    onnx.save(model("y = Relu(x)", 18, inputs="float[1,4] x", outputs="float[1,4] y"), "one.onnx")
    made = opshift.convert_version("one.onnx", rebatch=8)
    assert made.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 8
    mixing = model("y = ReduceMax(x)", 18, inputs="float[1,4] x", outputs="float[1,1] y")
    with pytest.raises(opshift.Refused, match="ReduceMax"):
        opshift.convert_version(mixing, rebatch="dynamic")


def test_many_files_are_fixed_alike(here):
    (found,) = opshift.convert_files(["in.onnx"], "out", fix_shape="batch=3", set={"sr": 8000})
    assert (found.code, ops("out/in.onnx")) == (0, ["Neg"])


def test_external_data_stay_where_they_are(here):
    source = model("y = MatMul(x, w)", 18, inputs="float[N,2] x, float[2,2] w", outputs="float[N,2] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w"))
    del source.graph.input[1]
    onnx.save(source, "far.onnx", save_as_external_data=True, location="far.bin", size_threshold=0)
    assert cli.main(["convert", "far.onnx", "out.onnx", "--fix-shape", "N=3"]) == 0
    assert onnx.load("out.onnx", load_external_data=False).graph.initializer[0].external_data
