"""HyperConnectionLowRankMix, which no CPU kernel runs: by its text."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import calls, near, sigmoid, wide


@pytest.mark.parametrize("lead", [(2, 3), (3,)])
def test_streams_with_gates_of_their_own(lead):
    many, size, rank = 2, 3, 4
    given = {
        "streams": (*lead, many * size),
        "norm_scale": (many * size,),
        "down_weight": (many * size, rank),
        "up_weight": (rank, many * size),
        "inject_weight": (many * size, many),
        "prev_block_output": (*lead, size),
        "prev_post_gate": (*lead, many),
    }
    factors = {"silu_alpha": [None, 0.7], "gate_div": [2.0], "gate_mul": [1.5], "reduction_scale": [None, 0.5]}
    found = calls("HyperConnectionLowRankMix", given, {"num_branches": [many], **factors}, outputs=["streams_out"])
    for call in [call for call in found if (call.inputs[5] is None) == (call.inputs[6] is None)][::5]:
        streams, scale, down, up, inject, block, gate = wide(call)
        s = streams.reshape(*lead, many, size)
        s = s if block is None else s + gate[..., None] * block[..., None, :]
        normal = s / np.sqrt((s**2).mean(-1, keepdims=True) + 1e-5) * scale.reshape(many, size)
        line = normal.reshape(*lead, -1)
        z = call.attributes.get("silu_alpha", 1.0) * (line @ down)
        gates = sigmoid((z * sigmoid(z)) @ up).reshape(normal.shape)
        mixed = call.attributes.get("reduction_scale", 1.0) * (normal * gates).sum(-2)
        wanted = [mixed, sigmoid((line @ inject) / 2.0) * 1.5, s.reshape(streams.shape)]
        near(call, wanted[: 2 + call.outputs[2]])
