"""A model as it was before its element types were changed, by what it is now.

Values get the types that they have in the source, and casts that have nothing to change then are gone. That asks for no
reason why a value has a type, so that it tells whether anything else was changed.
"""

from __future__ import annotations

from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.types.casting import Casting
from opshift.passes.types.problem import Problem
from opshift.passes.types.wanted import NARROW, Types


def restored(model: ModelProto, source: ModelProto, wanted: Types) -> ModelProto:
    """A copy with the types that values have in the source, and with the source's constants."""
    before = Problem(source, wanted)
    changed = set(wanted.mapping.values())
    own = {value.name for value in before.values() if value.kind in changed}
    copy = copy_model(model)
    problem = Problem(copy, Types({new: old for old, new in wanted.mapping.items()}, NARROW))
    for value in problem.values():
        if value.name in own:
            problem.stay(value.variable, "it has this type in the source")
    Casting(problem, {}, [False] + [not reason for reason in problem.reasons[1:]], None).write()
    held = {tensor.name: tensor for tensor in source.graph.initializer}
    for tensor in copy.graph.initializer:
        if tensor.name in held:
            tensor.CopyFrom(held[tensor.name])
    return copy
