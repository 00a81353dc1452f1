"""What operators below opset 7 compute, after their texts: no engine knows their broadcasting."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TensorProto
from opshift.passes.conversion import convert
from opshift.passes.model.attributes import attribute_value

from tests.support import evaluate, model, show

BINARY: dict[str, Callable[..., Any]] = {
    **{
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Pow": np.power,
        "Div": lambda a, b: (a / b).astype(a.dtype),
    },
    **{"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor},
    **{"Equal": np.equal, "Greater": np.greater, "Less": np.less},
}


def run(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs of a model without subgraphs."""
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer} | dict(feeds)
    for node in model.graph.node:
        attributes = {a.name: attribute_value(a) for a in node.attribute}
        inputs = [values[name] for name in node.input]
        rule = binary if node.op_type in BINARY else globals()[node.op_type.lower()]
        values[node.output[0]] = rule(node.op_type, *inputs, **attributes)
    return [values[output.name] for output in model.graph.output]


def check_legacy(before, opset, after, target, feeds, expected, **io):
    """The nodes and, computed at opset 7, the values; at IR 4, so that constants are no inputs."""
    made = convert.attempt(model(before, opset, **io), {"": target}, ir_version=4)
    assert not made.refusals
    assert show(made.model) == "\n".join(line.strip() for line in after.splitlines())
    assert made.grade == "exact"
    onnx.checker.check_model(made.model)
    raised = convert.attempt(made.model, {"": 7})
    assert not raised.refusals
    for want, got in zip(expected, evaluate(raised.model, feeds), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def binary(op, a, b, broadcast=0, axis=None):
    if not broadcast:
        assert a.shape == b.shape, "shapes differ without broadcast"
        return BINARY[op](a, b)
    if b.size == 1:
        assert b.ndim <= a.ndim, "a single element of higher rank"
        return BINARY[op](a, b.reshape(()))
    start = a.ndim - b.ndim if axis in (None, -1) else axis
    assert a.shape[start : start + b.ndim] == b.shape, f"{b.shape} is no run of {a.shape} from {start}"
    return BINARY[op](a, b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim)))


def gemm(_, a, b, c, alpha=1.0, beta=1.0, transA=0, transB=0, broadcast=0):  # noqa: N803
    product = (a.T if transA else a) @ (b.T if transB else b)
    return binary("Add", alpha * product, beta * c, broadcast)


def prelu(_, x, slope):
    if slope.size != 1:
        assert slope.ndim == 1
        assert x.ndim > 1
        assert len(slope) == x.shape[1], "one slope per channel"
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return np.where(x < 0, x * slope, x)


def squeeze(_, x, axes):
    return np.squeeze(x, tuple(axes))


def floor(_, x):
    return np.floor(x)


def unsqueeze(_, x, axes):
    return np.expand_dims(x, tuple(axes))


def tile(_, x, repeats):
    return np.tile(x, repeats)


def shape(_, x):
    return np.array(x.shape)


def slice(_, x, starts, ends, axes):  # noqa: A001
    assert list(axes) == [0]
    return x[starts[0] : ends[0]]


def concat(_, *parts, axis):
    return np.concatenate(parts, axis)


def reshape(_, x, dims):
    return x.reshape(dims)


def cast(_, x, to):
    number = to if isinstance(to, int) else TensorProto.DataType.Value(to)  # a name below 6
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(number))


def identity(_, x):
    return x
