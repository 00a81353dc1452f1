"""What became of a file, as a person and a program are told it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opshift.passes.changes import Change, StageReport, TypesReport
from opshift.passes.errors import Refusal
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import census
from opshift.passes.records import dataclass
from opshift.verification.verdict import measured as measured
from opshift.verification.verdict import several as several
from opshift.verification.verdict import text as text
from opshift.verification.verdict import verdict as verdict

if TYPE_CHECKING:
    from opshift.jobs.measuring import Deviation
    from opshift.jobs.yielding import TakenBack
    from opshift.passes.backends.door import Known
    from opshift.trying.door import Tried
    from opshift.verification.verdict import Verification


@dataclass(frozen=True)
class Facts:
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
    before: Facts
    after: Facts | None
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


def knowledge(calls: Iterable[Known]) -> tuple[Knowledge, ...]:
    """The same by word, operator and reason."""
    from opshift.passes.backends.door import BELIEVED, READ, UNKNOWN

    counted = Counter(calls)
    order = [READ, BELIEVED, UNKNOWN]
    rows = [Knowledge(word, op, count, why) for (op, word, why), count in counted.items()]
    return tuple(sorted(rows, key=lambda row: (order.index(row.word), row.operator, row.why)))


def facts(model: ModelProto, size: int, calls: Mapping[tuple[str, str], int] | None = None) -> Facts:
    """What a model consists of, its subgraphs and functions included; `calls` of operators, where they are known."""
    ops: Counter[str] = Counter()
    for (domain, op), count in (census([*model.functions, model.graph])[1] if calls is None else calls).items():
        ops[f"{text(domain)}::{text(op)}" if domain else text(op)] += count
    return Facts(
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


def unproved(found: Verification) -> str:
    """Why a model was not written that could not be verified, and what to try."""
    lost = found.why.startswith("external data")
    why = "bring the file of its weights, or" if lost else "no engine runs what changed;"
    return f"not written: {why} try --no-verify, which writes a model that nobody has run"


def blamed(outcome: Outcome) -> list[Change]:
    """What was done to the nodes whose values differ first."""
    parts = outcome.verification.blamed if outcome.verification is not None else ()
    return [change for change in outcome.changes if change.node in parts]
