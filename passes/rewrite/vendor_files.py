"""Which file of `passes/operators` holds the definition of a vendor's operator, or why it has none.

An operator that stands here nowhere has a definition in `functions/` or none.
"""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT, ONNXRUNTIME

_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    MICROSOFT: {
        "microsoft.gelu": ("FastGelu",),
        "microsoft.matmul": ("FusedMatMul",),
        "microsoft.skip_normalization": ("SkipLayerNormalization",),
    },
    ONNXRUNTIME: {},
}

FILES = {domain: {op: file for file, ops in files.items() for op in ops} for domain, files in _FILES.items()}
"""The file by domain and operator."""
