"""Dropout: training or not, the type of its mask, and a ratio that was an attribute."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, evaluate, model, show

MATRIX = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}
MASKED = {"inputs": "float[2,3] x", "outputs": "float[2,3] y, bool[2,3] m"}


def test_consumed_inputs_go_away():
    # no engine runs Dropout below opset 7
    check("y = Dropout<consumed_inputs=[0], is_test=1>(x)", 1, "y = Dropout<is_test=1>(x)", 6, run=False, **MATRIX)
    check_unchanged("y = Dropout<is_test=1>(x)", 6, 1, **MATRIX)


def test_inference_is_implied_from_7_on():
    # no engine runs Dropout below opset 7
    check("y = Dropout<is_test=1, ratio=0.25>(x)", 6, "y = Dropout<ratio=0.25>(x)", 7, run=False, **MATRIX)
    check("y = Dropout<ratio=0.25>(x)", 7, "y = Dropout<is_test=1, ratio=0.25>(x)", 6, run=False, **MATRIX)
    check("y = Dropout<ratio=0.0>(x)", 6, "y = Dropout<ratio=0>(x)", 7, run=False, **MATRIX)


@pytest.mark.parametrize(("attributes", "ratio"), [("", 0.5), ("<is_test=0>", 0.5), ("<ratio=0.1>", 0.1)])
@pytest.mark.parametrize("target", [7, 13])
def test_training_drops_at_random_at_7(attributes, ratio, target):
    io = {"inputs": "float[100,200] x", "outputs": "float[100,200] y, float[100,200] m"}
    for outputs in ("y, m", "y"):
        text = f"{outputs} = Dropout{attributes}(x)" + ("\n m = Identity(y)" if outputs == "y" else "")
        made = convert.attempt(model(text, 6, **io), {"": target})
        assert made.model is not None
        assert made.grade == "close"
        y, m = evaluate(made.model, {"x": np.ones((100, 200), np.float32)})
        assert abs((y == 0).mean() - ratio) < 0.02
        np.testing.assert_allclose(y[y != 0], 1 / (1 - ratio), rtol=1e-6)
        np.testing.assert_array_equal(m != 0, y != 0)


def test_a_mask_is_not_filled_in_inference_below_7():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,3] y, float[2,3] m"}
    check_refused("y, m = Dropout(x)", 7, 6, "the mask output is used", **io)
    # no engine runs Dropout below opset 7
    check("y, m = Dropout(x)", 7, "y, t1 = Dropout<is_test=1>(x)", 6, run=False, **MATRIX)


def test_the_mask_becomes_bool_at_10_and_its_readers_do_not_notice():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,3] y, float[2,3] m"}
    check("y, m = Dropout(x)", 7, "y, t1 = Dropout(x)\nm = Cast<to=1>(t1)", 10, **io)
    check("y, m = Dropout(x)", 10, "y, t1 = Dropout(x)\nm = Cast<to=9>(t1)", 9, **MASKED)


@pytest.mark.parametrize(("opset", "target"), [(7, 10), (10, 7), (13, 11)])
def test_a_mask_that_nobody_reads_is_dropped(opset, target):
    check("y, m = Dropout(x)", opset, "y = Dropout(x)", target, **MATRIX)


def test_a_mask_read_by_a_subgraph_is_kept():
    text = (
        "y, m = Dropout(x)\n z = If<then_branch = t () => (float[2,3] a) { a = Cast<to=1>(m) },"
        " else_branch = e () => (float[2,3] b) { b = Identity(x) }>(c)"
    )
    converted = convert.attempt(
        model(text, 12, inputs="float[2,3] x, bool c", outputs="float[2,3] y, float[2,3] z"), {"": 11}
    ).model
    assert converted is not None
    assert "Expand" in show(converted)


def test_ratio_becomes_an_input_at_12():
    check("y = Dropout<ratio=0.25>(x)", 10, "y = Dropout(x, 0.25)", 13, **MATRIX)
    check_unchanged("y = Dropout(x)", 10, 21, **MATRIX)


@pytest.mark.parametrize("ratio", [1.0, 2.5, -0.5])
def test_a_ratio_at_which_nothing_could_be_scaled_goes_at_12(ratio):
    """It must be below 1 there, also in inference, where nothing hangs on it."""
    check(f"y = Dropout<ratio={ratio}>(x)", 10, "y = Dropout(x)", 13, **MATRIX)


@pytest.mark.parametrize("constants", ["float r = {0.25}", "float r = {0.25}, bool t = {0}"])
def test_ratio_becomes_an_attribute_below_12(constants):
    node = "y = Dropout<seed=3>(x, r, t)" if "bool t" in constants else "y = Dropout<seed=3>(x, r)"
    check(node, 13, "y = Dropout<ratio=0.25>(x)", 11, constants=constants, **MATRIX)


def test_a_ratio_at_run_time_does_not_matter_in_inference():
    check("y = Dropout(x, r)", 12, "y = Dropout(x)", 11, inputs="float[2,3] x, float r", outputs="float[2,3] y")


@pytest.mark.parametrize(("inputs", "ratio"), [("(x)", ""), ("(x, , t)", "<ratio=0>"), ("(x, r, t)", "<ratio=0>")])
def test_the_mask_is_all_true_below_12(inputs, ratio):
    training = "0" if ", ," in inputs else "1"
    after = f"t1 = Shape(x)\nm = Expand(bool:True, t1)\ny = Dropout{ratio}(x)"
    constants = f"float r = {{0}}, bool t = {{{training}}}"
    if ", ," in inputs:
        after = after.replace(ratio, "")
    check(f"y, m = Dropout{inputs}", 12, after, 11, constants=constants, **MASKED)


KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}


def test_dropping_at_random_below_12():
    after = """t1 = Cast<to=1>(t)
        t2 = Mul(0.25, t1)
        t3 = RandomUniformLike<dtype=1, seed=7>(x)
        t4 = Less(t3, t2)
        t5 = Not(t4)
        t6 = Sub(1.0, t2)
        t7 = Div(x, t6)
        t8 = Cast<to=1>(t5)
        y = Mul(t7, t8)"""
    io = {"inputs": "float[2,3] x, bool t", "outputs": "float[2,3] y", "constants": "float r = {0.25}"}
    feeds = {"t": np.array(False)}
    check("y = Dropout<seed=7>(x, r, t)", 13, after, 11, grade="close", feeds=feeds, **io)


@pytest.mark.parametrize("target", [11, 9, 7])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", ["x, r, t", "x, , t", "x, r, always", "x, , always"])
def test_as_many_are_dropped_at_random_below_12(inputs, kind, target):
    held = np.linspace(1, 2, 20000).reshape(4, 5000).astype(KINDS[kind])
    feeds = {"x": held, "r": KINDS[kind](0.2), "t": np.array(True)}
    source = model(
        f"y, m = Dropout<seed=1>({inputs})", 13,
        inputs=f"{kind}[4,5000] x, {kind} r, bool t", outputs=f"{kind}[4,5000] y, bool[4,5000] m",
        constants="bool always = {1}",
    )  # fmt: skip
    made = convert.attempt(source, {"": target})
    assert made.model is not None
    assert made.grade == "close"
    y, m = evaluate(made.model, feeds)
    assert (y.dtype, m.dtype) == (held.dtype, bool)
    ratio = 0.2 if "r" in inputs.split(", ") else 0.5
    assert abs(1 - m.mean() - ratio) < 0.02
    np.testing.assert_allclose(
        y, np.where(m, held / (1 - ratio), 0).astype(held.dtype), rtol=2e-3 * (kind == "float16") + 1e-6
    )


@pytest.mark.parametrize("target", [11, 7])
def test_nothing_is_dropped_at_run_time_below_12(target):
    io = {"inputs": "float[3,4] x, float r, bool t", "outputs": "float[3,4] y, bool[3,4] m"}
    feeds = {"r": np.float32(0.75), "t": np.array(False)}
    check_down("y, m = Dropout(x, r, t)", 13, target, grade="close", feeds=feeds, **io)
    feeds = {"r": np.float32(0), "t": np.array(True)}
    check_down("y, m = Dropout(x, r, t)", 13, target, grade="close", feeds=feeds, **io)


def test_a_ratio_of_zero_drops_nothing_in_either_mode():
    io = {"inputs": "float[2,3] x, bool t", "outputs": "float[2,3] y", "constants": "float r = {0}"}
    check("y = Dropout(x, r, t)", 12, "y = Dropout<ratio=0>(x)", 11, **io)


def test_narrow_types_of_dropout_below_22():
    # no engine has these kernels
    check(
        "y = Dropout(x, r)", 22, "t1 = Cast<to=1>(r)\ny = Dropout(x, t1)", 21, run=False,
        inputs="bfloat16[2] x, bfloat16 r", outputs="bfloat16[2] y",
    )  # fmt: skip
    check(
        "y, m = Dropout(x)", 22, "t1 = Cast<to=1>(x)\nt2, m = Dropout(t1)\ny = Cast<saturate=0, to=19>(t2)", 21,
        run=False, inputs="float8e5m2[2] x", outputs="float8e5m2[2] y, bool[2] m",
    )  # fmt: skip
    check_unchanged("y = Dropout(x)", 22, 13, inputs="bfloat16[2] x", outputs="bfloat16[2] y")


FUNCTION = """
<ir_version: 8, opset_import: ["": {opset}, "local": 1]>
g (float[2,3] x) => (float[2,3] y) {{ y = local.drop<rate=0.25>(x) }}
<domain: "local", opset_import: ["": {opset}]>
drop <rate>(a) => (b) {{ b = Dropout<ratio: float = @rate>(a) }}
"""


def test_a_ratio_bound_by_reference_stays_bound():
    source = onnx.parser.parse_model(FUNCTION.format(opset=10))
    converted = convert.attempt(source, {"": 15}, ir_version=8).model
    assert converted is not None
    constant, dropout = converted.functions[0].node
    assert (constant.op_type, constant.attribute[0].ref_attr_name) == ("Constant", "rate")
    assert list(dropout.input) == ["a", constant.output[0]]
    check_values(source, converted, rtol=0, atol=0)
