"""LinearClassifier and LinearRegressor as a product with the coefficients."""

import numpy as np
import pytest
from onnx import TensorProto as T

from tests.passes.operators.shared.classical.calls import check, run_lowered, why_refused

pytestmark = pytest.mark.newest  # older kernels of classical models differ

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
NEAR = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_score_for_each_class(classes, transform):
    random = np.random.default_rng(classes)  # the same whatever ran before
    coefficients, intercepts = random.normal(size=classes * 3).tolist(), random.normal(size=classes).tolist()
    for x in (X, X[0], X.astype(np.float64), (3 * X).astype(np.int64), (3 * X).astype(np.int32)):
        check(
            "LinearClassifier", [x], classlabels_ints=list(range(7, 7 + classes)), coefficients=coefficients,
            intercepts=intercepts, post_transform=transform, **NEAR,
        )  # fmt: skip
    check(
        "LinearClassifier", [X], classlabels_strings=["a", "b", "c", "d", "e"][:classes], coefficients=coefficients,
        intercepts=intercepts, post_transform=transform, multi_class=1, **NEAR,
    )  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
def test_one_score_for_two_classes(transform):
    """[1 - s, s], of which the kernel chooses the second from 0 on; a label that is not the largest score gives way."""
    options = {
        "classlabels_ints": [7, 9],
        "coefficients": [0.5, -1.0, 0.25],
        "intercepts": [0.1],
        "post_transform": transform,
    }
    labels, scores = check("LinearClassifier", [X], labels=transform == "LOGISTIC", **NEAR, **options)
    assert (labels == np.where(X @ [0.5, -1.0, 0.25] + 0.1 > 0, 9, 7)).all()
    (found, _) = run_lowered("LinearClassifier", [X], [(T.INT64, 1), (T.FLOAT, 2)], **options)
    assert (found == np.where(scores[:, 1] > scores[:, 0], 9, 7)).all()


def test_probit_sets_one_of_two_scores():
    why = why_refused(
        "LinearClassifier", [X], [(T.INT64, 1), (T.FLOAT, 2)], classlabels_ints=[7, 9], coefficients=[1.0] * 3,
        intercepts=[0.0], post_transform="PROBIT",
    )  # fmt: skip
    assert "the other score is undefined" in why


def test_coefficients_that_do_not_fit_are_no_model():
    outputs = [(T.INT64, 1), (T.FLOAT, 2)]
    assert "4 coefficients, 3 intercepts for 3 scores" in why_refused(
        "LinearClassifier", [X], outputs, classlabels_ints=[7, 8, 9], coefficients=[1.0] * 4, intercepts=[0.0] * 3
    )
    assert "neither classlabels_ints nor" in why_refused("LinearClassifier", [X], outputs, coefficients=[1.0] * 3)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_regressor(targets, transform):
    """Of one target the kernel takes no transform but PROBIT."""
    coefficients, intercepts = (RNG.normal(size=targets * 3) / 4).tolist(), [0.4, 0.6][:targets]
    options = {"coefficients": coefficients, "targets": targets, "post_transform": transform}
    check("LinearRegressor", [X], intercepts=intercepts, **options, **NEAR)
    check("LinearRegressor", [X[0]], intercepts=intercepts, **options, **NEAR)


def test_regressor_of_integers():
    (found,) = run_lowered(
        "LinearRegressor", [np.array([[1, 2]])], [(T.FLOAT, 2)], coefficients=[0.5, 2.0], intercepts=[1.0]
    )
    assert found.tolist() == [[5.5]]
