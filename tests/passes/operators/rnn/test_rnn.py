"""RNN, GRU and LSTM: output_sequence, layout, linear_before_reset and bfloat16."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPS = list(GATES)
RNG = np.random.default_rng(0)


def weights(op, kind="float", directions=1):
    gates = 2 * GATES[op]
    return f"{kind}[{directions},{gates},3] w, {kind}[{directions},{gates},2] r"


def io(op, outputs, kind="float", x="5,4,3", extra=""):
    return {"inputs": f"{kind}[{x}] x, {weights(op, kind)}{extra}", "outputs": outputs}


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def feeds(op, **extra):
    gates = 2 * GATES[op]
    return {"x": random(5, 4, 3), "w": random(1, gates, 3), "r": random(1, gates, 2), **extra}


@pytest.mark.parametrize("op", OPS)
def test_nothing_to_do_from_7_on(op):
    body = f'y, h = {op}<hidden_size=2, direction="reverse", clip=3.0>(x, w, r)'
    for source, target in ((7, 28), (28, 7)):
        check_unchanged(body, source, target, **io(op, "float[5,1,4,2] y, float[1,4,2] h"))
    check_unchanged(f", h = {op}<hidden_size=2>(x, w, r)", 7, 3, **io(op, "float[1,4,2] h"))


# No engine runs these operators below opset 7, so the forms alone are compared.


@pytest.mark.parametrize("op", OPS)
def test_output_sequence_says_whether_y_is_an_output(op):
    before, after = (
        f"y = {op}<hidden_size=2>(x, w, r)",
        f"y = {op}<hidden_size=2, output_sequence=1>(x, w, r)",
    )
    check(before, 7, after, 6, run=False, **io(op, "float[5,1,4,2] y"))
    check(after, 6, before, 7, run=False, **io(op, "float[5,1,4,2] y"))
    check(
        f", h = {op}<hidden_size=2, output_sequence=0>(x, w, r)", 6,
        f"_, h = {op}<hidden_size=2>(x, w, r)", 7,
        run=False, **io(op, "float[1,4,2] h"),
    )  # fmt: skip


def test_the_default_direction_of_a_gru_is_written_out_below_3():
    ends = io("GRU", "float[5,1,4,2] y")
    both = "y, t1 = GRU<direction=forward, hidden_size=2, output_sequence=1>(x, w, r)"
    check("y = GRU<hidden_size=2, output_sequence=1>(x, w, r)", 3, both, 2, run=False, **ends)
    check("y = GRU<hidden_size=2, linear_before_reset=0>(x, w, r)", 7, both, 1, run=False, **ends)
    ends = io("GRU", "float[1,4,2] h")
    check_unchanged(', h = GRU<hidden_size=2, direction="reverse">(x, w, r)', 3, 1, **ends)
    check_unchanged(", h = GRU<hidden_size=2>(x, w, r)", 1, 6, **ends)
    check(
        ', h = GRU<hidden_size=2, direction="foward">(x, w, r)', 1,
        "_, h = GRU<direction=forward, hidden_size=2>(x, w, r)", 3, run=False, **ends,
    )  # fmt: skip


def test_linear_before_reset_is_refused_below_3():
    why = "linear_before_reset is set; supported: 0"
    ends = io("GRU", "float[1,4,2] h")
    check_refused(", h = GRU<hidden_size=2, linear_before_reset=1>(x, w, r)", 3, 2, why, **ends)


@pytest.mark.parametrize("op", OPS)
def test_layout_0_goes(op):
    ends = io(op, "float[5,1,4,2] y")
    check(
        f"y = {op}<hidden_size=2, layout=0>(x, w, r)",
        14,
        f"y = {op}<hidden_size=2>(x, w, r)",
        13,
        feeds=feeds(op),
        **ends,
    )


# onnxruntime refuses layout 1 and onnx.reference knows one direction of it: the oracle is layout 0.
STATES = {"RNN": ("h0", "h"), "GRU": ("h0", "h"), "LSTM": ("h0, c0", "h, c")}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", OPS)
def test_layout_1_becomes_transposes(op, direction):
    given, yielded = STATES[op]
    count = 2 if direction == "bidirectional" else 1
    states = [name.strip() for name in (*given.split(","), *yielded.split(","))]
    shapes = {"x": (5, 4, 3), **dict.fromkeys(states, (count, 4, 2)), "y": (5, count, 4, 2)}
    order = {"x": (1, 0, 2), **dict.fromkeys(states, (1, 0, 2)), "y": (2, 0, 1, 3)}

    def build(layout):
        def declared(name):
            shape = [shapes[name][i] for i in order[name]] if layout else shapes[name]
            return f"float[{','.join(map(str, shape))}] {name}"

        attributes = f'hidden_size=2, direction="{direction}", layout={layout}'
        text = f"y, {yielded} = {op}<{attributes}>(x, w, r, , l, {given})"
        starts = ", ".join(declared(name) for name in given.split(", "))
        ends = ", ".join(declared(name) for name in ("y", *yielded.split(", ")))
        inputs = f"{declared('x')}, {weights(op, directions=count)}, int32[4] l, {starts}"
        return model(text, 14, inputs=inputs, outputs=ends)

    result = convert.attempt(build(1), {"": 13})
    assert result.grade == "exact"
    gates = 2 * GATES[op]
    values = {"x": random(5, 4, 3), "w": random(count, gates, 3), "r": random(count, gates, 2)}
    values |= {name: random(count, 4, 2) for name in given.split(", ")}
    values["l"] = np.array([5, 4, 3, 1], np.int32)
    swapped = {name: value.transpose(order[name]) if name in order else value for name, value in values.items()}
    expected = evaluate(build(0), values)
    actual = evaluate(result.model, swapped)
    for name, e, a in zip(["y", *yielded.split(", ")], expected, actual, strict=True):
        np.testing.assert_array_equal(a, e.transpose(order[name]))


def test_layout_1_leaves_omitted_inputs_and_outputs_out():
    check(
        ", h = LSTM<hidden_size=2, layout=1>(x, w, r)", 14,
        """t1 = Transpose<perm=[1, 0, 2]>(x)
        _, t2 = LSTM<hidden_size=2>(t1, w, r)
        h = Transpose<perm=[1, 0, 2]>(t2)""", 13,
        feeds=feeds("LSTM"), **io("LSTM", "float[5,1,2] h"), atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("op", OPS)
def test_bfloat16_is_carried_in_float(op):
    # No engine runs these operators in bfloat16.
    source = io(op, "bfloat16[1,4,2] h", kind="bfloat16")
    check(
        f", h = {op}<hidden_size=2>(x, w, r)", 22,
        f"""t1 = Cast<to=1>(x)
        t2 = Cast<to=1>(w)
        t3 = Cast<to=1>(r)
        _, t4 = {op}<hidden_size=2>(t1, t2, t3)
        h = Cast<to=16>(t4)""", 21, grade="close", run=False, **source,
    )  # fmt: skip


def test_inside_a_branch():
    source = model(
        """y = If(c) <
            then_branch = g1 () => (float[4,5,1,2] a) { a = RNN<hidden_size=2, layout=1>(x, w, r) },
            else_branch = g2 () => (float[4,5,1,2] b) { b = RNN<hidden_size=2, layout=1, clip=0.1>(x, w, r) }
        >""", 14, **io("RNN", "float[4,5,1,2] y", x="4,5,3", extra=", bool c"),
    )  # fmt: skip
    result = convert.attempt(source, {"": 13})
    for attribute in result.model.graph.node[0].attribute:
        assert [n.op_type for n in attribute.g.node] == ["Transpose", "RNN", "Transpose"]
    onnx.checker.check_model(result.model, full_check=True)


def test_inside_a_function_that_binds_layout():
    text = f"""<ir_version: 8, opset_import: ["" : 14, "f" : 1]>
    g (float[4,5,3] x, {weights("RNN")}) => (float[4,5,1,2] y) {{ y = f.rnn<order=1>(x, w, r) }}
    <opset_import: ["" : 14], domain: "f"> rnn<order>(x, w, r) => (y) {{
        y = RNN<hidden_size=2, layout: int = @order>(x, w, r)
    }}"""
    source = onnx.parser.parse_model(text)
    result = convert.attempt(source, {"": 13})
    assert show(result.model) == (
        "t1 = Transpose<perm=[1, 0, 2]>(x)\nt2 = RNN<hidden_size=2>(t1, w, r)\ny = Transpose<perm=[2, 0, 1, 3]>(t2)"
    )
    check_values(source, result.model, {**feeds("RNN"), "x": random(4, 5, 3)}, rtol=0, atol=1e-6)


def test_a_clip_of_0_clips_on_request():
    source = model(", h = RNN<hidden_size=2, clip=0.0>(x, w, r)", 14, **io("RNN", "float[1,4,2] h"))
    after = convert.attempt(source, {"": 14}, ops=[("", "RNN")]).model
    check_values(source, after, feeds("RNN"), rtol=1e-6, atol=1e-6)
