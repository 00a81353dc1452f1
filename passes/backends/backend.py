"""What a backend supports: opsets, operators, types, and the limits of its operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from opshift.passes.model import schemas
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, field, replace

Value = int | float | str
_BROADCASTS = 7  # from this opset on operands are; older ones, at which an attribute is missing, few backends run


@dataclass(frozen=True)
class Limit:
    """A restriction on some operators of a backend.

    Attributes:
        ops: the operators, as (domain, name).
        since, before: the versions of the operators for which it holds.
        attribute, takes: an attribute, or an input that may be constant, and the values that it may have; a missing
            attribute has its default.
        refuses: the values that it may not have.
        most: how many values it may list; 0 for any number.
        constant: the inputs, by their formal names, that must be constants.
        unused: the outputs and optional inputs, by their formal names, that must not be used, and attributes that
            are left out where they say the default.
        types: the types that its inputs may have, such as `tensor(float)`; empty for all.
        ranks, input: the ranks that an input may have, by its formal name, or the first one; empty for all.
        numbers: whether every input size must be fixed.
        read: the outputs, by their formal names, that the model has to read.
        given: the optional inputs and outputs, by their formal names, and attributes that a call has to have.
        copied: the ranks of results that an Identity has to copy where they are outputs of the model.
        own: the operators whose result a call must not share with other nodes, if it also reads what they read.
        repeated: whether constants must not repeat one element along their first axis, the batch.
        reached: whether a window that yields one element must reach all elements of its axis.
        strict: whether a call beyond the limit is refused where nothing can replace it: each run failed, or was wrong.
        why: what the source says.
        source: where it is written, or how it was measured, if that is another place than for all else.
    """

    ops: frozenset[Op]
    since: int = 1
    before: int = 0
    attribute: str = ""
    takes: tuple[Value, ...] = ()
    refuses: tuple[Value, ...] = ()
    constant: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    types: frozenset[str] = frozenset()
    ranks: tuple[int, ...] = ()
    numbers: bool = False
    copied: tuple[int, ...] = ()
    most: int = 0
    read: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    input: str = ""
    repeated: bool = False
    reached: bool = False
    strict: bool = False
    why: str = ""
    source: str = ""

    def holds(self, domain: str, op: str, version: int) -> bool:
        """Whether the limit is about this version of an operator."""
        return (domain, op) in self.ops and self.since <= version and (not self.before or version < self.before)


class Types(NamedTuple):
    """The types of a type variable that ran on the backend, and those that failed."""

    ran: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MeasuredCall:
    """The calls of an operator that ran when the backend was measured.

    Attributes:
        ranks: those of its first input.
        symbolic: whether sizes of it were open.
        types: by the type variables of its schema.
        failed: the ranks of its first input with which no call ran that was tried.
    """

    ranks: tuple[int, ...] = ()
    symbolic: bool = False
    types: Mapping[str, Types] = field(default_factory=dict)
    failed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Backend:
    """One version of a backend, what it supports, and the source of that.

    Attributes:
        name: such as `onnxruntime-1.8`.
        opset, ml_opset: the newest opset of the default domain and of `ai.onnx.ml`; 0 where the source says nothing.
        ir_version: the newest IR version; 0 where the source says nothing.
        source: the document, or how it was measured.
        supports: the operators that it has; None where the source only says which ones are missing.
        lacks: the operators that it has not, each with the version from which on it is missing.
        oldest: the operators of which it lacks old versions, each with the oldest one that it has.
        vendors: the operators that it has beside ONNX's, as far as the source tells.
        types: the types that values may have; empty for all.
        casts: the types of whose values it keeps another one, without a word: `int64` in `int32`.
        static_shapes: whether every dimension of every input must be a number.
        functions: whether it is known to read model-local functions.
        folds_sizes: whether what is computed from sizes and constants alone counts as a constant.
        folded: whether what sizes and constants alone decide has to be computed before it reads the model, which is
            optimized for it.
        limits: what it does not take of the operators that it has.
        measured: how operators were called when they were seen to run; of others nobody has seen it.
    """

    name: str
    opset: int = 0
    ir_version: int = 0
    ml_opset: int = 0
    source: str = ""
    supports: frozenset[Op] | None = None
    lacks: Mapping[Op, int] = field(default_factory=dict)
    oldest: Mapping[Op, int] = field(default_factory=dict)
    vendors: frozenset[Op] = frozenset()
    types: frozenset[str] = frozenset()
    casts: Mapping[str, str] = field(default_factory=dict)
    static_shapes: bool = False
    functions: bool = False
    folds_sizes: bool = False
    folded: bool = False
    limits: tuple[Limit, ...] = ()
    measured: Mapping[Op, MeasuredCall] = field(default_factory=dict)

    def without_types(self, ops: Collection[Op]) -> Backend:
        """Copy the backend without the types that failed for some operators. Used with `without_failures`."""
        measured = dict(self.measured)
        for op in measured.keys() & set(ops):
            types = {variable: Types(types_seen.ran) for variable, types_seen in measured[op].types.items()}
            measured[op] = replace(measured[op], types=types, failed=())
        return replace(self, measured=measured) if ops else self

    def without_failures(self, ops: Collection[Op]) -> Backend:
        """Copy the backend as if some operators had never failed when it was measured.

        Used when nothing can replace them: the model may still run. Calls beyond a strict limit stay refused.
        """
        backend, gone = self.without_types(ops), frozenset(ops)
        limits = tuple(limit if limit.strict else replace(limit, ops=limit.ops - gone) for limit in self.limits)
        types = frozenset[str]() if ("", "value") in ops else self.types
        return replace(backend, limits=tuple(limit for limit in limits if limit.ops), types=types)

    def with_operators(self, ops: Iterable[Op]) -> Backend:
        """Copy the backend as if it had these operators, in every form. Used for loops that are unrolled afterwards."""
        gained = frozenset(ops)
        return replace(
            self,
            supports=self.supports | gained if self.supports is not None else None,
            lacks={op: version for op, version in self.lacks.items() if op not in gained},
            oldest={op: version for op, version in self.oldest.items() if op not in gained},
            limits=tuple(replace(limit, ops=limit.ops - gained) for limit in self.limits),
            measured={op: call for op, call in self.measured.items() if op not in gained},
        )

    def has(self, domain: str, op: str, opset: int) -> bool:
        """Tell whether the backend has the version of the operator that `opset` of its domain uses.

        It lacks vendor operators unless they are listed, and operators of `ai.onnx.ml` unless its source names an opset
        of that domain.
        """
        if domain in schemas.VENDORS and (domain, op) not in self.vendors:
            return self.supports is not None and (domain, op) in self.supports
        if self.supports is not None and (domain, op) not in self.supports | self.vendors:
            return False
        if domain == "ai.onnx.ml" and not self.ml_opset:
            return (domain, op) in self.measured or (domain, op) in (self.supports or ())
        version, missing = schemas.since(domain, op, opset) or 1, self.lacks.get((domain, op))
        return version >= self.oldest.get((domain, op), 1) and (missing is None or version < missing)

    @property
    def multiplies_floats_alone(self) -> bool:
        """Whether it lacks products of integers: MatMulInteger, and MatMul of int32, which failed when measured."""
        measured = self.measured.get(("", "MatMul"))
        failed = measured is not None and any("tensor(int32)" in types.failed for types in measured.types.values())
        return failed and not self.has("", "MatMulInteger", self.opset or schemas.latest())

    def missing(self, domain: str, opset: int) -> set[Op]:
        """List the operators of a domain that ONNX has at `opset` and the backend lacks.

        These are replaced when converting for the backend.
        """
        candidates = ((op, schemas.schema(domain, op, opset)) for op in schemas.operators(domain))
        known = [op for op, schema in candidates if schema is not None and not schema.deprecated]
        return {(domain, op) for op in known if not self.has(domain, op, opset)}

    def reads_import(self, domain: str, version: int) -> bool:
        """Whether the backend loads a model with this opset import, even if nothing uses it.

        Asked once a model is converted.
        """
        if domain == "ai.onnx.ml":
            return not self.ml_opset or version <= self.ml_opset
        return not domain or any(vendor_domain == domain for vendor_domain, _ in self.vendors)

    def opsets_to_try(self, own: int) -> list[int]:
        """List the opsets of the backend at which different operators are missing, nearest to the model's own first."""
        newest = self.opset or max(own, *self.oldest.values(), 1)  # what runs from an opset on is read there
        reached = min(own, newest)
        edges = {version - 1 for version in (*self.lacks.values(), *(limit.since for limit in self.limits))}
        edges |= {version for version in self.oldest.values() if version > min(own, _BROADCASTS)}
        edges |= {limit.before for limit in self.limits}
        edges |= {version - 1 for limit in self.limits for version in _with_attribute(limit) if version > _BROADCASTS}
        others = {newest, *(opset for opset in edges if 1 <= opset < newest)} - {reached}
        return [reached, *sorted(others, key=lambda opset: (abs(opset - reached), opset))]


def _with_attribute(limit: Limit) -> Iterator[int]:
    """List versions of operators that have the attribute of a limit: at older ones the limit does not apply."""
    for domain, op in limit.ops if limit.attribute else ():
        by_version = ((version, schemas.schema(domain, op, version)) for version in schemas.versions(domain, op))
        yield from [version for version, schema in by_version if schema and limit.attribute in schema.attributes][:1]
