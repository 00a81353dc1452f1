"""Rules are registered by operator, from some opset on, and tried in the order in which they stand."""

import pytest
from opshift.passes.optimization import rules


@pytest.fixture
def own(monkeypatch):
    rules.at(18)  # after which no import registers more
    monkeypatch.setattr(rules, "_rules", {})


def rule(*ops, **named):
    return rules.rule(*ops, **named)(lambda call: None)


@pytest.mark.usefixtures("own")
def test_rules_that_hold_at_an_opset():
    first, close, late, other = rule("A", "B"), rule("A", close=True), rule("A", since=13), rule("C", since=13)
    at = rules.at.__wrapped__
    assert at(6) == {}
    assert at(7) == at(12) == {"A": [first, close], "B": [first]}
    assert at(13) == {"A": [first, close, late], "B": [first], "C": [other]}
    assert at(12, True) == {"A": [first], "B": [first]}


@pytest.mark.usefixtures("own")
def test_whether_a_rule_settles_is_said_where_it_is_registered():
    assert rules.settles(rule("A", settles=True))
    assert not rules.settles(rule("A"))
    assert not rules.settles(lambda call: None)
