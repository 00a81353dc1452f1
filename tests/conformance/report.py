"""`python -m tests.lab conformance-page VERDICTS.json [--sweep NAME SWEPT.json] > docs/conformance.md`: what runs found, as a page.

`--into docs/conformance.md --sweep NAME SWEPT.json` writes the section of a sweep anew, and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from tests.conformance.judge import (
    CRASHED,
    INVALID,
    NOT_VALID,
    OK,
    OK_BY_SOURCE,
    REFUSED,
    UNJUDGED,
    WRONG,
    Verdict,
)

STATUSES = (OK, OK_BY_SOURCE, WRONG, INVALID, CRASHED, UNJUDGED, REFUSED, NOT_VALID)
DIRECTIONS = ("up", "same", "down")
# One reason of several: "Operator opset 13 -> 12: why". What says why may hold semicolons itself.
REASON = re.compile(
    r"(?:^|; )([\w.:]+) ((?:opset \d+ -> \d+)?): (.*?)(?=; [\w.:]+ (?:opset \d+ -> \d+)?: |$)", re.DOTALL
)

OPSET = re.compile(r"opset \d+")

HEAD = """\
# Conformance

Written by `python -m tests.lab conformance-page` from the verdicts of `python -m tests.lab conformance --json`; do not edit.

Every node test that ONNX publishes, of {releases}, is converted to every opset from {low} to {high}, and the
result is run on the published inputs. Tests with run-time parameters (axes, shapes, pads, ...) are also taken with these
bound as initializers, the way exporters write them. {cases} distinct cases, {pairs} pairs of a case and an opset;
onnx {onnx}, onnxruntime {onnxruntime}.

- **ok**: an engine reproduces the published outputs, in the tolerances that ONNX publishes with them.
- **ok by source**: no engine reproduces the published outputs from the *unconverted* model, or they are drawn at random;
  one engine computes the same, in those tolerances, from the unconverted and from the converted model.
- **wrong**: an engine that reproduces the published outputs of the source does not reproduce them after the conversion,
  or what no engine reproduces differs between the two forms.
- **invalid**: onnx.checker rejects the converted model. **crashed**: the converter raised an error of its own.
- **unjudged**: no engine runs both forms. **refused**: the converter said no, and why.
- **source not valid**: the same, of a published model that onnx.checker rejects as it is. It does not count in the percentage.

What is not published is drawn: [random models](random.md) go through every verb beside their source.
"""

SWEPT = {
    "zero": """\
## Sizes of 0 and 1

Published tests of one node, also as the versions before have them, with 0 and with 1 in place of each size: of one input, of
all that are equal, and where a parameter tells it; these declared, unknown, and with all others unknown. Sequences have no
element or one.
""",
    "runtime": """\
## Parameters at run time and as constants

Published tests of one node, also as the versions before have them, with each input as a constant, with all others as constants,
with optional ones left out, and with unknown sizes.
""",
    "carry": """\
## Types that older opsets lack

