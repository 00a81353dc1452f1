"""A pair of small models in ONNX text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
from onnx import ModelProto

Array = Any


@dataclass(frozen=True)
class Form:
    """One side of a pair, where it needs more than its nodes."""

    body: str
    constants: str | None = None
    tensors: Mapping[str, Array] = field(default_factory=dict)
    functions: str | None = None
    inputs: str | None = None
    outputs: str | None = None
    opset: int | None = None


@dataclass(frozen=True)
class Pair:
    """Two graphs with the same inputs; what a `Form` leaves out is as the pair has it.

    `witness` holds inputs on which the two differ, or, of two that are the same, inputs on which they were compared.
    `allowed` is how far these may be apart there, as a part of the largest element. `answer` is what can be said of
    the pair, where that is less than what is so.
    """

    name: str
    why: str
    inputs: str
    outputs: str
    before: str | Form
    after: str | Form
    witness: Mapping[str, Array]
    constants: str = ""
    tensors: Mapping[str, Array] = field(default_factory=dict)
    functions: str = ""
    opset: int = 17
    allowed: float = 0.0
    answer: str = ""

    def models(self) -> tuple[ModelProto, ModelProto]:
        return self._model(self.before), self._model(self.after)

    def _model(self, form: str | Form) -> ModelProto:
        form = Form(form) if isinstance(form, str) else form
        constants = self.constants if form.constants is None else form.constants
        functions = self.functions if form.functions is None else form.functions
        opset = form.opset or self.opset
        imports = f'"" : {opset}' + (', "local" : 1' if functions else "")
        model = onnx.parser.parse_model(
            f"<ir_version: 8, opset_import: [{imports}]>\n"
            f"g ({form.inputs or self.inputs}) => ({form.outputs or self.outputs}) <{constants}> {{ {form.body} }}\n{functions}"
        )
        for name, value in {**self.tensors, **form.tensors}.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return model
