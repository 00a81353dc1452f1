"""An If that becomes a Where yields what it did, for both conditions."""

import numpy as np
import onnx
import pytest
from opshift.passes.specialization.door import select

from opshift.verification.engines import OnnxRuntime
from tests.support import model

CHEAP = """
  y = If(c) <then_branch = a () => (float[2,3] t) { s = Softmax(x) t = Mul(s, x) },
             else_branch = b () => (float[2,3] e) <int64[2] shape = {2, 3}> { u = Reshape(x, shape) e = Neg(u) }>
"""
OUTSIDE = """
  y = If(c) <then_branch = a () => (float[2,3] x2) { x2 = Identity(x) },
             else_branch = b () => (float[2,3] e) { r = Pad<mode = "reflect">(x, pads) e = Slice(r, zero, sizes) }>
"""
NESTED = """
  n = Not(c)
  y, z = If(c) <then_branch = a () => (float[2,3] t, float[2,3] t2) {
                  t = If(n) <then_branch = a2 () => (float[2,3] p) { p = Exp(x) },
                             else_branch = b2 () => (float[2,3] q) { q = Abs(x) }>(n) t2 = Neg(t) },
                else_branch = b () => (float[2,3] e, float[2,3] e2) { e = Neg(x) e2 = Abs(e) }>
""".replace("If(n) <", "If <").replace("}>(n) t2", "}> (n) t2")
CONSTANTS = "int64[4] pads = {0, 1, 0, 0}, int64[2] zero = {0, 0}, int64[2] sizes = {2, 3}, int64[2] ones = {1, 3}"
X = np.array([[1, -2, np.nan], [np.inf, 0, 7]], np.float32)


@pytest.mark.parametrize("condition", ["bool c", "bool[1] c"])
@pytest.mark.parametrize(
    ("body", "outputs"),
    [(CHEAP, "float[2,3] y"), (OUTSIDE, "float[2,3] y"), (NESTED, "float[2,3] y, float[2,3] z")],
)
def test_both_conditions_yield_what_they_did(body, outputs, condition):
    source = model(body, 18, inputs=f"float[2,3] x, {condition}", outputs=outputs, constants=CONSTANTS)
    made = select(source, 64).model
    onnx.checker.check_model(made, full_check=True)
    assert "If" not in {node.op_type for node in made.graph.node}
    for chosen in (True, False):
        feeds = {"x": X, "c": np.array([chosen] if "[" in condition else chosen)}
        for one, other in zip(OnnxRuntime(source).run(feeds), OnnxRuntime(made).run(feeds), strict=True):
            np.testing.assert_array_equal(one, other)


def branches(then, other="e = Neg(x)", declared="float"):
    return f"y = If(c) <then_branch = a () => ({declared}[] t) {{ {then} }}, else_branch = b () => ({declared}[] e) {{ {other} }}>"


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        (branches("s = Softmax(x) t = Mul(s, x)"), "float[2,N] x", "Softmax reads dynamic sizes"),
        (branches("t = Gather(x, j)"), "float[2,3] x, int64[2] j", "Gather may fail"),
        (branches("t = Div(x, k)", declared="int64"), "int64[2,3] x, int64 k", "Div of integers may divide by zero"),
        (branches("t = ReduceSum<keepdims = 0>(x)"), "float[2,3] x", "its branches yield float scalar and float 2x3"),
        (branches("t = Add(x, w)"), "float[N,3] x, float[M,3] w", 'the sizes of "t" are unknown'),
        (branches("t = RandomNormalLike(x)"), "float[2,3] x", "RandomNormalLike may fail"),
        (branches('r = Pad<mode = "reflect">(x, pads) t = Slice(r, zero, ones)'), "float[1,3] x", "Pad may be larger"),
        (branches("t = my.Any(x)"), "float[2,3] x", 'the sizes of "t" are unknown'),
        (
            branches(" ".join(f"t{k} = Neg(x)" for k in range(64)) + " t = Neg(t3)"),
            "float[2,3] x",
            "its branches have 66",
        ),
    ],
)
def test_what_stays_is_named_with_the_reason(body, inputs, why):
    constants = CONSTANTS if "1,3" not in inputs else CONSTANTS.replace("{0, 1, 0, 0}", "{1, 0, 0, 0}")
    source = model(body, 18, inputs=f"{inputs}, bool c", outputs="float[] y", constants=constants, domains='"my" : 1')
    done = select(source, 64)
    assert done.model is source
    (refusal,) = done.stays
    assert refusal.why.startswith(why), refusal.why
