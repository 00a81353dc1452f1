"""What a function computes is told by the types that all of its calls give it."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.fusion import fold

from tests.support import evaluate, show

CEIL = "a = Neg(x) b = Floor(a) y = Neg(b)"
LAST = "a = Neg(x) b = ReduceMax<axes=[1]>(a) y = Neg(b)"


def held(inputs, body, *functions, outputs="float[A,B,C] z"):
    made = "".join(
        f'<domain: "f", opset_import: ["": 17, "f": 1]> {name} (x) => (y) {{ {inside} }}' for name, inside in functions
    )
    text = f'<ir_version: 8, opset_import: ["": 17, "f": 1]> g ({inputs}) => ({outputs}) {{ {body} }} {made}'
    return onnx.parser.parse_model(text)


def folded(source, op):
    result = fold.attempt(source, ops=[("", op)]).model
    return {function.name: [node.op_type for node in function.node] for function in result.functions}, result


@pytest.mark.parametrize(
    ("inputs", "body", "outputs", "becomes"),
    [
        ("float[2,3,4] x", "z = f.own(x)", "float[A,B,C] z", ["Ceil"]),
        ("x", "z = f.own(x)", "z", None),
        ("float[2,3,4] x, float[3] v", "z = f.own(x) w = f.own(v)", "float[A,B,C] z, float[N] w", ["Ceil"]),
        ("float[2,3,4] x, double[3] v", "z = f.own(x) w = f.own(v)", "float[A,B,C] z, double[N] w", None),
        (
            "float[2,3,4] x, bool c",
            "z = If(c) <then_branch = t () => (p) { p = f.own(x) }, else_branch = e () => (q) { q = Relu(x) }>",
            "float[A,B,C] z",
            ["Ceil"],
        ),
    ],
)
def test_element_types_come_from_calls(inputs, body, outputs, becomes):
    source = held(inputs, body, ("own", CEIL), outputs=outputs)
    made, result = folded(source, "Ceil")
    assert made == {"own": becomes or ["Neg", "Floor", "Neg"]}, show(result)


def test_a_function_tells_those_that_it_calls():
    made, _ = folded(held("float[2,3,4] x", "z = f.outer(x)", ("own", CEIL), ("outer", "y = f.own(x)")), "Ceil")
    assert made == {"own": ["Ceil"], "outer": ["own"]}


def test_what_nobody_calls_tells_nothing():
    """Neither of itself, nor with others of what both call."""
    functions = (("own", CEIL), ("idle", "y = f.own(x)"))
    made, _ = folded(held("float[2,3,4] x", "z = f.own(x)", *functions), "Ceil")
    assert made == {"own": ["Neg", "Floor", "Neg"], "idle": ["own"]}


@pytest.mark.parametrize("other", ["2,3,4", "5,3,4"])
def test_sizes_that_differ_between_calls_are_open(other):
    source = held(
        f"float[2,3,4] x, float[{other}] v",
        "z = f.own(x) w = f.own(v)",
        ("own", LAST),
        outputs="float[A,B,C] z, float[D,E,F] w",
    )
    made, result = folded(source, "ReduceMin")
    assert made["own"] == ["ReduceMin"], show(result)
    draw = np.random.default_rng(0)
    given = {
        name: draw.normal(size=tuple(map(int, shape.split(",")))).astype(np.float32)
        for name, shape in (("x", "2,3,4"), ("v", other))
    }
    for want, got in zip(evaluate(source, given), evaluate(result, given), strict=True):
        np.testing.assert_array_equal(got, want)
