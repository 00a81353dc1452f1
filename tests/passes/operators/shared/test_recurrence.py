"""RNN, GRU and LSTM as Scan, judged by onnxruntime's kernels over the attributes that these have."""

import itertools

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_values, evaluate, model

SEQ, BATCH, INPUT, HIDDEN = 4, 3, 2, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def call(
    op, attributes="", *, directions=1, bias=True, lengths=False, initial=False, peepholes=False, opset=14, batch=BATCH
):
    """A model with one node, whose weights are initializers; and what to feed it."""
    rng, g = np.random.default_rng(7), GATES[op]
    shapes = {"w": (directions, g * HIDDEN, INPUT), "r": (directions, g * HIDDEN, HIDDEN)}
    shapes |= {"b": (directions, 2 * g * HIDDEN)} if bias else {}
    given = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    first = "layout = 1" in attributes
    state = (BATCH, directions, HIDDEN) if first else (directions, BATCH, HIDDEN)
    states = ["h", "c"][: 2 if op == "LSTM" else 1] if initial else []
    feeds = {"x": rng.uniform(-2, 2, (BATCH, SEQ, INPUT) if first else (SEQ, BATCH, INPUT)).astype(np.float32)}
    feeds |= {name: rng.uniform(-1, 1, state).astype(np.float32) for name in states}
    feeds |= {"n": np.array([4, 2, 1], np.int32)} if lengths else {}
    if peepholes:
        given["p"] = rng.uniform(-1, 1, (directions, 3 * HIDDEN)).astype(np.float32)
    names = [
        "x",
        "w",
        "r",
        "b" * bias,
        "n" * lengths,
        *[(s if s in states else "") for s in ("h", "c")],
        "p" * peepholes,
    ]
    while not names[-1]:
        names.pop()
    outputs = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    axes = "S,N,I" if batch is None else ",".join(map(str, feeds["x"].shape))
    text = {k: f"{'int32' if k == 'n' else 'float'}[{axes if k == 'x' else ','.join(map(str, v.shape))}] {k}" for k, v in feeds.items()}  # fmt: skip
    io = {
        "inputs": ", ".join(text.values()),
        "outputs": ", ".join(f"float[{','.join('abcd'[: 4 if o == 'y' else 3])}] {o}" for o in outputs),
        "constants": ", ".join(
            f"float[{','.join(map(str, v.shape))}] {k} = {{{','.join(map(repr, map(float, v.ravel())))}}}"
            for k, v in given.items()
        ),
    }
    inside = ", ".join(filter(None, [f"hidden_size = {HIDDEN}", attributes]))
    return model(f"{', '.join(outputs)} = {op}<{inside}>({', '.join(names)})", opset, **io), feeds


def check(source, feeds):
    op = source.graph.node[0].op_type
    opset = source.opset_import[0].version
    result = convert.attempt(source, {"": opset}, ops=[("", op)])
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert op not in {node.op_type for node in result.model.graph.node}
    assert result.grade == "close"
    check_values(source, result.model, feeds, rtol=1e-5, atol=1e-6)
    return result.model


DIRECTIONS = ["forward", "reverse", "bidirectional"]


@pytest.mark.parametrize(("op", "direction", "lengths", "initial"), [*itertools.product(GATES, DIRECTIONS, [False, True], [False, True])])  # fmt: skip
def test_directions_lengths_and_states(op, direction, lengths, initial):
    check(*call(op, f'direction = "{direction}"', directions=1 + (direction == "bidirectional"), lengths=lengths, initial=initial))  # fmt: skip


@pytest.mark.parametrize(
    ("op", "attributes", "options"),
    [
        ("RNN", 'activations = ["Relu"]', {}),
        ("RNN", 'activations = ["HardSigmoid"], activation_alpha = [0.3], activation_beta = [0.6]', {}),
        pytest.param("RNN", 'activations = ["LeakyRelu"]', {}, marks=pytest.mark.newest),  # older kernels take alpha for 0
        ("RNN", 'activations = ["ThresholdedRelu"], activation_alpha = [0.5]', {}),
        ("RNN", 'activations = ["Softplus"]', {}),
        pytest.param("RNN", 'activations = ["Elu"]', {}, marks=pytest.mark.newest),
        ("RNN", "clip = 0.5", {}),
        ("RNN", "", {"bias": False}),
        ("GRU", "linear_before_reset = 1", {}),
        ("GRU", "linear_before_reset = 1", {"bias": False}),
        ("GRU", "linear_before_reset = 1, clip = 0.4", {"lengths": True, "initial": True}),
        ("GRU", 'activations = ["HardSigmoid", "Softsign"], activation_alpha = [0.3]', {}),
        ("GRU", "", {"bias": False}),
        ("LSTM", "", {"bias": False, "peepholes": True}),
        ("LSTM", "", {"peepholes": True, "initial": True, "lengths": True}),
        ("LSTM", "input_forget = 1", {}),
        ("LSTM", "clip = 0.3", {}),
        ("LSTM", 'activations = ["HardSigmoid", "LeakyRelu", "Softsign"], activation_alpha = [0.3, 0.05], activation_beta = [0.45]', {}),
        ("LSTM", 'direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Relu", "Tanh"]', {"directions": 2, "peepholes": True, "initial": True}),
    ],
)  # fmt: skip
def test_attributes(op, attributes, options):
    check(*call(op, attributes, **options))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(("opset", "batch"), [(7, BATCH), (13, BATCH), (14, None), (22, None)])
def test_opsets_and_unknown_sizes(op, opset, batch):
    check(*call(op, opset=opset, batch=batch))


@pytest.mark.parametrize("op", GATES)
def test_the_batch_first(op):
    source, feeds = call(op, "layout = 1", initial=True)
    result = convert.attempt(source, {"": 14}, ops=[("", op)])
    actual = evaluate(result.model, feeds)
    turned, _ = call(op, initial=True)
    swapped = {name: value.swapaxes(0, 1) for name, value in feeds.items()}
    y, *states = evaluate(turned, swapped)
    np.testing.assert_allclose(actual[0], y.transpose(2, 0, 1, 3), rtol=1e-5, atol=1e-6)
    for state, expected in zip(actual[1:], states, strict=True):
        np.testing.assert_allclose(state, expected.swapaxes(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ('activations = ["Affine"]', "Sigmoid, Softsign, Softplus, LeakyRelu"),
        ('activations = ["Tanh", "Tanh"]', "supported: "),
        ("activation_alpha = [0.5]", "activation_alpha has 1 values; supported: 0"),
        ('direction = "sideways"', "direction='sideways'"),
    ],
)
def test_refused(attributes, why):
    source, _ = call("RNN", attributes)
    assert why in "\n".join(map(str, convert.attempt(source, {"": 14}, ops=[("", "RNN")]).refusals))


def test_no_sequence_at_all():
    source = model(
        "y = RNN<hidden_size=4>(x, w, r)",
        14,
        inputs="float[3,0,2] x, float[1,4,2] w, float[1,4,4] r",
        outputs="float[A,B,C,D] y",
    )
    made = convert.attempt(source, {"": 14}, ops=[("", "RNN")]).model
    onnx.checker.check_model(made, full_check=True)  # onnxruntime ends in a Scan of no element
