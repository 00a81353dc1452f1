"""Sizes that Attention has, whatever ONNX's inference makes of what it does not know."""

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from opshift.passes.conversion import convert
from opshift.passes.optimization import optimize

from tests.support import model


def test_an_unknown_size_of_values_is_not_0():
    """ONNX's inference reads the size of values as 0 where nothing tells it."""
    text = """<ir_version: 11, opset_import: ["" : 23]> g (float[a,b,c] q, float[2,6,24] k, float[d,e,f] v) => (float[2,4,72] y) {
        y = Attention<kv_num_heads=3, q_num_heads=9>(q, k, v) }"""
    source = onnx.parser.parse_model(text)
    made = convert.attempt(source, {"": 22}).model
    assert made is not None
    onnx.checker.check_model(made, full_check=True)
    assert [dim.dim_value for dim in made.graph.output[0].type.tensor_type.shape.dim] == [2, 4, 72]


@pytest.mark.parametrize(
    ("keys", "past", "outputs", "counted"),
    [
        ("K", None, '"", ""', 5), ("K", None, "pk, pv", 5), ("K", "P", "pk, pv", 7), ("K", 2, "pk, pv", 7),
        (5, "P", "pk, pv", 7), (5, 2, '"", ""', 7), (5, 2, "pk, pv", 7), (5, None, '"", ""', 5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["optimize", "convert"])
def test_scores_have_as_many_keys_as_there_are(keys, past, outputs, counted, verb):
    """ONNX's inference takes a number of keys that it does not know for 0, and leaves out those of a past beside no present."""
    inputs = f"float[2,2,3,4] q, float[2,2,{keys},4] k, float[2,2,{keys},5] v"
    feeds = {"q": (2, 2, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 5)}
    if past:
        inputs += f", float[2,2,{past},4] p, float[2,2,{past},5] r"
        feeds |= {"p": (2, 2, 2, 4), "r": (2, 2, 2, 5)}
    call = f"""y, {outputs}, z = Attention(q, k, v{', "", p, r' if past else ""}) n = Shape(z)"""
    source = model(call, 23, inputs=inputs, outputs="float[2,2,3,5] y, int64[4] n")
    if verb == "optimize":
        made = optimize.attempt(source).model
        if isinstance(keys, int) and outputs != '"", ""' and past == 2:
            assert "Shape" not in [node.op_type for node in made.graph.node]
    else:
        made = convert.attempt(source, {"": 22}).model
    (n,) = onnx.reference.ReferenceEvaluator(made).run(["n"], {k: np.ones(v, np.float32) for k, v in feeds.items()})
    assert n.tolist() == [2, 2, 3, counted]


@pytest.mark.parametrize("named", ["y", "o"])
@pytest.mark.parametrize("opset", [23, 24, 25])
def test_sizes_of_attention_in_a_function_are_open(named, opset):
    text = f"""<ir_version: 11, opset_import: ["" : {opset}, "l" : 1]>
        g (float[2,3,8] q, float[2,K,8] k, float[2,K,V] v) => (int64[3] m, int64[4] n) {{
            {named}, z = l.F(q, k, v) m = Shape({named}) n = Shape(z) }}
        <domain: "l", opset_import: ["" : {opset}]> F (q, k, v) => (y, z) {{
            y, "", "", z = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }}"""
    made = optimize.attempt(onnx.parser.parse_model(text)).model
    shapes = {"q": (2, 3, 8), "k": (2, 5, 8), "v": (2, 5, 6)}
    m, n = onnx.reference.ReferenceEvaluator(made).run(None, {k: np.ones(v, np.float32) for k, v in shapes.items()})
    assert (m.tolist(), n.tolist()) == ([2, 3, 6], [2, 2, 3, 5])


def test_values_of_attention_in_a_function_are_open():
    text = """<ir_version: 11, opset_import: ["" : 23, "l" : 1]>
        g (float[2,3,8] q, float[2,K,8] k, float[2,K,V] v) => (int64[3] m) { o = l.F(q, k, v) m = Shape(o) }
        <domain: "l", opset_import: ["" : 23]> F (q, k, v) => (y) {
            y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }"""
    made = optimize.attempt(onnx.parser.parse_model(text)).model
    shapes = {"q": (2, 3, 8), "k": (2, 5, 8), "v": (2, 5, 6)}
    (m,) = onnx.reference.ReferenceEvaluator(made).run(None, {k: np.ones(v, np.float32) for k, v in shapes.items()})
    assert m.tolist() == [2, 3, 6]
