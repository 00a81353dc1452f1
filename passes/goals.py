"""What a model is to become: at other opsets, without some operators, with others recognised, or optimized."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from opshift.passes import progress
from opshift.passes.backends import fit
from opshift.passes.backends.backend import Backend
from opshift.passes.backends.resolving import Target, backend_of, known_ir, resolve
from opshift.passes.changes import Change, Result
from opshift.passes.conversion import convert
from opshift.passes.errors import Refusal, Refused
from opshift.passes.fusion.quantization import forms
from opshift.passes.model import imports, installed, schemas
from opshift.passes.model.installed import LACKING, Lacking
from opshift.passes.model.messages import FunctionProto, ModelProto, default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.validity import is_theirs
from opshift.passes.records import dataclass, field, replace
from opshift.passes.refine import NOTHING, Refinement, check_available, refined, without_integers
from opshift.passes.specialization import sizes
from opshift.passes.specialization.wanted import NOTHING as ALL_FREE
from opshift.passes.specialization.wanted import Wanted
from opshift.passes.spelling import hint, likely, texts


@dataclass(frozen=True)
class Goal:
    """What a model is to become.

    Attributes:
        targets: the opsets to reach, by domain; without any, the model keeps its own.
        ir_version: the IR version to write.
        names, domain: operators to replace by their definitions, one by one and by their domain.
        backend: what has to read the result: all that it lacks is replaced, at an opset that it reads.
        portable: leave operators of the default domain alone, and functions of the model that call nothing else.
        refinement: what is done then.
        fixed: sizes and inputs that are fixed before anything else.
        annotate: declare what follows of types of the values between, at last.
        rebatch: how many samples the result takes, or `dynamic` for any number.
        zipmap, maps: make tensors of the maps that ZipMap yields, and of those that CastMap and DictVectorizer read.
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    names: tuple[str, ...] = ()
    domain: str | None = None
    backend: Backend | None = None
    refinement: Refinement = NOTHING
    portable: bool = False
    fixed: Wanted = ALL_FREE
    annotate: bool = False
    rebatch: sizes.BatchSize | None = None
    zipmap: bool = False
    maps: bool = False

    def __post_init__(self) -> None:
        if self.portable and self.reader is not None and self.reader.vendors:
            raise ValueError(f"{self.reader.name} has operators of its own; give it, or --portable")

    @property
    def reader(self) -> Backend | None:
        """What has to read the result, whether all that it lacks goes, or it is named for its opset."""
        return self.backend or self.refinement.backend

    @property
    def is_fixing(self) -> bool:
        """Whether anything is to be fixed, or annotated."""
        return bool(self.fixed) or self.rebatch is not None or self.annotate

    @property
    def plain(self) -> Goal:
        """The same without what is done beyond."""
        return replace(self, refinement=self.refinement.demanded)

    @property
    def label(self) -> str:
        """What the name of a file says about it."""
        if self.backend is not None:
            return f"for-{self.backend.name}"
        if self.portable:
            return "portable"
        if self.names or self.domain is not None:
            return "inlined"
        reached = [f"{domain or 'opset'}{opset}" for domain, opset in self.targets.items()]
        if not self.targets and self.ir_version is not None:
            reached = [f"ir{self.ir_version}"]
        reached += filter(None, [self.refinement.quantization])
        if self.refinement.fold or self.refinement.optimize:
            return "-".join(reached) or ("folded" if self.refinement.fold else "optimized")
        if self.rebatch is not None:
            reached.append(f"batch-{self.rebatch}")
        return "-".join(reached) or ("fixed" if self.fixed else "annotated")

    @property
    def said(self) -> str:
        """What is to be reached, in a few words: `at opset 13`."""
        if self.backend is not None:
            return f"for {self.backend.name}"
        reached = [f"opset {opset}{f' of {domain}' if domain else ''}" for domain, opset in self.targets.items()]
        if not reached and self.ir_version is not None:
            reached = [f"IR version {self.ir_version}"]
        return f"at {' and '.join(reached)}" if reached else ""

    def tensors(self, source: ModelProto) -> tuple[ModelProto, tuple[Change, ...]]:
        """The source with tensors in the place of the maps that are to be some, and what was done."""
        if not (self.zipmap or self.maps):
            return source, ()
        from opshift.passes.specialization.maps import as_tensors

        return as_tensors(source, zipmap=self.zipmap, maps=self.maps)

    def attempt(self, source: ModelProto, folder: str | None) -> Result:
        """What becomes of a copy of `source`, or why it cannot.

        Raises:
            InvalidModel: the model is not valid.
            ValueError: nobody knows what is to be replaced, or it cannot have what is to be recognised.
        """
        try:
            made = self._attempt(source, folder)
        except Lacking as lacking:
            return Result(None, (), (lacking.refusal,))
        more = (installed.doubt(),) if any("unknown" in refusal.why for refusal in made.refusals) else ()
        return replace(made, refusals=(*made.refusals, *filter(None, more)))

    def _attempt(self, source: ModelProto, folder: str | None) -> Result:
        fixed = self.fixed or self.rebatch is not None
        made = self._fixed(source, folder) if fixed else self._reached(source, folder)
        if not self.annotate or made.model is None:
            return made
        from opshift.passes.specialization import fixing

        progress.tell("annotate")
        stated = fixing.annotated(made.model)
        return replace(made, model=stated.model, changes=(*made.changes, *stated.changes))

    def _fixed(self, source: ModelProto, folder: str | None) -> Result:
        """With sizes, inputs and the batch fixed first; what is brought in hangs on them, too."""
        from opshift.passes.specialization import fixing

        convert.checked(source)
        progress.tell("fix sizes and inputs")
        first = fixing.attempt(source, self.fixed, self.rebatch, folder)
        if first.model is None:
            return first
        then = self._reached(first.model, folder)
        if then.model is None:
            return replace(then, changes=(*first.changes, *then.changes))
        later = fixing.followed(then.model, self.fixed, folder) if then.changes else []
        changes, after = (*first.changes, *then.changes, *later), None if later else then.after
        return replace(then, changes=changes, before=None, after=after, batch=first.batch)

    def _reached(self, source: ModelProto, folder: str | None) -> Result:
        survey = convert.checked(source)
        used = frozenset(survey.calls)
        ops = [*named(source, self.names, self.domain, used), *self._vendors(source, folder)]
        ops += sorted(used & forms.on_integers()) if self.refinement.dequantizes else []
        opsets = {**imports.opsets(source), **self.targets}
        check_available(self.refinement, opsets)
        if self.backend is not None:
            progress.tell("convert")
            made = fit.attempt(source, self.backend, ops=ops, ir_version=self.ir_version, folder=folder)
        elif self.targets or self.ir_version is not None or not used.isdisjoint(ops):
            progress.tell("convert")
            roomy = any(domain == "ai.onnx.ml" for domain, _ in ops)
            targets = {**(self.targets or own_opset(source, roomy=roomy)), **self._ml_opset(source)}
            made = fit.at_opset(source, targets, self.reader, ops, self.ir_version, folder, survey)
            self._drop_imports(made.model)
        elif self.portable:
            made = Result(_copy(source), (), ())
            self._drop_imports(made.model)
        else:
            made = Result(source, (), ())
        made = without_integers(made, folder) if self.refinement.dequantizes else made
        held = survey if made.model is source else None
        made = refined(made, self.refinement, lacking=ops, folder=folder, survey=held)
        made = replace(made, model=_copy(source)) if made.model is source else made
        return replace(made, absent=tuple(self._absent(ops, used, made)))

    def _absent(self, ops: Iterable[Op], used: frozenset[Op], made: Result) -> Iterator[str]:
        gone = {(default_domain(change.domain), change.op) for change in made.changes}
        absent = set(ops) - used - gone
        yield from (name for name in self.names if operator(name) in absent)
        if self.domain is not None and default_domain(self.domain) not in {domain for domain, _ in ops}:
            yield f"operator of {self.domain or 'ai.onnx'}"
        if self.portable and not gone:
            yield "operator that is not ONNX's"
        if self.refinement.dequantizes and not made.refusals and not made.changes:
            yield "operator on integers"

    def _vendors(self, source: ModelProto, folder: str | None) -> set[Op]:
        """What goes without being named."""
        if self.portable:
            return fit.foreign(source) | fit.classical(source)
        return fit.vendors(source, self.reader, folder) if self.backend is None and self.reader is not None else set()

    def _ml_opset(self, source: ModelProto) -> Mapping[str, int]:
        return fit.ml_opset(source, self.reader) if self.reader is not None else {}

    def _drop_imports(self, made: ModelProto | None) -> None:
        """What nothing uses is not imported where the reader may stumble over it."""
        if made is not None and self.portable:
            imports.drop_unused(made, lambda *_: True)
        elif made is not None and self.reader is not None:
            reads = self.reader.reads_import
            imports.drop_unused(made, lambda domain, version: not reads(domain, version))

    def unread(self, made: ModelProto, folder: str | None) -> tuple[Refusal, ...]:
        """What is left that the backend which an opset is named for was seen not to read."""
        if self.backend is not None or self.reader is None or not self.reader.measured:
            return ()
        from opshift.passes.backends.obstacles import obstacles

        return tuple(obstacles(made, self.reader, folder))

    def needs(self, source: ModelProto) -> tuple[Refusal, ...]:
        """The dimensions that the user has to choose, as the backend reads none without a number."""
        if self.backend is None:
            return ()
        from opshift.passes.backends.obstacles import open_dimensions

        return tuple(open_dimensions(self.sized(source), self.backend))

    def sized(self, source: ModelProto) -> ModelProto:
        """The source with the sizes and constants that are fixed in it; itself where there are none."""
        from opshift.passes.specialization import fixing

        return fixing.sized(source, self.fixed)

    def nearest(self, source: ModelProto, result: Result, folder: str | None) -> int | None:
        """The opset nearest to the one wanted that can be reached where `result` is a refusal; None if unknown."""
        if not result.refusals or not self.targets or self.names or self.domain is not None:
            return None
        if any(refusal.op == LACKING or self._is_lacked(refusal) for refusal in result.refusals):
            return None  # which is no matter of opsets, or of others that were tried
        source = self.sized(source)
        return convert.nearest(source, result.refusals, self.targets, folder)

    def _is_lacked(self, refusal: Refusal) -> bool:
        """Whether a refusal is about what the reader is said to lack, or about a vendor's operator that has to go."""
        if self.reader is None:
            return False
        op = default_domain(refusal.domain), refusal.op
        return op in self.reader.lacks or op[0] in schemas.VENDORS or is_theirs(*op, self.targets.get("", 1))

    def refused(self, source: ModelProto, result: Result, folder: str | None) -> Refused:
        """The error that says why `result` is no model."""
        target = self.targets.get("") if self.backend is None else self.backend.name
        return Refused(result.refusals, target=target, nearest=self.nearest(source, result, folder))


