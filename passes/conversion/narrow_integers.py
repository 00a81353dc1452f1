"""Store int2, int4, uint2 and uint4 as int8 or uint8 where the target opset lacks them.

An operator that makes such a value, such as QuantizeLinear, makes the same number in the wider type; an operator that
reads or moves it, such as Reshape, accepts the wider type anyway. Floats cannot be stored so, as they would need
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change, Ledger
from opshift.passes.errors import CannotConvert, Refusal
from opshift.passes.model import schemas, tensor_data, tensors
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, bodies, subgraphs
from opshift.passes.model.types import ELEMENT_TYPES, type_text
from opshift.passes.records import dataclass
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.replace import take_over
from opshift.passes.rewrite.retyping import keep_low_bits, retype_constants

T = TensorProto
LARGEST = 2**31 - 1  # bytes: what a file without external data can hold


@dataclass(frozen=True)
class Narrow:
    """An integer type of 2 or 4 bits, its range, and the type that stores it."""

    name: str
    carrier: int
    lowest: int
    highest: int

    @property
    def since(self) -> int:
        """The opset at which the type begins."""
        return schemas.type_since(f"tensor({self.name})")


# By name, because the installed onnx may be too old to know them all.
NARROW = {
    ELEMENT_TYPES[f"tensor({narrow.name})"]: narrow
    for narrow in (
        Narrow("int4", T.INT8, -8, 7),
        Narrow("uint4", T.UINT8, 0, 15),
        Narrow("int2", T.INT8, -2, 1),
        Narrow("uint2", T.UINT8, 0, 3),
    )
    if f"tensor({narrow.name})" in ELEMENT_TYPES
}
WIDE = {T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64}
# Operators that read a narrow integer, or hand it on, and do the same with the type that carries it.
READERS = frozenset({"DequantizeLinear", "Flatten", "Identity", "If", "Loop", "Pad", "Reshape", "Scan", "Shape"})
READERS |= {"Size", "Squeeze", "TensorScatter", "Transpose", "Unsqueeze"}


def carry_narrow_integers(source: ModelProto, target: int, ledger: Ledger, folder: str | None) -> ModelProto:
    """Copy the model with 2- and 4-bit integers stored as bytes; returns `source` itself if the target has these types.

    Runs before nodes are converted below opset 21 or 25.

    Changes and refusals go to `ledger`. Graph inputs and outputs are not looked at: their types stay.
    """
    missing = {elem_type: n for elem_type, n in NARROW.items() if 0 < target < n.since <= _opset(source)}
    if not missing or not any(elem_type in missing for elem_type in _find_held_types(source)):
        return source
    return _IntegerRetyping(source, missing, ledger, folder).model


def _opset(holder: ModelProto | FunctionProto) -> int:
    return next((i.version for i in holder.opset_import if not normalize_domain(i.domain)), 0)


def _find_held_types(model: ModelProto) -> Iterator[int]:
    """List the element types of initializers, and the numbers in attributes that may be types."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from (tensor.data_type for tensor in body.initializer)
            yield from (sparse.values.data_type for sparse in body.sparse_initializer)
        for node in body.node:
            if node.op_type in MAKERS:
                yield from (number for a in node.attribute for number in (a.i, a.t.data_type))


