"""Goals: what a user asked for, and the list of stages that does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from opshift.passes.changes import Allowance, Result
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel, Refusal, Refused
from opshift.passes.inputs import sizes
from opshift.passes.inputs.ends import AS_IT_IS, Ends, Names, ends_of
from opshift.passes.inputs.sizes import Sizes
from opshift.passes.inputs.wanted import NOTHING as ALL_FREE
from opshift.passes.inputs.wanted import Values, Wanted
from opshift.passes.inputs.wanted import parse_wanted as fixed
from opshift.passes.model import imports, installed, schemas
from opshift.passes.model.installed import LACKING, Lacking
from opshift.passes.model.messages import ModelProto, ValueInfoProto, copy_model, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import elem_type_of
from opshift.passes.model.validity import is_runtime_extension, missing_of
from opshift.passes.records import dataclass, field, replace
from opshift.passes.spelling import hint, texts
from opshift.passes.stages.stage import Facts, Stage, apply_stages
from opshift.passes.targets import Target, check_ir_version, find_backend, resolve_target

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend
    from opshift.passes.types.door import Types


@dataclass(frozen=True)
class Refinement:
    """What is asked for beyond a conversion: folding, optimizing, a form of quantized operators.

    Attributes:
        fold: fold nodes into the operators that they compute.
        ops: only these; None for all that exporters write.
        optimize: fold constants, and remove nodes that are unused, repeated or without effect.
        quantization: the form of quantized operators, `qdq` or `qoperator`; empty to keep it.
        backend: the backend that has to support the result.
    """

    fold: bool = False
    ops: frozenset[Op] | None = None
    optimize: bool = False
    quantization: str = ""
    backend: Backend | None = None

    @property
    def dequantizes(self) -> bool:
        """Whether quantized operators become float operators (`qdq`)."""
        return self.quantization == "qdq"

    @property
    def demanded(self) -> Refinement:
        """The part that the user demands, which the proof does not take back."""
        return Refinement(backend=self.backend, quantization="qdq" if self.dequantizes else "")


NOTHING = Refinement()

MOST_TRIED = 5_000
"""Nodes of the largest model that is converted again to find what helps after a refusal, which takes long enough."""

QUANTIZATIONS = ("qdq", "qoperator")
"""How quantized operators may be written: on floats between DequantizeLinear and QuantizeLinear, or on integers."""


def check_quantization(form: str | None) -> str:
    """Check the form of quantized operators that a user names (`--quantization`); returns empty for none.

    Called while a goal is made.
    """
    if form is not None and form not in QUANTIZATIONS:
        likely = hint(form, QUANTIZATIONS) or f"; supported: {' and '.join(QUANTIZATIONS)}"
        raise ValueError(f"unknown quantization {form!r}{likely}")
    return form or ""


@dataclass(frozen=True)
class Goal:
    """What a user asked for. `stages` is the list that does it.

    Attributes:
        targets: the opsets to reach, by domain; without any, the model keeps its own.
        ir_version: the IR version to write.
        names, domain: operators to replace by their definitions, one by one and by their domain.
        backend: the backend to convert for: an opset that it reads, without operators that it lacks.
        portable: replace all operators outside the default domain.
        refinement: what to do after the conversion.
        fixed: sizes and inputs to fix first.
        annotate: write inferred types into the model, at the end.
        rebatch: the batch size of the result, or `dynamic`.
        ends: outputs to add and drop, and other names, before anything else.
        zipmap, maps: replace maps by tensors: those of ZipMap, and those of CastMap and DictVectorizer.
        types: which element types become which.
        carriers: the types whose values are carried in other ones, by the numbers of both.
        unroll: the most iterations that are unrolled; 0 for none.
        if_to_where: the most nodes in the branches of an If that becomes a Where; 0 for none.
        folds_sizes: compute what sizes and constants decide, for a target that reads no sizes in int64.
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
    ends: Ends = AS_IT_IS
    types: Types | None = None
    carriers: Mapping[int, int] = field(default_factory=dict)
    unroll: int = 0
    if_to_where: int = 0
    folds_sizes: bool = False

    def __post_init__(self) -> None:
        if self.portable and self.reader is not None and self.reader.vendors:
            raise ValueError(
                "give --target or --portable, not both: --portable stops at ONNX's operators, and "
                f"{self.reader.name} has operators of its own"
            )

    @property
    def reader(self) -> Backend | None:
        """The backend that has to read the result: the target, or the one that names the opset."""
        return self.backend or self.refinement.backend

    def stages(self) -> list[Stage]:
        """List the stages that do what is asked, in order. `run` applies them; reports and `--dry-run` list them.

        A new stage is a file in `passes/stages` and an entry here. The file is imported only where the stage is asked
        for, so that other commands do not wait for it.
        """
        asked, stages = self.refinement, list[Stage]()
        if self.ends:
            from opshift.passes.stages.set_ends import SetEnds

            stages.append(SetEnds(self.ends))
        if self.zipmap or self.maps:
            from opshift.passes.stages.make_tensors import MakeTensors

            stages.append(MakeTensors(self.zipmap, self.maps))
        if self.fixed or self.rebatch is not None:
            from opshift.passes.stages.fix import Fix

            stages.append(Fix(self.fixed, self.rebatch))
        if self.unroll or self.if_to_where:
            from opshift.passes.stages.unroll import Unroll

            stages.append(Unroll(self.unroll, self.if_to_where))
        retyped: list[Stage] = []
        if self.types is not None:
            from opshift.passes.stages.change_types import ChangeTypes

            retyped.append(ChangeTypes(self.types))
            if not self.types.narrows:  # an older opset may lack the narrower types
                stages += retyped
        if self.carriers:
            from opshift.passes.stages.carry import Carry

            stages.append(Carry(self.carriers))
        if self._reaches:
            from opshift.passes.stages.reach import Reach

            if self.backend is not None:
                if not self.backend.has("", "Shape", self.backend.opset or schemas.latest()):
                    from opshift.passes.stages.follow import Follow

                    stages.append(Follow(self.fixed))
                stages += self._dropping(self.backend)
                if not (self.names or self.domain is not None):  # which may be those that come in
                    from opshift.passes.stages.fold_lacked import FoldLacked

                    stages.append(FoldLacked(self.backend))
                stages += self._respelling(self.backend)
            if self.backend is not None and self.backend.multiplies_floats_alone:
                from opshift.passes.stages.dequantize import Dequantize

                stages.append(Dequantize())
            reach = Reach(
                self.targets,
                self.ir_version,
                self.names,
                self.domain,
                backend=self.backend,
                reader=self.reader,
                portable=self.portable,
                on_floats=asked.dequantizes,
            )
            if self.backend is not None and self._lacks_control_flow(self.backend):
                from opshift.passes.stages.unroll import ReachUnrolled

                stages.append(ReachUnrolled(reach))
            else:
                stages.append(reach)
            if self.backend is not None and not self.backend.has("", "QuantizeLinear", self.backend.opset):
                from opshift.passes.stages.keep_in_floats import KeepInFloats

                stages.append(KeepInFloats())
        if asked.dequantizes:
            from opshift.passes.stages.dequantize import Dequantize

            stages.append(Dequantize())
        compiled = self.backend is not None and self.backend.folded
        optional = self._optional_stages(optimize=asked.optimize or compiled)
        reader = self.backend if compiled else asked.backend
        if optional and reader is not None:
            from opshift.passes.stages.readable import Readable

            optional = [Readable(reader, optional, self._optional_stages(optimize=False))]
        stages += optional
        if self.backend is not None:  # what operators were replaced by, and some pads are known once they are folded
            stages += self._respelling(self.backend)
        if self.fixed or self.rebatch is not None or compiled or self.folds_sizes:
            from opshift.passes.stages.follow import Follow

            stages.append(Follow(self.fixed))
        if self.types is not None and self.types.narrows:
            stages += retyped
        if self.backend is not None and any(limit.copied for limit in self.backend.limits):
            from opshift.passes.stages.copy_outputs import CopyOutputs

            stages.append(CopyOutputs(self.backend))
        if self.annotate:
            from opshift.passes.stages.annotate import Annotate

            stages.append(Annotate())
        return stages

    def _optional_stages(self, *, optimize: bool) -> list[Stage]:
        """List the stages that the proof may take back: fold, optimize, fold, optimize, as each finds more after the
        other.
        """
        asked, stages = self.refinement, list[Stage]()
        avoided: frozenset[Op] = frozenset()
        if asked.fold or asked.quantization == "qoperator":
            from opshift.passes.stages.fold import EXPANDED_BY_ONNXRUNTIME, Fold

            if optimize and asked.ops is None and asked.backend is None:
                avoided = EXPANDED_BY_ONNXRUNTIME
        if asked.fold:
            stages.append(Fold(asked.ops, asked.backend, avoided))
        if optimize:
            from opshift.passes.stages.optimize import Optimize

            stages.append(Optimize())
            if asked.fold:
                stages += [Fold(asked.ops, asked.backend, avoided), Optimize()]
        if asked.quantization == "qoperator":
            from opshift.passes.stages.quantize import Quantize

            stages.append(Quantize(asked.backend, avoided))
        return stages

    @staticmethod
    def _dropping(backend: Backend) -> list[Stage]:
        """List the stage that drops copies, if the backend lacks the operators that copy."""
        lacked = tuple(
            op for op in ("Identity", "Dropout") if not backend.has("", op, backend.opset or schemas.latest())
        )
        if not lacked:
            return []
        from opshift.passes.stages.drop_copies import DropCopies

        return [DropCopies(lacked)]

    @staticmethod
    def _respelling(backend: Backend) -> list[Stage]:
        """List the stage that writes refused calls in other forms, if the backend has limits that other forms avoid."""
        from opshift.passes.stages.respell import Respell

        respell = Respell(backend)
        return [respell] if respell.is_needed else []

    @staticmethod
    def _lacks_control_flow(backend: Backend) -> bool:
        """Tell whether the backend lacks If, Loop or Scan; then conversion for it may unroll loops and try again."""
        return any(not backend.has("", op, backend.opset) for op in ("If", "Loop", "Scan"))

    @property
    def _reaches(self) -> bool:
        """Whether the list needs a `Reach` stage: for an opset, an IR version, a backend, or operators to replace."""
        named = bool(self.names) or self.domain is not None or self.portable or self.refinement.dequantizes
        return named or bool(self.targets) or self.ir_version is not None or self.reader is not None

    def run(self, source: ModelProto, folder: str | None = None, allowance: Allowance | None = None) -> Result:
        """Apply the stages to a copy of the model; the result holds the new model, or the refusals.

        Every command that changes a model calls this, as do `plan`, `--dry-run` and `inspect --target`.

        `folder` is where external data lie. Optional stages make no change that `allowance` withholds.

        Raises:
            InvalidModel: the model is not valid.
            ValueError: an operator to replace or to fold is not known, or the model's opset does not have it.
        """
        types = self.types.find_in(source) if self.types is not None else None
        if types is not self.types:
            return replace(self, types=types).run(source, folder, allowance)
        allowance = allowance or Allowance()
        given = source
        try:
            facts = Facts(folder, convert.check_model(source))
            untyped = any(not _has_elem_type(value) for value in source.graph.output)
            if untyped:
                source, facts.survey = _with_output_types(source), None
            check_available(self.refinement, {**imports.opsets(source), **self.targets})
            result = apply_stages(self.stages(), source, facts, allowance)
            if untyped and result.model is not None:  # the types of some operators tell shapes, those of others do not
                result = replace(result, model=_with_output_types(result.model))
        except Lacking as lacking:
            return Result(None, (), (lacking.refusal,))
        if result.model is given:
            result = replace(result, model=copy_model(source))
        if any("unknown" in refusal.why for refusal in result.refusals) and (doubt := installed.doubt()) is not None:
            result = replace(result, refusals=(*result.refusals, doubt))
        idle = self.refinement.dequantizes and not result.refusals and not result.changes
        absent = (*result.absent, "QLinear operator") if idle else result.absent
        return replace(result, optional=tuple(allowance.made), absent=absent)

    @property
    def has_options(self) -> bool:
        """Whether one of `OPTIONS` is asked for, which is a goal by itself."""
        done = bool(self.fixed) or self.rebatch is not None or self.annotate or bool(self.ends)
        done = done or bool(self.unroll or self.if_to_where) or self.zipmap or self.maps
        return done or bool(self.carriers) or self.types is not None

    @property
    def plain(self) -> Goal:
        """The goal without its optional stages."""
        return replace(self, refinement=self.refinement.demanded)

    @property
    def label(self) -> str:
        """Name the goal for an output file: `opset13`, `for-rknn-2.1`, `optimized`. Used when no output is named."""
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
        reached += [self.types.label] if self.types is not None else []
        if self.refinement.fold or self.refinement.optimize:
            return "-".join(reached) or ("folded" if self.refinement.fold else "optimized")
        if self.rebatch is not None:
            reached.append(f"batch-{self.rebatch}")
        if not reached and (self.zipmap or self.maps) and not self.fixed:
            return "tensors"
        if not reached and self.ends and not self.fixed:
            return "renamed" if self.ends.renamed else "outputs"
        if not reached and self.carriers and not self.fixed:
            return "carried"
        if not reached and (self.unroll or self.if_to_where) and not self.fixed:
            return "unrolled"
        return "-".join(reached) or ("fixed" if self.fixed else "annotated" if self.annotate else "packed")

    @property
    def description(self) -> str:
        """Name what is to be reached, as the end of a sentence: `at opset 13`, `for rknn-2.1`.

        Used in reports.
        """
        if self.backend is not None:
            return f"for {self.backend.name}"
        reached = [f"opset {opset}{f' of {domain}' if domain else ''}" for domain, opset in self.targets.items()]
        if not reached and self.ir_version is not None:
            reached = [f"IR version {self.ir_version}"]
        return f"at {' and '.join(reached)}" if reached else ""

    def find_unread(self, made: ModelProto, folder: str | None) -> tuple[Refusal, ...]:
        """List calls in the result that failed when the backend was measured. Reports show them after a conversion."""
        if self.reader is None or not self.reader.measured:
            return ()
        from opshift.passes.backends.door import obstacles

        return tuple(obstacles(made, self.reader, folder))

    def ask_for_numbers(
        self, source: ModelProto, result: Result, folder: str | None
    ) -> tuple[tuple[Refusal, ...], Result]:
        """List inputs that the user has to fix before the backend reads the model: dynamic sizes, and values that
        decide an If. `inspect --target` lists them.

        Returns:
            The inputs, as refusals that name the options. None if the backend reads the given result, or if numbers do
            not help one that reads dynamic sizes. And the result at numbers of our own if it is read there, else the
            given one.
        """
        if self.backend is None:
            return (), result
        from opshift.passes.backends.door import find_open_inputs, list_attempts

        sized = self.fix_sizes(source)
        found = find_open_inputs(sized)
        needed, is_small = self.backend.static_shapes and bool(found.sized), len(source.graph.node) <= MOST_TRIED
        if not needed and not (is_small and (found.sized or found.deciding)):
            return (), result
        if not needed and result.model is not None and not self.find_unread(result.model, folder):
            return (), result
        for attempts in list_attempts(sized, found) if is_small else ():
            is_written = False
            for asked, numbers in attempts:
                with suppress(InvalidModel, ValueError, DecodeError):
                    made = replace(self.plain, fixed=self.fixed.with_numbers(numbers)).run(source, folder)
                    is_written |= made.model is not None
                    if made.model is not None and not self.find_unread(made.model, folder):
                        return asked, made
            if is_written:  # no operator is missing for its length
                break
        return (*found.sized, *found.deciding) if needed else (), result

    def refuse_open_inputs(self, source: ModelProto, result: Result, folder: str | None) -> Result:
        """Refuse a result for a backend that needs numbers which the model leaves open; others come back as they are.

        Commands that write a model call this. `--try` does not: it may fix sizes itself.
        """
        needs, at_numbers = self.ask_for_numbers(source, result, folder)
        if not needs or at_numbers.refusals:  # which numbers do not cure
            return result
        return replace(result, model=None, refusals=(*result.refusals, *needs))

    def fix_sizes(self, source: ModelProto) -> ModelProto:
        """Copy the model with sizes and inputs fixed; the model itself if nothing is fixed.

        The proof, `--try` and advice compare this copy with the result: its inputs and outputs are those of the result.
        """
        from opshift.passes.inputs.writing import write_into_copy

        return write_into_copy(self.with_ends(source), self.fixed)

    def carry_types(self, source: ModelProto, folder: str | None) -> ModelProto:
        """Copy the source with types stored in others (`--interface float8e4m3fn=float`), as far as that is asked
        for and can be done. The search for the nearest opset starts from this copy.
        """
        if not self.carriers:
            return source
        from opshift.passes.stages.carry import Carry

        return Carry(self.carriers).apply(source, Facts(folder), Allowance()).model or source

    def with_ends(self, source: ModelProto) -> ModelProto:
        """Copy the source with the inputs and outputs of the result, so that the proof can compare both; the source
        itself if they are the same.

        Maps are tensors in it where that is asked for.
        """
        if self.ends:
            from opshift.passes.surgery.door import change_ends

            source, _ = change_ends(source, self.ends)
        if not (self.zipmap or self.maps):
            return source
        from opshift.passes.specialization.door import as_tensors

        return as_tensors(source, zipmap=self.zipmap, maps=self.maps)[0]

    def find_nearest_opset(self, source: ModelProto, result: Result, folder: str | None) -> int | None:
        """After a refusal, find the opset closest to the target that the model can reach; None if unknown."""
        if not result.refusals or not self.targets or self.names or self.domain is not None:
            return None
        if any(refusal.op in (LACKING, "types") or self._is_lacked(refusal) for refusal in result.refusals):
            return None  # another opset would not help, or was tried already
        source = self.carry_types(self.fix_sizes(source), folder)
        return convert.find_nearest_opset(source, result.refusals, self.targets, folder)

    def _is_lacked(self, refusal: Refusal) -> bool:
        """Whether a refusal is about an operator that the backend lacks, or one of another domain that must go: other
        opsets do not help then.
        """
        op = normalize_domain(refusal.domain), refusal.op
        if self.reader is None or self.portable:
            return bool(self.portable and op[0])
        return op in self.reader.lacks or op[0] in schemas.VENDORS or is_runtime_extension(*op, self.targets.get("", 1))

    def make_error(self, source: ModelProto, result: Result, folder: str | None) -> Refused:
        """Make the exception for a refused model. Used by the Python API, where a refusal is an exception."""
        target = self.targets.get("") if self.backend is None else self.backend.name
        return Refused(result.refusals, target=target, nearest=self.find_nearest_opset(source, result, folder))


