"""Sessions of two forms: both at hand where they are small, else one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.verification.engines import EngineError, Feeds, Session
from opshift.verification.side import Side


class Turns:
    """Both forms, each opened when it is its turn; of large ones, the other one is closed for that.

    In the place of the first one, `showing` runs, which yields values that are `watched`, where the engine can.
    """

    def __init__(self, before: Side, after: Side, showing: Side | None = None, watched: Sequence[str] = ()):
        self._sides, self._showing = (before, after), showing or before
        self._count = len(before.model.graph.output)
        self._watched, self._seen = list(watched), list[tuple[list[Any], list[Any]]]()
        self._sessions: dict[int, Session] = {}
        self.alone = before.is_large or after.is_large
        """Whether only one of them is open at any time."""

    def open(self) -> None:
        """Open both where they stay open; raises `EngineError`, which names the engine."""
        if not self.alone:
            for which in range(2):
                self.session(which)

    def rest(self) -> None:
        """Close what is large."""
        if self.alone:
            self._sessions.clear()

    def first(self, feeds: Feeds) -> list[Any]:
        """The outputs of the first form; raises `EngineError`."""
        found = self.session(0).run(feeds)
        if not self._watched:
            return found
        outputs = found[: self._count]
        self._seen.append((outputs, found[self._count :]))
        return outputs

    def seen(self, outputs: list[Any], feeds: Feeds) -> list[Any]:
        """What was watched in the run of the first form that yielded these; another process may have seen it alone."""
        if self._watched and not any(made is outputs for made, _ in self._seen):
            outputs = self.first(feeds)
        return next((values for made, values in self._seen if made is outputs), [])

    def second(self, feeds: Feeds) -> list[Any]:
        """The outputs of the second form; raises `EngineError`."""
        return self.session(1).run(feeds)

    def session(self, which: int) -> Session:
        """That of the first form, or of the second; raises `EngineError`, which names the engine."""
        if which not in self._sessions:
            self.rest()
            self._sessions[which] = self._opened(which)
        return self._sessions[which]

    def _opened(self, which: int) -> Session:
        if self._watched and not which:
            try:
                return self._showing.open(self._watched)
            except EngineError:
                self._watched = []
        return self._sides[which].open()
