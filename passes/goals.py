"""What a model is to become: at other opsets, without some operators, with others recognised, or optimized."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from opshift.functions import OPENVINO
from opshift.passes.backends import fit
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Result
from opshift.passes.conversion import convert
from opshift.passes.errors import Refused
from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import FunctionProto, ModelProto, default_domain
from opshift.passes.model.traversal import Op, bodies
from opshift.passes.refine import NOTHING, Refinement, refined

Target = int | str | Mapping[str, int] | Backend


@dataclass(frozen=True)
class Goal:
    """What a model is to become.

    Attributes:
        targets: the opsets to reach, by domain; without any, the model keeps its own.
        ir_version: the IR version to write.
        names, domain: operators to replace by their definitions, one by one and by their domain.
        backend: what has to read the result: all that it lacks is replaced, at an opset that it reads.
        portable: leave operators of ONNX alone, and functions of the model that call nothing else.
        refinement: what is done then.
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    names: tuple[str, ...] = ()
    domain: str | None = None
    backend: Backend | None = None
    refinement: Refinement = NOTHING
    portable: bool = False

    def __post_init__(self) -> None:
        if self.portable and self.reader is not None and self.reader.vendors:
            raise ValueError(f"{self.reader.name} has operators of its own; give it, or --portable")

    @property
    def reader(self) -> Backend | None:
        """What has to read the result, whether it was asked for what it lacks or for its opset alone."""
        return self.backend or self.refinement.backend

    @property
    def label(self) -> str:
        """What the name of a file says about it."""
        if self.backend is not None:
            return f"for-{self.backend.name}"
        if self.portable:
            return "portable"
        if self.names or self.domain is not None:
            return "inlined"
        return "-".join(f"{domain or 'opset'}{opset}" for domain, opset in self.targets.items()) or "folded"

    def attempt(self, source: ModelProto, folder: str | None) -> Result:
        """What becomes of a copy of `source`, or why it cannot.

        Raises:
            InvalidModel: the model is not valid.
            ValueError: it has nothing of what is to be replaced, or cannot have what is to be recognised.
        """
        survey = convert.checked(source)
        ops = {*named(source, self.names, self.domain), *self._vendors(source)}
        opsets = {**imports.opsets(source), **self.targets}
        _check_available(self.refinement, opsets)
        if self.backend is not None:
            made = fit.attempt(source, self.backend, ops=ops, ir_version=self.ir_version, folder=folder)
        elif self.targets or self.ir_version or ops or self.portable:
            targets = {**(self.targets or own_opset(source)), **self._ml_opset(source)}
            made = convert.attempt(source, targets, ops=ops, ir_version=self.ir_version, folder=folder, survey=survey)
            self._drop_imports(made.model)
        else:
            made = Result(source, (), ())
        made = replace(made, idle=self._is_idle(ops, made))
        made = refined(made, self.refinement, lacking=ops, folder=folder)
        return replace(made, model=_copy(source)) if made.model is source else made

    def _is_idle(self, ops: Container[Op], made: Result) -> bool:
        asked = self.portable or self.domain is not None or bool(self.names)
        replaced = ((default_domain(change.domain), change.op) in ops or self.portable for change in made.changes)
        return asked and not any(replaced)

    def _vendors(self, source: ModelProto) -> set[Op]:
        """What goes without being named."""
        if self.portable:
            return fit.foreign(source)
        return fit.vendors(source, self.reader) if self.backend is None and self.reader is not None else set()

    def _ml_opset(self, source: ModelProto) -> Mapping[str, int]:
        return fit.ml_opset(source, self.reader) if self.reader is not None else {}

    def _drop_imports(self, made: ModelProto | None) -> None:
        """What nothing uses is not imported where the reader may stumble over it."""
        if made is not None and self.portable:
            imports.drop_unused(made, lambda *_: True)
        elif made is not None and self.reader is not None:
            reads = self.reader.reads_import
            imports.drop_unused(made, lambda domain, version: not reads(domain, version))

    def nearest(self, source: ModelProto, result: Result, folder: str | None) -> int | None:
        """The opset nearest to the one wanted that can be reached where `result` is a refusal; None if unknown."""
        if not result.refusals or not self.targets or self.names or self.domain is not None:
            return None
        return convert.nearest(source, result.refusals, self.targets, folder)

    def refused(self, source: ModelProto, result: Result, folder: str | None) -> Refused:
        """The error that says why `result` is no model."""
        target = self.targets.get("") if self.backend is None else self.backend.name
        return Refused(result.refusals, target=target, nearest=self.nearest(source, result, folder))


def conversion(target: Target | None, ir_version: int | None = None, wanted: Refinement = NOTHING) -> Goal:
    """To a target, or at the model's own opset; raises `ValueError` for an unknown one."""
    targets, ir = resolve(target) if target is not None else ({}, None)
    return Goal(targets, ir_version or ir, refinement=replace(wanted, backend=backend_of(target)))


