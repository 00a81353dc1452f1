"""The softmax family: over all axes from one on until 12, over one axis from 13 on."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime, Reference
from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

OPS = ["Softmax", "LogSoftmax", "Hardmax"]
CUBE = {"inputs": "float[2,3,4] x", "outputs": "float[2,3,4] y"}
FLAT = "t1 = Flatten<axis={axis}>(x)\nt2 = {op}<axis=-1>(t1)\nt3 = Shape(x)\ny = Reshape(t2, t3)"


def io(dims):
    return {"inputs": f"float[{dims}] x", "outputs": f"float[{dims}] y"}


@pytest.mark.parametrize("op", OPS)
def test_several_axes_are_flattened_at_13(op):
    check(f"y = {op}(x)", 12, FLAT.format(op=op, axis=1), 13, **CUBE)  # the default axis was 1
    check(f"y = {op}<axis=0>(x)", 11, FLAT.format(op=op, axis=0), 13, **CUBE)
    check(f"y = {op}<axis=-2>(x)", 11, FLAT.format(op=op, axis=1), 13, **CUBE)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("dims", "before", "after"),
    [
        ("N,3", "", 1),
        ("2,3,4", "<axis=2>", 2),
        ("2,N,1,1", "", 1),
        ("2,1,4", "", 2),
        ("2,1,1", "", 1),
        ("1,1,5", "<axis=0>", 2),
    ],
)
def test_one_axis_that_is_longer_than_one_is_named_at_13(op, dims, before, after):
    check(f"y = {op}{before}(x)", 12, f"y = {op}<axis={after}>(x)", 13, **io(dims))


@pytest.mark.parametrize("op", OPS)
def test_the_last_axis_needs_no_rank(op):
    unknown = {"inputs": "float[] x", "outputs": "float[] y"}
    check_unchanged(f"y = {op}<axis=-1>(x)", 11, 28, **unknown)
    check_unchanged(f"y = {op}<axis=-1>(x)", 28, 11, **unknown)
    below = convert.attempt(model(f"y = {op}(x)", 13, **unknown), {"": 12}).model
    assert show(below) == f"y = {op}<axis=-1>(x)"  # the default axis is -1


def test_an_unknown_rank_is_flattened_at_run_time():
    source = model("y = Softmax(x)", 12, inputs="float[] x", outputs="float[] y")
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (y,) = evaluate(convert.attempt(source, {"": 13}).model, {"x": x})
    e = np.exp(x.reshape(2, 12) - x.reshape(2, 12).max(1, keepdims=True))
    np.testing.assert_allclose(y, (e / e.sum(1, keepdims=True)).reshape(2, 3, 4), rtol=1e-6)
    check_refused("y = Softmax<axis=1>(x)", 13, 12, "rank", inputs="float[] x", outputs="float[] y")


def test_an_axis_outside_the_rank_is_refused():
    check_refused("y = Softmax(x)", 12, 13, "axis 1 is out of range for rank 1", **io("5"))
    check_refused("y = Softmax<axis=3>(x)", 13, 12, "axis 3 is out of range for rank 3", **CUBE)
    check_refused("y = Hardmax<axis=3>(x)", 10, 11, "axis 3 is out of range for rank 2", **io("2,3"))


def test_an_empty_tensor_stays_empty():
    check("y = Softmax(x)", 12, "y = Identity(x)", 13, **io("2,3,0"))


@pytest.mark.parametrize("op", OPS)
def test_an_inner_axis_is_made_the_last_below_13(op):
    after = f"t1 = Transpose<perm=[0, 2, 1]>(x)\nt2 = {op}<axis=-1>(t1)\ny = Transpose<perm=[0, 2, 1]>(t2)"
    check(f"y = {op}<axis=1>(x)", 13, after, 12, **CUBE)
    check(f"y = {op}<axis=-2>(x)", 13, after, 12, **CUBE)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("dims", "axis"), [("N,3", 1), ("2,N,1,1", 1), ("5", 0), ("3,1", 0)])
def test_an_axis_with_nothing_behind_it_stays_below_13(op, dims, axis):
    check_unchanged(f"y = {op}<axis={axis}>(x)", 13, 7, **io(dims))


def test_a_negative_axis_is_counted_from_the_front_below_11():
    check("y = Softmax<axis=-1>(x)", 11, "y = Softmax<axis=2>(x)", 10, **CUBE)
    check("y = LogSoftmax(x)", 13, "y = LogSoftmax<axis=2>(x)", 10, **CUBE)
    check_unchanged("y = Hardmax<axis=2>(x)", 11, 1, **CUBE)


def test_inside_a_branch():
    inner = "y = If(c) <then_branch = t () => (float[2,3,4] a) {{ a = Softmax{0}(x) }}, else_branch = e () => (float[2,3,4] b) {{ b = Identity(x) }}>"
    source = model(inner.format(""), 12, inputs="bool c, float[2,3,4] x", outputs="float[2,3,4] y")
    result = convert.attempt(source, {"": 13}).model
    feeds = {"c": np.array(True), "x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)}
    np.testing.assert_array_equal(evaluate(source, feeds)[0], evaluate(result, feeds)[0])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("dims", "axis", "shape", "guarded"),
    [
        ("N,M,K", 1, (2, 3, 0), True),
        ("N,M,K", 1, (2, 3, 4), True),
        ("N,M,K", 0, (0, 3, 4), True),
        ("N,M,K", 2, (0, 3, 4), False),
        ("N,M", 0, (0, 0), True),
        ("N,M", 0, (0, 3), True),
        ("3,M", 0, (3, 0), False),
        ("N,M,4", 1, (0, 3, 4), False),
        ("N,M,4", 1, (2, 0, 4), False),
        ("N,3,4", 1, (0, 3, 4), False),
    ],
)
def test_sizes_that_may_be_0_at_run_time(op, dims, axis, shape, guarded):
    source = model(f"y = {op}<axis={axis}>(x)", 12, **io(dims))
    made = convert.attempt(source, {"": 13}).model
    assert (made.graph.node[-1].op_type == "If") == guarded
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (expected,), (actual,) = evaluate(source, {"x": x}), evaluate(made, {"x": x})
    assert expected.shape == actual.shape == shape
    np.testing.assert_array_equal(actual, expected)


def test_an_unknown_rank_may_be_empty():
    source = model("z = Reshape(x, s) y = Softmax(z)", 12, inputs="float[N] x, int64[K] s", outputs="float[A,B,C] y")
    made = convert.attempt(source, {"": 13}).model
    for shape in ((2, 3, 4), (2, 1, 0)):
        feeds = {"x": np.ones(np.prod(shape), np.float32), "s": np.array([*shape[:2], -1] if shape[2] else [0, 1, 0])}
        if shape[2]:
            np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 0)])
def test_what_only_the_callers_of_a_function_know_may_be_empty(shape):
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 12, "my" : 1]> g (float[N,M,K] x) => (float[A,B,C] y) { y = my.F(x) }
        <domain: "my", opset_import: ["" : 12]> F (x) => (y) { y = Softmax(x) }"""
    )
    made = convert.attempt(source, {"": 13}, ir_version=8).model
    onnx.checker.check_model(made, full_check=True)
    assert made.functions
    x = np.ones(shape, np.float32)
    np.testing.assert_array_equal(evaluate(made, {"x": x})[0], evaluate(source, {"x": x})[0])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("dims", ["0,1,0", "2,0,3", "0", "2,3,4"])
