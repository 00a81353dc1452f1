"""A label encoder or a vectorizer behind a value of unknown type: onnx's own inference ends the process there."""

import onnx.parser
import pytest
from opshift.passes.analysis.inferring.corrected import infer_types
from opshift.passes.analysis.inferring.strict_inference import contradiction
from opshift.passes.analysis.inferring.untyped_inputs import infer_shapes
from opshift.passes.model.types import dims_of

ENCODER = "ai.onnx.ml.LabelEncoder<keys_floats = [0.0, 1.0], values_int64s = [5, 6], default_int64 = 7>"
TREE = """ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1,
    nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
    nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [0.5, 0.0, 0.0],
    nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
    target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [0.0, 1.0]>(x)"""


def parsed(body, functions=""):
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2, "own" : 1]>
        m (float[N,2] x) => (int64[N,2] y) {{ {body} }} {functions}""")
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(
    ("body", "functions", "shape"),
    [
        (f"u = own.Unknown(x) v = {ENCODER}(u) y = Identity(v)", "", None),
        (f"t = {TREE} v = {ENCODER}(t) y = Identity(v)", "", None),
        ("u = own.Unknown(x) v = ai.onnx.ml.DictVectorizer<int64_vocabulary = [1]>(u) y = Cast<to = 7>(v)", "", None),
        (f"u = Relu(x) v = {ENCODER}(u) y = Identity(v)", "", ["N", 2]),
        (
            "v = own.Encode(x) y = Identity(v)",
            f'<domain: "own", opset_import: ["" : 17, "ai.onnx.ml" : 2]> Encode (a) => (b) {{ b = {ENCODER}(a) }}',
            ["N", 2],
        ),
        (
            "u = own.Unknown(x) v = own.Encode(u) y = Identity(v)",
            f'<domain: "own", opset_import: ["" : 17, "ai.onnx.ml" : 2]> Encode (a) => (b) {{ b = {ENCODER}(a) }}',
            None,
        ),
    ],
)
def test_what_has_a_type_is_inferred(body, functions, shape):
    model = parsed(body, functions)
    before = model.SerializeToString()
    inferred = infer_shapes(model)
    types = {value.name: value.type for value in inferred.graph.value_info}
    assert (dims_of(types["v"]) if "v" in types else None) == shape
    assert model.SerializeToString() == before
    assert [node.op_type for node in inferred.graph.node] == [node.op_type for node in model.graph.node]
    assert contradiction(model) == ""
    assert infer_types(model).SerializeToString() == inferred.SerializeToString()
