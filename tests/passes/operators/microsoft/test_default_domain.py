"""What onnxruntime has in the default domain, from opsets at which it reads it."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.model.schemas import ONNXRUNTIME

from tests.passes.operators.microsoft.harness import DOUBLE, FLOAT, HALF, NEWEST, calls, check
from tests.support import evaluate, model

F = [FLOAT]
IMAGE = (1, 3, 6, 7)


def theirs(op, inputs, attributes=None, **options):
    return calls(op, inputs, attributes, domain=ONNXRUNTIME, **{"types": F, **options})


def test_layer_normalization_before_onnx_had_it():
    inputs = {"X": (2, 3, 4), "Scale": (4,), "B": (4,)}
    made = theirs("LayerNormalization", inputs, {"epsilon": [None, 0.5]}, outputs=["Mean", "InvStdDev"], types=[FLOAT, HALF, DOUBLE])  # fmt: skip
    assert check(made, opset=16, opsets=(NEWEST, 16, 11)) == 48
    made = theirs("LayerNormalization", {"X": (2, 3, 4), "Scale": (3, 4), "B": (3, 4)}, {"axis": [1]})
    made += theirs("LayerNormalization", {"X": (2, 3, 4), "Scale": (4,)}, {"axis": [-1], "stash_type": [1]})
    assert check(made, opset=13, opsets=(NEWEST, 13)) == 3


def test_simplified_layer_normalization():
    made = theirs("SimplifiedLayerNormalization", {"X": (2, 3, 4), "scale": (4,)}, {"epsilon": [None, 0.5]}, outputs=["inv_std_var"], types=[FLOAT, HALF, DOUBLE])  # fmt: skip
    assert check(made, opset=17, opsets=(NEWEST, 17, 11)) == 12


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "ran"),
    [
        ("MeanVarianceNormalization", {"input": IMAGE}, {"across_channels": [None, 0, 1], "normalize_variance": [None, 0, 1]}, 9),
        ("Affine", {"X": (2, 3)}, {"alpha": [None, 2.0], "beta": [None, 0.5]}, 4),
        ("Scale", {"input": [(2, 3), (0, 3)]}, {"scale": [None, 2.0]}, 4),
        ("ImageScaler", {"input": IMAGE}, {"scale": [None, 2.0], "bias": [[1.0, 2.0, 3.0]]}, 2),
        ("ParametricSoftplus", {"X": (2, 3)}, {"alpha": [2.0], "beta": [0.5]}, 1),
        ("ScaledTanh", {"input": (2, 3)}, {"alpha": [2.0], "beta": [0.5]}, 1),
        ("Crop", {"input": IMAGE}, {"border": [[1, 2, 1, 0], [0, 0, 0, 0], [1, 1, 3, 2]], "scale": [None, [3, 4]]}, 6),
    ],
)  # fmt: skip
def test_what_caffe2_had(op, inputs, attributes, ran):
    assert check(theirs(op, inputs, attributes), opset=8, opsets=(13, 8)) == ran


def test_dynamic_slice():
    inputs = {"data": (4, 5), "starts": np.array([0, 1]), "ends": np.array([-1, 1000]), "axes": [np.array([0, 1]), np.array([1, 0])]}  # fmt: skip
    assert check(theirs("DynamicSlice", inputs), opset=9, opsets=(13, 10)) == 3
    assert check(theirs("DynamicSlice", inputs), opset=9, opsets=(13, 9), held=[1, 2, 3]) == 3


def test_any_conversion_replaces_it():
    """No target has it, so that nobody needs to name it."""
    source = model("y = SimplifiedLayerNormalization<epsilon = 0.1>(x, s)", 17, inputs="float[2,4] x, float[4] s", outputs="float[2,4] y")  # fmt: skip
    made = convert.convert(source, {"": 13}).model
    onnx.checker.check_model(made)
    feeds = {"x": np.arange(8, dtype=FLOAT).reshape(2, 4), "s": np.ones(4, FLOAT)}
    np.testing.assert_allclose(evaluate(made, feeds)[0], evaluate(source, feeds)[0], rtol=1e-6)


def test_where_onnxruntime_has_it_no_more_it_is_refused():
    source = model("y = Affine<alpha = 2.0>(x)", 10, inputs="float[2] x", outputs="float[2] y")
    assert "it is deprecated since opset 10" in str(convert.attempt(source, {"": 13}).refusals[0])
