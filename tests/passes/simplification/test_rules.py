"""Rules are registered by operator, from some opset on, and tried in the order in which they stand."""

import pytest
from opshift.passes.optimization.rules import all_rules
from opshift.passes.simplification import rules


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(rules, "_rules", {})


def find(opset):
    return rules.find_rules(opset, exact=False)


def rule_name(function):
    return function.__name__


def rule(*ops, **named):
    return rules.rule(*ops, **named)(lambda call: None)


@pytest.mark.usefixtures("own")
def test_rules_that_hold_at_an_opset():
    first, close, late, other = rule("A", "B"), rule("A", close=True), rule("A", since=13), rule("C", since=13)
    assert find(6) == {}
    assert find(7) == find(12) == {"A": [first, close], "B": [first]}
    assert find(13) == {"A": [first, close, late], "B": [first], "C": [other]}
    assert rules.find_rules(12, exact=True) == {"A": [first], "B": [first]}


@pytest.mark.usefixtures("own")
def test_rules_are_tried_in_the_order_of_their_files():
    last, first = rule("A"), rule("A")
    last.__module__, first.__module__ = "core.rules.zeros", "extra.rules.axes"
    assert find(7) == {"A": [first, last]}


def test_a_conversion_tries_no_rule_that_rounds_otherwise():
    assert not set(map(rule_name, rules.exact_rules(18)["Mul"])) & {"multiply_once", "scale_in_layer"}
    assert {"multiply_once", "scale_in_layer"} < set(map(rule_name, all_rules(18)["Mul"]))


@pytest.mark.usefixtures("own")
def test_whether_a_rule_settles_is_said_where_it_is_registered():
    assert rules.settles(rule("A", settles=True))
    assert not rules.settles(rule("A"))
    assert not rules.settles(lambda call: None)
