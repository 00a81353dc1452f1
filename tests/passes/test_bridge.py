"""Models of onnx_ir as messages: weights stay outside, can be read meanwhile, and come back as the same objects."""

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir.passes import Sequential
from opshift.passes import ConvertVersionPass, FoldFunctionsPass, OptimizePass, bridge
from opshift.passes.model import tensor_data, tensors

from tests.support import model, show

WEIGHT = np.arange(2 * tensors.SMALL, dtype=np.float32)
SPELLED = "i = Identity(x) s = Mul(i, i) t = ReduceSum<keepdims=1>(s, a) y = Sqrt(t)"
ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y", "constants": "int64[1] a = {1}"}


def with_weight():
    held = model("y = Add(x, w)", 13, inputs="float[N] x", outputs="float[N] y")
    held.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    return onnx_ir.from_proto(held)


def test_a_weight_can_be_read_while_it_is_lent():
    with bridge.lend(with_weight()) as (proto, _):
        tensor = proto.graph.initializer[0]
        assert proto.ByteSize() < 300
        read = tensor_data.load(tensor, None)
        assert onnx.numpy_helper.to_array(read).tolist() == WEIGHT.tolist()
        assert (read.name, list(read.dims)) == ("w", [2 * tensors.SMALL])
    assert tensor_data.load(tensor, None) is None


def test_a_weight_comes_back_under_another_name_and_in_a_subgraph():
    given = with_weight()
    with bridge.lend(given) as (proto, back):
        inner = onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["v"], ["o"])], "g", [], [onnx.ValueInfoProto(name="o")]
        )
        inner.initializer.append(proto.graph.initializer[0])
        inner.initializer[0].name = "v"
        proto.graph.node.append(onnx.helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner))
        made = back(proto)
    own = given.graph.initializers["w"].const_value
    first, *inner = [value.const_value for graph in made.graphs() for value in graph.initializers.values()]
    assert first is own
    assert [(tensor.name, tensor.raw() is own) for tensor in inner] == [("v", True), ("v", True)]
    assert onnx_ir.to_proto(made).graph.initializer[0].name == own.name == "w"


def test_the_model_is_whole_when_its_tensors_are_away():
    given = with_weight()
    tensor = given.graph.initializers["w"].const_value
    with bridge.lend(given):
        assert given.graph.initializers["w"].const_value is tensor


def test_tensors_that_cannot_be_read_are_unknown():
    tensor = onnx_ir.ExternalTensor("gone.bin", 0, 4, onnx_ir.DataType.FLOAT, shape=onnx_ir.Shape([1]), name="w")
    given = with_weight()
    given.graph.initializers["w"].const_value = tensor
    with bridge.lend(given) as (proto, back):
        assert tensor_data.load(proto.graph.initializer[0], None) is None
        assert back(proto).graph.initializers["w"].const_value is tensor


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (FoldFunctionsPass(), "t1 = Identity(x)\ny = ReduceL2<axes=[1], keepdims=1>(t1)"),
        (FoldFunctionsPass(["ReduceL2"]), "t1 = Identity(x)\ny = ReduceL2<axes=[1], keepdims=1>(t1)"),
        (OptimizePass(), "t1 = Mul(x, x)\nt2 = ReduceSum<keepdims=1>(t1, [1])\ny = Sqrt(t2)"),
        (
            ConvertVersionPass("onnxruntime-1.7", modernize=True, optimize=True),
            "y = ReduceL2<axes=[1], keepdims=1>(x)",
        ),
        (Sequential(OptimizePass(), FoldFunctionsPass()), "y = ReduceL2<axes=[1], keepdims=1>(x)"),
    ],
)
def test_passes_say_honestly_whether_they_did_something(step, left):
    source = onnx_ir.from_proto(model(SPELLED, 13, **ROWS))
    kept = onnx_ir.to_proto(source)
    first = step(source)
    assert first.modified
    assert show(onnx_ir.to_proto(first.model)) == left
    assert onnx_ir.to_proto(source) == kept
    second = step(first.model)
    assert not second.modified
    assert show(onnx_ir.to_proto(second.model)) == left


def test_only_operators_that_are_named_are_folded():
    made = FoldFunctionsPass(["ReduceL1"])(onnx_ir.from_proto(model(SPELLED, 13, **ROWS)))
    assert not made.modified
    with pytest.raises(ValueError, match="did you mean ReduceL1"):
        FoldFunctionsPass(["Reduce_L1"])(made.model)


@pytest.mark.parametrize("step", [FoldFunctionsPass(), OptimizePass()])
def test_weights_are_the_same_objects(step):
    given = with_weight()
    made = step(given)
    assert not made.modified
    assert made.model.graph.initializers["w"].const_value is given.graph.initializers["w"].const_value
