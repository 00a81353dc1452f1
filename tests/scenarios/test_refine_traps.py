"""What looks like an operator, or like nothing, and is something else: neither folding nor optimizing changes it."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.fusion import fold
from opshift.passes.goals import Goal, Refinement
from opshift.passes.optimization import optimize

from tests.support import check_values, evaluate, model, show

NORMAL = (
    "m = ReduceMean({}, a) c = Sub({}, m) q = Mul(c, c) v = ReduceMean(q, a) w = Add(v, e) "
    "r = Sqrt(w) n = Div(c, r) g = Mul(n, s) y = Add(g, b)"
)


def check_fold_keeps(source, feeds=None):
    result = fold.attempt(source)
    assert show(result.model) == show(source)
    assert not result.changes
    check_values(source, result.model, feeds, rtol=0, atol=0)


def function(body, call, attribute, outputs="float[N,M] y"):
    """A model that calls a function with one attribute, whose type is known in its body."""
    return onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 24, "f" : 1]>
        g (float[3,3] x) => ({outputs}) {{ y = f.F<{call}>(x) }}
        <domain: "f", opset_import: ["" : 24]> F <{attribute}> (given) => (y) {{ x = Cast<to=1>(given) {body} }}
    """)


@pytest.mark.newest
@pytest.mark.parametrize(
    ("body", "call", "shape"),
    [
        ("t = Transpose<perm: ints = @p>(x) s = Sigmoid(t) y = Mul(x, s)", "p=[1,0]", (3, 3)),
        (
            "q = Mul(x, x) a = Constant<value_ints=[-1]>() s = ReduceSum<keepdims: int = @p>(q, a) y = Sqrt(s)",
            "p=1",
            (3, 1),
        ),
        ("e = Elu<alpha: float = @p>(x) s = Sigmoid(e) y = Mul(x, s)", "p=3.0", (3, 3)),
    ],
)
def test_an_attribute_that_the_caller_gives_is_not_the_default(body, call, shape):
    source = function(body, call, "p")
    check_fold_keeps(source)
    (value,) = evaluate(source, {"x": np.eye(3, dtype=np.float32)})
    assert value.shape == shape


def test_two_dropouts_in_training_are_two_values():
    body = "a = Dropout(x, r, t) b = Dropout(x, r, t) s = Sigmoid(a) y = Mul(b, s)"
    source = model(body, 24, inputs="float[9] x", outputs="float[9] y", constants="float r = {0.5}, bool t = {1}")
    assert not fold.attempt(source).changes


@pytest.mark.parametrize(("first", "second"), [("e", "g"), ("g", "e")])
def test_two_dimensions_that_are_computed_are_not_the_same(first, second):
    """Where x is one row, the mean has more rows than x, or the other way round."""
    constants = "int64[1] a = {-1}, float e0 = {0.5}, float[5] s = {1, 2, 3, 4, 5}, int64[2] to = {-1, 5}"
    body = "g = Reshape(x, to) h = Reshape(z, to) k = Shape(h) e = Expand(g, k) "
    body += NORMAL.format(first, second).replace("(v, e)", "(v, e0)").replace("(g, b)", "(o, s)")
    source = model(
        body.replace("g = Mul(n, s)", "o = Mul(n, s)"),
        18,
        inputs="float[A] x, float[B] z",
        outputs="float[P,Q] y",
        constants=constants,
    )
    x = np.array([1, 2, 4, 8, 16], np.float32)
    result = fold.attempt(source)
    check_values(source, result.model, {"x": x, "z": np.zeros(20, np.float32)}, rtol=0, atol=0)


