"""BatchNormalization: training or not, statistics of features or of channels, in several types."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.runtime import every_node
from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

HELD = "float[3] s = {1, 2, -1}, float[3] b = {0, 0.5, 1}, float[3] m = {0, 0.125, -2}, float[3] v = {1, 2, 0.5}"
IMAGE = {"inputs": "float[N,3,2,2] x", "outputs": "float[N,3,2,2] y", "constants": HELD}
TRAINED = {"inputs": "float[N,3,2,2] x", "outputs": "float[N,3,2,2] y, float[3] rm, float[3] rv", "constants": HELD}
STATISTICS = "float[3] s, float[3] b, float[3] m, float[3] v"
ONES = {name: np.ones(3, np.float32) for name in "sbmv"}
BATCH = {"x": np.random.default_rng(0).normal(3, 2, (3, 3, 2, 2)).astype(np.float32)}


def test_consumed_inputs_come_and_go_at_6():
    # no engine runs BatchNormalization at opset 5
    with_hint = "y = BatchNormalization<consumed_inputs=[0, 0, 0, 1, 1], is_test=1>(x, s, b, m, v)"
    without = "y = BatchNormalization<is_test=1>(x, s, b, m, v)"
    bare = {"inputs": f"float[N,3,2,2] x, {STATISTICS}", "outputs": IMAGE["outputs"], "run": False}
    check(with_hint, 5, without, 6, **bare)
    check(without, 6, with_hint, 1, **bare)


IMAGES = [
    ("N,3", [0, 0, 1, 1], [0, 0]), ("2,3,W", [0, 0, -1, 1], [0, 0, -1]), ("N,3,4,5,6", [0, 0, 120, 1], [0, 0, 4, 5, 6]),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "image", "back"), IMAGES)
@pytest.mark.parametrize("op", ["BatchNormalization", "InstanceNormalization"])
def test_data_of_another_rank_is_an_image_below_6(op, dims, image, back):
    operands = "x, s, b, m, v" if op == "BatchNormalization" else "x, s, b"
    source = model(f"y = {op}({operands})", 6, inputs=f"float[{dims}] x, {STATISTICS}", outputs=f"float[{dims}] y")
    converted = convert.attempt(source, {"": 5}).model
    assert converted is not None
    assert [node.op_type for node in converted.graph.node] == ["Reshape", op, "Reshape"]
    targets = [onnx.numpy_helper.to_array(t).tolist() for t in converted.graph.initializer]
    assert targets == [image, back]


@pytest.mark.parametrize("dims", ["0,3,4", "N,C,W", "N,3,0", "N,3", "N,3,4,5,6", "2,3,H,W,D"])
@pytest.mark.parametrize("op", ["BatchNormalization", "InstanceNormalization"])
def test_data_without_an_element_stay_so_below_6(op, dims):
    operands = "x, s, b, m, v" if op == "BatchNormalization" else "x, s, b"
    source = model(f"y = {op}({operands})", 6, inputs=f"float[{dims}] x, {STATISTICS}", outputs=f"float[{dims}] y")
    converted = convert.attempt(source, {"": 5}).model
    onnx.checker.check_model(converted, full_check=True)
    for node in every_node(converted.graph.node):  # no engine has a kernel of an operator as old
        if node.op_type == op:
            node.CopyFrom(onnx.helper.make_node("Identity", node.input[:1], node.output[:1]))
        elif node.op_type == "Cast":  # which onnx.reference knows by number alone
            node.CopyFrom(onnx.helper.make_node("Cast", node.input, node.output, to=onnx.TensorProto.BOOL))
    sizes = {"N": 0, "C": 3, "W": 4, "H": 0, "D": 2}
    x = np.zeros([sizes[n] if n in sizes else int(n) for n in dims.split(",")], np.float32)
    given = {"x": x, **{name: np.ones(3, np.float32) for name in "sbmv"}}
    assert Reference(converted).run(given)[0].shape == x.shape


def test_an_image_stays_an_image():
    io = {"inputs": "float[N,3,2,2] x, float[3] s, float[3] b", "outputs": "float[N,3,2,2] y"}
    check_unchanged("y = InstanceNormalization(x, s, b)", 22, 1, **io)
    check_unchanged("y = InstanceNormalization(x, s, b)", 1, 28, **io)


def test_inference_is_implied_from_7_on():
    # the reference of opset 6 rounds otherwise
    check(
        "y = BatchNormalization<is_test=1>(x, s, b, m, v)", 6, "y = BatchNormalization(x, s, b, m, v)", 7,
        rtol=1e-6, atol=1e-6, **IMAGE,
    )  # fmt: skip
    check(
        "y = BatchNormalization(x, s, b, m, v)", 7, "y = BatchNormalization<is_test=1>(x, s, b, m, v)", 6,
        rtol=1e-6, atol=1e-6, inputs=f"float[2,3,2,2] x, {STATISTICS}", outputs="float[2,3,2,2] y", feeds=ONES,
    )  # fmt: skip
    check_unchanged("y = BatchNormalization<epsilon=0.1>(x, s, b, m, v)", 9, 28, **IMAGE)
    check_unchanged("y = BatchNormalization<epsilon=0.1>(x, s, b, m, v)", 15, 7, **IMAGE)


def test_outputs_of_inference_that_nobody_reads_are_dropped_at_7():
    before = "y, a, c, d, e = BatchNormalization<is_test=1>(x, s, b, m, v)"
    check(before, 6, "y = BatchNormalization(x, s, b, m, v)", 7, rtol=1e-6, **IMAGE)
    before = before.replace("a, c", "rm, rv")
    check_refused(before, 6, 7, "is_test=1, but the outputs for running statistics are used", **TRAINED)


@pytest.mark.parametrize("attributes", ["", "<is_test=0>"])
def test_one_output_of_training_is_ambiguous_below_7(attributes):
    why = "runtimes disagree whether is_test=0 with a single output is training"
    check_refused(f"y = BatchNormalization{attributes}(x, s, b, m, v)", 6, 7, why, **IMAGE)


def test_several_outputs_are_training_below_14():
    io = {**TRAINED, "run": False}  # no engine trains below opset 14
    call = "BatchNormalization{}(x, s, b, m, v)"
    five = "y, rm, rv, t1, t2 = "
    check(five + call.format("<is_test=0>"), 6, five + call.format(""), 7, **io)
    bare = {**io, "inputs": f"{io['inputs']}, {STATISTICS}", "constants": ""}
    check(five + call.format(""), 7, five + call.format("<is_test=0>"), 6, **bare)


@pytest.mark.parametrize("before", ["y, rm, rv, a, c", "y, rm, rv, , a"])
def test_several_outputs_become_training_mode_at_14(before):
    show_held = "[1.0, 2.0, -1.0], [0.0, 0.5, 1.0], [0.0, 0.125, -2.0], [1.0, 2.0, 0.5]"
    check(
        f"{before} = BatchNormalization(x, s, b, m, v)", 9,
        f"y, rm, rv = BatchNormalization<training_mode=1>(x, {show_held})", 14,
        run=False, **TRAINED,  # no engine trains below opset 14
    )  # fmt: skip


def test_one_running_statistic_is_training_at_14():
    io = {"inputs": IMAGE["inputs"], "outputs": "float[N,3,2,2] y, float[3] rm", "constants": HELD}
    made = convert.attempt(model("y, rm = BatchNormalization(x, s, b, m, v)", 9, **io), {"": 14}).model
    assert show(made).startswith("y, rm, t1 = BatchNormalization<training_mode=1>(x, ")


@pytest.mark.parametrize("at", range(1, 5))
def test_what_is_no_vector_is_refused_at_14(at):
    dims = ["3"] * 5
    dims[at] = "1,3"
    inputs = f"float[1,3,2] x, float[{dims[1]}] s, float[{dims[2]}] b, float[{dims[3]}] m, float[{dims[4]}] v"
    check_refused(
        "y = BatchNormalization(x, s, b, m, v)",
        9,
        14,
        f'"{"xsbmv"[at]}" has rank 2',
        inputs=inputs,
        outputs="float[1,3,2] y",
    )


def test_a_saved_mean_is_computed_at_14_and_a_saved_variance_refused():
    io = {"inputs": IMAGE["inputs"], "outputs": "float[N,3,2,2] y, float[3] k", "constants": HELD}
    source = model("y, , , k, a = BatchNormalization<epsilon=0.5>(x, s, b, m, v)", 9, **io)
    converted = convert.attempt(source, {"": 14}).model
    assert converted is not None
    assert show(converted).splitlines()[-1] == "k = ReduceMean<axes=[0, 2, 3], keepdims=0>(x)"
    assert "y, t1, t2 = BatchNormalization<epsilon=0.5, training_mode=1>" in show(converted)
    x = BATCH["x"].astype(np.float64)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    scale, bias = np.array([1, 2, -1]), np.array([0, 0.5, 1])
    column = (slice(None), None, None)
    expected = (x - mean[column]) / np.sqrt(variance + 0.5)[column] * scale[column] + bias[column]
    y, k = evaluate(converted, BATCH)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(k, mean, rtol=1e-5)
    check_refused("y, , , , k = BatchNormalization(x, s, b, m, v)", 9, 14, "saved_var is used", **io)


@pytest.mark.parametrize("outputs", ["y", "y, rm", "y, rm, rv"])
@pytest.mark.parametrize("momentum", [0.9, 0.25])
def test_training_is_computed_below_14(outputs, momentum):
    text = f"{outputs} = BatchNormalization<training_mode=1, momentum={momentum}, epsilon=0.5>(x, s, b, m, v)"
    results = ", ".join(TRAINED["outputs"].split(", ")[: outputs.count(",") + 1])
    source = model(text, 14, inputs=IMAGE["inputs"], outputs=results, constants=HELD)
    result = convert.attempt(source, {"": 13})
    assert result.model is not None
    assert result.grade == "close"
    assert "BatchNormalization" not in show(result.model)
    assert len(result.model.graph.node) == {"y": 11, "y, rm": 15, "y, rm, rv": 19}[outputs]
    check_values(source, result.model, BATCH, rtol=1e-4, atol=1e-5)


def test_defaults_are_numbers_of_32_bits_where_training_is_of_64():
    given = {name: value.astype(np.float64) for name, value in TRAINED_DOUBLES.items()}
    io = ", ".join(f"double[{','.join(map(str, value.shape))}] {name}" for name, value in given.items())
    text = "y, rm, rv = BatchNormalization<training_mode=1>(x, s, b, m, v)"
    source = model(text, 15, inputs=io, outputs="double[2,1,2] y, double[1] rm, double[1] rv")
    result = convert.attempt(source, {"": 13})
    assert result.model is not None
    check_values(source, result.model, given, rtol=1e-12, atol=0)


TRAINED_DOUBLES = {"x": np.array([[[0.001, 3]], [[-5, 7.7]]])} | {
    name: np.array([value]) for name, value in (("s", 1.3), ("b", 0.1), ("m", 0.7), ("v", 2.3))
}
FEATURES = {
    "inputs": "float[2,3,2] x, float[3,2] s, float[3,2] b, float[3,2] m, float[3,2] v",
    "outputs": "float[2,3,2] y",
    "feeds": {"v": np.full((3, 2), 2, np.float32), "x": np.arange(12, dtype=np.float32).reshape(2, 3, 2)},
}
FLATTENED = """t1 = Flatten<axis=1>(x)
t2 = Reshape(s, [-1])
t3 = Reshape(b, [-1])
t4 = Reshape(m, [-1])
t5 = Reshape(v, [-1])
t6 = BatchNormalization(t1, t2, t3, t4, t5)
t7 = Shape(x)
y = Reshape(t6, t7)"""


def test_features_become_channels_at_9():
    before = "y = BatchNormalization<spatial=0>(x, s, b, m, v)"
    check(before, 7, FLATTENED, 9, **FEATURES)
    check(before, 8, FLATTENED, 9, **FEATURES)
    matrix = {"inputs": f"float[2,3] x, {STATISTICS}", "outputs": "float[2,3] y", "feeds": ONES}
    check(before, 8, "y = BatchNormalization(x, s, b, m, v)", 9, **matrix)
    image = {**matrix, "inputs": f"float[2,3,4] x, {STATISTICS}", "outputs": "float[2,3,4] y"}
    check(before.replace("0", "1"), 8, "y = BatchNormalization(x, s, b, m, v)", 9, **image)


def test_features_become_channels_below_7():
    io = {key: value for key, value in FEATURES.items() if key != "feeds"}
    text = "y = BatchNormalization<spatial=0>(x, s, b, m, v)"
    after = FLATTENED.replace("[-1]", "const").replace("Normalization(", "Normalization<is_test=1>(")
    check(text, 7, after, 6, run=False, **io)  # no engine runs this form at opset 6
    check_refused(
        "y = BatchNormalization<spatial=0, is_test=1>(x, s, b, m, v)", 6, 7, "spatial=0 needs statistics for each feature, and they are given for each channel",
        inputs=f"float[2,3,2] x, {STATISTICS}", outputs="float[2,3,2] y",
    )  # fmt: skip


@pytest.mark.parametrize(("given", "why"), [
    ("float[3,1] s, float[3,2] b, float[3,2] m, float[3,2] v", '"s" of shape [3, 1] does not fit the features, which have shape [3, 2]'),
    ("float[3,2] s, float[3,2] b, float[3,2] m, float[1,2] v", '"v" of shape [1, 2] does not fit the features, which have shape [3, 2]'),
    ("float[3,2] s, float[3,2] b, float[3] m, float[3,2] v", "they are given for each channel"),
])  # fmt: skip
@pytest.mark.parametrize(("opset", "target", "attributes"), [(6, 14, "spatial=0, is_test=1"), (8, 9, "spatial=0")])
def test_statistics_of_other_sizes_than_the_features(given, why, opset, target, attributes):
    body = f"y = BatchNormalization<{attributes}>(x, s, b, m, v)"
    check_refused(body, opset, target, why, inputs=f"float[2,3,2] x, {given}", outputs="float[A,B,C] y")
    named = given.replace("1", "N").replace("2", "M").replace("3", "K")
    if "channel" not in why:
        source = model(body, opset, inputs=f"float[2,3,2] x, {named}", outputs="float[A,B,C] y")
        assert convert.attempt(source, {"": target}).model is not None


def test_statistics_of_features_keep_their_shape_at_9():
    text = "y, rm, rv, a, c = BatchNormalization<spatial=0>(x, s, b, m, v)"
    outputs = FEATURES["outputs"] + ", float[3,2] rm, float[3,2] rv"
    converted = convert.attempt(model(text, 8, inputs=FEATURES["inputs"], outputs=outputs), {"": 14}).model
    assert converted is not None
    y, mean, _ = evaluate(converted, {**FEATURES["feeds"], **dict.fromkeys("sbm", np.ones((3, 2), np.float32))})
    assert y.shape == (2, 3, 2)
    np.testing.assert_allclose(mean, 0.9 + 0.1 * FEATURES["feeds"]["x"].mean(0), rtol=1e-6)


def test_outputs_without_a_name_are_not_training():
    named = "y = BatchNormalization(x, s, b, m, v)"
    shown = "y = BatchNormalization(x, [1.0, 2.0, -1.0], [0.0, 0.5, 1.0], [0.0, 0.125, -2.0], [1.0, 2.0, 0.5])"
    check(named.replace("y =", "y, , , , ="), 9, shown, 14, run=False, **IMAGE)  # engines count
    check(named.replace("y =", "y, , ="), 14, shown, 9, run=False, **IMAGE)  # the nameless ones


def test_a_vector_is_a_matrix_of_one_channel_below_9():
    check(
        "y = BatchNormalization(x, s, b, m, v)", 9,
        "t1 = Unsqueeze<axes=[1]>(x)\nt2 = BatchNormalization(t1, s, b, m, v)\n"
        "y = Squeeze<axes=[1]>(t2)", 8,
        inputs="float[N] x", outputs="float[N] y",
        constants="float[1] s = {2}, float[1] b = {1}, float[1] m = {0}, float[1] v = {4}",
    )  # fmt: skip


MIXED = {
    "inputs": f"float16[N,3] x, {STATISTICS}",
    "outputs": "float16[N,3] y",
    "feeds": ONES,
    "grade": "close",
    "rtol": 1e-3,
}
WIDE = "t1 = Cast<to=1>(x)\nt2 = BatchNormalization(t1, s, b, m, v)\ny = Cast<to=10>(t2)"


def test_the_widest_type_is_used_where_types_differ():
    text = "y = BatchNormalization(x, s, b, m, v)"
    check(text, 15, WIDE, 14, **MIXED)
    check(text, 15, WIDE, 9, **MIXED)
    short = MIXED["inputs"].replace("float[3] s, float[3] b", "float16[3] s, float16[3] b")
    some = {**MIXED, "inputs": short, "feeds": {}}
    check_unchanged(text, 15, 14, inputs=short, outputs=MIXED["outputs"])
    after = (
        "t1 = Cast<to=1>(x)\nt2 = Cast<to=1>(s)\nt3 = Cast<to=1>(b)\n"
        "t4 = BatchNormalization(t1, t2, t3, m, v)\ny = Cast<to=10>(t4)"
    )
    check(text, 14, after, 13, **some)
    narrow = "float[N,3] x, float[3] s, float[3] b, float16[3] m, float16[3] v"
    after = "t1 = Cast<to=1>(m)\nt2 = Cast<to=1>(v)\ny = BatchNormalization(x, s, b, t1, t2)"
    check(text, 14, after, 13, **{**some, "inputs": narrow, "outputs": "float[N,3] y"})


def test_bfloat16_is_normalized_in_float_below_14():
    inputs = ", ".join(f"bfloat16[3] {name}" for name in "sbmv")
    casts = "\n".join(f"t{k + 1} = Cast<to=1>({name})" for k, name in enumerate("xsbmv"))
    after = f"{casts}\nt6 = BatchNormalization(t1, t2, t3, t4, t5)\ny = Cast<to=16>(t6)"
    check(
        "y = BatchNormalization(x, s, b, m, v)", 14, after, 13, grade="close", run=False,  # no engine has the kernel
        inputs=f"bfloat16[N,3] x, {inputs}", outputs="bfloat16[N,3] y",
    )  # fmt: skip


def test_statistics_of_short_floats_are_computed_in_float_at_14():
    text = "y, rm, rv = BatchNormalization<training_mode=1>(x, s, b, m, v)"
    short = "float16[N,3] x, float16[3] s, float16[3] b, float[3] m, float[3] v"
    after = (
        "t1 = Cast<to=1>(x)\nt2 = Cast<to=1>(s)\nt3 = Cast<to=1>(b)\n"
        "t4, rm, rv = BatchNormalization<training_mode=1>(t1, t2, t3, m, v)\ny = Cast<to=10>(t4)"
    )
    check(
        text, 15, after, 14, grade="close", inputs=short, rtol=2e-3, atol=1e-3,
        outputs="float16[N,3] y, float[3] rm, float[3] rv", feeds={"x": BATCH["x"][:, :, 0, 0].astype(np.float16)},
    )  # fmt: skip
