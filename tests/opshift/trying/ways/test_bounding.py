"""Functions of bounded numbers: the same for every number, of every type, at every opset that says it otherwise."""

import numpy as np
import onnx
import pytest

from opshift.trying.ways.bounding import BOUNDED, bound
from tests.support import evaluate, model

LARGE = [-1e30, -1e4, -801.0, -89.5, -20.5, -8.0, -1e-30, -0.0, 0.0, 1e-30, 0.5, 8.5, 19.0, 20.5, 40.5, 89.5, 1e4, 1e30]
X = np.array([*LARGE, np.inf, -np.inf, np.nan])


def of(op, opset, shape="21", elem="float"):
    return model(f"y = {op}(x)", opset, inputs=f"{elem}[{shape}] x", outputs=f"{elem}[{shape}] y")


@pytest.mark.parametrize("opset", [9, 11, 18])
@pytest.mark.parametrize("op", sorted(BOUNDED))
def test_it_is_the_same(op, opset):
    source, given = of(op, opset), X.astype(np.float32)
    made, changes = bound(source, op)
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node] == ["Clip", op] + ["Max"] * (op == "Softplus")
    assert {change.grade for change in changes} == {"close"}
    (expected,), (found,) = evaluate(source, {"x": given}), evaluate(made, {"x": given})
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)


MEANT = {"Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softplus": lambda x: np.logaddexp(0, x), "Tanh": np.tanh}
"""In numpy, as onnxruntime's own Softplus of doubles overflows."""


@pytest.mark.parametrize("op", sorted(MEANT))
@pytest.mark.parametrize(("elem", "kind"), [("double", np.float64), ("float16", np.float16)])
def test_of_other_types(op, elem, kind):
    with np.errstate(over="ignore", invalid="ignore"):
        given = X.astype(kind)
        expected = MEANT[op](given.astype(np.float64))
        expected = expected.astype(kind)
    (found,) = evaluate(bound(of(op, 18, elem=elem), op)[0], {"x": given})
    assert found.dtype == kind
    np.testing.assert_allclose(found, expected, rtol=1e-15 if kind is np.float64 else 1e-3, atol=1e-15)


@pytest.mark.parametrize("shape", ["0", "1", ""])
def test_of_none_and_one(shape):
    source = of("Tanh", 18, shape)
    given = np.full([int(size) for size in shape.split(",") if size], 99, np.float32)
    (expected,), (found,) = evaluate(source, {"x": given}), evaluate(bound(source, "Tanh")[0], {"x": given})
    np.testing.assert_array_equal(found, expected)
    assert found.shape == given.shape


def test_what_has_none_stays():
    source = of("Tanh", 18)
    assert bound(source, "Sigmoid") == (source, [])
    old = of("Tanh", 1)
    assert bound(old, "Tanh") == (old, [])
