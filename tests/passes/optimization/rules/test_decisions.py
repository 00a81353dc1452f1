"""An If by a rank takes the branch that what follows can read; for all inputs that the model runs with, nothing changes."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from opshift.verification.engines import EngineError, OnnxRuntime
from tests.passes.simplification.rules.support import optimized
from tests.support import model

SHRUNK = """
    s = Shape<start=2, end=3>(x) c = Equal(s, one)
    a = If(c) <then_branch = t () => (p) { p = Squeeze(x, two) }, else_branch = e () => (q) { q = Identity(x) }>
"""
GROWN = """
    n = Shape(a) r = Size(n) m = Equal(r, rank) d = Not(m)
    b = If(d) <then_branch = t () => (v) { v = Unsqueeze(a, one) }, else_branch = e () => (w) { w = Identity(a) }>
    k = If(d) <then_branch = t () => (i) { i = Unsqueeze(z, one) }, else_branch = e () => (j) { j = Identity(z) }>
"""
HELD = "int64[1] one = {1}, int64[1] two = {2}, int64[1] nought = {0}, int64 rank = {2}"
LAYER = "u = Unsqueeze(b, nought) y = LSTM<hidden_size=2>(u, w4, r4)"
IO = {"inputs": "float[N,3,T] x, float[4] z", "outputs": "float[?,?,?,?] y, float[?] k"}


def made_of(body, outputs=IO["outputs"], constants=HELD, inputs=IO["inputs"]):
    source = model(body, 17, inputs=inputs, outputs=outputs, constants=constants)
    random = np.random.default_rng(0)
    for name, sizes in {"w4": (1, 8, 3), "r4": (1, 8, 2), "kernel": (2, 3, 1)}.items():
        if name in body:
            held = random.standard_normal(sizes).astype(np.float32)
            source.graph.initializer.append(onnx.numpy_helper.from_array(held, name))
    return source


def kinds(of):
    return [node.op_type for node in of.graph.node]


def fed(n, t):
    random = np.random.default_rng(1)
    return {"x": random.standard_normal((n, 3, t)).astype(np.float32), "z": np.arange(4, dtype=np.float32)}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_branch_that_a_recurrent_layer_can_read(n):
    source = made_of(f"{SHRUNK} {GROWN} {LAYER}")
    made = optimized(source)
    assert "If" not in kinds(made)
    assert "the nodes after it accept no other rank" in {change.remark for change in optimize.attempt(source).changes}
    given = fed(n, 1)
    for a, b in zip(OnnxRuntime(source).run(given), OnnxRuntime(made).run(given), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("t", [2, 3])
def test_what_is_no_input_of_a_convolution_is_none_in_both_forms(t):
    body = f"{SHRUNK} v = Unsqueeze(a, nought) y = Conv(v, kernel)"
    source = made_of(body, "float[?,?,?] y")
    made = optimized(source)
    assert "If" not in kinds(made)
    for form in (source, made):
        with pytest.raises(EngineError):
            OnnxRuntime(form).run({"x": fed(3, t)["x"], "z": fed(3, t)["z"]})


def test_a_convolution_says_the_rank_too():
    body = """
        s = Size(x) c = Greater(s, rank)
        a = If(c) <then_branch = t () => (p) { p = Identity(x) }, else_branch = e () => (q) { q = Squeeze(x, two) }>
        r = Relu(a) y = Conv(r, kernel)
    """
    source = made_of(body, "float[?,?,?] y")
    assert kinds(optimized(source)) == ["Relu", "Conv"]


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{SHRUNK} y = Exp(a)", "float y"),  # which takes any rank
        (f"{SHRUNK} y = ReduceSum<keepdims=0>(a)", "float y"),
        (
            f"{SHRUNK} y = ReduceSum<keepdims=0>(a) u = Unsqueeze(a, nought) l = LSTM<hidden_size=2>(u, w4, r4)",
            "float y",
        ),
        (f"{SHRUNK} b = Identity(a) y = Add(b, z)", "float y"),
    ],
    ids=["any rank", "a sum", "a layer that nobody reads", "broadcast"],
)
def test_where_no_rank_is_needed_both_stay(body, outputs):
    source = made_of(body, outputs)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    assert "If" in [node.op_type for node in optimize.attempt(source).model.graph.node]


def test_where_both_branches_fit_or_nobody_knows_both_stay():
    both = SHRUNK.replace("Squeeze(x, two)", "Neg(x)")
    assert "If" in kinds(optimized(made_of(f"{both} y = Conv(a, kernel)", "float[?,?,?] y")))
    unknown = SHRUNK.replace("Squeeze(x, two)", "Reshape(x, g)").replace("Identity(x)", "Reshape(x, h)")
    inputs = f"{IO['inputs']}, int64[K] g, int64[L] h"
    assert "If" in kinds(optimized(made_of(f"{unknown} y = Conv(a, kernel)", "float[?,?,?] y", inputs=inputs)))


def test_a_condition_that_is_needed_in_a_branch_alone_is_not_decided_outside():
    body = f"""
        {SHRUNK} f = ReduceSum<keepdims=0>(z) o = Greater(f, zero)
        y = If(o) <then_branch = g () => (float[?,?,?,?] l) {{ u = Unsqueeze(a, nought) l = LSTM<hidden_size=2>(u, w4, r4) }},
                   else_branch = h () => (float[?,?,?,?] k) {{ v = Reshape(a, four) k = Exp(v) }}>
    """
    constants = f"{HELD}, int64[4] four = {{1,1,1,-1}}, float zero = {{0}}"
    source = made_of(body, "float[?,?,?,?] y", constants)
    made = optimized(source)
    assert kinds(made).count("If") == 2
    given = {**fed(2, 4), "z": -np.ones(4, np.float32)}
    for a, b in zip(OnnxRuntime(source).run(given), OnnxRuntime(made).run(given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_in_a_branch_and_in_a_function():
    inner = """
        s = Shape<start=2, end=3>(x) c = Equal(s, one)
        a = If(c) <then_branch = t () => (p) { p = Squeeze(x, two) }, else_branch = e () => (q) { q = Identity(x) }>
        u = Unsqueeze(a, nought)
    """
    numbers = "one = Constant<value_ints=[1]>() two = Constant<value_ints=[2]>() nought = Constant<value_ints=[0]>()"
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N,3,T] x, bool o, float[1,8,3] w, float[1,8,2] r) => (float[A,B,C,D] y) {{
            y = If (o) <
                then_branch = g1 () => (float[A,B,C,D] k) {{ {numbers} {inner} k = LSTM<hidden_size=2>(u, w, r) }},
                else_branch = g2 () => (float[A,B,C,D] l) {{ l = own.F(x, w, r) }}>
        }}
        <domain: "own", opset_import: ["" : 17]> F (x, w, r) => (k) {{
            {numbers} {inner.replace("Shape<start=2, end=3>(x)", "Shape<start=2, end=3>(x)")} k = LSTM<hidden_size=2>(u, w, r)
        }}
    """)
    made = optimize.attempt(source).model
    (then,) = [a.g for n in made.graph.node for a in n.attribute if a.name == "then_branch"]
    assert "If" not in [n.op_type for n in then.node]