def versions(
    target: Target | None,
    ir_version: int | None,
    wanted: Refinement,
    fixed: Wanted = ALL_FREE,
    rebatch: sizes.BatchSize | None = None,
    *,
    annotate: bool = False,
) -> Goal:
    """To a target or an IR version; raises `ValueError` for an unknown one, or if there is nothing to be done."""
    done = bool(fixed or annotate or wanted.quantization) or rebatch is not None
    if target is None and ir_version is None and not done:
        raise ValueError("name what to convert to: an opset, opsets by domain, a target, or an IR version")
    return replace(conversion(target, ir_version, wanted), fixed=fixed, rebatch=sizes.batch(rebatch), annotate=annotate)


def with_tensors(goal: Goal, zipmap: str | None, maps: str | None) -> Goal:
    """The goal with what is to become of maps; raises `ValueError` for what they cannot become."""
    for option, asked in (("zipmap", zipmap), ("map", maps)):
        if asked not in (None, "tensor"):
            raise ValueError(f"--{option} {asked}: maps become tensors, or stay as they are")
    return replace(goal, zipmap=zipmap is not None, maps=maps is not None)


def conversion(target: Target | None, ir_version: int | None = None, wanted: Refinement = NOTHING) -> Goal:
    """To a target, or at the model's own opset; raises `ValueError` for an unknown one."""
    targets, ir = resolve(target) if target is not None else ({}, None)
    wanted = replace(wanted, backend=backend_of(target))
    return Goal(targets, known_ir(ir_version) or ir, refinement=wanted)


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
    names, wanted = as_names(names), replace(wanted, backend=backend)
    return Goal(targets, known_ir(ir_version), names, domain, backend, wanted, portable)


