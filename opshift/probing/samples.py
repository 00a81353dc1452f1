"""Models with inputs and expected outputs, which a backend is tried with: those that ONNX publishes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.probing.worker import Task

_RANDOM = {("", "Bernoulli")}  # no published output can agree
_SMALL = 16  # integer inputs up to this size are parameters rather than data


@dataclass(frozen=True)
class Sample:
    """A published test of one node."""

    name: str
    op: Op
    model: ModelProto
    feeds: dict[str, Any]
    expected: list[Any]
    rtol: float
    atol: float

    def task(self) -> Task:
        return Task(self.model.SerializeToString(), self.feeds, self.expected, self.rtol, self.atol)


def parameters(sample: Sample) -> set[str]:
    """The small integer inputs of a sample, beside which it has others: shapes, axes, counts."""
    vectors = {n: v for n, v in sample.feeds.items() if hasattr(v, "dtype") and v.dtype == "int64" and v.ndim <= 1}
    small = {name for name, value in vectors.items() if value.size <= _SMALL}
    return small if len(small) < len(sample.feeds) else set()


def bind(sample: Sample, names: set[str]) -> Sample:
    """The sample with some of its inputs as initializers."""
    import onnx.numpy_helper

    model = ModelProto()
    model.CopyFrom(sample.model)
    model.ir_version = max(model.ir_version, 4) if names else model.ir_version
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name in sorted(names):
        model.graph.initializer.append(onnx.numpy_helper.from_array(sample.feeds[name], name))
    return replace(sample, model=model, feeds={n: v for n, v in sample.feeds.items() if n not in names})


def list_published(*, whole: bool = False) -> Iterator[Sample]:
    """ONNX's node tests that consist of one node, or the whole of them, in the order of their names."""
    import numpy as np
    import onnx.backend.test.loader
    import onnx.numpy_helper

    with warnings.catch_warnings():  # the generators divide by zero and overflow on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        tests = onnx.backend.test.loader.load_model_tests(kind="node")

    def plain(value: Any) -> Any:
        if isinstance(value, onnx.TensorProto):
            return onnx.numpy_helper.to_array(value)
        if isinstance(value, onnx.SequenceProto):
            return onnx.numpy_helper.to_list(value)
        if isinstance(value, onnx.OptionalProto):
            return onnx.numpy_helper.to_optional(value)
        return np.asarray(value) if isinstance(value, np.generic) else value

    for test in sorted(tests, key=lambda test: test.name):
        if test.model is None or not test.data_sets or not test.model.graph.node:
            continue
        node = test.model.graph.node[0]
        op = normalize_domain(node.domain), node.op_type
        if not whole and (len(test.model.graph.node) > 1 or op in _RANDOM or op[0] not in ("", "ai.onnx.ml")):
            continue
        for inputs, outputs in test.data_sets[:1]:
            feeds = dict(zip((v.name for v in test.model.graph.input), map(plain, inputs), strict=False))
            expected = list(map(plain, outputs))
            yield Sample(test.name, op, test.model, feeds, expected, test.rtol, test.atol)


def list_exported(*folders: str) -> Iterator[Sample]:
    """The models with data in folders of onnx's `backend/test/data`, in the order of their names."""
    import numpy as np
    import onnx.backend.test
    import onnx.numpy_helper

    def tensor(path: Path) -> Any:
        try:
            return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
        except Exception:  # a sequence or an optional
            return None

    for folder in folders:
        for place in sorted(Path(onnx.backend.test.__file__).with_name("data").joinpath(folder).iterdir()):
            model = onnx.load(place / "model.onnx")
            given, expected = (
                [tensor(path) for path in sorted(place.glob(f"test_data_set_0/{kind}_*.pb"), key=_number)]
                for kind in ("input", "output")
            )
            if all(isinstance(value, np.ndarray) for value in (*given, *expected)):
                feeds = dict(zip((value.name for value in model.graph.input), given, strict=False))
                yield Sample(place.name, ("", ""), model, feeds, expected, 1e-3, 1e-7)


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])
