"""Write the outcome of a conversion, or the difference of two models, as one self-contained HTML page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from opshift.cli.drawing import Box, drawing
from opshift.jobs.difference import Difference
from opshift.jobs.outcome import Outcome, several, verdict
from opshift.passes.changes import Change, StageReport
from opshift.passes.errors import group_refusals
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.verification.regions import Body, Comparison
from opshift.verification.side import Side
from opshift.verification.verdict import Verification

_MOST_DRAWN, _MOST_NODES = 24, 14
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; --good: #1a7f37; --bad: #cf222e; --mark: #0969da }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #f85149; --mark: #58a6ff } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; padding: 1rem }
h1 { font-size: 1.3rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
.verdict { border-left: 5px solid var(--good); padding: .4rem .8rem; background: var(--soft); overflow-wrap: anywhere }
.verdict.bad { border-color: var(--bad) }
pre { background: var(--soft); padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
td { overflow-wrap: anywhere }
.pair { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start }
.pair > div { max-width: 100%; overflow-x: auto } details { margin: .4rem 0 }
svg { max-width: 100%; height: auto } .pair svg { max-width: none }
svg text { fill: currentColor; font: 12px system-ui, sans-serif }
svg rect { fill: var(--soft); stroke: var(--line) } svg path { fill: none; stroke: var(--line) }
.pair svg text { text-anchor: middle } .pair svg .name, .pair svg .value { font-size: 10px; opacity: .75 }
svg .bar { fill: var(--mark); stroke: none } svg .bar.bad { fill: var(--bad) } svg .bound { stroke: currentColor }
summary { cursor: pointer; overflow-wrap: anywhere } .quiet { opacity: .75 }
@media (max-width: 40rem) {
  .errors thead { display: none }
  .errors tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line) }
  .errors td { display: flex; gap: .6rem; border: 0; padding: .1rem 0 }
  .errors td::before { content: attr(data-of); flex: 0 0 8.5rem; opacity: .75 }
}
"""


