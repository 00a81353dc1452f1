"""A model in float32 that rounds each of its values to the type that it has: any engine shows what that costs.

onnxruntime's CPU computes in float32 where it has no kernel of float16, and drops the casts between such nodes, so that
it shows less than a device does.
"""

from __future__ import annotations

from opshift.passes.model.messages import ModelProto, TensorProto, copy_model
from opshift.passes.types.casting import Casting
from opshift.passes.types.problem import Problem
from opshift.passes.types.wanted import NARROW, Types

T = TensorProto


def simulate(model: ModelProto, folder: str | None = None) -> ModelProto:
    """A copy in float32, with a cast to float16 or bfloat16 and back behind each value that has such a type.

    Its inputs and outputs are float32.
    """
    copy = copy_model(model)
    problem = Problem(copy, Types({T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT}, NARROW))
    narrow = [False] + [True] * (len(problem.elem_types) - 1)
    for variable, reason in enumerate(problem.reasons):
        if reason:
            narrow[variable] = False
    Casting(problem, {}, narrow, folder, rounding=True).write()
    return copy
