"""Makes models.zip: `python -m tests.lab make-classical`, in an environment with scikit-learn, skl2onnx, LightGBM, XGBoost and onnxmltools."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm
import numpy as np
import skl2onnx.common._container as container
import xgboost
from onnx import ModelProto
from onnxmltools.convert import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as Floats
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (
    cluster,
    compose,
    discriminant_analysis,
    ensemble,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)  # fmt: skip

from tests.classical import store

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(400, 6)) * 8).round() / 8
Y = X[:, 0] * 2 + np.sin(X[:, 1] * 3) + X[:, 2] * X[:, 3] + RNG.normal(size=400) * 0.3
BINARY, MANY = (Y > 0).astype(int), np.digitize(Y, [-2, 0, 2])
NAMED, BOTH = np.array(["lo", "mid", "hi", "top"])[MANY], np.stack([Y, Y * X[:, 0]], axis=1)
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
COUNTS = RNG.integers(0, 5, (400, 6))
WORDS = np.array([["red", "green", "blue"], ["s", "m", "l"]], dtype=object)
COLORS = np.stack([WORDS[0][RNG.integers(0, 3, 400)], WORDS[1][RNG.integers(0, 3, 400)]], axis=1)
OPSETS = {"": 18, "ai.onnx.ml": 3}
Made = tuple[ModelProto, dict[str, np.ndarray]]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, (np.integer, np.bool_, bool)) else value


_make_node = container.make_node
container.make_node = lambda op, inputs, outputs, name=None, **given: _make_node(  # which takes no numpy integers
    op, inputs, outputs, name=name, **{key: _plain(value) for key, value in given.items()}
)


def sk(model: Any, target: Any, x: np.ndarray = X, kind: Any = np.float32, zipmap: Any = False) -> Made:
    """A model of scikit-learn."""
    model.fit(x, target)
    options = {"zipmap": zipmap} if hasattr(model, "predict_proba") or hasattr(model, "classes_") else None
    types = {np.float32: FloatTensorType, np.float64: DoubleTensorType, np.int64: Int64TensorType}
    initial = [("x", types[kind]([None, x.shape[1]]))]
    try:
        made = to_onnx(model, initial_types=initial, target_opset=OPSETS, options=options and {id(model): options})
    except NameError:  # it has no such option
        made = to_onnx(model, initial_types=initial, target_opset=OPSETS)
    return made, {"x": _rows(x).astype(kind)}


def _rows(x: np.ndarray) -> np.ndarray:
    """Rows that lie on no threshold; those that do are drawn where trees read them as they are."""
    return x[:40] + (RNG.normal(size=(40, x.shape[1])) / 3 if x.dtype.kind == "f" else 0)


def words(model: Any, target: Any) -> Made:
    """A model of columns of strings."""
    model.fit(COLORS, target)
    options = {id(model): {"zipmap": False}} if hasattr(model, "classes_") else None
    made = to_onnx(model, initial_types=[("x", StringTensorType([None, 2]))], target_opset=OPSETS, options=options)
    return made, {"x": COLORS[:40]}


def light(model: Any, target: Any, x: np.ndarray = X, **options: Any) -> Made:
    """A model of LightGBM."""
    model.fit(x, target)
    made = convert_lightgbm(model, initial_types=[("x", Floats([None, 6]))], target_opset=15, **options)
    return made, {"x": _rows(x).astype(np.float32)}


def boosted(model: Any, target: Any, x: np.ndarray = X) -> Made:
    """A model of XGBoost."""
    model.fit(x, target)
    return convert_xgboost(model, initial_types=[("x", Floats([None, 6]))], target_opset=15), {
        "x": _rows(x).astype(np.float32)
    }


FEW = {"n_estimators": 12, "random_state": 0}
LEAVES = {"n_estimators": 15, "num_leaves": 12, "verbose": -1}
MODELS: dict[str, Callable[[], Made]] = {
    # trees of scikit-learn
    "tree_binary": lambda: sk(tree.DecisionTreeClassifier(max_depth=5, random_state=0), BINARY),
    "tree_many": lambda: sk(tree.DecisionTreeClassifier(random_state=0), MANY),
    "tree_named": lambda: sk(tree.DecisionTreeClassifier(max_depth=6, random_state=0), NAMED),
    "tree_regressor": lambda: sk(tree.DecisionTreeRegressor(random_state=0), Y),
    "tree_two_targets": lambda: sk(tree.DecisionTreeRegressor(max_depth=5, random_state=0), BOTH),
    "tree_stump": lambda: sk(tree.DecisionTreeClassifier(max_depth=1, random_state=0), MANY),
    "tree_integers": lambda: sk(tree.DecisionTreeClassifier(max_depth=6, random_state=0), MANY, COUNTS, np.int64),
    "forest_binary": lambda: sk(ensemble.RandomForestClassifier(max_depth=6, **FEW), BINARY),
    "forest_many": lambda: sk(ensemble.RandomForestClassifier(max_depth=6, **FEW), MANY),
    "forest_zipmap": lambda: sk(ensemble.RandomForestClassifier(max_depth=3, **FEW), NAMED, zipmap=True),
    "forest_regressor": lambda: sk(ensemble.RandomForestRegressor(**FEW), Y),
    "forest_two_targets": lambda: sk(ensemble.RandomForestRegressor(max_depth=5, **FEW), BOTH),
    "forest_double": lambda: sk(ensemble.RandomForestClassifier(max_depth=6, **FEW), MANY, kind=np.float64),
    "extra_trees": lambda: sk(ensemble.ExtraTreesClassifier(max_depth=7, **FEW), NAMED),
    "boosting_binary": lambda: sk(ensemble.GradientBoostingClassifier(**FEW), BINARY),
    "boosting_many": lambda: sk(ensemble.GradientBoostingClassifier(**FEW), MANY),
    "boosting_regressor": lambda: sk(ensemble.GradientBoostingRegressor(**FEW), Y),
    "histograms_regressor": lambda: sk(ensemble.HistGradientBoostingRegressor(max_iter=15, random_state=0), Y, GAPS),
    "histograms_binary": lambda: sk(ensemble.HistGradientBoostingClassifier(max_iter=15, random_state=0), BINARY, GAPS),
    "histograms_many": lambda: sk(ensemble.HistGradientBoostingClassifier(max_iter=8, random_state=0), MANY),
    "ada_boost": lambda: sk(ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), MANY),
    "bagging": lambda: sk(ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), n_estimators=5, random_state=0), MANY),
    "isolation": lambda: sk(ensemble.IsolationForest(n_estimators=8, random_state=0), None),
    "voting": lambda: sk(
        ensemble.VotingClassifier(
            [("a", tree.DecisionTreeClassifier(max_depth=4)), ("b", linear_model.LogisticRegression())], voting="soft", flatten_transform=False
        ), MANY,
    ),
    # LightGBM and XGBoost
    "lightgbm_regressor": lambda: light(lightgbm.LGBMRegressor(**LEAVES), Y),
    "lightgbm_binary": lambda: light(lightgbm.LGBMClassifier(**LEAVES), BINARY, zipmap=False),
    "lightgbm_many": lambda: light(lightgbm.LGBMClassifier(**LEAVES), MANY, zipmap=False),
    "lightgbm_missing": lambda: light(lightgbm.LGBMRegressor(**LEAVES), Y, GAPS),
    "lightgbm_forest": lambda: light(
        lightgbm.LGBMRegressor(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **LEAVES), Y
    ),
    "xgboost_regressor": lambda: boosted(xgboost.XGBRegressor(n_estimators=15, max_depth=5), Y),
    "xgboost_binary": lambda: boosted(xgboost.XGBClassifier(n_estimators=15, max_depth=4), BINARY),
    "xgboost_many": lambda: boosted(xgboost.XGBClassifier(n_estimators=10, max_depth=3), MANY),
    "xgboost_missing": lambda: boosted(xgboost.XGBClassifier(n_estimators=10, max_depth=4), MANY, GAPS),
    "xgboost_forest": lambda: boosted(xgboost.XGBRFRegressor(n_estimators=10, max_depth=5), Y),
    # linear models and support vectors
    "logistic_binary": lambda: sk(linear_model.LogisticRegression(), BINARY),
    "logistic_many": lambda: sk(linear_model.LogisticRegression(), MANY),
    "logistic_named": lambda: sk(linear_model.LogisticRegression(), NAMED),
    "sgd": lambda: sk(linear_model.SGDClassifier(random_state=0), MANY),
    "linear_regression": lambda: sk(linear_model.LinearRegression(), Y),
    "ridge_two_targets": lambda: sk(linear_model.Ridge(), BOTH),
    "discriminant": lambda: sk(discriminant_analysis.LinearDiscriminantAnalysis(), MANY),
    "linear_svc": lambda: sk(svm.LinearSVC(), MANY),
    "svc_binary": lambda: sk(svm.SVC(), BINARY),
    "svc_many": lambda: sk(svm.SVC(kernel="poly", degree=2), MANY),
    "svc_probability": lambda: sk(svm.SVC(probability=True, random_state=0), MANY),
    "svc_linear_probability": lambda: sk(svm.SVC(kernel="linear", probability=True, random_state=0), BINARY),
    "svr": lambda: sk(svm.SVR(), Y),
    "one_class": lambda: sk(svm.OneClassSVM(), None),
    # features
    "scaled": lambda: sk(pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), MANY),
    "ranged": lambda: sk(pipeline.make_pipeline(preprocessing.MinMaxScaler(), tree.DecisionTreeRegressor(max_depth=4)), Y),
    "normalized": lambda: sk(pipeline.make_pipeline(preprocessing.Normalizer("l1"), linear_model.Ridge()), Y),
    "imputed": lambda: sk(
        pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), ensemble.RandomForestRegressor(max_depth=4, **FEW)), Y, GAPS
    ),
    "binarized": lambda: sk(pipeline.make_pipeline(preprocessing.Binarizer(threshold=0.5), linear_model.Ridge()), Y),
    "one_hot": lambda: sk(
        pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()),
        MANY, COUNTS, np.int64,
    ),
    "words": lambda: words(
        pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), tree.DecisionTreeClassifier(max_depth=4)),
        BINARY,
    ),
    "ordinal_words": lambda: words(pipeline.make_pipeline(preprocessing.OrdinalEncoder(), linear_model.Ridge()), Y),
    "columns": lambda: sk(
        pipeline.make_pipeline(
            compose.ColumnTransformer([("a", preprocessing.StandardScaler(), [0, 2]), ("b", preprocessing.MinMaxScaler(), [1, 5])]),
            ensemble.GradientBoostingRegressor(**FEW),
        ), Y,
    ),
    # others that use ai.onnx.ml
    "perceptrons": lambda: sk(neural_network.MLPClassifier((8,), max_iter=50, random_state=0), MANY),
    "neighbors": lambda: sk(neighbors.KNeighborsClassifier(3), MANY, X),
    "bayes": lambda: sk(naive_bayes.GaussianNB(), MANY),
    "clusters": lambda: sk(cluster.KMeans(4, n_init=1, random_state=0), None),
}  # fmt: skip


def made() -> Iterator[tuple[str, Made]]:
    """All models; one that a converter does not write is told and left out."""
    for name, make in MODELS.items():
        try:
            yield name, make()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:120]}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    packages = ["scikit-learn", "skl2onnx", "lightgbm", "xgboost", "onnxmltools", "onnx"]
    store.write(dict(made()), packages)
