"""VarlenCausalConvWithState: sequences one after the other, whose first tokens see what was before them."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, calls, check_refused, check_where_it_runs, computed

SEQUENCES = 2
ENDS = [np.array(ends, np.int32) for ends in ([0, 1, 6], [0, 3, 6])]


def convolved(call):
    """As the text has it: a convolution behind the state of each sequence."""
    x, weight, ends, bias, states = call.inputs[:5]
    dilation, taps = call.attributes.get("dilation", 1), weight.shape[2]
    ys, after, before = [], [], (taps - 1) * dilation
    for state, start, end in zip(states, ends, ends[1:], strict=False):
        joined = np.concatenate([state.T, x[start:end]]).astype(np.float64)
        y = sum(joined[k * dilation :][: end - start] * weight[:, 0, k] for k in range(taps))
        y = y if bias is None else y + bias
        ys.append(y / (1 + np.exp(-y)) if "activation" in call.attributes else y)
        after.append(joined[len(joined) - before :].T)
    return np.concatenate(ys), np.stack(after)


@pytest.mark.parametrize(("taps", "dilation"), [(3, 2), (2, 1), (1, 1)])
def test_convolutions(taps, dilation):
    inputs = {
        "input": (6, 3),
        "weight": (3, 1, taps),
        "cumulative_sequence_length": ENDS,
        "bias": (3,),
        "initial_state": (SEQUENCES, 3, (taps - 1) * dilation),
    }
    rows = {"activation": [None, "silu"], "dilation": [dilation]}
    found = calls("VarlenCausalConvWithState", inputs, rows)
    check_where_it_runs(found, 16, grade="close", held=[1], opsets=(21, 13))
    for call in found[:8:3]:
        for want, got in zip(convolved(call), computed(call, 13), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_the_first_tokens_of_each_sequence_are_kept():
    inputs = {
        "input": (6, 3),
        "weight": (3, 1, 2),
        "cumulative_sequence_length": ENDS[0],
        "initial_state": (SEQUENCES, 3, 1),
        "capture_count": np.array([2, 2], np.int32),
    }
    found = calls("VarlenCausalConvWithState", inputs, {"state_update_capacity": [3]}, outputs=["state_update"])
    found = [call for call in found if call.inputs[5] is not None and call.outputs[2]]
    check_where_it_runs(found, 2, grade="close", held=[1])
    kept = computed(found[0], 21)[2]
    x = found[0].inputs[0]
    np.testing.assert_array_equal(kept, [[x[0], 0 * x[0], 0 * x[0]], [x[1], x[2], 0 * x[0]]])


def test_taps_that_are_told_at_run_time_are_refused():
    mask, delta = np.ones((6, 1), FLOAT), np.ones((6, 2, 3), FLOAT)
    inputs = {
        "input": (6, 3),
        "weight": (3, 1, 2),
        "cumulative_sequence_length": ENDS[0],
        "initial_state": (SEQUENCES, 3, 1),
    }
    found = calls("VarlenCausalConvWithState", {**inputs, "kernel_delta": delta, "previous_mask": mask}, types=[FLOAT])
    check_refused([call for call in found if call.inputs[6] is not None], "kernel_delta", held=[1])
