"""Models of ai.onnx.ml and their lowered forms are proved to compute the same, small probabilities included."""

import numpy as np

from opshift.verification.combined import verify_sides
from opshift.verification.side import Side
from tests.passes.operators.shared.classical.ensembles import listed, lowered, model, random_tree


def test_small_probabilities_of_a_logistic_classifier_are_equal():
    """They come out of the kernel in float32, as 1 minus a number near 1, whatever its input is."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 3, 3, lambda: [(0, float(rng.normal() - 1))]) for _ in range(8)]
    attributes = {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC", **listed(trees, "class")}
    source = model("TreeEnsembleClassifier", np.float32, 3, attributes, 1)
    found = verify_sides(Side(source), Side(lowered(source)), grade="close")
    assert found.status == "equal", found.why
