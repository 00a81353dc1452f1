"""Outputs that have a name and no reader: an operator that takes the place of another does not keep them."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

import opshift
from tests.passes.simplification.rules.support import check_kept
from tests.support import evaluate, model, show

X = np.array([1.5, -2.0, 3.0], np.float32)
WAYS = {
    "optimize": opshift.optimize,
    "fold": lambda of: opshift.fold(of, optimize=True),
    "convert": lambda of: opshift.convert_version(of, 21, optimize=True),
}
IN_BRANCH = """y = If(c) <then_branch = t () => (float[3] a) { a, m = Dropout(x) },
    else_branch = e () => (float[3] b) { b = Neg(x) }>"""


def check_valid(source):
    """What each way makes is valid, and computes what the source does."""
    feeds = {"x": X, "c": np.array(True)}
    feeds = {value.name: feeds[value.name] for value in source.graph.input}
    for way in WAYS.values():
        made = way(source)
        onnx.checker.check_model(made, full_check=True)
        np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
@pytest.mark.parametrize(
    "body", ["y, mask = Dropout(x)", "h, mask = Dropout(x) y = Neg(h)", "h = Neg(x) y, m = Dropout(h)"]
)
def test_a_mask_that_nobody_reads_goes_with_its_dropout(opset, body):
    source = model(body, opset, inputs="float[3] x", outputs="float[3] y")
    check_valid(source)
    assert "Dropout" not in show(opshift.optimize(source))


def test_the_same_in_a_branch():
    check_valid(model(IN_BRANCH, 17, inputs="float[3] x, bool c", outputs="float[3] y"))


def test_the_same_in_a_function():
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[3] x) => (float[3] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 17]> F (x) => (y) { y, mask = Dropout(x) }"""
    )
    check_valid(source)
    assert [node.op_type for node in opshift.optimize(source).functions[0].node] == ["Identity"]


def test_a_mask_that_is_read_keeps_its_dropout():
    check_kept("y, mask = Dropout(x)", 17, inputs="float[3] x", outputs="float[3] y, bool[3] mask")


def test_an_output_that_is_left_out_is_not_taken_for_a_value():
    inputs = "float[1,2,3] x, float[1,3,3] w, float[1,3,1] r"
    source = model(", h = GRU<hidden_size = 1>(x, w, r) y = Neg(h)", 17, inputs=inputs, outputs="float[1,2,1] y")
    assert show(opshift.optimize(source)) == show(source)


def test_constants_of_which_one_has_to_keep_its_name_stay_a_node():
    io = {"inputs": "float[2] x", "outputs": "float[2] y", "constants": "float[4] c = {1, 2, 3, 4}"}
    source = model("a, b = Split<axis=0, num_outputs=2>(c) d = Add(x, a) y = Add(d, b)", 18, **io)
    source.graph.quantization_annotation.add(tensor_name="b")
    made = optimize.attempt(source).model
    onnx.checker.check_model(made, full_check=True)
    np.testing.assert_array_equal(evaluate(made, {"x": X[:2]})[0], evaluate(source, {"x": X[:2]})[0])
