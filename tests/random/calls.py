"""Calls of single operators with values for their inputs: those that ONNX published, and a table of what it did not."""

from __future__ import annotations

import hashlib
import pickle
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
from onnx import AttributeProto, NodeProto, TypeProto
from opshift.passes import goals
from opshift.passes.model import schemas

from tests.conformance.cases import CACHE, OLD_WHEELS, Case, all_cases
from tests.conformance.draws import is_random
from tests.random.values import tensor, type_of

Key = tuple[str, str, int]  # domain, operator, the opset that its version begins with


class Trait(NamedTuple):
    """An attribute that a call is to have; a word that it is to be, if any."""

    attribute: str = ""
    word: bytes = b""

    def of(self, call: Call) -> bool:
        return any(a.name == self.attribute and self.word in (b"", a.s) for a in call.attributes)


ANY = Trait()
LARGEST = 4000  # elements of an input: larger ones show nothing more


@dataclass(frozen=True)
class Call:
    """A node with values for its inputs, None for one that is left out; `types` of those that are no tensors."""

    domain: str
    op: str
    opset: int
    attributes: tuple[AttributeProto, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[bool, ...]
    types: tuple[TypeProto | None, ...] = ()

    @property
    def schema(self) -> onnx.defs.OpSchema:
        return onnx.defs.get_schema(self.op, self.opset, self.domain)

    @property
    def key(self) -> Key:
        return self.domain, self.op, self.schema.since_version

    def node(self, inputs: Iterable[str], outputs: Iterable[str]) -> NodeProto:
        made = NodeProto(op_type=self.op, domain=self.domain, input=inputs, output=outputs)
        made.attribute.extend(self.attributes)
        return made

    def at(self, opset: int) -> Call:
        return replace(self, opset=opset)


def lifetime(domain: str, op: str, since: int) -> range:
    """The opsets at which the version of an operator that begins with `since` is the one in force."""
    later = [v for v in schemas.versions(domain, op) if v > since]
    return range(since, min(later, default=schemas.latest(domain) + 1))


class Corpus:
    """The calls of cases by operator and version, and the attribute values that occur in them."""

    def __init__(self, cases: Iterable[Case], more: Iterable[Call] = ()):
        self.calls: dict[Key, list[Call]] = defaultdict(list)
        self.words: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        self.numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.written: dict[tuple[str, str], list[AttributeProto]] = defaultdict(list)
        for case in cases:
            if (call := _single(case)) is not None:
                self.add(call)
        for call in more:
            self.add(call)
        self.known: list[Key] = sorted(
            (s.domain, s.name, s.since_version)
            for s in onnx.defs.get_all_schemas_with_history()
            if s.domain in ("", "ai.onnx.ml") and (s.domain, s.name) in self._operators()
        )

    def _operators(self) -> set[tuple[str, str]]:
        return {key[:2] for key in self.calls}

    def add(self, call: Call) -> None:
        """Keep a call, and learn its words."""
        self.calls[call.key].append(call)
        for held in call.attributes:
            words = self.words[call.op, held.name]
            if held not in self.written[call.op, held.name][-20:]:
                self.written[call.op, held.name].append(held)
            if held.type == AttributeProto.INT:
                self.numbers[call.op, held.name].add(held.i)
            if held.type == AttributeProto.STRING and held.s not in words:
                words.append(held.s)

    def draw(self, rng: random.Random, key: Key, trait: Trait = ANY) -> Call | None:
        """A call of a version of an operator, at one of its opsets; of a neighbouring version where none is known.

        One that has a trait is preferred where that is asked for.
        """
        domain, op, since = key
        others = sorted((k for k in self.calls if k[:2] == key[:2]), key=lambda k: abs(k[2] - since))
        source = key if key in self.calls else next(iter(others), None)
        opsets = lifetime(domain, op, since)
        if source is None or not opsets:
            return None
        calls = self.calls[source]
        if trait.attribute and rng.random() < 0.7:
            calls = [c for c in calls if trait.of(c)] or calls
        return rng.choice(calls).at(rng.choice(opsets))


def published() -> Corpus:
    """The calls of all published cases, from a file once they were collected."""
    from tests.random.rare import rare

    kept = CACHE.parent / f"random-calls-{onnx.__version__}-{len(OLD_WHEELS)}-{_written_now()}.pickle"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = Corpus(all_cases(), rare())
        made.calls.update(moves(made))
        kept.write_bytes(pickle.dumps(made))
    found: Corpus = pickle.loads(kept.read_bytes())
    return found


def _written_now() -> str:
    """What changes when the collecting does."""
    folder = Path(__file__).parent
    held = b"".join((folder / name).read_bytes() for name in ("calls.py", "rare.py"))
    return hashlib.sha256(held).hexdigest()[:8]


def moves(corpus: Corpus) -> dict[Key, list[Call]]:
    """Calls for the versions that no case calls: those of the nearest version, converted."""
    made: dict[Key, list[Call]] = {}
    for key in corpus.known:
        if key in corpus.calls or not lifetime(*key):
            continue
        others = sorted((k for k in corpus.calls if k[:2] == key[:2]), key=lambda k: abs(k[2] - key[2]))
        moved = [m for other in others for c in corpus.calls[other] if (m := _moved(c, lifetime(*key)[-1])) is not None]
        if moved:
            made[key] = moved[:40]
    return made


def _moved(call: Call, opset: int) -> Call | None:
    """A call as it is at another opset, where it stays one; what says how rather than what may become an attribute."""
    opsets = {"": call.opset} if not call.domain else {"": 17, call.domain: call.opset}
    names = [f"x{at}" if value is not None else "" for at, value in enumerate(call.inputs)]
    outputs = [f"y{at}" if named else "" for at, named in enumerate(call.outputs)]
    graph = onnx.GraphProto(name="g", node=[call.node(names, outputs)])
    held = dict(zip(names, call.inputs, strict=True))
    try:
        for at, (name, value) in enumerate(held.items()):
            if at and isinstance(value, np.ndarray) and value.ndim < 2:
                graph.initializer.append(tensor(value, name))
            elif name:
                kind = call.types[at] if at < len(call.types) else None
                graph.input.add(name=name, type=kind or type_of(value))
        for name in filter(None, outputs):
            graph.output.add(name=name)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*i) for i in opsets.items()])
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        found = goals.conversion({call.domain: opset}, None).run(model, None).model
    except Exception:
        return None
    if found is None:
        return None
    held |= {t.name: onnx.numpy_helper.to_array(t) for t in found.graph.initializer}
    nodes = [n for n in found.graph.node if n.op_type != "Constant" or call.op == "Constant"]
    if len(nodes) != 1 or nodes[0].op_type != call.op or any(n and n not in held for n in nodes[0].input):
        return None
    values = tuple(held[n] if n else None for n in nodes[0].input)
    kinds = {name: call.types[at] for at, name in enumerate(names) if at < len(call.types)}
    types = tuple(kinds.get(name) for name in nodes[0].input)
    return Call(
        call.domain, call.op, opset, tuple(nodes[0].attribute), values, tuple(map(bool, nodes[0].output)), types
    )


def _single(case: Case) -> Call | None:
    """The call of a case of a single node that draws nothing at random; None for others."""
    graph = case.model.graph
    if len(graph.node) != 1 or case.model.functions or is_random(case.model) or graph.sparse_initializer:
        return None
    node = graph.node[0]
    opset = next((i.version for i in case.model.opset_import if (i.domain or "") == node.domain), None)
    held = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer} | dict(case.inputs)
    types = {value.name: value.type for value in graph.input}
    if opset is None or schemas.since(node.domain, node.op_type, opset) is None:
        return None
    if any(name and name not in held for name in node.input):
        return None
    values = tuple(held[name] if name else None for name in node.input)
    if any(isinstance(v, np.ndarray) and v.size > LARGEST for v in values):
        return None
    kinds = tuple(types.get(n) if n and not isinstance(held[n], np.ndarray) else None for n in node.input)
    return Call(node.domain, node.op_type, opset, tuple(node.attribute), values, tuple(map(bool, node.output)), kinds)
