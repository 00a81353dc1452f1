"""Constants that begin with axes of size 1, which broadcasting adds by itself."""

import numpy as np
import onnx
import pytest

from opshift.trying.ways.leading import BROADCAST, without_leading
from tests.support import evaluate, model

CALLS = ["{op}(x, c)", "{op}(c, x)"]
X = np.linspace(0.5, 3, 12, dtype=np.float32)


def of(call, x, c, y=None):
    constant = f"float[{c}] c = {{{', '.join(['1.5', '2', '3', '2.5'][: np.prod([int(d) for d in c.split(',')])])}}}"
    return model(f"y = {call}", 18, inputs=f"float[{x}] x", outputs=f"float[{y or x}] y", constants=constant)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("op", sorted(BROADCAST))
def test_it_is_the_same(op, call):
    source = of(call.format(op=op), "1,3,4", "1,1,4")
    made, changes = without_leading(source, op)
    onnx.checker.check_model(made, full_check=True)
    assert [list(tensor.dims) for tensor in made.graph.initializer] == [[4]]
    assert {change.grade for change in changes} == {"exact"}
    given = {"x": X.reshape(1, 3, 4)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])


@pytest.mark.parametrize(("c", "left"), [("1,1,1", [1]), ("1,2,1", [2, 1])])
def test_one_axis_stays_and_so_do_those_inside(c, left):
    source = of("Add(x, c)", "N,2,3", c)
    made, _ = without_leading(source, "Add")
    assert [list(tensor.dims) for tensor in made.graph.initializer] == [left]
    given = {"x": X.reshape(2, 2, 3)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])


@pytest.mark.parametrize(
    "source", [of("Add(x, c)", "4", "1,1,4", "1,1,4"), of("Add(x, c)", "3,4", "4"), of("Add(x, c)", "3,4", "3,1")]
)
def test_axes_that_are_needed_stay(source):
    assert without_leading(source, "Add") == (source, [])


def test_a_constant_that_another_node_reads_stays_there():
    source = model("a = Add(x, c) y = Mul(a, c)", 18, inputs="float[2,4] x", outputs="float[2,4] y",
                   constants="float[1,4] c = {1, 2, 3, 4}")  # fmt: skip
    made, changes = without_leading(source, "Add")
    assert (len(changes), sorted(list(tensor.dims) for tensor in made.graph.initializer)) == (1, [[1, 4], [4]])
