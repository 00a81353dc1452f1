"""The sentence that stands for a step wherever what it did is reported."""

import weakref

from opshift.passes.rewrite.says import says, sentence_of


def step_without_a_sentence(node): ...


def test_a_sentence_stands_without_its_full_stop():
    assert sentence_of(says("Axes become an input.")(lambda node: None)) == "Axes become an input"
    assert sentence_of(step_without_a_sentence) == "step without a sentence"


def test_a_sentence_goes_with_its_function():
    """Recipes make steps for a single call, which nothing may keep."""
    step = says("One.")(lambda node: None)
    kept = weakref.ref(step)
    assert sentence_of(step) == "One"
    del step
    assert kept() is None
