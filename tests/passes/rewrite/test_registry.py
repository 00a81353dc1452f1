"""What may be registered once, and what is looked up of it."""

import pytest
from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.microsoft import files
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.registry import Pair
from opshift.passes.rewrite.says import says, sentence_of


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    """Nothing is registered but what a test says."""
    monkeypatch.setattr(registry, "_steps", {})
    monkeypatch.setattr(registry, "_on_request", {})
    monkeypatch.setattr(registry, "_load", lambda domain, op: None)
    monkeypatch.setattr(registry.operator_files, "FILES", {"": {"Clip": "", "Celu": ""}})
    monkeypatch.setattr(files, "FILES", {})


def step(node):
    return None


def test_both_directions_of_a_boundary():
    pair = Pair(up=step)
    registry.changed("Clip", 11, pair)
    assert registry.step("", "Clip", 11) is pair
    assert registry.step("", "Clip", 12) is registry.step("ai.onnx.ml", "Clip", 11) is None
    registry.same(["Clip", "Max"], 12, "wording only")
    assert registry.step("", "Max", 12) == registry.step("", "Clip", 12) == Pair(why="wording only")
    assert registry.all_registrations().keys() == {("", "Clip", 11), ("", "Clip", 12), ("", "Max", 12)}


@pytest.mark.parametrize(
    ("op", "version", "pair", "why"),
    [
        ("Clip", 11, Pair(), "a transition of Clip to version 11 is already registered"),
        ("Clip", 10, Pair(up=step), r"Clip has no version 10 \(known: 1, 6, 11, 12, 13\)"),
        ("Clip", 1, Pair(up=step, down=step), "1 is the first version of Clip"),
        ("Clip", 1, Pair(), "1 is the first version of Clip"),
        ("Nothing", 1, Pair(), "Nothing has no version 1"),
    ],
)
def test_what_is_no_boundary(op, version, pair, why):
    registry.changed("Clip", 11, Pair(down=step))
    with pytest.raises(ValueError, match=why):
        registry.changed(op, version, pair)


def test_a_first_version_has_a_way_down_alone():
    registry.changed("Celu", 12, Pair(down=step))
    assert registry.step("", "Celu", 12) == Pair(down=step)


def test_what_has_no_form_below_is_refused_with_the_reason():
    registry.cannot("Celu", 12, "it is alone")
    held = registry.step("", "Celu", 12)
    assert (held.up, held.why) == (None, "it is alone")
    with pytest.raises(CannotConvert, match="it is alone"):
        held.down(node())


def node():
    """Of which a refusal reads the name."""
    from onnx import helper
    from opshift.passes.analysis.scope import of_model
    from opshift.passes.conversion.work import Work

    from tests.support import model

    held = model("y = Celu(x)", 12, inputs="float[2] x", outputs="float[2] y")
    held.graph.node[0].CopyFrom(helper.make_node("Celu", ["x"], ["y"]))
    return Work(held.graph.node[0], {"": 12}).node(of_model(held, 12), 12)


def test_definitions_are_those_of_an_opset_that_has_the_operator():
    registry.defined(["Celu", "Elu"], step, opset=12, source="a paper")
    for op in ("Celu", "Elu"):
        held = registry.definition("", op)
        assert (held.opset, held.step, held.source, held.why) == (12, step, "a paper", "")
    registry.defined("Selu", step)
    assert registry.definition("", "Selu").opset == 0
    registry.defined("Gelu", step, opset=13, domain=MICROSOFT)
    assert registry.definition(MICROSOFT, "Gelu").opset == 13
    assert registry.definition("", "Gelu") is None


@pytest.mark.parametrize(
    ("op", "opset", "domain", "why"),
    [
        ("Celu", 12, "", "Celu is already defined in tests.passes.rewrite.test_registry"),
        ("Mish", 17, "", "Mish does not exist at opset 17"),
        ("Nothing", 0, "", "Nothing does not exist at opset 0"),
        ("Nothing", 17, MICROSOFT, "Nothing does not exist at opset 0"),
    ],
)
def test_what_cannot_be_defined(op, opset, domain, why):
    registry.defined("Celu", step)
    with pytest.raises(ValueError, match=why):
        registry.defined(op, step, opset=opset, domain=domain)
    registry.defined("Mish", step, opset=18)


def test_what_vendors_have_no_definition_of_is_refused_with_the_reason():
    registry.refused(["Gelu", "FastGelu"], "nobody knows", domain=MICROSOFT)
    for op in ("Gelu", "FastGelu"):
        held = registry.definition(MICROSOFT, op)
        assert (held.opset, held.why) == (0, "nobody knows")
        with pytest.raises(CannotConvert, match="nobody knows"):
            held.step(node())
    with pytest.raises(ValueError, match="Gelu is already defined"):
        registry.refused("Gelu", "again", domain=MICROSOFT)


def test_sentences_stand_for_steps():
    @says("The axes become an input.")
    def axes_become_input():
        pass

    def scale_per_channel():
        pass

    assert sentence_of(axes_become_input) == "The axes become an input"
    assert sentence_of(scale_per_channel) == "scale per channel"
    assert axes_become_input.__name__ == "axes_become_input"
