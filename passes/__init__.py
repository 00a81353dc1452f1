"""Everything that rewrites a graph, and conversion as passes of `onnx_ir` pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.passes.pipeline import (
        ConvertVersionPass,
        FixPass,
        FoldFunctionsPass,
        InlineFunctionsPass,
        OptimizePass,
    )

__all__ = ["ConvertVersionPass", "FixPass", "FoldFunctionsPass", "InlineFunctionsPass", "OptimizePass"]


def __getattr__(name: str) -> object:
    """Import onnx_ir only for those who build pipelines."""
    if name not in __all__:
        raise AttributeError(f"module 'opshift.passes' has no attribute {name!r}")
    try:
        from opshift.passes import pipeline
    except ModuleNotFoundError as error:
        raise ImportError(f"{name} needs onnx_ir: pip install opshift[pipeline] ({error})") from None
    return getattr(pipeline, name)
