"""What a step or a rule does, in the words that users read in reports and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def says(sentence: str) -> Callable[[Function], Function]:
    """Give a step or a rule the sentence that stands for it wherever what it did is reported."""

    def give(function: Function) -> Function:
        vars(function)["says"] = sentence.rstrip(".")  # on the function: recipes make some for a single call
        return function

    return give


def sentence_of(function: Callable[..., Any]) -> str:
    """The sentence of a step or a rule, without its full stop; its name where it was given none."""
    return vars(function).get("says") or function.__name__.replace("_", " ")
