"""Sessions of two forms: both at hand where they are small, else one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from opshift.verification.engines import ENGINES, EngineError, Feeds, Session
from opshift.verification.side import Side


class Turns:
    """Both forms, each opened when it is its turn; of large ones, the other one is closed for that.

    In the place of the first one, `showing` runs, which yields values that are `watched`, where the engine can. What
    `more` may be asked for of either one (`values`) is known to its session.
    """

    def __init__(
        self,
        before: Side,
        after: Side,
        showing: Side | None = None,
        watched: Sequence[str] = (),
        more: Sequence[Iterable[str]] = ((), ()),
    ):
        self._sides, self._showing = (before, after), showing or before
        self._count = len(before.model.graph.output)
        self._watched, self._seen = list(watched), list[tuple[list[Any], list[Any]]]()
        self._sessions: dict[int, Session] = {}
        self._names = [value.name for value in before.model.graph.output]
        self._more = [[name for name in dict.fromkeys(names) if name not in self._names] for names in more]
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

    def values(self, which: int, names: Sequence[str], feeds: Feeds) -> dict[str, Any]:
        """Values of one of the forms by name; raises `EngineError`."""
        side, known = self._sides[which], [*self._names, *self._more[which]]
        session = self.session(which)
        if not isinstance(session, ENGINES) or not set(names).issubset(known):
            more = [name for name in dict.fromkeys(names) if name not in self._names]
            found = dict(zip([*self._names, *more], side.open(more).run(feeds), strict=True))
            return {name: found[name] for name in names}
        return dict(zip(names, session.values(feeds, names), strict=True)) if names else {}

    def session(self, which: int) -> Session:
        """That of the first form, or of the second; raises `EngineError`, which names the engine."""
        if which not in self._sessions:
            self.rest()
            self._sessions[which] = self._opened(which)
        return self._sessions[which]

    def _opened(self, which: int) -> Session:
        side, watched = (self._sides[1], []) if which else (self._showing, self._watched)
        if self._more[which]:
            with suppress(EngineError):
                return side.open(watched, self._more[which])
            self._more[which] = []
        if watched:
            try:
                return side.open(watched)
            except EngineError:
                self._watched = []
        return self._sides[which].open()
