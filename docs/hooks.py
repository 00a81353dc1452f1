"""Writes what the command line says of itself into `docs/commands.md`, each time that the site is built."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from opshift.cli import _parser

PLACE = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its commands and their options where it asks for them; called by MkDocs."""
    return markdown.replace(PLACE, "\n".join(_described(_parser()))) if PLACE in markdown else markdown


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
