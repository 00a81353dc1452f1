"""Attempts follow each other in one loop: repairs take the place of what failed, alternatives stand beside it."""

import onnx
import onnx.parser
import pytest
from opshift.passes import goals
from opshift.passes.changes import Change, Result
from opshift.passes.conversion.attempts import (
    REPAIRS,
    Conversion,
    choose,
    convert_functions_apart,
    drop_dead_branches,
    extend,
    inline_functions,
    plan_attempt,
    try_attempts,
)
from opshift.passes.conversion.convert import convert_once
from opshift.passes.errors import Refusal
from opshift.passes.records import replace

from tests.support import model

SOURCE = model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y")
REFUSAL = Refusal("y", "Relu", "", 14, False, "why")


def test_a_repair_takes_the_place_of_what_failed():
    done = []
    tried = try_attempts(1, lambda n: done.append(n) or n, [lambda n: None, lambda n: n + 1 if n < 3 else None])
    assert (tried, done) == ([3], [1, 2, 3])


def test_alternatives_are_asked_for_once_nothing_waits_and_repaired_each():
    def double(tried):
        return [10, 20] if len(tried) == 1 else []

    def again(tried):
        return [30] if len(tried) == 3 else []

    repair = {10: 11, 1: 2}.get
    assert try_attempts(1, lambda n: n, [repair], [double, again]) == [2, 11, 20, 30]


def conversion(nodes=None, grade="exact", refusals=0):
    attempt = plan_attempt(SOURCE, {"": 13})
    if nodes is None:
        return Conversion(attempt, Result(None, (), (REFUSAL,) * refusals))
    change = Change("y", "Relu", "", 18, 13, "how", grade)
    return Conversion(attempt, Result(SOURCE, (change,), (), None, {("", "Relu"): nodes}))


def test_the_exact_one_is_chosen_then_that_of_the_fewest_nodes_and_of_refusals_the_fewest():
    exact, small, close = conversion(9), conversion(5), conversion(1, "close")
    assert choose([close, exact]) is exact
    assert choose([exact, small, close]) is small
    many, few = conversion(refusals=3), conversion(refusals=2)
    assert choose([many, few]) is few
    assert choose([many, close]) is close


def test_functions_are_apart_where_the_refusals_are_about_several_that_were_merged():
    failed = conversion(refusals=1)
    assert convert_functions_apart(failed) is None
    assert not convert_functions_apart(replace(failed, merged=True)).merge


def test_functions_that_cannot_be_converted_where_they_stand_are_inlined():
    failed = conversion(refusals=1)
    assert inline_functions(failed) is None
    attempt = inline_functions(replace(failed, blamed=frozenset([("my", "F")])))
    assert (attempt.inline, attempt.why) == ({("my", "F")}, ("inlined F",))
    assert inline_functions(Conversion(attempt, failed.result, frozenset([("my", "F")]))) is None


def test_dead_branches_are_dropped_once():
    body = "y = If(c) <then_branch = t () => (float[2] p) { p = Neg(x) }, else_branch = e () => (float[2] q) { q = Abs(x) }>"
    source = model(body, 18, inputs="float[2] x", outputs="float[2] y", constants="bool c = {1}")
    failed = Conversion(plan_attempt(source, {"": 13}), Result(None, (), (REFUSAL,)))
    attempt = drop_dead_branches(failed)
    assert [branch.g.node[0].op_type for branch in attempt.source.graph.node[0].attribute] == ["Neg", "Neg"]
    assert len(attempt.dropped) == 1
    assert drop_dead_branches(replace(failed, attempt=attempt)) is None
    assert drop_dead_branches(replace(failed, repairable=False)) is None
    assert drop_dead_branches(Conversion(plan_attempt(SOURCE, {"": 13}), failed.result)) is None


def test_more_operators_to_expand_make_another_attempt():
    first = replace(plan_attempt(SOURCE, {"": 13}, [("", "Gelu")]), why=("at opset 13",))
    more = extend(first, [("", "Relu"), ("com.microsoft", "Gelu")])
    assert more.expand == {("", "Gelu"), ("", "Relu"), ("com.microsoft", "Gelu")}
    assert more.why == ("at opset 13", "expanded Relu, com.microsoft::Gelu")
    assert more.is_extended


def test_a_domain_that_is_not_imported_is_no_target():
    with pytest.raises(
        ValueError, match=r"does not import domain 'my', so its opset cannot be changed; it imports 'ai.onnx'"
    ):
        plan_attempt(SOURCE, {"my": 1})


def test_reports_say_which_attempt_was_taken():
    """Axes that are dynamic hang on the rank, which the caller alone knows."""
    source = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "my" : 1]> g (float[2,2] x, int64[1] a) => (float[2,2] y) { y = my.F(x, a) }
        <domain: "my", opset_import: ["" : 18]> F (x, a) => (y) { y = ReduceMax(x, a) }"""
    )
    (conversion,) = try_attempts(plan_attempt(source, {"": 17}), convert_once, REPAIRS)
    assert conversion.result.attempt == "inlined F"
    (report,) = goals.conversion(17).run(source).stages
    assert report.full_name == "convert to opset 17 (inlined F)"
