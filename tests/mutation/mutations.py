"""What may be changed in a source: one place, to something that reads as if a person had slipped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
NAME = re.compile(r"[A-Za-z_][\w.]*|")
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# What the running code does not depend on, or what a mutant of would be no program.
PASSED_OVER = (ast.Import, ast.ImportFrom, ast.Assert, ast.JoinedStr, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Mutant:
    """One place of one file, and what stands there instead."""

    file: str
    line: int
    text: str
    """The line, to know it again after others have moved it."""
    old: str
    new: str
    nth: int
    """Which of the same changes to lines of the same text."""
    start: int
    end: int
    inside: bool
    """Whether it lies in the body of a function, which each call executes, not the import alone."""

    def apply(self, source: str) -> str:
        held = source.encode()
        return (held[: self.start] + self.new.encode() + held[self.end :]).decode()


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of one file, in the order of their places."""
    held = source.encode()
    lines = held.split(b"\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    for node, new, inside in _changes(ast.parse(source), False):
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old, text = " ".join(held[start:end].decode().split()), lines[node.lineno - 1].decode().strip()
        nth = seen[text, old, new] = seen.get((text, old, new), -1) + 1
        found.append(Mutant(file, node.lineno, text, old, new, nth, start, end, inside))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.new))


Change = tuple[ast.expr | ast.stmt, str, bool]


def _changes(node: ast.AST, inside: bool) -> Iterator[Change]:
    if isinstance(node, PASSED_OVER) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    if isinstance(node, ast.stmt):
        yield from ((place, new, inside) for place, new in _of_statement(node))
    elif isinstance(node, ast.expr):
        yield from ((node, _written(new), inside) for new in _of_expression(node, inside))
    for name, held in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or (isinstance(node, ast.Raise) and name == "cause"):
            continue
        within = inside or (isinstance(node, (ast.FunctionDef, ast.Lambda)) and name == "body")
        for child in held if isinstance(held, list) else [held]:
            if isinstance(child, ast.AST) and not _is_docstring(child) and not _is_assertion(child):
                yield from _changes(child, within)


def _written(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, (ast.Constant, ast.Name, ast.Call)) else f"({text})"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_assertion(node: ast.AST) -> bool:
    """Whether it says of what is zipped that it is of one length, as an `assert` would."""
    return isinstance(node, ast.keyword) and node.arg == "strict" and ast.unparse(node.value) == "True"


def _of_statement(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    if isinstance(node, ast.If):
        if not isinstance(node.test, (ast.UnaryOp, ast.Compare)):
            yield node.test, f"not ({ast.unparse(node.test)})"
        if not node.orelse and isinstance(node.body[-1], ENDS):
            yield node.test, "False"
    elif isinstance(node, (ast.Raise, ast.Expr, ast.AugAssign)):
        yield node, "pass"
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, "return None"
    elif isinstance(node, ast.Continue):
        yield node, "break"
    elif isinstance(node, ast.Break):
        yield node, "continue"


def _of_expression(node: ast.expr, inside: bool) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            words = [COMPARED[type(operator)](), *node.ops[index + 1 :]]
            yield ast.Compare(node.left, [*node.ops[:index], *words], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.BinOp):
        types = isinstance(node.op, ast.BitOr) and not inside
        if type(node.op) in COMPUTED and not types and not _is_text(node.left) and not _is_text(node.right):
            yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        yield from map(ast.Constant, _of_constant(node.value))
    elif isinstance(node, ast.Call):
        for held in node.keywords:
            if held.arg not in (None, "strict") and not _is_text(held.value):
                yield ast.Call(node.func, node.args, [other for other in node.keywords if other is not held])


def _of_constant(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 2 or 1.0
    elif isinstance(value, str) and NAME.fullmatch(value):
        yield value + "_"


def _is_text(node: ast.expr) -> bool:
    """Whether it is a text, most of which are for people to read."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
