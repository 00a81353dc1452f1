"""Shapes are read as inference tells them, and some of them hold of sizes of 1 or more alone."""

import onnx.helper
import pytest
from opshift.passes.analysis.shapes import Shapes, find_granted, graph_types
from opshift.passes.model.types import tensor_type

from tests.support import model


def test_sizes_are_numbers_or_names_that_may_be_empty():
    kinds = {"a": tensor_type(1, [2, "N", None]), "scalar": tensor_type(7, []), "open": tensor_type(1)}
    kinds["unknown"] = tensor_type(1, [0, 3])
    kinds["unknown"].tensor_type.shape.dim[1].dim_value = -1
    known = Shapes(kinds)
    assert [known.of(name) for name in (*kinds, "other")] == [[2, "N", ""], [], None, [0, -1], None]
    assert known.of("a") is known.of("a")


def test_a_sequence_has_no_shape():
    assert Shapes({"s": onnx.helper.make_sequence_type_proto(tensor_type(1, [2]))}).of("s") is None


def test_what_a_graph_is_given_counts_before_what_it_yields():
    source = model("y = Neg(x)", 17, inputs="float[2] x", outputs="float[2] y")
    source.graph.output.append(onnx.helper.make_tensor_value_info("x", 1, [3]))
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("x", 1, [4]))
    assert Shapes(graph_types(source.graph)).of("x") == [2]


GRANTED_OF = [
    ("r = Reshape(x, t) y = Neg(r)", "float[2,N] x", ["A", 2], {"r", "y"}),
    ("r = Reshape<allowzero=1>(x, t) y = Neg(r)", "float[2,N] x", ["A", 2], set()),
    ("r = Reshape(x, held) y = Neg(r)", "float[2,N] x", ["N", 2], set()),
    ("r = Reshape(x, t) y = Neg(r)", "float[2,N] x", ["N", 3], {"r", "y"}),
    ("r = Reshape(x, t) y = Neg(r)", "float[2,N] x", ["N", 2], set()),
    ("r = Reshape(x, t) y = Neg(r)", "float[2,N] x", [2, "N"], set()),
    ("r = Reshape(x, t) y = Shape(r)", "float[2,N] x", ["N", 3], {"r"}),
    ("r = Reshape(x, t) y = Neg(x)", "float[2,N] x", ["N", 3], {"r"}),
]


@pytest.mark.parametrize(("body", "inputs", "dims", "found"), GRANTED_OF)
def test_what_is_granted_of_a_computed_shape(body, inputs, dims, found):
    io = {
        "inputs": f"{inputs}, int64[2] t, float[A] a",
        "outputs": "float[B,C] out",
        "constants": "int64[2] held = {-1, 2}",
    }
    source = model(f"{body} out = Identity(x)", 17, **io)
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("r", 1, dims))
    known = [2] if "Shape(r)" in body else dims
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("y", 1, known))
    assert find_granted(source, Shapes(graph_types(source.graph)).of) == found


def test_a_size_is_granted_only_where_it_was_seen_before():
    io = {"inputs": "float[2,N] x, int64[2] t", "outputs": "float[B,C] out"}
    source = model("r = Reshape(x, t) q = Reshape(r, t) z = Neg(x) out = Identity(x)", 17, **io)
    told = {"x": [2, "N"], "t": [2], "r": ["unk__0", 5], "q": [7, "unk__0"], "z": ["unk__1", 2], "out": [2, "N"]}
    assert find_granted(source, told.get) == {"q"}
    assert find_granted(source, (told | {"q": [7, "unk__1"]}).get) == set(), "it is seen later alone"


def test_a_shape_that_is_told_of_no_graph_grants_nothing():
    source = model("y = Neg(x)", 17, inputs="float[2] x", outputs="float[2] y")
    assert find_granted(source, {}.get) == set()
