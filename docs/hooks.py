"""Puts into pages what is written elsewhere, each time that the site is built, so that it cannot differ.

`<!-- commands -->` becomes what the command line says of itself; `<!-- table: FILE; CELL; CELL -->` the table of
another page, or its rows that hold one of these cells.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opshift.cli.parser import _parser

COMMANDS = "<!-- commands -->"
TABLE = re.compile(r"<!-- table: ([^;]+?)((?:; [^;]+?)*) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with what it asks for in its place; called by MkDocs."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(_described(_parser())))
    return TABLE.sub(lambda asked: _table(asked[1], set(asked[2].split("; ")[1:])), markdown)


def _table(page: str, cells: set[str]) -> str:
    lines = (Path(__file__).parent / page).read_text(encoding="utf-8").splitlines()
    head, rule, *rows = (line for line in lines if line.startswith("|"))
    held = [row for row in rows if not cells or cells & {cell.strip() for cell in row.split("|")}]
    if not held:
        raise ValueError(f"{page} has no row with {cells}")
    return "\n".join([head, rule, *held])


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help for choice in verbs._choices_actions}
    for name, command in verbs.choices.items():
        told = str(helps[name])
        yield f"\n## opshift {name}\n\n{told[0].upper()}{told[1:]}.\n"
        yield "| | |\n|---|---|"
        for action in command._actions:
            if not isinstance(action, argparse._HelpAction):
                yield f"| `{_spelled(action)}` | {_help(action)} |"


def _spelled(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or "|".join(action.choices or ()) or action.dest.upper())
    words = [action.option_strings[-1], value] if action.option_strings else [str(action.metavar or action.dest)]
    return " ".join(filter(None, words))


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("|", "\\|")
    return f"{text} (required)" if action.required and action.option_strings else text
