"""Files that onnxruntime saved: their operators and their imports, through the commands."""

import json

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.model.validity import check

import opshift
from opshift.cli import main as cli
from opshift.verification.engines import OnnxRuntime
from tests.support import model, show

pytestmark = pytest.mark.usefixtures("in_this_process")

SAVED = '"ai.onnx.ml" : 5, "ai.onnx.training" : 1, "ai.onnx.preview.training" : 1, "com.microsoft" : 1, "com.microsoft.nchwc" : 1'
BODY = "a = com.microsoft.FastGelu(x, b) y = com.microsoft.FusedMatMul<transA = 1, alpha = 0.5>(a, a)"
IO = {"inputs": "float[2,4] x, float[4] b", "outputs": "float[4,4] y"}


@pytest.fixture
def saved(tmp_path):
    onnx.save(model(BODY, 17, domains=SAVED, **IO), tmp_path / "in.onnx")
    return str(tmp_path / "in.onnx")


def imports(path):
    return {entry.domain: entry.version for entry in onnx.load(path).opset_import}


def ran(capsys, *words):
    code = cli.main([*words])
    held = capsys.readouterr()
    return code, held.out + held.err


def test_a_domain(saved, tmp_path, capsys):
    out = str(tmp_path / "out.onnx")
    assert ran(capsys, "inline", saved, out, "--domain", "com.microsoft")[0] == 0
    assert imports(out) == {"": 17, "ai.onnx.training": 1, "ai.onnx.preview.training": 1, "com.microsoft.nchwc": 1}
    assert onnx.load(out).ir_version == 8
    code, said = ran(capsys, "inline", out, str(tmp_path / "again.onnx"), "--domain", "com.microsoft")
    assert (code, "nothing to inline" in said) == (0, True)
    code, said = ran(capsys, "inline", out, str(tmp_path / "no.onnx"), "--domain", "com.zork")
    assert (code, "domain 'com.zork'" in said) == (2, True)


@pytest.mark.parametrize("more", [[], ["--opset", "13"]])
def test_what_is_portable(saved, tmp_path, capsys, more):
    out = str(tmp_path / "out.onnx")
    assert ran(capsys, "inline", saved, out, "--portable", *more)[0] == 0
    assert imports(out) == {"": 13 if more else 17}
    code, said = ran(capsys, "inline", out, str(tmp_path / "again.onnx"), "--portable")
    assert (code, "nothing to inline" in said) == (0, True)


@pytest.mark.parametrize("option", ["--target", "--opset"])
def test_what_is_portable_is_for_no_vendor(saved, tmp_path, capsys, option):
    code, said = ran(capsys, "inline", saved, str(tmp_path / "out.onnx"), "--portable", option, "onnxruntime-1.31")
    assert (code, "onnxruntime-1.31 has operators of its own" in said) == (2, True)


def test_what_is_portable_calls_its_own_functions_and_no_others(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2,2] x) => (float[2,2] y) { y = own.Twice(x) }
    <domain: "own", opset_import: ["" : 17, "com.microsoft" : 1]> Twice (x) => (y) { a = com.microsoft.FusedMatMul(x, x) y = Neg(a) }"""
    after = opshift.inline(onnx.parser.parse_model(text), portable=True)
    assert [node.op_type for node in after.graph.node] == ["Twice"]
    assert {node.domain for node in after.functions[0].node} == {""}
    onnx.checker.check_model(after)
    with pytest.raises(opshift.Refused, match="opshift has no definition"):
        opshift.inline(model("y = custom.Op(x)", 17, domains='"custom" : 1', inputs="float x", outputs="float y"), portable=True)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["convert", "--opset", "tract-0.23"], set()),
        (["inline", "--target", "tract-0.23"], set()),
        (["inline", "--op", "com.microsoft::FastGelu", "--opset", "openvino-2026.4"], set()),
        (["convert", "--opset", "onnxruntime-1.20"], {"com.microsoft"}),
    ],
)
def test_targets_lack_what_they_do_not_list(saved, tmp_path, capsys, words, left):
    out = str(tmp_path / "out.onnx")
    code, said = ran(capsys, words[0], saved, out, *words[1:])
    assert code == 0, said
    assert {node.domain for node in onnx.load(out).graph.node} - {""} == left


def test_what_onnxruntime_1_15_reads(saved, tmp_path, capsys):
    """It reads ai.onnx.ml up to 3 and IR 9, used or not."""
    out = str(tmp_path / "out.onnx")
    assert ran(capsys, "convert", saved, out, "--opset", "onnxruntime-1.15")[0] == 0
    assert imports(out) == {"": 18, "com.microsoft": 1, "com.microsoft.nchwc": 1}
    assert onnx.load(out).ir_version == 9


@pytest.mark.parametrize(
    ("target", "reached"), [("onnxruntime-1.20", 21), ("onnxruntime-1.23", 21), ("onnxruntime-1.25", 26)]
)
def test_where_a_release_has_the_operator(tmp_path, capsys, target, reached):
    source, out = (
        model("y = LpNormalization(x)", 17, inputs="float[2,4] x", outputs="float[2,4] y"),
        tmp_path / "out.onnx",
    )
    onnx.save(source, tmp_path / "in.onnx")
    assert ran(capsys, "convert", str(tmp_path / "in.onnx"), str(out), "--opset", target)[0] == 0
    assert (imports(out), onnx.load(out)) == ({"": reached}, opshift.convert_version(source, target))
    assert [node.op_type for node in onnx.load(out).graph.node] == ["LpNormalization"]


def test_what_a_release_has_no_kernel_of_is_refused(tmp_path, capsys):
    source = model("y = ImageDecoder(x)", 20, inputs="uint8[n] x", outputs="uint8[a,b,c] y")
    onnx.save(source, tmp_path / "in.onnx")
    code, said = ran(
        capsys, "convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--opset", "onnxruntime-1.23"
    )
    assert (code, "onnxruntime-1.23 does not support it" in said, "; try" in said) == (3, True, False), said
    with pytest.raises(opshift.Refused) as refused:
        opshift.convert_version(source, "onnxruntime-1.23")
    assert refused.value.nearest is None
    assert opshift.convert_version(source, 23).graph == source.graph


def test_what_is_used_of_another_domain_comes_down_with_a_target():
    body = "y = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], values_int64s = [3, 4], default_int64 = 0>(x)"
    source = model(body, 18, domains='"ai.onnx.ml" : 4', inputs="int64[2] x", outputs="int64[2] y")
    after = opshift.convert_version(source, "onnxruntime-1.15")
    assert {i.domain: i.version for i in after.opset_import} == {"": 18, "ai.onnx.ml": 3}


@pytest.mark.parametrize(("opset", "ir"), [(13, 7), (17, 8), (20, 9), (21, 10)])
def test_unused_imports_never_raise_the_ir_version(opset, ir):
    source = model("y = Add(x, x)", 17, domains=SAVED, inputs="float x", outputs="float y")
    made = convert.convert(source, {"": opset}).model
    assert made.ir_version == ir
    assert ("ai.onnx.ml" in {entry.domain for entry in made.opset_import}) == (ir >= 10)
    check(made)


def test_a_used_one_does():
    source = model("y = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0]>(x)", 13, domains='"ai.onnx.ml" : 5', inputs="float[2] x", outputs="float[2] y")  # fmt: skip
    made = convert.convert(source, {"": 12}).model
    assert made.ir_version == 10


def test_a_function_keeps_the_import_that_it_needs():
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1, "ai.onnx.ml" : 5]> g (float[2] x) => (float[2] y) { y = own.S(x) }
    <domain: "own", opset_import: ["" : 17, "ai.onnx.ml" : 3]> S (x) => (y) { y = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0]>(x) }"""
    made = convert.convert(onnx.parser.parse_model(text), {"": 16}).model
    assert {i.domain for i in made.functions[0].opset_import} == {"", "ai.onnx.ml"}


