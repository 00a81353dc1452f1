"""Attributes as Python values, and back."""

import pytest
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import AttributeProto


@pytest.mark.parametrize("held", [b"text", "tëxt".encode(), b"\xff\x00no text\x80"])
def test_any_bytes_are_a_text_and_come_back(held):
    one = AttributeProto(name="a", type=AttributeProto.STRING, s=held)
    assert make_attribute("a", attribute_value(one)) == one
    several = AttributeProto(name="a", type=AttributeProto.STRINGS, strings=[held, b""])
    assert make_attribute("a", attribute_value(several)) == several
