"""Shapes that are computed, although it is known what they hang on."""

import numpy as np
import onnx.helper
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, evaluate, model, show

HEADS = "int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] rest = {-1}"
TAKEN_APART = """
s = Shape(x) n = Gather(s, zero) t = Gather(s, one)
n1 = Unsqueeze(n, first) t1 = Unsqueeze(t, first) wanted = Concat<axis=0>(n1, t1, four, eight)
y = Reshape(x, wanted)"""


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_dimensions_that_are_kept_are_0(opset):
    io = {"inputs": "float[N,T,32] x", "outputs": "float[N,T,4,8] y", "constants": HEADS}
    check_optimized(TAKEN_APART, "y = Reshape(x, [0, 0, 4, 8])", opset, **io)


def test_a_batch_of_nothing_stays_nothing():
    io = {"inputs": "float[N,T,32] x", "outputs": "float[N,T,4,8] y", "constants": HEADS}
    check_optimized(TAKEN_APART, "y = Reshape(x, [0, 0, 4, 8])", feeds={"x": np.zeros((0, 3, 32), np.float32)}, **io)


def test_one_dimension_that_follows_is_minus_1():
    body = "s = Shape<start=0, end=1>(x) wanted = Concat<axis=0>(s, four, eight) t = Transpose<perm=[1,0]>(x) y = Reshape(t, wanted)"
    io = {"inputs": "float[N,32] x", "outputs": "float[N,4,8] y", "constants": HEADS}
    check_optimized(body, "t1 = Transpose<perm=[1, 0]>(x)\ny = Reshape(t1, [-1, 4, 8])", **io)


def test_one_that_follows_others_that_may_be_0_is_computed():
    body = "s = Shape(x) n = Gather(s, first) wanted = Concat<axis=0>(n, four, eight, rest) y = Reshape(x, wanted)"
    io = {
        "inputs": "float[N,M,4,8] x",
        "outputs": "float[N,4,8,M] y",
        "constants": HEADS.replace("first = {0}", "first = {1}"),
    }
    source = model(body, 18, **io)
    made = optimized(source)
    assert show(made) == "t1 = Shape<end=4, start=1>(x)\nt2 = Concat<axis=0>(t1, [-1])\ny = Reshape(x, t2)"
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize("batch", [0, 2])
def test_minus_1_says_nothing_beside_a_dimension_that_may_be_0(batch):
    body = "s = Shape(x) n = Slice(s, none, first, none) m = Slice(s, two, three, none) w = Concat<axis=0>(n, m, six) y = Reshape(x, w)"
    constants = (
        "int64[1] none = {0}, int64[1] first = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] six = {6}"
    )
    source = model(body, 18, inputs="float[N,6,M] x", outputs="float[N,M,6] y", constants=constants)
    made = optimized(source)
    assert show(made) == "t1 = Shape<end=3, start=2>(x)\nt2 = Concat<axis=0>([0], t1, [6])\ny = Reshape(x, t2)"
    check_values(source, made, {"x": np.ones((batch, 6, 5), np.float32)}, rtol=0, atol=0)


def test_a_literal_0_stays_a_0():
    body = "n = Shape<start=0, end=1>(x) wanted = Concat<axis=0>(n, none) y = Reshape<allowzero=1>(x, wanted)"
    io = {"inputs": "float[N,0] x", "outputs": "float[N,0] y", "constants": "int64[1] none = {0}"}
    made = optimized(model(body, 18, **io))
    check_values(model(body, 18, **io), made, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arithmetic", "after"),
    [
        ("m = Mul(n, two) w = Concat<axis=0>(m, half)", "y = Reshape(x, [-1, 3])"),
        ("a = Add(n, n) w = Concat<axis=0>(a, half)", "y = Reshape(x, [-1, 3])"),
        ("m = Mul(n, six) d = Div(m, three) w = Concat<axis=0>(d, half)", "y = Reshape(x, [-1, 3])"),
        ("m = Mul(n, two) d = Div(m, two) w = Concat<axis=0>(d, rest)", "y = Identity(x)"),
    ],
)
def test_arithmetic_of_dimensions_is_followed(arithmetic, after):
    constants = (
        "int64[1] two = {2}, int64[1] six = {6}, int64[1] half = {3}, int64[1] three = {3}, int64[1] rest = {-1}"
    )
    io = {"inputs": "float[N,6] x", "outputs": "float[A,B] y", "constants": constants}
    check_optimized(f"n = Shape<start=0, end=1>(x) {arithmetic} y = Reshape(x, w)", after, **io)


