"""What hangs on constants: what is computed of them, and what is not."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_optimized, held, optimized
from tests.support import check_values, evaluate, model, show

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
CONSTANTS = "float[3] c = {1.0, -1.0, 0.25}, float[3] d = {2.5, 2.5, 1.0}"


def test_what_hangs_on_constants_is_computed():
    body = "a = Add(c, d) b = Neg(a) y = Mul(x, b)"
    made = check_optimized(body, "y = Mul(x, [-3.5, -1.5, -1.25])", constants=CONSTANTS, **IO)
    assert held(made) == {"b"}, "the value keeps its name, and what it was made of is gone"


@pytest.mark.parametrize(
    "node",
    [
        "Gemm(a, b)",
        "Gemm(a, b, c)",
        "Gemm<transA=1>(d, b)",
        "Gemm<transB=1, alpha=0.5>(b, d)",
        "Gemm<transA=1, beta=2.0>(d, b, c)",
        "Transpose(d)",
        "Transpose<perm=[1, 0]>(d)",
    ],
)
def test_products_of_constants_are_those_of_the_engine(node):
    constants = "float[2,3] a = {1, 2, 3, 4, 5, 6}, float[3,2] b = {1, -2, 3, 4, 0, 5}, float[2] c = {7, 8}, "
    constants += "float[3,2] d = {1, 3, 5, 7, 9, 11}"
    source = model(f"k = {node} y = Add(x, k)", 18, inputs="float x", outputs="float[A,B] y", constants=constants)
    made = optimize.attempt(source).model
    assert [n.op_type for n in made.graph.node] == ["Add"]
    check_values(source, made, {"x": np.float32(0.5)}, rtol=0, atol=0)


def test_a_constant_node_becomes_an_initializer():
    made = check_optimized(
        "c = Constant<value_floats=[1.5, 2.5, 3.5]>() y = Mul(x, c)", "y = Mul(x, [1.5, 2.5, 3.5])", **IO
    )
    assert held(made) == {"c"}
    assert not [node for node in made.graph.node if node.op_type == "Constant"]


def test_what_lacks_an_input_is_not_computed():
    io = {"inputs": "bool[2] c", "outputs": "bool[2] y", "constants": "float[2] a = {1.0, 2.0}"}
    source = model("b = Less(a, a) y = And(b, c)", 18, **io)
    source.graph.node[0].input[1] = ""
    assert show(optimize.attempt(source).model) == show(source)


def test_a_sparse_constant_stays():
    source = model("y = Add(x, c)", 18, inputs="float[N,3] x", outputs="float[N,3] y")
    values = onnx.helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5])
    sparse = onnx.helper.make_sparse_tensor(values, onnx.helper.make_tensor("i", TensorProto.INT64, [1], [1]), [3])
    source.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    assert optimized(source) == source


def test_an_output_that_is_constant_stays_a_node():
    io = {"inputs": "float[N,3] x", "outputs": "float[3] y", "constants": CONSTANTS}
    check_optimized("y = Add(c, d)", "y = Constant<value=[3.5, 1.5, 1.25]>()", **io)


def test_below_ir_4_constants_are_nodes():
    source = model("a = Add(c, c) y = Mul(x, a)", 7, constants="float[1] c = {1.5}", **IO)
    source.ir_version = 3
    source.graph.input.extend([onnx.helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    made = optimized(source)
    assert show(made) == "y = Mul(x, [3.0])"
    assert held(made) == {"c"}, "it is an input, too"
    assert len(made.graph.input) == 2
    check_values(source, made, {"x": np.ones((2, 3), np.float32)}, rtol=0, atol=0)


def test_an_initializer_that_a_caller_may_override_is_no_constant():
    source = model("a = Add(c, c) y = Mul(x, a)", 18, constants="float[1] c = {1.5}", **IO)
    source.graph.input.extend([onnx.helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    assert show(optimized(source)) == show(source)
    assert not optimize.attempt(source).changes


@pytest.mark.long
@pytest.mark.parametrize(("size", "nodes"), [(1 << 10, 1), (1 << 20, 3)])
def test_a_constant_that_is_much_larger_than_what_it_is_made_of_is_not_made(size, nodes):
    body = "a = ConstantOfShape(s) b = Neg(a) y = Add(x, b)"
    io = {"inputs": "float[1] x", "outputs": "float[N] y", "constants": f"int64[1] s = {{{size}}}"}
    made = optimized(model(body, 18, **io))
    assert len(made.graph.node) == nodes
    assert sum(tensor.ByteSize() for tensor in made.graph.initializer) < (1 << 20) + 100


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("a = ConstantOfShape(s)", "int64[2] s = {1000000000000, 1000000000000}"),
        ("a = Expand(c, s)", "float c = {1.0}, int64[2] s = {1000000000000, 1000000000000}"),
        ("a = Tile(c, s)", "float[1,1] c = {1.0}, int64[2] s = {1000000000, 1000000000}"),
        ("i = Range(z, s, o) a = Cast<to=1>(i)", "int64 z = {0}, int64 s = {500000}, int64 o = {1}"),
    ],
)
def test_a_constant_that_would_be_large_is_not_made(body, constants):
    source = model(f"{body} y = Add(x, a)", 18, inputs="float[1] x", outputs="float[N] y", constants=constants)
    assert len(optimized(source).graph.node) >= 2


def test_a_weight_that_only_one_node_reads_is_turned():
    weights = np.arange(600 * 500, dtype=np.float32).reshape(600, 500)
    source = model(
        "t = Transpose<perm=[1,0]>(w) y = MatMul(x, t)", 18, inputs="float[N,500] x", outputs="float[N,600] y"
    )
    source.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    made = optimized(source)
    assert [node.op_type for node in made.graph.node] == ["MatMul"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(made.graph.initializer[0]), weights.T)


def test_a_weight_that_others_read_is_not_doubled():
    body = "t = Transpose<perm=[1,0]>(w) h = MatMul(x, t) y = MatMul(h, w)"
    source = model(body, 18, inputs="float[N,500] x", outputs="float[N,500] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((600, 500), np.float32), "w"))
    assert [node.op_type for node in optimized(source).graph.node] == ["Transpose", "MatMul", "MatMul"]


def test_a_weight_in_a_file_that_is_not_there_stays(tmp_path):
    source = model("t = Transpose<perm=[1,0]>(w) y = MatMul(x, t)", 18, inputs="float[N,5] x", outputs="float[N,6] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((6, 5), np.float32), "w"))
    (tmp_path / "w.bin").write_bytes(source.graph.initializer[0].raw_data)
    onnx.external_data_helper.set_external_data(source.graph.initializer[0], "w.bin")
    source.graph.initializer[0].ClearField("raw_data")
    assert len(optimize.attempt(source).model.graph.node) == 2
    assert len(optimize.attempt(source, folder=str(tmp_path)).model.graph.node) == 1


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Div(a, b)", [2, -2, 0]),  # towards zero
        ("Mod(a, b)", [1, 2, 0]),  # the sign of the divisor
        ("Mod<fmod=1>(a, b)", [1, -1, 0]),
        ("Max(a, b)", [7, 3, 5]),
        ("Sub(a, b)", [4, -10, -5]),
        ("ReduceProd<keepdims=0>(a, k)", 0),
        ("Slice(a, m, e, k, m)", [0, -7, 7]),
        ("Gather(a, m)", [0]),
        ("Where(l, a, b)", [3, -7, 0]),
    ],
)
def test_integers_are_computed_as_the_texts_say(node, expected):
    constants = (
        "int64[3] a = {7, -7, 0}, int64[3] b = {3, 3, 5}, int64[1] k = {0}, int64[1] m = {-1}, int64[1] e = {-9}"
    )
    io = {"inputs": "int64[1] x", "outputs": "int64[M] y", "constants": constants + ", bool[3] l = {0, 1, 1}"}
    source = model(f"c = {node} y = Add(c, x)", 18, **io)
    made = optimized(source)
    assert len(made.graph.node) == 1
    (result,) = evaluate(made, {"x": np.array([0])})
    np.testing.assert_array_equal(result, np.atleast_1d(expected))
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize("node", ["Div(a, z)", "Mod(a, z)", "Gather(a, far)", "Reshape(a, far)"])
def test_what_cannot_be_computed_stays(node):
    constants = "int64[3] a = {7, -7, 0}, int64[3] z = {3, 0, 5}, int64[1] far = {5}"
    io = {"inputs": "int64[1] x", "outputs": "int64[M] y", "constants": constants}
    assert len(optimize.attempt(model(f"c = {node} y = Add(c, x)", 18, **io)).model.graph.node) == 2


@pytest.mark.parametrize(
    ("node", "grade"), [("Sqrt(c)", "exact"), ("Div(c, d)", "exact"), ("Exp(c)", "close"), ("Pow(c, d)", "close")]
)
def test_floats_are_exact_where_ieee_754_says_how_to_round(node, grade):
    after = {"Sqrt(c)": "[1.0, nan, 0.5]"}
    source = model(f"a = {node} y = Mul(x, a)", 18, constants=CONSTANTS, **IO)
    result = optimize.attempt(source)
    assert result.grade == grade
    assert len(result.model.graph.node) == 1
    assert after.get(node, "") in show(result.model)
    check_values(source, result.model, rtol=0 if grade == "exact" else 1e-6, atol=0)


@pytest.mark.parametrize(
    ("values", "nodes"),
    [([0.0, -1.0, 2.0], 1), ([-0.0, -1.0, 2.0], 2), ([np.nan, -1.0, 2.0], 2), ([3.0, -1.0, np.inf], 1)],
)
def test_the_smaller_of_floats_is_taken_where_engines_agree(values, nodes):
    source = model("a = Min(c, z) y = Add(x, a)", 18, constants="float[3] z = {0.0, 1.0, 0.0}", **IO)
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values, np.float32), "c"))
    made = optimized(source)
    assert len(made.graph.node) == nodes
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize("value", ["nan", "inf", "-3.5e9"])
def test_a_float_that_is_no_integer_is_not_cast(value):
    source = model("a = Cast<to=6>(c) y = Add(x, a)", 18, inputs="int32[N] x", outputs="int32[N] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.array([float(value)], np.float32), "c"))
    assert len(optimized(source).graph.node) == 2
