"""Rules of optimization that need a whole model, or round otherwise, beside those of `passes/simplification/rules`."""

from __future__ import annotations

from functools import cache

from opshift.passes.simplification import rules


@cache
def all_rules(opset: int, exact: bool = False) -> dict[str, list[rules.Rule]]:
    """The rules by operator that hold at an opset, in the order in which they are tried; `exact` ones or all."""
    rules.import_rules(rules.__name__, rules.__path__)
    rules.import_rules(__name__, __path__)
    return rules.find_rules(opset, exact=exact)