def folding(ops: Iterable[str] | None = None, *, optimize: bool = False) -> Refinement:
    """Recognition of operators, all that exporters write if None.

    Raises:
        ValueError: an operator is not known, or has no definition to recognise it by, or none is named.
    """
    wanted = None if ops is None else frozenset(map(recognisable, as_names(ops)))
    if wanted is not None and not wanted:
        raise ValueError("name operators; all that exporters write are folded where nothing is said of operators")
    return Refinement(True, wanted, optimize)


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
    raise unknown_operator(name)


def unknown_operator(name: str, held: Iterable[Op] = ()) -> ValueError:
    """The error for an operator that neither ONNX, nor we, nor a model (`held`) has."""
    from opshift.passes.inlining import definable

    domains = (*definable.DOMAINS, *schemas.IMPORTED)
    known = {(domain, op) for domain in domains for op in definable.operators(domain)}
    return unknown("operator", name, known.union(held))


def unknown(what: str, name: str, known: Iterable[Op]) -> ValueError:
    """The error for the name of what is not known, with the one that is spelled most like it."""
    names = sorted(f"{domain}::{op}" if domain else op for domain, op in known)
    if len(re.split(r"[,;\s]+", name.strip(",; "))) > 1:
        return ValueError(f"unknown {what} {name!r}: name one at a time")
    domain = default_domain(name.rpartition("::")[0])
    if domain and likely(domain, {known.rpartition("::")[0] for known in names}) is None:
        return ValueError(f"unknown {what} {name!r}: no operator of domain {domain!r} is known")
    return ValueError(f"unknown {what} {name!r}{hint(name.removeprefix('ai.onnx::'), names)}")


