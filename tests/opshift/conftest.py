"""What tests of several rooms ask of the engines that are installed, and of the processes that run them."""

import multiprocessing
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from onnx import ModelProto

from opshift.probing import worker
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.runtime import opset

IMPORTED = ["onnx", "onnxruntime", "opshift.probing.worker", "opshift.verification.adapters"]


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


@pytest.fixture(scope="module")
def quick_workers() -> Iterator[None]:
    """What a `Worker` starts is a copy of one process that has imported what each of them would, where there are copies."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "multiprocessing", SimpleNamespace(get_context=lambda _: context))
        yield
