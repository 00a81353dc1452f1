"""What tests of several rooms ask of the engines that are installed."""

from typing import Any

import onnx
import pytest
from onnx import ModelProto

from opshift.verification.engines import EngineError, OnnxRuntime
from tests.runtime import opset


@pytest.fixture
def loads_to_26(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onnxruntime that loads opset 26 and none above, as those up to 1.31 are."""
    load = OnnxRuntime.__init__

    def older(self: OnnxRuntime, model: ModelProto | bytes, *arguments: Any, **named: Any) -> None:
        held = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
        if opset(held) > 26:
            raise EngineError(f"opset {opset(held)} is not released")
        load(self, model, *arguments, **named)

    monkeypatch.setattr(OnnxRuntime, "__init__", older)
