"""How two models differ: operators, attributes, weights, types and sizes, of nodes that compute the same value.

Nodes are matched by what they compute: the same operator with the same attributes, of the same values. The others are
matched by the name of what they make, and then by their order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from opshift.files import external
from opshift.jobs.outcome import text
from opshift.passes import progress
from opshift.passes.errors import InvalidModel
from opshift.passes.model import imports, tensor_data, tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    normalize_domain,
)
from opshift.passes.model.types import ELEMENTS, dims_of, elem_type_of, has_shape, type_text
from opshift.verification.regions import Body
from opshift.verification.side import Side
from opshift.verification.verdict import escape

_MOST = 4000  # nodes that are matched by their order
_SHOWN = 60  # characters of an attribute
_COMPARED = 1 << 26  # bytes of weights whose largest difference is looked for


@dataclass(frozen=True)
class NodePair:
    """Two nodes that stand for each other, and differ.

    Attributes:
        op: the operator of the first.
        before, after: their names, or their first outputs'.
        how: what differs, one sentence each.
    """

    op: str
    before: str
    after: str
    how: tuple[str, ...]


@dataclass(frozen=True)
class Lone:
    """A node that the other model has nothing for."""

    op: str
    name: str


@dataclass(frozen=True)
class Difference:
    """How two models differ.

    Attributes:
        before, after: what they are called.
        same: the number of nodes with the same operator, attributes and weights.
        general: what differs of the models as a whole, such as opsets, and inputs and outputs.
        changed: nodes that correspond, and differ.
        gone: nodes that only the first model has.
        added: nodes that only the second model has.
    """

    before: str
    after: str
    same: int
    general: tuple[str, ...]
    changed: tuple[NodePair, ...]
    gone: tuple[Lone, ...]
    added: tuple[Lone, ...]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.general or self.changed or self.gone or self.added)

    @property
    def lines(self) -> list[str]:
        """List the differences as `opshift diff` prints them; nodes that differ in the same way share a line."""
        if not self:
            return [f"the same: {self.same} nodes, with the same weights"]
        lines = [*self.general, f"nodes alike: {self.same}"]
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for pair in self.changed:
            alike.setdefault((pair.op, pair.how), []).append(pair.before)
        for (op, how), names in alike.items():
            lines.append(f"changed: {_count_nodes(op, names)}: {'; '.join(how)}")
        for what, nodes in ((f"only in {self.before}", self.gone), (f"only in {self.after}", self.added)):
            by_op: dict[str, list[str]] = {}
            for node in nodes:
                by_op.setdefault(node.op, []).append(node.name)
            lines += [f"{what}: {_count_nodes(op, names)}" for op, names in by_op.items()]
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return "".join(f"<p>{escape(line)}</p>" for line in self.lines)


def _count_nodes(op: str, names: Sequence[str]) -> str:
    shown = " ".join(f'"{name}"' for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{f'{len(names)} x ' if len(names) > 1 else ''}{op} {shown}"


def difference(one: Side, other: Side, names: tuple[str, str]) -> Difference:
    """Compare two models node by node; weights are read where they lie. This is `opshift diff`."""
    sides = _Nodes(one), _Nodes(other)
    pairs = _pair_nodes(*sides)
    by_first = dict(pairs)
    changed, same = [], 0
    for a, b in sorted(pairs):
        how = tuple(_compare_nodes(*sides, a, b, by_first))
        same += not how
        if how:
            changed.append(NodePair(sides[0].op(a), sides[0].name(a), sides[1].name(b), how))
    matched = {a for a, _ in pairs}, {b for _, b in pairs}
    alone = [
        tuple(Lone(side.op(k), side.name(k)) for k in side.all if k not in places)
        for side, places in zip(sides, matched, strict=True)
    ]
    general = tuple(_compare_models(one.model, other.model))
    return Difference(*names, same, general, tuple(changed), alone[0], alone[1])


class _Nodes:
    """The nodes of a main graph without constants, and hashes of what each computes."""

    def __init__(self, side: Side):
        body = Body(side)
        self.side, self.pieces, self.constants = side, body.pieces, body.constants
        nodes = self.pieces.nodes
        self.all = [k for k, node in enumerate(nodes) if not (node.output and node.output[0] in self.constants)]
        self.signatures = self._hash_nodes()

    def op(self, k: int) -> str:
        """Name the operator of a node, with its domain."""
        node = self.pieces.nodes[k]
        domain = normalize_domain(node.domain)
        return f"{text(domain)}::{text(node.op_type)}" if domain else text(node.op_type)

    def name(self, k: int) -> str:
        node = self.pieces.nodes[k]
        return text(node.name or next(filter(None, node.output), ""))

    def _hash_nodes(self) -> dict[int, bytes]:
        """Compute a hash of what each node computes: of its operator, attributes, constants, and the nodes that it
        reads. Runs before nodes are paired: equal hashes are pairs.
        """
        signatures: dict[str, bytes] = {name: name.encode() for name in self.pieces.given}
        by_node: dict[int, bytes] = {}
        weights = list(self.constants.items())
        for place, (name, tensor) in enumerate(weights):
            if place % 64 == 0:
                progress.tell("read weights", place, len(weights))
            signatures[name] = digest(tensor, self.side.folder)
        for k in self.all:
            node = self.pieces.nodes[k]
            hasher = hashlib.sha256(repr((self.op(k), node.overload, len(node.output))).encode())
            for attribute in sorted(node.attribute, key=lambda each: each.name):
                hasher.update(attribute.SerializeToString(deterministic=True))
            reads = [*node.input, *(name for name in self.pieces.reads(k) if name not in node.input)]
            for name in reads:
                hasher.update(signatures.get(name, b"?") if name else b"-")
                hasher.update(b"|")
            by_node[k] = hasher.digest()
            for index, name in enumerate(node.output):
                signatures[name] = by_node[k] + bytes([index % 256])
        return by_node


def digest(tensor: TensorProto, folder: str | None) -> bytes:
    """Compute a hash of the type, dims and data of a tensor.

    Used to find equal weights.
    """
    hasher = hashlib.sha256(repr((tensor.data_type, list(tensor.dims))).encode())
    try:
        loaded = tensor_data.load_or_raise(tensor, folder) if tensor_data.is_stored(tensor) else tensor
    except (InvalidModel, OSError):  # not there: what is said of its place tells it from others
        hasher.update(b"".join(sorted(entry.SerializeToString() for entry in tensor.external_data)))
        return hasher.digest()
    raw = external.raw(loaded)
    hasher.update(raw if raw is not None else b"\0".join(loaded.string_data))
    return hasher.digest()


# --- which nodes stand for each other --------------------------------------------------------------------------


def _pair_nodes(one: _Nodes, other: _Nodes) -> list[tuple[int, int]]:
    """Pair nodes: by what they compute, by the names of their outputs, and by their order.

    Runs before the pairs are compared.
    """
    waiting: dict[bytes, list[int]] = {}
    for b in reversed(other.all):
        waiting.setdefault(other.signatures[b], []).append(b)
    pairs = {a: waiting[sign].pop() for a in one.all if waiting.get(sign := one.signatures[a])}
    taken = set(pairs.values())
    for a in (a for a in one.all if a not in pairs):
        for name in filter(None, one.pieces.nodes[a].output):
            maker = other.pieces.makers.get(name)
            if maker in other.signatures and maker not in taken and one.op(a) == other.op(maker):
                pairs[a] = maker
                taken.add(maker)
                break
    rest = [a for a in one.all if a not in pairs], [b for b in other.all if b not in taken]
    if all(rest) and max(map(len, rest)) <= _MOST:
        ops = [one.op(a) for a in rest[0]], [other.op(b) for b in rest[1]]
        for start, begin, size in SequenceMatcher(None, *ops, autojunk=False).get_matching_blocks():
            pairs.update(zip(rest[0][start : start + size], rest[1][begin : begin + size], strict=True))
    return list(pairs.items())


# --- how they differ ---------------------------------------------------------------------------------------------


def _compare_nodes(one: _Nodes, other: _Nodes, a: int, b: int, pairs: Mapping[int, int]) -> Iterator[str]:
    """List differences between two paired nodes: in attributes, constant inputs, or the nodes that they read.

    Runs for each pair.
    """
    if one.signatures[a] == other.signatures[b]:
        return
    first, second = one.pieces.nodes[a], other.pieces.nodes[b]
    yield from _compare_attributes(first, second)
    for place in range(max(len(first.input), len(second.input))):
        names = [node.input[place] if place < len(node.input) else "" for node in (first, second)]
        constants = one.constants.get(names[0]), other.constants.get(names[1])
        if constants[0] is not None and constants[1] is not None:
            yield from _compare_weights(place, constants[0], one.side, constants[1], other.side)
        elif constants != (None, None) or bool(names[0]) != bool(names[1]):
            sources = [_source(side, name) for side, name in zip((one, other), names, strict=True)]
            yield f"input {place}: {sources[0]} -> {sources[1]}"
        elif names[0] and not _is_one_value(one, other, (names[0], names[1]), pairs):
            yield f"input {place}: another value"


def _source(side: _Nodes, name: str) -> str:
    return "left out" if not name else "a constant" if name in side.constants else "computed"


def _is_one_value(one: _Nodes, other: _Nodes, names: tuple[str, str], pairs: Mapping[int, int]) -> bool:
    """Whether an input of a node stands for the same value in both models.

    The values are then outputs of paired nodes, or graph inputs of one name.
    """
    a, b = names
    makers = one.pieces.makers.get(a), other.pieces.makers.get(b)
    if makers[0] is None or makers[1] is None:
        return makers == (None, None) and a == b
    outputs = list(one.pieces.nodes[makers[0]].output), list(other.pieces.nodes[makers[1]].output)
    return pairs.get(makers[0]) == makers[1] and outputs[0].index(a) == outputs[1].index(b)


def _compare_attributes(first: NodeProto, second: NodeProto) -> Iterator[str]:
    """List attributes that differ between two nodes. Runs for each pair of nodes."""
    attributes = [{each.name: each for each in node.attribute} for node in (first, second)]
    for name in sorted(attributes[0].keys() | attributes[1].keys()):
        one, other = attributes[0].get(name), attributes[1].get(name)
        if (
            one is None
            or other is None
            or one.SerializeToString(deterministic=True) != other.SerializeToString(deterministic=True)
        ):
            shown = ["none" if each is None else _shorten(attribute_value(each)) for each in (one, other)]
            yield f"{text(name)} {shown[0]} -> {shown[1]}" if shown[0] != shown[1] else f"another {text(name)}"


def _shorten(value: Any) -> str:
    """Write an attribute's value in at most a few dozen characters; tensors and graphs by their kind.

    Used in the lines that `diff` prints.
    """
    if hasattr(value, "DESCRIPTOR"):
        return f"a {value.DESCRIPTOR.name.removesuffix('Proto').lower()}"
    shown = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _compare_weights(place: int, a: TensorProto, one: Side, b: TensorProto, other: Side) -> Iterator[str]:
    """Say how two constants differ: in type or shape, or in values and by how much. Runs for each pair of nodes."""
    if digest(a, one.folder) == digest(b, other.folder):
        return
    kinds = [_describe_tensor(tensor.data_type, list(tensor.dims)) for tensor in (a, b)]
    if kinds[0] != kinds[1]:
        yield f"input {place}: {kinds[0]} -> {kinds[1]}"
        return
    gap = _measure_gap(a, one, b, other)
    yield f"other values of input {place} ({kinds[0]}{gap})"


def _measure_gap(a: TensorProto, one: Side, b: TensorProto, other: Side) -> str:
    """Measure the largest difference between two constants of one type and shape; empty for strings and for very
    large ones. Runs for constants that are not equal.
    """
    if a.data_type == TensorProto.STRING or tensor_data.nbytes(a) > _COMPARED:
        return ""
    import numpy as np

    try:
        pair = [
            tensors.array(tensor_data.load_or_raise(tensor, side.folder) if tensor_data.is_stored(tensor) else tensor)
            for tensor, side in ((a, one), (b, other))
        ]
    except (InvalidModel, OSError):
        return ", data file missing"
    if pair[0] is None or pair[1] is None or not pair[0].size:
        return ""
    with np.errstate(all="ignore"):
        gap = np.abs(pair[0].astype(np.float64) - pair[1].astype(np.float64))
    return f", largest difference {np.nanmax(gap):.2g}" if np.isfinite(gap).any() else ""


# --- the models as a whole ---------------------------------------------------------------------------------------


def _compare_models(one: ModelProto, other: ModelProto) -> Iterator[str]:
    """List differences between two models beside their nodes: opsets, IR version, inputs, outputs, functions."""
    opsets = imports.opsets(one), imports.opsets(other)
    for domain in sorted(opsets[0].keys() | opsets[1].keys()):
        versions = [str(types.get(domain, "none")) for types in opsets]
        if versions[0] != versions[1]:
            yield f"opset {text(domain) or 'ai.onnx'}: {' -> '.join(versions)}"
    if one.ir_version != other.ir_version:
        yield f"IR version: {one.ir_version} -> {other.ir_version}"
    for what, before, after in (
        ("input", one.graph.input, other.graph.input),
        ("output", one.graph.output, other.graph.output),
    ):
        types = [{value.name: describe_type(value.type) for value in values} for values in (before, after)]
        for name in dict.fromkeys([*types[0], *types[1]]):
            kinds = [each.get(name, "none") for each in types]
            if kinds[0] != kinds[1]:
                yield f"{what} {text(name)}: {' -> '.join(kinds)}"
        if list(types[0]) != list(types[1]) and set(types[0]) == set(types[1]):
            yield f"{what}s in another order"
    yield from _compare_declared(one.graph.value_info, other.graph.value_info)
    functions = [
        {(f.domain, f.name): f.SerializeToString(deterministic=True) for f in m.functions} for m in (one, other)
    ]
    for domain, name in sorted(functions[0].keys() | functions[1].keys()):
        if functions[0].get((domain, name)) != functions[1].get((domain, name)):
            there = [(domain, name) in types for types in functions]
            yield f"function {text(domain)}::{text(name)}: {'other nodes' if all(there) else _alone(there)}"


def _alone(there: Sequence[bool]) -> str:
    return "only in the first" if there[0] else "only in the second"


def _compare_declared(one: Sequence[ValueInfoProto], other: Sequence[ValueInfoProto]) -> Iterator[str]:
    """Count values of one name that have other types or sizes declared in the second model."""
    types = {value.name: describe_type(value.type) for value in one}
    changed = Counter(
        f"{types[value.name]} -> {describe_type(value.type)}"
        for value in other
        if value.name in types and types[value.name] != describe_type(value.type)
    )
    if changed:
        first, count = next(iter(changed)), sum(changed.values())
        yield f"declared types of inner values: {first}{f' and {count - 1} more' if count > 1 else ''}"


def describe_type(value_type: TypeProto) -> str:
    """Write a type as ONNX text does, such as `float[N,3]`. Used in the lines that `diff` prints."""
    if value_type.WhichOneof("value") != "tensor_type":
        return type_text(value_type) or "unknown"
    return _describe_tensor(elem_type_of(value_type), dims_of(value_type) if has_shape(value_type) else None)


def _describe_tensor(elem_type: int, dims: Sequence[Any] | None) -> str:
    element = ELEMENTS[elem_type].name if elem_type in ELEMENTS else "unknown"
    return element if dims is None else f"{element}[{','.join('?' if dim is None else str(dim) for dim in dims)}]"
