"""What is computed twice or by nobody read, and what must not be touched."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.changes import Allowance
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.optimization import optimize
from opshift.passes.simplification.whole import Whole

from tests.exported import store
from tests.passes.simplification.rules.support import check_kept, check_optimized, held, optimized
from tests.support import model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}


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
    assert held(made) == {"c", "e"}


def test_equal_weights_are_one():
    source = model(
        "a = MatMul(x, c) b = MatMul(a, d) y = MatMul(b, e)", 18, inputs="float[N,80] x", outputs="float[N,80] y"
    )
    weights = np.linspace(-1, 1, 6400, dtype=np.float32).reshape(80, 80)
    for name, array in (("c", weights), ("d", weights), ("e", weights.T)):
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
    assert held(optimized(source)) == {"c", "e"}


def test_weights_at_one_place_in_a_file_are_one(tmp_path):
    source = model(
        "a = MatMul(x, c) b = MatMul(a, d) y = MatMul(b, e)", 18, inputs="float[N,80] x", outputs="float[N,80] y"
    )
    for name, offset in (("c", 0), ("d", 0), ("e", 25600)):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[80, 80], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", "25600")):
            tensor.external_data.add(key=key, value=value)
        source.graph.initializer.append(tensor)
    assert held(optimize.attempt(source, folder=str(tmp_path)).model) == {"c", "e"}


def test_zeros_of_both_signs_are_two_constants():
    constants = "float[2] c = {0.0, 1.0}, float[2] d = {-0.0, 1.0}"
    io = {"inputs": "float[N,2] x", "outputs": "float[N,2] y", "constants": constants}
    assert held(optimized(model("a = Mul(x, c) y = Add(a, d)", 18, **io))) == {"c", "d"}


def test_what_nobody_reads_is_gone():
    made = check_optimized(
        "a = Exp(x) b = Mul(a, c) y = Relu(x)", "y = Relu(x)", constants="float[3] c = {1.0, -1.0, 0.25}", **IO
    )
    assert not made.graph.initializer


def test_what_yields_an_output_alone_is_a_copy():
    check_optimized("y, m = Dropout(x)", "y = Identity(x)", **IO)


def test_a_rule_that_is_withheld_hinders_no_other():
    source = model("r = Relu(x) y = Min(r, six)", 18, constants="float six = {6}", **IO)
    rules = {"Merged Max and Min into Clip"}
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
    how = "Removed a Reshape to the same shape"
    found = [change.grade for change in optimize.attempt(export.model).changes if change.how == how]
    assert sorted(found) == ["close"] + 4 * ["exact"]


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
    assert (change.node, change.op, change.how, change.grade) == ("copy", "Identity", "Removed Identity", "exact")
    assert (change.source, change.target) == (16, 16)


def test_it_is_all_the_same_who_looked_at_the_model():
    for export in store.sample("torch")[::24]:
        given, own = (optimize.attempt(export.model, survey=s) for s in (convert.check_model(export.model), None))
        assert given.model == own.model
        assert (given.changes, given.before, given.after) == (own.changes, own.before, own.after)


CONV = {
    "inputs": "float[1,1,N,N] x",
    "outputs": "float[1,1,N,N] y",
    "constants": "float[1,1,1,1] w = {2.0}, float[1] c = {3.0}",
}


def rounds(monkeypatch, source):
    begun, begin = [], Whole.begin
    monkeypatch.setattr(Whole, "begin", lambda self: (begun.append(1), begin(self)))
    made = optimize.attempt(source).model
    return len(begun), [node.op_type for node in made.graph.node]


@pytest.mark.parametrize(
    ("body", "count", "left"),
    [
        ("a = Conv(x, w) y = Mul(a, c)", 1, ["Conv"]),  # nothing that comes of it
        ("a = Conv(x, w) b = Identity(a) y = Mul(b, c)", 2, ["Conv"]),  # read twice until the Identity was gone
        ("a = Exp(x) b = Exp(x) y = Add(a, b)", 2, ["Exp", "Add"]),
        ("a = Shape(x) b = Reshape(x, a) y = Exp(b)", 1, ["Exp"]),
        ("a = Mul(w, w) y = Conv(x, a)", 2, ["Conv"]),  # of whose shape nobody asked
        ("a = Shape(x) p = Mul(w, w) q = Add(w, p) b = Conv(x, q) y = Reshape(b, a)", 1, ["Shape", "Conv", "Reshape"]),
        ("y = Exp(x)", 1, ["Exp"]),
    ],
)
def test_another_round_follows_only_where_it_may_find_something(monkeypatch, body, count, left):
    assert rounds(monkeypatch, model(body, 17, **CONV)) == (count, left)


@pytest.mark.parametrize(("opset", "after"), [(13, "Clip"), (21, "Identity")])
def test_a_function_calls_what_is_the_same_at_the_opset_of_the_model(opset, after):
    """Identity is another at 21, where Clip is that of 13."""
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "l" : 1]> g (float[2] x) => (float[2] y) {{ y = l.F(x) }}
        <domain: "l", opset_import: ["" : 21]> F (x) => (y) {{ y = Clip(x) }}"""
    source = onnx.parser.parse_model(text)
    onnx.checker.check_model(source, full_check=True)
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for function in made.functions for node in function.node] == [after]
