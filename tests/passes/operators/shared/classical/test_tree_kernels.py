"""Where onnxruntime's tree kernels and the texts differ, or the texts leave something open: what the kernel does, and what we do.

Each test measures the kernel first. The kernel decides between readings of the text. Where its label is none of the model's, or not
the class with the largest score that it returns, the text decides, and a remark says so.
"""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.shared.classical.ensembles import apart, check, listed, lowered, model, remarks, stump

pytestmark = pytest.mark.newest  # older kernels of trees differ

ROWS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def classifier(trees, labels, **attributes):
    return model(
        "TreeEnsembleClassifier", np.float32, 2,
        {"classlabels_int64s": labels, **listed(trees, "class"), **attributes}, 3,
    )  # fmt: skip


def run(source, rows=ROWS):
    return [value.tolist() for value in OnnxRuntime(source).run({"x": rows})]


def near(scores):
    return pytest.approx(np.array(scores), rel=1e-5, abs=1e-6)


def test_votes_for_the_first_of_two_classes_are_the_score_of_the_second():
    """class_ids all 0: [1 - s, s], and the second label from 0.5 on, if all weights are positive; else [-s, s], from 0 on."""
    positive = classifier([stump([(0, 0.3)], [(0, 0.6)])], [7, 9])
    labels, scores = run(positive)
    assert labels == [7, 7, 9, 9]
    assert scores == near([[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.4, 0.6]])
    check(positive, ROWS)
    mixed = classifier([stump([(0, 0.3)], [(0, -0.6)])], [7, 9])
    labels, scores = run(mixed)
    assert labels == [9, 9, 7, 7]
    assert scores == near([[-0.3, 0.3], [-0.3, 0.3], [0.6, -0.6], [0.6, -0.6]])
    check(mixed, ROWS)


def test_votes_for_the_second_of_two_classes_leave_the_first_without():
    """class_ids all 1: [0, s], whatever the transform makes of it."""
    for transform in TRANSFORMS[:4]:
        source = classifier([stump([(1, 0.3)], [(1, -0.6)])], [7, 9], post_transform=transform)
        if transform == "NONE":
            assert run(source) == [[9, 9, 7, 7], near([[0, 0.3], [0, 0.3], [0, -0.6], [0, -0.6]])]
        check(source, ROWS)


def test_a_label_that_is_not_the_largest_score_gives_way():
    """The kernel chooses the second class from 0.5 on where all weights are positive, whatever the first one's score is."""
    second = classifier([stump([(1, 0.3)], [(1, 0.6)])], [7, 9])
    assert run(second)[0] == [7, 7, 9, 9]
    assert run(lowered(second))[0] == [9, 9, 9, 9]
    logistic = classifier([stump([(0, 0.3)], [(0, 0.6)])], [7, 9], post_transform="LOGISTIC")
    assert run(logistic)[0] == [7, 7, 9, 9]
    assert run(lowered(logistic))[0] == [9, 9, 9, 9]
    for source in (second, logistic):
        check(source, ROWS, labels=False)
        assert "chooses the class with the larger score" in remarks(source)


def test_votes_for_both_classes_give_label_1_whatever_the_labels_are():
    source = classifier([stump([(0, 0.7), (1, 0.3)], [(0, 0.2), (1, 0.8)])], [7, 9])
    assert run(source)[0] == [1, 1, 1, 1]
    assert run(lowered(source))[0] == [7, 7, 9, 9]
    check(source, ROWS, labels=False)
    assert "chooses the class with the larger score" in remarks(source)


def test_a_single_label_answers_1_or_0():
    source = classifier([stump([(0, 0.7)], [(0, -0.2)])], [7])
    assert run(source)[0] == [1, 1, 0, 0]
    assert run(lowered(source))[0] == [7, 7, 7, 7]
    check(source, ROWS, labels=False)
    assert "chooses the only label" in remarks(source)


def test_one_base_value_of_two_classes_counts_where_the_first_has_votes():
    first = classifier([stump([(0, 0.3)], [(0, -0.6)])], [7, 9], base_values=[0.25])
    assert run(first)[1] == near([[-0.55, 0.55], [-0.55, 0.55], [0.35, -0.35], [0.35, -0.35]])
    check(first, ROWS)
    second = classifier([stump([(1, 0.3)], [(1, -0.6)])], [7, 9], base_values=[0.25])
    assert run(second)[1] == near([[0, 0.3], [0, 0.3], [0, -0.6], [0, -0.6]])
    check(second, ROWS)


def test_two_base_values_take_the_votes_of_the_first_class_for_those_of_the_second():
    both = classifier([stump([(0, 0.7), (1, 0.3)], [(0, 0.2), (1, 0.8)])], [0, 1], base_values=[0.25, 0.5])
    assert run(both)[1] == near([[-1.2, 1.2], [-1.2, 1.2], [-0.7, 0.7], [-0.7, 0.7]])
    check(both, ROWS, labels=False)
    second = classifier([stump([(1, 0.3)], [(1, -0.6)])], [7, 9], base_values=[0.25, 0.5])
    assert run(second)[1] == near([[0, 0.5]] * 4)
    check(second, ROWS)
    first = classifier([stump([(0, 0.3)], [(0, -0.6)])], [7, 9], base_values=[0.25, 0.5])
    assert run(first)[1] == near([[0.55, 0], [0.55, 0], [-0.35, 0], [-0.35, 0]])
    check(first, ROWS, labels=False)


def test_probit_sets_one_of_two_scores():
    """The other is what was in memory: there is nothing to compute."""
    source = classifier([stump([(0, 0.3)], [(0, 0.6)])], [7, 9], post_transform="PROBIT")
    result = convert.attempt(source, {"": 17}, ops=[("ai.onnx.ml", "TreeEnsembleClassifier")])
    assert "the other score is undefined" in str(result.refusals[0])


