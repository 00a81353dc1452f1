"""LinearAttention before it existed, judged token by token."""

import numpy as np
import pytest

from tests.support import check_computes, check_refused

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def attended(q, k, v, state, decay, beta, scale):
    """q: [B, T, queries, keys], k: [B, T, heads, keys], v: [B, T, heads, values]"""
    ys = []
    for t in range(q.shape[1]):
        if decay is not None:
            state = state * np.exp(decay[:, t])[..., None]
        value = v[:, t]
        if beta is not None:
            value = beta[:, t] * (value - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * value[..., None, :]
        shared = np.repeat(state, q.shape[2] // k.shape[2], axis=1)
        ys.append(scale * np.einsum("bhk,bhkv->bhv", q[:, t], shared))
    return np.stack(ys, axis=1), state


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_linear_attention(rule, per_key, stateful, scale):
    q, k, v, s = normal(2, 5, 4, 3), normal(2, 5, 2, 3), normal(2, 5, 2, 6), normal(2, 2, 3, 6)
    g, b = -np.abs(normal(2, 5, 2, 3 if per_key else 1)), np.abs(normal(2, 5, 1 if per_key else 2, 1))
    gated, corrected = "gated" in rule, "delta" in rule
    y, state = attended(
        *(a.astype(np.float64) for a in (q, k, v)), s if stateful else np.zeros_like(s), g if gated else None, b if corrected else None, scale or 1 / np.sqrt(3)
    )  # fmt: skip
    call = ", ".join(["q", "k", "v", "s" if stateful else "", "g" if gated else "", "b" if corrected else ""]).rstrip(
        ", "
    )
    packed = {"q": q, "k": k, "v": v} | ({"g": g} if gated else {}) | ({"b": b} if corrected else {})
    packed = {name: a.reshape(2, 5, -1) for name, a in packed.items()}
    inputs = ", ".join(f"float[B,T,{a.shape[-1]}] {name}" for name, a in packed.items()) + (
        ", float[B,2,3,6] s" if stateful else ""
    )
    check_computes(
        f'y, t = LinearAttention<q_num_heads=4, kv_num_heads=2, update_rule="{rule}", scale={scale}>({call})', 27, 13,
        [y.reshape(2, 5, 24).astype(np.float32), state.astype(np.float32)], feeds=packed | ({"s": s} if stateful else {}),
        grade="close", rtol=1e-4, atol=1e-5, inputs=inputs, outputs="float[B,T,24] y, float[B,2,3,6] t",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("gated", "update_rule='gated' needs input 4, and it is missing"),
        ("rwkv", "update_rule='rwkv'; supported: linear, gated, delta, gated_delta"),
    ],
)
def test_calls_that_are_not_defined_are_refused(rule, why):
    check_refused(
        f'y, t = LinearAttention<q_num_heads=1, kv_num_heads=1, update_rule="{rule}">(q, k, v)', 27, 26, why,
        inputs="float[1,2,3] q, float[1,2,3] k, float[1,2,3] v", outputs="float[1,2,3] y, float[1,1,3,3] t",
    )  # fmt: skip


@pytest.mark.parametrize("width", ["0", "K"])
@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_without_a_feature_there_is_an_infinite_scale_of_nothing_unless_one_is_given(width, scale):
    feeds = {"q": normal(1, 3, 0), "k": normal(1, 3, 0), "v": normal(1, 3, 4)}
    y = np.full((1, 3, 4), 0 if scale else np.nan, np.float32)
    check_computes(
        f'y, t = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear", scale={scale}>(q, k, v)', 27, 13,
        [y, np.zeros((1, 2, 0, 2), np.float32)], feeds=feeds, grade="close",
        inputs=f"float[B,T,{width}] q, float[B,T,{width}] k, float[B,T,4] v", outputs="float[B,T,4] y, float[A,B,C,D] t",
    )  # fmt: skip


@pytest.mark.parametrize(("batch", "length"), [(0, 3), (2, 0), (0, 0)])
@pytest.mark.parametrize("widths", [("8", "12"), ("K", "V")])
@pytest.mark.parametrize("target", [pytest.param(26, marks=pytest.mark.newest), 13])  # no older engine runs it there
def test_no_tokens_and_no_batch(batch, length, widths, target):
    state = normal(batch, 2, 4, 6)
    feeds = {"q": normal(batch, length, 8), "k": normal(batch, length, 8), "v": normal(batch, length, 12), "s": state}
    expected = np.zeros((batch, length, 12), np.float32)
    keys, values = widths
    check_computes(
        'y, t = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">(q, k, v, s)', 27, target, [expected, state],
        feeds=feeds, grade="close",
        inputs=f"float[B,T,{keys}] q, float[B,T,{keys}] k, float[B,T,{values}] v, float[B,2,4,6] s",
        outputs="float[P,Q,R] y, float[B,2,4,6] t",
    )  # fmt: skip


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("unranked", ["q", "k", "v", "qkv"])
def test_no_tokens_of_a_rank_that_the_run_tells(unranked, batch):
    given = {"q": normal(batch, 0, 8), "k": normal(batch, 0, 8), "v": normal(batch, 0, 12)}
    call = ", ".join(f"{name}_" if name in unranked else name for name in given)
    reshaped = " ".join(f"{name}_ = Reshape<allowzero=1>({name}, {name}s)" for name in unranked)
    inputs = [f"float[{name}0,{name}1,{name}2] {name}" for name in given] + [f"int64[{n}r] {n}s" for n in unranked]
    check_computes(
        f'{reshaped} y, t = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">({call})', 27, 14,
        [np.zeros((batch, 0, 12), np.float32), np.zeros((batch, 2, 4, 6), np.float32)], grade="close",
        feeds=given | {f"{name}s": np.array(given[name].shape) for name in unranked},
        inputs=", ".join(inputs), outputs="float[P,Q,R] y, float[A,B,C,D] t",
    )  # fmt: skip
