"""What verification found, run by run and output by output."""

import pytest
from opshift.passes.records import replace

from opshift.verification.verdict import Finding, OutputReport, Verification, summary


@pytest.mark.parametrize(("status", "equal"), [("equal", True), ("different", False), ("unverified", False)])
def test_the_status_is_the_truth_of_it(status, equal):
    found = Verification(status)
    assert (bool(found), found.equal) == (equal, equal)


@pytest.mark.parametrize(("difference", "allowed", "share"), [(0, 0, 0), (1, 4, 0.25), (3, 0, 1), (0, 4, 0)])
def test_how_much_of_what_is_allowed_is_used_up(difference, allowed, share):
    assert OutputReport("y", difference, allowed).share == share


def test_of_two_runs_the_worse():
    near, far = OutputReport("y", 1, 10), OutputReport("y", 3, 4, is_same=False)
    assert near.worse(far) == far.worse(near) == far
    wrong = OutputReport("y", 0.1, 10, is_same=False, why="it differs")
    assert far.worse(wrong).why == wrong.worse(far).why == "it differs"
    drawn = OutputReport("y", is_same=False, is_random=True)
    assert near.worse(drawn) == OutputReport("y", 1, 10, is_same=False, is_random=True)
    assert near.worse(near).is_same


def test_outputs_that_are_drawn():
    found = Verification("equal", outputs=(OutputReport("a", is_random=True), OutputReport("b")))
    assert (found.drawn, found.worst) == (("a",), None)


def test_a_finding_is_equal_until_something_else_is_said():
    found = Finding(("Exp",), ("Exp",), ("y",), ("y",), ("y",))
    assert (found.status, found.places, found.is_same) == ("equal", 1, True)


@pytest.mark.parametrize(
    ("runs", "said"),
    [([1, 2, 1], "3 inputs: x 1x4 (2 times); x 2x4"), ([1, 1], "2 inputs: x 1x4"), ([3], "1 input: x 3x4")],
)
def test_inputs_are_listed_by_shape(runs, said):
    found = Verification("equal", True, "onnxruntime", inputs=tuple({"x": [rows, 4]} for rows in runs))
    assert summary(found)[1] == f"tested on {said}"


def test_a_difference_inside_is_told_beside_outputs_that_agree():
    """A name that an exporter joined of others is cut in the middle."""
    found = Verification("different", engine="onnxruntime", tensor="y", node="y", op="Sin", why="1 instead of 2")
    assert summary(found) == [
        'DIFFERENT at "y", made by Sin: 1 instead of 2',
        "the outputs of the whole models are the same",
    ]
    found = replace(
        found, outputs=(OutputReport("y", 1e-6, 1e-4, is_same=False),), tensor="a" * 50 + "b" * 50, node="n"
    )
    assert summary(found) == [
        f"DIFFERENT at \"{'a' * 40}...{'b' * 40}\", made by Sin 'n': 1 instead of 2",
        "the outputs of the whole models agree: largest difference 1e-06, allowed 0.0001",
    ]
    found = replace(found, outputs=(OutputReport("y", 1.0, 1e-4, is_same=False, why="it differs"),))
    assert summary(found)[1] == "largest difference 1, allowed 0.0001"
    infinite = OutputReport(
        "z", 0.0, 1e-4, is_same=False, why="-inf instead of 1 at [0]"
    )  # of which there is no distance
    found = replace(found, outputs=(OutputReport("y", 1e-6, 1e-4, is_same=False), infinite))
    assert summary(found)[1] == 'largest difference 1e-06, allowed 0.0001 (output "y")'


def test_outputs_that_are_the_same_are_told_beside_a_part_that_rounds():
    part = Finding(("Exp",), ("Exp",), ("a",), ("a",), ("a",), difference=3e-5, allowed=0.2, is_same=False)
    found = Verification("equal", engine="onnxruntime", outputs=(OutputReport("y"),), regions=(part,))
    told = "largest difference of a changed part 3e-05, allowed 0.2"
    assert summary(found)[1] == f"the outputs of the whole models are the same: {told}"
    assert summary(replace(found, engine=""))[1] == told


def test_random_outputs_are_not_called_the_same():
    drawn = OutputReport("y", is_same=False, is_random=True)
    found = Verification("different", engine="onnxruntime", outputs=(drawn,), tensor="r", node="r", op="Exp", why="2")
    assert summary(found)[1:] == ["random outputs, compared by type and shape: y"]
