"""The first versions of the quantization operators in the operators before them."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_values, evaluate, model, show

TIES = [0.25, 0.75, 1.25, 1.75, -0.25, -0.75, -1.25, -0.0, 0.24999999, -0.25000003, 1e30, np.inf, -np.inf]


@pytest.mark.parametrize(("kind", "zero"), [("int8", -3), ("uint8", 200)])
def test_quantized_by_arithmetic(kind, zero):
    source = model(
        "y = QuantizeLinear(x, s, z)", 10, inputs="float[N] x", outputs=f"{kind}[N] y",
        constants=f"float s = {{0.5}}, {kind} z = {{{zero}}}",
    )  # fmt: skip
    result = convert.attempt(source, {"": 9})
    assert result.grade == "exact"
    assert "QuantizeLinear" not in show(result.model)
    random = np.random.default_rng(0).standard_normal(1000) * 100
    for x in (TIES, random, np.arange(-600, 600) / 4, []):
        check_values(source, result.model, {"x": np.array(x, np.float32)}, rtol=0, atol=0)


def test_without_a_zero_point_it_is_uint8():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="float[N] x, float s", outputs="uint8[N] y")
    result = convert.attempt(source, {"": 9})
    feeds = {"x": np.array(TIES, np.float32), "s": np.array(0.25, np.float32)}
    check_values(source, result.model, feeds, rtol=0, atol=0)


def test_integers_are_divided_as_floats():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="int32[4] x, float s", outputs="uint8[4] y")
    assert convert.attempt(source, {"": 9}).grade == "close"


@pytest.mark.parametrize(("kind", "values"), [("int8", [-128, 127, 0]), ("uint8", [0, 255, 3])])
def test_dequantized_by_arithmetic(kind, values):
    check(
        "y = DequantizeLinear(x, s, z)", 10,
        f"t1 = Cast<to=6>(x)\nt2 = Cast<to=6>({kind}:3)\nt3 = Sub(t1, t2)\nt4 = Cast<to=1>(t3)\ny = Mul(t4, 0.1)",
        9,
        inputs=f"{kind}[3] x", outputs="float[3] y", constants=f"float s = {{0.1}}, {kind} z = {{3}}",
        feeds={"x": np.array(values, kind)},
    )  # fmt: skip


def test_dequantized_without_a_zero_point():
    check(
        "y = DequantizeLinear(x, s)", 10, "t1 = Reshape([0.1], [])\nt2 = Cast<to=1>(x)\ny = Mul(t2, t1)", 9,
        inputs="int32[3] x", outputs="float[3] y", constants="float[1] s = {0.1}",
        feeds={"x": np.array([2**31 - 1, -5, 7], np.int32)},
    )  # fmt: skip


DYNAMIC = {"inputs": "float[A,B] x", "outputs": "uint8[A,B] y, float s, uint8 z"}


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e6])
@pytest.mark.parametrize("shift", [-3, 0, 3])
def test_the_range_gives_scale_and_zero_point(scale, shift):
    source = model("y, s, z = DynamicQuantizeLinear(x)", 11, **DYNAMIC)
    result = convert.attempt(source, {"": 10})
    assert result.grade == "exact"
    for seed in range(20):
        x = (np.random.default_rng(seed).standard_normal((3, 5)) + shift) * scale
        check_values(source, result.model, {"x": x.astype(np.float32)}, rtol=0, atol=0)


def test_the_zero_point_is_quantized_like_the_data():
    source = model("y, s, z = DynamicQuantizeLinear(x)", 13, **DYNAMIC)
    after = convert.attempt(source, {"": 13}, ops=[("", "DynamicQuantizeLinear")]).model
    assert [node.op_type for node in after.graph.node] == [
        "ReduceMin", "Min", "ReduceMax", "Max", "Sub", "Div", "Greater", "Not", "Cast", "Add",
        "Sub", "QuantizeLinear", "QuantizeLinear",
    ]  # fmt: skip
    for x in (
        [[-1.0, 2.0], [0.5, -0.0]],
        [[3.0, 4.0], [5.0, 1e-30]],
        [[-3.0, -4.0], [-5.0, -1e-30]],
    ):
        check_values(source, after, {"x": np.array(x, np.float32)}, rtol=0, atol=0)


def test_a_range_of_nothing_gives_zeros():
    result = convert.attempt(model("y, s, z = DynamicQuantizeLinear(x)", 11, **DYNAMIC), {"": 10})
    y, s, z = evaluate(result.model, {"x": np.zeros((2, 2), np.float32)})
    assert y.tolist() == [[0, 0], [0, 0]]
    assert (s, z) == (0, 0)


def test_a_type_that_is_unknown_is_refused():
    source = model("y = QuantizeLinear(x, s)", 10, inputs="float[4] x, float s", outputs="uint8[4] y")
    source.graph.node[0].input[0] = "u"
    source.graph.node.add(op_type="Odd", domain="d", input=["x"], output=["u"])
    source.graph.node.reverse()
    source.opset_import.add(domain="d", version=1)
    (refusal,) = convert.attempt(source, {"": 9}).refusals
    assert refusal.why == 'the type of "u" is unknown; a typed value_info helps'


def test_inside_a_branch():
    source = model(
        """y = If(c) <
            then_branch = g1 () => (float[3] a) { a = DequantizeLinear(x, s) },
            else_branch = g2 () => (float[3] b) { b = Cast<to=1>(x) }
        >""", 10, inputs="bool c, int8[3] x, float s", outputs="float[3] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 9})
    feeds = {"c": np.array(True), "s": np.array(0.25, np.float32)}
    check_values(source, result.model, feeds, rtol=0, atol=0)
