"""LSTM, GRU and RNN: whole sequences, and cells as sequences of one step."""

from __future__ import annotations

from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

SPELLED = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hardsigmoid": "HardSigmoid", "elu": "Elu"}
DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}
GATES = {"LSTM": [1, 3, 0, 2], "GRU": [0, 1, 2], "RNN": [0]}  # where ONNX's gates stand: iofc in fico, zrh, h


@layer("LSTMSequence", "GRUSequence", "RNNSequence")
def sequence(of: Layer) -> Made:
    """Data, states, lengths and weights; the batch comes first."""
    kind = of.type.removesuffix("Sequence")
    states = STATES[kind]
    if kind == "LSTM" and of.version < 5:
        raise Unmapped(f"version {of.version}", supported="5")
    x = of.build.Transpose(of.input(0), perm=[1, 0, 2])
    held = [of.build.Transpose(of.input(1 + index), perm=[1, 0, 2]) for index in range(states)]
    lengths = of.cast(of.input(1 + states), 6)
    weights = [of.input(2 + states + index) for index in range(3)]
    direction = of.choice("direction", ("forward", "reverse", "bidirectional"))
    y, *last = _run(of, kind, x, held, weights, lengths, direction)
    return [
        of.build.Transpose(y, perm=[2, 1, 0, 3]),
        *(of.build.Transpose(state, perm=[1, 0, 2]) for state in last),
    ]


@layer("LSTMCell", "GRUCell", "RNNCell")
def cell(of: Layer) -> Made:
    kind = of.type.removesuffix("Cell")
    states = STATES[kind]
    if kind == "LSTM":
        _check_first_version(of)
    x = of.build.Unsqueeze(of.input(0), [0])
    held = [of.build.Unsqueeze(of.input(1 + index), [0]) for index in range(states)]
    weights = [of.build.Unsqueeze(of.input(1 + states + index), [0]) for index in range(3)]
    _, *last = _run(of, kind, x, held, weights, None, "forward")
    return [of.build.Squeeze(state, [0]) for state in last]


def _check_first_version(of: Layer) -> None:
    """Which had gates of other orders, gates that share, and states that look into gates."""
    of.choice("weights_format", ("fico",), "fico")
    of.choice("input_forget", ("false", "0"), "false")
    if of.has(6) and ((looks := of.array(6)) is None or looks.any()):
        raise Unmapped("peepholes are given", supported="none, or constant zeros")


def _run(
    of: Layer, kind: str, x: str, states: list[str], weights: list[str], lengths: str | None, direction: str
) -> list[str]:
    twice = 2 if direction == "bidirectional" else 1
    hidden = of.integer("hidden_size")
    before = of.flag("linear_before_reset", False) if kind == "GRU" else False
    w, r, b = weights
    gates = GATES[kind]
    w, r = _reorder(of, w, gates), _reorder(of, r, gates)
    if before:
        z, reset, own, other = of.build.emit("Split", [b], {"axis": 1, "num_outputs": 4}, outputs=4)
        bias = of.build.Concat(z, reset, own, _zeros(of, twice, 2 * hidden), other, axis=1)
    else:
        bias = of.build.Concat(_reorder(of, b, gates), _zeros(of, twice, len(gates) * hidden), axis=1)
    clip = of.number("clip", 0.0)
    attributes = {
        "hidden_size": hidden,
        "direction": direction,
        "clip": clip if clip else None,
        "linear_before_reset": int(before) if kind == "GRU" else None,
        **_activations(of, kind, twice),
    }
    initial = [states[0], *states[1:]]
    outputs = 1 + len(states)
    made = of.build.emit(kind, [x, w, r, bias, lengths, *initial], attributes, outputs=outputs)
    return list(made)


def _zeros(of: Layer, rows: int, columns: int) -> str:
    import numpy as np

    return str(of.build.constant(np.zeros((rows, columns)), of.elem_type()))


def _reorder(of: Layer, weights: str, gates: list[int]) -> str:
    if gates == sorted(gates):
        return weights
    count = len(gates)
    parts = of.build.emit("Split", [weights], {"axis": 1, "num_outputs": count}, outputs=count)
    return str(of.build.Concat(*(parts[gate] for gate in gates), axis=1))


def _activations(of: Layer, kind: str, twice: int) -> dict[str, object]:
    """Names, and the numbers that some of them take; ONNX gives each direction its own."""
    text = of.text("activations", "")
    names = [name.strip() for name in text.split(",") if name.strip()] or DEFAULTS[kind]
    unknown = [name for name in names if name not in SPELLED]
    if unknown or len(names) != len(DEFAULTS[kind]):
        raise Unmapped(f"activations {', '.join(names)}")
    if names == DEFAULTS[kind]:
        return {}
    numbers = {key: of.text(f"activations_{key}", "").strip() for key in ("alpha", "beta")}
    if any(numbers.values()) or {"hardsigmoid", "elu"} & set(names):
        raise Unmapped(f"activations {', '.join(names)} with alpha or beta")
    return {"activations": [SPELLED[name] for name in names] * twice}
