"""The outcome of a conversion, and the sentences that reports make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opshift.passes.changes import Change, StageReport, TypesReport
from opshift.passes.errors import Refusal
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import census
from opshift.passes.records import dataclass, field
from opshift.verification.verdict import list_measurements as list_measurements
from opshift.verification.verdict import several as several
from opshift.verification.verdict import text as text
from opshift.verification.verdict import verdict as verdict

if TYPE_CHECKING:
    from opshift.jobs.measuring import Deviation
    from opshift.jobs.yielding import TakenBack
    from opshift.passes.backends.door import KnownCalls
    from opshift.trying.door import Tried
    from opshift.verification.verdict import Verification


@dataclass(frozen=True)
class FileFacts:
    """Numbers about a model file. `size` is in bytes, without external data."""

    opsets: dict[str, int]
    ir_version: int
    nodes: int
    functions: int
    size: int
    ops: dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a conversion from file to file.

    `seconds` has the time of each phase, `stages` what each stage did. `folded` counts folded operators (None: not
    asked), `taken_back` lists optional changes that the proof rejected. `absent` are operators to replace that the
    model does not have, `stays` calls that were not quantized, `control_flow` loops and Ifs that stay, `unread` calls
    that failed when the target was measured.
    `target` is the goal in words, `nearest` and `tries` are hints after a refusal. `tried` is the result of `--try`,
    `untried` the name of the target without `--try`. `unloaded` warns that the installed onnxruntime loads only the
    source. `types` reports changes of element types, `deviations` how far outputs move by them.
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
    folded: int | None = None
    taken_back: tuple[TakenBack, ...] = ()
    absent: tuple[str, ...] = ()
    stays: tuple[Refusal, ...] = ()
    control_flow: tuple[Refusal, ...] = ()
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
    """The result of `opshift inspect --target`: what the target lacks, what opshift would change or refuse.

    `needs` are dynamic dimensions that the user has to fix. `opset`: the target is an opset. `known` counts the other
    calls as `read` (measured), `believed` (documented) or `unknown`. `tries` are hints after a refusal. `casts` are
    types of the model that the target stores in other types. `unread` are calls that failed when the target was
    measured, and that opshift cannot rewrite.
    """

    target: str
    obstacles: tuple[Refusal, ...]
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    needs: tuple[Refusal, ...]
    opset: bool = False
    known: tuple[Knowledge, ...] = ()
    tries: tuple[str, ...] = ()
    casts: dict[str, str] = field(default_factory=dict)
    unread: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Knowledge:
    """The number of calls of one operator, and whether the target is known to run them."""

    word: str
    operator: str
    count: int
    why: str = ""


def knowledge(calls: Iterable[KnownCalls]) -> tuple[Knowledge, ...]:
    """Count calls by what is known of them, operator and reason."""
    from opshift.passes.backends.door import BELIEVED, READ, UNKNOWN

    counted = Counter(calls)
    order = [READ, BELIEVED, UNKNOWN]
    rows = [Knowledge(word, op, count, why) for (op, word, why), count in counted.items()]
    return tuple(sorted(rows, key=lambda row: (order.index(row.word), row.operator, row.why)))


def facts(model: ModelProto, size: int, calls: Mapping[tuple[str, str], int] | None = None) -> FileFacts:
    """Count a model's operators, subgraphs and functions included; `calls` if they were counted before."""
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
    """Write one line for each stage: its name, its changes, its time. Printed with `-v`."""
    lines = []
    for place, stage in enumerate(stages, 1):
        done = several(stage.changes, "change") if stage.changes else "nothing to change"
        lines.append(f"stage {place}: {stage.full_name}: {done}, {stage.seconds:.2f} s")
    return lines


def proof_details(found: Verification) -> list[str]:
    """Write one line for each kind of changed part, for `-v`."""
    rows = []
    for region in found.regions:
        what = f"{_operators(region.before)} -> {_operators(region.after)}"
        count = several(region.places, "place")
        apart = f"largest difference {region.difference:.1g}, allowed {region.allowed:.1g}"
        how = "same bits" if region.is_same else apart
        ran = f"{several(region.runs, 'input')}{'' if region.captured else ', drawn only'}"
        rows.append(f"{what}: {region.status}, {count}, {ran}, {how}" if region.runs else f"{what}: {region.status}")
    return rows


def _operators(ops: Sequence[str]) -> str:
    """Name the operators of a part: few by name, many by their number. Printed with `-v`."""
    if not ops:
        return "constant"
    return "+".join(ops) if len(ops) <= 3 else f"{len(ops)} nodes"


def explain_unproved(found: Verification) -> str:
    """Say why a model that could not be verified was not written, and what to try.

    Printed at the end, with exit code 3.
    """
    lost = found.why.startswith("external data")
    why = "add the file of its weights, or" if lost else "no engine runs what changed;"
    return f"not written: {why} try --no-verify, which writes a model that nobody has run"


def find_blamed(outcome: Outcome) -> list[Change]:
    """List the changes of the nodes whose values differ first."""
    parts = outcome.verification.blamed if outcome.verification is not None else ()
    return [change for change in outcome.changes if change.node in parts]
