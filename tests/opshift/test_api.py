"""The Python API: what goes in comes out in the same kind, and nothing that was given is changed."""

import inspect
import os
import signal

import onnx
import onnx.version_converter
import onnx_ir
import pytest
from opshift.passes.goals import OPTIONS

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.classical import store
from tests.support import model, show

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}


@pytest.fixture
def source():
    return model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}", **ROWS)


def test_a_proto_gives_a_proto(source):
    kept = source.SerializeToString()
    result = opshift.convert_version(source, 13)
    assert isinstance(result, onnx.ModelProto)
    assert show(result) == "y = ReduceMax<axes=[1]>(x)"
    assert source.SerializeToString() == kept


def test_an_ir_model_gives_an_ir_model(source):
    given = onnx_ir.from_proto(source)
    result = opshift.convert_version(given, 13)
    assert isinstance(result, onnx_ir.Model)
    assert result.opset_imports[""] == 13
    assert given.opset_imports[""] == 18
    assert show(onnx_ir.to_proto(result)) == "y = ReduceMax<axes=[1]>(x)"


def test_a_path_gives_a_proto(source, tmp_path):
    onnx.save(source, tmp_path / "in.onnx")
    for path in (tmp_path / "in.onnx", str(tmp_path / "in.onnx")):
        assert show(opshift.convert_version(path, 13)) == "y = ReduceMax<axes=[1]>(x)"


@pytest.mark.parametrize("target", [None, 21])
def test_maps_become_tensors(target):
    zipped = store.read("forest_zipmap")[0]
    result = opshift.convert_version(zipped, target, zipmap="tensor", map="tensor")
    assert [value.type.WhichOneof("value") for value in zipped.graph.output] == ["tensor_type", "sequence_type"]
    assert {value.type.WhichOneof("value") for value in result.graph.output} == {"tensor_type"}
    assert "ZipMap" in [change.op for change in opshift.plan(zipped, target, zipmap="tensor").changes]
    with pytest.raises(ValueError, match="--zipmap must be tensor or left out, not columns"):
        opshift.convert_version(zipped, target, zipmap="columns")


def test_a_drop_in_for_onnx(source):
    theirs = list(inspect.signature(onnx.version_converter.convert_version).parameters)
    ours = list(inspect.signature(opshift.convert_version).parameters)
    assert ours[: len(theirs)] == theirs
    assert opshift.convert_version(model=source, target_version=13).opset_import[0].version == 13


@pytest.mark.parametrize(
    ("target", "opset", "ir"),
    [(13, 13, 7), ("13", 13, 7), ("latest", 28, 14), ("onnxruntime-1.2", 11, 6), ({"": 12}, 12, 7)],
)
def test_targets(source, target, opset, ir):
    result = opshift.convert_version(source, target)
    assert (result.opset_import[0].version, result.ir_version) == (opset, ir)


@pytest.mark.parametrize("target", [0, 29, "rknn-0", {"com.microsoft": 1}, {"": 99}])
def test_unknown_targets(source, target):
    with pytest.raises(ValueError, match="known"):
        opshift.convert_version(source, target)


def test_the_ir_version_can_be_asked_for(source):
    assert opshift.convert_version(source, 13, ir_version=8).ir_version == 8


def test_inline(source):
    norm = model("y = ReduceL2(x, a)", 13, constants="", inputs="float[N,3] x", outputs="float[1,1] y")
    norm.graph.node[0].input[:] = ["x"]
    result = opshift.inline(norm, ["ReduceL2"])
    assert [n.op_type for n in result.graph.node] == ["Mul", "ReduceSum", "Sqrt"]
    assert result.opset_import[0].version == 13
    assert opshift.inline(norm, ["ReduceL2"], 12).opset_import[0].version == 12
    with pytest.raises(opshift.Refused, match="basic operator"):
        opshift.inline(source, ["ReduceMax"])


def test_inline_by_target_and_by_domain():
    norm = model("y = ReduceL2(x)", 18, inputs="float[2,3] x", outputs="float[1,1] y")
    result = opshift.inline(norm, target="rknn-2.1")
    assert "ReduceL2" not in {n.op_type for n in result.graph.node}
    assert result.opset_import[0].version == 18
    texts = model(
        'y = StringNormalizer<case_change_action = "LOWER">(x)', 13, inputs="string[2] x", outputs="string[2] y"
    )
    with pytest.raises(opshift.Refused, match=r'for rknn-2.1:\n  StringNormalizer "y"') as refused:
        opshift.inline(texts, target="rknn-2.1")
    assert refused.value.target == "rknn-2.1"
    with pytest.raises(ValueError, match="nothing to do: give operators"):
        opshift.inline(norm)
    with pytest.raises(ValueError, match="no operator of domain"):
        opshift.inline(norm, domain="my")