def inlining(
    names: Iterable[str],
    domain: str | None = None,
    target: Target | None = None,
    ir_version: int | None = None,
    wanted: Refinement = NOTHING,
    *,
    portable: bool = False,
) -> Goal:
    """Of operators, at an opset, or of all that a backend lacks; raises `ValueError` for an unknown target."""
    backend = backend_of(target)
    targets = resolve(target)[0] if target is not None and backend is None else {}
    return Goal(targets, ir_version, tuple(names), domain, backend, replace(wanted, backend=backend), portable)


def folding(ops: Iterable[str] | None = None, *, optimize: bool = False) -> Refinement:
    """Recognition of operators, all that exporters write if None.

    Raises:
        ValueError: an operator is not known, or has no definition to recognise it by.
    """
    return Refinement(True, None if ops is None else frozenset(map(recognisable, ops)), optimize)


def recognisable(name: str) -> Op:
    """An operator to fold, by name; raises `ValueError` for one that is not known, or has no definition."""
    from opshift.passes.fusion import families
    from opshift.passes.inlining import definable

    op = operator(name)
    if families.family(op) is not None:
        return op
    if definable.is_defined(*op):
        why = "its definition is no pattern (docs/definitions.md tells which ones are)"
        raise ValueError(f"{name} cannot be recognised: {why}")
    if schemas.versions(*op):
        raise ValueError(f"{name} has no definition to recognise it by (docs/definitions.md lists those that have one)")
    raise unknown(name)


def unknown(name: str) -> ValueError:
    """The error for an operator that nobody knows, with the known one that is spelled most like it."""
    from opshift.passes.inlining import definable

    known = [f"{domain}::{op}" if domain else op for domain in definable.DOMAINS for op in definable.operators(domain)]
    likely = get_close_matches(name, known, 1)
    return ValueError(f"unknown operator {name!r}{f'; did you mean {likely[0]}?' if likely else ''}")


def _check_available(wanted: Refinement, opsets: Mapping[str, int]) -> None:
    """Operators that are named must exist where they are to be put, and be read by who reads the result."""
    for domain, op in sorted(wanted.ops or ()):
        opset, first = opsets.get(domain, 1), min(schemas.versions(domain, op), default=1)
        if opset < first:
            why = f"came with opset {first}, and the model is at {opset}; convert it first (--opset {first})"
            raise ValueError(f"{op} {why}")
        if wanted.backend is not None and not wanted.backend.has(domain, op, opset):
            raise ValueError(f"{wanted.backend.name} lacks {op}")


def resolve(target: Target) -> tuple[dict[str, int], int | None]:
    """The opsets by domain that a user's target stands for, and the IR version of a named target."""
    if isinstance(target, Mapping):
        return {default_domain(d): _known(d, v) for d, v in target.items()}, None
    if isinstance(target, int):
        return {"": _known("", target)}, None
    if target == "latest":
        return {"": schemas.latest()}, None
    backend = backend_of(target)
    if backend is None:
        return {"": _known("", int(str(target)))}, None
    if not backend.opset:
        raise ValueError(f"the source of {backend.name} names no opset: {backend.source}")
    return {"": backend.opset}, backend.ir_version or None


def backend_of(target: Target | None) -> Backend | None:
    """The backend that a user's target names; None for opsets."""
    if isinstance(target, Backend):
        return target
    if not isinstance(target, str) or target == "latest" or target.isdigit():
        return None
    from opshift.passes.backends.target_files import find

    return find(target)


def named(model: ModelProto, ops: Iterable[str], domain: str | None) -> list[Op]:
    """The operators that a user names, one by one and by domain."""
    found = [operator(op) for op in ops]
    if domain is not None:
        wanted = default_domain(domain)
        used = {(default_domain(n.domain), n.op_type) for body in bodies(model) for n in body.node}
        members = sorted(op for op in used if op[0] == wanted)
        if not members and not schemas.knows(wanted) and wanted != OPENVINO:
            raise ValueError(f"the model uses no operator of domain {domain!r}, which is not known")
        found += members
    return found


def _known(domain: str, opset: int) -> int:
    if not schemas.known_domain(domain):
        raise ValueError(f"the operators of domain {domain!r} are not known")
    if not 1 <= opset <= schemas.latest(domain):
        raise ValueError(f"opset {opset} is not known; 1 to {schemas.latest(domain)} are")
    return opset


def own_opset(model: ModelProto) -> dict[str, int]:
    """The default-domain opset that a model imports, or else its functions, as a target."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    found = (imports.opsets(holder).get("") for holder in holders)
    return {"": next(filter(None, found), schemas.latest())}


def operator(name: str) -> Op:
    """`"Name"` or `"domain::Name"` as (domain, name)."""
    domain, _, op = name.rpartition("::")
    return default_domain(domain), op


def _copy(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made