def _has_elem_type(output: ValueInfoProto) -> bool:
    kind = output.type.WhichOneof("value")
    return bool(elem_type_of(output.type)) if kind in (None, "tensor_type") else not missing_of(output)


def _with_output_types(source: ModelProto) -> ModelProto:
    """Infer the types of outputs that the source leaves out. Runs before the stages, and again on their result."""
    from opshift.passes.specialization.door import with_output_types

    return with_output_types(source)


def convert_version_goal(target: Target | None, ir_version: int | None, wanted: Refinement, **options: Any) -> Goal:
    """Make the goal of `convert_version`; `options` are those of `with_options`.

    Raises:
        ValueError: the target is not known, an option has no meaning, or nothing is asked.
    """
    goal = with_options(conversion(target, ir_version, wanted), **options)
    if target is None and ir_version is None and wanted == NOTHING and not goal.has_options:
        raise ValueError("nothing to do: give an opset, opsets by domain, a target or an IR version")
    return goal


def with_options(
    goal: Goal,
    *,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: sizes.BatchSize | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    zipmap: str | None = None,
    map: str | None = None,
    types: str | None = None,
    interface: Iterable[str] | str | None = None,
    keep: Iterable[str] | str | None = None,
    only: Iterable[str] | str | None = None,
    budget: float | Iterable[str] | Mapping[str, float] | str | None = None,
) -> Goal:
    """Add to a goal what every verb that writes a model can do besides, by the names on the command line and in Python.

    Raises:
        ValueError: an option has no meaning.
    """
    goal = with_types(with_tensors(goal, zipmap, map), types, interface, keep, only, budget)
    unroll, if_to_where = sizes.whole(unroll), sizes.whole(if_to_where)
    for option, most in (("unroll", unroll), ("if-to-where", if_to_where)):
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ValueError(f"--{option} must be 1 or more, not {most!r}")
    return replace(
        goal,
        fixed=fixed(fix_shape, set),
        rebatch=sizes.batch(rebatch),
        annotate=annotate,
        ends=ends_of(rename, add_output, drop_output),
        unroll=unroll or 0,
        if_to_where=if_to_where or 0,
    )


