"""Two models become one: names, sizes, functions and types of both."""

import numpy as np
import onnx
import pytest
from opshift.passes.model.types import dims_of
from opshift.passes.surgery.merging import common_opsets, connections, join

from tests.support import evaluate, model

X = {"x": np.float32([[1, -2, 3]])}


def first(body="a = Abs(x) y = Add(a, w)", outputs="float[N,3] y", opset=17):
    made = model(body, opset, constants="float[3] w = {1, 2, 3}", inputs="float[N,3] x", outputs=outputs)
    made.graph.node[0].name = "node"
    return made


def second(body="a = Mul(x, w) y = Neg(a)", inputs="float[M,3] x", opset=17):
    made = model(body, opset, constants="float[3] w = {4, 5, 6}", inputs=inputs, outputs="float[M,3] y")
    made.graph.node[0].name = "node"
    return made


def joined(one=None, other=None, *connect):
    one, other = one or first(), other or second()
    return join(one, other, connections(one, other, connect))


def ends(made):
    return [[value.name for value in held] for held in (made.graph.input, made.graph.output)]


def test_the_second_computes_on_what_the_first_yields():
    made = joined().model
    onnx.checker.check_model(made, full_check=True)
    assert ends(made) == [["x"], ["y"]]
    middle = evaluate(first(), X)[0]
    np.testing.assert_array_equal(evaluate(made, X)[0], evaluate(second(), {"x": middle})[0])


def test_names_of_values_and_nodes_are_made_distinct():
    found = joined()
    names = [name for node in found.model.graph.node for name in (node.name, *node.output) if name]
    assert len(set(names)) == len(names)
    assert [tensor.name for tensor in found.model.graph.initializer] == ["w", "w_1"]
    assert (found.first["y"], found.second["y"], found.second["x"]) == ("y_1", "y", "y_1")


def test_inputs_and_outputs_that_are_not_connected_remain():
    one = first("a = Abs(x) y = Add(a, w) s = Neg(a)", "float[N,3] y, float[N,3] s")
    other = second("a = Mul(x, w) y = Add(a, m)", "float[M,3] x, float[M,3] m")
    made = joined(one, other, ("y", "x")).model
    assert ends(made) == [["x", "m"], ["s", "y"]]
    fed = {**X, "m": np.float32([[1, 1, 1]])}
    y, s = evaluate(one, X)
    found = evaluate(made, fed)
    np.testing.assert_array_equal(found[0], s)
    np.testing.assert_array_equal(found[1], evaluate(other, {"x": y, "m": fed["m"]})[0])


def test_what_is_connected_by_default():
    other = second(inputs="float[M,3] y, float[M,3] q", body="a = Add(y, q) r = Neg(a)")
    assert connections(first(), other) == {"y": "y"}
    assert connections(first(), second()) == {"x": "y"}
    with pytest.raises(ValueError, match="'y'; 'p', 'q'"):
        connections(first(), second(inputs="float[M,3] p, float[M,3] q", body="y = Add(p, q)"))


@pytest.mark.parametrize(
    ("pair", "inputs", "why"),
    [
        (("Y", "x"), "float[M,3] x", "the first model has no output or input 'Y'; did you mean 'y'?"),
        (("y", "z"), "float[M,3] x", "the second model has no input 'z'"),
        (("y", "x"), "int64[M,3] x", "output 'y' is tensor\\(float\\), and input 'x' takes tensor\\(int64\\)"),
        (("y", "x"), "float[M,4] x", "output 'y' has shape \\[N,3\\], and input 'x' takes \\[M,4\\]"),
        (("y", "x"), "float[3] x", "output 'y' has shape"),
    ],
)
def test_what_does_not_fit_is_told(pair, inputs, why):
    with pytest.raises(ValueError, match=why):
        joined(first(), second("y = Identity(x)", inputs), pair)


