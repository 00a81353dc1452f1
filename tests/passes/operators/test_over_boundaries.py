"""Steps of the math and logical families inside branches and functions, and over many boundaries at once."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.elements import CODE, array
from tests.support import check_values, evaluate, model, show

CALLS = {
    "Max": ("b = Max(a, a)", "int32", "int32"),
    "Clip": ("l = Constant<value = int64 {2}>() b = Clip(a, l)", "int64", "int64"),
    "Equal": ("b = Equal(a, a)", "float", "bool"),
    "Softmax": ("b = Softmax<axis = 0>(a)", "float", "float"),
    "Pow": ("e = Constant<value = int64 {2}>() b = Pow(a, e)", "float", "float"),
    "TopK": ("k = Constant<value = int64[1] {3}>() b, i = TopK<largest = 0>(a, k)", "float", "float"),
    "Relu": ("b = Relu(a)", "int32", "int32"),
}


def function(body, kind, result, opset):
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}, "local": 1]> g ({kind}[3,3] x) => ({result}[3,3] y) {{ y = local.f(x) }} '
        f'<domain: "local", opset_import: ["": {opset}]> f (a) => (b) {{ {body} }}'
    )


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("target", [10, 12, 13, 26])
def test_inside_a_function(op, target):
    """Whether or not the function can keep its place, the values stay."""
    body, kind, result = CALLS[op]
    source = function(body, kind, result, 16)
    made = convert.attempt(source, {"": target})
    assert not made.refusals, "\n".join(map(str, made.refusals))
    x = array(kind, [[3, -1, 2], [0, 5, 5], [-7, 4, 1]])
    check_values(source, made.model, {"x": x}, rtol=1e-6, atol=0)


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("target", [10, 12, 26])
def test_inside_a_branch_with_values_from_outside(op, target):
    body, kind, result = CALLS[op]
    outer, _, inner = body.rpartition(") ") if op in ("Clip", "Pow", "TopK") else ("", "", body)
    outer = f"{outer})" if outer else ""
    branch = f"y = If(c) <then_branch = t () => ({result}[3,3] b) {{ {inner} }}, else_branch = e () => ({result}[3,3] d) {{ d = Cast<to = {CODE[result]}>(a) }}>"
    source = model(f"{outer} {branch}", 16, inputs=f"{kind}[3,3] a, bool c", outputs=f"{result}[3,3] y")
    made = convert.attempt(source, {"": target})
    assert not made.refusals, "\n".join(map(str, made.refusals))
    x = array(kind, [[3, -1, 2], [0, 5, 5], [-7, 4, 1]])
    for c in (True, False):
        check_values(source, made.model, {"a": x, "c": np.array(c)}, rtol=1e-6, atol=0)


LONG = {
    "equal": ("y = Equal(a, b)", 28, "float", "bool"),
    "order": ("y = Less(a, b)", 28, "int64", "bool"),
    "smallest": ("y = Min(a, b)", 28, "int16", "int16"),
    "wrapped": ("y = Mul(a, b)", 28, "int8", "int8"),
    "remainder": ("s = Mod(a, b) y = Abs(s)", 28, "float", "float"),
    "chain": ("s = Sum(a, b) t = Relu(s) u = Softmax<axis=0>(t) y = Max(u, b)", 28, "float", "float"),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("target", [26, 18, 13, 12, 11, 10, 9, 8, 7])
def test_over_many_boundaries(name, target):
    body, opset, kind, result = LONG[name]
    if name == "remainder" and target < 10:
        target = 10  # Mod begins there
    source = model(body, opset, inputs=f"{kind}[3,2] a, {kind}[2] b", outputs=f"{result}[3,2] y")
    made = convert.attempt(source, {"": target})
    assert not made.refusals, "\n".join(map(str, made.refusals))
    feeds = {"a": array(kind, [[3, -4], [1, 5], [7, -7]]), "b": array(kind, [3, -4])}
    np.testing.assert_allclose(evaluate(made.model, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)


def test_from_1_to_28_and_back():
    io = {"inputs": "float[2,3] a, float[2] b", "outputs": "float[2,3] y"}
    body = "s = Mul<axis=0, broadcast=1, consumed_inputs=[0, 0]>(a, b)\nt = Relu<consumed_inputs=[0]>(s)\ny = Clip<min=0.5>(t)"
    up = convert.attempt(model(body, 1, **io), {"": 26}).model
    assert show(up) == "t1 = Unsqueeze(b, [1])\nt2 = Mul(a, t1)\nt3 = Relu(t2)\ny = Clip(t3, 0.5)"
    feeds = {"a": np.array([[1, -2, 3], [4, 5, -6]], np.float32), "b": np.array([2, -1], np.float32)}
    np.testing.assert_array_equal(evaluate(up, feeds)[0], [[2, 0.5, 6], [0.5, 0.5, 6]])


def test_types_of_made_values_are_known_below_6():
    io = {"inputs": "float[3,4] x, float l, float h", "outputs": "float[3,4] y"}
    made = convert.attempt(model("y = Clip(x, l, h)", 12, **io), {"": 5})
    assert not made.refusals, "\n".join(map(str, made.refusals))
    assert {n.op_type for n in made.model.graph.node} == {"Pow", "Mul", "Max", "Min"}
    integers = {"inputs": "int64[3] a, int64[3] b", "outputs": "bool[3] y"}
    refused = convert.attempt(model("y = Less(a, b)", 9, **integers), {"": 5}).refusals
    assert {r.op for r in refused} == {"Less"}
    assert {r.why.split(" ")[3].rstrip(":") for r in refused} == {
        "Div",
        "Sub",
        "Mul",
    }  # of int64, which nothing else could compute there
