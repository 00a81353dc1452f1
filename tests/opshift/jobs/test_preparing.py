"""A part of a model in files: what is written, and what of the weights goes along."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift.passes.errors import Refused
from opshift.passes.model.types import dims_of

import opshift
from opshift.cli import main as cli
from opshift.jobs import preparing
from opshift.verification import cutting
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.verdict import UNVERIFIED, Verification
from tests.opshift.cli.test_main import listing
from tests.support import evaluate, model

pytestmark = pytest.mark.usefixtures("in_this_process")


def weighty(path, *, external=False):
    """Three layers with weights of 40 kB each: in a file of their own, or in the model's."""
    weights = [np.random.default_rng(k).normal(size=(100, 100)).astype(np.float32) for k in range(3)]
    source = model(
        "a = MatMul(x, w0) r = Relu(a) b = MatMul(r, w1) s = Relu(b) y = MatMul(s, w2)",
        17,
        inputs="float[N,100] x",
        outputs="float[N,100] y",
    )
    source.graph.initializer.extend(numpy_helper.from_array(held, f"w{k}") for k, held in enumerate(weights))
    path.parent.mkdir(parents=True, exist_ok=True)
    written = onnx.ModelProto.FromString(source.SerializeToString())  # which refers to the file then
    onnx.save(written, path, save_as_external_data=external, location="whole.data", size_threshold=0)
    return source


@pytest.mark.parametrize("external", [False, True])
def test_the_part_has_its_weights_alone(tmp_path, external):
    source = weighty(tmp_path / "in.onnx", external=external)
    out = tmp_path / "there" / "part.onnx"
    out.parent.mkdir()
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(out), "--from", "r", "--to", "s"]) == 0
    assert listing(out.parent) == (["part.onnx", "part.onnx.data"] if external else ["part.onnx"])
    assert sum(path.stat().st_size for path in out.parent.iterdir()) < 45000
    part = onnx.load(out)
    assert [tensor.name for tensor in part.graph.initializer] == ["w1"]
    fed = {"r": np.ones((2, 100), np.float32)}
    weight = numpy_helper.to_array(source.graph.initializer[1])
    np.testing.assert_allclose(evaluate(part, fed)[0], np.maximum(fed["r"] @ weight, 0), rtol=1e-5, atol=1e-5)


def test_the_stages_go_on_with_the_part(tmp_path):
    weighty(tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    typed = "--from r --to s --opset 13 --rename r=image --rename s=score --fix-shape N=4"
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(out), *typed.split()]) == 0
    part = onnx.load(out)
    assert [value.name for value in (*part.graph.input, *part.graph.output)] == ["image", "score"]
    assert dims_of(part.graph.input[0].type) == [4, 100]
    assert part.opset_import[0].version == 13


def test_a_type_that_does_not_follow_is_seen_in_a_run(tmp_path):
    """Of a vendor's operator whose inference onnx does not have."""
    source = model(
        "a = com.microsoft.Gelu(x) y = Abs(a)",
        17,
        domains='"com.microsoft" : 1',
        inputs="float[N,3] x",
        outputs="float[N,3] y",
    )
    onnx.save(source, tmp_path / "in.onnx")
    part = opshift.extract(tmp_path / "in.onnx", start="a")
    assert part.graph.input[0].type.tensor_type.elem_type == 1
    assert len(dims_of(part.graph.input[0].type)) == 2


def test_a_type_that_nobody_knows_is_refused(tmp_path):
    source = model("a = my.Op(x) y = Abs(a)", 17, domains='"my" : 1', inputs="float[3] x", outputs="float[3] y")
    with pytest.raises(Refused, match="no run shows it"):
        opshift.extract(source, start="a")
    onnx.save(source, tmp_path / "in.onnx")
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--from", "a"]) == 3
    assert listing(tmp_path) == ["in.onnx"]


def test_a_wrong_declaration_of_a_cut_value_is_not_handed_on(tmp_path):
    source = weighty(tmp_path / "in.onnx")
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("r", 1, ["N", 7]))
    onnx.save(source, tmp_path / "in.onnx")
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--from", "r"]) == 0
    assert dims_of(onnx.load(tmp_path / "out.onnx").graph.input[0].type) == ["N", 100]


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("", 2),
        ("--to Y", 2),
        ("--from y", 2),
        ("--around nobody", 2),
        ("--to y --depth 2", 2),
        ("--to y --inputs none.npz", 5),
        ("--to s --opset 99", 2),
    ],
)
def test_what_cannot_be_done_leaves_nothing(tmp_path, typed, code):
    weighty(tmp_path / "in.onnx")
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), *typed.split()]) == code
    assert listing(tmp_path) == ["in.onnx"]


