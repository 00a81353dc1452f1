"""Numbers that what a linear layer makes is multiplied by go into its weights: judged by values in float32."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.optimization.rules.test_fusions import SUMS, chain, feeds, node, weights
from tests.passes.simplification.rules.support import check_kept, optimized
from tests.support import check_values, model

HALF = {"k": np.float32(0.5)}


def layer(kind, op, factor="k"):
    first = {
        "Gemm": [node("Gemm", "x,w,b", "t", alpha=2.0, beta=0.5)],
        "Gemm without a bias": [node("Gemm", "x,w", "t")],
        "MatMul": [node("MatMul", "x,w", "t")],
        "MatMul and Add": [node("MatMul", "x,w", "s"), node("Add", "s,b", "t")],
        "Add and MatMul": [node("MatMul", "x,w", "s"), node("Add", "b,s", "t")],
    }[kind]
    return [*first, node(op, f"t,{factor}", "y")]


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize("kind", ["Gemm", "Gemm without a bias", "MatMul", "MatMul and Add", "Add and MatMul"])
def test_a_factor_goes_into_the_layer(kind, op):
    shape = (2, 6) if "Gemm" in kind else (2, 3, 6)
    source = chain(layer(kind, op), {"w": weights(6, 8), "b": weights(8), "k": np.full((1,), 0.3, np.float32)}, shape)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == [n.op_type for n in source.graph.node][:-1]
    assert optimize.attempt(source).grade == "close"
    check_values(source, made, feeds(*shape), **SUMS)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, -0.0])
def test_what_is_no_number_in_the_input_is_none_in_the_output(odd):
    source = chain(
        layer("MatMul and Add", "Mul"), {"w": np.eye(6, dtype=np.float32), "b": weights(6), **HALF}, (2, 3, 6)
    )
    given = feeds(2, 3, 6)
    given["x"][0, 0, 0] = odd
    check_values(source, optimized(source), given, **SUMS)


@pytest.mark.parametrize(
    ("nodes", "held", "outputs"),
    [
        (layer("MatMul", "Mul"), {"k": np.float32(0)}, ("y",)),  # infinities would become numbers
        (layer("MatMul", "Mul"), {"k": np.float32(np.inf)}, ("y",)),
        (layer("MatMul", "Mul"), {"k": np.float32(3e38)}, ("y",)),  # weights that are no numbers
        (layer("MatMul", "Mul"), {"k": np.float32(1e-38)}, ("y",)),  # or none that are precise
        (layer("MatMul", "Mul"), {"k": weights(8)}, ("y",)),  # one for each column
        (layer("MatMul", "Mul"), {"k": np.full((2, 1, 1, 1), 0.5, np.float32)}, ("y",)),
        (layer("MatMul and Add", "Mul"), HALF, ("y", "t")),
        (layer("MatMul and Add", "Mul"), HALF, ("y", "s")),
        ([node("MatMul", "x,w", "t"), node("Div", "k,t", "y")], HALF, ("y",)),
        (
            [node("Relu", "b", "c"), node("MatMul", "x,w", "s"), node("Add", "s,c", "t"), node("Mul", "t,k", "y")],
            HALF,
            ("y",),
        ),
    ],
)
def test_other_products_stay(nodes, held, outputs):
    if len(nodes) == 4:
        nodes[0] = node("ReduceMax", "x", "c", keepdims=0)  # a bias that is computed
    source = chain(
        nodes,
        {"w": weights(6, 8) * 4, "b": weights(8), **held},
        (2, 3, 6),
        outputs=outputs,
        rank=4 if np.ndim(held["k"]) == 4 else 3,
    )
    made = optimize.attempt(source).model.graph.node
    assert [n.op_type for n in made] == [n.op_type for n in nodes]


def test_weights_that_are_divided_by_next_to_nothing_stay_without_a_warning():
    io = {
        "inputs": "double[1,2] x",
        "outputs": "double[1,2] y",
        "constants": "double[2,2] w = {0, 1, 2, 3}, double k = {1e-310}",
    }
    check_kept("t = MatMul(x, w) y = Div(t, k)", **io)


def test_large_weights_that_others_read_are_not_copied():
    nodes = [*layer("MatMul", "Mul"), node("MatMul", "x,w", "u"), node("Add", "y,u", "z")]
    nodes[2] = node("MatMul", "x2,w", "u")
    nodes.insert(0, node("Neg", "x", "x2"))
    held = {"w": np.ones((1024, 512), np.float32), **HALF}
    source = chain(nodes, held, (2, 3, 1024), outputs=("z",), rank=3)
    assert len(optimize.attempt(source).model.graph.node) == len(nodes)


def reshaped(second="Add", bias="b", shape=(2, 3, 6), reshape=(0, 0, 6), outputs=("y",)):
    nodes = [node("Reshape", "x,c", "r"), node("MatMul", "r,w", "t"), node(second, f"t,{bias}", "y")]
    held = {"w": weights(6, 8), "b": weights(8), "m": weights(3, 8), "c": np.array(reshape)}
    return chain(nodes, held, shape, outputs=outputs, rank=3)


@pytest.mark.parametrize(
    ("shape", "reshape"), [((2, 3, 2, 3), (2, 3, 6)), (("N", 3, 2, 3), (-1, 3, 6)), ((2, "N", 2, 3), (2, -1, 6))]
)
def test_a_layer_of_a_value_that_was_reshaped_works_on_its_rows(shape, reshape):
    source = reshaped(shape=shape, reshape=reshape)
    made = optimized(source)
    assert [n.op_type for n in made.graph.node] == ["Reshape", "Gemm", "Reshape"]
    assert optimize.attempt(source).grade == "close"
    check_values(source, made, feeds(2, 3, 2, 3), **SUMS)


@pytest.mark.parametrize(
    "source",
    [
        reshaped(shape=("N", "M", 2, 3), reshape=(0, 0, 6)),  # two dimensions that are not known
        reshaped(second="Sub", shape=(2, 3, 2, 3)),
        reshaped(bias="m", shape=(2, 3, 2, 3)),  # a summand for each row
    ],
)
def test_layers_of_other_rows_stay(source):
    assert [n.op_type for n in optimized(source).graph.node] == [n.op_type for n in source.graph.node]


def test_a_bias_of_zeros_goes_instead():
    source = reshaped(shape=(2, 3, 2, 3))
    bias = next(tensor for tensor in source.graph.initializer if tensor.name == "b")
    bias.CopyFrom(onnx.numpy_helper.from_array(np.zeros(tuple(bias.dims), np.float32), "b"))
    assert [n.op_type for n in optimized(source).graph.node] == ["Reshape", "MatMul"]


MODEL = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[2,3] x, bool c) => (float[2,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float k = {0.5}> {
  y = If (c) <
    then_branch = t () => (float[2,2] t_y) { p = MatMul(x, w) t_y = Mul(p, k) },
    else_branch = f () => (float[2,2] f_y) { f_y = local.scaled(x) }
  >
}
<domain: "local", opset_import: ["" : 18]>
scaled (v) => (z) {
  w = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>() b = Constant<value_floats=[1.0, 2.0]>()
  k = Constant<value_float=0.5>() s = MatMul(v, w) q = Add(s, b) z = Mul(q, k)
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch_and_in_a_function(condition):
    before = onnx.parser.parse_model(MODEL)
    made = optimize.attempt(before).model
    (then,) = (a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    assert [n.op_type for n in then.node] == ["MatMul"]
    assert [n.op_type for n in made.functions[0].node if n.op_type != "Constant"] == ["MatMul", "Add"]
    check_values(before, made, {**feeds(2, 3), "c": np.asarray(condition)}, **SUMS)


BEFORE = {
    "Conv": ("y = {}({}, w, b)", "float[2,4,5,5] x", "float[4,4,3,3] w", "float[4] b"),
    "Conv in groups": ("y = Conv<group=2, pads=[1,1,1,1]>({1}, w)", "float[2,4,5,5] x", "float[4,2,3,3] w", ""),
    "ConvTranspose": ("y = {}({}, w, b)", "float[2,4,5,5] x", "float[4,4,3,3] w", "float[4] b"),
    "Gemm": ("y = Gemm<alpha=2.0, beta=0.5>({1}, w, b)", "float[3,4] x", "float[4,4] w", "float[4] b"),
    "MatMul": ("y = {}({}, w)", "float[2,3,4] x", "float[4,4] w", ""),
}


def before_layer(op, factor="t = Mul(x, k)", number=0.5, shape=None, weights_of=None):
    text, data, w, b = BEFORE[op]
    body = f"{factor} {text.format(op, 't')}"
    source = model(body, 18, inputs=shape or data, outputs=f"float[{','.join(['?'] * (data.count(',') + 1))}] y")
    held = {"k": np.asarray(number, np.float32)}
    for name, declared in (("w", w), ("b", b)):
        if declared:
            sizes = [int(size) for size in declared[6 : declared.index("]")].split(",")]
            held[name] = weights(*sizes) if weights_of is None or name == "b" else weights_of(*sizes)
    for name, array in held.items():
        source.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return source


def given(source, **sizes):
    dims = [d.dim_value or sizes.get(d.dim_param, 2) for d in source.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(0).standard_normal(dims).astype(np.float32)}


def kinds(of):
    return [n.op_type for n in of.graph.node]


@pytest.mark.parametrize("op", BEFORE)
@pytest.mark.parametrize("factor", ["t = Mul(x, k)", "t = Mul(k, x)", "t = Div(x, k)"])
def test_a_factor_before_a_layer_goes_into_its_weights(op, factor):
    source = before_layer(op, factor)
    made = optimized(source)
    assert kinds(made) == kinds(source)[1:]
    result = optimize.attempt(source)
    assert result.grade == "close"
    said = "Merged a multiplication into the weights of the operator after it"
    assert said in {change.how for change in result.changes}
    check_values(source, made, given(source), **SUMS)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_factor_before_a_layer_of_any_number_of_samples(n):
    source = before_layer("Conv", shape="float[N,4,5,M] x")
    made = optimized(source)
    assert kinds(made) == ["Conv"]
    check_values(source, made, given(source, N=n, M=3), **SUMS)


def small(*sizes):
    return np.full(sizes, 3e-38, np.float32)


@pytest.mark.parametrize(
    "source",
    [
        before_layer("Conv", number=np.float32(0)),
        before_layer("Conv", number=np.float32(np.inf)),
        before_layer("Conv", number=np.float32(np.nan)),
        before_layer("Conv", number=np.float32([[[0.5]], [[0.25]], [[2]], [[1]]])),
        before_layer("Conv", "t = Div(k, x)"),
        before_layer("Conv", "s = Neg(x) t = Mul(x, s)"),
        before_layer("Conv", number=np.float32(1e-4), weights_of=small),
    ],
    ids=["zero", "infinite", "no number", "one for each channel", "divided by the data", "computed", "lost"],
)
def test_other_factors_before_a_layer_stay(source):
    assert kinds(optimized(source)) == kinds(source)


def test_a_factor_that_others_read_stays():
    source = before_layer("Conv")
    source.graph.node.append(node("Neg", "t", "z"))
    source.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, [2, 4, 5, 5]))
    assert kinds(optimized(source)) == ["Mul", "Conv", "Neg"]


def test_weights_that_are_barely_numbers_may_get_smaller():
    """What was precise stays so; half of a number that has lost digits loses no more than that does."""
    source = before_layer("Conv", weights_of=lambda *sizes: np.full(sizes, 1e-40, np.float32))
    assert kinds(optimized(source)) == ["Conv"]


def test_a_factor_before_a_layer_in_a_branch_and_in_a_function():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[2,3] x, bool c) => (float[2,2] y)
        <float[3,2] w = {1,2,3,4,5,6}, float k = {0.5}> {
            y = If (c) <then_branch = t () => (float[2,2] p) { s = Mul(x, k) p = MatMul(s, w) },
                        else_branch = e () => (float[2,2] q) { q = own.F(x) }>
        }
        <domain: "own", opset_import: ["" : 18]> F (a) => (b) {
            k = Constant<value_float=0.5>() w = Constant<value_floats=[1.0,2.0,3.0]>() o = Constant<value_ints=[3,1]>()
            v = Reshape(w, o) t = Mul(a, k) b = MatMul(t, v)
        }
    """)
    made = optimized(source)
    (then,) = [a.g for n in made.graph.node for a in n.attribute if a.name == "then_branch"]
    assert [n.op_type for n in then.node] == ["MatMul"]
    assert "Mul" not in [n.op_type for n in made.functions[0].node]
