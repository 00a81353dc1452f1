"""GroupNormalization: InstanceNormalization, or what is written out, between two Reshapes of channels."""

import numpy as np
import pytest
from opshift.passes.fusion import fold

from tests.passes.fusion.folding import (
    FEEDS,
    check_stays,
    folded,
)
from tests.support import check_values, model, show

INSTANCES = "n = InstanceNormalization<epsilon=0.5>(g, i, o)"


MOMENTS = (
    "m = ReduceMean(g, a) d = Sub(g, m) q = Mul(d, d) v = ReduceMean(q, a) w = Add(v, e) r = Sqrt(w) n = Div(d, r)"
)


GROUPS = "int64[1] a = {-1}, int64[3] to = {0, 2, -1}, float[2] i = {1, 1}, float[2] o = {0, 0}, float e = {0.5}"


def groups(body, image, scale):
    body = f"g = Reshape(x, to) {body} k = Shape(x) h = Reshape(n, k) p = Mul(h, s) y = Add(p, b)"
    scales = f"float{scale} s = {{1, 2, -3, 0.5}}, float{scale} b = {{0, 1, -1, 2}}"
    io = {"inputs": f"float[N,{image}] x", "outputs": f"float[N,{image}] y"}
    return model(body, 21, **io, constants=f"{GROUPS}, {scales}")


@pytest.mark.parametrize("body", [INSTANCES, MOMENTS])
def test_group_normalization_of_reshaped_channels(body):
    source = groups(body, "4,3,5", "[4,1,1]")
    result = folded(source)
    scales = "[1.0, 2.0, -3.0, 0.5], [0.0, 1.0, -1.0, 2.0]"
    assert show(result.model) == f"y = GroupNormalization<epsilon=0.5, num_groups=2>(x, {scales})"
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5) ** 2}
    check_values(source, result.model, feeds, rtol=1e-5, atol=1e-5)


def test_groups_that_are_scaled_along_another_axis_stay():
    check_stays(groups(INSTANCES, "4,4,5", "[4,1]"))


def test_group_normalization_with_computed_constants():
    """torch's exporter, before it optimizes, makes ones by Expand and the axes of the scale by Range."""
    body = "n1 = Reshape(two, m1) to = Concat<axis=0>(z1, n1, m1) r = Reshape(x, to) l1 = CastLike(one, x) "
    body += "ones = Expand(l1, n1) l0 = CastLike(zero, x) zeros = Expand(l0, n1) i = InstanceNormalization(r, ones, "
    body += "zeros) shape = Shape(x) b = Reshape(i, shape) e = Sub(four, i1) axes = Range(i1, e, i1) "
    body += "w2 = Unsqueeze(w, axes) o2 = Unsqueeze(o, axes) m = Mul(b, w2) y = Add(m, o2)"
    constants = "int64 two = {2}, int64 four = {4}, int64 i1 = {1}, int64[1] m1 = {-1}, int64[1] z1 = {0}, "
    constants += "float one = {1}, float zero = {0}"
    io = {"inputs": "float[2,4,3,5] x, float[4] w, float[4] o", "outputs": "float[2,4,3,5] y"}
    source = model(body, 21, constants=constants, **io)
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == ["GroupNormalization"]
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5), "w": FEEDS["s"], "o": FEEDS["b"]}
    check_values(source, result, feeds, rtol=2e-5, atol=2e-5)


def test_group_normalization_whose_groups_are_measured():
    body = "d = Shape(x) n = Shape<end=1>(x) r = Shape<start=1>(x) p = ReduceProd(r) e = Div(p, two) "
    body += "to = Concat<axis=0>(n, two, e) g = Reshape<allowzero=1>(x, to) " + MOMENTS
    body += " h = Reshape(n0, d) m1 = Mul(h, s) y = Add(m1, b)"
    body = body.replace("n = Div(d, r)", "n0 = Div(c, u)").replace(
        "d = Sub(g, m) q = Mul(d, d)", "c = Sub(g, m) q = Mul(c, c)"
    )
    body = body.replace("r = Sqrt(w)", "u = Sqrt(w)")
    constants = "int64[1] two = {2}, int64[1] a = {-1}, float e0 = {0.5}, "
    constants += "float[4,1,1] s = {1, 2, -3, 0.5}, float[4,1,1] b = {0, 1, -1, 2}"
    io = {"inputs": "float[N,4,H,W] x", "outputs": "float[N,4,H,W] y"}
    source = model(body.replace("Add(v, e)", "Add(v, e0)"), 21, constants=constants, **io)
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == ["GroupNormalization"]
    assert fold.attempt(source).grade == "close"
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5)}
    check_values(source, result, feeds, rtol=2e-5, atol=2e-5)
