"""The versions that a file carries: the opsets that it imports, and the IR version that follows from them."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel

from tests.passes.conversion.test_convert import ROWS, converted, with_function
from tests.support import model, show


@pytest.mark.parametrize(("target", "ir"), [(7, 3), (9, 4), (13, 7), (18, 8), (28, 14)])
def test_the_ir_version_follows_the_opset(target, ir):
    source = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    source.ir_version = 10
    assert convert.attempt(source, {"": target}).model.ir_version == ir


def test_the_ir_version_is_raised_for_what_needs_it():
    source = with_function("out = ReduceL1<axes=[1]>(data)", 17)
    assert converted(source, 14, ir_version=8).ir_version == 8
    result = convert.attempt(with_function("out = ReduceL1<axes=[1]>(data)", 17), {"": 17}, ir_version=7)
    assert not result.model.functions, "functions are inlined rather than refused"


def test_an_ir_version_that_a_feature_forbids_is_refused():
    source = model("y = Identity(x)", 21, inputs="int4[2] x", outputs="int4[2] y")
    result = convert.attempt(source, {"": 21}, ir_version=8)
    assert 'the type of "x" needs IR version 10, but --ir-version asks for 8' in str(result.refusals[0])
    assert converted(source, 21).ir_version == 10


def test_an_initializer_raises_the_ir_version_by_its_type():
    source = model(
        "y = Identity(x) z = Identity(k) w = Identity(m)",
        21,
        inputs="float[2] x",
        outputs="float[2] y, int4[2] z, float[1] w",
    )
    plain = TensorProto(name="m", data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(4))
    source.graph.initializer.extend(
        [plain, TensorProto(name="k", data_type=TensorProto.INT4, dims=[2], int32_data=[1])]
    )
    source.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT
    result = convert.attempt(source, {"": 21}, ir_version=8)
    assert 'the type of initializer "k" needs IR version 10, but --ir-version asks for 8' in "\n".join(
        map(str, result.refusals)
    )


def test_below_ir_4_initializers_are_inputs_too():
    source = model("y = Mul(x, k)", 13, constants="float[3] k = {1, 2, 3}", **ROWS | {"outputs": "float[N,3] y"})
    below = convert.attempt(source, {"": 8}).model
    assert below.ir_version == 3
    assert [v.name for v in below.graph.input] == ["x", "k"]
    assert below.graph.input[1].type.tensor_type.shape.dim[0].dim_value == 3


def test_an_initializer_that_a_caller_may_override_is_not_constant():
    body, io = "y = ReduceMax(x, a)", {"inputs": "float[N,3] x, int64[1] a", "outputs": "float[N,1] y"}
    source = model(body, 18, constants="", **io)
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "a"))
    below = converted(source, 17)
    assert {n.op_type for n in below.graph.node} >= {"If"}
    source.ir_version = 3  # every initializer had to be an input: it is no default but the value
    below = convert.attempt(source, {"": 17}).model
    assert [n.op_type for n in below.graph.node] == ["ReduceMax"]


@pytest.mark.parametrize("alias", ["ai.onnx", ""])
def test_the_default_domain_by_either_name(alias):
    source = model("y = ReduceMax<axes=[1]>(x)", 17, **ROWS)
    source.opset_import[0].domain = alias
    source.graph.node[0].domain = alias
    assert "ReduceMax(x, [1])" in show(convert.attempt(source, {"": 18}).model).replace("ai.onnx.", "")


@pytest.mark.parametrize(("ir", "fine"), [(1, True), (2, True), (3, False)])
def test_without_imports_an_old_model_is_at_opset_1(ir, fine):
    source = model("y = Relu<consumed_inputs=[0]>(x)", 1, inputs="float[2] x", outputs="float[2] y")
    source.ir_version = ir
    del source.opset_import[:]
    if fine:
        made = convert.attempt(source, {"": 7}).model
        assert (show(made), made.opset_import[0].version) == ("y = Relu(x)", 7)
    else:
        with pytest.raises(InvalidModel, match="imports no opset of it"):
            convert.attempt(source, {"": 7})


def test_imports_that_contradict_each_other_are_no_model():
    source = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    source.opset_import.add(domain="ai.onnx", version=12)
    with pytest.raises(InvalidModel, match="imported twice, at opset 13 and 12"):
        convert.attempt(source, {"": 14})
