"""What is asked for becomes a goal, and what has no meaning an error that names what could be meant."""

import numpy as np
import pytest
from opshift.passes import goals
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Allowance
from opshift.passes.goals import Refinement

from tests.support import model

RELU = model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y")


@pytest.mark.parametrize(
    ("goal", "label", "said"),
    [
        (goals.conversion(13), "opset13", "at opset 13"),
        (goals.conversion({"": 13, "ai.onnx.ml": 2}), "opset13-ai.onnx.ml2", "at opset 13 and opset 2 of ai.onnx.ml"),
        (goals.conversion(None, 8), "ir8", "at IR version 8"),
        (goals.conversion(None, wanted=Refinement(optimize=True)), "optimized", ""),
        (goals.conversion(None, wanted=goals.folding()), "folded", ""),
        (goals.conversion(13, wanted=goals.folding()), "opset13", "at opset 13"),
        (goals.inlining(["Gelu"]), "inlined", ""),
        (goals.inlining((), "my"), "inlined", ""),
        (goals.inlining((), portable=True), "portable", ""),
        (goals.inlining((), target="rknn-2.1"), "for-rknn-2.1", "for rknn-2.1"),
        (goals.convert_version_goal(None, None, Refinement(), fix_shape="N=1"), "fixed", ""),
        (goals.convert_version_goal(None, None, Refinement(), rebatch=4), "batch-4", ""),
        (goals.convert_version_goal(None, None, Refinement(), annotate=True), "annotated", ""),
        (goals.convert_version_goal(None, None, Refinement(optimize=True)), "optimized", ""),
    ],
)
def test_what_names_of_files_and_sentences_say_of_a_goal(goal, label, said):
    assert (goal.label, goal.description) == (label, said)


def test_nothing_asked_for_is_an_error():
    with pytest.raises(ValueError, match="nothing to do: give an opset"):
        goals.convert_version_goal(None, None, Refinement())
    assert not goals.conversion(13).has_options
    assert goals.convert_version_goal(13, None, Refinement(), rebatch=1).has_options


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"types": 16}, "give types as text, such as float16 or int64=int32, not 16"),
        ({"types": ["float16"]}, "give types as text"),
        ({"types": "float16", "interface": 3}, "give interface as text"),
        ({"types": "float16", "keep": 5}, "give nodes to keep or change by patterns"),
        ({"types": "float16", "only": [5]}, "give nodes to keep or change by patterns"),
        ({"unroll": "3"}, "--unroll must be 1 or more, not '3'"),
        ({"unroll": 2.5}, "--unroll must be 1 or more, not 2.5"),
        ({"if_to_where": True}, "--if-to-where must be 1 or more, not True"),
        ({"rebatch": 4.0}, "a batch is 1 or more samples"),
    ],
)
def test_an_argument_of_the_wrong_type_is_told(given, why):
    with pytest.raises(ValueError, match=why):
        goals.with_options(goals.conversion(13), **given)


def test_whole_numbers_may_be_of_numpy():
    goal = goals.with_options(goals.conversion(13), rebatch=np.int64(4), unroll=np.int32(3), if_to_where=np.int64(2))
    assert (goal.rebatch, goal.unroll, goal.if_to_where) == (4, 3, 2)


@pytest.mark.parametrize("given", [99, 0, "rknn-9", {"": 99}])
def test_an_unknown_target_is_an_error(given):
    with pytest.raises(ValueError, match=r"known|target"):
        goals.conversion(given)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Rezise", "unknown operator 'Rezise'; did you mean Resize[?]"),
        ("no.such::Relu", "opshift knows no operators of domain 'no.such'"),
        ("Conv", "Conv has no definition that could be folded"),
    ],
)
def test_what_cannot_be_folded_is_told_why(name, why):
    with pytest.raises(ValueError, match=why):
        goals.folding([name])


def test_to_fold_no_operator_is_not_to_fold_all():
    with pytest.raises(ValueError, match="give at least one operator"):
        goals.folding(())
    assert goals.folding().ops is None


