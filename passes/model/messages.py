"""ONNX's message classes, without the rest of onnx.

`import onnx` costs three times what the message classes cost (numpy, the C++ extension), and a conversion
mostly needs the classes alone. They are loaded under their own module name, so a later `import onnx` finds
and uses the very same classes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING


def _when_used(package: str, name: str) -> None:
    """Import a module once something asks it for anything, as what refers to it without need does not."""
    whole = f"{package}.{name}"
    found = None if whole in sys.modules else importlib.util.find_spec(whole)
    if found is None or found.loader is None:
        return
    found.loader = importlib.util.LazyLoader(found.loader)
    module = importlib.util.module_from_spec(found)
    sys.modules[whole] = module
    setattr(sys.modules[package], name, module)
    found.loader.exec_module(module)


def _mismatch(error: Exception) -> str:
    """Why the message classes of the installed onnx do not load with the installed protobuf, and what to do."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        needed = next((line for line in requires("onnx") or () if line.startswith("protobuf")), "protobuf")
        needed = needed.partition(";")[0].replace(" ", "")
        onnx, there = version("onnx"), version("protobuf")
    except PackageNotFoundError:  # installed otherwise
        return f"the installed onnx does not load: {error}"
    return f"onnx {onnx} does not load with protobuf {there}: pip install -U '{needed}'"


if not TYPE_CHECKING and "onnx" not in sys.modules and "onnx.onnx_ml_pb2" not in sys.modules:
    _onnx = importlib.util.find_spec("onnx")
    if _onnx is None or not _onnx.submodule_search_locations:
        raise ImportError("opshift needs onnx: pip install onnx", name="onnx")
    _when_used("google.protobuf.internal", "python_message")  # messages without the C implementation; long to import
    _spec = importlib.util.spec_from_file_location(
        "onnx.onnx_ml_pb2", os.path.join(_onnx.submodule_search_locations[0], "onnx_ml_pb2.py")
    )
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["onnx.onnx_ml_pb2"] = _module
    try:
        _spec.loader.exec_module(_module)
    except Exception as error:
        del sys.modules["onnx.onnx_ml_pb2"]
        raise ImportError(_mismatch(error), name="google.protobuf") from None

if TYPE_CHECKING:
    from onnx.onnx_ml_pb2 import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )
else:
    _pb2 = sys.modules.get("onnx.onnx_ml_pb2") or importlib.import_module("onnx.onnx_ml_pb2")
    AttributeProto = _pb2.AttributeProto
    FunctionProto = _pb2.FunctionProto
    GraphProto = _pb2.GraphProto
    ModelProto = _pb2.ModelProto
    NodeProto = _pb2.NodeProto
    OperatorSetIdProto = _pb2.OperatorSetIdProto
    SparseTensorProto = _pb2.SparseTensorProto
    TensorProto = _pb2.TensorProto
    TypeProto = _pb2.TypeProto
    ValueInfoProto = _pb2.ValueInfoProto

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "SparseTensorProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
    "copy_model",
    "normalize_domain",
]


def copy_model(model: ModelProto) -> ModelProto:
    """A copy that shares nothing with the model."""
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def keep_held(graph: GraphProto, like: GraphProto) -> None:
    """What a graph holds beside its nodes, inputs and outputs goes into the one that is made of it."""
    for field in ("initializer", "sparse_initializer", "value_info", "quantization_annotation"):
        getattr(graph, field).extend(getattr(like, field))


def normalize_domain(domain: str) -> str:
    """Name a domain as models mostly do: `ai.onnx` becomes the empty string, which is the default domain."""
    return "" if domain == "ai.onnx" else domain
