"""What tensor types tell."""

import numpy as np
import pytest
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
