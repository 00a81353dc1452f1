"""What is asked for becomes a goal, and what has no meaning an error that names what could be meant."""

import pytest
from opshift.passes import goals
from opshift.passes.goals import Refinement
from opshift.passes.specialization.wanted import wanted

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
        (goals.versions(None, None, Refinement(), wanted("N=1", [])), "fixed", ""),
        (goals.versions(None, None, Refinement(), rebatch=4), "batch-4", ""),
        (goals.versions(None, None, Refinement(), annotate=True), "annotated", ""),
    ],
)
def test_what_names_of_files_and_sentences_say_of_a_goal(goal, label, said):
    assert (goal.label, goal.said) == (label, said)


def test_nothing_asked_for_is_an_error():
    with pytest.raises(ValueError, match="name what to convert to"):
        goals.versions(None, None, Refinement())
    assert not goals.conversion(13).is_fixing
    assert goals.versions(13, None, Refinement(), rebatch=1).is_fixing


@pytest.mark.parametrize("given", [99, 0, "rknn-9", {"": 99}])
def test_an_unknown_target_is_an_error(given):
    with pytest.raises(ValueError, match=r"known|target"):
        goals.conversion(given)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Rezise", "unknown operator 'Rezise'; did you mean Resize[?]"),
        ("no.such::Relu", "no operator of domain 'no.such' is known"),
        ("Conv", "Conv has no definition to recognise it by"),
    ],
)
def test_what_cannot_be_folded_is_told_why(name, why):
    with pytest.raises(ValueError, match=why):
        goals.folding([name])


def test_to_fold_no_operator_is_not_to_fold_all():
    with pytest.raises(ValueError, match="name operators"):
        goals.folding(())
    assert goals.folding().ops is None


def test_what_is_absent_is_told_and_the_source_stays_as_it_is():
    before = RELU.SerializeToString()
    made = goals.inlining(["Gelu"]).run(RELU, None)
    assert made.absent == ("Gelu",)
    assert made.model is not RELU
    assert RELU.SerializeToString() == before
