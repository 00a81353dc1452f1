"""Records of what a conversion changed, and what it refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from opshift.passes.errors import Refusal
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Calls, Op
from opshift.passes.records import dataclass, field, replace

CONTRADICTED = "Ignored a declared shape that contradicts the inferred one"
"""What is said of a declaration that is wrong."""
RETYPED = "Changed its element type"
"""What is said of a node that reads or makes another type; a report tells of all of them at once."""
GRANTED = "assuming that dynamic sizes are 1 or more"
"""The remark on what holds of no others, which is never `exact`."""


class Change(NamedTuple):
    """A change of one node, in a sentence, and its grade.

    Attributes:
        node: the node's name in the source, or the name of the value or graph that changed; empty for the model itself.
        op: its operator.
        domain: the operator's domain; empty for the default one.
        source: the version that the node was at; 0, with `target` 0, if no version changed.
        target: the version that it is at now.
        how: what was done, such as `Moved axes from input to attribute`.
        grade: `exact`: the same values for every input; `close`: the same real-number function, other rounding.
        remark: why it is `close`, where there is more to say.
    """

    node: str
    op: str
    domain: str
    source: int
    target: int
    how: str
    grade: str = "exact"
    remark: str = ""

    @property
    def rung(self) -> str:
        """The versions: `18 -> 13`, `at 18`, or `below 23` for a removed operator; empty for other changes."""
        if not self.source and not self.target:
            return ""
        if self.source == self.target:
            return f"at {self.source}"
        return f"{self.source} -> {self.target}" if self.target else f"below {self.source}"


Withheld = frozenset[tuple[str, str, str]]
"""Optional changes that are not to be made, as node, operator and what is done; an empty name stands for every node."""


class Allowance:
    """Which optional changes a stage may make: none that is withheld, and no more than `most` in all.

    Stages make changes in the same order each time, so that `most` stands for the first ones. Folding brings in no
    operator that is `kept_out`.
    """

    def __init__(
        self, withheld: Withheld = frozenset(), most: int | None = None, kept_out: frozenset[Op] = frozenset()
    ):
        self._withheld = withheld
        self._most = most
        self.kept_out = kept_out
        self.made: list[Change] = []

    def keeping_out(self, ops: frozenset[Op]) -> Allowance:
        """Copy the allowance so that these operators may not come in either."""
        return Allowance(self._withheld, self._most, self.kept_out | ops)

    def withhold(self, withheld: Withheld, earlier: int) -> None:
        """Withhold more changes, and forget those made after the first `earlier` ones."""
        self._withheld |= withheld
        del self.made[earlier:]

    @property
    def binds(self) -> bool:
        """Whether any change is withheld."""
        return self._most is not None or bool(self._withheld)

    def permits(self, node: str, op: str, how: str) -> bool:
        """Whether one more change may be made to this node, described as `how`."""
        if self._most is not None and len(self.made) >= self._most:
            return False
        return not self._withheld or not {(node, op, how), ("", op, how)} & self._withheld


@dataclass
class Ledger:
    """The changes and refusals of a conversion."""

    changes: list[Change] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    illegal: list[Refusal] = field(default_factory=list)
    """What arrived in a form that the target does not take; it counts where nothing is refused."""


class Batch(NamedTuple):
    """The batch size of the source, and the batch axes of its inputs and outputs.

    An output without a batch axis does not depend on the samples.
    """

    size: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int | None]


class Kept(NamedTuple):
    """A node that keeps its type, and why."""

    node: str
    domain: str
    op: str
    output: str
    why: str


@dataclass(frozen=True)
class TypesReport:
    """What became of the element types of a model.

    Attributes:
        types: the types that were asked for.
        narrowed: how many nodes have another type.
        casts: the casts that were added between nodes, by name.
        outside: those at inputs and outputs.
        dropped: how many casts are gone, as they had nothing to change any more.
        kept: the nodes that keep their type.
        replaced: the magnitude that took the place of those beyond the range, by the name of the constant.
        masks: inputs that are masks, of which rows were tested that are masked wholly, partly and not at all.
        origins: the name in the source, by that of a value or a function that is another form of it.
        unmatched: what was to keep its type, or alone to change, and names nothing in the model.
        lost: how many numbers of a constant became 0, by its name.
        ranges: where the ranges of values come from: `given` or `drawn` inputs; empty where the model was not run.
        share: of the float weights that operators accept in either type, how many have the type that was asked for.
        assumed: what was taken for granted of the numbers of integers.
    """

    types: str
    narrowed: int
    casts: tuple[str, ...]
    outside: tuple[str, ...]
    dropped: int
    kept: tuple[Kept, ...]
    replaced: Mapping[str, float] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    ranges: str = ""
    share: float = 1.0
    assumed: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageReport:
    """What one stage changed.

    Attributes:
        name: what the stage is for, such as `convert to opset 13`.
        changes: how many changes it made.
        seconds: how long it took.
        attempt: how it succeeded, if not at the first attempt, such as `at opset 12`.
    """

    name: str
    changes: int
    seconds: float
    attempt: str = ""

    @property
    def full_name(self) -> str:
        """The name, and how it was done if not at once."""
        return f"{self.name} ({self.attempt})" if self.attempt else self.name


@dataclass(frozen=True)
class Result:
    """A converted copy and its changes, or refusals (`model` is None)."""

    model: ModelProto | None
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    before: Calls | None = None
    after: Calls | None = None
    """How often each (domain, operator) was called in the source, and is called in `model`."""
    optional: tuple[Change, ...] = ()
    """Those of the changes that were made beyond what was demanded, in their order."""
    folded: int | None = None
    """How many operators were recognised and put in the place of what computed them; None where nobody asked."""
    absent: tuple[str, ...] = ()
    """The operators that were to be replaced, and of which there was none, as they were named."""
    stays: tuple[Refusal, ...] = ()
    """The calls on floats between quantized values that no operator on integers took the place of, and why."""
    control_flow: tuple[Refusal, ...] = ()
    """The Loops, Scans, recurrent operators and Ifs that were to go, and why they stay."""
    batch: Batch | None = None
    """Where samples lie, if the model takes another number of them than its source."""
    stages: tuple[StageReport, ...] = ()
    """What each stage did, in order."""
    attempt: str = ""
    """How a conversion was done that did not succeed at once."""
    types: TypesReport | None = None
    """What became of element types, where others were asked for."""
    retyped: tuple[str, ...] = ()
    """The inputs and outputs of the model that have another type than in its source, as that was asked for."""

    computed_in: int = 0
    """The type in which the source computes, and that a wider one carries, where other roundings make a difference."""

    def join(self, later: Result) -> Result:
        """Join with the result of a later stage. A wrong declaration is reported once."""
        said = {change.remark for change in self.changes if change.how == CONTRADICTED}
        more = (change for change in later.changes if change.how != CONTRADICTED or change.remark not in said)
        folded = [result.folded for result in (self, later) if result.folded is not None]
        return replace(
            later,
            changes=(*self.changes, *more),
            before=self.before if self.changes else self.before or later.before,
            after=later.after if later.changes else later.after or self.after,
            folded=sum(folded) if folded else None,
            absent=(*self.absent, *later.absent),
            stays=later.stays or self.stays,
            control_flow=(*self.control_flow, *later.control_flow),
            batch=later.batch or self.batch,
            types=later.types or self.types,
            stages=(*self.stages, *later.stages),
            retyped=(*self.retyped, *later.retyped),
            computed_in=later.computed_in or self.computed_in,
        )

    @property
    def grade(self) -> str:
        """The lowest of the changes: `exact`, `close` or `narrowed`."""
        return worst(change.grade for change in self.changes)


GRADES = ("exact", "close", "narrowed")
"""How faithful a change is, from the best to the one that only a user asks for: other element types."""


def worst(grades: Iterable[str]) -> str:
    """The lowest of some grades; `exact` of none."""
    return max(grades, key=GRADES.index, default="exact")
