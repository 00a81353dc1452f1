"""Calls of single operators with values for their inputs: those that ONNX published, and a table of what it did not."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
from onnx import AttributeProto, NodeProto, TypeProto
from opshift.passes import schemas

from tests.conformance.cases import CACHE, OLD_WHEELS, Case, all_cases
from tests.conformance.draws import is_random

Key = tuple[str, str, int]  # domain, operator, the opset that its version begins with
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

    def __init__(self, cases: Iterable[Case]):
        self.calls: dict[Key, list[Call]] = defaultdict(list)
        self.words: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        self.numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
        for case in cases:
            if (call := _single(case)) is not None:
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
            if held.type == AttributeProto.INT:
                self.numbers[call.op, held.name].add(held.i)
            if held.type == AttributeProto.STRING and held.s not in words:
                words.append(held.s)

    def draw(self, rng: random.Random, key: Key) -> Call | None:
        """A call of a version of an operator, at one of its opsets; of a neighbouring version where none is known."""
        domain, op, since = key
        others = sorted((k for k in self.calls if k[:2] == key[:2]), key=lambda k: abs(k[2] - since))
        source = key if key in self.calls else next(iter(others), None)
        if source is None:
            return None
        opsets = lifetime(domain, op, since)
        return rng.choice(self.calls[source]).at(rng.choice(opsets)) if opsets else None


def published() -> Corpus:
    """The calls of all published cases, from a file once they were collected."""
    kept = CACHE.parent / f"random-calls-{onnx.__version__}-{len(OLD_WHEELS)}.pickle"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(Corpus(all_cases())))
    found: Corpus = pickle.loads(kept.read_bytes())
    return found


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
