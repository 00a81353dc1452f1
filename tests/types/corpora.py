"""Models that others wrote, to convert to half precision: ONNX's node tests, exports, random ones, those of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from tests.types import walking

Found = tuple[str, ModelProto, dict[str, Any]]


def nodes() -> Iterator[Found]:
    """The node tests of the installed onnx that hold a float32 value."""
    from tests.conformance.cases import installed

    for case in installed():
        yield case.name, case.model, dict(case.inputs)


def exported() -> Iterator[Found]:
    """All exports of `tests/exported`."""
    from tests.exported import store

    for framework in store.frameworks():
        for export in store.read(framework):
            yield export.name, export.model, dict(export.feeds)


def drawn(first: int = 0) -> Iterator[Found]:
    """Random models without end, of ordinary numbers.

    Below opset 7 onnxruntime cannot load half values: the casts that it inserts are not valid there. Weights that are
    inputs as well are left out: what keeps their types is a choice, see the cases.
    """
    from tests.random.calls import published
    from tests.random.engines import Engines
    from tests.random.models import drawn_source, tame

    corpus = published()
    with Engines() as engines:
        for seed in count(first + 1):
            source = drawn_source(seed, engines, corpus)
            if source is not None and source.model.opset_import[0].version >= 7 and not _defaults(source.model):
                source = tame(source, 100.0) or source
                yield f"seed {seed}", source.model, dict(source.feeds)


def _defaults(model: ModelProto) -> bool:
    return bool({value.name for value in model.graph.input} & {tensor.name for tensor in model.graph.initializer})


def folder(path: Path) -> Iterator[Found]:
    """Each `NAME.onnx` with the inputs of `NAME.npz`."""
    for file in sorted(path.glob("*.onnx")):
        with np.load(file.with_suffix(".npz")) as held:
            yield file.stem, onnx.load(file), dict(held)


def holds_float32(model: ModelProto) -> bool:
    """Whether a value of the model is float32."""
    try:
        flat = walking.flat(model)
    except Exception:  # of a model that onnx cannot infer
        return False
    return any(TensorProto.FLOAT in types.values() for _, types in walking.graphs(flat))
