"""onnxruntime in a process of its own, which a model may end: a wrong attribute makes some kernels abort."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Any

from onnx import ModelProto

from tests.lab.proof.pairs import outputs

Array = Any


class Apart:
    """Runs models in a child, and starts another one where it ends or takes longer than `limit` seconds."""

    def __init__(self, limit: float = 20):
        self.limit = limit
        self._pool = self._start()

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def outputs(self, model: ModelProto, feeds: list[Mapping[str, Array]]) -> list[list[Array]] | None:
        """What the model computes of each set of inputs; None where it does not run."""
        try:
            return self._pool.submit(_outputs, model.SerializeToString(), feeds).result(self.limit)
        except Exception:  # a timeout, or the end of the child
            self._end()
            self._pool = self._start()
            return None

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def _end(self) -> None:
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _outputs(model: bytes, feeds: list[Mapping[str, Array]]) -> list[list[Array]] | None:
    try:
        return [outputs(ModelProto.FromString(model), feed) for feed in feeds]
    except Exception:  # what onnxruntime raises has no common class
        return None
