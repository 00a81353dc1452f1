"""Calls with the sizes, ranks and constant parameters that layers of networks have, each as a case of one node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from opshift.passes.model.messages import normalize_domain
from opshift.probing.samples import Sample, bind
from opshift.verification import isolation
from opshift.verification.engines import EngineError, OnnxRuntime

_TABLE = Path(__file__).with_name("layers.txt")
_HIGHEST = 4
"""Integer inputs hold numbers from 0 up to this one, less one: the smallest size of the layers that is an index."""


def layers() -> Iterator[Sample]:
    """The calls of the table that onnxruntime runs; all their inputs but the first are constants."""
    yield from isolation.call(_samples)


def _samples() -> list[Sample]:
    found = []
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            with suppress(EngineError):
                found.append(_sample(line))
    return found


def _sample(line: str) -> Sample:
    import onnx.parser

    opset, inputs, constants, call = (part.strip() for part in line.split("|"))
    outputs = ", ".join(f"float[] {name.strip()}" for name in call.partition("=")[0].split(","))
    held = f" <{constants}>" if constants else ""
    model: Any = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> layer ({inputs}) => ({outputs}){held} {{ {call} }}'
    )
    for value in model.graph.output:
        value.ClearField("type")
    feeds = {value.name: _draw(value, place) for place, value in enumerate(model.graph.input)}
    expected = OnnxRuntime(model).run(feeds)
    for value, array in zip(model.graph.output, expected, strict=True):
        value.type.CopyFrom(_type(array))
    node = model.graph.node[0]
    op = normalize_domain(node.domain), node.op_type
    return bind(Sample(line, op, model, feeds, expected, 1e-3, 1e-5), set(list(feeds)[1:]))


def _draw(value: Any, seed: int) -> Any:
    import numpy as np
    import onnx.helper

    generator = np.random.default_rng(seed)
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if kind == np.bool_:
        return np.asarray(generator.random(shape) < 0.5)
    if np.issubdtype(kind, np.integer):
        return generator.integers(0, _HIGHEST, shape).astype(kind)
    return np.asarray(generator.random(shape) * 0.1 + 0.05, kind)


def _type(array: Any) -> Any:
    import onnx.helper

    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
