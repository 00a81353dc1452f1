"""GroupNormalization: scale and bias per group or per channel, and before it existed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_refused, check_values, model, show

GROUPS = {
    "x": np.arange(54, dtype=np.float32).reshape(3, 6, 3) ** 1.5,
    "s": np.float32([1, 2]),
    "b": np.float32([3, -1]),
}


def test_scale_per_group_is_repeated_per_channel_at_21():
    after = """t1 = Reshape(s, [-1, 1])
    t2 = Expand(t1, [1, 3])
    t3 = Reshape(t2, [-1])
    t4 = Reshape(b, [-1, 1])
    t5 = Expand(t4, [1, 3])
    t6 = Reshape(t5, [-1])
    y = GroupNormalization<epsilon=0.01, num_groups=2>(x, t3, t6)"""
    check(
        "y = GroupNormalization<epsilon=0.01, num_groups=2>(x, s, b)", 20, after, 21, feeds=GROUPS, rtol=1e-5,
        atol=1e-5, inputs="float[N,6,3] x, float[2] s, float[2] b", outputs="float[N,6,3] y",
    )  # fmt: skip


def test_an_unknown_number_of_channels_is_read_at_run_time_at_21():
    io = {"inputs": "float[N,C,3] x, float[2] s, float[2] b", "outputs": "float[N,C,3] y"}
    source = model("y = GroupNormalization<num_groups=2>(x, s, b)", 20, **io)
    converted = convert.attempt(source, {"": 21}).model
    assert converted is not None
    assert "Shape<end=2, start=1>" in show(converted)
    check_values(source, converted, GROUPS, rtol=1e-5, atol=1e-5)


def test_as_many_groups_as_channels_need_no_repetition():
    io = {"inputs": "double[N,2,3] x, double[2] s, double[2] b", "outputs": "double[N,2,3] y"}
    before = "y = GroupNormalization<num_groups=2>(x, s, b)"
    after = "y = GroupNormalization<num_groups=2, stash_type=11>(x, s, b)"
    check(before, 20, after, 21, feeds={"x": GROUPS["x"][:, :2].astype(np.float64)}, rtol=1e-9, atol=1e-9, **io)


@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize("dims", ["N,6,3", "N,C,L"])
def test_groups_are_normalized_by_the_definition_below_21(kind, dims):
    io = {"inputs": f"{kind}[{dims}] x, {kind}[6] s, {kind}[6] b", "outputs": f"{kind}[{dims}] y"}
    source = model("y = GroupNormalization<epsilon=0.01, num_groups=2>(x, s, b)", 21, **io)
    result = convert.attempt(source, {"": 20})
    assert result.model is not None
    assert result.grade == "close"
    casts = [node.op_type for node in result.model.graph.node].count("Cast")
    assert casts == (2 if kind == "float16" else 0)
    dtype = np.float16 if kind == "float16" else np.float32
    feeds = {"x": GROUPS["x"], "s": np.array([1, 2, 3, -1, 0, 4]), "b": np.array([0, 1, 2, 0.5, -3, 1])}
    feeds = {name: value.astype(dtype) for name, value in feeds.items()}
    check_values(source, result.model, feeds, rtol=4e-3 if casts else 1e-4, atol=2e-3 if casts else 1e-5)


RNG = np.random.default_rng(0)
X = (RNG.normal(size=(2, 6, 4)) * 3 + 1).astype(np.float32)


def standardized(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


def test_groups_keep_their_scale_and_bias():
    scale, bias = np.array([1.0, 2.0, -3.0], np.float32), np.array([0.0, 1.0, 0.5], np.float32)
    grouped = standardized(X.reshape(2, 3, 8), 2)[0]
    expected = (grouped * scale[:, None] + bias[:, None]).reshape(X.shape).astype(np.float32)
    check_computes(
        "y = GroupNormalization<num_groups=3>(x, s, b)", 18, 17, expected, feeds={"x": X, "s": scale, "b": bias}, grade="close",
        rtol=1e-5, atol=1e-5, inputs="float[N,6,4] x, float[3] s, float[3] b", outputs="float[N,6,4] y",
    )  # fmt: skip


@pytest.mark.parametrize("dims", ["N,6,H,W", "N,C,H,W", "N,6,4,4", "2,6,H,W"])
@pytest.mark.parametrize("shape", [(0, 6, 4, 4), (2, 6, 0, 4), (2, 6, 4, 0), (2, 6, 4, 4)])
@pytest.mark.parametrize(("opset", "target"), [(21, 20), (21, 9), (18, 17)])
def test_what_may_be_empty_at_run_time(dims, shape, opset, target):
    if any(dim.isdigit() and int(dim) != size for dim, size in zip(dims.split(","), shape, strict=True)):
        return
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    each = x.reshape(shape[0], 2, 3 * shape[2] * shape[3])
    if x.size:
        each = (each - each.mean(2, keepdims=True)) / np.sqrt(each.var(2, keepdims=True) + 1e-5)
    count = 6 if opset == 21 else 2
    ones, zeros = np.ones(count, np.float32), np.zeros(count, np.float32)
    check_computes(
        "y = GroupNormalization<num_groups=2>(x, s, b)", opset, target, each.reshape(shape), feeds={"x": x, "s": ones, "b": zeros},
        grade="close", rtol=1e-5, atol=1e-5, inputs=f"float[{dims}] x, float[{count}] s, float[{count}] b", outputs="float[A,B,C,D] y",
    )  # fmt: skip


def test_groups_are_normalized_in_the_stash_type():
    x = (1e4 + np.arange(12).reshape(1, 2, 6) / 64).astype(np.float32)
    expected = standardized(x.reshape(1, 2, 6), 2)[0].astype(np.float32)
    feeds = {"x": x, "s": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
    made = check_computes(
        "y = GroupNormalization<num_groups=2, stash_type=11>(x, s, b)", 21, 17, expected, feeds=feeds, grade="close",
        rtol=1e-6, inputs="float[1,2,6] x, float[2] s, float[2] b", outputs="float[1,2,6] y",
    )  # fmt: skip
    assert "Cast<to=11>(x)" in show(made)


def test_no_groups_are_refused():
    io = {"inputs": "float[1,2,3] x, float[2] s", "outputs": "float[1,2,3] y"}
    check_refused("y = GroupNormalization<num_groups=0>(x, s, s)", 21, 20, "num_groups=0", **io)