def named(model: ModelProto, names: Iterable[str], domain: str | None, used: Iterable[Op]) -> list[Op]:
    """The operators that a user names, one by one and by domain; raises `ValueError` for one that nobody knows."""
    found = [operator(name) for name in names]
    held = {*used, *((default_domain(f.domain), f.name) for f in model.functions)}
    for name, op in zip(names, found, strict=True):
        if op not in held and not schemas.versions(*op) and not _is_ours(*op):
            raise unknown_operator(name, held)
    if domain is not None:
        wanted = default_domain(domain)
        members = sorted(op for op in used if op[0] == wanted)
        if not members and not _is_known(wanted):
            raise ValueError(f"the model uses no operator of domain {domain!r}{_domain_hint(domain, used)}")
        found += members
    return found


def _is_known(domain: str) -> bool:
    """Whether operators of a domain that a model may import are known."""
    from opshift.passes.inlining import definable

    return schemas.known_domain(domain) or domain in (*schemas.IMPORTED, *definable.DOMAINS)


def _is_ours(domain: str, op: str) -> bool:
    """Whether an operator that ONNX does not define is one that we do."""
    from opshift.passes.inlining import definable

    return domain in definable.DOMAINS and op in definable.operators(domain)


def _domain_hint(domain: str, used: Iterable[Op]) -> str:
    domains = sorted({domain or "ai.onnx" for domain, _ in used})
    return hint(domain, domains, repr) or (f"; it uses {', '.join(map(repr, domains))}" if domains else "")


def as_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names that a user gives: several, or one alone; raises `ValueError` for what is none."""
    return tuple(texts(names, "operators are named by texts, such as 'ReduceL2'"))


def own_opset(model: ModelProto, *, roomy: bool = False) -> dict[str, int]:
    """The default-domain opset that a model imports, or else its functions, as a target.

    A model that uses none of it, as those of XGBoost, gets the newest that its IR version may import. Where there is to
    be room for definitions, as in those of LightGBM, the newest at which its nodes stay as they are.
    """
    if roomy and (newest := imports.roomiest(model)) is not None:
        return {"": newest}
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    found = next(filter(None, (imports.opsets(holder).get("") for holder in holders)), None)
    return {"": found or schemas.newest_opset(model.ir_version)}


def operator(name: str) -> Op:
    """`"Name"` or `"domain::Name"` as (domain, name)."""
    domain, _, op = name.rpartition("::")
    return default_domain(domain), op


def _copy(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made
