"""What was done to a node, how faithful it is, and which of it may be done."""

import pytest
from opshift.passes.changes import Allowance, Change, Result


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
