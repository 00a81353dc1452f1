"""Exact rules: each is a function that looks at one node and changes it where it applies.

A rule returns None where it does not apply, the name of a value that takes over the node's output, or `EDITED`. What
it `says` is one sentence, which users read: what was true before, what is true after.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache

from opshift.passes.simplification.call import Call

EDITED = True
Outcome = str | bool | None
Rule = Callable[[Call], Outcome]

_rules: dict[str, list[tuple[int, bool, Rule]]] = {}


def rule(*ops: str, since: int = 7, close: bool = False, settles: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for operators of the default domain, from opset `since` on; whether it may be but `close`.

    What one that `settles` has changed tells inference no more than there was to be known of the value, if that had a
    shape: another round finds nothing new for it.
    """

    def register(function: Rule) -> Rule:
        vars(function)["settles"] = settles
        for op in ops:
            _rules.setdefault(op, []).append((since, close, function))
        return function

    return register


def settles(function: Rule) -> bool:
    """Whether what a rule does was registered to settle."""
    return bool(vars(function).get("settles"))


@cache
def exact_rules(opset: int) -> dict[str, list[Rule]]:
    """The rules by operator that hold at an opset and are exact, in the order in which they are tried."""
    import_rules(__name__, __path__)
    return find_rules(opset, exact=True)


def import_rules(package: str, path: Iterable[str]) -> None:
    """Import every file of rules in a package."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


def find_rules(opset: int, *, exact: bool) -> dict[str, list[Rule]]:
    """The rules by operator that hold at an opset: file by file in the order of their names, as they stand in each."""
    found: dict[str, list[Rule]] = {}
    for op, registered in _rules.items():
        held = [rule for since, close, rule in registered if opset >= since and not (exact and close)]
        if held:
            found[op] = sorted(held, key=lambda rule: rule.__module__.rpartition(".")[2])
    return found