def test_a_quotient_with_a_remainder_is_computed():
    io = {
        "inputs": "float[N,6] x",
        "outputs": "float[A] y",
        "constants": "int64[1] two = {2}, int64 k = {0}, int64[1] z = {0}",
    }
    check_kept("n = Shape<end=1, start=0>(x) h = Div(n, two) y = Cast<to=1>(h)", **io)


def test_a_choice_between_known_numbers_is_made():
    """As exporters write an expansion: -1 stands for a dimension that is kept."""
    body = "s = Shape(x) w = Concat<axis=0>(n, rest) e = Equal(w, m) c = Where(e, ones, w) y = Expand(x, c)"
    constants = "int64[1] n = {2}, int64[1] rest = {-1}, int64[2] m = {-1, -1}, int64[2] ones = {1, 1}"
    io = {"inputs": "float[1,K] x", "outputs": "float[2,K] y", "constants": constants}
    check_optimized(body, "y = Expand(x, [2, 1])", **io)


@pytest.mark.parametrize("condition", ["Equal(w, m)", "Equal(m, w)"])
def test_a_dimension_is_never_negative(condition):
    body = (
        f"n = Shape<start=0, end=1>(z) w = Concat<axis=0>(n, two) e = {condition} c = Where(e, one, w) y = Expand(x, c)"
    )
    constants = "int64[1] two = {2}, int64[1] m = {-1}, int64[1] one = {1}"
    io = {"inputs": "float[1,2] x, float[N] z", "outputs": "float[N,2] y", "constants": constants}
    after = "t1 = Shape<end=1, start=0>(z)\nt2 = Concat<axis=0>(t1, [2])\ny = Expand(x, t2)"
    check_optimized(body, after, feeds={"x": np.float32([[3, 4]]), "z": np.zeros(3, np.float32)}, **io)


def test_a_dimension_may_be_a_number_that_another_is_compared_with():
    body = "n = Shape(z) e = Equal(n, two) c = Where(e, one, n) y = Expand(x, c)"
    constants = "int64[1] two = {2}, int64[1] one = {1}"
    io = {"inputs": "float[1] x, float[N] z", "outputs": "float[N] y", "constants": constants}
    for size in (2, 3):
        feeds = {"x": np.float32([3]), "z": np.zeros(size, np.float32)}
        source = model(body, 18, **io)
        check_values(source, optimized(source), feeds, rtol=0, atol=0)


def test_an_expansion_to_what_is_there_is_gone():
    body = "s = Shape(x) t = Expand(x, s) y = Relu(t)"
    check_optimized(body, "y = Relu(x)", inputs="float[N,K] x", outputs="float[N,K] y")


def test_a_static_shape_is_a_constant():
    body = "s = Shape(x) c = Size(x) y = Add(s, c)"
    io = {"inputs": "float[2,3] x", "outputs": "int64[2] y"}
    check_optimized(body, "y = Constant<value=[8, 9]>()", **io)


def test_equal_runs_of_dimensions_are_one_shape():
    body = """s = Shape(x) n = Gather(s, zero) t = Gather(s, one) n1 = Unsqueeze(n, first) t1 = Unsqueeze(t, first)
    w = Concat<axis=0>(n1, t1) y = ConstantOfShape(w)"""
    io = {"inputs": "float[N,T,32] x", "outputs": "float[N,T] y", "constants": HEADS}
    check_optimized(body, "t1 = Shape<end=2, start=0>(x)\ny = ConstantOfShape(t1)", **io)
    check_optimized(body, "t1 = Shape(x)\nt2 = Gather<axis=0>(t1, [0, 1])\ny = ConstantOfShape(t2)", 13, **io)


def test_a_value_of_an_unknown_shape_is_measured():
    body = "k = NonZero(x) s = Shape(k) n = Gather(s, one) y = Unsqueeze(n, first)"
    source = model(body, 18, inputs="float[N] x", outputs="int64[1] y", constants=HEADS)
    made = optimized(source)
    assert show(made) == "t1 = NonZero(x)\ny = Shape<end=2, start=1>(t1)"
    check_values(source, made, rtol=0, atol=0)


