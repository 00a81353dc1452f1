"""Complete commands in the shell fish."""

from __future__ import annotations

import argparse
from collections.abc import Iterator


def script(parser: argparse.ArgumentParser, prog: str = "opshift") -> str:
    """Write a file for `~/.config/fish/completions`."""
    return "\n".join([f"complete -c {prog} -f", *_lines(parser, prog), ""])


def _lines(parser: argparse.ArgumentParser, prog: str) -> Iterator[str]:
    first = "__fish_use_subcommand"
    yield from _options(parser, prog, first)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for verb, inner in action.choices.items():
                yield f"complete -c {prog} -n {first} -a {verb} -d {_quote(told.get(verb, ''))}"
                yield from _options(inner, prog, _quote(f"__fish_seen_subcommand_from {verb}"))


def _options(parser: argparse.ArgumentParser, prog: str, where: str) -> Iterator[str]:
    for action in parser._actions:
        head = f"complete -c {prog} -n {where}"
        if isinstance(action, argparse._SubParsersAction):
            continue
        if not action.option_strings:
            yield f"{head} -F"
            continue
        names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
        parts = [head, *names]
        if action.nargs != 0:
            parts.append("-r")
        if action.choices:
            parts.append(f"-f -a {_quote(' '.join(map(str, action.choices)))}")
        elif _is_file(action):
            parts.append("-F")
        if action.help:
            parts.append(f"-d {_quote(_short(action.help))}")
        yield " ".join(parts)


def _is_file(action: argparse.Action) -> bool:
    """Tell whether an option takes a file or a folder."""
    named = str(action.metavar or "")
    return any(word in named for word in ("FILE", "PATH", "DIR", "FOLDER"))


def _short(text: str) -> str:
    """Shorten a help text to one line of suggestions."""
    for end in ("; ", ". ", ": ", " ("):
        text = text.partition(end)[0]
    return text.replace("%%", "%") if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]} ..."


_LONGEST = 72


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
