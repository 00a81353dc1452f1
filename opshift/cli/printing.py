"""Text as a terminal or a pipe can take it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper


def printable(line: str) -> str:
    """A line with what names in a model may hold and a terminal would obey, or not show, spelled out."""
    from opshift.passes.errors import brief

    line = brief(line.replace("\\\\?\\UNC\\", "\\\\").replace("\\\\?\\", ""))  # what long paths of Windows begin with
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def document(text: str) -> None:
    """Print what is kept as a file: where no terminal shows it, the same bytes on every system."""
    stream = sys.stdout
    if isinstance(stream, TextIOWrapper) and not stream.isatty():
        stream.reconfigure(encoding="utf-8", newline="\n")
    print(text, end="")


def join_names(names: Sequence[str], most: int = 3) -> str:
    """The first of several names, and how many more there are."""
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more} more' if more > 0 else ''}"