def test_weights_that_are_not_there_are_told(tmp_path, capsys):
    weighty(tmp_path / "in.onnx", external=True)
    (tmp_path / "whole.data").unlink()
    assert cli.main(["extract", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--to", "s"]) == 5
    assert "whole.data" in capsys.readouterr().err
    assert listing(tmp_path) == ["in.onnx"]


def test_a_part_of_each_of_many(tmp_path):
    for name in ("a", "b"):
        weighty(tmp_path / f"{name}.onnx")
    typed = ["extract", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--out-dir", str(tmp_path / "out")]
    assert cli.main([*typed, "--to", "s"]) == 0
    assert listing(tmp_path / "out") == ["a.onnx", "b.onnx"]


def test_from_python_a_part_is_of_the_kind_that_was_given(tmp_path):
    import onnx_ir

    source = weighty(tmp_path / "in.onnx")
    assert isinstance(opshift.extract(source, "s"), onnx.ModelProto)
    assert isinstance(opshift.extract(tmp_path / "in.onnx", around="b", depth=0), onnx.ModelProto)
    part = opshift.extract(onnx_ir.from_proto(source), "s", "r")
    assert isinstance(part, onnx_ir.Model)
    assert [value.name for value in part.graph.inputs] == ["r"]


# --- two models -------------------------------------------------------------------------------------------------


def pair(folder, *, external=False, opset=13):
    """Two models whose data lie in files of one name in two folders."""
    one = weighty(folder / "one" / "first.onnx", external=external)
    weighty(folder / "two" / "second.onnx", external=external)
    if opset != 17:
        two = onnx.load(folder / "two" / "second.onnx", load_external_data=False)
        two.opset_import[0].version = opset
        onnx.save(two, folder / "two" / "second.onnx")
    return one, str(folder / "one" / "first.onnx"), str(folder / "two" / "second.onnx")


@pytest.mark.parametrize("external", [False, True])
def test_two_files_become_one(tmp_path, capsys, external):
    source, one, two = pair(tmp_path, external=external)
    (tmp_path / "out").mkdir()
    assert cli.main(["merge", one, two, str(tmp_path / "out" / "both.onnx")]) == 0
    assert "run one after the other: the same values" in capsys.readouterr().out
    assert listing(tmp_path / "out") == (["both.onnx", "both.onnx.data"] if external else ["both.onnx"])
    both = onnx.load(tmp_path / "out" / "both.onnx")
    assert both.opset_import[0].version == 17
    fed = {"x": np.random.default_rng(1).normal(size=(2, 100)).astype(np.float32)}
    expected = evaluate(source, {"x": evaluate(source, fed)[0]})[0]
    np.testing.assert_array_equal(evaluate(both, fed)[0], expected)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("--connect y=q", 2),
        ("--connect y", 2),
        ("--in-place", 2),
        ("--out-dir out", 2),
        ("--opset 99", 2),
    ],
)
def test_what_cannot_be_joined_leaves_nothing(tmp_path, typed, code):
    _, one, two = pair(tmp_path)
    assert cli.main(["merge", one, two, str(tmp_path / "out.onnx"), *typed.split()]) == code
    assert listing(tmp_path) == ["one", "two"]


def test_a_second_model_that_is_not_there_or_is_the_output(tmp_path, capsys):
    _, one, two = pair(tmp_path)
    assert cli.main(["merge", one, str(tmp_path / "none.onnx"), str(tmp_path / "out.onnx")]) == 5
    assert "none.onnx" in capsys.readouterr().err
    assert cli.main(["merge", one, two, two]) == 2
    assert listing(tmp_path) == ["one", "two"]


def test_models_that_cannot_come_to_one_opset_are_refused(tmp_path):
    newer = model("y = BitwiseNot(x)", 18, inputs="int32[3] x", outputs="int32[3] y")
    older = model("y = my.F(x)", 13, domains='"my" : 1', inputs="int32[3] x", outputs="int32[3] y")
    older.graph.node.append(onnx.helper.make_node("Gone", ["y"], ["z"], domain=""))
    onnx.save(newer, tmp_path / "a.onnx")
    onnx.save(older, tmp_path / "b.onnx")
    code = cli.main(["merge", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), str(tmp_path / "out.onnx")])
    assert code in (3, 5)
    assert listing(tmp_path) == ["a.onnx", "b.onnx"]


