"""Nodes that a twin runs itself: casts, constants, and those that hold graphs, held against what they are in numpy."""

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest

from opshift.verification.engines import EngineError
from opshift.verification.twins import nodes
from opshift.verification.twins.twin import Twin
from tests.support import model

X = np.float32([[0.1, -1.7, 2.5], [3.0, -0.4, 0.0]])
W = X.astype(np.float64)


def run(body, opset=18, inputs="float[A,B] x", outputs="y", constants="", given=None, **more):
    twin = Twin(model(body, opset, inputs=inputs, outputs=outputs, constants=constants), **more)
    return twin.run({"x": X, **(given or {})})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Cast<to = 11>(x)", W),
        ("h = Cast<to = 10>(x) y = Cast<to = 11>(h)", X.astype("f2").astype("f8")),
        (
            "d = Cast<to = 11>(x) h = Cast<to = 10>(d) f = Cast<to = 1>(h) y = Cast<to = 11>(f)",
            X.astype("f2").astype("f8"),
        ),
        ("d = Cast<to = 11>(x) f = Cast<to = 1>(d) y = Cast<to = 11>(f)", W),
        ("h = Cast<to = 10>(x) b = Cast<to = 16>(h) y = Cast<to = 1>(b)", None),
        ("i = Cast<to = 6>(x) y = Cast<to = 1>(i)", np.trunc(W)),
        ("b = Cast<to = 9>(x) y = Cast<to = 10>(b)", W != 0),
        ("b = Cast<to = 9>(x) y = Cast<to = 11>(b)", W != 0),
        ("s = Cast<to = 8>(x) y = Cast<to = 1>(s)", W),
        ("h = Cast<to = 10>(x) y = CastLike(h, x)", X.astype("f2").astype("f8")),
        ("h = Cast<to = 10>(x) t = CastLike(x, h) y = Exp(t)", np.exp(W)),
        ("i = Cast<to = 7>(x) t = CastLike(x, i) y = CastLike(t, x)", np.trunc(W)),
        ("b = Cast<to = 9>(x) t = CastLike(x, b) y = CastLike(t, x)", W != 0),
        ("y = Identity(x)", W),
    ],
)
def test_casts(body, expected):
    (made,) = run(body)
    assert made.dtype == np.float64
    if expected is None:  # rounded to 8 bits
        np.testing.assert_allclose(made, W, rtol=2.0**-8)
        assert (made != W).any()
    else:
        np.testing.assert_allclose(made, expected, rtol=1e-7)


def test_a_cast_that_stores_rounds_nothing():
    body = "h = Cast<to = 10>(x) y = Cast<to = 1>(h)"
    assert (run(body, unrounded=["h"])[0] == W).all()
    assert (run(body, unrounded=["other"])[0] == X.astype("f2")).all()


def test_a_cast_that_saturates_or_not():
    body = "e = Cast<to = 17, saturate = {}>(x) y = Cast<to = 1>(e)"
    given = {"x": np.float32([[1e6, 1.0, -1e6]])}
    assert run(body.format(1), 19, given=given)[0].tolist() == [[448, 1, -448]]
    assert np.isnan(run(body.format(0), 19, given=given)[0][0, [0, 2]]).all()


def test_a_cast_to_a_type_by_name():
    assert (run('i = Cast<to = "INT32">(x) y = Cast<to = "FLOAT">(i)', 5)[0] == np.trunc(W)).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("value = float[2] {0.1, 0.2}", np.float32([0.1, 0.2])),
        ("value_float = 0.1", np.float32(0.1)),
        ("value_floats = [0.1, 0.2]", np.float32([0.1, 0.2])),
        ("value_int = 3", np.array(3)),
        ("value_ints = [3, 4]", np.array([3, 4])),
        ("value = int32[1] {5}", np.int32([5])),
    ],
)
def test_constants(value, expected):
    (made,) = run(f"y = Constant<{value}>()")
    assert made.dtype == (np.float64 if expected.dtype == np.float32 else expected.dtype)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("body", "opset", "mask"),
    [
        ("y, m = Dropout(x)", 18, bool),
        ("y, m = Dropout(x, r)", 12, bool),
        ("y, m = Dropout(x, r, f)", 13, bool),
        ("y, m = Dropout(x)", 10, bool),
        ("y, m = Dropout(x)", 9, np.float64),
        ("y, m = Dropout<is_test = 1>(x)", 6, np.float64),
    ],
)
def test_what_lets_everything_pass(body, opset, mask):
    y, m = run(body, opset, outputs="y, m", constants="float r = {0.5}, bool f = {0}")
    assert (y == W).all()
    assert m.dtype == mask
    assert (m == np.ones_like(W)).all()