OPTIONS = tuple(with_options.__kwdefaults__ or ())
"""The names of the options that every verb which writes a model has."""


def with_tensors(goal: Goal, zipmap: str | None, maps: str | None) -> Goal:
    """Add to a goal that maps become tensors (`--zipmap`, `--map`); raises `ValueError` for anything but `tensor`."""
    for option, form in (("zipmap", zipmap), ("map", maps)):
        if form not in (None, "tensor"):
            raise ValueError(f"--{option} must be tensor or left out, not {form}")
    return replace(goal, zipmap=zipmap is not None, maps=maps is not None)


def with_carriers(goal: Goal, interface: Iterable[str] | str | None) -> Goal:
    """Add to a goal the types that are stored in others, written as `float8e4m3fn=float`; raises `ValueError` for
    types that do not fit.
    """
    pairs = texts(interface, "give interface as pairs of types, such as float8e4m3fn=float")
    if not pairs:
        return goal
    from opshift.passes.types.door import read_carriers

    return replace(goal, carriers=read_carriers(pairs))


def with_types(
    goal: Goal,
    types: str | None,
    interface: Iterable[str] | str | None = None,
    keep: Iterable[str] | str | None = None,
    only: Iterable[str] | str | None = None,
    budget: float | Iterable[str] | Mapping[str, float] | str | None = None,
) -> Goal:
    """Add to a goal the change of element types (`--types`), and types that are stored in others (`--interface`).

    `interface` may also say which types inputs and outputs have. Raises `ValueError` for what has no meaning.
    """
    if not isinstance(types, str | None):
        raise ValueError(f"give types as text, such as float16 or int64=int32, not {types!r}")
    interfaces = texts(interface, "give interface as text, such as narrow or float8e4m3fn=float")
    keep, only = (texts(each, "give nodes to keep or change by patterns, such as op:Softmax") for each in (keep, only))
    own = [text for text in interfaces if "=" not in text or text.startswith(("input:", "output:"))]
    goal = with_carriers(goal, [text for text in interfaces if text not in own])
    if types is None:
        for name, value in (("interface keep or narrow", own), ("keep", keep), ("only", only), ("budget", budget)):
            if value:
                raise ValueError(f"--{name} needs --types")
        return goal
    from opshift.passes.types.door import types as wanted
    from opshift.passes.types.door import types_of_target

    backend = goal.reader
    if types == "target":
        if backend is None:
            raise ValueError("--types target needs --target")
        lacking = [each for each in ("bfloat16", "float16") if backend.types and f"tensor({each})" not in backend.types]
        of_target = types_of_target(backend.name, backend.casts, lacking, own, keep, only, budget)
        return replace(goal, types=of_target, folds_sizes=of_target.of_integers)
    asked = wanted(types, own, keep, only, budget)
    if goal.backend is not None and asked.of_integers and "int64" in goal.backend.casts:
        asked = replace(asked, target=goal.backend.name)
    return replace(goal, types=asked, folds_sizes=bool(asked.target))


