"""Small models that show what a backend reads besides operators: opsets, types, shapes, functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opshift.passes.model import installed, schemas
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.probing.worker import Task


def _model(text: str) -> bytes:
    import onnx.parser

    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


def simple(opset: int, ir: int, size: int = 0) -> Task:
    """One Relu; with a size, its first dimension is a symbol that has this size."""
    import numpy as np

    x = np.array([[1, -2, 3]] * (size or 2), np.float32)
    dim = "N" if size else "2"
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}]>'
    return Task(
        _model(f"{header} g (float[{dim},3] x) => (float[{dim},3] y) {{ y = Relu(x) }}"), {"x": x}, [np.maximum(x, 0)]
    )


def classical(opset: int) -> Iterator[Task]:
    """Models of one operator of ai.onnx.ml."""
    import numpy as np

    header = f'<ir_version: 3, opset_import: ["" : 7, "ai.onnx.ml" : {opset}]>'
    x = np.array([[1, -2, 3]], np.float32)
    for node, expected in (
        ("Binarizer<threshold = 0.0>", (x > 0).astype(np.float32)),
        ('Normalizer<norm = "L1">', x / np.abs(x).sum()),
    ):
        body = f"g (float[1,3] x) => (float[1,3] y) {{ y = ai.onnx.ml.{node}(x) }}"
        yield Task(_model(f"{header} {body}"), {"x": x}, [expected])


_USUAL = 13
"""An opset that most backends read."""


def holding(kind: str) -> Iterator[Task]:
    """Models that hold a value of a type: made from float and turned into float again, or a dequantized constant.

    Strings and complex numbers go in and out as they are. Backends without old versions of Cast read newer ones.
    """
    first = next((v for v in range(7, schemas.latest() + 1) if kind in schemas.types_at(v)), schemas.latest())
    for opset in sorted({first, max(first, _USUAL)}):
        yield from _holding(kind, opset)


def _holding(kind: str, opset: int) -> Iterator[Task]:
    import numpy as np
    import onnx.helper
    import onnx.numpy_helper

    elem_type = ELEMENT_TYPES[kind]
    ones = np.array([1, 1], np.float32)  # which every type can hold

    def task(nodes: list[Any], outer: int, given: Any, expected: Any, *initializers: Any) -> Task:
        values = [onnx.helper.make_tensor_value_info(name, outer, [2]) for name in ("x", "y")]
        graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], initializers)
        imports, ir = [onnx.helper.make_opsetid("", opset)], schemas.ir_version("", opset)
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir)
        return Task(model.SerializeToString(), {"x": given}, [expected])

    node = onnx.helper.make_node
    if elem_type == TensorProto.STRING or "complex" in kind:
        numpy_type = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        given = np.array(["a", "b"], object) if elem_type == TensorProto.STRING else ones.astype(numpy_type)
        yield task([node("Identity", ["x"], ["y"])], elem_type, given, given)
        return
    through = [node("Cast", ["x"], ["a"], to=elem_type), node("Identity", ["a"], ["b"])]
    yield task([*through, node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)], TensorProto.FLOAT, ones, ones)
    dequantize = schemas.schema("", "DequantizeLinear", opset)
    if dequantize is not None and kind in dequantize.inputs[0].types and installed.reads(elem_type):
        numpy_type = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        constants = [onnx.numpy_helper.from_array(ones.astype(numpy_type), "q")]
        constants.append(onnx.numpy_helper.from_array(np.array(1, np.float32), "s"))
        nodes = [node("DequantizeLinear", ["q", "s"], ["d"]), node("Add", ["x", "d"], ["y"])]
        yield task(nodes, TensorProto.FLOAT, ones, ones + ones, *constants)


def function() -> Task:
    import numpy as np

    x = np.array([1, -2], np.float32)
    text = (
        '<ir_version: 8, opset_import: ["" : 13, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.F(x) }'
        '<domain: "my", opset_import: ["" : 13]> F (a) => (b) { b = Relu(a) }'
    )
    return Task(_model(text), {"x": x}, [np.maximum(x, 0)])


def reshape_task(dim: str) -> Task:
    """A Reshape to what is computed from the size of its input."""
    import numpy as np

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = (
        f'<ir_version: 7, opset_import: ["" : 13]> g (float[{dim},3] x) => (float[M] y) {{'
        " s = Shape(x) zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>()"
        " rows = Gather(s, zero) columns = Gather(s, one) all = Mul(rows, columns) y = Reshape(x, all) }"
    )
    return Task(_model(text), {"x": x}, [x.reshape(6)])
