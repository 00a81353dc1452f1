"""GatedDeltaNet: sequences one after the other, of one length and of several."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import (
    FLOAT,
    HALF,
    Call,
    calls,
    check_refused,
    check_where_it_runs,
    computed,
    feeds,
    inlined,
    model,
)
from tests.support import evaluate

B, S, QUERIES, HEADS, KEY, VALUE = 2, 3, 2, 4, 4, 5
ENDS = [np.array(ends, np.int32) for ends in ([0, 1, 6], [0, 3, 6], [0, 6, 6])]
RNG = np.random.default_rng(0)
GATE, RATE = -np.abs(RNG.normal(size=(B * S, HEADS))), RNG.uniform(size=(B * S, HEADS))


def given(rule, **others):
    return {
        "query": (B * S, QUERIES, KEY),
        "key": (B * S, QUERIES, KEY),
        "value": (B * S, HEADS, VALUE),
        "decay": GATE.astype(FLOAT) if "gated" in rule else None,
        "beta": RATE.astype(FLOAT) if "delta" in rule else None,
        "initial_state": RNG.normal(size=(B, HEADS, VALUE, KEY)).astype(FLOAT),
        **others,
    }


def made(rule, attributes=None, **others):
    """Calls with all that the rule needs, a state, and the state that follows."""
    inputs = given(rule, **others)
    rows = {"update_rule": [rule], **(attributes or {})}
    needed = [i for i, held in enumerate(_all(inputs)) if held is not None and i != 3]
    found = calls("GatedDeltaNet", inputs, rows, outputs=["final_state"], types=[FLOAT])
    return [call for call in found if all(call.inputs[i] is not None for i in needed) and call.outputs[1]]


def _all(inputs):
    names = ("query", "key", "value", "cu_seqlens", "decay", "beta", "initial_state", "a_log", "dt_bias")
    return [inputs.get(name) for name in names]


def recurrence(call, *, decay=None, scale=KEY**-0.5):
    """As the text has it, one step after the other."""
    query, key, value, ends, given_decay, beta, state = (
        None if x is None else x.astype(np.float64) for x in call.inputs[:7]
    )
    decay = given_decay if decay is None else decay
    ends = (np.arange(B + 1) * S if ends is None else ends).astype(int)
    state, y = state.transpose(0, 1, 3, 2).copy(), np.zeros((B * S, HEADS, VALUE))
    for b, h in np.ndindex(B, HEADS):
        for t in range(ends[b], ends[b + 1]):
            k, v, held = key[t, h * QUERIES // HEADS], value[t, h], state[b, h]
            held = held if decay is None else np.exp(decay[t, h]).reshape(-1, 1) * held
            state[b, h] = held + np.outer(k, v if beta is None else beta[t, h] * (v - held.T @ k))
            y[t, h] = scale * state[b, h].T @ query[t, h * QUERIES // HEADS]
    return y, state.transpose(0, 1, 3, 2)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_rules(rule):
    found = made(rule, {"scale": [None, 0.3]}, cu_seqlens=ENDS)
    check_where_it_runs(found, 8, grade="close", opsets=(21, 13), symbolic=False)
    for call in found[:: 1 if rule == "gated_delta" else 3]:
        wanted = recurrence(call, scale=call.attributes.get("scale", KEY**-0.5))
        for want, got in zip(wanted, computed(call, 21), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_gates_are_computed_inside():
    vector = RNG.normal(size=HEADS).astype(FLOAT)
    wide = -np.abs(RNG.normal(size=(B * S, HEADS, KEY))).astype(FLOAT)
    biases = [RNG.normal(size=shape).astype(FLOAT) for shape in ((HEADS,), (HEADS, KEY), (HEADS * KEY,))]
    kinds = {"gate_activation": ["softplus", "qwen", "sigmoid", "kda"], "beta_activation": [None, "sigmoid"]}
    found = made("gated_delta", kinds, a_log=vector, dt_bias=biases[0])
    found += made("gated_delta", kinds, a_log=vector, dt_bias=biases, decay=wide)[::3]
    check_where_it_runs(found, 16, grade="close", opsets=(21, 13), symbolic=False)
    for call in found[::5]:
        assert computed(call, 21)[0].shape == (B * S, HEADS, VALUE)
    (call,) = made("gated_delta", {"gate_activation": ["softplus"]}, a_log=vector, dt_bias=biases[1], decay=wide)
    decay = -np.exp(vector)[:, None] * np.log1p(np.exp(wide.astype(np.float64) + biases[1]))
    np.testing.assert_allclose(computed(call, 21)[0], recurrence(call, decay=decay)[0], rtol=1e-4, atol=1e-5)


def halved(call, count):
    """The same with the first so many inputs in float16: the state is never that."""
    first = [None if x is None else x.astype(HALF) for x in call.inputs[:count]]
    return Call(call.op, (*first, *call.inputs[count:]), call.outputs, call.attributes)


def test_packed_and_batched_tokens_and_halves():
    packed = B * S, 2 * QUERIES * KEY + HEADS * VALUE
    found = made("gated_delta", {"qk_l2_norm": [None, 1]}, query=packed, key=None, value=None)
    apart = {"query": (B, S, QUERIES, KEY), "key": (B, S, QUERIES, KEY), "value": (B, S, HEADS, VALUE)}
    gates = {"decay": GATE.reshape(B, S, HEADS), "beta": RATE.reshape(B, S, HEADS)}
    batched = calls("GatedDeltaNet", {**given("gated_delta", **apart), **gates}, types=[FLOAT])
    batched = [call for call in batched if all(call.inputs[i] is not None for i in (1, 2, 4, 5))]
    found += [*batched, halved(found[0], 3), halved(found[0], 6), halved(batched[0], 3)]
    check_where_it_runs(found, 7, grade="close", opsets=(21, 13), symbolic=False)
    (call,) = made("gated_delta")
    rows = [x.reshape(B * S, -1) for x in call.inputs[:3]]
    as_one = Call(call.op, (np.concatenate(rows, 1), None, None, *call.inputs[3:]), call.outputs, call.attributes)
    for one, other in zip(computed(call, 21), computed(as_one, 21), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ends", [None, ENDS[0]])
def test_numbers_of_tokens_and_of_sequences_are_symbols(ends):
    (call, *_) = made("gated_delta", cu_seqlens=ends)
    call = Call(call.op, (*call.inputs[:3], ends, *call.inputs[4:]), call.outputs, call.attributes)
    source = model([call])
    for number, value in enumerate(source.graph.input):
        value.type.tensor_type.shape.dim[0].dim_param = f"N{number}"
    for opset in (21, 13):
        result = inlined(source, opset)
        for want, got in zip(recurrence(call), evaluate(result, feeds([call])), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_said_is_refused():
    check_refused(made("gated_delta", {"state_update_capacity": [1]}), "state_update_capacity")
    check_refused(made("gated_delta", {"gate_activation": ["softplus"]}), "needs a_log and dt_bias, and one is missing")
    check_refused(made("gated_delta", {"gate_activation": ["relu"]}), "gate_activation='relu'")
