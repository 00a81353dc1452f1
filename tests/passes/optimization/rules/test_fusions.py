"""What one node can do for two, where only the rounding differs: judged by the values, at a tolerance for sums in float32."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, show

RNG = np.random.default_rng(0)
SUMS = {"rtol": 1e-4, "atol": 1e-5}  # float32 sums of up to 100 products in another order


def chain(nodes, held, shape=("N", 3, 8, 8), opset=18, outputs=("y",), rank=None):
    """A model of nodes in a row over `x` with constants."""
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    inputs = [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    vague = [None] * (rank or len(shape))
    results = [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, vague) for name in outputs]
    graph = onnx.helper.make_graph(nodes, "g", inputs, results, tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def node(op, inputs, output, **attributes):
    return onnx.helper.make_node(op, inputs.split(","), [output], **attributes)


def weights(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def feeds(*shape):
    return {"x": RNG.standard_normal(shape).astype(np.float32)}


def norm(count):
    return {"s": weights(count), "b": weights(count), "m": weights(count), "v": np.abs(weights(count)) + 0.1}


CONVOLUTIONS = {
    "Conv": ({}, (4, 3, 3, 3), 4),
    "Conv in groups": ({"group": 3}, (6, 1, 3, 3), 6),
    "ConvTranspose": ({}, (3, 4, 3, 3), 4),
    "ConvTranspose in groups": ({"group": 3}, (3, 2, 3, 3), 6),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_normalization_goes_into_the_convolution(name, bias):
    attributes, shape, channels = CONVOLUTIONS[name]
    held = {"w": weights(*shape), **norm(channels)} | ({"c": weights(channels)} if bias else {})
    inputs = "x,w,c" if bias else "x,w"
    nodes = [
        node(name.split()[0], inputs, "t", **attributes),
        node("BatchNormalization", "t,s,b,m,v", "y", epsilon=1e-3),
    ]
    source = chain(nodes, held)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == [name.split()[0]]
    assert optimize.attempt(source).grade == "close"
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


@pytest.mark.parametrize("changed", [{"v": np.float32([1, -1, 1, 1])}, {"s": np.full(4, 3e38, np.float32)}])
def test_what_makes_no_finite_weights_stays_without_a_warning(changed):
    nodes = [node("Conv", "x,w", "t"), node("BatchNormalization", "t,s,b,m,v", "y")]
    made = optimized(chain(nodes, {"w": 9 * weights(4, 3, 3, 3), **norm(4), **changed}))
    assert [n.op_type for n in made.graph.node] == ["Conv", "BatchNormalization"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (), (1,)])
def test_arithmetic_for_each_channel_goes_into_the_convolution(op, shape):
    held = {"w": weights(4, 3, 3, 3), "k": np.abs(weights(*shape)) + 0.5}
    source = chain([node("Conv", "x,w", "t"), node(op, "t,k", "y")], {**held, "k": held["k"].astype(np.float32)})
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Conv"]
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_the_constant_may_stand_first(op):
    source = chain([node("Conv", "x,w", "t"), node(op, "k,t", "y")], {"w": weights(4, 3, 3, 3), "k": weights(4, 1, 1)})
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Conv"]
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


@pytest.mark.parametrize(
    ("second", "held", "outputs"),
    [
        (node("Sub", "k,t", "y"), {"k": weights(4, 1, 1)}, ("y",)),  # the sign turns
        (node("Div", "k,t", "y"), {"k": weights(4, 1, 1)}, ("y",)),
        (node("Mul", "t,k", "y"), {"k": weights(6, 1)}, ("y",)),  # one for each row
        (node("Mul", "t,k", "y"), {"k": weights(2, 1, 1, 1)}, ("y",)),  # one for each sample
        (node("Mul", "t,k", "y"), {"k": np.full((4, 1, 1), np.inf, np.float32)}, ("y",)),
        (node("Div", "t,k", "y"), {"k": np.zeros((4, 1, 1), np.float32)}, ("y",)),
        (node("Mul", "t,k", "y"), {"k": weights(4, 1, 1)}, ("y", "t")),  # an output
        (node("BatchNormalization", "t,s,b,m,x2", "y"), norm(4), ("y",)),  # a variance that is computed
    ],
)
def test_what_is_not_one_for_each_channel_stays(second, held, outputs):
    nodes = [node("Conv", "x,w", "t"), second]
    if "x2" in second.input:
        nodes.insert(0, node("ReduceMax", "x", "x2", keepdims=0))
    source = chain(nodes, {"w": weights(4, 3, 3, 3), **held}, (2, 3, 8, 8), outputs=outputs)
    assert len(optimize.attempt(source).model.graph.node) == len(nodes)


def test_a_training_normalization_stays():
    second = onnx.helper.make_node("BatchNormalization", ["t", "s", "b", "m", "v"], ["y", "p", "q"], training_mode=1)
    source = chain([node("Conv", "x,w", "t"), second], {"w": weights(4, 3, 3, 3), **norm(4)})
    assert len(optimize.attempt(source).model.graph.node) == 2


@pytest.mark.parametrize(("op", "left"), [("Add", ["Conv"]), ("Mul", ["Conv", "Mul"])])
def test_weights_below_normal_numbers_are_not_multiplied(op, left):
    tiny = weights(4, 3, 3, 3) * np.float32(1e-40)
    made = optimized(chain([node("Conv", "x,w", "t"), node(op, "t,c", "y")], {"w": tiny, "c": weights(4, 1, 1)}))
    assert [n.op_type for n in made.graph.node] == left
    kept = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    np.testing.assert_array_equal(kept[made.graph.node[0].input[1]], tiny)


def test_weights_of_two_convolutions_are_scaled_for_one():
    nodes = [
        node("Conv", "x,w", "t"),
        node("BatchNormalization", "t,s,b,m,v", "u"),
        node("Conv", "x,w", "z"),
        node("Sub", "u,z", "y"),
    ]
    source = chain(nodes, {"w": weights(4, 3, 3, 3), **norm(4)})
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Conv", "Conv", "Sub"]
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


def test_a_convolution_keeps_its_name_and_the_output_its_own():
    first = node("Conv", "x,w", "t")
    first.name = "conv1"
    made = optimized(
        chain([first, node("BatchNormalization", "t,s,b,m,v", "y")], {"w": weights(4, 3, 3, 3), **norm(4)})
    )
    assert (made.graph.node[0].name, list(made.graph.node[0].output)) == ("conv1", ["y"])


MATRIX = {"inputs": "float[N,4] x", "outputs": "float[N,5] y", "grade": "close", "rtol": 1e-6, "atol": 1e-6}
WEIGHTS = "float[4,5] w = {" + ", ".join(["0.5", "-1.25"] * 10) + "}"
BIAS = ", float[5] b = {1.0, 2.0, 3.0, 4.0, 5.0}"


@pytest.mark.parametrize("order", ["Add(t, b)", "Add(b, t)"])
def test_a_product_and_a_bias_are_a_gemm(order):
    after = "y = Gemm(x, float32[4, 5], [1.0, 2.0, 3.0, 4.0, 5.0])".replace("float32[4, 5]", WEIGHT_TEXT)
    check_optimized(f"t = MatMul(x, w) y = {order}", after, constants=WEIGHTS + BIAS, **MATRIX)


WEIGHT_TEXT = str([[0.5 if (i * 5 + k) % 2 == 0 else -1.25 for k in range(5)] for i in range(4)])


def test_a_product_of_more_than_matrices_stays():
    io = {"inputs": "float[B,N,4] x", "outputs": "float[B,N,5] y", "constants": WEIGHTS + BIAS}
    check_kept("t = MatMul(x, w) y = Add(t, b)", **io)


def test_a_sum_that_widens_the_product_stays():
    io = {"inputs": "float[1,4] x", "outputs": "float[2,5] y", "constants": WEIGHTS + ", float[2,1] b = {1.0, 2.0}"}
    check_kept("t = MatMul(x, w) y = Add(t, b)", **io)


@pytest.mark.parametrize(("flag", "after"), [(0, "transA=1"), (1, None)])
def test_a_gemm_transposes_by_itself(flag, after):
    source = chain(
        [node("Transpose", "x", "t", perm=[1, 0]), node("Gemm", "t,w", "y", transA=flag)],
        {"w": weights(3 if not flag else 4, 5)},
        (3, 4),
    )
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Gemm"]
    assert ("transA=1" in show(made)) == (after is not None)
    check_values(source, made, feeds(3, 4), **SUMS)


@pytest.mark.parametrize("own", [None, [1, 0, 0, 1]])
def test_zeros_around_are_padded_by_the_convolution(own):
    attributes = {} if own is None else {"pads": own}
    held = {"w": weights(4, 3, 3, 3), "p": np.array([0, 0, 1, 2, 0, 0, 0, 1])}
    source = chain([node("Pad", "x,p", "t"), node("Conv", "t,w", "y", **attributes)], held)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Conv"]
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


@pytest.mark.parametrize(
    ("pads", "value", "attributes", "conv"),
    [
        ([0, 1, 0, 0, 0, 0, 0, 0], 0.0, {}, {}),  # a channel
        ([0, 0, 1, 1, 0, 0, 1, 1], 1.0, {}, {}),
        ([0, 0, -1, 0, 0, 0, 0, 0], 0.0, {}, {}),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, {"mode": "edge"}, {}),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, {}, {"auto_pad": "SAME_UPPER"}),
    ],
)
def test_other_pads_stay(pads, value, attributes, conv):
    shape = (4, 4, 3, 3) if pads[1] else (4, 3, 3, 3)
    held = {"w": weights(*shape), "p": np.array(pads), "k": np.float32(value)}
    source = chain([node("Pad", "x,p,k", "t", **attributes), node("Conv", "t,w", "y", **conv)], held)
    assert len(optimize.attempt(source).model.graph.node) == 2


@pytest.mark.parametrize(
    ("pads", "strides", "more", "left"),
    [
        ([1, 1, 1, 1], [2, 2], {}, [1, 1, 0, 0]),
        ([1, 1, 1, 1], [1, 2], {}, [1, 1, 1, 0]),
        ([0, 0, 2, 2], [3, 3], {}, [0, 0, 1, 1]),
        ([0, 0, 1, 0], [4, 7], {}, [0, 0, 0, 0]),
        ([1, 1, 1, 1], [2, 2], {"dilations": [2, 3]}, [1, 1, 0, 0]),
    ],
)
def test_padding_that_no_window_reaches_goes(pads, strides, more, left):
    source = chain([node("Conv", "x,w", "y", pads=pads, strides=strides, **more)], {"w": weights(4, 3, 3, 3)})
    made = optimized(source)
    assert [list(a.ints) for a in made.graph.node[0].attribute if a.name == "pads"] == [left]
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


def test_zeros_around_count_in_an_average():
    held = {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    source = chain([node("Pad", "x,p", "t"), node("AveragePool", "t", "y", kernel_shape=[3, 3])], held)
    made = optimized(source)
    (pool,) = made.graph.node
    assert {a.name: a.i or list(a.ints) for a in pool.attribute} == {
        "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1,
    }  # fmt: skip
    check_values(source, made, feeds(2, 3, 8, 8), **SUMS)


@pytest.mark.parametrize("attributes", [{"ceil_mode": 1}, {"pads": [1, 1, 1, 1]}, {"kernel_shape": [1, 1]}])
def test_other_averages_stay(attributes):
    held = {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    given = {"kernel_shape": [3, 3], **attributes}
    source = chain([node("Pad", "x,p", "t"), node("AveragePool", "t", "y", **given)], held)
    assert len(optimize.attempt(source).model.graph.node) == 2


def test_a_layer_between_two_reshapes_works_on_a_matrix():
    held = {"a": np.array([-1, 4, 6]), "w": weights(6, 8), "b": weights(8), "c": np.array([-1, 2, 2, 8])}
    nodes = [
        node("Reshape", "x,a", "r"),
        node("MatMul", "r,w", "t"),
        node("Add", "t,b", "u"),
        node("Reshape", "u,c", "y"),
    ]
    source = chain(nodes, held, ("N", 24), rank=4)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm", "Reshape"]
    check_values(source, made, feeds(3, 24), **SUMS)


def layer(reshape, shape=("N", 4, 6), bias=(8,), rank=4):
    held = {"w": weights(6, 8), "b": weights(*bias), "c": np.array(reshape)}
    nodes = [node("MatMul", "x,w", "t"), node("Add", "t,b", "u"), node("Reshape", "u,c", "y")]
    return chain(nodes, held, shape, rank=rank)


@pytest.mark.parametrize("reshape", [[-1, 4, 2, 4], [0, 4, 2, 4], [0, 0, 2, 4], [0, -1, 2, 4]])
def test_a_layer_whose_result_is_reshaped_works_on_a_matrix(reshape):
    source = layer(reshape)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm", "Reshape"]
    for count in (1, 3):
        check_values(source, made, feeds(count, 4, 6), **SUMS)


def test_one_bias_for_all_columns_is_that_of_a_gemm():
    source = layer([-1, 4, 2, 4], bias=(1,))
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm", "Reshape"]
    check_values(source, made, feeds(3, 4, 6), **SUMS)


def test_layers_of_one_value_share_its_rows():
    held = {"w": weights(6, 8), "v": weights(6, 8), "b": weights(8), "c": np.array([0, 4, 2, 4])}
    nodes = [
        node("MatMul", "x,w", "t"),
        node("Add", "t,b", "u"),
        node("Reshape", "u,c", "y"),
        node("MatMul", "x,v", "t2"),
        node("Add", "b,t2", "u2"),
        node("Reshape", "u2,c", "z"),
    ]
    source = chain(nodes, held, ("N", 4, 6), outputs=("y", "z"), rank=4)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm", "Reshape", "Gemm", "Reshape"]
    check_values(source, made, feeds(3, 4, 6), **SUMS)


@pytest.mark.parametrize(
    "source",
    [
        layer([0, 0, 2, 4], ("N", "M", 6)),  # two dimensions that are not known
        layer([0, 4, 2, 4], bias=(4, 8)),  # a summand for each row
        layer([-1, 4], (4, 6), rank=2),  # a matrix already: a Gemm alone
    ],
)
def test_other_layers_stay(source):
    made = optimized(source).graph.node
    assert [n.op_type for n in made] in (["MatMul", "Add", "Reshape"], ["Gemm", "Reshape"])
