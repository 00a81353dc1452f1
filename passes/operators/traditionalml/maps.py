"""Operators of ai.onnx.ml that make maps, or read them: no tensor is one."""

from __future__ import annotations

from opshift.passes.rewrite.registry import refused

refused(
    "ZipMap",
    "its output is a list of maps; --zipmap tensor returns the scores as a tensor instead",
    domain="ai.onnx.ml",
)
refused(
    ["CastMap", "DictVectorizer"],
    "its input is a map; --map tensor takes its values as a tensor instead, in the order of the keys",
    domain="ai.onnx.ml",
)
