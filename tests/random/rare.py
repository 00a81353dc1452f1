"""Calls of operators that no published case calls alone, or not in a form that can be drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.defs
import onnx.helper
from onnx import TypeProto
from opshift.passes.model import schemas

from tests.random.calls import Call

ML = "ai.onnx.ml"
X = np.array([[0.5, -1.25, 2.0], [-0.75, 1.5, 3.0]], np.float32)
IMAGE = np.arange(1, 33, dtype=np.float32).reshape(1, 2, 4, 4)
ROWS = [np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)]
TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_values": [0.1, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
KERNEL: dict[str, Any] = {"kernel_type": "LINEAR", "kernel_params": [0.5, 0.0, 3.0], "rho": [0.5]}

# domain, operator, attributes, inputs, outputs
TABLE: tuple[tuple[str, str, dict[str, Any], tuple[Any, ...], int], ...] = (
    ("", "Mish", {}, (X,), 1),
    ("", "GlobalLpPool", {"p": 1}, (IMAGE,), 1),
    ("", "MaxRoiPool", {"pooled_shape": [2, 2], "spatial_scale": 0.5}, (IMAGE, np.array([[0, 0, 1, 3, 3]], np.float32)), 1),
    ("", "SequenceConstruct", {}, (ROWS[0], ROWS[1]), 1),
    ("", "SequenceAt", {}, (ROWS, np.array(-1)), 1),
    ("", "SequenceErase", {}, (ROWS, np.array(0)), 1),
    ("", "SequenceLength", {}, (ROWS,), 1),
    ("", "ConcatFromSequence", {"axis": 0, "new_axis": 1}, (ROWS,), 1),
    (ML, "CategoryMapper", {"cats_strings": ["a", "b"], "cats_int64s": [4, 2], "default_int64": -1},
     (np.array(["a", "c"], object),), 1),
    (ML, "FeatureVectorizer", {"inputdimensions": [3, 2]}, (X, X[:, :2].copy()), 1),
    (ML, "Imputer", {"imputed_value_floats": [9.0], "replaced_value_float": 2.0}, (X,), 1),
    (ML, "LinearClassifier", {"coefficients": [0.5, 1.0, -1.0, 0.25, -2.0, 1.0], "intercepts": [0.5, -0.5],
     "classlabels_ints": [3, 5], "post_transform": "SOFTMAX"}, (X,), 2),
    (ML, "LinearRegressor", {"coefficients": [0.5, 1.0, -1.0], "intercepts": [0.25], "targets": 1}, (X,), 1),
    (ML, "Normalizer", {"norm": "L2"}, (X,), 1),
    (ML, "OneHotEncoder", {"cats_int64s": [1, 2, 5], "zeros": 1}, (np.array([1, 5, 3]),), 1),
    (ML, "Scaler", {"offset": [0.5, 1.0, 0.0], "scale": [2.0, 0.5, 1.0]}, (X,), 1),
    (ML, "SVMRegressor", {**KERNEL, "coefficients": [0.5, 1.0, -1.0], "n_supports": 0}, (X,), 1),
    (ML, "SVMClassifier", {**KERNEL, "coefficients": [0.5, 1.0, -1.0, 0.25, -2.0, 1.0], "classlabels_ints": [0, 1],
     "rho": [0.5, 0.25]}, (X,), 2),
    (ML, "TreeEnsembleRegressor", {**TREE, "n_targets": 1, "target_ids": [0, 0], "target_nodeids": [1, 2],
     "target_treeids": [0, 0], "target_weights": [1.5, -2.0]}, (X,), 1),
    (ML, "TreeEnsembleClassifier", {**TREE, "class_ids": [0, 1], "class_nodeids": [1, 2], "class_treeids": [0, 0],
     "class_weights": [1.0, 1.0], "classlabels_int64s": [0, 1]}, (X,), 2),
)  # fmt: skip

NEVER = {  # operators, and why there is nothing to compare
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike": "drawn at random: "
    "`python -m tests.lab conformance` judges these by type and shape",
    "CastMap DictVectorizer ZipMap": "maps: no array holds one",
    "SequenceEmpty Optional": "what they yield has no type that arrays tell",
}


def rare() -> Iterator[Call]:
    """The calls of the table."""
    for domain, op, attributes, inputs, outputs in TABLE:
        made = tuple(onnx.helper.make_node(op, [], [], **attributes).attribute)
        opset = max(v for v in schemas.versions(domain, op) if not onnx.defs.get_schema(op, v, domain).deprecated)
        yield Call(domain, op, opset, made, inputs, (True,) * outputs, tuple(map(_type, inputs)))


def _type(value: Any) -> TypeProto | None:
    if not isinstance(value, list):
        return None
    kind = onnx.helper.np_dtype_to_tensor_dtype(value[0].dtype)
    return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(kind, None))
