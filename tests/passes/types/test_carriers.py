"""What users say of types that carry others."""

from __future__ import annotations

import pytest
from onnx import TensorProto
from opshift.passes.model.types import NUMBERS
from opshift.passes.types.carriers import read_carriers

T = TensorProto


def test_types_are_read_by_their_names():
    assert read_carriers(["int4=int8", "bfloat16=float32"]) == {NUMBERS["INT4"]: T.INT8, T.BFLOAT16: T.FLOAT}


def test_a_family_is_read_as_its_types():
    found = read_carriers(["float8=half"])
    names = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
    assert found == {NUMBERS[name]: T.FLOAT16 for name in names}


def test_a_type_that_is_carried_itself_carries_nothing():
    found = read_carriers(["float8e4m3fn=float16", "float16=float"])
    assert found == {T.FLOAT8E4M3FN: T.FLOAT, T.FLOAT16: T.FLOAT}


@pytest.mark.parametrize(("text", "why"), [
    ("bfloat16=float16", "float16 does not hold all values of the first type; float, double could"),
    ("float=float8", "float8 stands for several types"),
    ("int4=uint8", "uint8 does not hold all values"),
    ("int4=int4", "the two types are the same"),
    ("int4", "give two types, such as float8e4m3fn=float"),
    ("bfloat=float", "unknown type bfloat; did you mean"),
    ("double=float", "no type could"),
])  # fmt: skip
def test_what_cannot_carry_is_refused(text: str, why: str):
    with pytest.raises(ValueError, match=why):
        read_carriers([text])


def test_one_type_has_one_carrier():
    with pytest.raises(ValueError, match="names two types for int8"):
        read_carriers(["int8=int16", "int8=int32"])