@pytest.mark.parametrize(
    ("body", "opset"),
    [("y, m = Dropout(x, r, t)", 13), ("y, m = Dropout(x)", 6), ("y, m = Dropout<is_test = 0>(x)", 6)],
)
def test_what_drops_is_drawn(body, opset):
    if opset == 6 and "is_test" not in body:
        assert (run(body, opset)[0] == W).all()
        return
    with pytest.raises(EngineError, match="Dropout draws numbers"):
        run(body, opset, constants="float r = {0.5}, bool t = {1}")


def test_a_branch_is_taken_as_decided():
    body = "y = If(c) <then_branch = t () => (p) { p = Exp(x) }, else_branch = e () => (q) { q = Neg(x) }>"
    for held, expected in ((True, np.exp(W)), (False, -W), ([True], np.exp(W))):
        (made,) = run(body, inputs="float[A,B] x, bool c", given={"c": np.array(held)})
        np.testing.assert_allclose(made, expected, rtol=1e-15)


LOOP = "body = b (int64 i, bool go, v) => (on, w, r) {{ w = Add(v, h) f = Cast<to = 1>(i) r = Mul(w, f) on = {} }}"


def loop(call, on, opset=18, **given):
    inputs = "float[A,B] x, int64 n, bool c"
    held = "float h = {0.5}, float k = {4}"
    held_on = {"go": "Identity(go)", "small": "Less(w0, k)"}[on]
    body = f"y, z = Loop<{LOOP.format(held_on).replace('on = Less(w0, k)', 'm = ReduceMax<keepdims = 0>(w) on = Less(m, k)')}>({call}, x)"
    twin = Twin(model(body, opset, inputs=inputs, outputs="y, z", constants=held))
    return twin.run({"x": X, "n": np.array(3), "c": np.array(True), **given})


def test_a_loop_goes_on_as_long_as_it_is_told():
    for call, turns in (("n, c", 3), ("n, ", 3)):
        y, z = loop(call, "go")
        np.testing.assert_allclose(y, W + 0.5 * turns, rtol=1e-15)
        np.testing.assert_allclose(z, [(W + 0.5 * (k + 1)) * k for k in range(turns)], rtol=1e-15)
    y, z = loop(", ", "small")
    assert z.shape == (2, 2, 3), "until it is 4"
    y, z = loop("n, c", "small", n=np.array(1))
    assert z.shape == (1, 2, 3)


def test_a_loop_of_no_turns_has_no_rows():
    for given in ({"n": np.array(0)}, {"c": np.array(False)}):
        with pytest.raises(EngineError, match="a Loop of no turns"):
            loop("n, c", "go", **given)
    body = "y = Loop<body = b (int64 i, bool go, v) => (on, w) { w = Neg(v) on = Identity(go) }>(n, , x)"
    (made,) = run(body, inputs="float[A,B] x, int64 n", given={"n": np.array(0)})
    assert (made == W).all(), "the state is what it was"


def test_a_loop_without_an_end_ends(monkeypatch):
    monkeypatch.setattr(nodes, "_MOST_TURNS", 5)
    with pytest.raises(EngineError, match="a Loop without an end"):
        loop("n, c", "go", n=np.array(7))
    assert loop("n, c", "go", n=np.array(5))[1].shape == (5, 2, 3)


SCAN = "body = b (s, v) => (t, r) { t = Add(s, v) r = Mul(t, v) }"


@pytest.mark.parametrize("back_in", [0, 1])
@pytest.mark.parametrize("back_out", [0, 1])
@pytest.mark.parametrize("axis_in", [0, 1])
@pytest.mark.parametrize("axis_out", [0, 1])
def test_a_scan_goes_along_axes_in_either_direction(axis_out, axis_in, back_out, back_in):
    how = f"scan_input_axes = [{axis_in}], scan_input_directions = [{back_in}], "
    how += f"scan_output_axes = [{axis_out}], scan_output_directions = [{back_out}]"
    start = np.zeros(X.shape[1 - axis_in], np.float32)
    y, z = run(
        f"y, z = Scan<num_scan_inputs = 1, {how}, {SCAN}>(z0, x)",
        inputs="float[A,B] x, float[C] z0",
        outputs="y, z",
        given={"z0": start},
    )
    rows = list(np.moveaxis(W, axis_in, 0))[:: -1 if back_in else 1]
    states = np.cumsum(rows, axis=0)
    made = [state * row for state, row in zip(states, rows, strict=True)][:: -1 if back_out else 1]
    np.testing.assert_allclose(y, states[-1], rtol=1e-14)
    np.testing.assert_allclose(z, np.stack(made, axis_out), rtol=1e-14)


