"""What is made of a case: empty tensors, sizes of 1, and parameters that come at run time, as constants, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from opshift.passes.model import schemas

from tests.conformance.cases import Case
from tests.conformance.sweep.bases import Base
from tests.conformance.sweep.declared import Change, Known, bare, every, none

LONGEST = 16  # numbers in a parameter
TURNS = ("static", "symbolic", "all symbolic")
DECLARED: dict[str, Known] = {"": every, ", unknown sizes": none}


def zero(base: Base) -> Iterator[Change]:
    """With 0 and with 1 in place of each size of an input, by itself, with all that are equal, and as a parameter."""
    unchanged, changes = bare(base.case, ()), count()
    for size in (0, 1):
        for name, given in _resized(base.case, size):
            changed = frozenset(
                (of, axis)
                for of, value in given.items()
                if isinstance(value, np.ndarray)
                for axis, (a, b) in enumerate(zip(value.shape, base.case.inputs[of].shape, strict=True))
                if a != b
            )
            change, known = next(changes), (every, partial(_elsewhere, changed), none)
            taken = [turn for turn in range(len(TURNS)) if base.takes(change, turn, len(TURNS))]
            yield Change(base.case, unchanged, given, [(f"[{name}, {TURNS[turn]}]", (), known[turn]) for turn in taken])


def runtime(base: Base) -> Iterator[Change]:
    """With each input as a constant, at run time, left out, and of unknown lengths."""
    changes = count()
    for left in [(), *_omissible(base.case)]:
        given = {name: value for name, value in base.case.inputs.items() if name not in left}
        here = [name for name, value in given.items() if isinstance(value, np.ndarray)]
        most = [(), tuple(here[1:])]
        some = [] if left else [*((name,) for name in here), *(tuple(n for n in here if n != name) for name in here)]
        forms = []
        for constants in dict.fromkeys([*most, *some]):
            change = next(changes)
            for turn, (words, known) in enumerate(DECLARED.items()):
                name = "".join([*(f" no {n}" for n in left), *(f" constant {n}" for n in constants), words]).strip(", ")
                if name and len(constants) < len(base.case.inputs) and base.takes(change, turn, len(DECLARED)):
                    forms.append((f"[{name}]", constants, known))
        yield Change(base.case, bare(base.case, left), given, forms)


SWEEPS: dict[str, Callable[[Base], Iterator[Change]]] = {"zero": zero, "runtime": runtime}


def _resized(base: Case, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Inputs with another size, and what was done to them."""
    arrays = {name: value for name, value in base.inputs.items() if isinstance(value, np.ndarray)}
    places = [(name, axis) for name, value in arrays.items() for axis, was in enumerate(value.shape) if was > size]
    equal = Counter(arrays[name].shape[axis] for name, axis in places)
    turns = [(f"{name}:{axis}={size}", [(name, axis)]) for name, axis in places]
    turns += [
        (f"{was}={size}", [(name, axis) for name, axis in places if arrays[name].shape[axis] == was])
        for was, times in equal.items()
        if times > 1
    ]
    for what, chosen in turns:
        given = dict(base.inputs)
        for name, axis in chosen:
            given[name] = np.take(given[name], range(size), axis=axis)
        yield what, given
        was = arrays[chosen[0][0]].shape[chosen[0][1]]
        told = {
            name: np.where(value == was, np.int64(size), value)
            for name, value in given.items()
            if isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size <= LONGEST and was in value
        }
        if told:
            yield f"{what} as told", {**given, **told}
    lists = {name: value for name, value in base.inputs.items() if isinstance(value, list)}
    if any(len(value) > size for value in lists.values()):  # of SequenceMap, all must be as long
        yield f"sequences of {size}", {**base.inputs, **{name: value[:size] for name, value in lists.items()}}
    for name, value in lists.items():
        if value and all(isinstance(v, np.ndarray) and v.ndim for v in value):
            yield f"{name}[:]={size}", {**base.inputs, name: [v[:size] for v in value]}


def _omissible(base: Case) -> list[tuple[str, ...]]:
    """The inputs of the node that may be left out: each by itself, and each with all that follow."""
    node = base.model.graph.node[0]
    schema = schemas.schema("", node.op_type, base.opset)
    if schema is None:
        return []
    options = [(name, schema.input(index)) for index, name in enumerate(node.input) if name in base.inputs]
    optional = [name for name, formal in options if formal is not None and formal.option == "Optional"]
    return list(dict.fromkeys([*((name,) for name in optional), *(tuple(optional[i:]) for i in range(len(optional)))]))


def _elsewhere(places: frozenset[tuple[str, int]], *place: Any) -> bool:
    return place not in places
