"""What a derived case declares of its inputs: constants among them, and as many sizes as are to be known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx.numpy_helper
from onnx import ModelProto, TypeProto

from tests.conformance.cases import Case

Known = Callable[[str, int], bool]  # of an axis of an input


def every(*_: object) -> bool:
    """All sizes are known."""
    return True


def none(*_: object) -> bool:
    """No size is known."""
    return False


@dataclass(frozen=True)
class Change:
    """What is to be computed of other inputs, and how the model may tell them: each form with its name."""

    base: Case
    bare: Case
    given: Mapping[str, Any]
    forms: list[tuple[str, tuple[str, ...], Known | None]]


def declared(
    change: Change, name: str, constants: Sequence[str], known: Known | None, outputs: list[Any], disputed: str
) -> Case:
    """The case with the shapes of its inputs declared as far as they are to be known."""
    bare, given = change.bare, change.given
    model = _held(bare.model, given, constants)
    for value in model.graph.input:
        _declare(value.type, given[value.name], value.name, known)
    everything = known is not None and all(
        known(n, a) for n, v in given.items() if isinstance(v, np.ndarray) for a in range(v.ndim)
    )
    for value, found in zip(model.graph.output, outputs, strict=True):
        _declare(value.type, found, value.name, known and (every if everything else none))
    fed = {value.name: given[value.name] for value in model.graph.input}
    return replace(bare, name=bare.name + name, model=model, inputs=fed, outputs=outputs, disputed=disputed)


def _declare(kind: TypeProto, value: Any, name: str, known: Known | None) -> None:
    if not kind.HasField("tensor_type"):
        while not kind.HasField("tensor_type"):
            kind = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind.optional_type.elem_type
        kind.tensor_type.ClearField("shape")
        return
    kind.tensor_type.ClearField("shape")
    if known is None:
        return
    kind.tensor_type.shape.SetInParent()
    for axis, size in enumerate(np.shape(value)):
        dim = kind.tensor_type.shape.dim.add()
        if known(name, axis):
            dim.dim_value = size
        else:
            dim.dim_param = f"{name}_{axis}"


def bare(case: Case, left: Sequence[str]) -> Case:
    """The case without these inputs of its node, and without any shape in its model."""
    model = _copy(case.model)
    (node,) = model.graph.node
    node.input[:] = ["" if name in left else name for name in node.input]
    while node.input and not node.input[-1]:
        node.input.pop()
    model.ir_version = max(model.ir_version, 4)
    kept = [value for value in model.graph.input if value.name in case.inputs and value.name not in left]
    del model.graph.input[:], model.graph.value_info[:]
    model.graph.input.extend(kept)
    for value in (*model.graph.input, *model.graph.output):
        _declare(value.type, None, "", None)
    return replace(case, model=model)


def _held(of: ModelProto, given: Mapping[str, Any], names: Sequence[str]) -> ModelProto:
    copy = _copy(of)
    copy.ir_version = max(copy.ir_version, 4)
    kept = [value for value in copy.graph.input if value.name not in names]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(given[name], name) for name in names)
    return copy


def _copy(of: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(of)
    return copy
