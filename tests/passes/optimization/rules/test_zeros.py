"""Zeros that are added: 0.0 + -0.0 is 0.0, which some operators take for the same."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, model

SPECIAL = np.asarray([[0.0, -0.0, np.inf], [-np.inf, np.nan, 1e-45], [1.0, -1.0, 88.0]], np.float32)
FEEDS = {"x": SPECIAL}
IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


@pytest.mark.parametrize("op", ["Abs", "Cos", "Exp", "LogSoftmax", "Sigmoid", "Softmax", "Softplus"])
@pytest.mark.parametrize(
    ("zero", "constants"),
    [
        ("Add(x, c)", "float c = {0.0}"),
        ("Add(c, x)", "float[3] c = {0.0, 0.0, 0.0}"),
        ("Add(x, c)", "float[1,1] c = {-0.0}"),
        ("Sub(x, c)", "float c = {-0.0}"),
    ],
)
def test_what_takes_both_zeros_for_the_same_reads_the_value_before(op, zero, constants):
    check_optimized(f"t = {zero} y = {op}(t)", f"y = {op}(x)", constants=constants, feeds=FEEDS, **IO)


@pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons_do_so_on_both_sides(op):
    io = {"inputs": "float[N,3] x, float[N,3] z", "outputs": "bool[N,3] y", "constants": "float c = {0.0}"}
    feeds = {**FEEDS, "z": SPECIAL[:, ::-1].copy()}
    check_optimized(f"t = Add(x, c) u = Add(c, z) y = {op}(t, u)", f"y = {op}(x, z)", feeds=feeds, **io)
    check_optimized(f"t = Add(x, c) y = {op}(z, t)", f"y = {op}(z, x)", feeds=feeds, **io)


@pytest.mark.parametrize(
    "body",
    [
        "t = Add(x, c) y = Neg(t)",
        "t = Add(c, x) y = Neg(t)",
        "t = Add(x, c) e = Exp(t) n = Neg(t) y = Sub(e, n)",  # one of two tells them apart
        "y = Add(x, c)",
        "h = Relu(x) y = Add(h, c)",
    ],
)
def test_elsewhere_it_is_close(body):
    source = model(body, 18, constants="float c = {0.0}", **IO)
    result = optimize.attempt(source)
    assert result.grade == "close"
    assert [c.remark for c in result.changes if c.remark] == ["keeps -0.0, where the sum is 0.0"]
    check_values(source, optimized(source), FEEDS, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("zero", "constants"),
    [
        ("Add(x, c)", "float[3] c = {0.0, 0.0, 1.0}"),
        ("Add(x, c)", "float[2,1,1] c = {0.0, 0.0}"),  # another shape
        ("Sub(c, x)", "float c = {0.0}"),
        ("Add(x, k)", ""),
    ],
)
def test_other_sums_stay(zero, constants):
    io = {"inputs": "float[N,3] x, float[3] k", "outputs": f"float[{'A,B,C' if '2,1,1' in constants else 'A,B'}] y"}
    check_kept(f"t = {zero} y = Softmax(t)", constants=constants, **io)


BRANCH = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[N,3] x, bool c) => (float[N,3] y) <float z = {0.0}> {
  y = If (c) <
    then_branch = t () => (float[N,3] t_y) { p = Add(x, z) t_y = Softmax(p) },
    else_branch = f () => (float[N,3] f_y) { f_y = local.blunt(x) }
  >
}
<domain: "local", opset_import: ["" : 18]>
blunt (v) => (w) { z = Constant<value_float=0.0>() p = Add(v, z) w = Exp(p) }
"""


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch_and_in_a_function(condition):
    before = onnx.parser.parse_model(BRANCH)
    made = optimize.attempt(before).model
    (then,) = (a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["Softmax"]
    assert [node.op_type for node in made.functions[0].node] == ["Exp"]
    check_values(before, made, {**FEEDS, "c": np.asarray(condition)}, rtol=0, atol=0)
