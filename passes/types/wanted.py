"""What a user asks of element types."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.passes.model.named_types import named_types
from opshift.passes.records import dataclass, field, replace
from opshift.passes.spelling import hint
from opshift.passes.types.formats import FORMATS, INTEGERS, NAMES, SOURCES, is_narrower
from opshift.passes.types.reasons import Reason

T = TensorProto

KEEP, NARROW = "keep", "narrow"
"""What becomes of the types of inputs and outputs: they stay, or change with the rest."""


@dataclass(frozen=True)
class Range:
    """The numbers that a value was seen to have.

    Attributes:
        most: the largest finite magnitude.
        whole: whether all were integers, some of which the other type rounds.
        finite: whether all were finite.
    """

    most: float
    whole: bool = False
    finite: bool = True


@dataclass(frozen=True)
class Seen:
    """What was seen of a model when it was run.

    Attributes:
        ranges: of values of the main graph, by name.
        real: whether the inputs were given by the user; else they were drawn.
        choices: why nodes have to read unrounded values, by the name of their first output.
        masks: the inputs that are masks, of which rows are tested that are masked wholly, partly and not at all.
        exact_masks: whether masks that are added keep their numbers, and with them their type.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    real: bool = False
    choices: Mapping[str, Reason] = field(default_factory=dict)
    masks: tuple[str, ...] = ()
    exact_masks: bool = False


@dataclass(frozen=True)
class Types:
    """Which element types become which, and where.

    Attributes:
        mapping: the type that takes the place of each.
        interface: `keep` or `narrow`: whether inputs and outputs of the model keep their types.
        at: inputs and outputs that are to have a type, by name.
        keep: patterns of what keeps its type.
        only: patterns of what may change, where there are any.
        budgets: how far outputs may move, by name; an empty name is for all others.
        given: the least and the largest number of inputs, by name; an empty name is for all others.
        seen: what was seen when the model ran; None where it was not run.
        held: nodes that keep their type because the outputs moved too far with them, by the name of their first output.
        target: the target that keeps such values in the other type anyway: what cannot change is refused.
        bounds: a copy of the model with the largest sizes that its inputs have; None where sizes are not bounded.
    """

    mapping: Mapping[int, int]
    interface: str = KEEP
    at: Mapping[str, int] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    budgets: Mapping[str, float] = field(default_factory=dict)
    seen: Seen | None = None
    given: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    held: Mapping[str, Reason] = field(default_factory=dict)
    target: str = ""
    bounds: ModelProto | None = None

    @property
    def narrows(self) -> bool:
        """Whether any type becomes one that holds fewer numbers."""
        return any(is_narrower(source, target) for source, target in self.mapping.items())

    @property
    def of_integers(self) -> bool:
        """Whether it is integers that change."""
        return any(target in INTEGERS for target in self.mapping.values())

    @property
    def label(self) -> str:
        """The types that are reached: `float16`."""
        return "-".join(dict.fromkeys(FORMATS[target].name for target in self.mapping.values()))

    def find_in(self, model: ModelProto) -> Types | None:
        """What a target asks for of a model: of the types that it keeps in others, those that the model has."""
        if not self.target:
            return self
        named = {*named_types(model), T.INT64}  # sizes are int64, though no model names their type
        mapping = {source: reached for source, reached in self.mapping.items() if source in named}
        floats = {source: reached for source, reached in mapping.items() if source not in INTEGERS}
        if floats and len(mapping) > len(floats):
            pairs = [f"--types {FORMATS[a].name}={FORMATS[b].name}" for a, b in mapping.items()]
            raise ValueError(
                f"{self.target} needs two changes of types ({' and '.join(pairs)}); use one command for each"
            )
        if len(mapping) == len(self.mapping):
            return self
        return replace(self, mapping=mapping) if mapping else None

    def budget(self, output: str) -> float:
        """How far an output may move."""
        own = self.budgets.get(output, self.budgets.get(""))
        if own is not None:
            return own
        return BUDGETS.get(next(iter(self.mapping.values()), 0), 0.01)


BUDGETS = {NAMES["bfloat16"]: 0.04}


def types_of_target(
    name: str,
    casts: Mapping[str, str],
    lacking: Iterable[str],
    interface: str | Iterable[str] | None = None,
    keep: str | Iterable[str] | None = None,
    only: str | Iterable[str] | None = None,
    budget: float | str | Iterable[str] | Mapping[str, float] | None = None,
) -> Types:
    """What a target needs: of the types that it keeps in others, and of those that it lacks, the others."""
    pairs = {**{kind: "float" for kind in lacking if kind in ("bfloat16", "float16")}, **casts}
    read = [types(f"{kind}={other}", interface, keep, only, budget) for kind, other in pairs.items()]
    nothing = types("float16", interface, keep, only, budget)  # which finds mistakes in the other options
    mapping = {elem_type: other for each in read for elem_type, other in each.mapping.items()}
    return replace(nothing, mapping=mapping, target=name)