def test_inspection_says_what_each_would_become(saved, capsys):
    code, said = ran(capsys, "inspect", saved)
    assert code == 0
    assert (
        "  FastGelu: 1, --portable: Replaced FastGelu by Add of the bias and Gelu with the tanh approximation" in said
    )
    code, said = ran(capsys, "inspect", saved, "--format", "json")
    assert json.loads(said)["vendors"]["com.microsoft::FusedMatMul"]["becomes"].startswith(
        "Replaced FusedMatMul or TransposeMatMul by Transpose, MatMul"
    )
    code, said = ran(capsys, "inspect", saved, "--target", "tract-0.23")
    assert "reads this model as it is" not in said
    assert "`opshift inline --target tract-0.23` makes it a model" in said


def test_inspection_names_what_cannot_be_said(tmp_path, capsys):
    path = str(tmp_path / "in.onnx")
    onnx.save(model("y = com.microsoft.Zork(x)", 17, domains='"com.microsoft" : 1', inputs="float x", outputs="float y"), path)  # fmt: skip
    assert "  Zork: 1, stays: opshift has no definition" in ran(capsys, "inspect", path)[1]


def test_nothing_else_is_shown_of_models_without_them(tmp_path):
    source = model("y = Neg(x)", 17, inputs="float x", outputs="float y")
    assert show(opshift.inline(source, portable=True)) == show(source)


@pytest.mark.parametrize(("target", "op"), [("onnxruntime-1.29", "Conv"), ("onnxruntime-1.30", "FusedConv")])
def test_activations_that_a_release_does_not_fuse(target, op):
    body = 'y = com.microsoft.FusedConv<activation = "HardSwish">(x, w)'
    source = model(body, 17, domains='"com.microsoft" : 1', inputs="float[1,1,3,3] x, float[1,1,2,2] w", outputs="float[1,1,2,2] y")  # fmt: skip
    for made in (opshift.convert_version(source, target), opshift.inline(source, target=target)):
        assert made.graph.node[0].op_type == op


@pytest.mark.parametrize("target", [13, 20])
def test_what_reads_a_quantized_product_is_converted(target):
    """onnxruntime's quantizer writes QGemm into models of any opset; its type follows from its zero point."""
    body = """
        q = com.microsoft.QGemm(x, s, z, w, s, z, , s, z) r = Reshape(q, two) d = DequantizeLinear(r, s, z)
        y = Neg(d)
    """
    constants = "uint8 z = {3}, float s = {0.5}, uint8[3,2] w = {1,2,3,4,5,6}, int64[2] two = {2,1}"
    io = {"inputs": "uint8[1,3] x", "outputs": "float[?,?] y", "constants": constants}
    source = model(body, 23, domains='"com.microsoft" : 1', **io)
    made = opshift.convert_version(source, target)
    feeds = {"x": np.array([[1, 200, 7]], np.uint8)}
    (expected,), (found,) = OnnxRuntime(source).run(feeds), OnnxRuntime(made).run(feeds)
    np.testing.assert_array_equal(found, expected)
