"""How much an element lacks to be decided otherwise: moved by less it stays what it is, moved by more it does not."""

import numpy as np
import onnx.helper
import pytest

from opshift.verification.twins import decisions

X = np.array([0.25, -0.375, 2.3125, -1.6875, 7.625, 0.875])
STEP = np.array(0.4)


def quantized(x, step=STEP):
    return np.rint(x / step)


ELEMENTS = {
    "Sign": (np.sign, {}),
    "NonZero": (lambda x: x != 0, {}),
    "Cast to bool": (lambda x: x != 0, {"to": 9}),
    "Cast to int64": (np.trunc, {"to": 7}),
    "Cast to uint8": (np.trunc, {"to": 2}),
    "Ceil": (np.ceil, {}),
    "Floor": (np.floor, {}),
    "Round": (np.rint, {}),
    "QuantizeLinear": (quantized, {}),
    "Less": (lambda x: x < 0.5, {}),
    "LessOrEqual": (lambda x: x <= 0.5, {}),
    "Greater": (lambda x: x > 0.5, {}),
    "GreaterOrEqual": (lambda x: x >= 0.5, {}),
    "Equal": (lambda x: x == 0.5, {}),
}


def node_of(op, attributes):
    return onnx.helper.make_node(op.split()[0], ["x", "o"], ["y"], **attributes)


@pytest.mark.parametrize("op", ELEMENTS)
def test_an_element_of_its_own(op):
    compute, attributes = ELEMENTS[op]
    node = node_of(op, attributes)
    other = STEP if op == "QuantizeLinear" else np.array(0.5)
    margin = decisions.margin(node, [X, other])
    assert (decisions.decides(node), decisions.output(node)) == (True, 0)
    assert (margin > 0).all()
    for part in (-0.99, 0.99):
        assert (compute(X + part * margin) == compute(X)).all()
    beyond = [compute(X + part * margin) for part in (-1.01, 1.01, -1, 1)]
    near_zero = (np.abs(X) < 1) & ("int" in op)  # whole on either side of 0
    assert (np.any([value != compute(X) for value in beyond], axis=0) | near_zero).all()


def test_the_best_of_a_row():
    x = np.array([[1.0, 3.0, 2.5], [-1.0, -4.0, -2.0]])
    for op, expected in (("ArgMax", [[0.5], [1.0]]), ("ArgMin", [[1.5], [2.0]])):
        np.testing.assert_array_equal(decisions.margin(node_of(op, {"axis": 1}), [x]), expected)
        flat = decisions.margin(node_of(op, {"axis": 1, "keepdims": 0}), [x])
        np.testing.assert_array_equal(flat, np.ravel(expected))
    assert decisions.margin(node_of("ArgMax", {}), [x[:1]]) == np.inf, "the only one"


@pytest.mark.parametrize(("largest", "expected"), [(1, [[2.0, 0.5]]), (0, [[1.0, 0.5]])])
def test_the_first_of_an_order(largest, expected):
    x = np.array([[3.0, 1.0, 5.0, 2.0, 2.5]])
    node = node_of("TopK", {"largest": largest})
    assert decisions.output(node) == 1
    np.testing.assert_array_equal(decisions.margin(node, [x, np.array([2])]), expected)


def test_steps_along_an_axis_and_of_their_own():
    x = np.array([[0.3, 1.1], [0.3, 1.1]])
    made = decisions.margin(node_of("QuantizeLinear", {"axis": 0}), [x, np.array([0.5, 0.25])])
    np.testing.assert_allclose(made, [[0.05, 0.15], [0.075, 0.025]])
    made = decisions.margin(node_of("DynamicQuantizeLinear", {}), [np.array([-51.0, 204.0, 3.4])])
    np.testing.assert_allclose(made, [0.5, 0.5, 0.1])
    assert decisions.margin(node_of("DynamicQuantizeLinear", {}), [np.zeros(3)]) == np.inf


def test_boxes():
    """One pair overlaps by a third; the scores are 0.2 apart, and 0.05 above their limit."""
    boxes, scores = np.array([[[0.0, 0, 1, 1], [0, 0.5, 1, 1.5]]]), np.array([[[0.9, 0.7]]])
    of = node_of("NonMaxSuppression", {})
    limits = [np.array(value) for value in (0.25, 0.65)]
    made = decisions.margin(of, [boxes, scores, np.array(1), *limits])
    np.testing.assert_allclose(made, 0.05)
    made = decisions.margin(of, [boxes, scores, np.array(1), np.array(0.32), np.array(0.1)])
    np.testing.assert_allclose(made, 1 / 3 - 0.32)
    centred = np.array([[[0.5, 0.5, 1, 1], [1.0, 0.5, 1, 1]]])
    of = node_of("NonMaxSuppression", {"center_point_box": 1})
    np.testing.assert_allclose(decisions.margin(of, [centred, scores, None, np.array(0.32), None]), 1 / 3 - 0.32)


def test_what_decides_nothing_or_nothing_of_floats():
    assert decisions.margin(node_of("Relu", {}), [X]) is None
    assert decisions.margin(node_of("ArgMax", {}), [np.array([1, 2])]) is None
    assert decisions.margin(onnx.helper.make_node("Sign", ["x"], ["y"], domain="own"), [X]) is None
    assert decisions.margin(node_of("Cast", {"to": 1}), [X]) == np.inf
    assert decisions.margin(node_of("Less", {}), [X, np.ones(4)]) == np.inf, "it does not run"


@pytest.mark.parametrize("top", [2.55, 25.5, 510.0])
def test_how_near_to_another_integer_what_is_quantized_by_its_own_range_lies(top):
    data = np.array([0, 0.5, 0.25, 0.75, 255]) * top / 255
    made = decisions.margin(node_of("DynamicQuantizeLinear", {}), [data])
    np.testing.assert_allclose(made, np.array([0.5, 0, 0.25, 0.25, 0.5]) * top / 255, atol=1e-12 * top)
