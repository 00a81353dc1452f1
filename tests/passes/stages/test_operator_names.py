"""Operators are named alone, with their domain, or by their domain, and misspelt ones are told what is meant."""

import pytest
from opshift.passes.stages.operator_names import as_names, find_named, parse_operator

from tests.support import model

RELU = model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y")


def test_one_name_is_not_taken_for_its_letters():
    assert as_names("Gelu") == ("Gelu",)
    assert as_names(name for name in ("Gelu", "Celu")) == ("Gelu", "Celu")


@pytest.mark.parametrize(
    ("name", "op"), [("Relu", ("", "Relu")), ("ai.onnx::Relu", ("", "Relu")), ("a::b::C", ("a::b", "C"))]
)
def test_an_operator_is_named_with_its_domain_or_without(name, op):
    assert parse_operator(name) == op


def test_operators_are_named_one_by_one_and_by_domain():
    used = [("", "Relu"), ("my", "F"), ("my", "A")]
    assert find_named(RELU, ["Relu"], None, used) == [("", "Relu")]
    assert find_named(RELU, [], "my", used) == [("my", "A"), ("my", "F")]
    assert find_named(RELU, ["Gelu"], "com.microsoft", used) == [("", "Gelu")]
    with pytest.raises(ValueError, match="no operator of domain 'me'; it uses"):
        find_named(RELU, [], "me", used)
    with pytest.raises(ValueError, match=r"no operator of domain 'ai.onx'; did you mean 'ai.onnx'\?"):
        find_named(RELU, [], "ai.onx", used)
    with pytest.raises(ValueError, match="unknown operator 'my::G'"):
        find_named(RELU, ["my::G"], None, used)


@pytest.mark.parametrize(("name", "meant"), [("DynamicQuantizeLSTM", "com.microsoft"), ("F", "my")])
def test_the_operator_of_that_name_in_another_domain_is_meant_before_a_similar_one(name, meant):
    with pytest.raises(ValueError, match=rf"did you mean {meant}::{name}\?"):
        find_named(RELU, [name], None, [("", "Relu"), ("my", "F")])
