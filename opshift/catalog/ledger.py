"""The support table: every transition of every operator with what is done in each direction.

It is read from the registry, the schemas, the sentences of the steps, and `endings.tsv`: which of them are but close
to what they replace, and the reasons for which each refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise

from opshift import functions
from opshift.passes.inlining import definable
from opshift.passes.model import schemas
from opshift.passes.rewrite import operator_files, registry
from opshift.passes.rewrite.says import sentence_of
from opshift.passes.stages.operator_names import parse_operator, unknown_operator

DOMAINS = ("", "ai.onnx.ml")
CLOSE = "close"
"""What a line of the table says that gives no reason to refuse."""


@dataclass(frozen=True)
class Story:
    """What one direction of one transition does."""

    what: str
    close: bool = False
    refused: tuple[str, ...] = ()

    @property
    def grade(self) -> str:
        """The best that can come of it, and the worst short of a refusal."""
        return "exact or close" if self.close else "exact"

    def lines(self) -> list[str]:
        """What it does, and each reason for which it is refused."""
        done = [f"{self.grade}: {self.what}"] if self.what else []
        return done + [f"refused: {why}" for why in self.refused]

    def __str__(self) -> str:
        refused = "refused: " + "; ".join(self.refused) if self.refused else ""
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
            yield f"  written in {self.file}"
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
    domain, op = parse_operator(name)
    if op not in definable.operators(domain):
        raise unknown_operator(name)
    told = operator_files.FILES.get(domain, {}).get(op, "")
    return History(
        domain,
        op,
        tuple(_rows_of(domain, op)),
        f"passes/operators/{told.replace('.', '/')}.py" if told else "",
        f"functions/{functions.source(domain, op)}.py" if functions.has_definition(domain, op) else "",
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
        if pair and pair.down and not pair.why:
            return Row(domain, op, family, older, newer, None, story(domain, op, newer, "down", pair.down))
        return Row(domain, op, family, older, newer, None, _first(domain, op, pair))
    if pair is not None:
        ways = (("up", pair.up), ("down", pair.down))
        stories = [story(domain, op, newer, way, step) if step else _nothing(pair.why) for way, step in ways]
    else:
        stories = [_nothing()] * 2
    difference = _types(domain, op, older, newer)
    return Row(domain, op, family, older, newer, *(_with_types(s, d) for s, d in zip(stories, difference, strict=True)))


def _first(domain: str, op: str, pair: registry.Pair | None) -> Story:
    if functions.has_definition(domain, op):
        return Story("replaced by its definition", close=True)
    return Story("", refused=(pair.why if pair else "older operators cannot express it",))


def _nothing(why: str = "") -> Story:
    return Story("no change" + (f" ({why})" if why else ""))


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
    reason = f"types that it does not accept there, unless cast: {named}"
    return replace(story, refused=(*story.refused, reason))


def story(domain: str, op: str, version: int, way: str, step: registry.Step) -> Story:
    """What a step says of itself, and how it may end on its way: `up` or `down` a transition, or `inlined`, at 0."""
    endings = _endings().get((domain, op, version, way), ())
    refused = tuple(_reason(end.removeprefix("refused: ")) for end in endings if end != CLOSE)
    return Story(sentence_of(step), CLOSE in endings, refused)


def _reason(ending: str) -> str:
    """Write what is supported in parentheses, as several reasons stand in one line."""
    found, separator, supported = ending.partition("; supported: ")
    return f"{found} (supported: {supported})" if separator else found


@cache
def _endings() -> dict[tuple[str, str, int, str], list[str]]:
    """The lines of the table, by what they tell of; where there is none, a step is exact for every call."""
    found: dict[tuple[str, str, int, str], list[str]] = {}
    for line in files("opshift.catalog").joinpath("endings.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        domain, op, version, way, ending = line.split("\t")
        found.setdefault((domain, op, int(version), way), []).append(ending)
    return found


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


def list_changes(opset: int) -> list[str]:
    """List what the installed onnx changes at an opset; a line says UNDECIDED if no decision is registered."""
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
