"""Text as a terminal or a pipe can take it."""

from __future__ import annotations


def printable(line: str) -> str:
    """A line with what names in a model may hold and a terminal would obey, or not show, spelled out."""
    from opshift.passes.errors import brief

    line = brief(line)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
