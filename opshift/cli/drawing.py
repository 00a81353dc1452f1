"""Draw a few nodes of a graph from the top down; a node stands one row below the lowest one that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 150, 34, 14, 26, 8


class Box(NamedTuple):
    """A node to draw; without an operator, it is a value from outside."""

    name: str
    op: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]


def drawing(boxes: Sequence[Box]) -> str:
    """Write an SVG element of nodes in topological order; values from outside are drawn as their names."""
    rows = _rows(boxes)
    columns = max(map(len, rows), default=1)
    width = columns * WIDTH + (columns - 1) * GAP_X + 2 * MARGIN
    height = len(rows) * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN
    places = {
        id(box): (
            MARGIN + (columns - len(row)) * (WIDTH + GAP_X) / 2 + column * (WIDTH + GAP_X),
            MARGIN + level * (HEIGHT + GAP_Y),
        )
        for level, row in enumerate(rows)
        for column, box in enumerate(row)
    }
    makers = {name: box for row in rows for box in row for name in box.makes}
    lines = [
        _line(*places[id(makers[name])], *places[id(box)])
        for row in rows
        for box in row
        for name in box.reads
        if name in makers
    ]
    shapes = [_box(box, *places[id(box)]) for row in rows for box in row]
    label = escape(", ".join(box.op or box.name for box in boxes), quote=True)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{label}">'
        f"{''.join(lines)}{''.join(shapes)}</svg>"
    )


def _rows(boxes: Sequence[Box]) -> list[list[Box]]:
    """Arrange boxes in rows; values from outside stand right above the first box that reads them."""
    made = {name for box in boxes for name in box.makes}
    level: dict[str, int] = {}
    rows: dict[int, list[Box]] = {}
    outside: dict[str, int] = {}
    for box in boxes:
        row = max((level.get(name, 0) for name in box.reads), default=0) + 1
        level.update(dict.fromkeys(box.makes, row))
        rows.setdefault(row, []).append(box)
        for name in box.reads:
            if name not in made:
                outside[name] = min(outside.get(name, row), row)
    for name, row in outside.items():
        rows.setdefault(row - 1, []).append(Box(name, "", (), (name,)))
    return [rows[row] for row in sorted(rows)]


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    x, y, to_x, half = x + WIDTH / 2, y + HEIGHT, to_x + WIDTH / 2, GAP_Y / 2
    return f'<path d="M{x:g} {y:g} C{x:g} {y + half:g} {to_x:g} {to_y - half:g} {to_x:g} {to_y:g}"/>'


def _box(box: Box, x: float, y: float) -> str:
    middle = x + WIDTH / 2
    if not box.op:
        return f'<text class="value" x="{middle:g}" y="{y + HEIGHT / 2 + 4:g}">{escape(_short(box.name))}</text>'
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{middle:g}" y="{y + 15:g}">{escape(_short(box.op))}</text>'
        f'<text class="name" x="{middle:g}" y="{y + 28:g}">{escape(_short(box.name))}</text>'
    )


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"
