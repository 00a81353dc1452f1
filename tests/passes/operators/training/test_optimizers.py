"""Adagrad, Adam and Momentum: the update that the text has, of one tensor and of several, judged by onnx.reference."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.operators.training.optimizers import DOMAIN

from opshift.verification.engines import OnnxRuntime, Reference
from tests.support import converted, model, show

RNG = np.random.default_rng(0)
STATES = {"Adagrad": 1, "Adam": 2, "Momentum": 1}
INSIDE = {
    "Adagrad": ["", "<decay_factor = 0.1, epsilon = 0.01, norm_coefficient = 0.2>"],
    "Adam": ["", "<alpha = 0.8, beta = 0.9, epsilon = 0.01, norm_coefficient = 0.2, norm_coefficient_post = 0.1>"],
    "Momentum": [f'<alpha = 0.9, beta = 0.3, mode = "{mode}", norm_coefficient = 0.2>' for mode in ("standard", "nesterov")],
}  # fmt: skip


def built(op, inside, tensors, kind="float", rate="float"):
    groups = ["x", "g", *"vh"[: STATES[op]]]
    names = [f"{group}{i}" for group in groups for i in range(tensors)]
    results = [f"{group}{i}" for group in "abc"[: 1 + STATES[op]] for i in range(tensors)]
    body = f"{', '.join(results)} = {DOMAIN}.{op}{inside}(r, t, {', '.join(names)})"
    inputs = [f"{rate} r", "int64 t", *(f"{kind}[{2 + int(n[1])}] {n}" for n in names)]
    outputs = ", ".join(f"{kind}[{2 + int(n[1])}] {n}" for n in results)
    return model(body, 18, inputs=", ".join(inputs), outputs=outputs, domains=f'"{DOMAIN}" : 1')


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("tensors", [1, 2])
@pytest.mark.parametrize(("op", "inside"), [(op, inside) for op, found in INSIDE.items() for inside in found])
def test_an_update(op, inside, tensors, kind):
    source = built(op, inside, tensors, kind, "double")
    dtype = np.float32 if kind == "float" else np.float64
    for step in (0, 1, 7):
        feeds = {v.name: abs(RNG.normal(size=[d.dim_value for d in v.type.tensor_type.shape.dim])).astype(dtype) for v in source.graph.input}  # fmt: skip
        feeds |= {"r": np.array(0.1), "t": np.array(step)}
        expected = Reference(source).run(feeds)
        for opset in (18, 13, 11):
            result = converted(source, opset, frozenset([(DOMAIN, op)]))
            assert result.model is not None, "\n".join(map(str, result.refusals))
            assert DOMAIN not in show(result.model)
            onnx.checker.check_model(result.model, full_check=True)
            for actual, want in zip(OnnxRuntime(result.model).run(feeds), expected, strict=True):
                np.testing.assert_allclose(actual, want, rtol=2e-5, atol=1e-6)


def test_calls_that_do_not_hold_together_are_refused():
    source = built("Momentum", INSIDE["Momentum"][0], 1)
    source.graph.node[0].input.pop()
    assert "2 tensors and 2 results" in str(convert.attempt(source, {"": 18}, ops=[(DOMAIN, "Momentum")]).refusals[0])
    source = built("Momentum", '<alpha = 0.9, beta = 0.3, mode = "heavy", norm_coefficient = 0.2>', 1)
    assert "mode='heavy'" in str(convert.attempt(source, {"": 18}, ops=[(DOMAIN, "Momentum")]).refusals[0])
