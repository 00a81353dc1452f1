"""A model while it is optimized: what the workspaces of all its bodies share."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from opshift.passes.analysis.callers import refers
from opshift.passes.analysis.scope import Context
from opshift.passes.changes import Allowance, Change
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.model.traversal import (
    Census,
    bodies,
    census,
    find_shadowed,
    names_outside_nodes,
    results,
    running_statistics,
)

_MEASURING = frozenset(["ConstantOfShape", "Expand", "Flatten", "Reshape", "Shape", "Size"])


class Whole:
    """What all workspaces of one model share."""

    uses: Counter[str]
    measures: bool
    """Whether dimensions matter to any node."""

    def __init__(
        self,
        model: ModelProto,
        source: ModelProto,
        folder: str | None,
        allowance: Allowance | None = None,
        survey: Survey | None = None,
    ):
        self.model = model
        self.allowance = allowance or Allowance()
        self.folder = folder
        self.context = Context(model, source, folder, survey, trusting=False)
        self.changes: list[Change] = []
        self.constants_are_nodes = model.ir_version < 4  # where each initializer is an input, too
        held, calls = self._held = self._census() if survey is None else survey.census(model)
        nests, trains = len(held) > 1 + len(model.functions), any(op == "BatchNormalization" for _, op in calls)
        self.fixed = frozenset(names_outside_nodes(model, held))
        self.fixed |= find_shadowed(model) if nests else set()
        self.fixed |= running_statistics(model) if trains else set()
        self.hangs = bool(model.functions) or any(refers(node) for body in held for node in body.node)
        """Whether what a node computes may hang on the calls of its function."""
        self.leans = False  # whether what was asked for since this was unset holds of sizes of 1 or more alone
        self.changed = 0
        self.stirred = False  # whether inference or rules may find more than they did, for what was changed
        self._crowded: dict[str, int] = {}  # values that more nodes read than would let them be changed
        self.rounds = 0
        self._readers: dict[str, list[NodeProto]] | None = None

    def begin(self) -> None:
        """Begin a round: count how often each value is used, and let types be inferred of what the model is now.

        A name that two graphs give to different values counts as one.
        """
        self.stirred, self._crowded, self._readers = False, {}, None
        if self.changed:
            asked = self.context.inference.was_asked
            self.context = Context(self.model, self.model, self.folder, trusting=False)
            if asked:
                self.context.inference.now()
        if self.rounds:
            self._held = self._census()
        self.rounds += 1
        self.changed = 0
        self._count()

    def _census(self) -> Census:
        return census([*reversed(self.model.functions), self.model.graph])

    def _count(self) -> None:
        held, calls = self._held
        self.uses, self.measures = Counter(), not _MEASURING.isdisjoint(op for _, op in calls)
        for body in held:
            self.uses.update(chain.from_iterable([node.input[:] for node in body.node]))
            self.uses.update(results(body))
        self.uses.update(self.fixed)

    def check_uses(self, name: str, count: int) -> bool:
        """Check whether a value is used `count` times. More uses are noted, as fewer may be left after the round."""
        used = self.uses[name]
        if used > count:
            self._crowded[name] = max(count, self._crowded.get(name, 0))
        return used == count

    def settle(self) -> bool:
        """Count uses again, and say whether another round would change nothing."""
        if not self.changed or self.stirred:
            return not self.changed
        self._held = self._census()
        self._count()
        return not any(min(count, 1) <= self.uses[name] <= count for name, count in self._crowded.items())

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes that read a value, as they were when they were first asked for in this round."""
        if self._readers is None:
            self._readers = {}
            for body in bodies(self.model):
                for node in body.node:
                    for each in set(node.input):
                        self._readers.setdefault(each, []).append(node)
        return self._readers.get(name, [])
