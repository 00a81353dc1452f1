"""MoEGroupRouter: groups, ties, and scores that are not chosen of."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, HALF, calls, check_where_it_runs, computed

TOKENS, EXPERTS = 5, 8


def routed(call):
    """As the text has it, token by token."""
    given, (logits, bias, _) = call.attributes, call.inputs
    shares = 1 / (1 + np.exp(-logits.astype(np.float64).reshape(-1, EXPERTS)))
    groups, least = given.get("n_group", 1), given.get("router_sentinel", -1e4)
    y = np.full(shares.shape, least)
    for row, share in zip(y, shares, strict=True):
        moved = (share + bias).reshape(groups, -1)
        sums = np.sort(moved, -1)[:, ::-1][:, : given.get("group_topk", 2)].sum(-1)
        for group in np.argsort(-sums, kind="stable")[given.get("topk_group", 1) :]:
            moved[group] = -np.inf
        best = np.argsort(-moved.ravel(), kind="stable")[: given["top_k"]]
        best = best[np.isfinite(moved.ravel()[best])]
        row[best] = np.log(np.maximum(share[best], 1e-20))
    return y


@pytest.mark.parametrize(("groups", "active"), [(1, 1), (4, 1), (4, 2), (2, 2)])
def test_the_best_of_the_best_groups(groups, active):
    inputs = {
        "logits": [(TOKENS, EXPERTS), (1, TOKENS, EXPERTS), np.zeros((TOKENS, EXPERTS))],
        "expert_bias": np.linspace(-0.2, 0.3, EXPERTS).astype(FLOAT),
    }
    options = {
        "n_group": [groups],
        "topk_group": [active],
        "group_topk": [None, 1, 5],
        "top_k": [1, 3],
        "router_sentinel": [None, -50.0],
    }
    found = calls("MoEGroupRouter", inputs, options, outputs=["router_probs"], types=[FLOAT])
    found = [call for call in found if call.outputs[0]]
    check_where_it_runs(found, 36, grade="close")
    for number, call in enumerate(found[::5]):
        np.testing.assert_allclose(computed(call, (21, 11)[number % 2])[0], routed(call), rtol=1e-5, atol=1e-6)


def test_halves():
    given = {"logits": np.linspace(-3, 3, TOKENS * EXPERTS).reshape(TOKENS, EXPERTS).astype(HALF)}
    bias = {"expert_bias": np.zeros(EXPERTS, FLOAT)}
    (call,) = calls("MoEGroupRouter", {**given, **bias}, {"top_k": [2]}, outputs=["router_probs"], types=[FLOAT])[:1]
    found = [type(call)(call.op, (call.inputs[0].astype(HALF), *call.inputs[1:]), call.outputs, call.attributes)]
    check_where_it_runs(found, 1, grade="close")
    np.testing.assert_allclose(computed(found[0], 21)[0], routed(call), rtol=2e-3)


def test_all_scores_of_what_is_projected():
    inputs = {"logits": (TOKENS, 256), "expert_bias": (EXPERTS,), "projection_weight": (EXPERTS, 256)}
    found = calls(
        "MoEGroupRouter", inputs, {"top_k": [2]}, outputs=["selection_scores", "router_weights"], types=[FLOAT]
    )
    found = [call for call in found if call.inputs[2] is not None and call.outputs == (False, True, True)]
    check_where_it_runs(found, 1, grade="close")
    x, bias, weight = found[0].inputs
    shares = 1 / (1 + np.exp(-(x @ weight.T)))
    moved, plain = computed(found[0], 21)
    np.testing.assert_allclose(plain, shares, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved, shares + bias, rtol=1e-4, atol=1e-5)
