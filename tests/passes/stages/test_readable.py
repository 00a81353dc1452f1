"""What is optimized for a backend."""

from opshift.passes.backends.door import Backend
from opshift.passes.goals import Goal

from tests.support import check_values, model


def test_an_output_that_a_node_made_alone_is_made_by_one_alone():
    body = """
        zero = Constant<value_ints = [0]>() two = Constant<value_ints = [2]>() four = Constant<value_ints = [4]>()
        one = Constant<value_ints = [1]>() y = Slice(x, zero, two, one) z = Slice(x, two, four, one) w = Abs(y)
    """
    source = model(body, 13, inputs="float[2,4] x", outputs="float[2,2] y, float[2,2] z, float[2,2] w")
    made = Goal(backend=Backend("npu-1", opset=13, folded=True)).run(source).model
    assert made is not None
    assert {"Split"} <= {node.op_type for node in made.graph.node}
    assert not {"y", "z"} & {name for node in made.graph.node if len(node.output) > 1 for name in node.output}
    check_values(source, made, rtol=0, atol=0)
