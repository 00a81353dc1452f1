"""Processes that run models, begun at once."""

import multiprocessing
from collections.abc import Iterator

import pytest

IMPORTED = ["onnx", "onnxruntime", "opshift.probing.worker", "opshift.verification.adapters"]


@pytest.fixture(scope="module")
def quick_workers() -> Iterator[None]:
    """What a `Worker` starts is a copy of one process that has imported what each of them would, where there are copies."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(multiprocessing, "get_context", lambda method: context)
        yield
