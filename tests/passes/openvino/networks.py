"""Networks of OpenVINO for the tests: their layers, made by its own operators, and the values that these are given."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from openvino.utils.node_factory import NodeFactory  # noqa: E402

C = op.constant
CORE = openvino.Core()  # which finds its devices once
AS_WRITTEN = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
CASES = {}
"""By name what makes a layer of its inputs, and the values of these."""


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def ints(*values, dtype=np.int64):
    return C(np.array(values, dtype))


def made(version, kind, inputs, **attributes):
    return NodeFactory(version).create(kind, inputs, attributes)


def case(name, build, *feeds):
    assert name not in CASES
    CASES[name] = build, feeds


X, SCALARS = drawn(2, 3, 4, 5), np.float32([-7.5, 7.5, -7.5, 8, 0, np.inf, -0.0])
SIGNED, BY = np.array([-7, 7, -7, 8, 0], np.int32), np.array([2, -2, -2, 3, 5], np.int32)
FLOATS_BY = np.float32([2, -2, -2, 3, 5, 2, 2])
HALVES = np.float32([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 0.49999997, np.inf, -np.inf, 8388609])
FLAGS = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(bool)


def network(build, feeds, folder):
    inputs = [op.parameter(list(value.shape), value.dtype) for value in feeds]
    path = folder / "net.xml"
    openvino.serialize(openvino.Model([op.result(build(*inputs))], inputs, "net"), path)
    return path


def of_any_size(path):
    """The same network, whose inputs may have other sizes than their values have."""
    core = CORE
    model = core.read_model(path)
    model.reshape({port: openvino.PartialShape([-1] * len(port.get_partial_shape())) for port in model.inputs})
    openvino.serialize(model, path.with_name("any.xml"))
    return path.with_name("any.xml")