def types(
    text: str,
    interface: str | Iterable[str] | None = None,
    keep: str | Iterable[str] | None = None,
    only: str | Iterable[str] | None = None,
    budget: float | str | Iterable[str] | Mapping[str, float] | None = None,
) -> Types:
    """What is asked, read from options; raises `ValueError` for what has no meaning."""
    mapping: dict[int, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        source, equals, target = part.partition("=")
        reached = find_type(target if equals else source)
        for start in (find_type(source),) if equals else SOURCES[reached]:
            if mapping.setdefault(start, reached) != reached:
                raise ValueError(f"--types names two types for {FORMATS[start].name}; give one")
            if (start in INTEGERS) != (reached in INTEGERS):
                raise ValueError(
                    f"--types {part} turns integers into floats or floats into integers, which is not possible"
                )
            if start == reached:
                raise ValueError(f"--types {part}: the two types are the same")
    if not mapping:
        raise ValueError("--types needs a type, such as float16, bfloat16, float32 or float64=float32")
    if len({reached in INTEGERS for reached in mapping.values()}) > 1:
        raise ValueError("--types cannot change integers and floats at once; use two commands")
    chained = next((FORMATS[each].name for each in mapping.values() if each in mapping), "")
    if chained:
        raise ValueError(f"--types both changes {chained} and creates it; use two commands")
    how, at = _interface(_list(interface))
    return Types(mapping, how, at, _patterns(keep), _patterns(only), _budgets(budget))


def find_type(name: str) -> int:
    """The number of a type that a user names; raises `ValueError` for others."""
    found = NAMES.get(name.strip().lower())
    if found is None:
        likely = hint(name, NAMES) or "; supported: float16, bfloat16, float32 and float64"
        raise ValueError(f"unknown type {name!r}{likely}")
    return found


def _list(held: str | Iterable[str] | None) -> list[str]:
    return [held] if isinstance(held, str) else list(held or ())


def _interface(held: list[str]) -> tuple[str, dict[str, int]]:
    how, at = KEEP, dict[str, int]()
    for text in held:
        name, equals, kind = text.removeprefix("input:").removeprefix("output:").rpartition("=")
        if equals:
            at[name] = find_type(kind)
        elif text in (KEEP, NARROW):
            how = text
        else:
            raise ValueError(f"--interface takes {KEEP}, {NARROW} or input:NAME=TYPE, not {text}")
    return how, at


def _patterns(held: str | Iterable[str] | None) -> tuple[str, ...]:
    """Patterns as they are typed, and those in files that are named behind an @."""
    found: list[str] = []
    for text in _list(held):
        if text.startswith("@"):
            with open(os.fspath(text[1:]), encoding="utf-8") as file:
                lines = [line.partition("#")[0].strip() for line in file]
            found += filter(None, lines)
        else:
            found.append(text)
    return tuple(found)


def _budgets(held: float | str | Iterable[str] | Mapping[str, float] | None) -> dict[str, float]:
    if held is None:
        return {}
    if isinstance(held, Mapping):
        return {name: _budget(value) for name, value in held.items()}
    if isinstance(held, float | int):
        return {"": _budget(held)}
    found: dict[str, float] = {}
    for text in _list(held):
        name, _, number = text.rpartition(":")
        found[name] = _budget(number)
    return found


def _budget(held: float | str) -> float:
    try:
        number = float(held)
    except ValueError:
        number = -1.0
    if not number > 0:
        raise ValueError(f"--budget must be a number above 0, such as 0.01, not {held!r}")
    return number


def check_names(wanted: Types, model: ModelProto) -> None:
    """Raise `ValueError` for an input or an output that is named and that the model does not have."""
    outputs = [value.name for value in model.graph.output]
    inputs = [value.name for value in model.graph.input]
    for option, what, named, known in (
        ("--budget", "output", wanted.budgets, outputs),
        ("--interface", "input or output", wanted.at, [*inputs, *outputs]),
    ):
        for name in filter(None, named):
            if name not in known:
                raise ValueError(f"{option}: the model has no {what} {name!r}{hint(name, known)}")


def matches(patterns: Iterable[str], node: NodeProto) -> str:
    """The first pattern that names a node: by its name, its operator or a value that it makes; empty for none."""
    for pattern in patterns:
        kind, colon, glob = pattern.partition(":")
        if kind not in ("op", "node", "value") or not colon:
            kind, glob = "", pattern
        if kind in ("", "op") and fnmatchcase(node.op_type, glob.rpartition("::")[2]):
            return pattern
        if kind in ("", "node") and node.name and fnmatchcase(node.name, glob):
            return pattern
        if kind in ("", "value") and any(fnmatchcase(name, glob) for name in node.output if name):
            return pattern
    return ""
