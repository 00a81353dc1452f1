"""Optional values: what may stand where an optional is asked for."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, evaluate, model


@pytest.mark.parametrize("target", [17, 15])
def test_a_tensor_is_its_own_element_below_18(target):
    io = {"inputs": "float[3] x", "outputs": "float[3] y"}
    check("y = OptionalGetElement(x)", 18, "y = Identity(x)", target, **io)


def test_a_sequence_is_its_own_element_below_18():
    io = {"inputs": "seq(float[3]) x", "outputs": "seq(float[3]) y"}
    made = convert.attempt(model("y = OptionalGetElement(x)", 18, **io), {"": 17}).model
    assert [n.op_type for n in made.graph.node] == ["Identity"]
    ((first,),) = evaluate(made, {"x": [np.float32([1, 2, 3])]})
    np.testing.assert_array_equal(first, [1, 2, 3])


def test_an_optional_stays():
    io = {"inputs": "optional(float[3]) x", "outputs": "float[3] y"}
    check_unchanged("y = OptionalGetElement(x)", 28, 15, **io)
    io = {"inputs": "optional(float[3]) x", "outputs": "bool y"}
    check_unchanged("y = OptionalHasElement(x)", 28, 15, **io)


@pytest.mark.parametrize(("call", "present"), [("x", True), ("", False)])
def test_whether_a_tensor_is_there_is_known_below_18(call, present):
    io = {"inputs": "float[3] x", "outputs": "bool y"}
    source = model(f"y = OptionalHasElement({call})", 18, **io)
    made = convert.attempt(source, {"": 17}).model
    onnx.checker.check_model(made, full_check=True)
    assert "OptionalHasElement" not in [n.op_type for n in made.graph.node]
    (found,) = evaluate(made, {"x": np.float32([1, 2, 3])})
    assert found.shape == ()
    assert bool(found) is present


def test_an_unknown_type_is_refused():
    io = {"inputs": "float[3] x", "outputs": "bool y", "domains": '"other" : 1'}
    source = "z = other.Op(x) y = OptionalHasElement(z)"
    check_refused(source, 18, 17, 'the type of "z" is unknown', **io)


def test_new_types_in_an_optional_are_refused_below_28():
    io = {"inputs": "optional(bfloat16[3]) x", "outputs": "bfloat16[3] y"}
    check_refused("y = OptionalGetElement(x)", 28, 27, "optional(bfloat16)", **io)
    io = {"inputs": "bfloat16[3] x", "outputs": "bfloat16[3] y"}
    check("y = OptionalGetElement(x)", 28, "y = Identity(x)", 27, run=False, **io)  # no engine takes bfloat16


def test_an_optional_made_here_is_followed_below_15():
    body = "o = Optional(a) h = OptionalHasElement(o) y = OptionalGetElement(o)"
    io = {"inputs": "float[2] a", "outputs": "float[2] y, bool h"}
    check(body, 15, "h = Identity(bool:True)\ny = Identity(a)", 14, **io)
    body = "s = SequenceConstruct(a, a) o = Optional(s) g = OptionalGetElement(o) y = ConcatFromSequence<axis=0>(g)"
    check(body, 18, "y = Concat<axis=0>(a, a)", 10, inputs="float[2] a", outputs="float[4] y")


def test_an_optional_from_outside_is_refused_below_15():
    io = {"inputs": "optional(float[2]) o", "outputs": "float[2] y"}
    check_refused("y = OptionalGetElement(o)", 15, 14, "an input of the model and optional(tensor(float))", **io)
    io = {"inputs": "float[2] a", "outputs": "optional(float[2]) o"}
    check_refused("o = Optional(a)", 15, 14, "an output of the model and optional(tensor(float))", **io)
