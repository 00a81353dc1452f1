"""Exports that are folded, optimized or modernized go on computing what their framework computes.

What an exporter writes at an old opset has, once it is converted and folded, the operators that the same exporter
writes at the newer one.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

import onnx.checker
import pytest
from onnx import ModelProto
from opshift.passes.model.traversal import bodies

import opshift
from tests import pairs
from tests.conformance.agreement import mismatch
from tests.conformance.cases import Case
from tests.exported import store
from tests.support import evaluate

WAYS: dict[str, Callable[[ModelProto], ModelProto]] = {
    "folded": opshift.fold,
    "optimized": opshift.optimize,
    "folded and optimized": lambda model: opshift.fold(model, optimize=True),
    "modernized": lambda model: opshift.convert_version(model, 23, modernize=True, optimize=True),
}
SPECIAL = frozenset(
    [
        "Attention",
        "Celu",
        "Elu",
        "Gelu",
        "GroupNormalization",
        "HardSigmoid",
        "HardSwish",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "Mish",
        "RMSNormalization",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "RotaryEmbedding",
        "Selu",
        "Softplus",
        "Swish",
    ]
)
LEFT = {  # family: the operators of the newer export that are not there
    "jax/image_norms": {"GroupNormalization"},  # the variance as the mean of squares less the square of the mean
    "jax/norms.dynamic": {"LayerNormalization"},
    "torch/activations": {"Softplus"},  # part of a Mish, which the exporter does not write
}


def complaints(exports: Iterable[store.Export]) -> Iterator[str]:
    """Each in one of the ways, which its name settles; with no more nodes than before, where it keeps its opset."""
    for export in exports:
        way = random.Random(export.name).choice(sorted(WAYS))
        made = WAYS[way](export.model)
        complaint = _complaint(export, made)
        if way != "modernized" and _nodes(made) > _nodes(export.model):
            complaint = f"{_nodes(made)} nodes instead of {_nodes(export.model)}"
        if complaint:
            yield f"{export.name} {way}: {complaint}"


@pytest.mark.parametrize("framework", pairs.some(store.frameworks(), 2))
def test_exports_compute_what_their_framework_does_once_refined(framework: str):
    """Of every sixth family, or of each with `--whole`, what one of its exporters wrote, which its name settles."""
    families = defaultdict(list)
    for export in store.sample(framework):
        families[export.family].append(export)
    some = pairs.some(list(families.items()), 6)
    found = list(complaints(random.Random(family).choice(exports) for family, exports in some))
    assert not found, "\n".join(found)


@pytest.mark.long
def test_a_modernized_export_has_the_operators_that_the_exporter_writes_at_the_newer_opset():
    """But for those of `LEFT`, none of which may be there everywhere; a sixth of them, or all with `--whole`."""
    complaints, left = [], defaultdict(set)
    for old, new in pairs.some(list(_pairs()), 6):
        made = opshift.convert_version(old.model, new.opset, modernize=True)
        family = f"{old.framework}/{old.family}"
        missing = set(_census(new.model) - _census(made))
        left[family] |= missing
        more = missing - LEFT.get(family, set())
        complaint = f"lacks {more}" if more else _complaint(old, made)
        if complaint:
            complaints.append(f"{old.name} to {new.opset} {complaint}")
    assert not complaints, "\n".join(complaints)
    assert not pairs.whole or {family: ops for family, ops in left.items() if ops} == LEFT


@pytest.mark.long
@pytest.mark.newest
def test_modernized_exports_are_verified_on_inputs_at_random():
    """Of every third family, or of each with `--whole`, what one of its exporters wrote, which its name settles."""
    families: dict[str, list[store.Export]] = defaultdict(list)
    for export in _masked():
        families[export.family].append(export)
    assert len(families) > 30
    some = pairs.some(list(families.items()), 3)
    found = list(unverified(random.Random(family).choice(exports) for family, exports in some))
    assert not found, "\n".join(found)


def unverified(exports: Iterable[store.Export] | None = None) -> Iterator[str]:
    """Masks of other rows than the exporter's, among them rows that may attend to nothing."""
    for old in exports or _masked():
        made = opshift.convert_version(old.model, 23, modernize=True, optimize=True)
        found = opshift.verify(old.model, made)
        if not found.equal:
            yield f"{old.name}: {found.status}: {found.why}"


def _masked() -> Iterator[store.Export]:
    """The oldest export of each series of models with attention, or with sizes that vary."""
    for exports in _series().values():
        old = min(exports, key=lambda export: export.opset)
        if old.framework == "transformers" or (old.framework == "torch" and old.family.endswith(".dynamic")):
            yield old


def test_what_exporters_write_differs_between_opsets():
    """Else the test above would say nothing."""
    gained: set[str] = set()
    for old, new in _pairs():
        gained |= set(_census(new.model) - _census(old.model))
    norms = {"LayerNormalization", "RMSNormalization", "GroupNormalization"}
    assert gained >= {"Attention", "Gelu", "HardSwish", *norms}


def _pairs() -> Iterator[tuple[store.Export, store.Export]]:
    """Each export and the newest of the same exporter, where that has other special operators."""
    for exports in _series().values():
        newest = max(exports, key=lambda export: (export.opset, not export.exporter.endswith(("_decomposed", "_raw"))))
        for export in exports:
            if _census(export.model) != _census(newest.model):
                yield export, newest


def _series() -> dict[tuple[str, str, str], list[store.Export]]:
    """The exports of each family by each exporter."""
    series = defaultdict(list)
    for framework in store.frameworks():
        for export in store.read(framework):
            exporter = export.exporter.removesuffix("_decomposed").removesuffix("_raw")
            series[framework, export.family, exporter].append(export)
    return series


def _nodes(model: ModelProto) -> int:
    return sum(node.op_type != "Constant" for body in bodies(model) for node in body.node)


def _census(model: ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node if node.op_type in SPECIAL)


def _checked(model: ModelProto) -> str:
    """What onnx.checker finds; some exporters state wrong shapes."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return str(error)
    return ""


def _complaint(export: store.Export, made: ModelProto) -> str:
    """What is wrong with what was made of an export; empty if nothing is."""
    if (complaint := _checked(made)) and not _checked(export.model):
        return complaint
    case = Case(export.name, export.framework, made, export.feeds, export.outputs, rtol=1e-3, atol=1e-5)
    return mismatch(case, evaluate(made, export.feeds))
