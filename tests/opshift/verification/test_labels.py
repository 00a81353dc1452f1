"""Labels may differ where scores tie within rounding, or the source's is not that of the largest score."""

import numpy as np
import pytest

from opshift.verification.combined import verify_sides
from opshift.verification.engines import OnnxRuntime
from opshift.verification.side import Side
from tests.passes.operators.shared.classical.ensembles import listed, lowered, model, random_tree, stump

pytestmark = pytest.mark.usefixtures("in_this_process")

ROWS = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)


def classifier(seed, third=0.5):
    """Votes for the second class are those for the first in another order."""
    rng = np.random.default_rng(seed)
    votes = rng.random(40).astype(np.float32)
    others = votes[rng.permutation(40)]
    trees = [
        stump([(0, float(a)), (1, float(b)), (2, third * float(a))], [(0, float(a) / 2), (1, float(b) / 2), (2, 0.1)])
        for a, b in zip(votes, others, strict=True)
    ]
    return model(
        "TreeEnsembleClassifier", np.float32, 2, {"classlabels_int64s": [7, 8, 9], **listed(trees, "class")}, 3
    )


def test_labels_of_scores_that_tie_are_counted():
    source = next(
        made
        for made in map(classifier, range(50))
        if (OnnxRuntime(made).run({"x": ROWS})[0] != OnnxRuntime(lowered(made)).run({"x": ROWS})[0]).any()
    )
    found = verify_sides(Side(source), Side(lowered(source)), grade="close")
    assert found.status == "equal", found.why
    assert any("of the labels in" in remark and "tie within rounding" in remark for remark in found.remarks)


def test_few_labels_that_tie_are_counted_before_it_is_asked_what_rounding_does():
    """Also, features with NaN are no index into the table of votes, which has more rows than there are features."""
    rng = np.random.default_rng(1)

    def vote():
        share = rng.integers(0, 7) / 6
        return [(0, share / 20), (1, (1 - share) / 20)]

    trees = [random_tree(rng, 4, 4, vote, ["BRANCH_LEQ"]) for _ in range(20)]
    attributes = {"classlabels_int64s": [0, 1, 2], **listed(trees, "class")}
    source = model("TreeEnsembleClassifier", np.float32, 4, attributes, 3)
    found = verify_sides(Side(source), Side(lowered(source)), grade="close")
    assert found.status == "equal", found.why
    assert any("tie within rounding" in remark for remark in found.remarks)


@pytest.mark.long
def test_a_thousand_votes_round_a_thousand_times():
    """The first class has a thousand votes of 0.001, the second one vote of 1, and the third none that counts."""
    trees = [stump(votes, votes) for votes in [[(0, 0.001), (1, float(not at)), (2, 0.0)] for at in range(1000)]]
    source = model(
        "TreeEnsembleClassifier", np.float32, 2, {"classlabels_int64s": [7, 8, 9], **listed(trees, "class")}, 3
    )
    result = lowered(source)
    assert (OnnxRuntime(source).run({"x": ROWS})[0] != OnnxRuntime(result).run({"x": ROWS})[0]).all()
    found = verify_sides(Side(source), Side(result), grade="close")
    assert found.status == "equal", found.why


VOTES = {
    "both": [stump([(0, 0.75), (1, 0.25)], [(0, 0.625), (1, 0.375)])],
    "one": [stump([(0, 0.25)], [(0, 0.75)])],
}


@pytest.mark.parametrize(
    ("labels", "votes"),
    [
        ({"classlabels_int64s": [0, 1]}, "both"),
        ({"classlabels_int64s": [5, 9]}, "both"),
        ({"classlabels_strings": ["no", "yes"]}, "both"),
        ({"classlabels_int64s": [7]}, "one"),
    ],
)
def test_labels_that_onnxruntime_chooses_wrongly_may_be_corrected_but_not_otherwise(labels, votes):
    source = model("TreeEnsembleClassifier", np.float32, 2, {**labels, **listed(VOTES[votes], "class")}, 3)
    result = lowered(source)
    wrong = OnnxRuntime(source).run({"x": ROWS})[0] != OnnxRuntime(result).run({"x": ROWS})[0]
    found = verify_sides(Side(source), Side(result), grade="close")
    assert found.status == "equal", found.why
    reason = "the source does not choose the class with the largest score"
    assert any(reason in remark for remark in found.remarks) == bool(wrong.any())
    if labels == {"classlabels_int64s": [5, 9]}:  # of the others onnxruntime chooses the second
        next(node for node in result.graph.node if node.op_type == "ArgMax").op_type = "ArgMin"
        assert verify_sides(Side(source), Side(result), grade="close").status == "different"


@pytest.mark.parametrize("change", ["labels", "scores"])
def test_labels_that_differ_otherwise_are_different(change):
    source = classifier(0, third=2.5)
    other = lowered(classifier(0, third=2.5 if change == "labels" else 0.5))
    if change == "labels":
        table = next(t for t in other.graph.initializer if t.raw_data == np.array([7, 8, 9]).tobytes())
        table.raw_data = np.array([8, 9, 7]).tobytes()
    assert verify_sides(Side(source), Side(other), grade="close").status == "different"
