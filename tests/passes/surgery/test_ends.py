"""Outputs are added and dropped, and inputs, outputs and sizes renamed: the model computes what it did."""

import numpy as np
import onnx
import pytest
from opshift.passes.errors import Refused
from opshift.passes.inputs.ends import Ends, ends_of
from opshift.passes.model.types import dims_of
from opshift.passes.surgery.ends import change_ends

from tests.support import evaluate, model

IO = {"inputs": "float[N,3] x, float[N,3] z", "outputs": "float[N,3] y, float[N,3] v"}
BODY = "a = Abs(x) b = Add(a, w) y = Exp(b) c = Neg(z) v = Mul(c, w)"
FED = {"x": np.float32([[1, -2, 3]]), "z": np.float32([[4, 5, -6]])}


def source():
    made = model(BODY, 17, constants="float[3] w = {1, 2, 3}", **IO)
    for node in made.graph.node:
        node.name = f"{node.op_type}_0"
    return made


def ends(**asked):
    return change_ends(source(), ends_of(**asked))[0]


def names(values):
    return [value.name for value in values]


def test_nothing_asked_is_the_model_itself():
    held = source()
    assert change_ends(held, Ends()) == (held, ())


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"rename": "X=y2"}, "no input, output or symbolic dimension 'X'; did you mean 'x'?"),
        ({"rename": "q*=r*"}, "no input, output or symbolic dimension of the model matches 'q\\*'"),
        ({"rename": "x"}, "old=new"),
        ({"rename": "x="}, "old=new"),
        ({"rename": 3}, "old=new"),
        ({"rename": "x=a*"}, "every \\* on the right"),
        ({"rename": "x=a"}, "'x' cannot be renamed to 'a', which another value has"),
        ({"rename": {"x": "n", "z": "n"}}, "'x' and 'z' would both get the name 'n'"),
        ({"rename": "*=n"}, "would both get the name 'n'"),
        ({"add_output": "B"}, "no value 'B'; did you mean 'b'?"),
        ({"add_output": ","}, "by name"),
        ({"drop_output": "w"}, "no output 'w'"),
        ({"drop_output": "y,v"}, "no output would be left"),
    ],
)
def test_what_has_no_meaning_is_told(asked, why):
    with pytest.raises(ValueError, match=why):
        ends(**asked)


def test_a_value_of_unknown_type_is_no_output():
    held = model("a = my.Op(x) y = my.Op(a)", 17, domains='"my" : 1', inputs="float[3] x", outputs="float[3] y")
    with pytest.raises(Refused, match="does not declare"):
        change_ends(held, ends_of(add_output="a"))


def test_values_between_become_outputs_with_their_types():
    made = ends(add_output="b,Neg_0")
    assert names(made.graph.output) == ["y", "v", "b", "c"]
    assert dims_of(made.graph.output[2].type) == ["N", 3]
    onnx.checker.check_model(made)
    found = evaluate(made, FED)
    np.testing.assert_array_equal(found[2], [[2, 4, 6]])
    np.testing.assert_array_equal(found[3], [[-4, -5, 6]])


def test_a_pattern_stands_for_all_values_and_an_output_is_added_once():
    assert names(ends(add_output="*").graph.output) == ["y", "v", "a", "b", "c"]
    assert names(ends(add_output="y").graph.output) == ["y", "v"]


def test_what_only_a_dropped_output_needs_goes_with_it():
    made = ends(drop_output="v")
    assert [node.op_type for node in made.graph.node] == ["Abs", "Add", "Exp"]
    assert names(made.graph.initializer) == ["w"]
    assert names(made.graph.input) == ["x", "z"]
    np.testing.assert_array_equal(evaluate(made, FED)[0], evaluate(source(), FED)[0])


def test_a_dropped_output_may_lie_in_front_of_a_new_one():
    made = ends(add_output="b", drop_output="y")
    assert names(made.graph.output) == ["v", "b"]
    assert [node.op_type for node in made.graph.node] == ["Abs", "Add", "Neg", "Mul"]


def test_names_change_wherever_they_stand():
    made = ends(rename=["x=image", "v=score", "N=batch"])
    assert (names(made.graph.input), names(made.graph.output)) == (["image", "z"], ["y", "score"])
    assert [dims_of(value.type) for value in (*made.graph.input, *made.graph.output)] == [["batch", 3]] * 4
    found = evaluate(made, {"image": FED["x"], "z": FED["z"]})
    for one, other in zip(found, evaluate(source(), FED), strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_values_may_swap_their_names():
    made = ends(rename={"x": "z", "z": "x"})
    found = evaluate(made, {"z": FED["x"], "x": FED["z"]})
    np.testing.assert_array_equal(found[0], evaluate(source(), FED)[0])


def test_patterns_carry_over_what_stands_in_for_a_star():
    assert names(ends(rename="*=model/*").graph.input) == ["model/x", "model/z"]
    assert names(ends(rename="*=model/*").graph.output) == ["model/y", "model/v"]


def test_branches_read_the_new_name():
    then = "then_branch = t () => (float[N,3] p) { p = Abs(x) }"
    other = "else_branch = e () => (float[N,3] q) { q = Neg(x) }"
    held = model(f"y = If<{then}, {other}>(c)", 17, inputs="float[N,3] x, bool c", outputs="float[N,3] y")
    made, _ = change_ends(held, ends_of(rename=["x=image", "N=batch"]))
    found = evaluate(made, {"image": FED["x"], "c": np.array(True)})
    np.testing.assert_array_equal(found[0], np.abs(FED["x"]))
    assert dims_of(made.graph.node[0].attribute[0].g.output[0].type) == ["batch", 3]


def test_an_initializer_that_is_an_input_is_renamed_too():
    held = source()
    held.graph.input.add(name="w").type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [3]))
    made, _ = change_ends(held, ends_of(rename="w=weight"))
    assert names(made.graph.initializer) == ["weight"]
    np.testing.assert_array_equal(evaluate(made, FED)[0], evaluate(source(), FED)[0])
