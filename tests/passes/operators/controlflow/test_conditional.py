"""If: what its branches may yield."""

import numpy as np
import onnx
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_unchanged, check_values, evaluate, model

IF = """
y = If (c) <
    then_branch = t () => ({then}) {{ a = Abs(x) }},
    else_branch = e () => ({other}) {{ b = {made} }}
>
"""


def branches(then="float[3] a", other="float[3] b", made="Neg(x)"):
    return IF.format(then=then, other=other, made=made)


def test_an_if_of_one_shape_stays():
    check_unchanged(branches(), 11, 10, inputs="float[3] x, bool c", outputs="float[3] y")
    check_unchanged(branches("float[N] a", "float[N] b"), 12, 7, inputs="float[N] x, bool c", outputs="float[N] y")
    check_unchanged(branches("float[] a", "float[] b"), 8, 25, inputs="float[3] x, bool c", outputs="float[3] y")


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("float[1,3] b", "Unsqueeze<axes=[0]>(x)"),
        ("float[6] b", "Concat<axis=0>(x, x)"),
        ("float[M] b", "Concat<axis=0>(x, x)"),
        ("float[] b", "Concat<axis=0>(x, x)"),
    ],
)
@pytest.mark.parametrize("target", [7, 10])
def test_an_if_of_two_shapes_becomes_two_loops_below_11(stated, made, target):
    body = branches("float[3] a", stated, made) + "z = Reshape(y, flat) s = Shape(y)"
    io = {"inputs": "float[3] x, bool c", "outputs": "float[A] z, int64[R] s"}
    source = model(body, 11, constants="int64[1] flat = {-1}", **io)
    result = convert.attempt(source, {"": target})
    assert result.grade == "exact"
    onnx.checker.check_model(result.model)
    assert [n.op_type for n in result.model.graph.node] == ["Not", "Cast", "Loop", "Cast", "Loop", "Reshape", "Shape"]
    for condition in (True, False):
        feeds = {"c": np.array(condition)}
        check_values(source, result.model, feeds, rtol=0, atol=0)


def test_a_name_that_branches_alone_give_to_sizes_tells_nothing():
    source = model(
        branches("float[K] a", "float[K] b", "Concat<axis=0>(x, x)"),
        11,
        inputs="float[3] x, bool c",
        outputs="float[N] y",
    )
    made = convert.attempt(source, {"": 10}).model
    onnx.checker.check_model(made, full_check=True)
    for condition in (True, False):
        check_values(source, made, {"c": np.array(condition)}, rtol=0, atol=0)


def test_names_that_come_again_outside_are_others_in_the_loops():
    """A branch may hold them where they come later, or in a graph of its own; the body of a loop may not."""
    body = """y = If (c) <
        then_branch = t () => (float[1] h) { k = Constant<value = int64[1] {0}>() h = Gather(x, k) },
        else_branch = e () => (float[2] h) <float[2] w = {1, 2}> {
            i = If (c) <then_branch = m () => (float[2] k) { k = Abs(w) }, else_branch = n () => (float[2] j) { j = Neg(w) }>
            h = Mul(x, i)
        }
    > h = Abs(x) k = Neg(h) w = Exp(k) z = Add(h, w)"""
    source = model(body, 13, inputs="bool c, float[2] x", outputs="float[N] y, float[2] z")
    made = convert.attempt(source, {"": 10}).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.output[0] for node in made.graph.node][-4:] == ["h", "k", "w", "z"]
    for condition in (True, False):
        check_values(source, made, {"c": np.array(condition)}, rtol=0, atol=0)


def test_what_a_branch_holds_goes_along_into_the_loop():
    source = model(
        branches("float[3] a", "float[6] b", "Concat<axis=0>(x, w)"),
        13,
        inputs="float[3] x, bool c",
        outputs="float[N] y",
    )
    branch = source.graph.node[0].attribute[1].g
    assert branch.name == "e"
    branch.doc_string = "the other"
    branch.value_info.add(name="b").type.CopyFrom(branch.output[0].type)
    values = onnx.numpy_helper.from_array(np.float32([5]), "w")
    indices = onnx.numpy_helper.from_array(np.int64([1]), "where")
    branch.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [3]))
    made = convert.attempt(source, {"": 10}).model
    loops = [node for node in made.graph.node if node.op_type == "Loop"]
    bodies = [attribute.g for loop in loops for attribute in loop.attribute]
    held = next(body for body in bodies if body.name == "e")
    assert held.doc_string == "the other"
    assert [tensor.values.name for tensor in held.sparse_initializer] == ["w"]
    assert held.value_info[0] == branch.value_info[0]


def test_casts_in_a_branch_have_types_below_6():
    """Their schema infers nothing there, so that a checker needs them stated."""
    source = model("y = ReduceMin<keepdims=1>(x, a)", 20, inputs="bool[4,2] x, int64[1] a", outputs="bool[4,1] y")
    made = convert.attempt(source, {"": 5}).model
    onnx.checker.check_model(made, full_check=True)
    x = np.array([[True, False], [True, True], [False, False], [True, True]])
    raised = convert.attempt(made, {"": 7}).model
    for axis in (1, -1):
        np.testing.assert_array_equal(evaluate(raised, {"x": x, "a": np.int64([axis])})[0], x.min(1, keepdims=True))


def test_only_the_chosen_branch_is_run():
    """The branch not taken would divide by zero, which integers do not survive."""
    source = model(
        """y = If (c) < then_branch = t () => (int64[3] a) { a = Identity(x) },
                        else_branch = e () => (int64[6] b) { d = Div(x, zero) b = Concat<axis=0>(d, d) } >""",
        11, inputs="int64[3] x, bool c, int64[1] zero", outputs="int64[] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 10}).model
    feeds = {"x": np.arange(3), "c": np.array(True), "zero": np.zeros(1, np.int64)}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], [0, 1, 2])
