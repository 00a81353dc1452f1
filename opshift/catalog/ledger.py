"""The support table: every transition of every operator with what is done in each direction.

It is read from the registry, the schemas, and the source of the steps: their sentences, where they grade themselves
`close`, and the reasons for which they refuse.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from opshift import functions
from opshift.passes import goals
from opshift.passes.inlining import definable
from opshift.passes.model import schemas
from opshift.passes.rewrite import operator_files, registry
from opshift.passes.rewrite.says import sentence_of

DOMAINS = ("", "ai.onnx.ml")
_ASKS = {"rank": "the rank is unknown", "elem_type": "the type is unknown"}


@dataclass
class Story:
    """What one direction of one transition does."""

    what: str
    close: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def grade(self) -> str:
        """The best that can come of it, and the worst short of a refusal."""
        return "exact or close" if self.close else "exact"

    def lines(self) -> list[str]:
        """What it does, and each reason for which it is refused."""
        done = [f"{self.grade}: {self.what}"] if self.what else []
        return done + [f"refused: {why}" for why in dict.fromkeys(self.refused)]

    def __str__(self) -> str:
        refused = "refused: " + "; ".join(dict.fromkeys(self.refused)) if self.refused else ""
        return "; ".join(filter(None, [self.what and f"{self.grade}: {self.what}", refused]))


@dataclass(frozen=True)
class Row:
    """One transition; `older` is 0 where the operator begins."""

    domain: str
    op: str
    family: str
    older: int
    newer: int
    up: Story | None
    down: Story


@dataclass(frozen=True)
class History:
    """An operator's transitions, the file that tells them, and the one that defines it; "" where there is none."""

    domain: str
    op: str
    rows: tuple[Row, ...]
    file: str
    definition: str

    def lines(self, opset: int | None = None) -> Iterator[str]:
        """The history as text, all of it or what happens at one opset."""
        yield f"{self.domain}::{self.op}" if self.domain else self.op
        if self.file:
            yield f"  told in {self.file}"
        if self.definition:
            yield f"  defined in {self.definition}"
        for row in self.rows:
            if opset in (None, row.newer):
                yield f"{row.older} -> {row.newer}" if row.older else f"from {row.newer}"
                for way, story in (("up", row.up), ("down", row.down)):
                    for k, line in enumerate(story.lines() if story else []):
                        yield f"  {'' if k else way:<4}  {line}"


def history(name: str) -> History:
    """What happened to an operator, `Name` or `domain::Name`; raises `ValueError` for an unknown one."""
    domain, op = goals.operator(name)
    if op not in definable.operators(domain):
        raise goals.unknown_operator(name)
    told = operator_files.FILES.get(domain, {}).get(op, "")
    return History(
        domain,
        op,
        tuple(_rows_of(domain, op)),
        f"passes/operators/{told.replace('.', '/')}.py" if told else "",
        f"functions/{functions.source(domain, op)}.py" if functions.defined(domain, op) else "",
    )


def rows(opset: int | None = None) -> Iterator[Row]:
    """Every transition, or those at one opset."""
    for domain in DOMAINS:
        for op in sorted(schemas.operators(domain)):
            yield from _rows_of(domain, op, opset)


def _rows_of(domain: str, op: str, opset: int | None = None) -> Iterator[Row]:
    known = schemas.versions(domain, op)
    for older, newer in [(0, known[0]), *pairwise(known)] if known else []:
        if opset in (None, newer) and (older or newer > 1):
            yield _row(domain, op, older, newer)


def _row(domain: str, op: str, older: int, newer: int) -> Row:
    schema = schemas.schema(domain, op, newer)
    family = schema.family if schema else ""
    pair = registry.step(domain, op, newer)
    if not older:
        down = story(pair.down) if pair and pair.down and not pair.why else _first(domain, op, pair)
        return Row(domain, op, family, older, newer, None, down)
    if pair is not None:
        stories = [story(step) if step else _nothing(pair.why) for step in (pair.up, pair.down)]
    else:
        stories = [_nothing("the text is the same")] * 2
    difference = _types(domain, op, older, newer)
    return Row(domain, op, family, older, newer, *(_with_types(s, d) for s, d in zip(stories, difference, strict=True)))


def _first(domain: str, op: str, pair: registry.Pair | None) -> Story:
    if functions.defined(domain, op):
        return Story("replaced by its definition", close=["its definition may round otherwise"])
    return Story("", refused=[pair.why if pair else "there is no definition in older operators"])


def _nothing(why: str) -> Story:
    return Story("nothing is needed" + (f" ({why})" if why else ""))


def _types(domain: str, op: str, older: int, newer: int) -> tuple[frozenset[str], frozenset[str]]:
    """The types that are lost on the way up, and on the way down."""
    taken = []
    for version in (older, newer):
        schema = schemas.schema(domain, op, version)
        taken.append({(p.type, t) for p in (*schema.inputs, *schema.outputs) for t in p.types} if schema else set())
    variables = {v for v, _ in taken[0]} & {v for v, _ in taken[1]}
    lost = ({t for v, t in a - b if v in variables} for a, b in (taken, taken[::-1]))
    up, down = (frozenset(types) for types in lost)
    return up, down


