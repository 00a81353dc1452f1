"""DynamicQuantizeLinear is found again, as it is expanded and as the text of ONNX writes it."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold

from tests.support import evaluate, model, show

DYNAMIC = ("", "DynamicQuantizeLinear")
TEXT = """low = ReduceMin<keepdims = 0>(x) least = Min(low, zero) high = ReduceMax<keepdims = 0>(x) most = Max(high, zero)
          span = Sub(most, least) scale = Div(span, q) far = Div(least, scale) minus = Sub(zero, far) cut = Clip(minus, zero, q)
          whole = Round(cut) point = Cast<to = 2>(whole) s = Identity(scale) z = Identity(point) y = QuantizeLinear(x, scale, point)"""
CONSTANTS = "float zero = {0}, float q = {255}"
OUTPUTS = "uint8[A,B] y, float s, uint8 z"
X = {"x": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)}


def check(source, found, expected=None):
    result = fold.attempt(source, ops=[DYNAMIC])
    ops = [node.op_type for node in result.model.graph.node if node.op_type != "Identity"]
    assert (ops == ["DynamicQuantizeLinear"]) == found == bool(result.changes), show(result.model)
    onnx.checker.check_model(result.model, full_check=True)
    for want, got in zip(evaluate(expected or source, X), evaluate(result.model, X), strict=True):
        np.testing.assert_array_equal(got, want)
    return result


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
@pytest.mark.parametrize("dims", ["2,3", "N,M"])
def test_what_is_expanded_comes_back(opset, dims):
    source = model("y, s, z = DynamicQuantizeLinear(x)", opset, inputs=f"float[{dims}] x", outputs=OUTPUTS)
    plain = convert.attempt(source, {"": opset}, ops=[DYNAMIC]).model
    assert "DynamicQuantizeLinear" not in show(plain)
    assert check(plain, True, source).grade == "close"


def test_its_results_may_be_read_anywhere():
    body = "y, p, z = DynamicQuantizeLinear(x) s = Exp(p) w, o, v = DynamicQuantizeLinear(s)"
    source = model(body, 13, inputs="float[2,3] x", outputs=OUTPUTS)
    plain = convert.attempt(source, {"": 13}, ops=[DYNAMIC]).model
    result = fold.attempt(plain, ops=[DYNAMIC]).model
    assert [node.op_type for node in result.graph.node] == ["DynamicQuantizeLinear", "Exp", "DynamicQuantizeLinear"]
    for want, got in zip(evaluate(source, X), evaluate(result, X), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", True),
        ("Min(low, zero)", "Min(zero, low)", True),
        ("s = Identity(scale)", "s = Mul(span, far)", False),  # what stands between is read, so that it stays beside
        ("float q = {255}", "float q = {254}", False),
        ("Min(low, zero)", "Min(low, q)", False),
        ("ReduceMax<keepdims = 0>(x)", "ReduceMax<axes = [0, 1], keepdims = 0>(x)", False),
        ("high = ReduceMax<keepdims = 0>(x)", "v = Abs(x) high = ReduceMax<keepdims = 0>(v)", False),
        ("cut = Clip(minus, zero, q)", "cut = Clip(minus, , q)", False),
        ("Round(cut)", "Ceil(cut)", False),
        ("QuantizeLinear(x, scale, point)", "QuantizeLinear(v, scale, point) v = Neg(x)", False),
    ],
)  # fmt: skip
def test_as_the_text_has_it_and_not_otherwise(old, new, found):
    body = TEXT.replace(old, new) if old else TEXT
    if "v = Neg" in body:
        body = body.replace(" v = Neg(x)", "").replace("y = Quant", "v = Neg(x) y = Quant")
    source = model(
        body, 13, inputs="float[2,3] x", outputs=OUTPUTS, constants=CONSTANTS.replace(old, new) if old else CONSTANTS
    )
    if old.startswith("s = "):
        result = fold.attempt(source, ops=[DYNAMIC])
        assert [change.op for change in result.changes] == ["DynamicQuantizeLinear"]
        for want, got in zip(evaluate(source, X), evaluate(result.model, X), strict=True):
            np.testing.assert_allclose(got, want)
    else:
        check(source, found)


def test_in_a_function_and_a_branch_and_only_by_name():
    body = f"k2 = Identity(k) y = If(k2) <then_branch = t () => (uint8[2,3] u) {{ {TEXT.replace('y = Q', 'u = Q')} }}, else_branch = e () => (uint8[2,3] v) {{ v = Cast<to = 2>(x) }}>"
    source = model(body, 13, inputs="float[2,3] x, bool k", outputs="uint8[2,3] y", constants=CONSTANTS)
    result = fold.attempt(source, ops=[DYNAMIC])
    then = next(a.g for a in result.model.graph.node[1].attribute if a.name == "then_branch")
    assert "DynamicQuantizeLinear" in [node.op_type for node in then.node]
    given = {**X, "k": np.array(True)}
    np.testing.assert_array_equal(evaluate(source, given)[0], evaluate(result.model, given)[0])
    assert not fold.attempt(source).changes
