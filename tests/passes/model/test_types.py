"""What tensor types tell."""

import numpy as np
import onnx
import onnx.helper
import pytest
from opshift.passes.model import types
from opshift.passes.model.types import dims_of, tensor_type
from opshift.passes.optimization import optimize

from tests.support import evaluate, model


@pytest.mark.parametrize(
    ("dim", "known"), [(3, 3), (0, 0), (-1, None), ("N", "N"), ("?", None), ("None", None), ("-1", None), (None, None)]
)
def test_what_exporters_write_for_no_name_is_none(dim, known):
    assert dims_of(tensor_type(1, [dim, "M"])) == [known, "M"]


def _expands(name):
    source = model("s = Shape(y) z = Expand(x, s)", 18, inputs="float[N] x, float[N] y", outputs="float[M] z")
    for value in source.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = name
    made = optimize.attempt(source).model
    return source, made, [node.op_type for node in made.graph.node]


def test_sizes_of_one_name_are_one():
    assert _expands("N")[2] == ["Identity"]


@pytest.mark.parametrize("name", ["?", "None", "-1"])
def test_two_sizes_without_a_name_may_differ(name):
    source, made, ops = _expands(name)
    assert ops == ["Shape", "Expand"]
    feeds = {"x": np.full(1, 2, np.float32), "y": np.zeros(3, np.float32)}
    assert evaluate(made, feeds)[0].tolist() == evaluate(source, feeds)[0].tolist() == [2.0, 2.0, 2.0]


KINDS = {
    "float": ("FLOAT", 32, 0, "f"), "uint8": ("UINT8", 8, 0, "B"), "int8": ("INT8", 8, 0, "b"),
    "uint16": ("UINT16", 16, 0, "H"), "int16": ("INT16", 16, 0, "h"), "int32": ("INT32", 32, 0, "i"),
    "int64": ("INT64", 64, 0, "q"), "string": ("STRING", 8, 0, ""), "bool": ("BOOL", 8, 0, "?"),
    "float16": ("FLOAT16", 16, 0, "e"), "double": ("DOUBLE", 64, 0, "d"), "uint32": ("UINT32", 32, 0, "I"),
    "uint64": ("UINT64", 64, 0, "Q"), "complex64": ("COMPLEX64", 64, 0, ""), "complex128": ("COMPLEX128", 128, 0, ""),
    "bfloat16": ("BFLOAT16", 16, 4, ""), "float8e4m3fn": ("FLOAT8E4M3FN", 8, 9, ""),
    "float8e4m3fnuz": ("FLOAT8E4M3FNUZ", 8, 9, ""), "float8e5m2": ("FLOAT8E5M2", 8, 9, ""),
    "float8e5m2fnuz": ("FLOAT8E5M2FNUZ", 8, 9, ""), "uint4": ("UINT4", 4, 10, ""), "int4": ("INT4", 4, 10, ""),
    "float4e2m1": ("FLOAT4E2M1", 4, 11, ""), "float8e8m0": ("FLOAT8E8M0", 8, 12, ""), "uint2": ("UINT2", 2, 13, ""),
    "int2": ("INT2", 2, 13, ""), "float6e2m3": ("FLOAT6E2M3", 6, 14, ""), "float6e3m2": ("FLOAT6E3M2", 6, 14, ""),
}  # fmt: skip
"""The name of each element type, its bits, the IR version that it came with, and its code to `struct`."""


def test_what_is_known_of_element_types():
    names = {name: types.NUMBERS[message] for name, (message, *_) in KINDS.items()}
    assert [*names.values()] == [*range(1, len(KINDS) + 1)], "in the order of the text"
    for name, (message, *known) in KINDS.items():
        element = types.ELEMENTS[types.NUMBERS[message]]
        assert (element.name, element.bits, element.ir_version, element.code) == (name, *known)
        assert types.ELEMENT_TYPES[f"tensor({name})"] == types.NUMBERS[message]
        assert types.number_name(types.NUMBERS[message]) == message
        assert types.element_name(types.NUMBERS[message]) == name
    assert types.element_name(99) == "99"
    with pytest.raises(ValueError, match="there is no element type 99"):
        types.number_name(99)


def test_types_are_spelled_as_schemas_do():
    tensor, nothing = types.tensor_type(1), onnx.TypeProto()
    held = {
        "tensor(float)": tensor,
        "sparse_tensor(float16)": onnx.helper.make_sparse_tensor_type_proto(10, [2]),
        "seq(tensor(float))": onnx.helper.make_sequence_type_proto(tensor),
        "optional(seq(tensor(float)))": onnx.helper.make_optional_type_proto(
            onnx.helper.make_sequence_type_proto(tensor)
        ),
        "map(int64,tensor(float))": onnx.helper.make_map_type_proto(7, tensor),
    }
    assert {types.type_text(kind) for kind in held.values()} == held.keys()
    unknown = types.tensor_type(0)
    for kind in (nothing, unknown, *(onnx.helper.make_sequence_type_proto(held) for held in (nothing, unknown))):
        assert not types.type_text(kind)
    assert not types.type_text(onnx.helper.make_optional_type_proto(unknown))
    assert not types.type_text(onnx.helper.make_map_type_proto(7, unknown))
    assert [types.elem_type_of(kind) for kind in (*held.values(), nothing)] == [1, 10, 0, 0, 0, 0]
    assert [types.has_shape(kind) for kind in (types.tensor_type(1, []), tensor, *list(held.values())[1:])] == [
        True, *[False] * 5,
    ]  # fmt: skip


def test_a_tensor_type_says_what_is_known_of_its_sizes():
    kind = types.tensor_type(1, [2, "n", None, 0])
    assert types.dims_of(kind) == [2, "n", None, 0]
    assert [dim.WhichOneof("value") for dim in kind.tensor_type.shape.dim] == [
        "dim_value",
        "dim_param",
        None,
        "dim_value",
    ]
    assert types.has_shape(types.tensor_type(1, []))
    assert not types.tensor_type(1).tensor_type.HasField("shape")
