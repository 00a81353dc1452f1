"""Find what to try after a refusal: each hint was tried and works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from opshift.passes.changes import Result
from opshift.passes.errors import InvalidModel, describe_numbers
from opshift.passes.goals import MOST_TRIED, Goal, with_carriers
from opshift.passes.inputs.wanted import NOTHING
from opshift.passes.model.imports import opsets
from opshift.passes.model.installed import LACKING
from opshift.passes.model.messages import ModelProto

if TYPE_CHECKING:
    from opshift.passes.backends.door import Backend


def advice(source: ModelProto, goal: Goal, result: Result, nearest: int | None, folder: str | None) -> tuple[str, ...]:
    """Find hints for a refused model that work, as phrases that follow "try": `--opset 14`, `--target x-2`, fixed
    sizes.

    Runs after a refusal. Each hint was tried on the model.
    """
    hints: list[str] = []
    if nearest is not None and nearest != opsets(source).get(""):
        hints.append(f"--opset {nearest}")
    if result.refusals and result.refusals[0].op != LACKING and len(source.graph.node) <= MOST_TRIED:
        source, plain = goal.fix_sizes(source), replace(goal.plain, fixed=NOTHING)
        hints += _suggest_release(source, plain, folder)
        hints += _suggest_numbers(source, plain, folder)
        hints += _suggest_types(source, plain, result, folder)
    return tuple(hints)


def _suggest_release(source: ModelProto, goal: Goal, folder: str | None) -> Iterator[str]:
    """Find the first later release of the backend that the model can be converted for."""
    if goal.backend is None:
        return
    for release in _list_later_releases(goal.backend):
        if _reaches(source, replace(goal, backend=release), folder):
            yield f"--target {release.name}"
            return


def _list_later_releases(backend: Backend) -> Iterator[Backend]:
    """List later releases of a backend, the next one first."""
    from opshift.passes.backends.door import targets

    known = list(targets().values())
    stem = backend.name.rpartition("-")[0]
    own = [each for each in known if each.name.rpartition("-")[0] == stem]
    names = [each.name for each in own]
    yield from own[names.index(backend.name) + 1 :] if backend.name in names else ()


def _suggest_numbers(source: ModelProto, goal: Goal, folder: str | None) -> Iterator[str]:
    """Suggest numbers for open inputs if the model converts with them; `Goal.ask_for_numbers` did so for a backend."""
    if goal.backend is not None:
        return
    from opshift.passes.backends.door import find_open_inputs, list_attempts

    for asked, numbers in chain.from_iterable(list_attempts(source, find_open_inputs(source))):
        if _reaches(source, replace(goal, fixed=numbers), folder):
            yield describe_numbers(asked)
            return


_CARRIED = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
"""What carries integers; float carries floats."""


def _suggest_types(source: ModelProto, goal: Goal, result: Result, folder: str | None) -> Iterator[str]:
    """Suggest `--interface` types for element types that the target lacks, if the model converts with them."""
    matches = (re.match(r"tensor\((\w+)\) does not exist", refusal.why) for refusal in result.refusals)
    lacking = sorted({match[1] for match in matches if match is not None})
    pairs = [f"{kind}={_CARRIED.get(kind, 'float')}" for kind in lacking]
    with suppress(ValueError):
        if pairs and not goal.carriers and _reaches(source, with_carriers(goal, pairs), folder):
            yield " ".join(f"--interface {pair}" for pair in pairs)


def _reaches(source: ModelProto, goal: Goal, folder: str | None) -> bool:
    """Whether a goal can be reached from this model; False also if the attempt ends with an error."""
    with suppress(InvalidModel, ValueError, DecodeError):  # nested too deeply, as the source nearly is
        return goal.run(source, folder).model is not None
    return False
