"""What is wrong with a tensor, in words: where its data lie, and how much of them there are."""

import pytest
from onnx import SparseTensorProto, StringStringEntryProto, TensorProto
from opshift.passes.model.tensor_validity import UNCOUNTED, fault, sparse_fault

FIELDS = {
    "float_data": {"FLOAT": 1, "COMPLEX64": 2},
    "double_data": {"DOUBLE": 1, "COMPLEX128": 2},
    "uint64_data": {"UINT32": 1, "UINT64": 1},
    "int64_data": {"INT64": 1},
    "string_data": {"STRING": 1},
    "int32_data": {
        **dict.fromkeys(["BOOL", "INT8", "INT16", "INT32", "UINT8", "UINT16", "FLOAT16", "BFLOAT16"], 1),
        **dict.fromkeys(["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"], 1),
        **dict.fromkeys(["INT4", "UINT4", "FLOAT4E2M1"], 1 / 8),
        **dict.fromkeys(["INT2", "UINT2"], 1 / 16),
    },
}
"""In which field the values of each type lie, and how many of its numbers one takes."""


def tensor(kind, dims, **data):
    made = TensorProto(dims=dims, data_type=kind if isinstance(kind, int) else getattr(TensorProto, kind))
    for field, values in data.items():
        getattr(made, field).extend(values) if field != "raw_data" else setattr(made, field, values)
    return made


@pytest.mark.parametrize(("field", "kind"), [(f, kind) for f, kinds in FIELDS.items() for kind in kinds])
def test_each_type_has_its_field_and_needs_so_many_numbers(field, kind):
    if not hasattr(TensorProto, kind):
        return
    value, count = b"" if field == "string_data" else 1, round(32 * FIELDS[field][kind])
    assert fault(tensor(kind, [4, 8], **{field: [value] * count})) == ""
    assert fault(tensor(kind, [4, 8], **{field: [value] * (count + 1)})) == "", "more is not looked at"
    short = fault(tensor(kind, [4, 8], **{field: [value] * (count - 1)})) if count > 1 else ""
    expected = f"has {count - 1} values in {field}; its shape needs {count}" if count > 1 else ""
    assert short == expected
    other = "int64_data" if field != "int64_data" else "int32_data"
    assert fault(tensor(kind, [1], **{other: [1]})) == f"holds data in {other}; its type needs {field}"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (tensor("UNDEFINED", [1], raw_data=b"abcd"), "has no element type"),
        (tensor("FLOAT", [2, -1], float_data=[1]), "has a negative dimension: [2, -1]"),
        (tensor("FLOAT", [UNCOUNTED // 2, 2], float_data=[1]), f"has too many elements: {[UNCOUNTED // 2, 2]}"),
        (tensor("FLOAT", [UNCOUNTED // 2, 2, 0]), f"has too many elements: {[UNCOUNTED // 2, 2, 0]}"),
        (tensor("FLOAT", [UNCOUNTED // 2, 1], float_data=[1]), f"has 1 values in float_data; its shape needs {UNCOUNTED // 2}"),
        (tensor("FLOAT", [0, 3]), ""),
        (tensor("FLOAT", [0, 3], float_data=[1]), "has no elements, but holds data in float_data"),
        (tensor(99, [0]), "is of the unknown element type 99"),
        (tensor(99, [1], raw_data=b"a"), ""),  # nobody knows how wide it is
        (tensor(99, [1], int32_data=[1]), "is of the unknown element type 99"),
        (tensor("FLOAT", [2]), "holds data in no field; it must be in one field"),
        (tensor("FLOAT", [1], float_data=[1], int32_data=[1]), "holds data in float_data and int32_data; it must be in one field"),
        (tensor("FLOAT", [2], raw_data=bytes(8)), ""),
        (tensor("FLOAT", [2], raw_data=bytes(7)), "has 7 bytes of data; its shape and type need 8"),
        (tensor("INT4", [3], raw_data=bytes(2)), ""),
        (tensor("INT4", [3], raw_data=bytes(1)), "has 1 bytes of data; its shape and type need 2"),
        (tensor("STRING", [1], raw_data=b"a"), "holds strings as raw_data, which is not allowed"),
        (tensor("FLOAT", [], float_data=[1]), ""),
    ],
)  # fmt: skip
def test_what_is_wrong(of, why):
    assert fault(of) == why


def stored(kind="FLOAT", location="f", **data):
    made = tensor(kind, [2], **data)
    made.data_location = TensorProto.EXTERNAL
    if location is not None:
        made.external_data.append(StringStringEntryProto(key="location", value=location))
    return made


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (stored(), ""),
        (stored(float_data=[1]), "is external, but holds data in float_data"),
        (stored(location=None), "is external, but has no location"),
        (stored(location=""), "is external, but has no location"),
    ],
)
def test_what_is_wrong_with_what_lies_elsewhere(of, why):
    assert fault(of) == why


def sparse(values=2, indices=(0, 5), dims=(2, 3), rank=1, **changed):
    made = SparseTensorProto(values=tensor("FLOAT", [values], float_data=[1] * values), dims=dims)
    if indices is not None:
        places = [values] if rank == 1 else [values, len(dims)]
        made.indices.CopyFrom(tensor("INT64", changed.get("places", places), int64_data=indices))
    if "kind" in changed:
        made.indices.data_type = changed["kind"]
    if "of" in changed:
        made.values.dims[:] = changed["of"]
    return made


OUT = "has indices that are out of range or out of order"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (sparse(), ""),
        (sparse(indices=(0, 6)), OUT), (sparse(indices=(-1, 5)), OUT), (sparse(indices=(5, 0)), OUT), (sparse(indices=(3, 3)), OUT),
        (sparse(indices=(0, 1, 1, 2), rank=2), ""),
        (sparse(indices=(0, 1, 1, 3), rank=2), OUT), (sparse(indices=(0, 1, 2, 0), rank=2), OUT),
        (sparse(indices=(1, 0, 0, 2), rank=2), OUT), (sparse(indices=(0, -1, 1, 0), rank=2), OUT),
        (sparse(of=[2, 1]), "has values of rank 2; it must be 1"),
        (sparse(of=[]), "has values of rank 0; it must be 1"),
        (sparse(dims=()), "has the dimensions []; it needs one or more positive ones"),
        (sparse(dims=(2, 0)), "has the dimensions [2, 0]; it needs one or more positive ones"),
        (sparse(indices=None), "has values, but no indices"),
        (sparse(values=0, indices=None), ""),
        (sparse(kind=TensorProto.INT32), "has indices that are not int64"),
        (sparse(places=[1, 2, 1]), "has indices of rank 3; it must be 1 or 2"),
        (sparse(places=[]), "has indices of rank 0; it must be 1 or 2"),
        (sparse(places=[1]), "has 1 indices for 2 values"),
        (sparse(places=[2, 3]), "has indices of 3 numbers for 2 dimensions"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_few_among_zeros(of, why):
    assert sparse_fault(of) == why


def test_places_may_be_raw_data_or_elsewhere():
    raw = sparse()
    raw.indices.raw_data = b"".join(n.to_bytes(8, "little") for n in (0, 5))
    del raw.indices.int64_data[:]
    assert sparse_fault(raw) == ""
    raw.indices.raw_data = b"".join(n.to_bytes(8, "little") for n in (0, 6))
    assert sparse_fault(raw) == OUT
    raw.indices.data_location = TensorProto.EXTERNAL
    assert sparse_fault(raw) == ""
