"""How engines are run that may end their process, or not come to an end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from opshift.verification import isolation
from opshift.verification.engines import EngineError

SECONDS = 10  # that a derived case may take
P = ParamSpec("P")
T = TypeVar("T")


class Calling(Protocol):
    """How a function is called that runs an engine."""

    def __call__(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T: ...


def plain(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it here."""
    return function(*arguments, **named)


def timed(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it here; this process ends if that takes too long."""
    signal.alarm(SECONDS)
    try:
        return function(*arguments, **named)
    finally:
        signal.alarm(0)


class Died(EngineError):
    """An engine ended its process, or did not come to an end."""


def guarded(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it in a process of its own; raises `Died` if that ends."""
    try:
        return isolation.call(timed, function, *arguments, **named)
    except isolation.Ended as ended:
        raise Died(str(ended)) from None