def test_one_base_value_leaves_the_second_score_unset_without_a_vote():
    source = classifier([stump([(0, 0.3)], [(0, 0.6), (1, 0.25)])], [7, 9], base_values=[0.25])
    result = convert.attempt(source, {"": 17}, ops=[("ai.onnx.ml", "TreeEnsembleClassifier")])
    assert "its score is undefined" in str(result.refusals[0])


def test_a_class_that_no_leaf_names_never_wins():
    """Its score is 0, which may be the largest: then it is chosen, and a remark says that the kernel does not."""
    source = classifier([stump([(0, -0.3), (1, -0.4)], [(0, -0.6), (1, -0.5)])], [7, 8, 9])
    assert run(source) == [[7, 7, 8, 8], near([[-0.3, -0.4, 0], [-0.3, -0.4, 0], [-0.6, -0.5, 0], [-0.6, -0.5, 0]])]
    assert run(lowered(source))[0] == [9, 9, 9, 9]
    check(source, ROWS, labels=False)
    assert "onnxruntime never chooses it" in remarks(source)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_single_target_takes_no_transform_but_probit(transform):
    attributes = {"n_targets": 1, "post_transform": transform, **listed([stump([(0, 0.3)], [(0, 0.9)])], "target")}
    source = model("TreeEnsembleRegressor", np.float32, 2, attributes, 3)
    (values,) = run(source)
    expected = [0.3, 0.3, 0.9, 0.9] if transform != "PROBIT" else [-0.523998, -0.523998, 1.283, 1.283]
    assert np.ravel(values) == pytest.approx(expected, rel=5e-3)
    check(source, ROWS, rtol=1e-4)


def test_base_values_of_targets_without_a_vote_do_not_count():
    trees = [stump([(0, 0.3)], [(1, 0.9)])]
    attributes = {"n_targets": 2, "base_values": [0.25, 0.5], **listed(trees, "target")}
    source = model("TreeEnsembleRegressor", np.float32, 2, attributes, 3)
    assert run(source)[0] == near([[0.55, 0], [0.55, 0], [0, 1.4], [0, 1.4]])
    check(source, ROWS)


@pytest.mark.parametrize(("number", "softmax"), [(1, False), (2, True)])
def test_the_numbers_of_softmax_and_logistic_are_swapped(number, softmax):
    """The text numbers SOFTMAX 1 and LOGISTIC 2."""
    attributes = {"n_targets": 2, "post_transform": number, **apart([stump([(0, 0.4)], [(1, 0.7)])], np.float32)}
    source = model("TreeEnsemble", np.float32, 2, attributes, 5)
    assert all(sum(row) == pytest.approx(1) for row in run(source)[0]) == softmax
    check(source, ROWS)
    assert "as onnxruntime reads it" in remarks(source)


def test_nan_is_unequal_whether_it_is_tracked_or_not():
    rows = np.array([[np.nan, np.nan]], np.float32)
    for tracks in (0, 1):
        trees = [stump([(0, 1.0)], [(0, 2.0)], "BRANCH_NEQ", tracks=tracks)]
        source = model("TreeEnsembleRegressor", np.float32, 2, {"n_targets": 1, **listed(trees, "target")}, 3)
        assert run(source, rows) == [[[1.0]]]
        check(source, rows)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("votes", [[(0, 1.0), (0, 4.0)], [(0, 4.0), (0, 1.0), (0, 9.0)]])
def test_of_several_votes_of_a_leaf_for_the_only_target_the_first_counts(aggregate, votes):
    """skl2onnx numbers leaves so, where a leaf votes for its number once for each class."""
    trees = [stump(votes, [(0, 2.0)]), stump([(0, 0.5)], [(0, 0.25)])]
    attributes = {"n_targets": 1, "aggregate_function": aggregate, **listed(trees, "target")}
    source = model("TreeEnsembleRegressor", np.float32, 2, attributes, 3)
    check(source, ROWS)
    assert "the first counts" in remarks(source)
    newer = convert.attempt(source, {"ai.onnx.ml": 5}).model
    assert run(newer) == run(source)


def test_several_votes_of_a_leaf_for_one_of_several_targets_are_added():
    trees = [stump([(1, 1.0), (1, 4.0)], [(0, 2.0)])]
    source = model("TreeEnsembleRegressor", np.float32, 2, {"n_targets": 2, **listed(trees, "target")}, 3)
    assert run(source)[0][0] == [0, 5]
    check(source, ROWS)
    assert "the first counts" not in remarks(source)


def test_members_lose_their_fraction_in_the_kernel():
    """1.5 counts as a member of {1, 2, 40}; of {1, 2} it is none."""
    tree = stump([(0, 1.0)], [(0, 2.0)])
    rows = np.array([[1.5, 0]], np.float32)
    for members, kernel in (([1.0, 2.0], 2), ([1.0, 2.0, 40.0], 1)):
        attributes = {"n_targets": 1, **apart([tree], np.float32, {(0, 0): members})}
        source = model("TreeEnsemble", np.float32, 2, attributes, 5)
        assert run(source, rows) == [[[kernel]]]
        assert run(lowered(source), rows) == [[[2]]]


def test_the_regressor_has_no_kernel_for_integers():
    """Its text has: they are compared in float32, as the classifier's are."""
    trees = [stump([(0, 1.0)], [(0, 2.0)], value=2.0**24)]
    source = model("TreeEnsembleRegressor", np.int64, 2, {"n_targets": 1, **listed(trees, "target")}, 3)
    rows = np.array([[2**24 + 1, 0], [2**24 + 2, 0]])
    assert run(lowered(source), rows) == [[[1], [2]]]
