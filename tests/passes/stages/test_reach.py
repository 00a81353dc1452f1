"""Reaching an opset, an IR version or a backend."""

import onnx
from opshift.passes import goals
from opshift.passes.stages.reach import own_opset

from tests.support import model

RELU = model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y")


def test_the_own_opset_is_that_of_the_model_or_else_of_its_functions():
    assert own_opset(RELU) == {"": 18}
    held = onnx.ModelProto()
    held.opset_import.add(domain="my", version=1)
    held.functions.add(name="F", domain="my").opset_import.add(domain="", version=15)
    assert own_opset(held) == {"": 15}


def test_a_stage_is_named_after_what_is_asked():
    assert [
        stage.name
        for goal in (
            goals.conversion({"": 13, "ai.onnx.ml": 2}),
            goals.conversion(None, 8),
            goals.inlining(["Gelu", "my::F"], "", 17),
            goals.inlining((), portable=True),
            goals.inlining((), target="rknn-2.1"),
        )
        for stage in goal.stages()
    ] == [
        "convert to opset 13 and opset 2 of ai.onnx.ml",
        "write IR version 8",
        "convert to opset 17 and replace Gelu, my::F, operators of ai.onnx",
        "replace vendor operators",
        "fold what rknn-2.1 lacks",
        "convert for rknn-2.1",
    ]