def _with_types(story: Story, lost: frozenset[str]) -> Story:
    if not lost:
        return story
    plain = sorted(t.removeprefix("tensor(").rstrip(")") for t in lost if t.startswith("tensor("))
    named = ", ".join(plain or sorted(lost))
    reason = f"types that it does not take there, unless carried: {named}"
    return Story(story.what, story.close, [*story.refused, reason])


def story(step: Callable[..., Any]) -> Story:
    """What a step says of itself: its sentence, its grades and its reasons for refusal."""
    told = Story(sentence_of(step))
    _read(step, told, set())
    return told


def _read(function: Callable[..., Any], story: Story, seen: set[Any]) -> None:
    """Collect the grades and refusals in a step and in the helpers of the steps that it calls."""
    function = inspect.unwrap(function)
    if function in seen or not inspect.isfunction(function):
        return
    seen.add(function)
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for node in _calls(function):
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "close" and node.args:
                story.close.append(_text(node.args[0], names))
            elif node.func.attr in _ASKS and isinstance(node.func.value, ast.Name) and node.func.value.id == "node":
                story.refused.append(_ASKS[node.func.attr])
            elif isinstance(node.func.value, ast.Name) and inspect.ismodule(room := names.get(node.func.value.id)):
                _read_helper(getattr(room, node.func.attr, None), story, seen)
        elif isinstance(node.func, ast.Name):
            if node.func.id == "CannotConvert" and len(node.args) > 1:
                story.refused.append(_text(node.args[1], names))
            else:
                _read_helper(names.get(node.func.id), story, seen)


def _read_helper(called: Any, story: Story, seen: set[Any]) -> None:
    if inspect.isfunction(called) and called.__module__.startswith("opshift.passes.operators"):
        _read(called, story, seen)


@cache
def _calls(function: Callable[..., Any]) -> list[ast.Call]:
    """The calls in a function, the outermost first."""
    code = function.__code__
    defined = _functions(code.co_filename)[code.co_firstlineno]
    return [node for node in ast.walk(defined) if isinstance(node, ast.Call)]


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file, by the line that each begins with."""
    found = _defined(ast.parse(Path(file).read_text(encoding="utf-8")))
    return {min([node.lineno, *(of.lineno for of in node.decorator_list)]): node for node in found}


def _defined(outer: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions that stand in a statement, however deep."""
    for inner in getattr(outer, "body", ()):
        if isinstance(inner, ast.FunctionDef):
            yield inner
        yield from _defined(inner)


def _text(node: ast.expr, names: dict[str, Any]) -> str:
    """A message as it stands in the source, with an ellipsis for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names) for part in node.values)
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), str):
        return str(names[node.id])
    if isinstance(node, ast.BinOp):
        return _text(node.left, names) + _text(node.right, names)
    return "…"


def as_markdown() -> str:
    """The whole table, one section a family."""
    found = list(rows())
    lines = [
        "# What is supported",
        "",
        "Written by `opshift ledger --markdown`; do not edit. One line for each version of each operator: what happens",
        "to a node on the way up to that version and on the way down from it. *Exact* means the same values for all",
        "inputs, *close* the same real-number function with other rounding. A first version has only a way down.",
    ]
    for family in sorted({row.family for row in found}):
        members = [row for row in found if row.family == family]
        lines += ["", f"## {family}", "", "| operator | version | up | down |", "|---|---|---|---|"]
        lines += [_line(row) for row in members]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    name = f"{row.domain}::{row.op}" if row.domain else row.op
    version = f"{row.older} → {row.newer}" if row.older else f"from {row.newer}"
    up = str(row.up) if row.up else ""
    return f"| {name} | {version} | {_cell(up)} | {_cell(str(row.down))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def needed(opset: int) -> list[str]:
    """What the installed onnx changes at an opset, and whether it has been decided."""
    from opshift.passes.model import tabulate

    lines = []
    for domain, ops in tabulate.tabulate()["schemas"].items():
        for op, versions in sorted(ops.items()):
            if str(opset) not in versions or domain not in DOMAINS:
                continue
            older = max((int(v) for v in versions if int(v) < opset), default=0)
            lines.append(f"{_line_of_need(domain, op, older, opset)}")
    return lines


def _line_of_need(domain: str, op: str, older: int, newer: int) -> str:
    name = f"{domain}::{op}" if domain else op
    if newer not in schemas.versions(domain, op):
        return f"{name} {older or 'new'} -> {newer}: UNDECIDED, the schema table does not know it"
    row = _row(domain, op, older, newer)
    decided = registry.step(domain, op, newer) or not older or schemas.difference(domain, op, older, newer) != "changed"
    up = f"up {row.up}; " if row.up else ""
    return f"{name} {older or 'new'} -> {newer}: {'' if decided else 'UNDECIDED; '}{up}down {row.down}"
