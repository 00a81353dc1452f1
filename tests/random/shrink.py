"""Makes a finding small: fewer nodes, outputs, attributes, sizes, a nearer opset, as long as the same goes wrong."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx import AttributeProto, ModelProto

from tests.random.engines import Engines
from tests.random.inside import copied, plain, pruned, unread
from tests.random.models import Source, valid
from tests.random.report import script
from tests.random.values import resized, tensor
from tests.random.verbs import Verb
from tests.random.verdict import CRASHED, Judge, Verdict
from tests.random.worker import flat
from tests.runtime import every_node, opset

SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """What went wrong with what was done to a model."""

    source: Source
    verb: Verb
    verdict: Verdict

    @property
    def raw(self) -> tuple[str, ...]:
        """What findings have in common that need not all be made small."""
        return (*self.key, re.sub(r"[\d.]+|\"[^\"]*\"", "", self.verdict.why)[:80])

    @property
    def key(self) -> tuple[str, ...]:
        """What findings of one cause have in common, once they are small."""
        model = self.source.model
        bodies = [model.graph.node, *(f.node for f in model.functions)]
        ops = sorted({node.op_type for body in bodies for node in every_node(body) if node.op_type != "Constant"})
        empty = any(isinstance(v, np.ndarray) and not v.size for v in self.source.feeds.values())
        where = "function" if model.functions else "graph"
        (name, args), *_ = self.verb.steps
        way = "up" if name == "convert" and args[0] and max(args[0].values()) > opset(model) else ""
        if self.verdict.status == CRASHED:
            ops = [re.sub(r"^.* (\S+)$", r"\1", self.verdict.why)]
        return self.verdict.status, f"{name} {way}", where, "empty" if empty else "", *ops

    @property
    def headline(self) -> str:
        status, kind, where, empty, *ops = self.key
        return f"{status:8} {kind:12} {where} {empty} {'+'.join(ops[:6])}: {self.verb}: {self.verdict.why[:160]}"

    def write(self, folder: Path, number: int) -> None:
        """Leave a script that shows it."""
        folder.mkdir(parents=True, exist_ok=True)
        status, kind, _, _, *ops = self.key
        name = re.sub(r"\W+", "_", f"{number:03}_{status}_{kind}_{'_'.join(ops[:3])}")
        (folder / f"{name}.py").write_text(script(self.source, self.verb, self.verdict), encoding="utf-8")


def shrunk(finding: Finding, engines: Engines, seconds: float = SECONDS) -> Finding:
    """The smallest finding of the same kind that is come by in some seconds."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _candidates(finding, engines):
            if time.monotonic() > end:
                break
            smaller = _still(finding, candidate, engines)
            if smaller is not None:
                finding, progress = smaller, True
                break
    return finding


def _still(finding: Finding, candidate: tuple[Source, Verb], engines: Engines) -> Finding | None:
    source, verb = candidate
    if not valid(source.model):
        return None
    judge = Judge(engines, source)
    if not judge.sound:
        return None
    verdict = judge.judge(verb)
    if verdict.status != finding.verdict.status:
        return None
    if verdict.status == CRASHED and verdict.why.split(":")[0] != finding.verdict.why.split(":")[0]:
        return None
    return Finding(source, verb, verdict)


def _candidates(finding: Finding, engines: Engines) -> Iterator[tuple[Source, Verb]]:
    source, verb = finding.source, finding.verb
    for simpler in _verbs(verb, source.model):
        yield source, simpler
    for made in _sources(source, engines):
        yield made, verb


def _verbs(verb: Verb, model: ModelProto) -> Iterator[Verb]:
    if len(verb.steps) > 1:
        for step in verb.steps:
            yield replace(verb, steps=(step,))
    (name, args), *rest = verb.steps
    if name == "inline" and isinstance(args[0], tuple) and len(args[0]) > 1:
        for op in args[0]:
            yield replace(verb, steps=((name, ((op,), *args[1:])), *rest))
    if name == "inline" and len(args) > 1 and args[1] is not None:
        yield replace(verb, steps=((name, args[:1]), *rest))
    if name == "convert" and isinstance(args[0], dict) and "" in args[0]:
        own, target = opset(model), args[0][""]
        by = 1 if target > own else -1
        for nearer in range(own + by, target, by):
            yield replace(verb, steps=((name, ({"": nearer}, *args[1:])), *rest))


def _sources(source: Source, engines: Engines) -> Iterator[Source]:
    model = source.model
    bare = pruned(source, copied(model))
    if len(bare.model.graph.node) < len(model.graph.node):
        yield bare
    if len(model.graph.output) > 1:
        for at in range(len(model.graph.output)):
            made = copied(model)
            del made.graph.output[at]
            yield pruned(source, made)
    if model.functions:
        with contextlib.suppress(Exception):
            yield pruned(source, plain(flat(model)))
    yield from unread(source)
    yield from _lifted(source)
    yield from _cut(source, engines)
    yield from _without_attributes(source)
    yield from _smaller(source)


