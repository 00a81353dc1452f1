"""What a backend does not read in a model, and who says so."""

import onnx
import pytest
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.backends.obstacles import obstacles
from opshift.passes.model import tensor_data

from tests.support import model

IO = {"inputs": "float[N,4] x", "outputs": "float[N,4] y"}
FLOATS = frozenset({"tensor(float)", "tensor(int64)"})


def found(of, **facts):
    return [str(refusal) for refusal in obstacles(of, Backend("npu-1", **facts))]


def limited(*ops, **facts):
    return {"limits": (Limit(frozenset(("", op) for op in ops), **facts),)}


def test_a_model_that_it_reads_has_none():
    of = model("y = Relu(x)", 13, **IO)
    assert found(of, opset=13, ir_version=7, supports=frozenset({("", "Relu")}), types=FLOATS) == []


def test_newer_opsets_and_ir_versions():
    of = model("y = Relu(x)", 13, **IO)
    assert found(of, opset=11, ir_version=6) == [
        "opset: the model has 13; supported: at most 11",
        "ir_version: the model has 7; supported: at most 6",
    ]


def test_operators_in_branches_and_functions_are_named_too():
    body = "c = Constant<value = bool {1}>() y = If(c)<then_branch = g () => (a) { a = Abs(x) }, else_branch = h () => (b) { b = Relu(x) }>"
    of = model(body, 13, **IO)
    assert found(of, lacks={("", "Abs"): 1}) == ['Abs "a": not supported']
    of = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "my" : 1]> g (float[N] x) => (float[N] y) { y = my.F(x) }'
        '<domain: "my", opset_import: ["" : 13]> F (a) => (b) { b = Abs(a) }'
    )
    assert found(of, lacks={("", "Abs"): 1}, functions=True) == ['Abs "b" (function F): not supported']
    assert found(of, lacks={("", "Abs"): 1}) == ['my::F "y": model-local functions are not supported']


def test_an_operator_may_be_missing_from_a_version_on():
    of = model("y = ReduceSum<keepdims = 1>(x)", 13, inputs="float[N,4] x", outputs="float[1,1] y")
    assert found(of, lacks={("", "ReduceSum"): 13}) == ['ReduceSum "y": version 13 is not supported']
    of.opset_import[0].version = 12
    assert found(of, lacks={("", "ReduceSum"): 13}) == []


def test_types_of_inputs_initializers_and_results():
    of = model("t = Cast<to = 11>(x) d = Add(t, c) y = Cast<to = 1>(d)", 13, constants="double[1] c = {1}", **IO)
    assert found(of, types=FLOATS) == [
        'value "c": tensor(double) is not supported',
        'value "t": tensor(double) is not supported',
        'value "d": tensor(double) is not supported',
    ]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("MaxPool<kernel_shape = [2]>(x)", []),
        ("MaxPool<kernel_shape = [2], dilations = [1]>(x)", []),
        ("MaxPool<kernel_shape = [2], dilations = [2]>(x)", ['MaxPool "y": dilations=[2]; supported: 1']),
    ],
)
def test_attributes_and_each_of_their_items(node, expected):
    of = model(f"y = {node}", 12, inputs="float[1,1,8] x", outputs="float[1,1,M] y")
    assert found(of, **limited("MaxPool", attribute="dilations", takes=(1,))) == expected


def test_a_value_that_an_attribute_may_not_hold():
    io = {"inputs": "float[1,1,8] x", "outputs": "float[1,1,M] y"}
    limit = limited("MaxPool", attribute="auto_pad", refuses=("SAME_LOWER",))
    of = model('y = MaxPool<kernel_shape = [2], auto_pad = "SAME_LOWER">(x)', 12, **io)
    assert found(of, **limit) == ["MaxPool \"y\": auto_pad='SAME_LOWER' is not supported"]
    assert found(model('y = MaxPool<kernel_shape = [2], auto_pad = "VALID">(x)', 12, **io), **limit) == []
    assert found(model("y = MaxPool<kernel_shape = [2]>(x)", 12, **io), **limit) == []


