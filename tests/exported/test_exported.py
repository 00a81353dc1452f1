"""Exported models convert up and down and go on computing what the framework that they come from computes.

Each goes to an opset that its name settles, and, with `--whole`, to its own, which judges the exporter.
"""

import random
from collections.abc import Iterable, Iterator

import pytest
from opshift.passes.model import schemas

from tests import pairs
from tests.conformance.cases import Case
from tests.conformance.judge import OK, judge
from tests.exported import store

REACHES = {  # family and exporter: the opsets that it reaches and engines judge, if not all from 7 on
    "jax/llama/jax2onnx": (13, 28),  # a triangle of booleans, which no engine selects from below
    "jax/llama/jax2onnx_decomposed": (13, 28),
    "keras/decoder/tf2onnx": (11, 28),  # scores of unknown rank
    "keras/recurrent/tf2onnx": (7, 27),  # Cast-28, which onnxruntime does not load
    "tensorflow/norms/tf2onnx": (7, 27),
    "tensorflow/norms.dynamic/tf2onnx": (7, 27),
    "torch/llama_by_hand/torchscript": (11, 28),  # heads of unknown rank, sliced at computed places
    "torch/llama_by_hand.dynamic/torchscript": (11, 28),
}
EVERY = [export for framework in store.frameworks() for export in store.read(framework)]


def sampled(export: store.Export) -> list[int]:
    lowest, highest = REACHES.get(export.name.rpartition("-")[0], (7, schemas.latest()))
    others = random.Random(export.name).sample(range(lowest, highest + 1), 1)
    return sorted({export.opset, *others} if pairs.whole else others)


def complaints(exports: Iterable[store.Export]) -> Iterator[str]:
    for export in exports:
        case = Case(export.name, export.framework, export.model, export.feeds, export.outputs, rtol=1e-3, atol=1e-5)
        for target in sampled(export):
            verdict = judge(case, target)
            if verdict.status != OK:
                yield f"{case.name} to {target} {verdict.status}: {verdict.why}"


@pytest.mark.newest
@pytest.mark.parametrize(
    "framework",
    [
        pytest.param(name, marks=pytest.mark.long) if name == "transformers" else name
        for name in pairs.some(store.frameworks()[::-1], 2)
    ],
)
def test_exports_compute_what_their_framework_does_at_every_opset(framework: str):
    found = list(complaints(store.sample(framework)))
    assert not found, "\n".join(found)


def test_the_index_names_every_export():
    stored = {(export.framework, export.family, export.exporter, export.opset) for export in EVERY}
    indexed = {
        (framework, family, exporter, int(opset))
        for framework, entry in store.index().items()
        for family, exporters in entry["families"].items()
        for exporter, opsets in exporters.items()
        for opset in opsets.split()
    }
    assert stored == indexed
    assert all(entry["versions"] for entry in store.index().values())


def test_an_export_is_at_the_opset_of_its_name():
    assert [export.name for export in EVERY if store.opset(export.model) != export.opset] == []
