"""What was found of one output, as it is reported."""

from __future__ import annotations

from opshift.passes.records import dataclass, replace

TWINS, DIRECT, BITS, SHAPE = "float64", "printed bound", "bit for bit", "type and shape"
TOLERANCE, STEP = "tolerance", "one step"


@dataclass(frozen=True)
class Judgement:
    """What was found of one output.

    Attributes:
        output: its name.
        judge: `bit for bit`; `float64`, its twins; or `printed bound`, the two runs compared with each other;
            `tolerance`, the same with numbers that the user gave; `one step`, integers that are made of the same.
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
        if other.judge == BITS or self.judge == SHAPE:
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
