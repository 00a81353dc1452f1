"""Write `opshift/catalog/endings.tsv`: which steps are but close to what they replace, and the reasons for which each refuses.

`python -m tests.lab endings [PATH]` reads them in the sources of the steps; what is installed reads the table.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from opshift.passes.errors import reason
from opshift.passes.rewrite import registry

from opshift.catalog import ledger

TABLE = Path(ledger.__file__).with_name("endings.tsv")
_ASKS = {"rank": "the rank is unknown", "elem_type": "the type is unknown"}


def render() -> str:
    """The table as the text that is committed."""
    lines = [
        "\t".join((domain, op, str(version), way, ending))
        for domain, op, version, way, step in sorted(_steps(), key=lambda found: found[:4])
        for ending in endings(step)
        if way != "inlined" or ending == ledger.CLOSE  # for whom an operator is inlined is told its grade alone
    ]
    return "\n".join(["domain\toperator\tversion\tway\tending", *lines]) + "\n"


def _steps() -> Iterator[tuple[str, str, int, str, registry.Step]]:
    """Every step that does something, but for those that refuse whatever the call, whose reason is registered."""
    for (domain, op, version), pair in registry.all_registrations().items():
        ways = () if pair.why else (("up", pair.up), ("down", pair.down))
        yield from ((domain, op, version, way, step) for way, step in ways if step is not None)
    for (domain, op), held in registry._on_request.items():
        if not held.why:
            yield domain, op, 0, "inlined", held.step


def endings(step: Callable[..., Any]) -> list[str]:
    """How a step may end but exactly: `close`, and the refusals in the order in which they are found."""
    found = list(_read(step, set()))
    close = [ledger.CLOSE] if ledger.CLOSE in found else []
    return [*close, *dict.fromkeys(ending for ending in found if ending != ledger.CLOSE)]


def _read(function: Callable[..., Any], seen: set[Any]) -> Iterator[str]:
    """The grades and refusals in a step and in the helpers of the steps that it calls."""
    function = inspect.unwrap(function)
    if function in seen or not inspect.isfunction(function):
        return
    seen.add(function)
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for node in _calls(function):
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "close" and node.args:
                yield ledger.CLOSE
            elif node.func.attr in _ASKS and isinstance(node.func.value, ast.Name) and node.func.value.id == "node":
                yield f"refused: {_ASKS[node.func.attr]}"
            elif node.func.attr == "unknown" and isinstance(node.args[0], ast.Constant):
                yield f'refused: the {node.args[0].value} of "…" is unknown'
            elif isinstance(node.func.value, ast.Name) and inspect.ismodule(room := names.get(node.func.value.id)):
                yield from _read_helper(getattr(room, node.func.attr, None), seen)
        elif isinstance(node.func, ast.Name):
            if node.func.id == "CannotConvert" and len(node.args) > 1:
                supported = {word.arg: _text(word.value, names) for word in node.keywords}.get("supported", "")
                told, _, _ = reason(_text(node.args[1], names), supported).partition("; try ")
                yield f"refused: {told}"
            else:
                yield from _read_helper(names.get(node.func.id), seen)


def _read_helper(called: Any, seen: set[Any]) -> Iterator[str]:
    if inspect.isfunction(called) and called.__module__.startswith("opshift.passes.operators"):
        yield from _read(called, seen)


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


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    target.write_text(render(), encoding="utf-8")