def test_an_input_is_connected_once():
    one = first("a = Abs(x) y = Add(a, w) s = Neg(a)", "float[N,3] y, float[N,3] s")
    with pytest.raises(ValueError, match="connected twice"):
        joined(one, second(), ("y", "x"), ("s", "x"))


def test_both_may_read_one_input():
    other = second("a = Mul(x, w) y = Add(a, z)", "float[M,3] x, float[M,3] z")
    made = joined(first(), other, ("y", "z"), ("x", "x")).model
    assert ends(made) == [["x"], ["y"]]
    middle = evaluate(first(), X)[0]
    np.testing.assert_array_equal(evaluate(made, X)[0], evaluate(other, {**X, "z": middle})[0])


def test_sizes_of_what_is_connected_are_one_and_others_are_not():
    other = second("y = Add(x, z)", "float[M,3] x, float[N,3] z")
    made = joined(first(), other, ("y", "x")).model
    assert dims_of(made.graph.input[1].type) == ["N_1", 3]
    assert dims_of(made.graph.output[0].type) == ["N", 3]


def test_a_size_that_meets_a_number_is_that_number_wherever_it_is_declared():
    made = joined(first(), second(inputs="float[2,3] x"), ("y", "x")).model
    assert dims_of(made.graph.input[0].type) == [2, 3]
    fixed = model("y = Identity(x)", 17, inputs="float[2,3] x", outputs="float[2,3] y")
    made = joined(fixed, second("y = Add(x, z)", "float[M,3] x, float[M,3] z"), ("y", "x")).model
    assert dims_of(made.graph.input[1].type) == dims_of(made.graph.output[0].type) == [2, 3]
    both = second("y = Add(x, z)", "float[M,3] x, float[2,3] z")
    made = joined(first(outputs="float[N,3] y, float[N,3] a"), both, ("y", "x"), ("a", "z")).model
    assert dims_of(made.graph.input[0].type) == dims_of(made.graph.output[0].type) == [2, 3]


def test_graphs_in_nodes_have_names_of_their_own():
    then = "then_branch = t () => (float[M,3] a) { w2 = Abs(x) a = Mul(w2, w) }"
    other = "else_branch = e () => (float[M,3] b) { b = Neg(x) }"
    after = model(
        f"y = If<{then}, {other}>(c)",
        17,
        constants="float[3] w = {4, 5, 6}",
        inputs="float[M,3] x, bool c",
        outputs="float[M,3] y",
    )
    made = joined(first(), after, ("y", "x")).model
    onnx.checker.check_model(made, full_check=True)
    for c in (True, False):
        fed = {"c": np.array(c)}
        middle = evaluate(first(), X)[0]
        np.testing.assert_array_equal(evaluate(made, {**X, **fed})[0], evaluate(after, {"x": middle, **fed})[0])


