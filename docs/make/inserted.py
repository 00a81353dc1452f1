"""Puts into pages what is written elsewhere, each time that the site is built, so that it cannot differ.

`<!-- commands -->` becomes what the command line says of itself; `<!-- table: FILE; CELL; CELL -->` the table of
another page, or its rows that hold one of these cells; a drawing in assets/ is drawn in place, so that it follows the
colours of the page. Whom a page was written by concerns those who change it alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from opshift.cli.parser import _parser

DOCS = Path(__file__).resolve().parents[1]
TABLES = ("support.md", "definitions.md")  # told by the pages of operators
COMMANDS = "<!-- commands -->"
TABLE = re.compile(r"<!-- table: ([^;]+?)((?:; [^;]+?)*) -->")
DRAWING = re.compile(r"^!\[[^]]*\]\((?:\.\./)?(assets/[\w-]+\.svg)\)$", re.M)
WRITTEN = re.compile(r"^Written by [^;]*; do not edit\.\s+", re.M)
TOLD = re.compile(rf"\(((?:\.\./)?)(?:{'|'.join(map(re.escape, TABLES))})\)")


def prepared(markdown: str) -> str:
    """The page with what it asks for in its place."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, "\n".join(_described(_parser())))
    markdown = TABLE.sub(lambda asked: _table(asked[1], set(asked[2].split("; ")[1:])), markdown)
    markdown = DRAWING.sub(lambda drawing: _drawing(drawing[1]), markdown)
    return TOLD.sub(r"(\1operators/index.md)", WRITTEN.sub("", markdown))


def rows(page: str) -> Iterator[list[str]]:
    """The cells of each row of the tables of a page."""
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _drawing(name: str) -> str:
    """A drawing, and the one that takes its place on a phone."""
    wide, narrow = DOCS / name, (DOCS / name).with_stem(f"{Path(name).stem}-narrow")
    if not narrow.exists():
        return f"<div>{_drawn(wide)}</div>"
    return f'<div class="wide">{_drawn(wide)}</div>\n\n<div class="narrow">{_drawn(narrow)}</div>'


def _drawn(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def _table(page: str, cells: set[str]) -> str:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    head, rule, *held = (line for line in lines if line.startswith("|"))
    kept = [row for row in held if not cells or cells & {cell.strip() for cell in row.split("|")}]
    if not kept:
        raise ValueError(f"{page} has no row with {cells}")
    return "\n".join([head, rule, *kept])


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
    choices = "|".join(map(str, action.choices or ()))
    value = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
    words = [action.option_strings[-1], value] if action.option_strings else [str(action.metavar or action.dest)]
    return " ".join(filter(None, words))


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("|", "\\|")
    return f"{text} (required)" if action.required and action.option_strings else text
