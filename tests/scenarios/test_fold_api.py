"""Folding and optimization from Python: the same kind comes out, what was given stays as it is."""

import numpy as np
import onnx
import onnx_ir
import pytest
from opshift.passes.model import tensor_data

import opshift
from tests.support import model, show

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
SPELLED = "i = Identity(x) s = Mul(i, i) t = ReduceSum<keepdims=1>(s, a) y = Sqrt(t)"
FOLDED = "t1 = Identity(x)\ny = ReduceL2<axes=[1], keepdims=1>(t1)"
BOTH = "y = ReduceL2<axes=[1], keepdims=1>(x)"
LEAN = "t1 = Mul(x, x)\nt2 = ReduceSum<keepdims=1>(t1, [1])\ny = Sqrt(t2)"


@pytest.fixture
def source():
    return model(SPELLED, 13, constants="int64[1] a = {1}", **ROWS)


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (lambda m: opshift.fold(m), FOLDED),
        (lambda m: opshift.fold(m, ["ReduceL2"]), FOLDED),
        (lambda m: opshift.fold(m, optimize=True), BOTH),
        (lambda m: opshift.optimize(m), LEAN),
        (lambda m: opshift.convert_version(m, 14, modernize=True), FOLDED),
        (lambda m: opshift.convert_version(m, 14, modernize=True, optimize=True), BOTH),
        (lambda m: opshift.convert_version(m, 14, optimize=True), LEAN),
        (lambda m: opshift.fold(m, target=14), FOLDED),
        (lambda m: opshift.inline(m, ["ReduceL1"], modernize=True, optimize=True), BOTH),
    ],
)
def test_the_same_kind_comes_out(source, tmp_path, verb, expected):
    onnx.save(source, tmp_path / "in.onnx")
    kept = source.SerializeToString()
    given = onnx_ir.from_proto(source)
    as_ir = verb(given)
    assert isinstance(as_ir, onnx_ir.Model)
    for made in (verb(source), verb(tmp_path / "in.onnx"), onnx_ir.to_proto(as_ir)):
        assert isinstance(made, onnx.ModelProto)
        assert show(made) == expected
    assert source.SerializeToString() == kept
    assert (tmp_path / "in.onnx").read_bytes() == kept
    assert onnx_ir.to_proto(given) == onnx_ir.to_proto(onnx_ir.from_proto(source))


@pytest.mark.parametrize("verb", [opshift.fold, opshift.optimize])
def test_a_model_with_nothing_to_do_is_a_copy(verb):
    plain = model("y = ReduceSum<keepdims=1>(x, a)", 13, constants="int64[1] a = {1}", **ROWS)
    made = verb(plain)
    assert made == plain
    assert made is not plain


def test_operators_that_cannot_be_brought_in(source):
    for ops, target, why in [
        (["Gelo"], None, "did you mean Gelu"),
        (["Conv"], None, "no definition"),
        (["Gelu"], None, "came with opset 20"),
        (["Gelu"], "onnxruntime-1.16", "came with opset 20"),
    ]:
        with pytest.raises(ValueError, match=why):
            opshift.fold(source, ops, target)


def test_plan_says_what_would_be_folded(source):
    kept = source.SerializeToString()
    found = opshift.plan(source, modernize=True)
    assert [(c.op, c.source, c.target) for c in found.changes] == [("ReduceL2", 13, 13)]
    assert found.grade == found.changes[0].grade
    assert found.refusals == ()
    assert [c.op for c in opshift.plan(source, 14, modernize=True, optimize=True).changes] == ["ReduceL2", "Identity"]
    assert opshift.plan(source).changes == ()
    assert opshift.plan(source, "onnxruntime-1.8", modernize=True).changes == found.changes
    assert source.SerializeToString() == kept


def test_many_files(source, tmp_path):
    onnx.save(source, tmp_path / "a.onnx")
    (done,) = opshift.convert_files([tmp_path / "a.onnx"], tmp_path / "out", 14, modernize=True, optimize=True)
    assert (done.code, done.outcome.folded) == (0, 1)
    assert show(onnx.load(done.output)) == BOTH


WEIGHT = np.random.default_rng(0).standard_normal((80, 80)).astype(np.float32)


def weighty():
    """A model with a large initializer and a large constant."""
    body = "h = MatMul(x, w) c = Constant() g = MatMul(h, c) s = Mul(g, g) t = ReduceSum<keepdims=1>(s, a) y = Sqrt(t)"
    held = model(body, 13, constants="int64[1] a = {1}", inputs="float[N,80] x", outputs="float[N,1] y")
    held.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    held.graph.node[1].attribute.append(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(WEIGHT)))
    return held


def weights(of):
    """The tensor of the initializer, and that of the constant, which optimization makes an initializer."""
    held = of.graph.initializers
    constants = [node.attributes["value"].value for node in of.graph if node.op_type == "Constant"]
    return [held["w"].const_value, *(constants or [held["c"].const_value.raw()])]


@pytest.mark.parametrize(
    "verb",
    [
        lambda m: opshift.convert_version(m, 18),
        lambda m: opshift.inline(m, ["ReduceL1"], 18),
        lambda m: opshift.fold(m),
        lambda m: opshift.optimize(m),
    ],
)
def test_the_tensors_of_an_ir_model_are_the_same_objects(verb):
    given = onnx_ir.from_proto(weighty())
    held, before = weights(given), onnx_ir.to_proto(given)
    made = verb(given)
    assert [a is b for a, b in zip(weights(made), held, strict=True)] == [True, True]
    assert [a is b for a, b in zip(weights(given), held, strict=True)] == [True, True]
    onnx_ir.to_proto(made)
    assert onnx_ir.to_proto(given) == before


def test_external_tensors_of_an_ir_model_stay_where_they_are(tmp_path):
    """Small ones, too, which a conversion reads: the axes of a reduction."""
    held = model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}, int64[1] b = {1}", **ROWS)
    held.graph.output.append(onnx.helper.make_tensor_value_info("b", onnx.TensorProto.INT64, [1]))
    for tensor in held.graph.initializer:
        tensor_data.refer(tensor, "data.bin", (0, 8))
        tensor.ClearField("int64_data")
    (tmp_path / "data.bin").write_bytes(np.int64([1]).tobytes())
    onnx.save(held, tmp_path / "in.onnx")
    given = onnx_ir.load(tmp_path / "in.onnx")
    made = opshift.convert_version(given, 13)
    assert show(onnx_ir.to_proto(made)) == "y = ReduceMax<axes=[1]>(x)"
    assert made.graph.initializers["b"].const_value is given.graph.initializers["b"].const_value
    assert made.graph.initializers["b"].const_value.numpy().tolist() == [1]
    for before in (given, tmp_path / "in.onnx"):
        assert opshift.verify(before, made).equal


def test_a_refusal_of_an_ir_model_is_listed():
    given = onnx_ir.from_proto(model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y"))
    with pytest.raises(opshift.Refused) as refused:
        opshift.convert_version(given, 13)
    assert refused.value.nearest == 20
