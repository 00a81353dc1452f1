"""Convolutions, Dropout and Flatten, and the types that came to other operators of nn."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, evaluate, model, show

MATRIX = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}
MASKED = {"inputs": "float[2,3] x", "outputs": "float[2,3] y, bool[2,3] m"}
IMAGE = {"inputs": "float[1,2,4,4] x, float[2,2,3,3] w", "outputs": "float[1,2,A,B] y"}


# --- what only a reader of both texts can tell --------------------------------------------------------------------


@pytest.mark.parametrize(
    "node",
    [
        'y = Conv<auto_pad = "SAME_UPPER", strides=[2,2]>(x, w)',
        "y = Conv<dilations=[1,1], pads=[1,0,1,0]>(x, w)",
        "y = ConvTranspose<output_shape=[6,6]>(x, w)",
        'y = ConvTranspose<auto_pad = "SAME_UPPER", strides=[2,2]>(x, w)',
    ],
)
def test_convolutions_stay(node):
    for older, newer in ((1, 28), (10, 11), (28, 7)):
        check_unchanged(node, older, newer, **IMAGE)


@pytest.mark.parametrize(("auto", "first"), [("NOTSET", 10.0), ("SAME_UPPER", 1.0), ("SAME_LOWER", 10.0)])
@pytest.mark.parametrize("opset", [7, 11])
def test_odd_padding_of_a_transposed_convolution_falls_on_the_same_side_in_both_versions(auto, first, opset):
    text = f'y = ConvTranspose<auto_pad = "{auto}", output_shape=[6], strides=[2]>(x, w)'
    of = model(text, opset, inputs="float[1,1,3] x, float[1,1,3] w", outputs="float[1,1,6] y")
    feeds = {"x": np.float32([[[1, 2, 3]]]), "w": np.float32([[[1, 10, 100]]])}
    assert evaluate(of, feeds)[0][0, 0, 0] == first


def test_normalization_over_channels_and_unpooling_stay():
    check_unchanged("y = LRN<size=3>(x)", 1, 28, **MATRIX)
    check_unchanged("y = LRN<size=3>(x)", 28, 1, **MATRIX)
    io = {"inputs": "float[1,1,2] x, int64[1,1,2] i", "outputs": "float[1,1,4] y"}
    check_unchanged("y = MaxUnpool<kernel_shape=[2], strides=[2]>(x, i)", 9, 28, **io)
    check_unchanged("y = MaxUnpool<kernel_shape=[2], strides=[2]>(x, i)", 28, 9, **io)


# --- bfloat16 below 22 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "casts", "grade"),
    [
        ("Conv(x, w)", 2, "close"),
        ("ConvTranspose(x, w)", 2, "close"),
        ("Conv(x, w, b)", 3, "close"),
        ("DeformConv(x, w, o)", 3, "close"),
        ("GlobalAveragePool(x)", 1, "close"),
        ("GlobalLpPool(x)", 1, "close"),
        ("LpNormalization(x)", 1, "close"),
        ("LpPool<kernel_shape=[2,2]>(x)", 1, "close"),
        ("GlobalMaxPool(x)", 1, "exact"),
        ("MaxUnpool<kernel_shape=[2,2]>(x, i)", 1, "exact"),
        ("MaxRoiPool<pooled_shape=[2,2]>(x, r)", 2, "close"),
        ("InstanceNormalization(x, b, b)", 2, "close"),
    ],
)
def test_bfloat16_is_computed_in_float_below_22(node, casts, grade):
    """No engine has these kernels for bfloat16, so that the graph itself is what is compared."""
    operands = node[node.rindex("(") + 1 : -1].split(", ")
    cast = list(dict.fromkeys(name for name in operands if name != "i"))
    lines = [f"t{k + 1} = Cast<to=1>({name})" for k, name in enumerate(cast)]
    assert len(lines) == casts
    result = f"t{casts + 1}"
    inner = ", ".join(name if name == "i" else f"t{cast.index(name) + 1}" for name in operands)
    head = node[: node.rindex("(")].replace("=[2,2]", "=[2, 2]")
    lines += [f"{result} = {head}({inner})", f"y = Cast<to=16>({result})"]
    check(
        f"y = {node}", 22, "\n".join(lines), 21, grade=grade, run=False,
        inputs="bfloat16[1,2,4,4] x, bfloat16[2,2,3,3] w, bfloat16[2] b, bfloat16[1,18,2,2] o, "
        "int64[1,2,4,4] i, bfloat16[1,5] r",
        outputs="bfloat16[A,B,C,D] y",
    )  # fmt: skip


def test_bfloat16_has_no_form_below_13():
    io = {"inputs": "bfloat16[1,2,4,4] x", "outputs": "bfloat16[1,2,1,1] y"}
    check_refused("y = GlobalMaxPool(x)", 22, 12, "bfloat16", **io)


# --- Dropout ------------------------------------------------------------------------------------------------------


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
    check_refused("y, m = Dropout(x)", 7, 6, "the mask is used", **io)
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


# --- Flatten ------------------------------------------------------------------------------------------------------


def test_a_negative_axis_is_counted_from_the_front_below_11():
    io = {"inputs": "float[N,3,4] x", "outputs": "float[A,B] y"}
    check_unchanged("y = Flatten<axis=3>(x)", 13, 1, **io)
    check_unchanged("y = Flatten(x)", 1, 25, **io)
    check("y = Flatten<axis=-1>(x)", 13, "y = Flatten<axis=2>(x)", 9, **io)
    check("y = Flatten<axis=-3>(x)", 11, "y = Flatten<axis=0>(x)", 10, **io)
    check_refused("y = Flatten<axis=-4>(x)", 11, 10, "axis -4 lies outside rank 3", **io)


def test_a_negative_axis_of_unknown_rank_is_counted_at_run_time():
    source = model("y = Flatten<axis=-2>(x)", 11, inputs="float[] x", outputs="float[A,B] y")
    converted = convert.attempt(source, {"": 10}).model
    assert converted is not None
    assert [n.op_type for n in converted.graph.node].count("Flatten") == 0
    for shape in ((2, 3, 4), (2, 3), (1, 2, 3, 4), (0, 3, 4), (2, 3, 0)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        check_values(source, converted, {"x": x}, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int64", "bool", "string", "uint8"])
@pytest.mark.parametrize(
    ("shape", "axis", "target"),
    [
        ("2,3,4", 1, [-1, 12]),
        ("N,3,4", 1, [-1, 12]),
        ("2,3,N", 2, [6, -1]),
        ("N,M", 0, [1, -1]),
        ("N,M", 2, [-1, 1]),
        (None, 0, [-1, 1]),
    ],
)
def test_other_types_are_reshaped_below_9(kind, shape, axis, target):
    io = {"inputs": f"{kind}[{shape}] x" if shape else f"{kind} x", "outputs": f"{kind}[A,B] y"}
    made = check(f"y = Flatten<axis={axis}>(x)", 9, "y = Reshape(x, const)", 8, **io)
    assert onnx.numpy_helper.to_array(made.graph.initializer[0]).tolist() == target


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_unknown_sizes_are_multiplied_at_run_time_below_9(shape):
    source = model("y = Flatten<axis=2>(x)", 9, inputs="int32[N,M,K] x", outputs="int32[A,B] y")
    converted = convert.attempt(source, {"": 8}).model
    assert converted is not None
    assert converted.graph.node[-1].op_type == "Reshape"
    feeds = {"x": np.arange(np.prod(shape), dtype=np.int32).reshape(shape)}
    assert evaluate(converted, feeds)[0].shape == (shape[0] * shape[1], shape[2])
    check_values(source, converted, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int32", "string", "bool"])
def test_two_empty_sides_are_flattened_below_9(kind):
    made = convert.attempt(model("y = Flatten(x)", 9, inputs=f"{kind}[0,0] x", outputs=f"{kind}[A,B] y"), {"": 8}).model
    assert made is not None
    (y,) = evaluate(made, {"x": np.zeros((0, 0), {"string": object}.get(kind, kind))})
    assert y.shape == (0, 0)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (0, 0)])
def test_any_side_of_an_unknown_rank_may_be_empty_below_11(shape):
    made = convert.attempt(
        model("y = Flatten<axis=-1>(x)", 11, inputs="float[] x", outputs="float[A,B] y"), {"": 10}
    ).model
    assert made is not None
    (y,) = evaluate(made, {"x": np.ones(shape, np.float32)})
    assert y.shape == shape


def test_float8_is_reshaped_below_21():
    io = {"inputs": "float8e4m3fn[N,3,4] x", "outputs": "float8e4m3fn[A,12] y"}
    # no engine flattens float8
    check("y = Flatten(x)", 21, "y = Reshape(x, [-1, 12])", 20, run=False, **io)


# --- in subgraphs and functions -----------------------------------------------------------------------------------

PLACES = [
    ("Dropout<seed=1>(x, r)", 13, 11),
    ("Dropout<ratio=0.25>(x)", 10, 13),
    ("Flatten<axis=-1>(x)", 11, 10),
    ("MaxPool<ceil_mode=1, dilations=[2,1], kernel_shape=[2,2], strides=[2,2]>(x)", 12, 8),
    ("AveragePool<dilations=[2,1], kernel_shape=[2,2], pads=[1,1,0,0]>(x)", 19, 17),
    ("LpPool<ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(x)", 18, 13),
    ("GroupNormalization<num_groups=1>(x, s, s)", 21, 17),
    ("BatchNormalization(x, s, s, s, s)", 15, 9),
    ("MeanVarianceNormalization(x)", 9, 13),
]
INPUTS = "float[N,2,5,5] x, float r, float[2] s"


@pytest.mark.parametrize(("call", "opset", "target"), PLACES)
def test_inside_a_branch(call, opset, target):
    text = (
        f"y = If <then_branch = t () => (float[A,B,C,D] a) {{ z = Identity(x)\n a = {call.replace('(x', '(z')} }},"
        " else_branch = e () => (float[A,B,C,D] b) { b = Identity(x) }> (c)"
    )
    source = model(text, opset, inputs=f"{INPUTS}, bool c", outputs="float y")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    for graph in (a.g for a in source.graph.node[0].attribute):
        graph.output[0].type.tensor_type.ClearField("shape")
    converted = convert.attempt(source, {"": target}).model
    assert converted is not None
    for c in (True, False):
        x = np.random.default_rng(1).normal(size=(3, 2, 5, 5)).astype(np.float32)
        feeds = {"x": x, "s": np.float32([1, 2]), "r": np.array(0.5, np.float32), "c": np.array(c)}
        check_values(source, converted, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("call", "opset", "target"), PLACES)
def test_inside_a_function(call, opset, target):
    text = f"""<ir_version: 8, opset_import: ["": {opset}, "local": 1]>
    g ({INPUTS}) => (float[A,B,C,D] y) {{ y = local.f(x, r, s) }}
    <domain: "local", opset_import: ["": {opset}]> f (x, r, s) => (z) {{ z = {call} }}"""
    source = onnx.parser.parse_model(text)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    converted = convert.attempt(source, {"": target}, ir_version=8).model
    assert converted is not None
    x = np.random.default_rng(1).normal(size=(3, 2, 5, 5)).astype(np.float32)
    feeds = {"x": x, "s": np.float32([1, 2]), "r": np.array(0.5, np.float32)}
    check_values(source, converted, feeds, rtol=1e-4, atol=1e-5)
