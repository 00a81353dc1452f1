"""What became of a file, as a person and a program are told it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opshift.passes.changes import Change
from opshift.passes.errors import Refusal
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import census
from opshift.passes.records import dataclass

if TYPE_CHECKING:
    from opshift.jobs.yielding import TakenBack
    from opshift.passes.backends.knowledge import Known
    from opshift.trying.tried import Tried
    from opshift.verification.judgement import Verification


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
    `tried` what came of trying the result in an installed backend, `untried` the target where nobody asked for that.
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
    from opshift.passes.backends.knowledge import BELIEVED, READ, UNKNOWN

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


def text(name: str | bytes) -> str:
    """A name in a model: protobuf yields bytes where a file holds what is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def several(count: int, noun: str) -> str:
    """So many of something: `1 run`, `3 runs`."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


_SHOWN = 8  # inputs of a run


def fed(found: Verification) -> str:
    """On which inputs two models ran, in one line; empty where they did not."""
    told = dict.fromkeys(
        ", ".join(f"{text(name)} {_sizes(held)}" for name, held in list(run.items())[:_SHOWN])
        + (f" and {len(run) - _SHOWN} more" if len(run) > _SHOWN else "")
        for run in found.inputs
    )
    return f"{'verified' if found.equal else 'run'} with {'; '.join(filter(None, told))}" if any(told) else ""


def remarked(found: Verification) -> list[str]:
    """What was seen and does not decide, line by line."""
    return [f"remark: {remark}" for remark in found.remarks]


def _sizes(held: Any) -> str:
    """A shape, those of a sequence, or a single number."""
    return f"= {held}" if isinstance(held, int) else json.dumps(held, separators=(",", ""))


def verdict(found: Verification) -> str:
    """One sentence on a verification."""
    if found.status == "unverified":
        return f"could not be verified: {found.why}"
    judged = f"{found.engine}, {several(found.runs, 'run')}" if found.engine else "neither was run"
    if found.equal:
        said = [f"worst absolute error {found.absolute:.3g}, relative {found.relative:.3g}", *_bounds(found)]
        if found.drawn:
            said.append(f"drawn at random, compared by type and shape alone: {', '.join(found.drawn)}")
        return f"equal ({'; '.join([judged, *said])})"
    place = f' first at tensor "{found.tensor}"' if found.tensor else ""
    maker = f", which {found.op} {found.node!r} makes of values that agree" if found.node else ""
    said = [f"other weights: {', '.join(found.weights)}"] if found.weights else []
    said += [*_tolerated(found), *[found.float64] * found.float64.startswith("no twins")]
    said += [f"the smallest models that differ are in {found.repro}"] if found.repro else []
    return "; ".join([f"DIFFERENT{place}{maker} ({judged}): {found.why}", *said])


def unproved(found: Verification) -> str:
    """Why a model was not written that could not be verified, and what to try."""
    lost = found.why.startswith("external data")
    why = "its weights are not there; bring their file, or" if lost else "no engine could prove it;"
    return f"not written: {why} try --no-verify, which writes a model that nobody has run"


def blamed(outcome: Outcome) -> list[Change]:
    """What was done to the nodes whose values differ first."""
    parts = outcome.verification.parts if outcome.verification is not None else ()
    return [change for change in outcome.changes if change.node in parts]


def _tolerated(found: Verification) -> list[str]:
    """The outputs that are held against tolerances of the user."""
    from opshift.verification.judgement import TOLERANCE

    held = [output for output in found.outputs if output.judge == TOLERANCE]
    return [f'"{o.output}" is {o.accuracy:.3g} from the source, tolerance {o.accuracy_bound:.3g}' for o in held]


def _bounds(found: Verification) -> list[str]:
    """The output that is nearest to its bounds, and what is to be said of the twins; nothing for equal bits."""
    from opshift.verification.judgement import DIRECT, TWINS

    said = _tolerated(found)
    measured = [output for output in found.outputs if output.judge in (TWINS, DIRECT)]
    if measured:
        worst = max(measured, key=lambda output: output.share)
        if worst.judge == TWINS:
            same = f"in float64 the forms are {worst.function:.2g} apart, bound {worst.function_bound:.2g}"
            good = f"the result is {worst.accuracy:.2g} from its twin, bound {worst.accuracy_bound:.2g}"
            said.append(f'"{worst.output}": {same}, {good}')
        else:
            said.append(f'"{worst.output}" by the printed bound {worst.accuracy_bound:.2g}')
        said += [found.float64] * bool(found.float64)
    said += [f'{count} elements of "{name}" decided by less than the bound' for name, count in found.ties.items()]
    return said + [f"interfaces are cast: {', '.join(found.cast)}"] * bool(found.cast)
