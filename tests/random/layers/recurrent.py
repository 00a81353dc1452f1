"""Sequences and their cells."""

from __future__ import annotations

from typing import Any

from tests.random.layers.draw import INTEGERS, Draw, recipe


@recipe
def recurrent(d: Draw) -> Any:
    """At least one sequence of one step: of none, onnxruntime ends its process."""
    kind = d.one(("LSTM", "GRU", "RNN"))
    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[kind]
    batch, time, size, hidden = d.number(1, 3), d.number(1, 4), d.number(1, 3), d.number(1, 3)
    whole = d.chance()
    direction = d.one(("forward", "reverse", "bidirectional")) if whole else "forward"
    count = 2 if direction == "bidirectional" else 1
    held: dict[str, Any] = {"hidden_size": hidden}
    biases = gates
    if kind == "GRU":
        held["linear_before_reset"] = d.chance()
        biases += int(held["linear_before_reset"])
    if d.chance(0.2):
        held["clip"] = 0.75
    if d.chance(0.2):
        held["activations"] = {"LSTM": ["sigmoid", "relu", "tanh"], "GRU": ["sigmoid", "relu"], "RNN": ["relu"]}[kind]
    lead = [count] if whole else []
    weights = [
        d.like([*lead, gates * hidden, size], run_time=0.1),
        d.like([*lead, gates * hidden, hidden], run_time=0.1),
    ]
    weights.append(d.like([*lead, biases * hidden], run_time=0.1))
    if whole:
        start = [d.like([batch, count, hidden]) for _ in range(states)]
        lengths = d.given(d.numbers(batch, 1, time), d.one(INTEGERS), 0.3)
        x = d.parameter(d.array([batch, time, size]))
        return d.make(5, f"{kind}Sequence", [x, *start, lengths, *weights], direction=direction, **held)
    x = d.parameter(d.array([batch, size]))
    start = [d.like([batch, hidden]) for _ in range(states)]
    return d.make({"LSTM": 4, "GRU": 3, "RNN": 1}[kind], f"{kind}Cell", [x, *start, *weights], **held)
