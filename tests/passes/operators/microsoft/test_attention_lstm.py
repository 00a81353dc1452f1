"""AttnLSTM: each direction, sequences and memories that end early, and what is optional."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.microsoft.harness import FLOAT, calls, check, check_refused, model

S, B, IN, H, STEPS, DEPTH, A, L = 4, 2, 3, 5, 6, 7, 4, 2  # steps, batch, X, hidden, memory, its depth, attention, layer

WEIGHTS = (1, 2, 8, 9, 10, 13)


def given(directions, layer, **more):
    return {
        "X": (S, B, IN),
        "W": (directions, 4 * H, IN + (L if layer else DEPTH)),
        "R": (directions, 4 * H, H),
        "QW": (directions, H, A),
        "MW": (directions, DEPTH, A),
        "V": (directions, A),
        "M": (B, STEPS, DEPTH),
        "AW": (directions, DEPTH + H, L) if layer else None,
        **more,
    }


def runs(given, asked):
    """Whether there is an attention, which the kernel needs, and Y, which it writes into."""
    return all(given[8:12]) and asked[0]


@pytest.mark.parametrize("layer", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions(direction, layer):
    n = 2 if direction == "bidirectional" else 1
    ends = {"sequence_lens": np.array([4, 2], np.int32), "memory_seq_lens": np.array([3, 6], np.int32)}
    made = calls("AttnLSTM", given(n, layer, **ends), {"direction": [direction], "hidden_size": [H]}, outputs=["Y", "Y_h", "Y_c"], types=[FLOAT], fits=lambda held, asked: runs(held, asked) and held[13] == layer and all(asked))  # fmt: skip
    assert check(made, grade="close", opsets=(21, 13, 11), held=WEIGHTS) == 4


def test_what_is_optional():
    more = {"B": (1, 8 * H), "initial_h": (1, B, H), "initial_c": (1, B, H), "P": (1, 3 * H)}
    made = calls("AttnLSTM", given(1, True, **more), {"hidden_size": [H], "input_forget": [None, 1], "clip": [None, 0.5], "activations": [None, ["Sigmoid", "Relu", "Tanh"]]}, outputs=["Y", "Y_h", "Y_c"], types=[FLOAT], fits=lambda held, asked: runs(held, asked) and held[13] and all(asked))  # fmt: skip
    assert check(made, grade="close", opsets=(21, 13), held=WEIGHTS) == 128


def test_what_cannot_be_said_is_refused():
    made = calls("AttnLSTM", given(1, False), {"hidden_size": [H]}, outputs=["Y"], types=[FLOAT])
    check_refused([call for call in made if call.inputs[11] is None][:1], "QW, MW, V or M is missing")
    (whole, *_) = calls("AttnLSTM", given(1, False), {"hidden_size": [H]}, outputs=["Y"], types=[FLOAT], fits=runs)
    source = model([whole], symbolic=True)
    (refusal,) = convert.attempt(source, {"": 21}, ops=[("com.microsoft", "AttnLSTM")]).refusals
    assert "the shape of W" in refusal.why