def test_a_dimension_that_is_computed_is_not_minus_one():
    constants = "int64[1] a = {-1}, int64[2] to = {-1, 5}, int64[2] minus = {-1, -1}, int64[2] ones = {1, 1}"
    body = "g = Reshape(x, to) k = Shape(g) c = Equal(k, minus) t = Where(c, ones, k) q = Mul(z, z) "
    body += "e = Expand(q, t) r = ReduceSum(e, a) y = Sqrt(r)"
    source = model(body, 18, inputs="float[A] x, float[1,5] z", outputs="float[P,Q] y", constants=constants)
    result = Goal(refinement=Refinement(fold=True, optimize=True)).run(source)
    feeds = {"x": np.zeros(20, np.float32), "z": np.arange(5, dtype=np.float32).reshape(1, 5)}
    check_values(source, result.model, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize(("inner", "outer"), [("x", "w"), ("w", "x")])
def test_a_value_that_was_rounded_is_not_the_value(kind, inner, outer):
    to = onnx.TensorProto.DataType.Value(kind)
    body = f"h = Cast<to={to}>(x) w = Cast<to=1>(h) s = Sigmoid({inner}) y = Mul({outer}, s)"
    check_fold_keeps(model(body, 24, inputs="float[7] x", outputs="float[7] y"))


@pytest.mark.parametrize(("epsilon", "folds"), [("0.5", True), ("1e-5", False)])
def test_an_epsilon_that_no_float32_is_stays_in_double(epsilon, folds):
    constants = f"int64[1] a = {{-1}}, double e = {{{epsilon}}}"
    constants += ", double[5] s = {1, 2, 3, 4, 5}, double[5] b = {0, 1, 2, 3, 4}"
    source = model(NORMAL.format("x", "x"), 18, inputs="double[2,5] x", outputs="double[2,5] y", constants=constants)
    result = fold.attempt(source)
    assert bool(result.changes) == folds
    check_values(source, result.model, {"x": np.arange(10.0).reshape(2, 5)}, rtol=1e-14, atol=1e-14)


def test_a_float_that_no_attribute_holds_stays():
    body = "z = Less(x, o) t = Mul(x, f) y = Where(z, t, x)"
    for slope, folds in (("0.25", True), ("0.1", False)):
        constants = f"double o = {{0}}, double f = {{{slope}}}"
        source = model(body, 16, inputs="double[5] x", outputs="double[5] y", constants=constants)
        result = fold.attempt(source)
        assert bool(result.changes) == folds
        check_values(source, result.model, rtol=0, atol=0)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceL1"])
def test_a_scalar_has_no_axes_to_reduce(op):
    check_fold_keeps(model(f"r = {op}(x) y = Sqrt(r)", 18, inputs="float x", outputs="float y"))


@pytest.mark.parametrize("low", ["-inf", "0.5"])
def test_a_vector_of_floats_is_none_of_integers(low):
    body = "m = Where(c, l, z) a = Add(x, m) y = Softmax(a)"
    constants = f"bool[3] c = {{1, 0, 1}}, float[1] l = {{{low}}}, float[1] z = {{0}}"
    check_fold_keeps(model(body, 18, inputs="float[2,3] x", outputs="float[2,3] y", constants=constants))


def test_below_ir_4_a_constant_that_folding_brings_is_an_input_too():
    source = model(
        "q = Mul(x, x) t = ReduceSum(q, a) y = Sqrt(t)",
        18,
        inputs="float[3,4] x, int64[1] a",
        outputs="float[3,M] y",
        constants="int64[1] a = {1}",
    )
    source.ir_version = 3
    result = fold.attempt(source)
    assert result.changes
    onnx.checker.check_model(result.model)
    check_values(source, result.model, rtol=1e-6, atol=0)


def test_a_result_without_axes_is_no_normalization():
    body = "m = ReduceMean<axes=[0]>(x) c = Sub(x, m) q = Mul(c, c) v = ReduceMean<axes=[0]>(q) w = Sqrt(v) "
    body += "n = Div(c, w) y = ReduceSum<axes=[0], keepdims=0>(n)"
    check_fold_keeps(model(body, 12, inputs="float[3] x", outputs="float y"), {"x": np.array([1, 2, 4], np.float32)})


def test_a_value_that_an_annotation_speaks_of_stays():
    source = model("s = Sigmoid(x) y = Mul(x, s)", 24, inputs="float[3] x", outputs="float[3] y")
    source.graph.quantization_annotation.add(tensor_name="s")
    check_fold_keeps(source)


# --- optimization -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Max(i, j, k)", [7, 8]),
        ("Min(k, j, i)", [1, 1]),
        ("GatherElements<axis=1>(d, p)", [[2, 1]]),
        ("GatherElements(d, p)", [[6, 4]]),
    ],
)
def test_constants_are_computed_of_all_inputs_in_their_shapes(node, expected):
    constants = "int64[2] i = {1, 1}, int64[2] j = {2, 3}, int64[2] k = {7, 8}, int64[1,2] p = {2, 1}"
    constants += ", int64[3,3] d = {0, 1, 2, 3, 4, 5, 6, 7, 8}"
    source = model(f"c = {node} y = Add(c, x)", 18, inputs="int64[1] x", outputs="int64[M] y", constants=constants)
    del source.graph.output[0].type.tensor_type.shape.dim[:]
    source.graph.output[0].type.tensor_type.ClearField("shape")
    result = optimize.attempt(source)
    assert len(result.model.graph.node) == 1
    np.testing.assert_array_equal(evaluate(result.model, {"x": np.array([0])})[0], expected)


