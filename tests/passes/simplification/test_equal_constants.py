"""Constants are equal by what they hold, not by their names."""

import numpy as np
from onnx import StringStringEntryProto, TensorProto, numpy_helper
from opshift.passes.model import tensors
from opshift.passes.simplification.equal_constants import alike, content, digest


def tensor(value, name="t", doc=""):
    made = numpy_helper.from_array(np.asarray(value), name)
    made.doc_string = doc
    return made


def stored(offset="0", kind=1, dims=(2,)):
    made = TensorProto(data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "f"), ("offset", offset)):
        made.external_data.append(StringStringEntryProto(key=key, value=value))
    return made


def test_equal_constants_have_their_content_in_common():
    one = tensor([1.0, 2.0])
    assert content(one) == content(tensor([1.0, 2.0], "other", "said"))
    assert one.name == "t"
    for other in ([1.0, 3.0], [[1.0, 2.0]], np.float32([1, 2]), [1, 2]):
        assert content(one) != content(tensor(other))


def test_large_ones_have_a_digest():
    small, large = (tensor(np.zeros(size, np.int8)) for size in (tensors.SMALL, tensors.SMALL + 1))
    assert content(small) is not None
    assert content(large) is None
    assert digest(large) == digest(tensor(np.zeros(tensors.SMALL + 1, np.int8), "other"))
    for other in (
        np.zeros(tensors.SMALL + 2, np.int8),
        np.zeros(tensors.SMALL + 1, np.uint8),
        np.ones(tensors.SMALL + 1, np.int8),
    ):
        assert digest(large) != digest(tensor(other))
    assert digest(TensorProto(data_type=1, dims=[1], float_data=[1])) is None


def test_what_lies_in_a_file_is_known_by_its_place():
    swapped = stored()
    swapped.external_data.reverse()
    assert content(stored()) == content(swapped)
    assert content(stored()) is not None
    for other in (stored("8"), stored(kind=10), stored(dims=(1, 2))):
        assert content(stored()) != content(other)
    held = stored()
    held.raw_data = b"a"
    assert digest(held) is None


def test_those_that_may_be_equal_begin_alike():
    zeros = [tensor(np.zeros(tensors.SMALL + 1, np.int8), name) for name in "ab"]
    ends = tensor(np.eye(1, tensors.SMALL + 1, tensors.SMALL, np.int8)[0], "c")
    begins = tensor(np.eye(1, tensors.SMALL + 1, 0, np.int8)[0], "d")
    assert [held.name for held in alike([*zeros, ends, begins, tensor(np.zeros(5000, np.uint8), "e")])] == [
        "a",
        "b",
        "c",
    ]
    assert list(alike([begins, ends])) == []
