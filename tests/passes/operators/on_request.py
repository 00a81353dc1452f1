"""Calls that are expanded on request, and what becomes of them; the signs of zeros count."""

import numpy as np
import onnx
from opshift.passes.conversion import convert

from tests.support import evaluate, model

INF, NAN = np.inf, np.nan
X = np.array([0.0, -0.0, 1.5, -2.25, 0.5, -0.5, INF, -INF, NAN, 3e4, -3e4, 1e-7], np.float32)
Y = np.array([1.0, -1.0, -1.5, 2.25, 0.5, -0.75, 3.0, 3.0, 1.0, NAN, INF, -INF], np.float32)
INTS = np.array([0, 1, -1, 127, -128, 5])
TRUTHS = [np.array([False, False, True, True]), np.array([False, True, False, True])]


def inlined(source, op):
    opset = source.opset_import[0].version
    result = convert.attempt(source, {"": opset}, ops=[("", op)])
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert op not in {node.op_type for node in result.model.graph.node}
    assert result.model.opset_import[0].version == opset
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def computed(call, *feeds, opset=22, constants="", grade="exact", kind=None, rank=None):
    names = {"float32": "float", "float64": "double"}
    held = dict(zip("xyz", feeds, strict=False))
    inputs = ", ".join(
        f"{names.get(v.dtype.name, v.dtype.name)}[{','.join(map(str, v.shape))}] {name}" for name, v in held.items()
    )
    out = kind or names.get(feeds[0].dtype.name, feeds[0].dtype.name)
    dims = ",".join("ABC"[: max(v.ndim for v in feeds) if rank is None else rank])
    outputs = f"{out}[{dims}] r" if dims else f"{out} r"
    inputs = inputs.replace("[]", "")
    of = model(f"r = {call}", opset, inputs=inputs, outputs=outputs, constants=constants)
    op = of.graph.node[0].op_type
    assert convert.attempt(of, {"": opset}, ops=[("", op)]).grade == grade
    return evaluate(inlined(of, op), held)[0]


def same_bits(actual, expected):
    expected = np.asarray(expected)
    np.testing.assert_array_equal(actual, expected, strict=True)  # NaN equals NaN
    held = ~np.isnan(expected) if expected.dtype.kind == "f" else slice(0)
    np.testing.assert_array_equal(np.signbit(actual[held]), np.signbit(expected[held]))
