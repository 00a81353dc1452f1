"""What constants compute to is what onnxruntime computes of them; what is not surely that is not constant."""

import numpy as np
import pytest
from onnx import TensorProto
from opshift.passes.analysis import evaluate as evaluator
from opshift.passes.analysis.scope import of_model

from tests.support import evaluate, model

A, B = "int64[4] a = {7, -7, 7, 2}", "int64[4] b = {2, 2, -3, 5}"
M, S = "int64[2,3] m = {1, 2, 3, 4, 5, 6}", 'string[2] s = {"x", "y"}'
AXES, PLACES, LONE = "int64[1] axes = {1}", "int64[2] places = {-1, 0}", "int64 three = {3}"
FLOAT, TWO = "float[3] f = {0.1, -1.5, 3.25}", "int64[2] two = {2, 2}"
MORE = "int64[1] end = {-1}, int64 one = {1}, int64 seven = {7}"
CONSTANTS = ", ".join((A, B, M, S, AXES, PLACES, LONE, FLOAT, TWO, MORE))
COMPUTED = {
    "int64": [
        "Abs(a)", "Add(a, b)", "Concat<axis=0>(a, b)", "Div(a, b)", "Expand(axes, two)", "Gather(a, places)",
        "Mod(a, b)", "Mul(a, b)", "Neg(a)", "Range(one, seven, three)", "ReduceProd(a)", "ReduceSum(m, axes)",
        "ReduceProd<keepdims=0>(a)", "ReduceSum<keepdims=0>(m, axes)",
        "Reshape(a, two)", "Shape(m)", "Size(m)", "Slice(a, axes, end)", "Squeeze(axes)", "Sub(a, three)", "Unique(a)",
        "Unique<sorted=0>(a)", "Unique<axis=0>(m)", "Unsqueeze(a, axes)", "Where(c, a, b)", "Cast<to=7>(c)",
    ],
    "bool": ["Equal(a, b)", "Less(f, f)", "Not(c)"],
    "string": ["Concat<axis=0>(s, s)", "Gather(s, places)"],
    "float": ["ConstantOfShape(axes)", "Cast<to=1>(a)"],
    "double": ["Cast<to=11>(f)"],
    "float16": ["Cast<to=10>(a)"],
}  # fmt: skip
CALLS = [(kind, call) for kind, calls in COMPUTED.items() for call in calls]


@pytest.mark.parametrize(("kind", "call"), CALLS)
def test_computed_as_onnxruntime_does(kind: str, call: str) -> None:
    source = model(f"c = Less(a, b) y = {call}", 13, inputs="float[2,3] x", outputs=f"{kind}[] y", constants=CONSTANTS)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    (expected,) = evaluate(source, {"x": np.zeros((2, 3), np.float32)})
    found = of_model(source, 13).array("y")
    assert found is not None
    if kind != "string":
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "call", ["Add(f, f)", "Div(a, zero)", "Cast<to=7>(f)", "Range(three, huge, one)", "Exp(f)", "Expand(one, wide)"]
)
def test_what_engines_may_compute_otherwise_is_not_constant(call: str) -> None:
    more = "int64 zero = {0}, int64 huge = {1000000000000}, int64[2] wide = {10000, 10}"
    source = model(f"y = {call}", 13, inputs="float[2,3] x", outputs="y", constants=f"{CONSTANTS}, {more}")
    assert of_model(source, 13).array("y") is None


def test_integers_become_bfloat16_where_float32_holds_them() -> None:
    source = model(
        "y = Cast<to=16>(a) z = Cast<to=16>(large)",
        13,
        inputs="float[2,3] x",
        outputs="y",
        constants=f"{A}, int64 large = {{16777217}}",
    )
    scope = of_model(source, 13)
    found = scope.tensor("y")
    assert found is not None
    assert found.data_type == TensorProto.BFLOAT16
    assert scope.tensor("z") is None


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("a = Add(x, x) b = Cast<to = 7>(a) c = Identity(b)", ""),
        ("a = Exp(x) b = Add(a, x) c = Neg(b) d = Neg(x)", "abc"),
        ("a = Exp(x) b = Shape(a) c = Size(a) d = Add(b, c)", "a"),
        ("a = own.Add(x, x) b = Neg(a)", "ab"),
        ("a = Exp(x) b = Identity(a)", "ab"),
    ],
)
def test_what_is_made_of_what_cannot_be_evaluated(body: str, found: str) -> None:
    nodes = model(body, 13, inputs="float[2] x", outputs="a", domains='"own" : 1').graph.node
    assert evaluator.opaque(nodes) == set(found)