@pytest.mark.parametrize("target", [13, 15])
def test_a_function_that_is_called_with_such_a_shape(target, dims, op):
    source = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 12, "my" : 1]> g (float[{dims}] x) => (float[{dims}] y) {{ y = my.F(x) }}
        <domain: "my", opset_import: ["" : 12]> F (x) => (y) {{ y = {op}<axis=0>(x) }}"""
    )
    made = convert.attempt(source, {"": target}, ir_version=8).model
    onnx.checker.check_model(made, full_check=True)
    x = np.ones([int(n) for n in dims.split(",")], np.float32)
    np.testing.assert_array_equal(OnnxRuntime(made).run({"x": x})[0], OnnxRuntime(source).run({"x": x})[0])


def test_a_hardmax_beside_a_nan_is_what_the_reference_makes_of_it_and_no_more_than_close():
    source = model("y = Hardmax(x)", 13, inputs="float[3,3] x", outputs="float[3,3] y")
    made = convert.attempt(source, {"": 13}, ops=[("", "Hardmax")])
    assert made.grade == "close"
    x = np.float32([[np.nan, 1, 2], [1, np.nan, 2], [-np.inf, -np.inf, -np.inf]])
    expected, actual = (ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (source, made.model))
    np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.mark.parametrize("dims", ["0,2,1", "A,B,C"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_hardmax_of_nothing_on_request(axis, dims):
    source = model(f"y = Hardmax<axis={axis}>(x)", 20, inputs=f"float[{dims}] x", outputs=f"float[{dims}] y")
    after = convert.attempt(source, {"": 20}, ops=[("", "Hardmax")]).model
    for shape in ((0, 2, 1), (2, 3, 0), (2, 0, 2), (2, 3, 2)) if "A" in dims else ((0, 2, 1),):
        x = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
        check_values(source, after, {"x": x}, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (2, 0)])
@pytest.mark.parametrize("opset", [13, 15, 16])
def test_an_indicator_of_bfloat16_of_unknown_sizes_is_valid_at_every_opset(shape, opset):
    """If yields no bfloat16 below 16."""
    source = model("y = Hardmax(x)", opset, inputs="bfloat16[A,B] x", outputs="bfloat16[A,B] y")
    after = convert.attempt(source, {"": opset}, ops=[("", "Hardmax")]).model
    onnx.checker.check_model(after, full_check=True)
    x = np.random.default_rng(0).normal(size=shape).astype(onnx.helper.tensor_dtype_to_np_dtype(16))
    expected = np.zeros(shape)
    if x.size:
        expected[np.arange(shape[0]), x.astype(np.float32).argmax(-1)] = 1
    (actual,) = Reference(after).run({"x": x})
    np.testing.assert_array_equal(actual.astype(np.float64), expected)