def test_a_vector_of_one_becomes_a_scalar():
    """As Keras' converter writes it: a Reshape to no axes."""
    body = "n = Shape<start=0, end=1>(x) r = Reshape(n, none) u = Unsqueeze(r, first) w = Concat<axis=0>(u, rest) y = Reshape(x, w)"
    constants = "int64[0] none = {}, int64[1] first = {0}, int64[1] rest = {-1}"
    check_optimized(
        body, "y = Reshape(x, [0, 12])", inputs="float[N,3,4] x", outputs="float[N,12] y", constants=constants
    )


@pytest.mark.parametrize("number", [400, 2**31 - 1, 2**31, -400, -(2**31), -(2**31) - 1])
def test_int32_holds_what_fits(number):
    body = "n = Shape<start=0, end=1>(x) w = Concat<axis=0>(n, k) i = Cast<to=6>(w) y = Gather(i, one)"
    constants = f"int64[1] k = {{{number}}}, int64 one = {{1}}"
    io = {"inputs": "float[N] x", "outputs": "int32 y", "constants": constants}
    source = model(body, 18, **io)
    made = optimized(source)
    check_values(source, made, rtol=0, atol=0)
    assert len(made.graph.node) == (1 if -(2**31) <= number < 2**31 else 4)


def test_int32_dimensions_are_followed_where_they_fit():
    """As TensorFlow's converter writes it."""
    body = """s = Shape(x) i = Cast<to=6>(s) n = Slice(i, b, e, b) w = Concat<axis=0>(n, k) l = Cast<to=7>(w) y = Reshape(x, l)"""
    constants = "int64[1] b = {0}, int64[1] e = {1}, int32[1] k = {-1}"
    io = {"inputs": "float[N,3,4] x", "outputs": "float[N,12] y", "constants": constants}
    check_optimized(body, "y = Reshape(x, [0, 12])", **io)


@pytest.mark.parametrize("op", ["Add", "Mul", "Where"])
def test_an_expansion_in_front_of_a_broadcast_is_gone(op):
    body = {"Where": "y = Where(c, e, z)"}.get(op, f"y = {op}(e, z)")
    inputs = "float[N,K] z" + (", bool[N,K] c" if op == "Where" else "")
    io = {"inputs": inputs, "outputs": "float[N,K] y", "constants": "float[1] h = {2.5}"}
    after = {"Where": "y = Where(c, [2.5], z)"}.get(op, f"y = {op}([2.5], z)")
    check_optimized(f"s = Shape(z) e = Expand(h, s) {body}", after, **io)


def test_an_expansion_that_widens_the_result_stays():
    io = {"inputs": "float[N,1] z, float[1] h", "outputs": "float[N,4] y", "constants": "int64[2] s = {1, 4}"}
    check_kept("e = Expand(h, s) y = Add(e, z)", **io)


def test_a_slice_to_the_end_says_so():
    body = "s = Shape<start=1, end=2>(x) y = Slice(x, one, s, one)"
    io = {"inputs": "float[N,K] x", "outputs": "float[N,M] y", "constants": "int64[1] one = {1}"}
    check_optimized(body, "y = Slice(x, [1], [9223372036854775807], [1])", **io)


def test_a_slice_to_the_end_of_another_value_does_not():
    body = "s = Shape<start=1, end=2>(z) y = Slice(x, one, s, one)"
    io = {"inputs": "float[N,K] x, float[N,L] z", "outputs": "float[N,M] y", "constants": "int64[1] one = {1}"}
    check_kept(body.replace("start=1, end=2", "end=2, start=1"), **io)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_initial_state_of_zeros_is_left_out(value):
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["n"], start=1, end=2),
        onnx.helper.make_node("Concat", ["one", "n", "four"], ["s"], axis=0),
        onnx.helper.make_node(
            "ConstantOfShape", ["s"], ["h"], value=onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [value])
        ),
        onnx.helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=4),
    ]
    held = {"w": np.full((1, 12, 3), 0.1), "r": np.full((1, 12, 4), 0.2)}
    tensors = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in held.items()]
    tensors += [onnx.numpy_helper.from_array(np.array([k]), name) for name, k in (("one", 1), ("four", 4))]
    kind = onnx.TensorProto.FLOAT
    inputs = [onnx.helper.make_tensor_value_info("x", kind, ["T", "N", 3])]
    outputs = [onnx.helper.make_tensor_value_info("y", kind, [1, "N", 4])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, tensors)
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    made = optimized(source)
    assert [node.op_type for node in made.graph.node][-1] == "GRU"
    assert (len(made.graph.node) == 1) == (value == 0.0)
    check_values(source, made, {"x": np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 2, 3)}, rtol=0, atol=0)


