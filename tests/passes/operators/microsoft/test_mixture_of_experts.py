"""MoE: tokens of rank 2 and 3, each activation, ties of the router, and experts that nobody chooses."""

from dataclasses import replace

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed

EXPERTS, SIZE, INNER = 4, 6, 8


def given(shape, width=INNER):
    tokens = int(np.prod(shape[:-1]))
    return {
        "input": shape,
        "router_probs": [(tokens, EXPERTS), np.zeros((tokens, EXPERTS))],
        "fc1_experts_weights": (EXPERTS, width, SIZE),
        "fc1_experts_bias": (EXPERTS, width),
        "fc2_experts_weights": (EXPERTS, SIZE, INNER),
        "fc2_experts_bias": (EXPERTS, SIZE),
    }


@pytest.mark.parametrize("shape", [(5, SIZE), (2, 3, SIZE)])
def test_activations(shape):
    routing = {"k": [1, 2], "normalize_routing_weights": [None, 1]}
    found = calls(
        "MoE", given(shape), {**routing, "activation_type": ["relu", "gelu", "silu", "identity"]}, types=[FLOAT]
    )
    gated = {
        "activation_type": ["swiglu"],
        "swiglu_fusion": [1],
        "swiglu_limit": [None, 0.5],
        "activation_beta": [None, 1.0],
    }
    found = found[::9] + calls("MoE", given(shape, 2 * INNER), {**routing, **gated}, types=[FLOAT])[::9]
    assert check(found, grade="close", held=(2, 3, 4, 5)) == 30


def test_numbers_that_are_none():
    """Tokens whose shares are NaN are seen by no expert, and the kernel's Relu makes 0 of NaN."""
    logits, tokens = np.zeros((4, EXPERTS)), np.ones((4, SIZE))
    logits[0, 1], logits[1, 2], logits[2, :2] = np.nan, np.inf, -np.inf
    tokens[3, 0], tokens[2, 1] = np.nan, -np.inf
    held = {**given((4, SIZE)), "input": tokens, "router_probs": logits}
    routing = {"k": [1, 2], "normalize_routing_weights": [None, 1], "activation_type": ["relu", "identity"]}
    found = [
        call for call in calls("MoE", held, routing, types=[FLOAT]) if all(call.inputs[at] is not None for at in (3, 5))
    ]
    assert check(found, grade="close", held=(2, 3, 4, 5)) == 8


def test_what_cannot_be_said_is_refused():
    third = {**given((5, SIZE)), "fc3_experts_weights": (EXPERTS, INNER, SIZE)}
    check_refused([call for call in calls("MoE", third) if call.inputs[6] is not None][:1], "fc3_experts_weights")
    check_refused(calls("MoE", given((5, SIZE)), {"use_sparse_mixer": [1]})[:1], "use_sparse_mixer=1")
    check_refused(calls("MoE", given((5, SIZE)), {"activation_type": ["swiglu"]})[:1], "swiglu_fusion=0")
    check_refused(calls("MoE", given((5, SIZE)), {"activation_type": ["zork"]})[:1], "activation_type='zork'")