def test_an_attribute_that_is_left_out_has_its_default():
    of = model("y = ArgMax(x)", 13, inputs="float[N,4] x", outputs="int64[1,4] y")
    limit = limited("ArgMax", attribute="axis", takes=(-3,))
    assert found(of, **limit) == ['ArgMax "y": axis=0; supported: -3']
    of.opset_import[0].version = 9  # before negative axes; the attribute is the same
    assert found(of, **limit) == ['ArgMax "y": axis=0; supported: -3']
    assert found(of, **limited("ArgMax", attribute="select_last_index", takes=(0,))) == []


def test_inputs_that_have_to_be_constants():
    limit = limited("Reshape", constant=("shape",))
    computed = model("s = Shape(x) y = Reshape(x, s)", 13, **IO)
    assert found(computed, **limit) == ['Reshape "y": input shape "s" is dynamic; supported: constants']
    for body, constants in (
        ("y = Reshape(x, s)", "int64[2] s = {-1, 4}"),
        ("s = Constant<value_ints = [-1, 4]>() y = Reshape(x, s)", ""),
    ):
        assert found(model(body, 13, constants=constants, **IO), **limit) == []


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("s = Shape(x) y = Reshape(x, s)", True),
        ("s = Shape(x) b = Gather(s, zero) t = Concat<axis = 0>(b, s2) y = Reshape(x, t)", False),
        ("s = Shape(x) b = Gather(s, zero) t = Concat<axis = 0>(b, zero) y = Reshape(x, t)", True),
        ("s = Shape(x) r = Cast<to = 7>(x) t = Add(s, r) y = Reshape(x, t)", False),
        ("r = RandomNormal<shape = [2]>() t = Cast<to = 7>(r) y = Reshape(x, t)", False),
        ("s = Shape(x) t = If(q)<then_branch = g () => (a) { a = Identity(s) }, else_branch = h () => (b) { b = Neg(s) }> "
        "y = Reshape(x, t)", False),
    ],
)  # fmt: skip
def test_what_is_computed_from_sizes_alone_is_known_to_some(body, reads):
    of = model(
        body,
        13,
        inputs="float[N,4] x, int64[1] s2, bool q",
        outputs="float[A,B] y",
        constants="int64[1] zero = {0}",
    )
    limit = limited("Reshape", constant=("shape",))
    assert (found(of, folds_sizes=True, **limit) == []) is reads
    assert found(of, **limit) != []


def test_an_empty_input_is_known():
    limit = limited("ReduceSum", constant=("axes",))
    for size, expected in ((0, []), (1, ['ReduceSum "y": input axes "a" is dynamic; supported: constants'])):
        of = model("y = ReduceSum(x, a)", 13, inputs=f"float[2,4] x, int64[{size}] a", outputs="float[A,B] y")
        assert found(of, **limit) == expected


def test_a_constant_that_callers_could_override_is_one():
    of = model("y = Reshape(x, s)", 13, constants="int64[2] s = {-1, 4}", **IO)
    of.graph.input.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [2]))
    assert of.ir_version >= 4
    assert found(of, **limited("Reshape", constant=("shape",))) == []


def test_a_constant_is_one_wherever_its_data_lie():
    of = model("y = Reshape(x, s)", 13, constants="int64[2] s = {-1, 4}", **IO)
    tensor_data.refer(of.graph.initializer[0], "absent.bin", (0, 16))
    assert found(of, **limited("Reshape", constant=("shape",))) == []


def test_outputs_that_must_not_be_used():
    of = model(
        "y, i = MaxPool<kernel_shape = [2]>(x)", 12, inputs="float[1,1,8] x", outputs="float[1,1,7] y, int64[1,1,7] i"
    )
    limit = limited("MaxPool", unused=("Indices",))
    assert found(of, **limit) == ['MaxPool "y": output Indices "i" is not supported']
    del of.graph.output[1]
    assert found(of, **limit) == []  # nobody reads it


