"""LinearAttention and its gates, CausalConvWithState, hyper-connections and what gates them."""

import numpy as np
import onnx
import pytest

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.microsoft.harness import FLOAT, calls, check, check_refused, feeds, inlined, model
from tests.support import evaluate

B, T = 2, 3


@pytest.mark.parametrize("heads", [(4, 2), (2, 4)])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(heads, rule):
    queries, keys = heads
    rng = np.random.default_rng(0)
    decays = [-np.abs(rng.normal(size=(B, T, width))) for width in (keys, keys * 4)]
    found = calls(
        "LinearAttention",
        {
            "query": (B, T, queries * 4),
            "key": (B, T, keys * 4),
            "value": (B, T, keys * 5),
            "past_state": (B, keys, 4, 5),
            "decay": decays if "gated" in rule else None,
            "beta": [(B, T, keys), (B, T, 1)] if "delta" in rule else None,
        },
        {"q_num_heads": [queries], "kv_num_heads": [keys], "update_rule": [rule], "scale": [None, 0.5]},
        types=[FLOAT],
    )
    needed = ([4] if "gated" in rule else []) + ([5] if "delta" in rule else [])
    found = [call for call in found if all(call.inputs[i] is not None for i in needed)]
    assert check(found[::3], grade="close", opsets=(21, 13)) == {4: 2, 8: 3, 16: 6}[len(found)]


def test_linear_attention_is_told_ranks():
    """Without which onnxruntime 1.32 does not run the body of the standard operator."""
    given = {"query": (B, T, 16), "key": (B, T, 8), "value": (B, T, 10), "past_state": (B, 2, 4, 5)}
    made = calls("LinearAttention", given, {"q_num_heads": [4], "kv_num_heads": [2], "update_rule": ["linear"]}, types=[FLOAT])  # fmt: skip
    source = model(made)
    for value in source.graph.input:
        value.type.tensor_type.ClearField("shape")
    for value in source.graph.output:
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(1, None))
    result = inlined(source, 27)
    assert [node.op_type for node in result.graph.node].count("Reshape") == 3 * 2 + 1  # a state for one of both
    for want, got in zip(OnnxRuntime(source).run(feeds(made)), evaluate(result, feeds(made)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_gates_of_linear_attention():
    vector = np.random.default_rng(0).normal(size=4).astype(FLOAT)
    given = {"a": (B, T, 4), "dt_bias": vector, "decay_scale": vector, "b": (B, T, 4)}
    assert check(calls("LinearAttentionGate", given, outputs=["beta"], types=[FLOAT]), grade="close") == 3


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 5, 6), (2, 5, 2, 3)])
@pytest.mark.parametrize("taps", [3, 1])
def test_causal_convolution(shape, taps):
    last = shape[1] != 6
    for dilation in (None, 2):
        before = (taps - 1) * (dilation or 1)
        state = (2, before, *shape[2:]) if last else (2, 6, before)
        found = calls(
            "CausalConvWithState",
            {"input": shape, "weight": (6, 1, taps), "bias": (6,), "past_state": state},
            {"activation": [None, "silu"], "dilation": [dilation], "channels_last": [int(last)]},
            types=[FLOAT],
        )
        assert check(found[:: 1 if dilation else 3], grade="close", opsets=(21, 13), held=[1]) == (8 if dilation else 3)


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("last", [0, 1])
def test_a_convolution_of_no_tokens_keeps_the_state(last, taps):
    state = (2, taps - 1, 6) if last else (2, 6, taps - 1)
    given = {"input": (2, 0, 6) if last else (2, 6, 0), "weight": (6, 1, taps), "bias": (6,), "past_state": state}
    options = {"activation": [None, "silu"], "channels_last": [last]}
    found = calls("CausalConvWithState", given, options, outputs=["present_state"], types=[FLOAT])
    assert check(found, grade="close", opsets=(21, 13), held=[1], symbolic=False) == len(found)


@pytest.mark.parametrize("lead", [(2, 3), (2,)])
@pytest.mark.parametrize("branches", [None, 4])
def test_hyper_connections(lead, branches):
    streams = (*lead, 20) if branches else (*lead, 4, 5)
    gates = [(*lead, 4), (*lead, 4, 1), (*lead, 4, 5)]
    attributes = {"num_branches": [branches]}
    given = {"streams": streams, "pre_mix": [*gates, *([(*lead, 20)] if branches else [])]}
    found = calls("HyperConnectionPreMix", given, {**attributes, "reduction_scale": [None, 0.5]})
    assert check(found, grade="close") == (16 if branches else 12)
    given = {"streams": streams, "block_output": (*lead, 5), "post_mix": gates, "stream_mix": (*lead, 4, 4)}
    assert check(calls("HyperConnectionPostMix", given, attributes), grade="close") == 12


def test_engram_gate():
    scales = dict.fromkeys(("key_norm_scale", "query_norm_scale", "conv_norm_scale"), (4, 5))
    given = {"key": (2, 3, 4, 5), "query": (2, 3, 4, 5), "value": (2, 3, 5), **scales}
    found = calls("EngramGate", given, {"epsilon": [None, 0.1]}, outputs=["gated_value_normed"])
    assert check(found, grade="close") == 12


def test_what_cannot_be_said_is_refused():
    given = {"input": (2, 6, 5), "weight": (6, 1, 3)}
    extended = (
        "state_length",
        "state_channels_last",
        "state_update_capacity",
        "input_channels",
        "input_channel_offset",
    )
    for name, value in (("ndim", 2), ("state_window", 1), *((name, 1) for name in extended)):
        check_refused(calls("CausalConvWithState", given, {name: [value]}), f"{name}={value}", held=[1])
    check_refused(calls("CausalConvWithState", given, {"activation": ["relu"]}), "activation='relu'", held=[1])
    heads = {"q_num_heads": [2], "kv_num_heads": [2], "update_rule": ["linear"]}
    given = {"query": (B, T, 8), "key": (B, T, 8), "value": (B, T, 8)}
    check_refused(calls("LinearAttention", given, {**heads, "state_window": [2]}), "state_window=2")
    check_refused(calls("LinearAttention", given, {**heads, "update_rule": ["gated"]}), "needs input 4")
