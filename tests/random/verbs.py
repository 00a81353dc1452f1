"""What is asked of a model: opsets up, down, there and back, definitions, folds, optimization, element types."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from onnx import ModelProto
from opshift.passes import goals
from opshift.passes.changes import Result
from opshift.passes.goals import Refinement
from opshift.passes.model import schemas
from opshift.passes.types.door import Undoing

from tests.conformance.cases import expandable
from tests.runtime import every_node, opset


@dataclass(frozen=True)
class Verb:
    """What is done, step by step."""

    kind: str
    steps: tuple[tuple[str, tuple[object, ...]], ...]

    def __str__(self) -> str:
        return " then ".join(f"{name}{args}" for name, args in self.steps)

    def attempt(self, model: ModelProto) -> Result:
        """The result of the last step, or of the one that is refused, with the changes of all."""
        result, changes = Result(model, (), ()), []
        for name, args in self.steps:
            if result.model is None:
                break
            result = DOING[name](*args).run(result.model, None)  # type: ignore[arg-type]
            changes += result.changes
        return replace(result, changes=tuple(changes))

    def undone(self, source: ModelProto, result: Result) -> Undoing | None:
        """The result of changing types of floats beside the source; None for all else."""
        name, args = self.steps[-1]
        asked = DOING[name](*args).types if name == "types" else None
        if asked is None or asked.of_integers or result.model is None or result.types is None:
            return None
        return Undoing(result.model, None, source, None, asked, result.types)


def _convert(target: dict[str, int] | None, modernize: bool = False, optimize: bool = False) -> goals.Goal:
    return goals.conversion(target, None, Refinement(modernize, optimize=optimize))


def _inline(ops: tuple[str, ...], target: int | None = None) -> goals.Goal:
    return goals.inlining(ops, None, target)


def _fold(optimize: bool = False) -> goals.Goal:
    return goals.conversion(None, None, goals.folding(None, optimize=optimize))


def _types(asked: str, interface: str) -> goals.Goal:
    return goals.with_types(goals.Goal(), asked, interface)


DOING: dict[str, Callable[..., goals.Goal]] = {"convert": _convert, "inline": _inline, "fold": _fold, "types": _types}


def drawn_verbs(rng: random.Random, model: ModelProto, count: int) -> list[Verb]:
    """Different things to do with a model."""
    found: dict[str, Verb] = {}
    for _ in range(4 * count):
        if len(found) >= count:
            break
        verb = _verb(rng, model)
        if verb is not None:
            found.setdefault(str(verb), verb)
    return list(found.values())


def operators(model: ModelProto) -> list[tuple[str, str]]:
    """The operators of ONNX in all graphs and functions."""
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    found = {(n.domain, n.op_type) for body in bodies for n in every_node(body) if n.domain in ("", "ai.onnx.ml")}
    return sorted(found)


def _verb(rng: random.Random, model: ModelProto) -> Verb | None:
    kind = rng.choice(
        ["convert"] * 6
        + ["back", "ml", "inline", "inline", "inline", "folded", "fold", "optimize", "refined", "types", "types"]
    )
    own, ops = opset(model), [op for domain, op in operators(model) if not domain]
    if kind in ("convert", "back", "refined"):
        target = _target(rng, ops, own)
        if target == own:
            return None
        way = "up" if target > own else "down"
        if kind == "refined":
            wanted = rng.choice([(True, False), (False, True), (True, True)])
            return Verb(f"{way}, refined", (("convert", ({"": target}, *wanted)),))
        steps: tuple[tuple[str, tuple[object, ...]], ...] = (("convert", ({"": target},)),)
        if kind == "back":
            return Verb(f"{way} and back", (*steps, ("convert", ({"": own},))))
        return Verb(way, steps)
    if kind == "ml":
        version = next((i.version for i in model.opset_import if i.domain == "ai.onnx.ml"), None)
        target = rng.randint(1, schemas.latest("ai.onnx.ml"))
        return None if version in (None, target) else Verb("ml", (("convert", ({"ai.onnx.ml": target},)),))
    if kind in ("inline", "folded"):
        own_functions = [f"{f.domain}::{f.name}" for f in model.functions]
        known = sorted({*ops} & expandable())
        if not known and not own_functions:
            return None
        chosen = (rng.choice(known or own_functions),) if rng.random() < 0.6 else (*known, *own_functions)
        if kind == "folded":
            return Verb("inline, fold", (("inline", (chosen,)), ("fold", ())))
        target = _target(rng, ops, own) if rng.random() < 0.2 else None
        return Verb("inline", (("inline", (chosen, target)),))
    if kind == "types":
        if own < 6:  # of Cast-1, no inference tells the type
            return None
        kind = rng.choice(["float16", "bfloat16", "float16=float32", "float64=float32", "int64=int32", "int64=int32"])
        interface = rng.choice(["keep", "keep", "narrow"]) if kind in ("float16", "bfloat16") else "keep"
        return Verb("types", (("types", (kind, interface)),))
    if kind == "fold":
        return Verb("fold", (("fold", (rng.random() < 0.5,)),))
    return Verb("optimize", (("convert", (None, False, True)),))


def _target(rng: random.Random, ops: list[str], own: int) -> int:
    """An opset, often one at which an operator of the model begins or ends to be as it is."""
    edges = {v + by for op in ops for v in schemas.versions("", op) for by in (-1, 0)}
    edges = {v for v in edges if 1 <= v <= schemas.latest() and v != own}
    how = rng.random()
    if edges and how < 0.5:
        return rng.choice(sorted(edges))
    if how < 0.8:  # past all edges at once
        return rng.choice([7, 7, 8, 9, 26, 28])
    return rng.randint(7 if rng.random() < 0.9 else 1, schemas.latest())
