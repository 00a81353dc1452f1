"""Print text that any terminal or pipe can take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper


def printable(line: str) -> str:
    """Escape control characters in a line: a terminal would obey such characters in a model's names."""
    from opshift.passes.errors import brief

    line = brief(line.replace("\\\\?\\UNC\\", "\\\\").replace("\\\\?\\", ""))  # what long paths of Windows begin with
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def print_document(text: str) -> None:
    """Print a text that users redirect to a file: the same bytes on every system."""
    stream = sys.stdout
    if isinstance(stream, TextIOWrapper) and not stream.isatty():
        stream.reconfigure(encoding="utf-8", newline="\n")
    print(text, end="")


def join_names(names: Sequence[str], most: int = 3) -> str:
    """Write the first names, and how many more there are."""
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more} more' if more > 0 else ''}"