Published tests whose inputs or outputs are float8, float4, bfloat16, or integers of 2 or 4 bits, with these in float32, int8
and uint8 (`--interface`). numpy and ml_dtypes cast what is fed and expected. A number that the narrow type lacks is **wrong**.
""",
}
GOALS = {"carry": "{cases} cases to every opset: {pairs} pairs.\n"}
TAKEN = """\
{cases} cases that some engine runs go to the nearest opset of each other version of their operator, and from its first one to a
few opsets below: {pairs} pairs. What is expected is what the engines compute from the source, where no known quirk of theirs
(`tests/quirks`) says otherwise; calls of which the text of the operator says nothing (`tests/undefined`) are no cases.
What onnxruntime runs before, but not afterwards, though it lacks nothing, is **wrong**, too. **ok by source** and **unjudged**
are also those about whose source the engines differ.
"""


def markdown(verdicts: list[Verdict], swept: Mapping[str, list[Verdict]] | None = None) -> str:
    """The whole page."""
    parts = [*_parts(verdicts), *(part for name, found in (swept or {}).items() for part in _swept(name, found))]
    return "\n".join(line for part in parts for line in (*part, "")).rstrip("\n") + "\n"


def renewed(page: str, swept: Mapping[str, list[Verdict]]) -> str:
    """The page with these sections written anew."""
    for name, found in swept.items():
        head = SWEPT[name].splitlines()[0]
        before, _, rest = page.partition(f"{head}\n")
        _, next_one, after = rest.partition("\n## ")
        section = "\n".join(line for part in _swept(name, found) for line in (*part, ""))
        page = f"{before}{section}{next_one}{after}".rstrip("\n") + "\n"
    return page


def counts(verdicts: Iterable[Verdict]) -> dict[str, Counter[str]]:
    """How often each status occurs, by direction."""
    found: dict[str, Counter[str]] = {direction: Counter() for direction in DIRECTIONS}
    for verdict in verdicts:
        found[verdict.direction][verdict.status] += 1
    return found


def share(count: Counter[str]) -> str:
    """The percentage that is ok by either judge, of the pairs whose published model is valid."""
    total = sum(count.values()) - count[NOT_VALID]
    return f"{100 * (count[OK] + count[OK_BY_SOURCE]) / total:.2f}" if total else "-"


def reasons(verdict: Verdict) -> list[tuple[str, str, str]]:
    """The refusals of a pair as (operator, boundary, why), with names and numbers left out."""
    found = REASON.findall(verdict.why) or [("", "", verdict.why)]
    return list(dict.fromkeys((op, boundary, general(why)) for op, boundary, why in found))


def general(why: str) -> str:
    """A reason without what differs from model to model."""
    why = re.sub(r'"[^"]*"', '"…"', why)
    why = re.sub(r"^tensor\((\w+)\) does not exist at opset \d+$", r"\1 does not exist there", why)
    return re.sub(r"(?<![\w.…])(?<!opset )(?<!-> )-?\d+(?:\.\d+)?(?![\w.])", "…", why)


def _parts(verdicts: list[Verdict]) -> Iterator[list[str]]:
    releases = sorted({v.release for v in verdicts}, key=lambda text: [int(n) for n in text.split(".")])
    yield HEAD.format(
        releases=f"onnx {', '.join(releases[:-1])} and {releases[-1]}" if releases[1:] else f"onnx {releases[0]}",
        low=min(v.target for v in verdicts),
        high=max(v.target for v in verdicts),
        cases=f"{len({(v.case, v.release, v.source) for v in verdicts}):,}",
        pairs=f"{len(verdicts):,}",
        onnx=version("onnx"),
        onnxruntime=version("onnxruntime"),
    ).splitlines()
    yield ["## Up and down", "", *_table(["", *STATUSES, "total", "ok %"], _rows(counts(verdicts)))]
    yield ["## By target opset", "", *_table(["opset", *STATUSES, "total", "ok %"], _rows(_by_target(verdicts)))]
    engines = Counter((v.engine, v.status) for v in verdicts if v.status in (OK, OK_BY_SOURCE))
    rows = [[engine, engines[engine, OK], engines[engine, OK_BY_SOURCE]] for engine in sorted({e for e, _ in engines})]
    yield ["## Who judged", "", *_table(["engine", OK, OK_BY_SOURCE], rows)]
    yield [
        "## Refused, by reason",
        "",
        "A pair that is refused for several reasons counts for each.",
        "",
        *_refused(verdicts),
    ]
    for status in (WRONG, INVALID, CRASHED, UNJUDGED, NOT_VALID, OK_BY_SOURCE):
        yield [f"## {status.capitalize()}", "", *_listed(verdicts, status)]


def _swept(name: str, verdicts: list[Verdict]) -> Iterator[list[str]]:
    cases = len({(v.case, v.release, v.source) for v in verdicts})
    said = GOALS.get(name, TAKEN).format(cases=f"{cases:,}", pairs=f"{len(verdicts):,}")
    yield [*SWEPT[name].splitlines(), "", *said.splitlines()]
    yield _table(["", *STATUSES, "total", "ok %"], _rows(counts(verdicts)))
    if name == "carry" and any(v.status == REFUSED for v in verdicts):
        yield ["Refused:", "", *_refused(verdicts)]
    for status in (WRONG, INVALID, CRASHED):
        if any(v.status == status for v in verdicts):
            yield [f"### {status.capitalize()}", "", *_listed(verdicts, status)]


def _by_target(verdicts: list[Verdict]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in sorted(verdicts, key=lambda v: v.target):
        found[str(verdict.target)][verdict.status] += 1
    return found


def _rows(found: dict[str, Counter[str]]) -> list[list[object]]:
    return [[name, *(n[s] for s in STATUSES), sum(n.values()), share(n)] for name, n in found.items()]


def _refused(verdicts: list[Verdict]) -> list[str]:
    found = Counter((reason, v.direction) for v in verdicts if v.status == REFUSED for reason in reasons(v))
    total = Counter[tuple[str, str, str]]()
    for (reason, _), count in found.items():
        total[reason] += count
    rows = [
        [count, found[reason, "up"] + found[reason, "same"], *map(_cell, reason)]
        for reason, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))
    ]
    return _table(["pairs", "of them not down", "operator", "boundary", "why"], rows)


def _listed(verdicts: list[Verdict], status: str) -> list[str]:
    found: dict[tuple[str, str, int, str], list[int]] = defaultdict(list)
    for v in verdicts:
        if v.status == status:
            found[v.case, v.release, v.source, OPSET.sub("opset …", general(v.why))].append(v.target)
    if not found:
        return ["None."]
    rows = [
        [case, release, source, _spans(targets), _cell(why)]
        for (case, release, source, why), targets in sorted(found.items())
    ]
    return _table(["case", "onnx", "from", "to", "why"], rows)


def _spans(numbers: list[int]) -> str:
    """[7, 8, 9, 13] as "7..9 13"."""
    ends: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ends and ends[-1][1] == number - 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return " ".join(f"{first}..{last}" if first < last else str(first) for first, last in ends)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")  # what engines say holds types such as <class 'int'>


def _table(head: list[str], rows: Iterable[Iterable[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def main() -> None:
    """Print the page, or write sections of it anew."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab conformance-page")
    from_where = parser.add_mutually_exclusive_group(required=True)
    from_where.add_argument("verdicts", nargs="?")
    from_where.add_argument("--into", type=Path, metavar="PAGE", help="write the sections of sweeps alone")
    parser.add_argument("--sweep", nargs=2, action="append", default=[], metavar=("NAME", "SWEPT"))
    options = parser.parse_args()
    swept = {name: _read(path) for name, path in options.sweep}
    if options.into is None:
        sys.stdout.write(markdown(_read(options.verdicts), swept))
    else:
        options.into.write_text(renewed(options.into.read_text(encoding="utf-8"), swept), encoding="utf-8")


def _read(path: str) -> list[Verdict]:
    return [Verdict(**row) for row in json.loads(Path(path).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    main()