def test_what_is_absent_is_told_and_the_source_stays_as_it_is():
    before = RELU.SerializeToString()
    made = goals.inlining(["Gelu"]).run(RELU, None)
    assert made.absent == ("Gelu",)
    assert made.model is not RELU
    assert RELU.SerializeToString() == before


def test_for_a_compiler_constants_are_computed_and_nothing_comes_in_that_it_lacks():
    npu = Backend("npu-1", opset=17, folded=True, lacks={("", "Relu"): 1})
    goal = goals.inlining((), None, npu)
    named = ["fold what npu-1 lacks", "convert for npu-1", "optimize for npu-1", "propagate sizes and constants"]
    assert [stage.name for stage in goal.stages()] == named
    body = "one = Constant<value_float = 1.0>() half = Exp(one) m = Mul(x, half) y = Abs(m)"
    made = goal.run(model(body, 17, inputs="float[2] x", outputs="float[2] y"), None).model
    assert [node.op_type for node in made.graph.node] == ["Mul", "Abs"]


@pytest.mark.parametrize(
    ("goal", "names"),
    [
        (goals.conversion(13), ["convert to opset 13"]),
        (goals.conversion(None, wanted=Refinement(optimize=True)), ["optimize"]),
        (goals.conversion(13, wanted=Refinement(True)), ["convert to opset 13", "fold"]),
        (
            goals.convert_version_goal(13, None, Refinement(True, optimize=True), fix_shape="N=1", annotate=True),
            [
                "fix sizes and inputs",
                "convert to opset 13",
                *("fold", "optimize") * 2,
                "propagate sizes and constants",
                "annotate",
            ],
        ),
        (
            goals.convert_version_goal(None, None, Refinement(), rebatch=4),
            ["set the batch size to 4", "propagate sizes and constants"],
        ),
        (
            goals.convert_version_goal(None, None, Refinement(), fix_shape="N=1", rebatch="dynamic"),
            ["fix sizes and inputs and make the batch size dynamic", "propagate sizes and constants"],
        ),
        (
            goals.convert_version_goal(None, None, Refinement(quantization="qdq")),
            ["replace QLinear operators", "dequantize"],
        ),
        (
            goals.convert_version_goal(13, None, Refinement(quantization="qoperator")),
            ["convert to opset 13", "quantize"],
        ),
        (
            goals.conversion("onnxruntime-1.8", wanted=Refinement(True, optimize=True)),
            ["convert to opset 14", "fold and optimize for onnxruntime-1.8"],
        ),
    ],
)
def test_a_goal_is_a_list_of_stages(goal, names):
    assert [stage.name for stage in goal.stages()] == names


def test_a_refusal_ends_the_stages_and_what_was_done_before_is_told():
    source = model(
        "a = Neg(x) y = ImageDecoder(z)", 20, inputs="float[N] x, uint8[2] z", outputs="float[N] a, uint8[A,B,C] y"
    )
    result = goals.convert_version_goal(7, None, Refinement(True), fix_shape="N=2", annotate=True).run(source)
    assert result.model is None
    assert [report.name for report in result.stages] == ["fix sizes and inputs", "convert to opset 7"]
    assert len(result.changes) == result.stages[0].changes > 0
    assert result.refusals[0].op == "ImageDecoder"


def test_an_allowance_withholds_changes_of_optional_stages_alone():
    source = model(
        "a = Identity(x) b = Relu(a) y = ReduceSum(b, k)",
        18,
        inputs="float[2,2] x",
        outputs="float[2,1] y",
        constants="int64[1] k = {1}",
    )
    goal = goals.conversion(11, wanted=Refinement(optimize=True))
    whole, none = goal.run(source), goal.run(source, None, Allowance(most=0))
    assert whole.optional
    assert not none.optional
    assert [report.changes for report in none.stages] == [1, 0]
    withheld = frozenset((change.node, change.op, change.how) for change in whole.optional)
    assert goal.run(source, None, Allowance(withheld)).model == none.model
