"""Where ONNX's inference takes a default otherwise, sizes are those that onnxruntime yields."""

import numpy as np
import onnx
import onnx.helper
import onnx.shape_inference
import pytest
from opshift.passes.analysis.inferring.strict_inference import contradiction, mend
from opshift.passes.inputs.wanted import parse_wanted
from opshift.passes.model.traversal import bodies
from opshift.passes.specialization import fixing

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.support import model

FRAMES = {"constants": "int64 s = {4}, int64 n = {8}", "inputs": "float[1,16,1] x"}


@pytest.mark.parametrize(("onesided", "size"), [("", 5), ("<onesided=1>", 5), ("<onesided=0>", 8)])
def test_frequencies_of_a_signal(onesided, size):
    body = f"f = STFT{onesided}(x, s, , n) k = Shape<start=2, end=3>(f) y = Add(k, k)"
    source = model(body, 17, outputs="int64[1] y", **FRAMES)
    (expected,) = OnnxRuntime(source).run({"x": np.zeros((1, 16, 1), np.float32)})
    assert expected == 2 * size
    made = opshift.optimize(source)
    assert OnnxRuntime(made).run({"x": np.zeros((1, 16, 1), np.float32)})[0] == expected


def test_sizes_that_fit_the_frequencies_are_no_contradiction():
    body = "f = STFT(x, s, , n) y = MatMul(w, f)"
    io = {"inputs": "float[1,T,1] x, float[1,1,3,5] w", "outputs": "float[A,B,C,D] y", "constants": FRAMES["constants"]}
    source = model(body, 17, **io)
    fixed = fixing.attempt(source, parse_wanted(["x:1,16,1"], [])).model
    assert not contradiction(fixed, checked=False)
    assert [dim.dim_value for dim in fixed.graph.output[0].type.tensor_type.shape.dim] == [1, 3, 3, 2]


def test_what_the_checker_takes_otherwise_is_stated_where_it_learns_of_it():
    io = {"inputs": "float[1,16,1] x, float[8] w", "outputs": "float[1,3,5,2] y", "constants": "int64 s = {4}"}
    silent = model("y = STFT(x, s, w)", 17, **io | {"inputs": "float[1,16,1] x, float[N] w"})
    made = model("y = STFT(x, s, w)", 17, **io)
    assert not contradiction(silent)
    assert "(8) vs (5)" in contradiction(made)
    assert mend(made, silent) == []
    onnx.checker.check_model(made, full_check=True)
    assert [(a.name, a.i) for a in made.graph.node[0].attribute] == [("onesided", 1)]
    assert made.graph.output == silent.graph.output


@pytest.mark.parametrize("ir_version", [3, 8])
def test_values_that_inputs_have_by_default_count_as_they_do_to_the_checker(ir_version):
    source = model("y = Reshape(x, k)", 9, inputs="float[4] x", outputs="float[4] y", constants="int64[2] k = {2, 2}")
    source.graph.input.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [2]))
    source.ir_version = ir_version
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.checker.check_model(source, full_check=True)
    assert contradiction(source)
    assert bool(contradiction(source, checked=False)) is (ir_version == 3)
    made = onnx.ModelProto.FromString(source.SerializeToString())
    (change,) = mend(made, source)
    assert "'y': declared [4], inferred [2, 2]" in change.remark
    onnx.checker.check_model(made, full_check=True)


BEHIND_A_CAST = "k = Cast<to=7>(s) {y} = STFT{onesided}(x, k, , n)"
IN_AN_IF = """y = If(c)<then_branch = g () => (float[1,3,{size},2] z) {{ {body} }},
                          else_branch = h () => (float[1,3,{size},2] z) {{ z = Relu(other) }}>"""


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize(("onesided", "size"), [("", 5), ("<onesided=1>", 5), ("<onesided=0>", 8)])
def test_sizes_that_inference_sees_once_a_cast_is_gone_are_those_declared(onesided, size, is_inside):
    body = BEHIND_A_CAST.format(y="z" if is_inside else "y", onesided=onesided)
    source = model(
        IN_AN_IF.format(size=size, body=body) if is_inside else body,
        17,
        inputs="float[1,16,1] x, bool c, float[1,3,N,2] other",
        outputs=f"float[1,3,{size},2] y",
        constants="int32 s = {4}, int64 n = {8}",
    )
    onnx.checker.check_model(source, full_check=True)
    made = opshift.optimize(source)
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.output == source.graph.output
    calls = [node for held in bodies(made) for node in held.node]
    assert "Cast" not in [node.op_type for node in calls]
    assert [[(a.name, a.i) for a in n.attribute] for n in calls if n.op_type == "STFT"] == [
        [("onesided", int(size == 5))]
    ]
    feeds = {"x": np.zeros((1, 16, 1), np.float32), "c": np.array(True), "other": np.zeros((1, 3, size, 2), np.float32)}
    assert OnnxRuntime(made).run(feeds)[0].shape == (1, 3, size, 2)


def test_what_nothing_changed_of_states_no_more_than_it_did():
    source = model("y = STFT(x, s, , n)", 17, outputs="float[1,A,B,2] y", **FRAMES)
    assert opshift.optimize(source).graph == source.graph
