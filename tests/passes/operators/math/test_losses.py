"""Losses as gathers: every reduction, with and without weights and ignored targets."""

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused, check_unchanged

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(2, 3, 4)).astype(np.float32)
TARGETS = np.array([[0, 2, 1, 2], [1, 1, 0, 2]])
WEIGHTS = np.array([0.5, 2.0, -1.25], np.float32)


def loss(logarithms, targets, weights, reduction, ignore):
    y, w = np.zeros(targets.shape), np.zeros(targets.shape)
    for at in np.ndindex(targets.shape):
        if targets[at] != ignore:
            w[at] = 1.0 if weights is None else weights[targets[at]]
            y[at] = -logarithms[(at[0], targets[at], *at[1:])] * w[at]
    if reduction == "none":
        return y
    if reduction == "mean" and not w.any():
        return np.nan
    return (
        y.sum() / (w.sum() if weights is not None or ignore is not None else y.size) if reduction == "mean" else y.sum()
    )


def log_softmax(x):
    x = x.astype(np.float64)
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("ignore", [None, 1, -7, 99])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("rank", [2, 3])
def test_every_call(op, reduction, weighted, ignore, rank):
    scores, targets = (SCORES, TARGETS.copy()) if rank == 3 else (SCORES[..., 0], TARGETS[:, 0].copy())
    if ignore is not None:
        targets[0, ...] = ignore
    weights = WEIGHTS if weighted else None
    given = f", ignore_index={ignore}" if ignore is not None else ""
    logarithms = log_softmax(scores) if op.startswith("Soft") else scores.astype(np.float64)
    expected = np.asarray(loss(logarithms, targets, weights, reduction, ignore)).astype(np.float32)
    dims = "[2,3,4]" if rank == 3 else "[2,3]"
    labels = dims.replace("3", "").replace(",,", ",").replace(",]", "]") if rank == 2 else "[2,4]"
    exact = op.startswith("Neg") and reduction == "none"
    check_computes(
        f'y = {op}<reduction="{reduction}"{given}>(x, t{", w" if weighted else ""})', 12, 11, expected,
        feeds={"x": scores, "t": targets} | ({"w": WEIGHTS} if weighted else {}), grade="exact" if exact else "close",
        rtol=1e-5, atol=1e-6, inputs=f"float{dims} x, int64{labels} t" + (", float[3] w" if weighted else ""),
        outputs=f"float{labels if reduction == 'none' else ''} y",
    )  # fmt: skip


def test_both_outputs():
    check_computes(
        "y, p = SoftmaxCrossEntropyLoss(x, t)", 13, 11,
        [np.float32(loss(log_softmax(SCORES), TARGETS, None, "mean", None)).reshape(()), log_softmax(SCORES).astype(np.float32)],
        feeds={"x": SCORES, "t": TARGETS.astype(np.int32)}, grade="close", rtol=1e-5, atol=1e-6,
        inputs="float[N,3,4] x, int32[N,4] t", outputs="float y, float[N,3,4] p",
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_what_is_ignored_may_be_anything(reduction):
    x = np.array([[1.0, 2.0], [np.nan, -np.inf]], np.float32)
    expected = {"none": np.array([-2.0, 0.0], np.float32), "mean": np.float32(-2.0), "sum": np.float32(-2.0)}[reduction]
    check_computes(
        f'y = NegativeLogLikelihoodLoss<reduction="{reduction}", ignore_index=-1>(x, t)', 12, 11, np.asarray(expected),
        feeds={"x": x, "t": np.array([1, -1])}, grade="exact" if reduction == "none" else "close",
        inputs="float[2,2] x, int64[2] t", outputs=f"float{'[2]' if reduction == 'none' else ''} y",
    )  # fmt: skip


def test_float16_is_summed_in_float():
    check(
        'y = NegativeLogLikelihoodLoss<reduction="sum">(x, t)', 12,
        "t1 = Cast<to=1>(x)\nt2 = Unsqueeze<axes=[1]>(t)\nt3 = GatherElements<axis=1>(t1, t2)\nt4 = Squeeze<axes=[1]>(t3)\n"
        "t5 = Neg(t4)\nt6 = ReduceSum<keepdims=0>(t5)\ny = Cast<to=10>(t6)", 11,
        inputs="float16[2,3] x, int64[2] t", outputs="float16 y", grade="close", feeds={"t": np.array([0, 2])}, rtol=1e-3,
    )  # fmt: skip


def test_an_unknown_reduction_is_refused():
    check_refused(
        'y = NegativeLogLikelihoodLoss<reduction="max">(x, t)', 12, 11, "reduction='max'; supported: none, sum and mean",
        inputs="float[2,3] x, int64[2] t", outputs="float y",
    )  # fmt: skip


def test_there_is_a_weight_for_each_class():
    io = {"inputs": "float[1,2] x, int64[1] t, float[{}] w", "outputs": "float l"}
    call = "l = NegativeLogLikelihoodLoss(x, t, w)"
    for weights in ("2", "N"):
        check_unchanged(call, 13, 22, **io | {"inputs": io["inputs"].format(weights)})
    refused = "1 weights for 2 classes; supported: one weight for each class"
    check_refused(call, 13, 22, refused, **io | {"inputs": io["inputs"].format(1)})
