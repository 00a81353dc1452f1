"""How refusals are told in few lines."""

import copy
import pickle

import pytest
from opshift.passes.changes import Change
from opshift.passes.errors import Refusal, Refused, function_place, group_refusals, reason


def refusal(node, why, op="Gelu", since=20):
    return Refusal(node, op, "", since, False, why)


def test_one_refusal_is_told_as_it_is():
    one = refusal("a", "axis=3; supported: 1")
    assert group_refusals([one]) == [str(one)]


def test_nodes_of_one_reason_stand_in_one_line_three_of_them_by_name():
    told = group_refusals([refusal(name, "no rank") for name in "abcde"])
    assert told == ['5 x Gelu "a" "b" "c" and 2 more (opset 20 -> 19): no rank']


def test_reasons_that_differ_in_names_alone_are_one_reason():
    told = group_refusals([refusal("a", f'its replacement needs Mul: "v{k}" is an integer') for k in range(75)])
    assert told == ['Gelu "a" (opset 20 -> 19): its replacement needs Mul: "v0" is an integer (and 74 more like it)']


def test_numbers_are_other_reasons_and_more_than_three_are_counted():
    told = group_refusals([refusal("a", f"axis={k}; supported: 1") for k in range(5)])
    assert [line.partition("axis=")[2][:1] for line in told] == ["0", "1", "2", ""]
    assert told[-1] == "and 2 more"


def test_a_report_has_five_lines_and_counts_the_rest():
    told = group_refusals([refusal("a", "x", f"Op{k}") for k in range(9)])
    assert len(told) == 6
    assert told[-1] == "and 4 more"


def test_operators_that_one_replacement_needs_share_a_line():
    told = group_refusals([refusal("a", f'its replacement needs {op}: "v" is int64') for op in ("Sub", "Mul", "Add")])
    assert told == ['Gelu "a" (opset 20 -> 19): its replacement needs Sub: "v" is int64 (and 2 more like it)']


def test_each_operator_has_lines_of_its_own():
    assert [
        line.split()[0] for line in group_refusals([refusal("a", "x"), refusal("b", "x", "Celu"), refusal("c", "x")])
    ] == [
        "2",
        "Celu",
    ]


def test_the_error_in_python_is_grouped_and_has_all():
    error = Refused([refusal(str(k), "no rank") for k in range(75)], target=13)
    assert len(error.refusals) == 75
    assert len(str(error).splitlines()) == 2


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_the_error_comes_from_another_process_as_it_is(again):
    """A pool that cannot read what one of its processes raised hangs, or ends."""
    error = Refused([refusal("a", "no rank"), refusal("b", "no type")], target="npu-1", nearest=13)
    made = again(error)
    assert type(made) is Refused
    assert (made.refusals, made.target, made.nearest) == (error.refusals, "npu-1", 13)
    assert str(made) == str(error)


def test_a_refusal_tells_what_was_found_and_what_is_possible():
    one = refusal("a", reason("left_window_size=3", "-1", "--opset 24"))
    assert one.why == "left_window_size=3; supported: -1; try --opset 24"
    assert (one.found, one.supported, one.fix) == ("left_window_size=3", "-1", "--opset 24")
    assert (one.operator, one.node, one.boundary) == ("Gelu", "a", "opset 20 -> 19")
    other = refusal("a", "no operator joins strings; they can be moved and compared")
    assert (other.found, other.supported, other.fix) == (other.why, "", "")


def test_a_change_says_from_where_to_where():
    rungs = [Change("a", "Attention", "", source, target, "").rung for source, target in ((23, 0), (18, 13), (18, 18))]
    assert rungs == ["below 23", "18 -> 13", "at 18"]


def test_functions_are_called_by_domain_and_name_where_it_is_said_where():
    assert [function_place(*op) for op in (("my", "F"), ("", "F"))] == ["function my::F", "function F"]


def test_types_that_cannot_be_changed_are_no_conversion_that_failed():
    error = Refused([Refusal("", "types", "", 0, True, "opset 12 has no bfloat16; try --opset 13")], target=12)
    assert str(error).splitlines() == [
        "the types cannot be changed as asked:",
        "  types: opset 12 has no bfloat16; try --opset 13",
    ]