def page(outcome: Outcome, source: ModelProto | None, result: ModelProto | None, command: Sequence[str]) -> str:
    """Write the page of a conversion.

    Args:
        outcome: what to report.
        source, result: the models, for drawings of changes; None if there is none.
        command: what was typed.
    """
    proved = outcome.verification
    good = not outcome.refusals and (proved is None or proved.equal)
    inputs = [_shapes(given) for given in proved.inputs] if proved is not None else []
    parts = [
        f"<h1>{escape(outcome.source)} → {escape(outcome.output or 'not written')}</h1>",
        f'<p class="verdict{"" if good else " bad"}">{escape(_verdict(outcome))}</p>',
        _table(("", "before", "after"), _facts(outcome)),
        *_stages(outcome.stages),
        *_render_list("Refused", group_refusals(outcome.refusals)),
        *_render_list("Stays on floats", group_refusals(outcome.stays)),
        *_render_list("Control flow that stays", group_refusals(outcome.control_flow)),
        *_render_list("Not read", group_refusals(outcome.unread)),
        *_render_list("Taken back", [_render_taken_back(back.change, back.why) for back in outcome.taken_back]),
        *(_outputs(proved) if proved is not None else ()),
        *(_regions(proved) if proved is not None else ()),
        *_render_list("Remarks", proved.remarks if proved is not None else ()),
        *_render_list("Inputs that both ran on", inputs),
        *_changes(outcome.changes, source, result),
        f"<h2>Again</h2><pre>{escape(shlex.join(command))}</pre>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>opshift: {escape(outcome.source)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def difference_page(found: Difference, before: ModelProto, after: ModelProto, command: Sequence[str]) -> str:
    """Write the page of `opshift diff`, with drawings around the nodes that differ."""
    regions, drawn = _Regions(before, after), []
    for pair in found.changed[:_MOST_DRAWN]:
        about = f"{pair.op} {pair.before}: {'; '.join(pair.how)}"
        drawn.append(
            f"<details open><summary>{escape(about)}</summary>{_render_drawing(regions, pair.before)}</details>"
        )
    for node in [*found.gone, *found.added][: max(_MOST_DRAWN - len(drawn), 0)]:
        drawn.append(
            f"<details><summary>{escape(f'{node.op} {node.name}')}</summary>"
            f"{_render_drawing(regions, node.name)}</details>"
        )
    parts = [
        f"<h1>{escape(found.before)} and {escape(found.after)}</h1>",
        f'<p class="verdict{" bad" if found else ""}">{"they differ" if found else "they are the same"}</p>',
        *_render_list("What differs", found.lines),
        *(["<h2>Around the nodes</h2>", *drawn] if drawn else []),
        f"<h2>Again</h2><pre>{escape(shlex.join(command))}</pre>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>opshift: {escape(found.before)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(outcome: Outcome) -> str:
    if outcome.refusals:
        nodes = len({(refusal.where, refusal.node) for refusal in outcome.refusals})
        return f"refused: {several(nodes, 'node')} cannot be expressed {outcome.target}".rstrip()
    proof = verdict(outcome.verification) if outcome.verification is not None else "not verified"
    return f"{outcome.grade}: {proof}" if outcome.grade else proof


def _facts(outcome: Outcome) -> list[tuple[str, ...]]:
    columns = [outcome.before, *([outcome.after] if outcome.after else [])]
    domains = dict.fromkeys(domain for facts in columns for domain in facts.opsets)
    rows = [
        (f"opset {domain or 'ai.onnx'}", *(str(f.opsets.get(domain, "none")) for f in columns)) for domain in domains
    ]
    return [
        *rows,
        ("IR version", *(str(facts.ir_version) for facts in columns)),
        ("nodes", *(str(facts.nodes) for facts in columns)),
        ("functions", *(str(facts.functions) for facts in columns)),
        ("bytes", *(f"{facts.size:,}" for facts in columns)),
    ]


def _stages(stages: Sequence[StageReport]) -> Iterable[str]:
    """List the stages in order, each with its changes and its time."""
    if stages:
        rows = [(escape(stage.full_name), f"{stage.changes:,}", f"{stage.seconds:.2f} s") for stage in stages]
        yield "<h2>Stages</h2>"
        yield _table(("stage", "changes", "time"), rows)


def _render_taken_back(change: Change, why: str) -> str:
    return f"{change.op} {change.node!r}: {change.how} ({why})"


def _render_list(title: str, lines: Sequence[str]) -> Iterable[str]:
    if lines:
        yield f"<h2>{title}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _outputs(proved: Verification) -> Iterable[str]:
    """Show the difference of each output as a bar beside what is allowed."""
    if not proved.outputs:
        return
    yield "<h2>Outputs</h2>"
    yield '<p class="quiet">Each bar is a difference on a logarithmic scale; the mark at its right: allowed.</p>'
    rows = []
    for output in proved.outputs:
        said = "compared by type and shape" if output.is_random else output.why or "agrees"
        rows.append((escape(output.output), _bar(output.difference, output.allowed), escape(said)))
    yield _bars(("output", "difference", "verdict"), rows)


def _regions(proved: Verification) -> Iterable[str]:
    """Show each kind of changed part: its operators before and after, and how it was tested."""
    if not proved.regions:
        return
    yield "<h2>Changed parts</h2>"
    rows = []
    for region in proved.regions:
        ran = f"{several(region.runs, 'input')}{'' if region.captured else ', drawn only'}"
        said = f"{region.status}{f': {region.why}' if region.why else ''}"
        what = f"{'+'.join(region.before) or 'constant'} → {'+'.join(region.after) or 'constant'}"
        cells = (what[:200], str(region.places), ran)
        rows.append((*map(escape, cells), _bar(region.difference, region.allowed), escape(said)))
    yield _bars(("change", "places", "tested on", "difference", "verdict"), rows)


def _bars(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table whose cells are HTML."""
    top = "".join(f"<th>{title}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f'<td data-of="{title}">{cell}</td>' for title, cell in zip(head, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table class="errors"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _shapes(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in given.items())


def _bar(value: float, bound: float) -> str:
    """Draw a difference on a logarithmic scale, from eight powers of ten below its bound to one above."""
    if not bound and not value:
        return "equal"
    part = 1.0 if not bound else (log10(max(value / bound, 1e-8)) + 8) / 8 if value else 0.0
    width, bad = min(max(part, 0.0), 1.125) * 128, not value <= bound
    return (
        f'<svg viewBox="0 0 150 26" width="150" role="img" aria-label="{value:.2g} of {bound:.2g}">'
        f'<rect class="bar{" bad" if bad else ""}" x="0" y="2" width="{width:.1f}" height="8"/>'
        f'<path class="bound" d="M128 0 V12"/><text x="0" y="23">{value:.2g} of {bound:.2g}</text></svg>'
    )


def _changes(changes: Sequence[Change], source: ModelProto | None, result: ModelProto | None) -> Iterable[str]:
    """Write one entry for each kind of change, with a drawing of the first place."""
    if not changes:
        return
    kinds: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        kinds.setdefault(change[1:], []).append(change)
    yield f"<h2>{len(changes)} changes</h2>"
    regions = _Regions(source, result) if source is not None and result is not None else None
    for number, alike in enumerate(kinds.values()):
        first = alike[0]
        rung = first.rung.replace("->", "→")
        note = f" ({first.remark})" if first.remark else ""
        line = f"{len(alike)} × {f'{first.op} {rung}'.strip()}, {first.grade}: {first.how}{note}"
        names = ", ".join(change.node for change in alike[:20]) + (" …" if len(alike) > 20 else "")
        drawn = _render_drawing(regions, first.node) if regions is not None and number < _MOST_DRAWN else ""
        yield f"<details{' open' if number < 3 else ''}><summary>{escape(line)}</summary>"
        yield f'<p class="quiet">{escape(names)}</p>{drawn}</details>'


class _Regions:
    """The nodes by which two models differ, in the regions that the proof compares."""

    def __init__(self, before: ModelProto, after: ModelProto):
        self._before, self._after = Body(Side(before)), Body(Side(after))
        self._regions = Comparison(self._before, self._after).regions()

    def around(self, name: str) -> tuple[list[NodeProto], list[NodeProto]] | None:
        """Find the nodes of both models around one, by its name or an output's; None if nothing differs there."""
        for region in self._regions:
            before = [self._before.pieces.nodes[index] for index in region.before]
            after = [self._after.pieces.nodes[index] for index in region.after]
            if any(name in (node.name, *node.output) for node in (*before, *after)):
                return before, after
        return None


def _render_drawing(regions: _Regions, name: str) -> str:
    found = regions.around(name)
    if found is None or max(map(len, found)) > _MOST_NODES or not any(found):
        return ""
    drawn = (drawing(list(map(_box, nodes))) if nodes else "nothing" for nodes in found)
    sides = (f"<div><b>{label}</b><br>{svg}</div>" for label, svg in zip(("before", "after"), drawn, strict=True))
    return f'<div class="pair">{"".join(sides)}</div>'


def _box(node: NodeProto) -> Box:
    return Box(node.name, node.op_type, tuple(filter(None, node.input)), tuple(filter(None, node.output)))
