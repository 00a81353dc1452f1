"""The tables of docs/backends.md: what backends run of models, and which they ran before alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from opshift.probing import installed


class Row(Protocol):
    """One backend on models of one kind."""

    backend: str
    kind: str
    lost: tuple[str, ...]

    @property
    def cells(self) -> tuple[object, ...]:
        """What stands in the table between the kind and the number of those that are lost."""


def releases(rows: Sequence[Row]) -> str:
    """The backends of some rows, as they are installed."""
    return ", ".join(f"{name} {installed.release(name)}" for name in dict.fromkeys(row.backend for row in rows))


def table(columns: str, rows: Sequence[Row]) -> Iterator[str]:
    """A line for each row, and the names of those that are lost."""
    yield f"| backend | models | {columns} | lost |"
    yield "|---" * (columns.count("|") + 4) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, (row.backend, row.kind, *row.cells, len(row.lost))))} |"
    if any(row.lost for row in rows):
        yield from ("", "Lost:", "")
    for row in rows:
        if row.lost:
            yield f"- {row.backend}, {row.kind}: {', '.join(row.lost)}"
