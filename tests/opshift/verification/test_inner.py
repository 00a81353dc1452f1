"""Bodies of If, Loop, Scan and functions as models of their own, and what they are given."""

import numpy as np
import onnx.parser
import pytest

from opshift.verification.engines import OnnxRuntime
from opshift.verification.inner import pair_bodies, with_types
from opshift.verification.regions import Body, Comparison
from opshift.verification.side import Side
from tests.support import model

IO = {"inputs": "float[N,4] x, bool b", "outputs": "float[A,B] y"}
IF = "a = Exp(x) y = If(b) <then_branch = t () => (float[A,B] p) {{ p = {}(a) }}, else_branch = e () => (float[C,D] q) {{ q = {}(x) }}>"
LOOP = "n = Constant<value_int = 3>() y, s = Loop(n, , x) <body = l (int64 i, bool c, float[N,4] {0}) => (bool d, float[N,4] w, float[N,4] u) {{ d = Identity(c) w = {1}({0}) u = Add({0}, x) }}>"
SCAN = "z = Constant<value_floats = [0.0, 0.0, 0.0, 0.0]>() s, y = Scan<num_scan_inputs = 1, body = l (float[4] v, float[4] e) => (float[4] w, float[4] o) {{ w = {}(v, e) o = Identity(w) }}>(z, x)"
FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[N,4] x) => (float[N,4] y) {{ y = my.F<a = 0.25>(x) }}
    <domain: "my", opset_import: ["" : 17]> F <a>(v) => (w) {{ e = LeakyRelu<alpha: float = @a>(v) w = {}(e) }}"""
X = np.float32([[1, -2, 3, -4], [0, 1, 2, 3]])


def found(one, other):
    bodies = [Body(Side(of)) for of in (one, other)]
    comparison = Comparison(*bodies)
    return [pair for region in comparison.regions() for pair in pair_bodies(*bodies, region, comparison)]


def of(text, **io):
    return model(text, 17, **{**IO, **io})


def test_the_branches_of_an_if():
    pairs = found(of(IF.format("Neg", "Sin")), of(IF.format("Abs", "Sin")))
    assert [pair.label for pair in pairs] == ['then_branch of If "y"', 'else_branch of If "y"']
    assert [pair.outer for pair in pairs] == [("a",), ("x",)]
    then = pairs[0]
    assert then.feeds({"a": X, "x": -X, "b": np.array(True)}) == {"a": X}
    side = with_types(then.after, {"a": X}, {}.get)
    np.testing.assert_array_equal(OnnxRuntime(side.model).run({"a": X})[0], np.abs(X))


def test_an_inner_value_with_the_name_of_the_other_output_gets_a_new_one():
    other = IF.format("Abs", "Sin").replace("p) { p = Abs(a)", "r) { p = Exp(a) r = Abs(p)")
    then, _ = found(of(IF.format("Neg", "Sin")), of(other))
    side = with_types(then.after, {"a": X}, {}.get)
    assert [value.name for value in side.model.graph.output] == ["p"]
    np.testing.assert_allclose(OnnxRuntime(side.model).run({"a": X})[0], np.exp(X), rtol=1e-5)


def test_an_if_that_is_the_same_has_no_bodies_to_run():
    assert found(of(IF.format("Neg", "Sin")), of(IF.format("Neg", "Sin"))) == []


def test_the_first_turn_of_a_loop():
    """Inputs of the second body are called as in the first, whatever they were."""
    (pair,) = found(of(LOOP.format("v", "Neg")), of(LOOP.format("value", "Abs")))
    given = pair.feeds({"x": X, "n": np.array(3)})
    assert {name: np.asarray(value).tolist() for name, value in given.items()} == {
        "x": X.tolist(), "i": 0, "c": True, "v": X.tolist(),
    }  # fmt: skip
    side = with_types(pair.after, given, {}.get)
    outputs = OnnxRuntime(side.model).run(given)
    np.testing.assert_array_equal(outputs[1], np.abs(X))
    assert [value.name for value in side.model.graph.output] == ["d", "w", "u"]


def test_a_scan_begins_with_the_states_that_it_is_given():
    (pair,) = found(of(SCAN.format("Add")), of(SCAN.format("Mul")))
    given = pair.feeds({"x": X, "z": np.zeros(4, np.float32)})
    assert {name: value.tolist() for name, value in given.items()} == {"v": [0, 0, 0, 0]}


def test_a_function_with_the_attributes_of_its_call():
    (pair,) = found(*(onnx.parser.parse_model(FUNCTION.format(op)) for op in ("Neg", "Abs")))
    assert pair.label == "function F"
    given = pair.feeds({"x": X})
    side = with_types(pair.before, given, {}.get)
    np.testing.assert_array_equal(OnnxRuntime(side.model).run(given)[0], -np.where(X < 0, X / 4, X))


def test_an_attribute_that_a_call_leaves_out():
    text = FUNCTION.replace("F<a = 0.25>", "F").replace("<a>", "<a: float = 0.5>")
    (pair,) = found(*(onnx.parser.parse_model(text.format(op)) for op in ("Neg", "Abs")))
    given = pair.feeds({"x": X})
    np.testing.assert_array_equal(
        OnnxRuntime(with_types(pair.before, given, {}.get).model).run(given)[0], -np.where(X < 0, X / 2, X)
    )


def test_constants_around_a_body_come_along():
    text = IF.replace("{}(a)", "{}(a, k)")
    held = {"constants": "float k = {2}"}
    then, _ = found(of(text.format("Mul", "Sin"), **held), of(text.format("Add", "Sin"), **held))
    assert then.outer == ("a",)
    assert [tensor.name for tensor in then.before.model.graph.initializer] == ["k"]


@pytest.mark.parametrize(
    "other",
    [
        IF.format("Neg", "Sin").replace("Neg(a)", "Neg(r)").replace("a = Exp(x)", "a = Exp(x) r = Sin(x) "),
        "y = Neg(x)",
        LOOP.format("v", "Neg"),
    ],
)
def test_bodies_that_do_not_stand_for_each_other_are_left_to_the_region(other):
    pairs = found(of(IF.format("Neg", "Cos")), of(other))
    assert [pair and pair.label for pair in pairs] in ([None], [None, 'else_branch of If "y"'])