def conversion(target: Target | None, ir_version: int | None = None, wanted: Refinement = NOTHING) -> Goal:
    """Make the goal to convert to a target, or to keep the opset; raises `ValueError` for an unknown target.

    Used by the command line and the Python API.
    """
    targets, ir = resolve_target(target) if target is not None else ({}, None)
    wanted = replace(wanted, backend=find_backend(target))
    return Goal(targets, check_ir_version(ir_version) or ir, refinement=wanted)


def inlining(
    names: Iterable[str],
    domain: str | None = None,
    target: Target | None = None,
    ir_version: int | None = None,
    wanted: Refinement = NOTHING,
    *,
    portable: bool = False,
) -> Goal:
    """Make the goal to replace operators, at an opset, or all that a backend lacks; raises `ValueError` for an
    unknown target. Used by the command line and the Python API.
    """
    from opshift.passes.stages.operator_names import as_names

    backend = find_backend(target)
    targets = resolve_target(target)[0] if target is not None and backend is None else {}
    names, wanted = as_names(names), replace(wanted, backend=backend)
    return Goal(targets, check_ir_version(ir_version), names, domain, backend, wanted, portable)


def folding(ops: Iterable[str] | None = None, *, optimize: bool = False) -> Refinement:
    """Make the wish to fold operators; None: all that exporters write as several nodes.

    Used by `opshift fold` and `--modernize`.

    Raises:
        ValueError: an operator is not known, or has no definition to recognise it by, or none is named.
    """
    from opshift.passes.stages.operator_names import as_names, find_recognisable

    wanted = None if ops is None else frozenset(map(find_recognisable, as_names(ops)))
    if wanted is not None and not wanted:
        raise ValueError("give at least one operator, or leave the list out to fold all common ones")
    return Refinement(True, wanted, optimize)


def check_available(wanted: Refinement, opsets: Mapping[str, int]) -> None:
    """Raise `ValueError` for operators to fold that the opset or the backend does not have.

    Runs before the first stage.
    """
    for domain, op in sorted(wanted.ops or ()):
        opset, first = opsets.get(domain, 1), min(schemas.versions(domain, op), default=1)
        if opset < first:
            why = f"came with opset {first}, and the model is at {opset}; convert it first (--opset {first})"
            raise ValueError(f"{op} {why}")
        if wanted.backend is not None and not wanted.backend.has(domain, op, opset):
            raise ValueError(
                f"{wanted.backend.name} does not support {op}, which this change writes; leave out the "
                "target or the change"
            )
