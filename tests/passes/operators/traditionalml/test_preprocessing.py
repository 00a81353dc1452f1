"""Normalizer, Scaler, Imputer, Binarizer, OneHotEncoder, ArrayFeatureExtractor and FeatureVectorizer as formulas."""

import numpy as np
import pytest
from onnx import TensorProto as T

from tests.passes.operators.shared.classical.calls import check, run_lowered, why_refused

NAN, INF = np.nan, np.inf
X = np.array(
    [[1, -2, -3], [0, 0, -0.0], [-1, -4, -2], [1, -1, 0], [NAN, 1, 2], [3e38, 3e38, 1], [INF, 1, -INF]], np.float32
)
WHOLE = np.array([[1, -2, 3], [0, 0, 0], [7, 7, 2**24 + 1]])
ROWS = slice(0, 4)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    small = WHOLE[:2].astype(np.int32)  # whose squares int32 holds, which the kernel takes
    for x in (X[ROWS], X[0], X[4:5], WHOLE, small, X[ROWS].astype(np.float64)):
        check("Normalizer", [x], rtol=1e-6, norm=norm)


def test_a_norm_that_there_is_not_is_no_model():
    assert "norm is 'L3'" in why_refused("Normalizer", [X], [(T.FLOAT, 2)], norm="L3")


@pytest.mark.parametrize("count", [1, 3])
def test_scaler(count):
    offset, scale = [1.0, -2.5, 0.1][:count], [2.0, 0.3, -4.0][:count]
    for x in (X, X[0], WHOLE, WHOLE.astype(np.int32), X.astype(np.float64)):
        check("Scaler", [x], offset=offset, scale=scale, rtol=1e-6)
    assert "offset has 0 entries" in why_refused("Scaler", [X], [(T.FLOAT, 2)], scale=scale)


@pytest.mark.parametrize("missing", [NAN, -2.0, 0.0])
def test_imputer(missing):
    for values in ([9.0], [7.0, 8.0, 9.0]):
        check("Imputer", [X], imputed_value_floats=values, replaced_value_float=missing)
        check("Imputer", [X[0]], imputed_value_floats=values, replaced_value_float=missing)


def test_imputer_of_integers():
    check("Imputer", [WHOLE], imputed_value_int64s=[7, 8, 9], replaced_value_int64=7)
    check("Imputer", [WHOLE], imputed_value_int64s=[5])
    (found,) = run_lowered(
        "Imputer", [X.astype(np.float64)], [(T.DOUBLE, 2)], imputed_value_floats=[9.0], replaced_value_float=NAN
    )
    np.testing.assert_array_equal(found, np.where(np.isnan(X), 9.0, X.astype(np.float64)))
    assert "2 values to put in the place" not in why_refused("Imputer", [X], [(T.FLOAT, 2)])


def test_binarizer():
    for threshold in (None, -1.0, 2.0):
        check("Binarizer", [X[[0, 1, 2, 3, 5, 6]]], threshold=threshold)
    (found,) = run_lowered("Binarizer", [WHOLE], [(T.INT64, 2)], threshold=2.0**24)
    assert found.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_one_hot_encoder():
    for x in (WHOLE, WHOLE[0], np.array(3), np.array([[1.9, -0.5], [3, 9]], np.float32), np.array([2.0, 7.5])):
        check("OneHotEncoder", [x], cats_int64s=[1, 2, 3, 0, -2])
    check("OneHotEncoder", [WHOLE], cats_int64s=[1, 2, 1])
    check(
        "OneHotEncoder",
        [np.array([["a", "z"], ["", "b"]], object)],
        cats_strings=["a", "b", ""],
        opsets=(9, 11, 13, 17, 19, 21),
    )


def test_array_feature_extractor():
    for x in (X, X[0], X.reshape(7, 1, 3), WHOLE, np.array([["a", "b", "c"]], object)):
        for places in (np.array([2, 0]), np.array([[1, 1, 0]]), np.array(1)):
            check("ArrayFeatureExtractor", [x, places])


def test_feature_vectorizer():
    for sizes in ([3, 2], [2, 3], [5, 1]):
        check("FeatureVectorizer", [X, X[:, :2]], inputdimensions=sizes)
        check("FeatureVectorizer", [WHOLE, WHOLE[:, :2]], inputdimensions=sizes)
    check("FeatureVectorizer", [X[0], X[0, :2]], inputdimensions=[3, 2])
    check("FeatureVectorizer", [X.reshape(7, 1, 3)], inputdimensions=[3])
    assert "inputdimensions has 0 entries for 1 inputs" in why_refused("FeatureVectorizer", [X], [(T.FLOAT, 2)])
