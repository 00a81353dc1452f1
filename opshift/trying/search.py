"""Finds the least that must be done to a model until it is accepted. Of models and backends this file knows nothing.

The words of a refusal name what is at fault, or somebody finds that out; what helps there is tried, cheapest first, and
kept where the refusal becomes another one. What is not needed in the end is dropped again by halves (delta debugging).
Tries hence grow with the kinds of things that are at fault, not with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

AGREES, DIFFERS, REFUSED, DIED, HUNG, IMPOSSIBLE, UNTRIED = (
    "agrees",
    "differs",
    "refused",
    "died",
    "hung",
    "impossible",
    "untried",
)
"""What may come of an attempt: the last two say that there is no such model, and that nothing was left to try it."""


@dataclass(frozen=True, order=True)
class Remedy:
    """One thing that may be done to a model.

    Attributes:
        cost: how much it changes; what costs less is tried first.
        kind: `expand`, `opset` and the like.
        what: the operator, or the number.
        slot: of several with one slot, only the last has effect; empty for what goes with everything.
    """

    cost: int
    kind: str
    what: str = ""
    slot: str = ""


Plan = frozenset[Remedy]


@dataclass(frozen=True)
class Answer:
    """What came of an attempt, in whose words, the kinds of things that these name, and of which inputs.

    Of what differs, `sizes` tells whether that is no matter of values. `far` is how far an output is off at most, as a
    part of its largest element; below 0 where nobody knows.
    """

    status: str
    why: str = ""
    blames: tuple[str, ...] = ()
    place: int = 0
    sizes: bool = False
    far: float = -1.0

    @property
    def agrees(self) -> bool:
        return self.status == AGREES


@dataclass(frozen=True)
class Bound:
    """When a search ends without having found anything."""

    tries: int = 40
    seconds: float = 300.0


@dataclass(frozen=True)
class SearchResult:
    """What a search came to: the plan, its answer, and for each remedy the answer that led to it."""

    plan: Plan
    answer: Answer
    reasons: dict[Remedy, Answer] = field(default_factory=dict)
    tries: int = 0
    bounded: bool = False
    """Whether it ended because it was bounded."""


Attempt = Callable[[Plan], Answer]
Helps = Callable[[str], Iterable[Remedy]]
"""What may help where a kind is at fault."""
Blame = Callable[[Plan], Sequence[str]]
"""Which kind is at fault, found out where no words name it; what that takes counts as tries."""
Mends = Callable[[Plan, Remedy], bool]
"""Whether a remedy makes that part of what a plan makes run which was found to be at fault: one try."""
Parts = Callable[[Remedy], Iterable[Remedy]]
"""What a remedy consists of, as far as parts of it may do."""
_FIRST = 0.6
"""How much of a search is for what needs no other start."""
_CHEAP = 2
"""What costs no more, and may help anywhere, is tried before anybody looks for what is at fault."""


class Meter:
    """Counts what is tried, and how long."""

    def __init__(self, bound: Bound):
        self.bound = bound
        self.share = 1.0
        """How much of the bound is for what is done now."""
        self.tries = 0
        self._started = perf_counter()

    def goes_on(self) -> bool:
        """Whether there may be one more."""
        seconds = perf_counter() - self._started
        return self.tries < self.bound.tries * self.share and seconds < self.bound.seconds * self.share

    def seconds_left(self) -> float:
        """How many seconds are left of all of it."""
        return self.bound.seconds - (perf_counter() - self._started)

    def count(self) -> None:
        self.tries += 1


class RemedySearch:
    """One search.

    `attempt` answers for a plan; `helps` lists what may help where a kind is at fault, `general` what may help
    anywhere, and `rest` all else that can be done, which is done at once where nothing else is left; `blame` finds who
    is at fault, and `mends` whether something helps there. Plans of one `key` make the same model, which is tried once.
    `parts` are tried in the place of a whole remedy once that has helped.
    """

    def __init__(
        self,
        attempt: Attempt,
        helps: Helps,
        general: Iterable[Remedy] = (),
        blame: Blame | None = None,
        rest: Iterable[Remedy] = (),
        meter: Meter | None = None,
        mends: Mends | None = None,
        key: Callable[[Plan], Hashable] = frozenset,
        parts: Parts = lambda remedy: (remedy,),
    ):
        self._attempt = attempt
        self._helps = helps
        self._general = sorted(general, key=_cost)
        self._blame = blame
        self._mends = mends
        self._key = key
        self._parts = parts
        self._keys: dict[Plan, Hashable] = {}
        self._rest = sorted(rest)
        self.meter = meter or Meter(Bound())
        self._answers: dict[Hashable, Answer] = {}
        self._blamed: dict[Plan, tuple[str, ...]] = {}
        self._fixed: Plan = frozenset()
        self._been: set[Plan] = set()
        self._reasons: dict[Remedy, Answer] = {}

    def run(
        self, starts: Sequence[Plan] = (frozenset(),), anew: Remedy | None = None, tried: Sequence[Plan] = ()
    ) -> SearchResult:
        """Try each start as it is, then go on from the first one that there is; failing that, anew with one remedy.

        `tried` is the order in which starts are tried, if it is another one.
        """
        for start in tried or starts:
            if self.ask(start).agrees:
                return self._make_result(start)
        plan = next((start for start in starts if self.ask(start).status not in (IMPOSSIBLE, UNTRIED)), starts[0])
        self._fixed = plan
        answer = self.ask(plan)
        if answer.status == IMPOSSIBLE:
            return self._make_result(plan)
        self.meter.share = 1.0 if anew is None else _FIRST
        found = self._from(plan)
        self.meter.share = 1.0
        if found.answer.agrees or anew is None:
            return found
        self._reasons = {anew: answer}
        other = self._from(with_remedy(plan, anew))
        return other if other.answer.agrees else replace(found, tries=other.tries, bounded=other.bounded)

    def _from(self, plan: Plan) -> SearchResult:
        """What is found from one plan on."""
        answer = self.ask(plan)
        while not answer.agrees:
            self._been.add(plan)
            step = self._step(plan, answer)
            if step is None:
                return self._make_result(plan)
            plan, answer = step
        return self._make_result(self._least(plan))

    def ask(self, plan: Plan) -> Answer:
        """The answer for a plan, asked for once; where there are to be no more tries, none is made."""
        if plan not in self._keys and not self.meter.goes_on():
            return Answer(UNTRIED)
        key = self._cache_key(plan)
        if key not in self._answers:
            if not self.meter.goes_on():
                return Answer(UNTRIED)
            self._answers[key] = self._attempt(plan)
            if self._answers[key].status != IMPOSSIBLE:
                self.meter.count()
        return self._answers[key]

    def _cache_key(self, plan: Plan) -> Hashable:
        """Under what the answer for a plan is kept."""
        if plan not in self._keys:
            self._keys[plan] = self._key(plan)
        return self._keys[plan]

    def _divide(self, remedy: Remedy) -> Iterator[Remedy]:
        for part in self._parts(remedy):
            if remedy in self._reasons:
                self._reasons.setdefault(part, self._reasons[remedy])
            yield part

    def _make_result(self, plan: Plan) -> SearchResult:
        reasons = {remedy: self._reasons[remedy] for remedy in plan if remedy in self._reasons}
        return SearchResult(plan, self.ask(plan), reasons, self.meter.tries, not self.meter.goes_on())

    def _step(self, plan: Plan, answer: Answer) -> tuple[Plan, Answer] | None:
        """A plan with one more remedy that is accepted, or fails elsewhere; failing that, with all that there are."""
        tried: set[Remedy] = set()
        for remedy, meant in self._remedies(plan, answer):
            if remedy not in tried | plan:
                tried.add(remedy)
                step = self._with(plan, answer, remedy, meant=meant)
                if step is not None:
                    return step
        return self._all(plan, answer, tried)

    def _remedies(self, plan: Plan, answer: Answer) -> Iterator[tuple[Remedy, bool]]:
        """For what the words name, for what is found to be at fault, and for anything, as far as it comes to that.

        Each with whether it is meant for what is at fault.
        """
        for kind in answer.blames:
            yield from ((remedy, True) for remedy in sorted(self._helps(kind), key=_cost))
        for remedy in self._general:
            if remedy.cost <= _CHEAP and remedy not in plan and self.ask(with_remedy(plan, remedy)).agrees:
                yield remedy, False
        for kind in self._find_blamed(plan):
            yield from ((remedy, True) for remedy in sorted(self._helps(kind), key=_cost))
        yield from ((remedy, False) for remedy in self._general)

    def _with(self, plan: Plan, answer: Answer, remedy: Remedy, *, meant: bool) -> tuple[Plan, Answer] | None:
        wider = with_remedy(plan, remedy)
        if wider in self._been:  # of what shares a slot, one may lead to the other and back
            return None
        found = self.ask(wider)
        other = (found.status, found.why) != (answer.status, answer.why)
        changed = meant or other  # the same words may be of others
        if found.agrees or (changed and self._went_on(plan, answer, remedy, found, located=meant and other)):
            self._reasons[remedy] = answer
            return wider, found
        return None

    def _went_on(self, plan: Plan, answer: Answer, remedy: Remedy, found: Answer, *, located: bool) -> bool:
        """Whether something else is at fault than before; `located`, what that is may be looked for in the whole."""
        wider = with_remedy(plan, remedy)
        if found.status in (IMPOSSIBLE, UNTRIED) or self._cache_key(wider) == self._cache_key(plan):
            return False
        known = plan in self._blamed  # beside what the words name, which may stand behind it
        if self._mends is not None and (known or not found.blames):
            if bool(self._find_blamed(plan)) and self.meter.goes_on() and self._mends(plan, remedy):
                return True
            if not located and not found.blames:
                return False
        before, after = self._at_fault(plan, answer), self._at_fault(wider, found)
        return bool(before and after) and before[0] != after[0]

    def _at_fault(self, plan: Plan, answer: Answer) -> Sequence[str]:
        return answer.blames or self._find_blamed(plan)

    def _find_blamed(self, plan: Plan) -> tuple[str, ...]:
        if plan not in self._blamed:
            if self._blame is None or not self.meter.goes_on():
                return ()
            self._blamed[plan] = tuple(self._blame(plan))
        return self._blamed[plan]

    def _all(self, plan: Plan, answer: Answer, tried: Iterable[Remedy]) -> tuple[Plan, Answer] | None:
        """Everything that was tried one by one, and did not help alone; then all that there is."""
        together = plan
        for remedy in sorted(tried):
            if self.ask(with_remedy(plan, remedy)).status not in (IMPOSSIBLE, UNTRIED):
                together = with_remedy(together, remedy)
                self._reasons.setdefault(remedy, answer)
        wider = together
        for remedy in self._rest:
            wider = with_remedy(wider, remedy)
            self._reasons.setdefault(remedy, answer)
        for whole in (together, wider):
            found = self.ask(whole)
            if found.agrees:
                return whole, found
        return None

    def _least(self, plan: Plan) -> Plan:
        """The plan without what it can do without, dropped by halves; what costs most goes first."""
        items, parts = (
            sorted({part for remedy in plan - self._fixed for part in self._divide(remedy)}, reverse=True),
            2,
        )
        while len(items) > 1 or (items and parts == 2):
            size = -(-len(items) // parts)
            chunks = [items[start : start + size] for start in range(0, len(items), size)]
            for chunk in chunks:
                rest = [item for item in items if item not in chunk]
                if rest != items and self.ask(self._fixed.union(rest)).agrees:
                    items, parts = rest, max(parts - 1, 2)
                    break
            else:
                if parts >= len(items):
                    break
                parts = min(2 * parts, len(items))
        return self._fixed.union(items)


def _cost(remedy: Remedy) -> int:
    return remedy.cost


def with_remedy(plan: Plan, remedy: Remedy) -> Plan:
    """The plan with one more remedy, in the place of another one that has the same slot."""
    return frozenset(held for held in plan if not remedy.slot or held.slot != remedy.slot) | {remedy}