def test_plan_for_a_target():
    norm = model("y = ReduceL2(x)", 18, inputs="float[N,3] x", outputs="float[1,1] y")
    found = opshift.plan(norm, "qnn-2.22")
    assert {c.op for c in found.changes} == {"ReduceL2"}
    assert [(refusal.node, refusal.fix) for refusal in found.refusals] == [("x", "--fix-shape x:?,3")]
    with pytest.raises(
        opshift.Refused, match=r"dimension N is dynamic; supported: fixed sizes; try --fix-shape x:\?,3"
    ):
        opshift.inline(norm, target="qnn-2.22")
    assert opshift.plan(norm, "qnn-2.22", fix_shape={"N": 2}).refusals == ()
    assert (
        opshift.inline(norm, target="qnn-2.22", fix_shape={"N": 2})
        .graph.input[0]
        .type.tensor_type.shape.dim[0]
        .dim_value
        == 2
    )


def test_plan_writes_nothing(source):
    kept = source.SerializeToString()
    found = opshift.plan(source, 13)
    assert [(c.op, c.source, c.target, c.grade) for c in found.changes] == [("ReduceMax", 18, 13, "exact")]
    assert (found.refusals, found.nearest, found.grade) == ((), None, "exact")
    assert source.SerializeToString() == kept


def test_plan_lists_refusals_and_the_nearest_opset():
    found = opshift.plan(model("y = StringConcat(x, x)", 22, inputs="string[2] x", outputs="string[2] y"), 13)
    assert [r.op for r in found.refusals] == ["StringConcat"]
    assert found.nearest == 20


def test_refusals_are_raised_whole(source):
    two = model("t = StringConcat(x, x) y = StringConcat(t, x)", 20, inputs="string[2] x", outputs="string[2] y")
    with pytest.raises(opshift.Refused) as refused:
        opshift.convert_version(two, 19)
    assert len(refused.value.refusals) == 2
    assert refused.value.target == 19


@pytest.mark.parametrize("given", [b"bytes", 7, None])
def test_anything_else_is_no_model(given):
    with pytest.raises(opshift.InvalidModel):
        opshift.convert_version(given, 13)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="nonsense"):
        opshift.nonsense  # noqa: B018


@pytest.mark.long
@pytest.mark.posix
def test_a_model_that_ends_the_process_of_a_proof_is_unverified(source, monkeypatch):
    monkeypatch.setattr(OnnxRuntime, "run", lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    found = opshift.verify(source, source)
    assert found.status == "unverified"
    assert "crashed" in found.why


# --- what is shown ------------------------------------------------------------------------------------------


def test_a_plan_prints_a_few_lines_and_is_a_table_in_a_notebook(source):
    plan = opshift.plan(source, 13)
    printed = str(plan).splitlines()
    assert printed[0] == "1 change, exact"
    assert len(printed) <= 5
    assert "ReduceMax" in printed[1]
    assert "<table>" in plan._repr_html_()
    assert "<td>ReduceMax</td>" in plan._repr_html_()


def test_a_plan_that_is_refused_says_why(source):
    strings = model("y = StringConcat(a, b)", 20, inputs="string[N] a, string[N] b", outputs="string[N] y")
    plan = opshift.plan(strings, 13)
    assert str(plan).splitlines()[0] == "refused: 1 reason; nearest opset that works: 20"
    assert "1 x StringConcat opset 20 -> 19" in str(plan)


def test_a_verification_prints_five_lines_at_most(source):
    found = opshift.verify(source, opshift.convert_version(source, 13))
    assert str(found).splitlines()[0] == "equal: the same values"
    assert len(str(found).splitlines()) <= 5
    assert "<p>equal: the same values</p><p>tested on" in found._repr_html_()
    assert "<td>agrees</td>" in found._repr_html_()
    many = opshift.Verification("equal", engine="onnxruntime", remarks=tuple(f"<{k}>" for k in range(9)))
    assert str(many).splitlines()[-1] == "and 6 more remarks"
    assert "&lt;0&gt;" in many._repr_html_()


@pytest.mark.parametrize("function", [opshift.convert_version, opshift.convert_files, opshift.inline, opshift.plan])
def test_options_of_every_verb_are_arguments(function):
    """What is typed for any verb can be said in Python; types only where the function runs the model or takes it so."""
    lacking = set(OPTIONS) - set(inspect.signature(function).parameters)
    of_types = {"types", "keep", "only", "budget"}
    assert lacking == (set() if function is opshift.convert_version else of_types)
