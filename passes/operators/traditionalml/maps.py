"""Operators of ai.onnx.ml that make maps, or read them: no tensor is one."""

from __future__ import annotations

from opshift.passes.rewrite.registry import refused

refused(
    "ZipMap",
    "its output is a list of maps, which no tensor is: --zipmap tensor makes it the scores",
    domain="ai.onnx.ml",
)
refused(
    ["CastMap", "DictVectorizer"],
    "its input is a map, which no tensor is: --map tensor makes it its values, in the order of the keys",
    domain="ai.onnx.ml",
)
