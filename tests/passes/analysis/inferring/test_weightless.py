"""What inference is given of a model: all but its weights."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
import pytest
from onnx import TensorProto
from opshift.passes.analysis.inferring import weightless
from opshift.passes.model import tensors
from opshift.passes.model.types import tensor_type

from tests.support import model

MOST = tensors.SMALL


def held(name, *dims, dtype=np.float32):
    return onnx.numpy_helper.from_array(np.zeros(dims, dtype), name)


def source_of(body="y = Relu(x)", ir=8, **io):
    made = model(body, 18, **{"inputs": "float[2] x", "outputs": "float[2] y", **io})
    made.ir_version = ir
    return made


def light_of(source):
    kept = source.SerializeToString()
    light = weightless.without_weights(source)
    assert source.SerializeToString() == kept
    return light


def test_weights_are_inputs_and_small_constants_stay():
    source = source_of(domains='"my" : 1')
    stored = TensorProto(name="stored", data_type=7, dims=[2], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="f")
    source.graph.initializer.extend([held("large", MOST + 1, 2), held("small", MOST), stored, held("lone")])
    light = light_of(source)
    assert [t.name for t in light.graph.initializer] == ["small", "lone"]
    assert {v.name: v.type for v in light.graph.input} == {
        "x": tensor_type(1, [2]),
        "large": tensor_type(1, [MOST + 1, 2]),
        "stored": tensor_type(7, [2]),
    }
    assert (light.graph.output, light.graph.node, light.opset_import) == (
        source.graph.output,
        source.graph.node,
        source.opset_import,
    )
    assert light.graph.name == "g"
    source.graph.ClearField("name")
    assert light_of(source).graph.name == "graph"


@pytest.mark.parametrize(("ir", "initializers", "read"), [(3, ["x"], 4), (4, [], 4), (9, [], 9)])
def test_what_whoever_runs_the_model_may_override_is_no_constant(ir, initializers, read):
    source = source_of(ir=ir)
    source.graph.initializer.extend([held("x", 2)])
    light = light_of(source)
    assert ([t.name for t in light.graph.initializer], light.ir_version) == (initializers, read)
    source.graph.initializer[0].CopyFrom(held("x", MOST + 1))
    assert [v.name for v in light_of(source).graph.input] == ["x"]


def test_large_constants_keep_their_sizes():
    source = source_of("a = Relu(x) y = Neg(a)")
    large = onnx.helper.make_node("Constant", [], ["c"], name="n", value=held("", MOST + 1))
    small, other = (
        onnx.helper.make_node("Constant", [], [name], domain=domain, value=held("", size))
        for name, domain, size in (("d", "", MOST), ("e", "my", MOST + 1))
    )
    source.graph.node.insert(1, large)
    source.graph.node.extend([small, other])
    light = light_of(source)
    made = light.graph.node[1]
    assert [n.output[0] for n in light.graph.node] == ["a", "c", "y", "d", "e"]
    assert (made.op_type, made.name, made.attribute[0].name, made.attribute[0].type) == (
        "Constant",
        "n",
        "value",
        onnx.AttributeProto.TENSOR,
    )
    assert made.attribute[0].t == TensorProto(dims=[MOST + 1], data_type=1)
    assert [light.graph.node[k] for k in (0, 2, 3, 4)] == [source.graph.node[k] for k in (0, 2, 3, 4)]


def test_sparse_weights_are_dense_to_their_readers():
    source = source_of()
    sparse = source.graph.sparse_initializer.add(dims=[3, 4])
    sparse.values.CopyFrom(held("s", 2))
    again = source.graph.sparse_initializer.add(dims=[2])
    again.values.CopyFrom(held("x", 2))
    assert {v.name: v.type for v in light_of(source).graph.input} == {
        "x": tensor_type(1, [2]),
        "s": tensor_type(1, [3, 4]),
    }


def test_no_room_is_made_for_vectors_that_claim_too_much():
    length = 1 << 20
    source = source_of(inputs=f"float[{length}] x, float[{length + 1}] u, float[{length + 1},2] v")
    assert [v.type for v in light_of(source).graph.input] == [
        tensor_type(1, [length]),
        tensor_type(1, [None]),
        tensor_type(1, [length + 1, 2]),
    ]
    assert weightless.shorten(tensor_type(1, [length])) == tensor_type(1, [length])
    kind = tensor_type(1, [length + 1])
    assert (weightless.shorten(kind), kind) == (tensor_type(1, [None]), tensor_type(1, [length + 1]))


def test_the_only_domain_has_one_name():
    source = source_of("a = ai.onnx.Relu(x) y = Neg(a)")
    source.opset_import[0].domain = "ai.onnx"
    light = light_of(source)
    assert ({node.domain for node in light.graph.node}, [entry.domain for entry in light.opset_import]) == ({""}, [""])


def test_the_default_domain_has_one_name():
    source = source_of("a = ai.onnx.Relu(x) y = Neg(a)", domains='"my" : 1')
    source.opset_import[0].domain = "ai.onnx"
    nodes = [onnx.parser.parse_node("b = ai.onnx.Relu(a)")]
    source.functions.append(
        onnx.helper.make_function("my", "F", ["a"], ["b"], nodes, [onnx.helper.make_opsetid("ai.onnx", 18)])
    )
    light = light_of(source)
    assert {node.domain for node in (*light.graph.node, *light.functions[0].node)} == {""}
    assert [[entry.domain for entry in holder.opset_import] for holder in (light, light.functions[0])] == [
        ["", "my"],
        [""],
    ]
    assert onnx.shape_inference.infer_shapes(light).graph.value_info[0].type == tensor_type(1, [2])
