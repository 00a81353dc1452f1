"""Cases whose inputs and outputs are carried in types that older opsets have: numpy and ml_dtypes cast them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.conformance.cases import Case

CARRIERS = {
    "bfloat16": "float",
    "float8": "float",
    "float8e8m0": "float",
    "float6": "float",
    "float4": "float",
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
}
"""What `--interface` is asked for: a type or a family of types, and what carries it."""
WIDE: dict[str, Any] = {
    **dict.fromkeys(("int4", "int2"), np.int8),
    **dict.fromkeys(("uint4", "uint2"), np.uint8),
    **dict.fromkeys(("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), np.float32),
    **dict.fromkeys(("float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"), np.float32),
}
"""The type of numpy that holds the values of each one of ml_dtypes."""


def as_carried(case: Case) -> Case | None:
    """The case with values of narrow types in wider ones; None where it has none."""
    held = [*case.inputs.values(), *case.outputs]
    if not any(_is_narrow(value) for value in held):
        return None
    inputs = {name: widened(value) for name, value in case.inputs.items()}
    outputs = [widened(value) for value in case.outputs]
    rtol = (
        max(case.rtol, 2**-6)
        if any(_is_narrow(v) and WIDE[v.dtype.name] is np.float32 for v in case.outputs)
        else case.rtol
    )
    return replace(case, inputs=inputs, outputs=outputs, rtol=rtol, origin=case)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in WIDE


def widened(value: Any) -> Any:
    """A value in the type that carries it, and those in sequences; any other value as it is."""
    if isinstance(value, (list, tuple)):
        return [widened(each) for each in value]
    return value.astype(WIDE[value.dtype.name]) if _is_narrow(value) else value


def stranger(case: Case, outputs: list[Any]) -> str:
    """Which output holds a number that is none of the type that it carries; empty where none does."""
    assert case.origin is not None, "the case is carried"
    for index, (kind, value) in enumerate(zip(case.origin.outputs, outputs, strict=False)):
        if _is_narrow(kind) and isinstance(value, np.ndarray):
            with np.errstate(all="ignore"):
                again = value.astype(kind.dtype).astype(value.dtype)
            if not np.array_equal(again, value, equal_nan=value.dtype.kind == "f"):
                return f"output {index} holds numbers that are none of {kind.dtype}"
    return ""
