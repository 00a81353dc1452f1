"""Finds out what an installed backend reads, by running ONNX's published one-node tests and usual layers on it."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from opshift.passes.backends import door as backends
from opshift.passes.backends.door import MeasuredCall, Value
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.spelling import hint
from opshift.probing import findings as kept
from opshift.probing import forms, installed, shapes, tasks
from opshift.probing.findings import Finding
from opshift.probing.models import calls
from opshift.probing.network_calls import layers
from opshift.probing.retyped import Kinds, Oracle, add_types_of, is_exchangeable, make_base
from opshift.probing.samples import Sample, bind, list_exported, list_published, parameters
from opshift.probing.worker import Impatient, Task, Tolerant, Verdict, Worker
from opshift.verification import adapters

_DERIVED = 12  # how many samples of other versions of an operator a version is tried with
_HANGS = 3  # how often a backend may hang with one operator, until nothing more is tried
_QUICK = 8  # how many samples of an operator there are in a quick measurement
_OLDER = 4  # how many samples an older version is tried with
_REFERENCE = "opshift.verification.engines:Reference"
_UNDEFINED = "tensor(undefined)"

_SECONDS = 20.0
"""How long a test may take in a backend that runs under this interpreter."""

Progress = Callable[[str, int, int], None]


def probe(
    backend: str,
    ops: Iterable[str] = (),
    progress: Progress | None = None,
    models: Path | None = None,
    python: str | None = None,
    adapter: str | None = None,
    keep: Path | None = None,
    *,
    quick: bool = False,
) -> str:
    """What the installed `backend` reads, as the text of a target file; `ops` narrows the operators.

    Layers of usual sizes, and the calls in the `models` of a folder, are tried, too. What is found of each operator is
    kept in a file, `keep`, and not measured again. With `quick`, operators are tried with few samples, and not with
    other shapes and types: compilers take a second for each.

    Raises:
        ValueError: an unknown backend or operator, or one that is not installed.
    """
    found = installed.find(backend, python, adapter)
    for op in ops:
        if not any(schemas.versions(domain, op) for domain in schemas.domains()):
            raise ValueError(f"unknown operator {op!r}{hint(op, schemas.operators(''))}")
    worker, runtime = found.open(_SECONDS), Worker(adapters.KNOWN["onnxruntime"].session)
    if found.adapter.half:
        worker = Tolerant(worker, found.adapter.within)
    reference = Worker(_REFERENCE)
    try:
        if not worker.run(tasks.simple(7, 3)).agrees:
            raise ValueError(
                f"{backend} fails on a model of a single Relu, so nothing can be measured: "
                f"{worker.run(tasks.simple(7, 3)).why}"
            )
        seen = measure(worker, set(ops), progress, Oracle(runtime, reference), keep, quick=quick)
        for case in chain(layers(), calls(models) if models is not None else ()):
            if not ops or case.op[1] in ops:
                add(seen.findings.setdefault(case.op, Finding()), case, worker)
        return text(backend, found.release, seen, set(ops), compiler=not found.adapter.session)
    finally:
        for each in (worker, runtime, reference):
            each.stop()


@dataclass
class ProbedBackend:
    """Everything that was found out about a backend."""

    opset: int
    ir_version: int
    ml_opset: int
    static_shapes: bool
    functions: bool
    folds_sizes: bool
    lacks_types: list[str]
    findings: dict[Op, Finding]


def measure(
    worker: Worker,
    ops: set[str],
    progress: Progress | None = None,
    oracle: Oracle | None = None,
    keep: Path | None = None,
    *,
    quick: bool = False,
) -> ProbedBackend:
    """Try versions, types and shapes with models of one Relu or Identity, operators with their published samples."""
    worker = Impatient(worker, _HANGS)
    opset = _newest(range(schemas.latest(), 6, -1), lambda v: worker.run(tasks.simple(v, 3)))
    ir = _newest(range(schemas.ir_version("", schemas.latest()), 2, -1), lambda v: worker.run(tasks.simple(7, v)))
    classical = range(schemas.latest("ai.onnx.ml"), 0, -1)
    ml = next((v for v in classical if any(worker.run(task).agrees for task in tasks.classical(v))), 0)
    types = [
        kind
        for kind in ELEMENT_TYPES
        if kind != _UNDEFINED and not any(worker.run(t).agrees for t in tasks.holding(kind))
    ]
    worker.begin()
    kinds = Kinds(worker, oracle, types, _castable(worker, types)) if oracle is not None and not quick else None
    dynamic = all(worker.run(tasks.simple(7, 3, size)).agrees for size in (2, 3))
    functions = worker.run(tasks.function()).agrees
    folds_sizes = worker.run(tasks.reshape_task("N" if dynamic else "2")).agrees
    groups: dict[Op, list[Sample]] = {}
    for sample in list_published():
        if not ops or sample.op[1] in ops:
            groups.setdefault(sample.op, []).append(sample)
    if quick:
        plain = {op: [sample for sample in samples if is_exchangeable(sample)] for op, samples in groups.items()}
        groups = {op: spread(plain[op] or samples, _QUICK) for op, samples in groups.items()}
    witnesses: dict[Op, list[Sample]] = {}
    for sample in list_exported("pytorch-converted", "pytorch-operator", "simple"):
        for op in {(normalize_domain(node.domain), node.op_type) for node in sample.model.graph.node}:
            witnesses.setdefault(op, []).append(sample)
    findings = kept.read(keep)
    for place, (op, samples) in enumerate(sorted(groups.items())):
        if progress is not None:
            progress(op[1], place, len(groups))
        limit = (ml or schemas.latest(op[0])) if op[0] else opset
        if op not in findings:
            worker.begin()
            findings[op] = judge(worker, op, samples, limit, witnesses.get(op, []), oracle, kinds)
            kept.add(keep, op, findings[op])
    return ProbedBackend(opset, ir, ml, not dynamic, functions, folds_sizes, types, findings)


def judge(
    worker: Worker,
    op: Op,
    samples: list[Sample],
    newest: int,
    witnesses: Iterable[Sample] = (),
    oracle: Oracle | None = None,
    kinds: Kinds | None = None,
) -> Finding:
    """From the newest version on downwards, until one agrees with a sample.

    A version is tried with the samples that are published for it; if none agrees, with some of other versions,
    converted to it, and with exported models that use the operator, `witnesses`. What it agrees with is tried with
    other attributes, as onnxruntime takes them (`oracle`), and with other shapes and types (`kinds`).
    """
    found = Finding()
    for version in reversed([v for v in schemas.versions(*op) if v <= newest]):
        stamp = min(newest, next((v - 1 for v in schemas.versions(*op) if v > version), newest))
        own = [c for c in samples if schemas.since(*op, opsets(c.model).get(op[0], 1)) == version]
        tried = [_stamp(sample, op[0], stamp) for sample in own]
        outcomes = [_outcome(worker, sample) for sample in tried]
        if not any(verdict.agrees for verdict, _, _ in outcomes):
            for others in ([c for c in samples if c not in own], witnesses):
                more = list(islice(_convert_samples(op, others, stamp), _DERIVED))
                tried += more
                outcomes += [_outcome(worker, sample) for sample in more]
        if any(verdict.agrees for verdict, _, _ in outcomes):
            found.newest = version
            found.verdicts = Counter(verdict.status for verdict, _, _ in outcomes)
            found.constant = _find_needed(outcomes)
            if oracle is not None:
                pairs = list(zip(tried, outcomes, strict=True))
                agreed = [make_base(sample, bound) for sample, (verdict, bound, _) in pairs if verdict.agrees]
                failing = [sample for sample, (verdict, _, _) in pairs if not verdict.agrees]
                agrees: Callable[[Sample], bool] = lambda sample: worker.run(sample.task()).agrees  # noqa: E731
                plain = [base for base in agreed if agrees(bind(base.sample, base.bound))]  # without casts of results
                seen = forms.measure_forms(plain, failing, agrees, oracle)
                found.refused, found.unused = seen.refused, seen.unused
                bound = [bind(base.sample, base.bound) for base in plain]
                found.oldest = _oldest(op, version, bound, agrees)
                if kinds is not None:
                    called = shapes.measure_shapes(bound, agrees, oracle.runtime)
                    found.called = replace(called, types=kinds.measure(agreed))
                else:
                    for base in plain:
                        _add_call(found, base.sample)
            return found
        if outcomes:
            found.missing = version
    return found


def _is_float(value: object) -> bool:
    return str(getattr(value, "dtype", "")) == "float32"


def spread(samples: list[Sample], count: int) -> list[Sample]:
    """So many samples, evenly from the first to the last, as published ones are sorted by what they show."""
    step = max(len(samples) / count, 1)
    return [samples[int(place * step)] for place in range(min(count, len(samples)))]


def _oldest(op: Op, newest: int, samples: list[Sample], agrees: Callable[[Sample], bool]) -> int:
    """The version of an operator above the newest one at which no sample agrees any more; 0 if there is none.

    Samples of floats tell: others may be converted to calls that nobody makes.
    """
    samples = [sample for sample in samples if any(_is_float(value) for value in sample.feeds.values())]
    above = newest
    for version in reversed([v for v in schemas.versions(*op) if v < newest]):
        made = list(islice(_convert_samples(op, samples, above - 1), _OLDER))
        if made and not any(map(agrees, made)):
            return above
        above = version
    return 0


def add(found: Finding, sample: Sample, worker: Worker) -> None:
    """What a call of a layer or in a model adds to what is known of an operator, if the backend agrees with it."""
    if not _outcome(worker, sample)[0].agrees:
        return
    version = schemas.since(*sample.op, opsets(sample.model).get(sample.op[0], 1)) or 0
    if version > found.newest:
        found.newest = version
        found.missing = found.missing if found.missing > version else 0
    _add_call(found, sample)


def _add_call(found: Finding, sample: Sample) -> None:
    """Add the rank and the types of a sample with which the backend agreed."""
    first = next(iter(sample.feeds.values()), None)
    held = found.called or MeasuredCall()
    rank = getattr(first, "ndim", None)
    ranks = set(held.ranks) if rank is None else {*held.ranks, rank}
    types = add_types_of(held.types, sample, found.newest)
    failed = tuple(rank for rank in held.failed if rank not in ranks)
    found.called = MeasuredCall(tuple(sorted(ranks)), held.symbolic, types, failed)


def _castable(worker: Worker, missing: Iterable[str]) -> list[str]:
    """The types that survive a cast there and back."""
    found = (kind for kind in ELEMENT_TYPES if kind != _UNDEFINED and kind not in missing)
    return [kind for kind in found if any(worker.run(task).agrees for task in _casts(kind))]


def _casts(kind: str) -> Iterator[Task]:
    """The models of `tasks.holding` in which a type is cast to."""
    return (task for task in tasks.holding(kind) if b"DequantizeLinear" not in task.model)


def _convert_samples(op: Op, samples: Iterable[Sample], stamp: int) -> Iterator[Sample]:
    """Samples at another opset, as far as they still use the operator there."""
    for sample in samples:
        model = convert.convert_model(sample.model, {op[0]: stamp}).model
        if model is not None and _node(model, op) is not None:
            model.ir_version = min(model.ir_version, sample.model.ir_version)
            yield replace(sample, op=op, model=model)


def _node(model: ModelProto, op: Op) -> NodeProto | None:
    return next((n for n in model.graph.node if (normalize_domain(n.domain), n.op_type) == op), None)


def _stamp(sample: Sample, domain: str, stamp: int) -> Sample:
    model = ModelProto()
    model.CopyFrom(sample.model)
    model.ir_version = min(model.ir_version, schemas.ir_version(domain, stamp))
    for entry in model.opset_import:
        if normalize_domain(entry.domain) == domain:
            entry.version = stamp
    return replace(sample, model=model)


Outcome = tuple[Verdict, frozenset[str], frozenset[str]]


def _outcome(worker: Worker, sample: Sample) -> Outcome:
    """A verdict, the formal names of the inputs that were constants for it, and of those that were not.

    A sample is tried as it is published, then with constants for inputs, as few as will do; and then all that again
    with its results cast to the type that they should have, as a reader inside a larger model would see them.
    """
    verdict = worker.run(sample.task())
    if verdict.agrees:
        return verdict, frozenset(), _formals(sample, _find_filled(sample))
    for variant in () if verdict.status == "hung" else (sample, _cast(sample)):
        for bound in [set[str](), *_bindings(sample)]:
            if worker.run(bind(variant, bound).task()).agrees:
                needed = _fewest(worker, variant, bound)
                return Verdict("agrees"), _formals(sample, needed), _formals(sample, _find_filled(sample) - needed)
    return verdict, frozenset(), frozenset()


def _find_filled(sample: Sample) -> set[str]:
    """The inputs that hold anything: what an empty one holds is known from its type."""
    return {name for name, value in sample.feeds.items() if getattr(value, "size", 1)}


def _fewest(worker: Worker, sample: Sample, bound: set[str]) -> set[str]:
    """Which of the inputs have to be constants for the sample to agree."""
    for name in sorted(bound):
        if worker.run(bind(sample, bound - {name}).task()).agrees:
            bound = bound - {name}
    return bound


def _cast(sample: Sample) -> Sample:
    """The sample with each of its tensors cast to the type that it has already, int64 by way of int32."""
    import onnx.helper

    model = ModelProto()
    model.CopyFrom(sample.model)
    for value in model.graph.output:
        elem_type = value.type.tensor_type.elem_type
        if elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
            continue
        held = f"{value.name}/held"
        rename(model.graph.node, {value.name: held})
        if elem_type == TensorProto.INT64:
            model.graph.node.append(onnx.helper.make_node("Cast", [held], [f"{held}/32"], to=TensorProto.INT32))
            held = f"{held}/32"
        model.graph.node.append(onnx.helper.make_node("Cast", [held], [value.name], to=elem_type))
    return replace(sample, model=model)


def _bindings(sample: Sample) -> list[set[str]]:
    """Inputs to make constants of, in turn: parameters; all but the first; all."""
    tensors = {name for name, value in sample.feeds.items() if hasattr(value, "dtype")}
    choices = [parameters(sample), tensors - {next(iter(sample.feeds), "")}, tensors]
    return [c for i, c in enumerate(choices) if c and c not in choices[:i]]


def _formals(sample: Sample, names: set[str]) -> frozenset[str]:
    """What the operator's text calls the inputs that are bound to `names`."""
    node = _node(sample.model, sample.op)
    schema = schemas.schema(*sample.op, opsets(sample.model).get(sample.op[0], 1))
    held = [(schema.input(i), name) for i, name in enumerate(node.input)] if schema and node is not None else []
    return frozenset(formal.name for formal, name in held if formal is not None and name in names)


