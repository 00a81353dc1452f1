"""What is declared falsely of values hid behind nodes that are gone: runtimes refused the result for it."""

import numpy as np
import pytest
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.model.types import dims_of, has_shape
from opshift.passes.optimization import optimize

from tests.runtime import Runtime
from tests.support import model

X = {"x": np.array([[1], [2]], np.float32), "z": np.array([[3], [4]], np.float32)}
HIDDEN = "t = Concat<axis=0>(z, x) u = Relu(t) v = Cast<to=1>(u) w = Flatten<axis=1>(v) y = Softmax<axis=0>(w)"
IO = {"inputs": "float[2,1] x, float[2,1] z", "outputs": "float[A,B] y"}


def declared(made):
    return {v.name: dims_of(v.type) for v in (*made.graph.value_info, *made.graph.output) if has_shape(v.type)}


@pytest.mark.parametrize("claim", ["[4]", "[4,1,1]", "[3,1]", "[0,1]"])
def test_what_is_declared_falsely_is_mended(claim):
    source = model(HIDDEN, 12, constants=f"float{claim} u", **IO)
    found = optimize.attempt(source)
    assert [node.op_type for node in found.model.graph.node] == ["Concat", "Relu", "Softmax"]
    assert declared(found.model)["u"] == [4, 1]
    assert CONTRADICTED in {change.how for change in found.changes}
    np.testing.assert_array_equal(Runtime(found.model).run(X)[0], Runtime(source).run(X)[0])


def test_a_number_declared_of_an_open_size_is_mended():
    """onnxruntime, which reuses memory by declared sizes, refuses the Reshape to constants, which shows it the number."""
    body = """s = Shape(x) n = Slice(s, zero, one) to = Concat<axis=0>(n, rest) h = Neg(x) k = Relu(h)
        r = Reshape(k, to) t = MatMul(r, w) u = Add(t, t) y = MatMul(u, w)"""
    held = "int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest = {2,2}, float[2,2] w = {1,2,3,4}, float[1,4] k"
    source = model(body, 13, inputs="float[N,4] x", outputs="float[N,2,2] y", constants=held)
    feed = {"x": np.arange(12, dtype=np.float32).reshape(3, 4) - 6}
    found = optimize.attempt(source)
    assert "Concat" not in {node.op_type for node in found.model.graph.node}
    assert declared(found.model)["k"] == ["N", 4]
    assert [change.remark for change in found.changes if change.how == CONTRADICTED] == [
        "'k': declared [1, 4], inferred [N, 4]"
    ]
    np.testing.assert_array_equal(Runtime(found.model).run(feed)[0], Runtime(source).run(feed)[0])


def test_what_nothing_tells_is_not_declared_beside_it():
    body = "t = Concat<axis=0>(z, x) f = Flatten<axis=1>(t) n = NonZero(f) h = Identity(n) k = Add(h, one) y = Mul(k, five)"
    held = "int64 one = {1}, int64[2,1] five = {5,5}, float[9] t, int64[2,7] k, int64[2,7] h"
    source = model(body, 13, constants=held, **IO | {"outputs": "int64[A,B] y"})
    made = optimize.attempt(source).model
    assert declared(made) == {"t": [4, 1], "k": [2, None], "y": ["A", "B"]}
    assert Runtime(made).run(X)[0].tolist() == [[5, 10, 15, 20], [5, 5, 5, 5]]


def test_outputs_are_mended_alone_where_they_are_false():
    source = model(HIDDEN + " n = NonZero(v)", 12, **IO | {"outputs": "float[4] y, int64[2,9] n"})
    assert declared(optimize.attempt(source).model) == {"y": [4, 1], "n": [2, 9]}


@pytest.mark.parametrize("claim", ["[4,1]", "[M,1]", "[M,K]"])
def test_what_may_be_so_stays(claim):
    body = HIDDEN + " n = NonZero(v) k = Relu(r) r = Cast<to=1>(n)".replace(
        "k = Relu(r) r = Cast<to=1>(n)", "k = Add(n, n)"
    )
    source = model(
        body, 14, constants=f"float{claim} u, int64[2,7] n", **IO | {"outputs": "float[A,B] y, int64[C,D] k"}
    )
    made = optimize.attempt(source)
    assert made.changes
    assert declared(made.model)["n"] == [2, 7]
    assert declared(made.model)["u"] == declared(source)["u"]


def test_what_is_declared_in_branches_stays():
    branch = """y = If(c)<then_branch = g1 () => (float[A,B] a) <float[2,7] t> { n = Cast<to=1>(x) t = Abs(n) a = Neg(t) },
                         else_branch = g2 () => (float[A,B] b) <float[2,1] t> { t = Abs(z) b = Neg(t) }>"""
    source = model(
        f"s = Cast<to=1>(x) u = Relu(s) v = Flatten<axis=1>(u) w = Neg(v) {branch}",
        13,
        constants="float[3] u",
        **IO | {"inputs": IO["inputs"] + ", bool c", "outputs": IO["outputs"] + ", float[C,D] w"},
    )
    (node,) = [node for node in optimize.attempt(source).model.graph.node if node.op_type == "If"]
    held = {a.name: [dims_of(value.type) for value in a.g.value_info] for a in node.attribute}
    assert held == {"then_branch": [[2, 7]], "else_branch": [[2, 1]]}
