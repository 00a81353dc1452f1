"""The judge lets no mistake through: each is planted into a right result."""

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto

from tests.types import judge
from tests.types.case import Case, floats, name_nodes, normal

TEXT = """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) a = Add(h, b) y = Relu(a) }"""
WEIGHTS = {"w": normal(8, 4, seed=1), "b": normal(4, seed=2)}
CASE = Case("plain", TEXT, ({"x": normal(2, 8)},), frozenset(), (), WEIGHTS, 17, None)


def half(text: str, **weights: np.ndarray) -> ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> plain {text}')
    for name, value in (weights or {name: value.astype(np.float16) for name, value in WEIGHTS.items()}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    name_nodes(model.graph.node)
    return model


RIGHT = "(float[2,8] x) => (float[2,4] y) { c = Cast<to=10>(x) h = MatMul(c, w) a = Add(h, b) r = Relu(a) y = Cast<to=1>(r) }"


def test_a_right_result_is_right():
    found = judge.judge(CASE, half(RIGHT))
    assert found.wrong == ()
    assert found.wide == ()
    assert found.casts == 2
    assert 0 < found.error < 0.002


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RIGHT.replace("a = Add(h, b) r = Relu(a)", "f = Cast<to=1>(h) g = Cast<to=1>(b) a = Add(f, g) d = Cast<to=10>(a) r = Relu(d)"), "float32 without a reason: a"),
        (RIGHT.replace("c = Cast<to=10>(x) h = MatMul(c, w)", "h = MatMul(c, w) c = Cast<to=10>(x)"), "not in order: c"),
        (RIGHT.replace("y = Cast<to=1>(r)", "y = Identity(r)").replace("float[2,4] y", "float16[2,4] y"), "outputs are others: y (10, 2)"),
        (RIGHT.replace("float[2,8] x", "float16[2,8] x").replace("Cast<to=10>(x)", "Identity(x)"), "inputs are others: x (10, 2)"),
        (RIGHT.replace("float[2,8] x", "float[2,8] z").replace("(x)", "(z)"), "inputs are others: z (1, 2), x"),
        (RIGHT.replace("Cast<to=1>(r)", "Cast<to=1>(a)"), "y differs by"),
        (RIGHT.replace("Add(h, b)", "Add(h, x)"), "onnx.checker"),
        (RIGHT.replace("y = Cast<to=1>(r)", "y = Cast<to=11>(r)"), "onnx.checker"),
    ],
)  # fmt: skip
def test_a_mistake_is_found(text, said):
    assert any(one.startswith(said) for one in judge.judge(CASE, half(text)).wrong), judge.judge(CASE, half(text)).wrong


def test_a_constant_that_is_cast_is_found():
    text = RIGHT.replace("h = MatMul(c, w)", "v = Cast<to=10>(w) h = MatMul(c, v)")
    found = judge.judge(CASE, half(text, w=WEIGHTS["w"], b=WEIGHTS["b"].astype(np.float16)))
    assert found.wrong == ("a constant is cast when the model runs: w",)


def test_a_weight_that_was_clamped_is_found():
    changed = WEIGHTS["w"].copy()
    changed[0, 0] = 1e4
    found = judge.judge(CASE, half(RIGHT, w=changed.astype(np.float16), b=WEIGHTS["b"].astype(np.float16)))
    assert found.wrong[0].startswith("y differs by")


def test_infinity_and_nan_have_to_be_where_they_were():
    before = floats(1, np.inf, -np.inf, np.nan)
    assert judge.difference(before, before)[0] == 0
    for place in range(4):
        for value in (2, np.inf, -np.inf, np.nan):
            after = before.copy()
            after[place] = value
            if not np.array_equal(before, after, equal_nan=True):
                assert judge.difference(before, after)[0] > 0.02


def test_zero_has_to_stay_zero():
    assert judge.difference(floats(0, 0), floats(0, 0))[0] == 0
    assert judge.difference(floats(0, 0), floats(0, 1e-6))[0] == np.inf


def test_nodes_are_put_in_order_and_stay_the_same():
    model = half(RIGHT)
    assert judge.sort(model) == model
    backwards = half(RIGHT)
    nodes = list(backwards.graph.node)[::-1]
    del backwards.graph.node[:]
    backwards.graph.node.extend(nodes)
    assert {node.name for node in judge.sort(backwards).graph.node} == {node.name for node in model.graph.node}
    assert judge.invalid(judge.sort(backwards)) == []


def test_shares_count_weights_and_nodes():
    assert judge.shares(half(RIGHT)) == (1.0, 1.0)
    assert judge.shares(CASE.model) == (0.0, 0.0)
    assert TensorProto.FLOAT16 == judge.FLOAT16