class _IntegerRetyping:
    """Retypes `model`, a copy of the source; `Scope`s of the source, `before`, tell the types before the change."""

    def __init__(self, source: ModelProto, missing: dict[int, Narrow], ledger: Ledger, folder: str | None):
        self.model = ModelProto()
        self.model.CopyFrom(source)
        self._missing = missing
        self._ledger = ledger
        self._folder = folder
        self._before, self._after = Context(source, source, folder), Context(self.model, source, folder)
        self._local = {(normalize_domain(f.domain), f.name) for f in source.functions}
        self._opset = _opset(source)
        self._read = 0
        self._retype_body(self.model.graph, Scope(source.graph, self._before, self._opset, path=()), None)
        for old, new in zip(source.functions, self.model.functions, strict=True):
            self._opset = _opset(old)
            self._retype_body(new, Scope(old, self._before, self._opset), None)

    def _retype_body(self, body: Body, before: Scope, outer: Scope | None) -> None:
        """Retype a graph or function: its nodes, declared types, inputs, outputs and initializers.

        Calls itself for subgraphs.
        """
        scope = Scope(body, self._after, self._opset, outer, before.path)
        retyped: list[NodeProto] = []
        for index, proto in enumerate(body.node):
            retyped += self._retype_node(proto, index, before, scope)
        del body.node[:]
        body.node.extend(retyped)
        for value in body.value_info:
            self._retype_value(value)
        if isinstance(body, GraphProto):
            for value in (*body.input, *body.output):
                self._retype_value(value)
            for tensor in (*body.initializer, *(sparse.values for sparse in body.sparse_initializer)):
                if self.retype_tensor(tensor, tensor.name):
                    self._note(tensor.name, "value")

    def _retype_node(self, proto: NodeProto, index: int, before: Scope, scope: Scope) -> list[NodeProto]:
        """Retype one node by the entry of `MAKERS` for its operator; refuse an operator that computes with the
        missing types.
        """
        old = before.body.node[index]
        for (attribute, k, graph), (_, _, twin) in zip(subgraphs(proto), subgraphs(old), strict=True):
            self._retype_body(graph, before.nested_scope(twin, index, attribute, k), scope)
        domain = normalize_domain(proto.domain)
        original = Node(old, before, self._opset, Builder(before, self._opset))
        elem_types = {before.elem_type(name) for name in (*old.input, *old.output) if name}
        narrow = [self._missing[elem_type].name for elem_type in elem_types if elem_type in self._missing]
        try:
            if not domain and proto.op_type in MAKERS:
                node = Node(proto, scope, self._opset, Builder(scope, self._opset, proto))
                return self._replace(node, MAKERS[proto.op_type](node, original, self))
            if narrow and (domain, proto.op_type) not in self._local and (domain or proto.op_type not in READERS):
                raise CannotConvert(original, f"the node uses {narrow[0]}, which this opset does not have")
        except CannotConvert as refused:
            since = min(n.since for n in self._missing.values())
            name = proto.name or next(iter(proto.output), "")
            self._ledger.refusals.append(
                Refusal(name, proto.op_type, domain, since, False, refused.why, scope.function)
            )
        return [proto]

    def _replace(self, node: Node, result: str | None) -> list[NodeProto]:
        """Return the nodes that replace one, and note the change; the node itself if nothing changed."""
        if result is None and not node.touched:
            return [node.proto]
        self._note(node.name, node.op_type)
        return [node.proto] if result is None else take_over(node, result)

    def missing(self, elem_type: int) -> Narrow | None:
        """Look up a type that the target lacks; None for any other type."""
        return self._missing.get(elem_type)

    def _retype_value(self, value: Any) -> None:
        """Change a declared type to the wider one; refuse sequences and optionals of a missing type."""
        kind = value.type.tensor_type
        if kind.elem_type in self._missing:
            kind.elem_type = self._missing[kind.elem_type].carrier
        elif any(f"tensor({n.name})" in (type_text(value.type) or "") for n in self._missing.values()):
            self._refuse(value.name, f"it is {type_text(value.type)}; supported: tensors")

    def retype_tensor(self, tensor: TensorProto, name: str) -> bool:
        """Store a tensor in the wider type; returns False if it needs no change, or is refused."""
        narrow = self._missing.get(tensor.data_type)
        if narrow is None:
            return False
        self._read += tensors.size(tensor)
        loaded = tensor_data.load(tensor, self._folder) if self._read <= LARGEST else None
        values = None if loaded is None else tensors.array(loaded)
        if values is None:
            self._refuse(name, f"its values of {narrow.name} cannot be read, or do not fit the file as bytes")
            return False
        carried = tensors.tensor(values.astype("int8" if narrow.lowest else "uint8"), narrow.carrier)
        carried.name, carried.doc_string = tensor.name, tensor.doc_string
        tensor.CopyFrom(carried)
        return True

    def _note(self, name: str, op: str) -> None:
        how = "Stored 2- and 4-bit integers as 8-bit ones"
        self._ledger.changes.append(Change(name, op, "", self._opset, self._opset, how))

    def _refuse(self, name: str, why: str) -> None:
        since = min(n.since for n in self._missing.values())
        self._ledger.refusals.append(Refusal(name, "value", "", since, False, why))


