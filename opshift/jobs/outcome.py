"""What became of a file, as a person and a program are told it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes.changes import Change, StageReport, TypesReport
from opshift.passes.errors import Refusal
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import census
from opshift.passes.records import dataclass

if TYPE_CHECKING:
    from opshift.jobs.measuring import Deviation
    from opshift.jobs.yielding import TakenBack
    from opshift.passes.backends.door import KnownCalls
    from opshift.trying.door import Tried
    from opshift.verification.verdict import Verification


@dataclass(frozen=True)
class FileFacts:
    """What a model file is, in numbers. `size` is in bytes, without external data."""

    opsets: dict[str, int]
    ir_version: int
    nodes: int
    functions: int
    size: int
    ops: dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """A conversion from file to file, as it is reported.

    `seconds` holds the time of each phase, `folded` how many operators were recognised, None where nobody asked,
    `taken_back` the optional changes that were not proved, and that the result does without; `absent` the operators
    that were to be replaced, and of which the model has none, `tries` what was found to lead on where it is refused,
    and `target` what was asked for; `stays` the calls that stay on floats though operators on integers were asked for;
    `unread` what is left that the backend which the opset is named for was seen not to read;
    `stages` what was done in which order, and how long each took;
    `tried` what came of trying the result in an installed backend, `untried` the target where nobody asked for that,
    `unloaded` says that the installed onnxruntime does not load the result, though it loads the source;
    `types` says what became of element types, `deviations` how far each output moves by that.
    """

    source: str
    output: str
    before: FileFacts
    after: FileFacts | None
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    grade: str
    seconds: dict[str, float]
    nearest: int | None = None
    verification: Verification | None = None
    needs: tuple[Refusal, ...] = ()
    folded: int | None = None
    taken_back: tuple[TakenBack, ...] = ()
    absent: tuple[str, ...] = ()
    stays: tuple[Refusal, ...] = ()
    unread: tuple[Refusal, ...] = ()
    tries: tuple[str, ...] = ()
    target: str = ""
    tried: Tried | None = None
    untried: str = ""
    unloaded: str = ""
    stages: tuple[StageReport, ...] = ()
    types: TypesReport | None = None
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True)
class Prospect:
    """What a target thinks of a model: what it does not read, what would be rewritten for it, what would be refused.

    `needs` is what is left to the user: dimensions without a number. An opset is a target, too (`opset`). `known` says
    of the rest what is known of it, with the number of calls: `read` (measured), `believed` (documented) or `unknown`.
    `tries` is what was found to lead on where it is refused.
    """

    target: str
    obstacles: tuple[Refusal, ...]
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    needs: tuple[Refusal, ...]
    opset: bool = False
    known: tuple[Knowledge, ...] = ()
    tries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Knowledge:
    """What is known of calls of one operator, how many they are, and the reason where nobody knows."""

    word: str
    operator: str
    count: int
    why: str = ""


def knowledge(calls: Iterable[KnownCalls]) -> tuple[Knowledge, ...]:
    """The same by word, operator and reason."""
    from opshift.passes.backends.door import BELIEVED, READ, UNKNOWN

    counted = Counter(calls)
    order = [READ, BELIEVED, UNKNOWN]
    rows = [Knowledge(word, op, count, why) for (op, word, why), count in counted.items()]
    return tuple(sorted(rows, key=lambda row: (order.index(row.word), row.operator, row.why)))


def facts(model: ModelProto, size: int, calls: Mapping[tuple[str, str], int] | None = None) -> FileFacts:
    """What a model consists of, its subgraphs and functions included; `calls` of operators, where they are known."""
    ops: Counter[str] = Counter()
    for (domain, op), count in (census([*model.functions, model.graph])[1] if calls is None else calls).items():
        ops[f"{text(domain)}::{text(op)}" if domain else text(op)] += count
    return FileFacts(
        opsets(model),
        model.ir_version,
        sum(ops.values()),
        len(model.functions),
        size,
        dict(sorted(ops.items())),
    )


def stage_lines(stages: Iterable[StageReport]) -> list[str]:
    """One line for each stage: what it was for, how much it changed, and how long it took."""
    lines = []
    for place, stage in enumerate(stages, 1):
        done = several(stage.changes, "change") if stage.changes else "nothing to change"
        lines.append(f"stage {place}: {stage.said}: {done}, {stage.seconds:.2f} s")
    return lines


def text(name: str | bytes) -> str:
    """A name in a model: protobuf yields bytes where a file holds what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def several(count: int, noun: str) -> str:
    """So many of something: `1 run`, `3 runs`."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


_SHOWN = 8  # inputs of a run


def verdict(found: Verification) -> str:
    """The first line of a report: whether the models are equal, and where they differ if not."""
    if found.status == "unverified":
        return f"not proved: {found.why}"
    if found.equal and not found.engine:
        return f"every changed part is equal; outputs were not compared{f' ({found.why})' if found.why else ''}"
    if found.equal:
        return f"equal: {'the same values' if found.is_same else 'the same function, other rounding'}"
    place = f' at "{found.tensor}"' if found.tensor else ""
    maker = f", made by {found.op} {found.node!r}" if found.node else ""
    said = [f"other weights: {', '.join(found.weights)}"] if found.weights else []
    said += [f"the smallest models that differ are in {found.repro}"] if found.repro else []
    return "; ".join([f"DIFFERENT{place}{maker}: {found.why}", *said])


def describe_measurements(found: Verification) -> list[str]:
    """The lines behind the first one: how far apart, on which inputs, and what was not covered."""
    lines = []
    worst = found.worst
    if worst is not None and not found.is_same:
        whose = f' (output "{worst.output}")' if len(found.outputs) > 1 else ""
        lines.append(f"largest difference {worst.difference:.1g}, allowed {worst.allowed:.1g}{whose}")
    elif found.equal and not found.engine and found.regions:
        worst_region = max(found.regions, key=lambda region: region.difference)
        if worst_region.difference:
            said = f"{worst_region.difference:.1g}, allowed {worst_region.allowed:.1g}"
            lines.append(f"largest difference of a changed part {said}")
    if found.inputs:
        shown = dict.fromkeys(_shapes(run) for run in found.inputs)
        lines.append(f"tested on {several(len(found.inputs), 'input')}: {'; '.join(filter(None, shown))}".rstrip(": "))
    if found.drawn:
        lines.append(f"random outputs, compared by type and shape: {', '.join(found.drawn)}")
    if found.cast:
        lines.append(f"compared in the narrower type: {', '.join(found.cast)}")
    return [*lines, *(f"remark: {remark}" for remark in found.remarks)]


def proof_details(found: Verification) -> list[str]:
    """What `-v` says of each kind of changed part."""
    rows = []
    for region in found.regions:
        what = f"{_operators(region.before)} -> {_operators(region.after)}"
        count = several(region.places, "place")
        how = "same bits" if region.is_same else f"{region.difference:.1g} of {region.allowed:.1g}"
        ran = f"{several(region.runs, 'input')}{'' if region.captured else ', drawn only'}"
        rows.append(f"{what}: {region.status}, {count}, {ran}, {how}" if region.runs else f"{what}: {region.status}")
    return rows


def _operators(ops: Sequence[str]) -> str:
    """Operators as a report names them: few by name, many by their number."""
    if not ops:
        return "constant"
    return "+".join(ops) if len(ops) <= 3 else f"{len(ops)} nodes"


def _shapes(run: Mapping[str, Any]) -> str:
    """The inputs of a run: `x 1x3x64x64, length 7`."""
    shown = [f"{text(name)} {_sizes(held)}" for name, held in list(run.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(run) - _SHOWN} more" if len(run) > _SHOWN else "")


def _sizes(held: Any) -> str:
    """A shape, those of a sequence, or a single number."""
    if isinstance(held, int):
        return f"= {held}"
    if any(isinstance(size, list) for size in held):
        return f"[{', '.join(map(_sizes, held))}]"
    return "x".join(map(str, held)) or "scalar"


def explain_unproved(found: Verification) -> str:
    """Why a model was not written that could not be verified, and what to try."""
    lost = found.why.startswith("external data")
    why = "bring the file of its weights, or" if lost else "no engine runs what changed;"
    return f"not written: {why} try --no-verify, which writes a model that nobody has run"


def find_blamed(outcome: Outcome) -> list[Change]:
    """What was done to the nodes whose values differ first."""
    parts = outcome.verification.blamed if outcome.verification is not None else ()
    return [change for change in outcome.changes if change.node in parts]
