"""SVMClassifier and SVMRegressor as kernels and products, probabilities coupled in a loop."""

import numpy as np
import pytest
from onnx import TensorProto as T

from tests.passes.operators.shared.classical.calls import check, run_lowered, why_refused

pytestmark = pytest.mark.newest  # older kernels of classical models differ

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)).astype(np.float32)
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
NEAR = {"rtol": 1e-3, "atol": 1e-4}


def pairs(classes, sizes, probabilities, **options):
    count, several = sum(sizes), classes * (classes - 1) // 2
    given = {
        "vectors_per_class": sizes, "support_vectors": RNG.normal(size=count * 3).tolist(),
        "coefficients": RNG.normal(size=(classes - 1) * count).tolist(), "rho": RNG.normal(size=several).tolist(),
        "classlabels_ints": list(range(7, 7 + classes)), "kernel_type": "RBF", "kernel_params": [0.5, 0.25, 3.0],
    }  # fmt: skip
    if probabilities:
        given |= {"prob_a": RNG.normal(size=several).tolist(), "prob_b": RNG.normal(size=several).tolist()}
    return {**given, **options}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("probabilities", [False, True])
def test_pairs_of_classes_vote(kernel, classes, probabilities):
    sizes = [int(size) for size in RNG.integers(1, 5, classes)]
    for x in (X, X[0], X.astype(np.float64), (2 * X).astype(np.int64), (2 * X).astype(np.int32)):
        check("SVMClassifier", [x], **pairs(classes, sizes, probabilities, kernel_type=kernel), opsets=(13, 18), **NEAR)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms(classes, probabilities, transform):
    options = pairs(classes, [3] * classes, probabilities, post_transform=transform)
    if transform == "PROBIT" and classes == 2 and not probabilities:
        assert "the other score is undefined" in why_refused(
            "SVMClassifier", [X], [(T.INT64, 1), (T.FLOAT, 2)], **options
        )
    else:
        near = {"rtol": 1e-3, "atol": 2e-4} if transform == "PROBIT" else NEAR  # it cancels in the kernel near 0.5
        check("SVMClassifier", [X], opsets=(17,), **options, **near)


def test_labels_that_are_strings():
    options = pairs(3, [2, 1, 2], True, classlabels_ints=None, classlabels_strings=["a", "b", "c"])
    check("SVMClassifier", [X], opsets=(17,), **options, **NEAR)


def test_many_support_vectors():
    """Differences would take too much memory: distances are multiplied out, from the middle of the vectors."""
    vectors = RNG.normal(size=(1600, 3)) + 100
    options = pairs(
        2,
        [800, 800],
        False,
        support_vectors=vectors.ravel().tolist(),
        coefficients=(RNG.normal(size=1600) / 40).tolist(),
    )
    check("SVMClassifier", [X + 100], opsets=(17,), **options, **NEAR)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_plane_for_each_class(transform):
    options = {
        "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": RNG.normal(size=9).tolist(),
        "rho": [0.25], "classlabels_ints": [7, 8, 9], "post_transform": transform,
    }  # fmt: skip
    check("SVMClassifier", [X], opsets=(17,), **options, **NEAR)


