"""`@define`: registers an onnxscript function as the definition of an operator for some element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from onnx import FunctionProto, TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype
from opshift.passes.model.traversal import subgraphs

Function = TypeVar("Function", bound=Callable[..., Any])
T = TensorProto

EXACT_WIDE: dict[int, int] = {T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT}
"""16-bit floats computed in float32: one rounding at the end instead of one a step."""


def native(*types: int) -> dict[int, int]:
    """Element types that are computed in as they are."""
    return {t: t for t in types}


def finite_range(elem_type: int) -> tuple[TensorProto, TensorProto]:
    """The lowest and the highest finite number of a float type, as scalars."""
    limits = np.finfo(tensor_dtype_to_np_dtype(elem_type))
    return tuple(numpy_helper.from_array(np.array(limit)) for limit in (limits.min, limits.max))  # type: ignore[return-value]


@dataclass(frozen=True)
class Definition:
    """An onnxscript function with what it defines: `types` maps each element type to the one it is computed in."""

    function: Any
    domain: str
    op: str
    types: Mapping[int, int]
    carried_inputs: tuple[int, ...]
    grade: str
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def body(self) -> FunctionProto:
        """The definition as it is compiled: a FunctionProto, with what the lookup needs in its metadata."""
        proto: FunctionProto = plain(self.function.to_function_proto())
        notes = {
            "op": self.op,
            "domain": self.domain,
            "types": " ".join(f"{elem_type}:{carrier}" for elem_type, carrier in sorted(self.types.items())),
            "carried": " ".join(map(str, self.carried_inputs)),
            "grade": self.grade,
            "attributes": " ".join(f"{a.name}:{a.type.value}" for a in self.function.function_ir.attrs),
            "choices": " ".join(f"{name}:{','.join(texts)}" for name, texts in self.choices.items()),
        }
        for key, value in notes.items():
            proto.metadata_props.add(key=key, value=value)
        return proto


registered: list[Definition] = []


def define(
    op: str,
    types: Mapping[int, int],
    *,
    domain: str = "",
    carried_inputs: tuple[int, ...] = (0,),
    grade: str = "close",
    choices: Mapping[str, tuple[str, ...]] | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated onnxscript function as the definition of `op` for `types`.

    `choices` lists the texts that a string attribute may hold.

    Raises:
        ValueError: a type that another definition of the operator takes already.
    """

    def register(function: Function) -> Function:
        for other in registered:
            if (other.domain, other.op) == (domain, op) and (taken := set(types) & set(other.types)):
                raise ValueError(
                    f"a second definition of {op} names element types that the first one has: {sorted(taken)}"
                )
        registered.append(Definition(function, domain, op, types, carried_inputs, grade, choices or {}))
        return function

    return register


def plain(proto: Any) -> Any:
    """The function or graph without the node names that onnxscript numbers them by."""
    for node in proto.node:
        node.ClearField("name")
        for _, _, graph in subgraphs(node):
            plain(graph)
    return proto