# --- what makes a narrow integer: node is written anew, question asks about the source ------------------------------


def _clip_twice(node: Node, question: Node, model: _IntegerRetyping) -> str | None:
    """Convert a QuantizeLinear: quantize to a byte, then clip to the narrow type's range."""
    kind = question.attributes.get("output_dtype", 0)
    if question.input(2):
        kind = question.elem_type(2)
    narrow = model.missing(kind)
    if narrow is None:
        return None
    build = node.build
    dtype = narrow.carrier if "output_dtype" in node.attributes else None
    wide = build.again(node.proto, node.inputs, output_dtype=dtype)
    ends = (build.constant(end, narrow.carrier) for end in (narrow.lowest, narrow.highest))
    return str(build.Clip(wide, *ends))


def _cast(node: Node, question: Node, model: _IntegerRetyping) -> str | None:
    """Convert a Cast: cast to a byte, and keep the low bits, as a cast to the narrow type does."""
    narrow = model.missing(question.attributes["to"])
    return None if narrow is None else _wrap_around(node, question, narrow, to=narrow.carrier)


def _cast_like(node: Node, question: Node, model: _IntegerRetyping) -> str | None:
    narrow = model.missing(question.elem_type(1))
    return None if narrow is None else _wrap_around(node, question, narrow)


def _bits_cast(node: Node, question: Node, model: _IntegerRetyping) -> str | None:
    """Convert a BitCast between integers of equal width by their low bits."""
    source, to = question.elem_type(0), question.attributes["to"]
    if model.missing(source) is None and model.missing(to) is None:
        return None
    narrow = model.missing(to)
    if narrow is None or source not in NARROW:
        raise CannotConvert(
            question,
            "the node reinterprets the bits of 2- or 4-bit integers as a type that is not an integer",
            supported="integers",
        )
    wide = str(node.build.Cast(node.input(0), to=narrow.carrier))
    return keep_low_bits(node.build, wide, narrow.lowest, narrow.highest, narrow.carrier)


def _wrap_around(node: Node, question: Node, narrow: Narrow, **attributes: int) -> str:
    """Cast to the wide type, and wrap values that the narrow type could not hold, as a cast to it does.

    Used for casts to 2- or 4-bit integers.
    """
    elem_type = question.elem_type(0)
    fits = elem_type == T.BOOL
    if elem_type in NARROW:
        fits = narrow.lowest <= NARROW[elem_type].lowest and NARROW[elem_type].highest <= narrow.highest
    elif elem_type != T.BOOL and elem_type not in WIDE:
        why = f"a cast of fractions to {narrow.name}: runtimes disagree on the rounding; supported: integers"
        raise CannotConvert(question, why)
    wide = str(node.build.again(node.proto, node.inputs, **attributes))
    return wide if fits else keep_low_bits(node.build, wide, narrow.lowest, narrow.highest, narrow.carrier)


MAKERS: dict[str, Callable[[Node, Node, _IntegerRetyping], str | None]] = {
    "BitCast": _bits_cast,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": retype_constants,
    "ConstantOfShape": retype_constants,
    "QuantizeLinear": _clip_twice,
}
