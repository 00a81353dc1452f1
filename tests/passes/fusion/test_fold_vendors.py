"""Operators of onnxruntime come back where they are asked for by name, and never else."""

import numpy as np
import onnx
import pytest
from opshift.passes.fusion import fold
from opshift.passes.model.schemas import MICROSOFT

from opshift.cli import main as cli
from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.microsoft.harness import FLOAT, calls, feeds, inlined
from tests.passes.operators.microsoft.harness import model as of_calls
from tests.support import model

pytestmark = pytest.mark.newest
WIDE = {"input": (2, 3, 4), "skip": (2, 3, 4), "gamma": (4,), "bias": (4,)}
FORMS = [
    ("Gelu", {"X": (2, 3, 4)}, {}),
    ("FastGelu", {"X": (2, 3, 4), "bias": (4,)}, {}),
    ("BiasGelu", {"A": (2, 3, 4), "B": (4,)}, {}),
    ("QuickGelu", {"X": (2, 3)}, {"alpha": [None, 1.0, 0.3]}),
    ("FusedMatMul", {"A": (2, 3, 4), "B": (2, 4, 5)}, {"alpha": [0.125]}),
    ("FusedMatMul", {"A": (4, 3), "B": (5, 4)}, {"transA": [1], "transB": [1], "alpha": [None, -0.5]}),
    ("FusedMatMul", {"A": (1, 4, 3), "B": (2, 4, 5)}, {"transA": [1], "alpha": [None, 2.0]}),
    ("SkipLayerNormalization", {**WIDE, "beta": (4,)}, {"epsilon": [1e-5, 1e-3]}),
    ("SkipSimplifiedLayerNormalization", WIDE, {"epsilon": [None, 1e-5]}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), FORMS)
@pytest.mark.parametrize("opset", [13, 17, 23])
def test_what_is_asked_for_comes_back(op, inputs, attributes, opset):
    for call in calls(op, inputs, attributes, types=[FLOAT]):
        source = of_calls([call], opset=opset)
        (want,) = OnnxRuntime(source).run(feeds([call]))
        source.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(1, want.shape))
        expanded = inlined(source, opset)
        assert not vendors(fold.attempt(expanded).model), call
        result = fold.attempt(expanded, ops=[(MICROSOFT, op)]).model
        assert [(node.domain, node.op_type) for node in result.graph.node] == [(MICROSOFT, op)], call
        (got,) = OnnxRuntime(result).run(feeds([call]))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def vendors(of):
    return [node.op_type for node in of.graph.node if node.domain == MICROSOFT]


@pytest.mark.parametrize(
    ("op", "inputs", "nodes"),
    [
        ("BiasGelu", "float[2,3,4] x, float[2,3,4] b", "t = Add(x, b) y = Gelu(t)"),
        ("BiasGelu", "float[2,3,1] x, float[4] b", "t = Add(x, b) y = Gelu(t)"),
        ("BiasGelu", "float[2,3,4] x, float[1] b", "t = Add(x, b) y = Gelu(t)"),
        ("Gelu", "float[2,3,4] x", 'y = Gelu<approximate="tanh">(x)'),
        ("FastGelu", "float[2,3,4] x", "y = Gelu(x)"),
        ("FusedMatMul", "float[2,3,4] x, float[4,5] b", "t = MatMul(x, b) y = Mul(t, two)"),
        ("FusedMatMul", "float[2,3,4] x, float[2,4,5] b", "y = MatMul(x, b)"),
        ("SkipLayerNormalization", "float[2,3,4] x, float[3,4] b", "t = Add(x, b) y = LayerNormalization(t, s, s)"),
        ("SkipLayerNormalization", "float[2,3,4] x, float[2,3,4] b", "t = Add(x, b) y = LayerNormalization<axis=1>(t, q, q)"),
        ("SkipLayerNormalization", "float[2,1,3,4] x, float[2,1,3,4] b", "t = Add(x, b) y = LayerNormalization(t, s, s)"),
    ],
)  # fmt: skip
def test_what_is_nearly_one_stays(op, inputs, nodes):
    held = "float two = {2}, float[4] s = {1, 2, 3, 4}, float[3,4] q = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}"
    source = model(nodes, 20, inputs=inputs, outputs="float y", constants=held)
    assert not vendors(fold.attempt(source, ops=[(MICROSOFT, op)]).model)


def test_a_sum_that_others_read_stays():
    source = model("t = Add(x, b) y = LayerNormalization(t, s, s) z = Relu(t)", 17, inputs="float[2,3,4] x, float[2,3,4] b", outputs="float[2,3,4] y, float[2,3,4] z", constants="float[4] s = {1, 2, 3, 4}")  # fmt: skip
    assert not vendors(fold.attempt(source, ops=[(MICROSOFT, "SkipLayerNormalization")]).model)


def test_the_command(tmp_path, capsys):
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model("t = Add(x, b) y = Gelu(t)", 20, inputs="float[2,4] x, float[4] b", outputs="float[2,4] y"), path)
    assert cli.main(["fold", str(path), str(out), "--op", "com.microsoft::BiasGelu"]) == 0
    assert vendors(onnx.load(out)) == ["BiasGelu"]
    assert {held.domain: held.version for held in onnx.load(out).opset_import}[MICROSOFT] == 1
    assert cli.main(["fold", str(path), str(out), "--op", "com.microsoft::MoE"]) == 2
    assert "opshift cannot recognise its definition" in capsys.readouterr().err