def quantized(bits, block, attributes, *, zeros=True, weights=False, width=INNER):
    """A call of QMoE with integers of so many bits in blocks, or in rows where there are none."""
    rng, parts = np.random.default_rng(bits), 8 // bits

    def layer(rows, columns):
        each = columns // block if block else 1
        scales = np.abs(rng.normal(size=(EXPERTS, rows, each) if block else (EXPERTS, rows))).astype(FLOAT) * 0.1
        counted = -(-each // parts) if block else -(-rows // parts)
        shape = (EXPERTS, rows, counted) if block else (EXPERTS, counted)
        held = rng.integers(0, 256, (EXPERTS, rows, columns // parts)).astype(np.uint8)
        return held, scales, rng.integers(0, 256, shape).astype(np.uint8) if zeros else None

    (first, of_first, zeros_1), (second, of_second, zeros_2) = layer(width, 32), layer(32, 32)
    bias = rng.normal(size=(EXPERTS, width)).astype(FLOAT)
    tokens, router = rng.normal(size=(5, 32)).astype(FLOAT), rng.normal(size=(5, EXPERTS)).astype(FLOAT)
    told = rng.normal(size=(5, EXPERTS)).astype(FLOAT) if weights else None  # a negative one counts for nothing
    inputs = (
        tokens,
        router,
        first,
        of_first,
        bias,
        second,
        of_second,
        None,
        None,
        None,
        None,
        zeros_1,
        zeros_2,
        None,
        told,
    )
    sizes = {"block_size": block} if block else {}
    return Call("QMoE", inputs, (True,), {"expert_weight_bits": bits, "k": 2, **sizes, **attributes})


def test_quantized_weights():
    """Blocks of 8 bits are left out: their kernel rounds the tokens to integers."""
    forms = [(4, 16), (4, 0), (2, 16), (2, 0), (8, 0)]
    found = [quantized(*form, {}, zeros=zeros, width=32) for form in forms for zeros in (True, False)]
    found += [quantized(4, 16, {"normalize_routing_weights": n}, weights=True, width=32) for n in (0, 1)]
    found.append(quantized(4, 16, {"activation_type": "swiglu", "swiglu_fusion": 1}, width=64))
    assert check(found, grade="close", opsets=(21, 13), held=(2, 3, 4, 5, 6, 11, 12)) == 13


@pytest.mark.parametrize("kept", [11, 12])
def test_zero_points_of_one_layer(kept):
    """For which the kernel rounds weights of 4 bits in rows once more, and no others."""

    def alone(bits, block):
        call = quantized(bits, block, {}, width=32)
        return replace(call, inputs=tuple(None if i == 23 - kept else x for i, x in enumerate(call.inputs)))

    check_refused([alone(4, 0)], f"zero points of fc{kept - 10} alone")
    assert check([alone(4, 16), alone(2, 0), alone(8, 0)], grade="close", opsets=(21,)) == 3


def test_quantized_weights_that_cannot_be_said_are_refused():
    check_refused([quantized(4, 16, {"quant_type": "fp4"})], "quant_type='fp4'")
    check_refused([quantized(4, 16, {"weights_prepacked": 1})], "weights_prepacked=1")
    check_refused([quantized(4, 16, {"fc1_expert_weight_bits": 3})], "fc1_expert_weight_bits=3")


def activated(x, activation_type, swiglu_fusion=0, swiglu_limit=np.inf, activation_alpha=1.0, after=0):
    if activation_type == "relu2":
        return np.maximum(x, 0) ** 2
    gate, linear = (x[:, ::2], x[:, 1::2]) if swiglu_fusion == 1 else np.split(x, 2, axis=1)
    if activation_type == "geglu":
        return 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) * linear
    gate = gate if after else np.minimum(gate, swiglu_limit)
    opened = gate / (1 + np.exp(-activation_alpha * gate))
    return (np.minimum(opened, swiglu_limit) if after else opened) * np.clip(linear, -swiglu_limit, swiglu_limit)


@pytest.mark.parametrize(
    "options",
    [
        {"activation_type": "relu2"},
        {"activation_type": "geglu", "swiglu_fusion": 1},
        {"activation_type": "geglu", "swiglu_fusion": 2},
        {"activation_type": "swiglu", "swiglu_fusion": 2, "activation_alpha": 1.7},
        {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 0.3, "swiglu_limit_after_activation": 1},
    ],
)
def test_activations_that_other_devices_run_by_the_text(options):
    width = INNER if options["activation_type"] == "relu2" else 2 * INNER
    (call, *_) = calls(
        "MoE", given((5, SIZE), width), {"k": [2], **{name: [v] for name, v in options.items()}}, types=[FLOAT]
    )
    x, router, first, bias, second, bias_2 = (x.astype(np.float64) for x in call.inputs[:6])
    shares = np.exp(router) / np.exp(router).sum(-1, keepdims=True)
    after = {"after": options.get("swiglu_limit_after_activation", 0)}
    held = {name: v for name, v in options.items() if name != "swiglu_limit_after_activation"}
    want = np.zeros_like(x)
    for token, row in enumerate(shares):
        for expert in np.argsort(-row)[:2]:
            inner = activated(x[token : token + 1] @ first[expert].T + bias[expert], **held, **after)
            want[token] += row[expert] * (inner @ second[expert].T + bias_2[expert])[0]
    np.testing.assert_allclose(computed(call, 13)[0], want, rtol=1e-4, atol=1e-5)
