"""What is normalized, and what is passed on."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, HALF, NEWEST, Call, calls, check, check_refused, computed

SKIP = {"input": (2, 3, 8), "skip": [(2, 3, 8), (1, 3, 8), (3, 8)], "gamma": (8,), "bias": (8,)}
SUM = "input_skip_bias_sum"
RNG = np.random.default_rng(0)


def test_skip_layer_normalization():
    made = calls("SkipLayerNormalization", {**SKIP, "beta": (8,)}, outputs=[SUM])
    assert check(made) == 48


def test_skip_simplified_layer_normalization():
    inputs = {**SKIP, "input": [(2, 3, 8), (3, 8)]}
    assert check(calls("SkipSimplifiedLayerNormalization", inputs, outputs=[SUM])) == 32


def test_one_and_no_row():
    for rows in (1, 0):
        inputs = {"input": (rows, 1, 8), "skip": (rows, 1, 8), "gamma": (8,)}
        for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
            assert check(calls(op, inputs, {"epsilon": [None, 0.5]})) == 4


def test_the_saved_statistics_by_the_text():
    x, skip, gamma = (RNG.normal(size=shape).astype(FLOAT) for shape in ((2, 3, 8), (2, 3, 8), (8,)))
    total = (x + skip).astype(np.float64)
    call = Call("SkipLayerNormalization", (x, skip, gamma, None, None), (True, True, True, True))
    for opset in (NEWEST, 13):
        made = computed(call, opset)
        np.testing.assert_allclose(made[1], total.mean(-1, keepdims=True), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(made[2], 1 / total.std(-1, keepdims=True), rtol=1e-4)
        np.testing.assert_array_equal(made[3], x + skip)


def test_statistics_that_no_kernel_writes_are_refused():
    call = Call(
        "SkipSimplifiedLayerNormalization", tuple(np.ones(s, FLOAT) for s in ((2, 4), (2, 4), (4,))), (True, True)
    )
    check_refused([call], "onnxruntime never computes it")


@pytest.mark.parametrize(("shape", "branches"), [((2, 3, 4), None), ((2, 12), 3), ((12,), 3), ((0, 3, 4), None)])
def test_branches(shape, branches):
    scales = [(12,), (3, 4), (4,)]
    made = calls("BranchwiseRMSNorm", {"X": shape, "scale": scales}, {"num_branches": [branches], "epsilon": [None, 0.5]})  # fmt: skip
    assert check(made) == 16


@pytest.mark.parametrize("activation", [None, "silu", "swish", "sigmoid"])
def test_gates(activation):
    made = calls("GatedRMSNorm", {"X": (2, 3, 4), "scale": [(4,), (2,)], "gate": (2, 3, 4)}, {"activation": [activation], "epsilon": [None, 0.5]})  # fmt: skip
    assert check(made) == 8


def groups(x, gamma, beta, count, epsilon, activation):
    """Of channels that stand first, by the text."""
    rows = x.astype(np.float64).reshape(x.shape[0], count, -1)
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon)
    y = normal.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    return y / (1 + np.exp(-y)) if activation else y


@pytest.mark.parametrize("last", [None, 1, 0])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize(("kind", "scale"), [(FLOAT, FLOAT), (HALF, FLOAT), (HALF, HALF)])
def test_groups_by_the_text(last, activation, kind, scale):
    x, gamma, beta = RNG.normal(size=(2, 4, 3, 5)).astype(kind), *RNG.normal(size=(2, 4)).astype(scale)
    expected = groups(x, gamma.astype(float), beta.astype(float), 2, 1e-3, activation)
    given, want = (x, expected) if last == 0 else (x.transpose(0, 2, 3, 1), expected.transpose(0, 2, 3, 1))
    attributes = {
        "groups": 2,
        "activation": activation,
        "epsilon": 1e-3,
        **({} if last is None else {"channels_last": last}),
    }
    for opset in (NEWEST, 13):
        made = computed(Call("GroupNorm", (given, gamma, beta), (True,), attributes), opset)[0]
        np.testing.assert_allclose(made, want, rtol=2e-3, atol=3e-3 if kind is HALF else 1e-5)


@pytest.mark.parametrize("skip", [(2, 3, 5, 4), (2, 1, 1, 4), (2, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_groups_of_a_sum_by_the_text(skip, bias):
    x, s, b = (RNG.normal(size=shape).astype(FLOAT) for shape in ((2, 3, 5, 4), skip, (4,)))
    gamma, beta = RNG.normal(size=(2, 4)).astype(FLOAT)
    total = x + (s.reshape(2, 1, 1, 4) if len(skip) == 2 else s) + (b if bias else 0)
    expected = groups(total.transpose(0, 3, 1, 2), gamma, beta, 2, 1e-5, 0).transpose(0, 2, 3, 1)
    call = Call("SkipGroupNorm", (x, gamma, beta, s, b if bias else None), (True, True), {"groups": 2, "activation": 0})
    made = computed(call, 13)
    np.testing.assert_allclose(made[0], expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(made[1], total, rtol=1e-6)