def test_inputs_of_one_name_stay_apart_and_it_is_said_how_to_share_them(tmp_path, capsys):
    for name, text in (("one", "m = Abs(x)"), ("two", "y = Add(m, x)")):
        given = "float[2] x" if name == "one" else "float[2] m, float[2] x"
        onnx.save(model(text, 17, inputs=given, outputs=f"float[2] {text[0]}"), tmp_path / f"{name}.onnx")
    typed = ["merge", *(str(tmp_path / f"{name}.onnx") for name in ("one", "two", "both")), "--connect", "m=m"]
    assert cli.main(typed) == 0
    assert 'Input "x" of the second model is "x_1"; --connect x=x lets both read one' in capsys.readouterr().out
    assert cli.main([*typed, "--connect", "x=x"]) == 0
    assert [value.name for value in onnx.load(tmp_path / "both.onnx").graph.input] == ["x"]


def by_parts(folder, sizes, shape):
    """A model that reshapes by the sizes of its input, as PyTorch exports them, and one that takes a single shape."""
    sized = "h = Shape(x) b = Slice(h, z, o) s = Slice(h, o, t) r = Concat<axis = 0>(b, s, t, t) v = Reshape(x, r)"
    back = "c = Concat<axis = 0>(b, s, f) y = Reshape(v, c)"
    constants = "int64[1] z = {0}, int64[1] o = {1}, int64[1] t = {2}, int64[1] f = {4}"
    one = model(f"{sized} {back}", 17, inputs=f"float[{sizes},4] x", outputs="float[A,B,4] y", constants=constants)
    two = model(
        "a = Reshape(x, r) y = Neg(a)", 17, inputs=f"float[{shape},4] x", outputs=f"float[{shape},2,2] y",
        constants=f"int64[4] r = {{{shape},2,2}}",
    )  # fmt: skip
    for name, saved in (("one", one), ("two", two)):
        onnx.save(saved, folder / f"{name}.onnx")
    return ["merge", *(str(folder / f"{name}.onnx") for name in ("one", "two", "both")), "--connect", "y=x"]


def test_sizes_of_outputs_with_names_of_their_own_are_those_of_the_inputs(tmp_path, capsys):
    assert cli.main(by_parts(tmp_path, "batch,sequence", "2,6")) == 0
    assert "run one after the other: the same values" in capsys.readouterr().out
    (taken,) = onnx.load(tmp_path / "both.onnx").graph.input
    assert [dim.dim_value for dim in taken.type.tensor_type.shape.dim] == [2, 6, 4]


def test_it_is_said_which_sizes_the_second_model_takes(tmp_path, monkeypatch):
    why = "onnxruntime: found no inputs that the first model accepts"
    monkeypatch.setattr(cutting, "verify_in_turn", lambda *given: Verification(UNVERIFIED, why=why))
    one = model("y = Concat<axis = 0>(x, x)", 17, inputs="float[rows] x", outputs="float[N] y")
    onnx.save(model("y = Neg(x)", 17, inputs="float[3] x", outputs="float[3] y"), tmp_path / "two.onnx")
    merging = preparing.Merging(str(tmp_path / "two.onnx"), (("y", "x"),))
    told = merging.prepare(one, tmp_path / "one.onnx", DRAWN, verify=True).remark
    assert 'the second model takes "y" as [3]: give sizes that lead to it, --input-shape x:rows with numbers' in told


def test_from_python_two_models_become_one(tmp_path):
    import onnx_ir

    source, one, two = pair(tmp_path, external=True)
    both = opshift.merge(one, two, {"y": "x"})
    assert len(both.graph.node) == 10
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in both.graph.initializer)
    held = onnx_ir.from_proto(source)
    assert isinstance(opshift.merge(held, held), onnx_ir.Model)
    assert isinstance(opshift.merge(held, source), onnx.ModelProto)
    with pytest.raises(ValueError, match="no input 'q'"):
        opshift.merge(source, source, "y=q")