def test_optional_inputs_that_must_not_be_used():
    of = model("y = Clip(x, low)", 13, inputs="float[N,4] x, float low", outputs="float[N,4] y")
    assert found(of, **limited("Clip", unused=("min",))) == ['Clip "y": input min "low" is not supported']
    assert found(of, **limited("Clip", unused=("max",))) == []
    empty = model("y = Resize(x, roi, s)", 13, constants="float[0] roi = {}, float[2] s = {1, 1}", **IO)
    assert found(empty, **limited("Resize", unused=("roi",))) == []


def test_types_that_one_operator_does_not_take():
    of = model("y = Pow(x, e)", 13, constants="int64[1] e = {2}", **IO)
    limit = limited("Pow", types=frozenset({"tensor(float)"}))
    assert found(of, **limit) == ['Pow "y": "e" is tensor(int64); supported: tensor(float)']


def test_ranks_and_sizes_without_a_number():
    of = model("y = Relu(x)", 13, **IO)
    assert found(of, **limited("Relu", ranks=(3, 4))) == ['Relu "y": "x" has rank 2; supported: 3 or 4']
    assert found(of, **limited("Relu", ranks=(2,))) == []
    said = 'Relu "y": "x" has dynamic sizes; supported: fixed sizes; try --fix-shape'
    assert found(of, **limited("Relu", numbers=True)) == [said]
    fixed = model("y = Relu(x)", 13, inputs="float[2,4] x", outputs="float[2,4] y")
    assert found(fixed, **limited("Relu", numbers=True)) == []


def seen(op, said):
    return {"opset": 23, "measured": {("", op): measurements.read(op, said)}}


def test_types_that_were_seen_to_fail():
    of = model("y = MatMul(x, x)", 13, inputs="int32[2,2] x", outputs="int32[2,2] y")
    assert found(of, **seen("MatMul", "2; T: floats, not int32")) == [
        'MatMul "y": "x" is int32, which failed when measured'
    ]
    assert found(of, **seen("MatMul", "2; T: floats")) == []  # which nobody tried
    of = model("y = MatMul(x, x)", 13, inputs="float[2,2] x", outputs="float[2,2] y")
    assert found(of, **seen("MatMul", "2; T: floats, not int32")) == []


def test_ranks_that_were_seen_to_fail():
    of = model("y = Softmax(x)", 13, inputs="float[2,2,2] x", outputs="float[2,2,2] y")
    assert found(of, **seen("Softmax", "2, not 3")) == ['Softmax "y": "x" has rank 3, which failed when measured']
    assert found(of, **seen("Softmax", "2, not 4-5")) == []


def test_types_of_results_and_of_calls_in_branches_fail_too():
    cast = seen("Cast", "2; T1: floats; T2: floats, not int8")
    assert found(model("t = Cast<to = 3>(x) y = Cast<to = 1>(t)", 13, **IO), **cast) == [
        'Cast "t": "t" is int8, which failed when measured'
    ]
    body = "c = Constant<value = bool {1}>() y = If(c)<then_branch = g () => (a) { a = Abs(x) }, else_branch = h () => (b) { b = Neg(x) }>"
    of = model(body, 13, inputs="int32[2] x", outputs="int32[2] y")
    assert found(of, **seen("Abs", "any; T: floats, not int32")) == [
        'Abs "a": "x" is int32, which failed when measured'
    ]


@pytest.mark.parametrize(("folds", "refused"), [(True, 0), (False, 1)])
def test_what_constants_and_sizes_decide_need_not_run(folds, refused):
    of = model("s = Shape(x) n = Neg(s) m = Abs(n) y = Reshape(x, m)", 13, **IO)
    facts = seen("Neg", "any; T: floats, not int64")
    assert len(found(of, folds_sizes=folds, **facts)) == refused
    of = model(
        "n = Neg(c) y = Add(x, n)", 13, inputs="int64[2] x", outputs="int64[2] y", constants="int64[2] c = {1, 2}"
    )
    assert found(of, **facts) == []
