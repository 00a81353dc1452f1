"""What hangs on constants, is computed twice or by nobody read, and what must not be touched."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.changes import Allowance
from opshift.passes.errors import InvalidModel
from opshift.passes.optimization import optimize

from tests.exported import store
from tests.passes.optimization.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, evaluate, model, show

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


def names(of):
    return {tensor.name for tensor in of.graph.initializer}


# --- constants ----------------------------------------------------------------------------------------------


def test_what_hangs_on_constants_is_computed():
    body = "a = Add(c, d) b = Neg(a) y = Mul(x, b)"
    made = check_optimized(body, "y = Mul(x, [-3.5, -1.5, -1.25])", constants=CONSTANTS, **IO)
    assert names(made) == {"b"}, "the value keeps its name, and what it was made of is gone"


CONSTANTS = "float[3] c = {1.0, -1.0, 0.25}, float[3] d = {2.5, 2.5, 1.0}"


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
    assert names(made) == {"c"}
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
    assert names(made) == {"c"}, "it is an input, too"
    assert len(made.graph.input) == 2
    check_values(source, made, {"x": np.ones((2, 3), np.float32)}, rtol=0, atol=0)


def test_an_initializer_that_a_caller_may_override_is_no_constant():
    source = model("a = Add(c, c) y = Mul(x, a)", 18, constants="float[1] c = {1.5}", **IO)
    source.graph.input.extend([onnx.helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    assert show(optimized(source)) == show(source)
    assert not optimize.attempt(source).changes


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


# --- twice, or for nobody -----------------------------------------------------------------------------------


def test_a_value_is_computed_once():
    body = "a = Exp(x) b = Exp(x) c = Relu(a) d = Relu(b) y = Add(c, d)"
    check_optimized(body, "t1 = Exp(x)\nt2 = Relu(t1)\ny = Add(t2, t2)", **IO)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_a_value_of_the_same_two_in_the_other_order_is_the_same(op):
    check_optimized(
        f"a = {op}(x, z) b = {op}(z, x) y = Div(a, b)",
        f"t1 = {op}(x, z)\ny = Div(t1, t1)",
        inputs="float[N] x, float[N] z",
        outputs="float[N] y",
    )


def test_the_order_tells_others_apart():
    io = {"inputs": "float[N] x, float[N] z", "outputs": "float[N] y"}
    check_kept("a = Sub(x, z) b = Sub(z, x) y = Div(a, b)", **io)


def test_attributes_tell_values_apart():
    check_kept("a = Elu<alpha=1.0>(x) b = Elu<alpha=2.0>(x) y = Add(a, b)", **IO)


def test_two_outputs_that_are_equal_are_copied():
    io = {"inputs": "float[N] x", "outputs": "float[N] y, float[N] z"}
    check_kept("y = Exp(x) z = Exp(x)", **io)


@pytest.mark.parametrize("node", ["RandomNormalLike(x)", "Bernoulli(x)", "RandomUniform<shape=[3]>()"])
def test_chance_strikes_twice(node):
    source = model(f"a = {node} b = {node} y = Sub(a, b)", 18, **IO)
    assert len(optimize.attempt(source).model.graph.node) == 3


def test_equal_constants_are_one():
    constants = "float[2] c = {1.0, 2.0}, float[2] d = {1.0, 2.0}, float[2] e = {1.0, -2.0}"
    io = {"inputs": "float[N,2] x", "outputs": "float[N,2] y", "constants": constants}
    made = optimized(model("a = Mul(x, c) b = Add(a, d) y = Sub(b, e)", 18, **io))
    assert names(made) == {"c", "e"}


def test_equal_weights_are_one():
    source = model(
        "a = MatMul(x, c) b = MatMul(a, d) y = MatMul(b, e)", 18, inputs="float[N,80] x", outputs="float[N,80] y"
    )
    weights = np.linspace(-1, 1, 6400, dtype=np.float32).reshape(80, 80)
    for name, array in (("c", weights), ("d", weights), ("e", weights.T)):
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
    assert names(optimized(source)) == {"c", "e"}


def test_weights_at_one_place_in_a_file_are_one(tmp_path):
    source = model(
        "a = MatMul(x, c) b = MatMul(a, d) y = MatMul(b, e)", 18, inputs="float[N,80] x", outputs="float[N,80] y"
    )
    for name, offset in (("c", 0), ("d", 0), ("e", 25600)):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[80, 80], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", "25600")):
            tensor.external_data.add(key=key, value=value)
        source.graph.initializer.append(tensor)
    assert names(optimize.attempt(source, folder=str(tmp_path)).model) == {"c", "e"}


def test_zeros_of_both_signs_are_two_constants():
    constants = "float[2] c = {0.0, 1.0}, float[2] d = {-0.0, 1.0}"
    io = {"inputs": "float[N,2] x", "outputs": "float[N,2] y", "constants": constants}
    assert names(optimized(model("a = Mul(x, c) y = Add(a, d)", 18, **io))) == {"c", "d"}


def test_what_nobody_reads_is_gone():
    made = check_optimized("a = Exp(x) b = Mul(a, c) y = Relu(x)", "y = Relu(x)", constants=CONSTANTS, **IO)
    assert not made.graph.initializer


def test_what_yields_an_output_alone_is_a_copy():
    check_optimized("y, m = Dropout(x)", "y = Identity(x)", **IO)


def test_a_rule_that_is_withheld_hinders_no_other():
    source = model("r = Relu(x) y = Min(r, six)", 18, constants="float six = {6}", **IO)
    rules = {"A Max and a Min with constants, one of the other, are one Clip"}
    (change,) = (c for c in optimize.attempt(source).changes if c.op == "Min")
    assert change.how not in rules
    withheld = Allowance(frozenset(("", "Min", how) for how in rules))
    assert optimize.attempt(source, allowance=withheld).model == optimize.attempt(source).model


def test_nothing_to_do_is_nothing_done():
    source = model("a = Exp(x) y = Mul(a, c)", 18, constants="float[3] c = {1.0, 2.0, 3.0}", **IO)
    result = optimize.attempt(source)
    assert not result.changes
    assert result.model == source


def test_what_holds_of_all_sizes_is_not_said_to_hang_on_them():
    """Shapes that inference knows for themselves, in a model where others are known for sizes of 1 or more alone."""
    (export,) = (e for e in store.read("transformers") if e.name == "transformers/llama.eager.dynamic/torchscript-11")
    how = "A change of the shape to the shape that a value has is gone"
    found = [change.grade for change in optimize.attempt(export.model).changes if change.how == how]
    assert sorted(found) == ["close"] + 4 * ["exact"]


# --- structure ----------------------------------------------------------------------------------------------

IF = """y = If (c) <
    then_branch = t () => (float[N,3] a) {{ {then} }},
    else_branch = e () => (float[N,3] b) {{ {other} }}
