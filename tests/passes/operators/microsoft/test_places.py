"""A vendor's operator wherever a node may stand, and calls that are none."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check_refused, inlined
from tests.support import evaluate, model, show

IO = {"inputs": "float[2,4] x", "outputs": "float[2,4] y", "domains": '"com.microsoft" : 1'}
X = {"x": np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)}


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("target", [11, 13, 18, 20, 21])
def test_from_every_opset_to_every_other(opset, target):
    source = model("y = com.microsoft.FastGelu(x)", opset, **IO)
    after = inlined(source, target)
    assert [(i.domain, i.version) for i in after.opset_import] == [("", target)]
    np.testing.assert_allclose(evaluate(after, X)[0], evaluate(source, X)[0], rtol=1e-6, atol=1e-6)


def test_in_a_branch_and_in_a_function():
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>
    g (bool c, float[2,4] x) => (float[2,4] y) {
        a = own.twice(x)
        y = If(c) <then_branch = t () => (float[2,4] u) { u = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(a, w) },
                   else_branch = e () => (float[2,4] v) { v = com.microsoft.Gelu(a) }>
        w = Identity(x)
    }
    <domain: "own", opset_import: ["" : 17, "com.microsoft" : 1]> twice (x) => (y) { b = com.microsoft.Gelu(x) y = com.microsoft.FastGelu(b) }"""
    text = text.replace("        w = Identity(x)\n", "").replace("y = If", "w = Constant<value = float[4,4] {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>() y = If")  # fmt: skip
    source = onnx.parser.parse_model(text)
    for target in (13, 21):
        result = convert.attempt(source, {"": target}, ops=[("com.microsoft", op) for op in ("Gelu", "FastGelu", "FusedMatMul")])  # fmt: skip
        assert result.model is not None, "\n".join(map(str, result.refusals))
        onnx.checker.check_model(result.model)
        assert "com.microsoft" not in show(result.model)
        for c in (True, False):
            np.testing.assert_allclose(
                evaluate(result.model, {**X, "c": np.array(c)})[0],
                evaluate(source, {**X, "c": np.array(c)})[0],
                rtol=1e-6,
                atol=1e-6,
            )


def test_what_is_not_asked_for_stays():
    source = model("y = com.microsoft.FastGelu(x)", 17, **IO)
    result = convert.attempt(source, {"": 13})
    assert result.model.graph.node[0] == source.graph.node[0]


def test_what_follows_knows_its_type():
    """Nothing is declared of what the operators make, and Gelu below opset 20 hangs on it."""
    body = "a = com.microsoft.FusedMatMul<alpha = 2.0>(x, x) b = com.microsoft.FusedMatMul<transA = 1>(a, a) y = com.microsoft.FastGelu(b)"
    io = {**IO, "inputs": "float[4,4] x", "outputs": "float[4,4] y"}
    after = inlined(model(body, 17, **io), 13)
    assert "Tanh" in show(after)


@pytest.mark.parametrize(
    ("op", "attributes", "why"),
    [
        ("Gelu", {"approximate": "tanh"}, "attribute approximate does not exist"),
        ("FusedMatMul", {"alpha": 1}, "attribute alpha has the wrong type"),
    ],
)
def test_calls_that_onnxruntime_does_not_take(op, attributes, why):
    x = np.ones((2, 2), FLOAT)
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[2,2] x) => (float[2,2] y) { y = com.microsoft.'
        + f"{op}({'x, x' if op == 'FusedMatMul' else 'x'}) }}"
    )
    for name, value in attributes.items():
        source.graph.node[0].attribute.append(onnx.helper.make_attribute(name, value))
    result = convert.attempt(source, {"": 17}, ops=[("com.microsoft", op)])
    assert f"onnxruntime rejects this call, so its definition cannot replace it: {why}" in str(result.refusals[0])
    check_refused([Call(op, (x, x, x, x), (True,))], "inputs")


def test_an_operator_that_a_newer_release_brought_is_refused():
    source = model("y = com.microsoft.Zork(x)", 17, **IO)
    result = convert.attempt(source, {"": 17}, ops=[("com.microsoft", "Zork")])
    assert "opshift has no definition of this operator" in str(result.refusals[0])


def test_a_function_of_the_model_goes_before():
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.Gelu(x) }
    <domain: "com.microsoft", opset_import: ["" : 17]> Gelu (x) => (y) { y = Neg(x) }"""
    after = inlined(onnx.parser.parse_model(text), 13)
    assert show(after) == "y = Neg(x)"


def test_many_calls_of_a_kind():
    made = calls("FastGelu", {"X": (2, 4), "bias": (4,)}, types=[FLOAT]) * 3
    assert len(made) == 6