def with_function(op):
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[N,3] x) => (float[N,3] y) {{ y = my.F(x) }}
        <domain: "my", opset_import: ["" : 17]> F (x) => (y) {{ y = {op}(x) }}""")


def test_functions_of_one_name_that_differ_get_another_one():
    made = joined(with_function("Abs"), with_function("Neg")).model
    assert [function.name for function in made.functions] == ["F", "F_1"]
    np.testing.assert_array_equal(evaluate(made, X)[0], -np.abs(X["x"]))
    assert len(joined(with_function("Abs"), with_function("Abs")).model.functions) == 1


def with_functions(**functions):
    texts = [
        f'<domain: "my", opset_import: ["" : 17, "my" : 1]> {name} (x) => (y) {{ {body} }}'
        for name, body in functions.items()
    ]
    head = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[N,3] x) => (float[N,3] y) { y = my.F(x) }'
    return onnx.parser.parse_model("\n".join([head, *texts]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # functions that read alike call others that differ
        ({"F": "y = my.G(x)", "G": "y = Abs(x)"}, {"F": "y = my.G(x)", "G": "y = Neg(x)"}),
        # the next name is taken by a function of the first, of the second, of both
        ({"F": "t = my.F_1(x) y = Abs(t)", "F_1": "y = Exp(x)"}, {"F": "y = Neg(x)"}),
        ({"F": "y = Abs(x)"}, {"F": "t = my.F_1(x) y = Neg(t)", "F_1": "y = Exp(x)"}),
        (
            {"F": "t = my.F_1(x) y = Abs(t)", "F_1": "y = Exp(x)"},
            {"F": "t = my.F_1(x) y = Neg(t)", "F_1": "y = Neg(x)"},
        ),
    ],
)
def test_each_model_calls_its_own_functions(one, other):
    models = with_functions(**one), with_functions(**other)
    made = joined(*models).model
    onnx.checker.check_model(made, full_check=True)
    middle = evaluate(models[0], X)[0]
    np.testing.assert_array_equal(evaluate(made, X)[0], evaluate(models[1], {"x": middle})[0])


@pytest.mark.parametrize("whose", ["first", "second"])
def test_a_function_with_the_name_of_an_operator_of_the_other_model_gets_another_one(whose):
    function, vendor = with_function("Abs"), with_function("Abs")
    del vendor.functions[:]
    one, other = (function, vendor) if whose == "first" else (vendor, function)
    made = joined(one, other).model
    assert [function.name for function in made.functions] == ["F_1"]
    assert [node.op_type for node in made.graph.node] == (["F_1", "F"] if whose == "first" else ["F", "F_1"])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_default_gives_way_to_what_is_connected(sparse):
    other = second("y = Neg(x)", inputs="float[1,3] x")
    if sparse:
        tensor = other.graph.sparse_initializer.add(dims=[1, 3])
        tensor.values.CopyFrom(onnx.helper.make_tensor("x", onnx.TensorProto.FLOAT, [1], [1]))
        tensor.indices.CopyFrom(onnx.helper.make_tensor("", onnx.TensorProto.INT64, [1], [0]))
    else:
        other.graph.initializer.append(onnx.helper.make_tensor("x", onnx.TensorProto.FLOAT, [1, 3], [1, 2, 3]))
    made = joined(first(), other, ("y", "x")).model
    onnx.checker.check_model(made, full_check=True)
    np.testing.assert_array_equal(evaluate(made, X)[0], -evaluate(first(), X)[0])


def test_the_opsets_to_bring_together():
    assert common_opsets(first(), second(opset=13), max) == {"": 17}
    assert common_opsets(first(), second(opset=13), min) == {"": 13}
    assert common_opsets(first(), second(), max) == {}
    mine = [model("y = my.F(x)", 17, domains=f'"my" : {k}', inputs="float x", outputs="float y") for k in (1, 2)]
    with pytest.raises(ValueError, match="'my' at 1 and at 2"):
        common_opsets(*mine, max)


def test_neither_model_is_changed():
    one, other = first(), second()
    before = [held.SerializeToString(deterministic=True) for held in (one, other)]
    joined(one, other)
    assert [held.SerializeToString(deterministic=True) for held in (one, other)] == before


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("h = Shape(x) b = Slice(h, z, o) r = Concat<axis = 0>(b, m) y = Reshape(x, r)", 2),
        ("y = Concat<axis = 0>(x, x)", "rows"),  # not the size of the input, but twice that
        ("b = Constant<value_ints = [2, 3]>() y = Expand(x, b)", "rows"),
    ],
)
def test_a_size_of_an_output_is_that_of_an_input_under_another_name(body, size):
    constants = "int64[1] z = {0}, int64[1] o = {1}, int64[1] m = {-1}"
    one = model(body, 17, inputs="float[rows,3] x", outputs="float[Reshapey_dim_0,3] y", constants=constants)
    made = joined(one, second(inputs="float[2,3] x")).model
    assert dims_of(made.graph.input[0].type) == [size, 3]
