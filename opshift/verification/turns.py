"""Sessions of two forms: both at hand where they are small, else one at a time."""

from __future__ import annotations

from typing import Any

from opshift.verification.engines import Feeds, Session
from opshift.verification.side import Side


class Turns:
    """Both forms, each opened when it is its turn; of large ones, the other one is closed for that."""

    def __init__(self, before: Side, after: Side):
        self._sides = (before, after)
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
        return self.session(0).run(feeds)

    def second(self, feeds: Feeds) -> list[Any]:
        """The outputs of the second form; raises `EngineError`."""
        return self.session(1).run(feeds)

    def session(self, which: int) -> Session:
        """That of the first form, or of the second; raises `EngineError`, which names the engine."""
        if which not in self._sessions:
            self.rest()
            self._sessions[which] = self._sides[which].open()
        return self._sessions[which]
