"""What was done to a node, how faithful it is, and which of it may be done."""

import pytest
from opshift.passes.changes import CONTRADICTED, Allowance, Change, Result, StageReport
from opshift.passes.model.messages import ModelProto


@pytest.mark.parametrize(
    ("source", "target", "told"), [(18, 13, "18 -> 13"), (18, 18, "at 18"), (23, 0, "below 23"), (0, 0, "")]
)
def test_from_where_to_where_a_node_went(source, target, told):
    assert Change("n", "Relu", "", source, target, "how").rung == told


@pytest.mark.parametrize(("grades", "found"), [([], "exact"), (["exact"], "exact"), (["exact", "close"], "close")])
def test_the_grade_of_all_is_that_of_the_worst(grades, found):
    changes = tuple(Change("n", "Relu", "", 1, 2, "how", grade) for grade in grades)
    assert Result(None, changes, ()).grade == found


def test_what_is_withheld_is_not_permitted_of_that_node_or_of_all():
    some = Allowance(frozenset([("n", "Add", "fold"), ("", "Mul", "fold")]))
    assert some.binds
    assert not some.permits("n", "Add", "fold")
    assert not some.permits("any", "Mul", "fold")
    assert some.permits("other", "Add", "fold")
    assert some.permits("n", "Add", "drop")


def test_no_more_than_so_many_are_permitted():
    few = Allowance(most=1)
    assert few.binds
    assert few.permits("n", "Add", "fold")
    few.made.append(Change("n", "Add", "", 1, 1, "fold"))
    assert not few.permits("n", "Add", "fold")
    assert not Allowance().binds
    assert Allowance().permits("n", "Add", "fold")


def test_operators_are_kept_out_beside_what_is_withheld():
    first = Allowance(frozenset([("n", "Add", "fold")]), 3, frozenset([("", "Gelu")]))
    first.made.append(Change("n", "Mul", "", 1, 1, "fold"))
    then = first.keeping_out(frozenset([("", "Swish")]))
    assert then.kept_out == {("", "Gelu"), ("", "Swish")}
    assert not then.permits("n", "Add", "fold")
    assert (first.kept_out, then.made) == ({("", "Gelu")}, [])


def test_results_of_stages_add_up():
    wrong = Change("v", "Neg", "", 13, 13, CONTRADICTED, "exact", "'v': declared [3], inferred [2]")
    moved, folded = Change("a", "Add", "", 13, 12, "moved"), Change("b", "Gelu", "", 12, 12, "folded")
    before, after, last = {("", "Add"): 2}, {("", "Add"): 1}, {("", "Gelu"): 1}
    first = Result(
        ModelProto(), (moved, wrong), (), before, after, absent=("F",), stages=(StageReport("convert", 2, 0.1),)
    )
    then = Result(ModelProto(), (folded, wrong), (), after, last, folded=1, stages=(StageReport("fold", 2, 0.2),))
    both = first.join(then)
    assert both.changes == (moved, wrong, folded), "a wrong declaration is told once"
    assert (both.before, both.after, both.folded, both.absent) == (before, last, 1, ("F",))
    assert [stage.name for stage in both.stages] == ["convert", "fold"]
    idle = both.join(Result(both.model, (), (), folded=0))
    assert (idle.changes, idle.after, idle.folded) == (both.changes, last, 1)
    assert first.join(Result(None, (), ())).model is None


def test_counts_of_another_model_are_not_those_of_the_source():
    fixed = Result(ModelProto(), (Change("x", "input", "", 0, 0, "fixed"),), ())
    assert fixed.join(Result(ModelProto(), (), (), {("", "Add"): 1}, {("", "Add"): 1})).before is None
    idle = Result(ModelProto(), (), ())
    assert idle.join(Result(ModelProto(), (), (), {("", "Add"): 1}, None)).before == {("", "Add"): 1}