def test_shapes_are_followed_inside_a_branch():
    body = f"""y = If (c) <
        then_branch = t () => (float[N,T,4,8] a) {{ {TAKEN_APART.replace("y =", "a =")} }},
        else_branch = e () => (float[N,T,4,8] b) {{ b = Reshape(x, k) }}
    >"""
    constants = HEADS + ", int64[4] k = {0, 0, 4, 8}"
    io = {"inputs": "float[N,T,32] x, bool c", "outputs": "float[N,T,4,8] y", "constants": constants}
    source = model(body, 18, **io)
    made = optimized(source)
    taken = "t1 = Reshape(x, [0, 0, 4, 8]); t1"
    assert show(made) == f"y = If<else_branch={{ {taken} }}, then_branch={{ {taken} }}>(c)"
    for c in (True, False):
        check_values(source, made, {"c": np.asarray(c)}, rtol=0, atol=0)


NUMBERS = """int64[1] z = {0}, int64[1] o = {1}, int64[1] w = {2}, int64[1] minus = {-1}, int64[1] four = {4}, int64 zero = {0}, int64 one = {1},
    int64[1] eight = {8}, float none = {0}, float negative = {-0.0}"""
STATED = [
    ("a = Gather(h, z) b = Gather(h, o) t = Concat<axis=0>(a, b, minus) y = Reshape(x, t)", "y = Identity(x)"),
    ("a = Gather(h, z) t = Concat<axis=0>(a, minus) y = Reshape(x, t)", "y = Reshape(x, [0, -1])"),
    (
        "a = Gather(h, o) b = Gather(h, z) t = Concat<axis=0>(a, b, four) y = Reshape(x, t)",
        "t1 = Shape<end=2, start=1>(x)\nt2 = Shape<end=1, start=0>(x)\nt3 = Concat<axis=0>(t1, t2, [4])\ny = Reshape(x, t3)",
    ),
    ("a = Gather(h, z) b = Gather(h, o) t = Concat<axis=0>(a, b, minus) y = Reshape<allowzero=1>(x, t)", "y = Identity(x)"),
    ("a = Gather(h, z) t = Concat<axis=0>(a, minus) y = Reshape<allowzero=1>(x, t)", "t1 = Shape<end=1, start=0>(x)\nt2 = Concat<axis=0>(t1, [-1])\ny = Reshape<allowzero=1>(x, t2)"),
    ("g = Shape(f) a = Gather(g, o) t = Concat<axis=0>(eight, a) y = Reshape<allowzero=1>(f, t)", "y = Reshape(f, [8, 0])"),
    ("y = Reshape(k, h)", "t1 = Shape(x)\ny = Reshape(k, t1)"),
    ("a = Gather(h, z) b = Gather(h, o) y = Concat<axis=0>(a, b, four)", "y = Shape(x)"),
    ("a = Gather(h, z) b = Gather(h, o) y = Concat<axis=0>(a, b)", "y = Shape<end=2, start=0>(x)"),
    ("a = Gather(h, zero) b = Gather(h, one) c = Unsqueeze(a, z) d = Unsqueeze(b, z) y = Concat<axis=0>(c, d)", "y = Shape<end=2, start=0>(x)"),
    ("a = Gather(h, o) y = Concat<axis=0>(a, four, a)", "t1 = Shape<end=2, start=1>(x)\nt2 = Shape<end=3, start=1>(x)\ny = Concat<axis=0>(t2, t1)"),
    ("t = Slice(h, z, w) y = Expand(m, t)", "y = Identity(m)"),
    ("t = Slice(h, z, w) y = Expand(row, t)", "t1 = Shape<end=2, start=0>(x)\ny = Expand(row, t1)"),
    ("a = Gather(h, z) t = Concat<axis=0>(a, four) y = Expand(column, t)", "y = Expand(column, [1, 4])"),
    ("e = Expand(side, h) y = Add(x, e)", "y = Add(x, side)"),
    ("e = Expand(side, h) y = Add(e, x)", "y = Add(side, x)"),
    ("e = Expand(side, h) y = Add(e, last)", "t1 = Shape(x)\nt2 = Expand(side, t1)\ny = Add(t2, last)"),
    ("b = Gather(h, o) s = Slice(m, z, b, o) y = Neg(s)", "y = Neg(m)"),
    ("b = Gather(h, o) s = Slice(m, o, b, o) y = Neg(s)", f"t1 = Slice(m, [1], [{2**63 - 1}], [1])\ny = Neg(t1)"),
    ("b = Gather(h, o) s = Slice(m, o, b, o, o) y = Neg(s)", f"t1 = Slice(m, [1], [{2**63 - 1}], [1], [1])\ny = Neg(t1)"),
    ("b = Gather(h, o) s = Slice(m, z, b, o, w) y = Neg(s)", "t1 = Shape<end=2, start=1>(x)\nt2 = Slice(m, [0], t1, [1], [2])\ny = Neg(t2)"),
    ("b = Gather(h, z) s = Slice(m, z, b, o) y = Neg(s)", "t1 = Shape<end=1, start=0>(x)\nt2 = Slice(m, [0], t1, [1])\ny = Neg(t2)"),
    ("g = Shape(m) r = Relu(x) q = Shape(r) a = Gather(q, zero) y = Add(a, one)", "t1 = Shape(x)\nt2 = Gather(t1, 0)\ny = Add(t2, 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "after"), STATED)
def test_what_is_taken_from_shapes_is_stated_or_read_off(body, after):
    inputs = "float[N,M,4] x, float[N,M] m, float[M] row, float[N,1] column, float[M,1] side, float[4] last, float[K] k, float[2,P,4] f"
    source = model(f"h = Shape(x) {body}", 18, inputs=inputs, outputs="y", constants=NUMBERS)
    made = optimize.attempt(source).model
    assert show(made) == after
    sizes = {
        "x": (5, 3, 4),
        "m": (5, 3),
        "row": (3,),
        "column": (5, 1),
        "side": (3, 1),
        "last": (4,),
        "k": (60,),
        "f": (2, 3, 4),
    }
    if "Expand(row" not in body:
        given = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in sizes.items()}
        for expected, actual in zip(evaluate(source, given), evaluate(made, given), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_before_opset_15_a_part_of_a_shape_is_gathered():
    source = model(
        "h = Shape(x) a = Gather(h, z) b = Gather(h, o) y = Concat<axis=0>(a, b)",
        14,
        inputs="float[N,M,4] x",
        outputs="y",
        constants=NUMBERS,
    )
    assert show(optimize.attempt(source).model) == "t1 = Shape(x)\ny = Gather<axis=0>(t1, [0, 1])"


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        ("i = ConstantOfShape<value=float[1] {0}>(t)", []), ("i = ConstantOfShape<value=float[1] {1}>(t)", ["ConstantOfShape"]), ("i = ConstantOfShape(t)", []),
        ("j = ConstantOfShape(t) e = Expand(none, t) k = Concat<axis=0>(j, e) i = Slice(k, z, o, z)", []),
        ("j = ConstantOfShape(t) e = Expand(negative, t) k = Concat<axis=0>(j, e) i = Slice(k, z, o, z)", ["ConstantOfShape", "Expand", "Concat", "Slice"]),
        ("j = ConstantOfShape(t) k = Transpose<perm=[0,2,1]>(j) i = Reshape(k, t)", []), ("i = Relu(g)", ["Relu"]), ("i = Expand(g, t)", ["Expand"]),
        ("j = ConstantOfShape(t) k = Add(j, j) i = Reshape(k, t)", ["ConstantOfShape", "Add", "Reshape"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_zeros_are_what_states_begin_with(op, start, kept):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    inputs = f"float[S,B,3] x, int64[3] t, float[1,{2 * gates},3] w0, float[1,{2 * gates},2] r0, float[1,1,2] g"
    source = model(
        f"{start} y = {op}<hidden_size=2>(x, w0, r0, , , i)", 18, inputs=inputs, outputs="y", constants=NUMBERS
    )
    made = optimize.attempt(source).model
    assert [node.op_type for node in made.graph.node] == [*kept, op]
    assert len(made.graph.node[-1].input) == (6 if kept else 3)


@pytest.mark.parametrize("opset", [14, 15, 16])
def test_a_size_is_read_off_as_the_opset_can(opset):
    body = "h = Shape(x) s = Gather(h, z) t = Concat<axis=0>(s, four) y = Expand(column, t)"
    io = {
        "inputs": "float[N,M] x, float[M,1] column",
        "outputs": "y",
        "constants": "int64[1] z = {0}, int64[1] o = {1}, int64[1] four = {4}",
    }
    made = show(optimize.attempt(model(body, opset, **io)).model)
    assert ("Shape<end=1, start=0>(x)" in made) == (opset >= 15), made
    assert ("Shape(x)" in made) == (opset < 15), made