def test_two_planes_choose_the_larger_score():
    options = {
        "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": [1.0, 0, 0, 0, 1.0, 0],
        "rho": [0.25], "classlabels_ints": [7, 9],
    }  # fmt: skip
    labels, scores = check("SVMClassifier", [X], opsets=(17,), labels=False, **options, **NEAR)
    (found, _) = run_lowered("SVMClassifier", [X], [(T.INT64, 1), (T.FLOAT, 2)], **options)
    assert (found == np.where(scores[:, 1] > scores[:, 0], 9, 7)).all()
    assert (labels != found).any()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(kernel, one_class):
    """The kernel makes nothing of a transform."""
    for transform in (None, "LOGISTIC", "PROBIT"):
        check(
            "SVMRegressor", [X], kernel_type=kernel, kernel_params=[0.5, 0.25, 3.0], n_supports=4, one_class=one_class,
            support_vectors=RNG.normal(size=12).tolist(), coefficients=RNG.normal(size=4).tolist(), rho=[0.3],
            post_transform=transform, opsets=(17,), **NEAR,
        )  # fmt: skip
    check(
        "SVMRegressor", [X], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], n_supports=0, one_class=one_class,
        coefficients=[0.5, -1.0, 2.0], rho=[0.3], **NEAR,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"coefficients": [1.0]}, "1 coefficients, 3 rho for 3 pairs of classes"),
        ({"rho": [1.0]}, "1 rho for 3 pairs of classes"),
        ({"vectors_per_class": [1, 2]}, "vectors_per_class has 2 entries for 3 classes"),
        ({"support_vectors": [1.0] * 7}, "support_vectors has 7 entries for 5 vectors"),
        ({"kernel_type": "COSINE"}, "kernel_type is 'COSINE'"),
        ({"prob_a": [1.0]}, "1 prob_a, 3 prob_b for 3 pairs of classes"),
    ],
)
def test_parts_that_do_not_fit_are_no_model(changes, why):
    assert why in why_refused(
        "SVMClassifier", [X], [(T.INT64, 1), (T.FLOAT, 2)], **pairs(3, [2, 1, 2], True, **changes)
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
def test_missing_values(kernel, classes, probabilities):
    """With NaN among its numbers the kernel does not couple probabilities: all classes have the same."""
    options = pairs(classes, [3] * classes, probabilities, kernel_type=kernel)
    rows = X[:6].copy()
    rows[[0, 1, 2], [1, 2, 0]] = np.nan, np.nan, 1e9
    check("SVMClassifier", [rows], opsets=(17,), **options, **NEAR)


@pytest.mark.parametrize("operator", ["SVMClassifier", "SVMRegressor"])
def test_scores_are_not_lost_in_sums_of_one_class_after_the_other(operator):
    """One class alone adds up to 600; the classifier's kernel adds in double, the regressor's does not."""
    vectors = np.random.default_rng(1).normal(size=(2000, 3)).astype(np.float32)
    weights = np.repeat([1.0, -1.0], 1000)
    given = {
        "kernel_type": "RBF", "kernel_params": [0.05, 0.0, 3.0], "support_vectors": vectors.ravel().tolist(),
        "coefficients": weights.tolist(), "rho": [0.25],
    }  # fmt: skip
    if operator == "SVMClassifier":
        given |= {"vectors_per_class": [1000, 1000], "classlabels_ints": [0, 1]}
    else:
        given |= {"n_supports": 2000}
    outputs = [(T.INT64, 1), (T.FLOAT, 2)] if operator == "SVMClassifier" else [(T.FLOAT, 2)]
    scores = run_lowered(operator, [X], outputs, **given)[-1][:, 0]
    away = ((X[:, None].astype(np.float64) - vectors) ** 2).sum(axis=2)
    expected = np.exp(-np.float32(0.05).astype(np.float64) * away) @ weights + 0.25
    np.testing.assert_allclose(scores, -expected if operator == "SVMClassifier" else expected, rtol=1e-5, atol=6e-5)


@pytest.mark.parametrize("count", [6, 1600])
def test_infinity_is_infinitely_far_from_support_vectors(count):
    vectors = np.random.default_rng(2).normal(size=(count, 3)).ravel().tolist()
    options = pairs(2, [count // 2] * 2, False, support_vectors=vectors, coefficients=[1.0, -1.0] * (count // 2))
    rows = X[:5].copy()
    rows[[0, 1, 2, 3], [1, 2, 0, 1]] = np.nan, np.inf, -np.inf, 1e30
    check("SVMClassifier", [rows], opsets=(17,), **options, **NEAR)
