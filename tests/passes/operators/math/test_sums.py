"""Sum and Mean: operands of different shapes, and additions in turn."""

import numpy as np
import onnx
import onnx.parser
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.on_request import INF, NAN, X, computed, same_bits
from tests.support import check, check_refused

MANY = {"inputs": "float[2,3] a, float[3] b, float c", "outputs": "float[2,3] y"}


def test_sums_of_different_shapes_are_added_in_turn_below_8():
    check("y = Sum(a, b, c)", 8, "t1 = Add(a, b)\ny = Add(t1, c)", 7, grade="close", **MANY)
    check("y = Sum(a, b)", 8, "y = Add(a, b)", 7, **MANY)
    check("y = Mean(a, b)", 8, "t1 = Add(a, b)\ny = Div(t1, const)", 7, grade="close", **MANY)
    after = "t1 = Add(a, b)\nt2 = Add(t1, c)\ny = Div(t2, const)"
    check("y = Mean(a, b, c)", 8, after, 7, grade="close", rtol=1e-6, **MANY)


def test_sums_and_means():
    a, b, c = np.float32([[1, 2, 3]]), np.float32([[4], [-5]]), np.float32([[INF, NAN, 0.25]])
    same_bits(computed("Sum(x, y)", a, b), a + b)
    same_bits(computed("Sum(x)", X), X)
    same_bits(computed("Sum(x, y, z)", a, b, c, grade="close"), a + b + c)
    same_bits(computed("Mean(x, y)", a, b, grade="close"), (a + b) / 2)


@pytest.mark.parametrize("operands", ['a, "", b', 'a, b, ""'])
@pytest.mark.parametrize("op", ["Sum", "Max", "Mean"])
def test_an_operand_that_is_left_out_is_refused(op, operands):
    """onnx.checker takes it, no text says what it means, and onnxruntime dies of it."""
    io = {"inputs": "float[2] a, float[2] b", "outputs": "float[2] y"}
    check_refused(f"y = {op}({operands})", 8, 7, "is missing", **io)


@pytest.mark.parametrize("op", ["Sum", "Min", "Mean"])
def test_an_operand_that_a_caller_of_a_function_leaves_out_at_the_end_is_none(op):
    source = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18, "f" : 1]>
        g (float[2] x, float[2] z) => (float[2] y, float[2] w) {{ y = f.F(x, z) w = f.F(x) }}
        <opset_import: ["" : 18], domain: "f"> F (x, z) => (y) {{ y = {op}(x, z) }}""")
    made = opshift.inline(source, [op])
    onnx.checker.check_model(made, full_check=True)
    x, z = np.array([1, -2], np.float32), np.array([3, -5], np.float32)
    both = {"Sum": x + z, "Min": np.minimum(x, z), "Mean": (x + z) / 2}[op]
    np.testing.assert_array_equal(OnnxRuntime(made).run({"x": x, "z": z}), [both, x])