def _find_needed(outcomes: list[Outcome]) -> frozenset[str]:
    """The inputs that were constants whenever a sample agreed, and never were not."""
    agreed = [(bound, free) for verdict, bound, free in outcomes if verdict.agrees]
    return frozenset().union(*(bound for bound, _ in agreed)) - frozenset().union(*(free for _, free in agreed))


def _newest(candidates: Iterable[int], attempt: Callable[[int], Verdict]) -> int:
    return next((version for version in candidates if attempt(version).agrees), 0)


def text(backend: str, release: str, found: ProbedBackend, ops: Collection[str] = (), *, compiler: bool = False) -> str:
    """The target file that says what was measured, of `ops` alone if there are any.

    For a `compiler` all is computed that constants decide: some read weights and bounds as initializers only.
    """
    lacks, since, partly = [], [], []
    limits: list[dict[str, object]] = []
    for (domain, op), finding in sorted(found.findings.items()):
        name = _name(domain, op)
        if finding.missing:
            lacks.append(f"{name}-{finding.missing}" if finding.newest else name)
        if not finding.newest:
            continue
        if finding.constant:
            limits.append({"ops": [name], "constant": sorted(finding.constant), "why": "no test agrees otherwise"})
        if finding.oldest:
            since.append(f"{name}-{finding.oldest}")
        for attribute, values in sorted(finding.refused.items()):
            refused: list[Value] = list(values)
            limits.append({"ops": [name], "attribute": attribute, "refuses": refused, "why": "no test agrees"})
        if finding.unused:
            limits.append({"ops": [name], "unused": list(finding.unused), "why": "no test agrees otherwise"})
        agreed, total = finding.verdicts["agrees"], sum(finding.verdicts.values())
        if agreed < total:
            partly.append(f"{name} {agreed}/{total}")
    facts: dict[str, object] = {"opset": found.opset, "ir": found.ir_version}
    if found.ml_opset:
        facts["ml"] = found.ml_opset
    if found.static_shapes:
        facts["static_shapes"] = True
    if found.functions:
        facts["functions"] = True
    if found.folds_sizes:
        facts["folds_sizes"] = True
    if compiler:
        facts["folded"] = True
    tried = {op for op, finding in found.findings.items() if finding.newest or finding.missing}
    newest = {"": found.opset, "ai.onnx.ml": found.ml_opset}
    known = {
        (domain, op): schemas.schema(domain, op, v) for domain, v in newest.items() for op in schemas.operators(domain)
    }
    untried = sorted(
        _name(*op)
        for op, schema in known.items()
        if schema and not schema.deprecated and op not in tried and (not ops or op[1] in ops)
    )
    remarks = [
        *_remark("Of these operators alone: ", sorted(ops)),
        *_remark("Operators of which only some published tests agree: ", partly),
        *_remark("Operators without a published test of one node, or a random result: ", untried),
    ]
    facts["lacks_types"] = [kind.removeprefix("tensor(").removesuffix(")") for kind in found.lacks_types]
    facts["lacks"] = lacks
    if since:
        facts["since"] = since
    facts["measured"] = {
        _name(*op): backends.spell_call(finding.called)
        for op, finding in sorted(found.findings.items())
        if finding.newest and finding.called is not None
    }
    tests = f"the node tests of onnx {importlib.metadata.version('onnx')}"
    source = f"measured by `opshift probe` with {backend} {release} and {tests}"
    version = ".".join(release.split(".")[:2])
    return backends.write(backend, f"{backend}, as installed by pip", source, version, facts, limits, remarks)


def _name(domain: str, op: str) -> str:
    return f"{domain}::{op}" if domain else op


def _remark(title: str, names: list[str]) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(title + ", ".join(names) + ".", 118)] if names else []
