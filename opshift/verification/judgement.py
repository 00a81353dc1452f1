"""What was found of two forms, and of each output, as it is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.passes.records import dataclass, field, replace

TWINS, DIRECT, BITS, SHAPE = "float64", "printed bound", "bit for bit", "type and shape"
TOLERANCE, STEP, NEAR = "tolerance", "one step", "a few roundings"


@dataclass(frozen=True)
class Judgement:
    """What was found of one output.

    Attributes:
        output: its name.
        judge: `bit for bit`; `float64`, its twins; or `printed bound`, the two runs compared with each other;
            `tolerance`, the same with numbers that the user gave; `one step`, integers that are made of the same;
            `a few roundings`, runs that are as near where twins of another run, of other outputs, were the same.
        function: how far the twins are apart, at the element that is nearest to its bound, or above it.
        function_bound: that bound.
        accuracy: how far the result is from its twin, or without twins from the source.
        accuracy_bound: the bound of that.
        ties: elements that were decided otherwise, by less than the bound.
        why: what is wrong; empty where nothing is.
    """

    output: str
    judge: str
    function: float = 0.0
    function_bound: float = 0.0
    accuracy: float = 0.0
    accuracy_bound: float = 0.0
    ties: int = 0
    why: str = ""

    @property
    def share(self) -> float:
        """How much of a bound is used up."""
        return max(_part(self.function, self.function_bound), _part(self.accuracy, self.accuracy_bound))

    @property
    def is_inaccurate(self) -> bool:
        """Whether only the second question has no good answer."""
        return bool(self.why) and self.function <= self.function_bound and self.accuracy > self.accuracy_bound

    def worse(self, other: Judgement) -> Judgement:
        """Of two runs of one output, what is nearer to its bounds of either question."""
        if self.judge == BITS or other.why or other.judge == SHAPE:
            return replace(other, ties=self.ties + other.ties)
        if other.judge in (BITS, NEAR) or self.judge == SHAPE:
            return self
        judge = DIRECT if DIRECT in (self.judge, other.judge) else self.judge
        found = replace(self, ties=self.ties + other.ties, judge=judge)
        if _part(other.function, other.function_bound) > _part(self.function, self.function_bound):
            found = replace(found, function=other.function, function_bound=other.function_bound)
        if _part(other.accuracy, other.accuracy_bound) > _part(self.accuracy, self.accuracy_bound):
            found = replace(found, accuracy=other.accuracy, accuracy_bound=other.accuracy_bound)
        return found


def _part(difference: float, bound: float) -> float:
    return difference / bound if bound else float(difference > 0)


@dataclass(frozen=True)
class Verification:
    """The outcome of running two models side by side.

    Attributes:
        status: `equal`, `different`, or `unverified` where no engine could run both.
        engine: who judged, such as `onnxruntime` or `onnx.reference`.
        runs: on how many sets of inputs.
        absolute: the largest difference seen in any output that is not drawn at random.
        relative: the largest one seen, as a part of the value.
        inputs: the shape of each input, run by run; of a single integer, its value.
        outputs: what was found of each output, by which judge, beside the bounds that it was held against.
        ties: what was decided otherwise by less than the bound, with the number of elements.
        cast: inputs and outputs of another precision in one of the models, which were cast.
        float64: which nodes of the twins did not run in onnxruntime in double, or why there are no twins.
        drawn: the outputs that are, of which only type and shape could be compared. What hangs on a generator in the
            main graph, whose output has one name in both models, is compared by value: both get the same numbers.
        tensor: the first tensor, in the order of the graph, that differs.
        why: what differs there, or why nothing could be run.
        node, op: what makes it in the second model, where all that it is made of agrees.
        parts: the nodes of the first model that compute it from values that agree, by name or first output.
        weights: initializers of one name that these read in both models, with other values.
        repro: where the smallest models that still differ were written.
        rounds: on which special numbers and sizes both have run besides.
        remarks: where they part there, and it does not decide: not every change is exact, or an engine is to blame; and
            what was not run at all: branches, outputs that are empty, or that no inputs move.
    """

    status: str
    engine: str = ""
    runs: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    tensor: str = ""
    why: str = ""
    drawn: tuple[str, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    rounds: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    outputs: tuple[Judgement, ...] = ()
    ties: Mapping[str, int] = field(default_factory=dict)
    cast: tuple[str, ...] = ()
    float64: str = ""
    node: str = ""
    op: str = ""
    parts: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    repro: str = ""

    def __bool__(self) -> bool:
        return self.equal

    @property
    def equal(self) -> bool:
        return self.status == "equal"