>"""


@pytest.mark.parametrize(("c", "after"), [(1, "y = Exp(t1)"), (0, "t2 = Neg(t1)\ny = Exp(t2)")])
def test_the_branch_that_a_constant_takes_takes_its_place(c, after):
    body = "h = Relu(x) " + IF.format(then="a = Exp(h)", other="s = Neg(h) b = Exp(s)")
    check_optimized(body, f"t1 = Relu(x)\n{after}", constants=f"bool c = {{{c}}}", **IO)


def test_a_branch_that_passes_on_an_outer_value_is_gone():
    body = "h = Relu(x) k " + IF.format(then="a = Identity(h)", other="b = Exp(h)")[1:] + " y = Neg(k)"
    check_optimized(body, "t1 = Relu(x)\ny = Neg(t1)", constants="bool c = {1}", **IO)


def test_what_a_branch_makes_and_reads_itself_is_read():
    branches = """y, n = If (c) <
        then_branch = t () => (float[N,3] a, bool[N,3] i) { d, m = Dropout(x) a = Neg(d) i = Not(m) },
        else_branch = e () => (float[N,3] b, bool[N,3] j) { b = Exp(x) j = Less(x, x) }
    >"""
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y, bool[N,3] n", "constants": "bool c = {1}"}
    check_optimized(branches, "t1, t2 = Dropout(x)\ny = Neg(t1)\nn = Not(t2)", **io)


def test_a_branch_states_what_its_casts_make_below_6():
    """The schema of Cast infers no type there, and that of ReduceMean wants one."""
    before = onnx.parser.parse_model("""<ir_version: 3, opset_import: ["": 5]> g (double[N,3] x, bool c) => (float[N,1] y) <bool c = {1}> {
        y = If(c) <then_branch = t () => (float[N,1] u) <float[N,3] a> { a = Cast<to="FLOAT">(x) u = ReduceMean<axes=[1]>(a) },
                   else_branch = e () => (float[N,1] v) <float[N,3] b> { b = Cast<to="FLOAT">(x) v = ReduceMax<axes=[1]>(b) }>
    }""")
    onnx.checker.check_model(before, full_check=True)
    after = optimize.attempt(before).model
    assert [node.op_type for node in after.graph.node] == ["Cast", "ReduceMean"]
    onnx.checker.check_model(after, full_check=True)


def test_names_of_both_branches_do_not_meet():
    one, two = (IF.format(then="s = Neg(x) a = Exp(s)", other="b = Exp(x)").replace("y =", f"{n} =") for n in "uv")
    source = model(f"{one} {two} y = Add(u, v)", 18, constants="bool c = {1}", **IO)
    made = optimized(source)
    assert not [node for node in made.graph.node if node.op_type == "If"]
    check_values(source, made, rtol=0, atol=0)


def test_values_are_shared_with_branches_but_not_out_of_them():
    body = "h = Exp(x) " + IF.format(then="s = Exp(x) a = Neg(s)", other="s = Sin(x) b = Neg(s)") + " z = Sin(x)"
    io = {"inputs": "float[N,3] x, bool c", "outputs": "float[N,3] y, float[N,3] z, float[N,3] h"}
    source = model(body, 18, **io)
    made = optimized(source)
    assert "then_branch={ t1 = Neg(h); t1 }" in show(made)
    assert show(made).count("Sin") == 2
    for c in (True, False):
        check_values(source, made, {"c": np.asarray(c), "x": np.ones((2, 3), np.float32)}, rtol=0, atol=0)


def test_a_loop_is_optimized_inside():
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[3] x, int64 n) => (float[3] y) <bool go = {1}, float one = {1.0}> {
        y = Loop (n, go, x) <body = b (int64 i, bool on, float[3] s) => (bool still, float[3] t) {
            still = Identity(on) a = Mul(s, one) k = Constant<value_float = 2.0>() l = Neg(k) t = Add(a, l)
        }>
    }"""
    source = onnx.parser.parse_model(text)
    made = optimized(source)
    (body,) = (attribute.g for attribute in made.graph.node[0].attribute)
    assert [node.op_type for node in body.node] == ["Identity", "Add"]
    check_values(source, made, {"n": np.array(3)}, rtol=0, atol=0)


FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
g (float[N,3] x) => (float[N,3] y) {{ y = own.f <alpha = 0.5> (x) }}
<domain: "own", opset_import: ["" : 18]>
f <alpha> (p) => (q) {{ {body} }}"""


def test_a_function_is_optimized_where_it_stands():
    body = "a = Identity(p) k = Constant<value_float = 1.0>() l = Constant<value_float = 2.0>() m = Add(k, l) b = Mul(a, m) c = Exp(b) d = Exp(b) e = Elu<alpha: float = @alpha>(c) q = Add(d, e)"
    source = onnx.parser.parse_model(FUNCTION.format(body=body))
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["Constant", "Mul", "Exp", "Elu", "Add"]
    check_values(source, made, rtol=0, atol=0)


def test_shapes_are_followed_through_a_function():
    """Nothing is inferred there: what it is called with hangs on the call."""
    body = "k = Constant<value_ints = [2, 6]>() h = Reshape(p, k) z = Constant<value_ints = [2, 4]>() "
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[12] x) => (int64[2] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 18]> f (p) => (q) { %s a, b = Split<axis = 1>(h, z) q = Shape(b) }"""
    source = onnx.parser.parse_model(text % body)
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["Constant"]
    check_values(source, made, rtol=0, atol=0)


def test_a_node_whose_attributes_come_with_the_call_stays():
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    g (float[N,3] x) => (float[A,B,C] y) { y = own.f <new = 1> (x) }
    <domain: "own", opset_import: ["" : 18]>
    f <new> (p) => (q) { s = SequenceConstruct(p, p) q = ConcatFromSequence<axis=0, new_axis: int = @new>(s) }"""
    source = onnx.parser.parse_model(text)
    made = optimized(source)
    assert [node.op_type for node in made.functions[0].node] == ["SequenceConstruct", "ConcatFromSequence"]
    check_values(source, made, rtol=0, atol=0)


def test_a_function_that_returns_what_it_gets_needs_a_node():
    source = onnx.parser.parse_model(FUNCTION.format(body="q = Identity(p)"))
    assert [node.op_type for node in optimized(source).functions[0].node] == ["Identity"]


def test_shadowed_names_are_left_alone():
    body = "h = Exp(x) k = Identity(h) " + IF.format(then="h = Neg(x) a = Add(h, k)", other="b = Neg(k)")
    source = model(body, 18, inputs="float[N,3] x, bool c", outputs="float[N,3] y")
    made = optimize.attempt(source).model
    then = next(a.g for a in made.graph.node[-1].attribute if a.name == "then_branch")
    assert list(then.node[-1].input) == ["h", "k"]


def test_calls_of_unknown_operators_are_not_merged_or_dropped():
    text = """<ir_version: 8, opset_import: ["" : 18, "vendor" : 1]>
    g (float[N] x) => (float[N] y) { a = vendor.Draw(x) b = vendor.Draw(x) y = Sub(a, b) }"""
    source = onnx.parser.parse_model(text)
    assert optimize.attempt(source).model == source


def test_what_quantization_is_annotated_with_stays():
    source = model("a = Identity(x) y = Relu(a)", 18, constants="float s = {0.5}", **IO)
    note = source.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    assert optimize.attempt(source).model == source


def test_what_is_said_of_values_that_are_gone_goes_with_them():
    source = model("a = Identity(x) b = Exp(a) y = Relu(b)", 18, **IO)
    source.graph.value_info.extend(onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "ab")
    assert [value.name for value in optimized(source).graph.value_info] == ["b"]


@pytest.mark.parametrize("opset", [1, 6])
def test_at_opsets_without_broadcasting_only_copies_go(opset):
    source = model(
        "a = Identity(x) b = Exp(a) c = Exp(a) y = Sum(b, c)", opset, inputs="float[3] x", outputs="float[3] y"
    )
    assert [node.op_type for node in optimize.attempt(source).model.graph.node] == ["Exp", "Sum"]


def test_what_is_not_valid_is_said_to_be_so():
    source = model("s = Slice<starts=[0], ends=[1]>(k) y = Reshape(x, s)", 9, constants="int64[2] k = {-1, 3}", **IO)
    del source.graph.node[0].attribute[:]
    with pytest.raises(InvalidModel, match="not valid"):
        optimize.attempt(source)


def test_changes_name_node_operator_and_grade():
    source = model("a = Identity(x) y = Relu(a)", 18, **IO)
    source.graph.node[0].name = "copy"
    (change,) = optimize.attempt(source).changes
    assert (change.node, change.op, change.how, change.grade) == ("copy", "Identity", "An Identity is gone", "exact")
    assert (change.source, change.target) == (16, 16)


def test_a_loop_that_never_runs_and_takes_an_optional_stays():
    """What it yields is what the optional holds, and there is none to be had without a trip."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (optional(seq(float[2])) o) => (seq(float[2]) y) <bool go = {0}> {
            y = Loop("", go, o) <body = b (int64 i, bool on, optional(seq(float[2])) given) => (bool still, seq(float[2]) held) {
                still = Identity(on) held = OptionalGetElement(given)
            }>
        }"""
    )
    onnx.checker.check_model(source, full_check=True)
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node] == ["Loop"]