@pytest.mark.parametrize("held", [True, False])
def test_engines_disagree_about_a_squeeze_of_no_axes(held):
    """onnxruntime takes out all axes of length 1, numpy none."""
    constants = "int64[0] a = {}" + (", float[1,3] k = {1, 2, 3}" if held else "")
    body = f"s = Squeeze({'k' if held else 'x'}, a) y = Abs(s)"
    source = model(body, 18, inputs="float[1,3] x", outputs="float[M] y", constants=constants)
    assert [node.op_type for node in optimize.attempt(source).model.graph.node] == ["Squeeze", "Abs"]


@pytest.mark.parametrize(
    ("kind", "weight", "scale", "folds"),
    [(np.float16, 7e-4, 1e-4, False), (np.float32, 7e-38, 1e-6, False), (np.float16, 0.5, 0.25, True)],
)
def test_a_factor_that_leaves_weights_few_bits_stays_outside(kind, weight, scale, folds):
    of = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    held = {"w": np.full((2, 1, 3, 3), weight), "s": [scale] * 2, "b": [0, 0], "m": [0, 0], "v": [1, 1]}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"]),
        onnx.helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
    ]
    inputs = [onnx.helper.make_tensor_value_info("x", of, [1, 1, 5, 5])]
    outputs = [onnx.helper.make_tensor_value_info("y", of, [1, 2, 3, 3])]
    constants = [onnx.numpy_helper.from_array(np.asarray(value, kind), name) for name, value in held.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, constants)
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    assert (len(optimize.attempt(source).model.graph.node) == 1) == folds


@pytest.mark.parametrize(("opset", "nodes"), [(8, ["Less"]), (9, ["Constant"])])
def test_a_constant_node_holds_what_its_opset_lets_it_hold(opset, nodes):
    constants = "float[2] a = {1, 2}, float[2] b = {2, 1}"
    source = model("y = Less(a, b)", opset, inputs="float x", outputs="bool[2] y", constants=constants)
    made = optimize.attempt(source).model
    assert [node.op_type for node in made.graph.node] == nodes
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize("opset", [8, 9])
def test_a_shape_that_is_stated_below_ir_4_has_a_type_that_constants_have(opset):
    body = "k = Constant<value = int64[3] {1, 2, 3}>() a = Reshape(x, k) y = Flatten<axis=2>(a)"
    body = body if opset > 8 else "a = Unsqueeze<axes=[0]>(x) y = Flatten<axis=2>(a)"
    source = model(body, opset, inputs="float[2,3] x", outputs="float[2,3] y")
    source.ir_version = 3
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, rtol=0, atol=0)


def test_a_mean_that_training_updates_is_not_shared():
    """onnxruntime updates it where it lies, and with it whatever else is read from there."""
    held = ", ".join(f"float[2] {name} = {{1, 2}}" for name in "sbmv")
    body = "y, p, q = BatchNormalization<training_mode=1>(x, s, b, m, v)"
    source = model(body, 15, inputs="float[2,2,5] x", outputs="float[2,2,5] y", constants=held)
    made = optimize.attempt(source).model
    assert {"m", "v"} <= {tensor.name for tensor in made.graph.initializer}
    check_values(source, made, {"x": np.arange(20, dtype=np.float32).reshape(2, 2, 5)}, rtol=0, atol=0)