def test_a_scan_has_axes_and_directions_of_its_own_by_default():
    _, z = run(f"y, z = Scan<num_scan_inputs = 1, {SCAN}>(w, x)", outputs="y, z", constants="float[3] w = {0, 0, 0}")
    np.testing.assert_allclose(z, np.cumsum(W, 0) * W, rtol=1e-14)


def test_scans_that_a_twin_does_not_run():
    body = f"y, z = Scan<num_scan_inputs = 1, {SCAN}>(w, x)"
    with pytest.raises(EngineError, match="a Scan of no turns"):
        run(body, outputs="y, z", constants="float[3] w = {0, 0, 0}", given={"x": X[:0]})
    with pytest.raises(EngineError, match="Scan of opset 8"):
        run(
            f'y, z = Scan<num_scan_inputs = 1, {SCAN}>("", w, x)',
            8,
            outputs="y, z",
            constants="float[1,3] w = {0, 0, 0}",
        )


def test_a_graph_in_another_node_is_not_run():
    body = "y = SequenceMap<body = b (v) => (r) { r = Neg(v) }>(s)"
    source = model(
        f"s = SequenceConstruct(x, x) {body} z = SequenceAt(y, k)",
        18,
        inputs="float[A,B] x",
        outputs="z",
        constants="int64 k = {0}",
    )
    with pytest.raises(EngineError, match="SequenceMap with a graph"):
        Twin(source).run({"x": X})


# --- functions ----------------------------------------------------------------------------------------------

CALLED = """<ir_version: 10, opset_import: ["" : 18, "f" : 1]> g (float[A,B] x) => (y) {{ y = f.F{how}(x) }}
<domain: "f", opset_import: ["" : 18]> F <a: float = 0.25, b> (v, w) => (y)
{{ t = Selu<alpha: float = @a, gamma: float = 2.0>(v) y = Elu<alpha: float = @b>(t) }}"""


@pytest.mark.parametrize(
    ("how", "first", "second"), [("", 0.25, 1.0), ("<a = 0.5>", 0.5, 1.0), ("<a = 0.5, b = 0.125>", 0.5, 0.125)]
)
def test_attributes_of_a_function_are_those_of_its_call(how, first, second):
    (made,) = Twin(onnx.parser.parse_model(CALLED.format(how=how))).run({"x": X})
    leaky = 2 * np.where(W < 0, first * np.expm1(W), W)
    np.testing.assert_allclose(made, np.where(leaky < 0, second * np.expm1(leaky), leaky), rtol=1e-7)


# --- what is kept, and what is told -------------------------------------------------------------------------


def test_what_is_forced_goes_on():
    twin = Twin(model("a = Neg(x) b = Exp(a) y = Add(b, a)", 18, inputs="float[A,B] x", outputs="y"))
    (made,) = twin.run({"x": X}, forced={"a": 2 * X})
    np.testing.assert_allclose(made, np.exp(2 * W) + 2 * W, rtol=1e-15)
    assert (twin.run({"x": X})[0] != made).any()


def test_each_node_that_an_output_needs_is_told_with_what_it_takes_and_makes():
    told = []
    source = model(
        "a = Neg(x) u = Exp(a) y = Mul(a, w)", 18, inputs="float[A,B] x", outputs="y", constants="float w = {3}"
    )
    Twin(source).run({"x": X}, watch=lambda node, inputs, made: told.append((node.op_type, inputs, made)))
    assert [op for op, *_ in told] == ["Neg", "Mul"]
    assert (told[1][1][0] == -W).all()
    assert told[1][1][1] == 3
    assert (told[1][2][0] == -3 * W).all()


def test_what_fails_names_itself():
    with pytest.raises(EngineError, match="in float64: "):
        run("y = Cast<to = 1>(nothing)")