def _lifted(source: Source) -> Iterator[Source]:
    """A branch in the place of its If."""
    for at, node in enumerate(source.model.graph.node):
        for branch in (a.g for a in node.attribute if node.op_type == "If"):
            made = copied(source.model)
            nodes = list(made.graph.node)
            outs = [
                onnx.helper.make_node("Identity", [inner.name], [outer])
                for inner, outer in zip(branch.output, node.output, strict=True)
            ]
            del made.graph.node[:]
            made.graph.node.extend([*nodes[:at], *branch.node, *outs, *nodes[at + 1 :]])
            made.graph.initializer.extend(branch.initializer)
            yield pruned(source, made)


def _cut(source: Source, engines: Engines) -> Iterator[Source]:
    """Values that were computed are fed, and what computes them goes; values inside become the only output."""
    model = source.model
    if len(model.graph.node) < 2:
        return
    known = _all_values(source, engines)
    for name, (info, _value) in known.items():
        made = copied(model)
        if name not in {o.name for o in made.graph.output}:
            del made.graph.output[:]
            made.graph.output.append(info)
            yield pruned(source, made)
    for at, node in enumerate(model.graph.node):
        if not all(n in known for n in node.output if n) or any(o.name in node.output for o in model.graph.output):
            continue
        made = copied(model)
        del made.graph.node[at]
        made.graph.input.extend(known[n][0] for n in node.output if n)
        feeds = {**source.feeds, **{n: known[n][1] for n in node.output if n}}
        yield pruned(replace(source, feeds=feeds), made)


def _all_values(source: Source, engines: Engines) -> dict[str, tuple[onnx.ValueInfoProto, Any]]:
    """What the nodes of the graph yield, with types."""
    made = copied(source.model)
    try:
        inferred = onnx.shape_inference.infer_shapes(made)
    except Exception:
        return {}
    infos = {
        v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output) if v.type.tensor_type.HasField("shape")
    }
    wanted = [n for node in made.graph.node for n in node.output if n in infos]
    del made.graph.output[:]
    made.graph.output.extend(infos[n] for n in wanted)
    for engine in ("onnxruntime", "onnx.reference"):
        found, _ = engines.run(engine, made, source.feeds)
        if found is not None:
            return {n: (infos[n], v) for n, v in zip(wanted, found, strict=True) if isinstance(v, np.ndarray)}
    return {}


def _without_attributes(source: Source) -> Iterator[Source]:
    """Without an attribute, an optional input, a name for an output that nobody reads."""
    bodies = [source.model.graph.node, *(f.node for f in source.model.functions)]
    count = sum(1 for body in bodies for _ in every_node(body))
    for at in range(count):
        node = _nth(source.model, at)
        for index, held in enumerate(node.attribute):
            if held.type != AttributeProto.GRAPH:
                made = copied(source.model)
                del _nth(made, at).attribute[index]
                yield replace(source, model=made)
        for index in reversed(range(1, len(node.input))):
            if node.input[index] or index == len(node.input) - 1:
                made = copied(source.model)
                if index == len(node.input) - 1:
                    _nth(made, at).input.pop()
                else:
                    _nth(made, at).input[index] = ""
                yield pruned(source, made)
        read = {o.name for o in source.model.graph.output} | {n for b in bodies for i in every_node(b) for n in i.input}
        if len(node.output) > 1 and node.output[-1] not in read:
            made = copied(source.model)
            _nth(made, at).output.pop()
            yield pruned(source, made)


def _nth(model: ModelProto, at: int) -> Any:
    nodes = [n for body in (model.graph.node, *(f.node for f in model.functions)) for n in every_node(body)]
    return nodes[at]


def _smaller(source: Source) -> Iterator[Source]:
    """With a size that is 1 or 2 instead, or ordinary values."""
    held = {t.name: onnx.numpy_helper.to_array(t) for t in source.model.graph.initializer}
    arrays = {**held, **{k: v for k, v in source.feeds.items() if isinstance(v, np.ndarray)}}
    for old in sorted({d for v in arrays.values() for d in v.shape if d > 1}, reverse=True):
        for new in (1, 2):
            if new < old:
                yield _with_arrays(
                    source, {k: resized(v, [new if d == old else d for d in v.shape]) for k, v in arrays.items()}
                )
    for name, value in arrays.items():
        ordinary = np.arange(1, value.size + 1).reshape(value.shape)
        if value.dtype.kind == "f" and value.size and not np.array_equal(value, ordinary):
            yield _with_arrays(source, {**arrays, name: ordinary.astype(value.dtype)})


def _with_arrays(source: Source, arrays: dict[str, Any]) -> Source:
    made = copied(source.model)
    for at, held in enumerate(made.graph.initializer):
        made.graph.initializer[at].CopyFrom(tensor(arrays[held.name], held.name))
    for value in made.graph.input:
        if value.name in arrays and value.type.HasField("tensor_type"):
            for dim, size in zip(value.type.tensor_type.shape.dim, arrays[value.name].shape, strict=False):
                if dim.HasField("dim_value"):
                    dim.dim_value = size
    for value in made.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return replace(source, model=made, feeds={k: arrays.get(k, v) for k, v in source.feeds.items()})
