"""Powers of mixed types."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.elements import CODE, array
from tests.support import check, check_unchanged, evaluate, model


def power(base, exponent, shape="3", constants=None):
    inputs = f"{base}[3] x" + ("" if constants else f", {exponent}[{shape}] e".replace("[]", ""))
    return {"inputs": inputs, "outputs": f"{base}[3] y", **({"constants": constants} if constants else {})}


def test_powers_of_one_type_stay():
    check_unchanged("y = Pow(x, e)", 28, 7, **power("float", "float"))
    check_unchanged("y = Pow(x, e)", 7, 28, **power("double", "double"))


@pytest.mark.parametrize(("base", "constant", "shown"), [
    ("float", "int64 e = {2}", "2.0"), ("double", "int64[1] e = {3}", "float64:[3.0]"),
    ("float", "double e = {0.5}", "0.5"), ("float16", "int32 e = {-2}", "float16:-2.0"),
])  # fmt: skip
def test_constant_exponents_take_the_type_of_the_base_below_12(base, constant, shown):
    feeds = {"x": array(base, [1.5, 2.0, 4.0])}
    source = model("y = Pow(x, e)", 12, **power(base, "", constants=constant))
    check("y = Pow(x, e)", 12, f"y = Pow(x, {shown})", 11, run=False, **power(base, "", constants=constant))
    result = convert.attempt(source, {"": 11}).model  # onnxruntime rejects some of these types at 12
    exponent = float(shown.split(":")[-1].strip("[]"))
    np.testing.assert_allclose(evaluate(result, feeds)[0], feeds["x"] ** exponent, rtol=1e-3)


@pytest.mark.parametrize(
    ("base", "exponent"),
    [("float", "int8"), ("float", "uint16"), ("double", "int32"), ("double", "float"), ("float16", "uint8")],
)
def test_exponents_that_the_base_type_holds_are_cast_below_12(base, exponent):
    check("y = Pow(x, e)", 12, f"t1 = Cast<to={CODE[base]}>(e)\ny = Pow(x, t1)", 11, run=False, **power(base, exponent))
    made = convert.attempt(model("y = Pow(x, e)", 12, **power(base, exponent)), {"": 11}).model
    feeds = {"x": array(base, [1.5, -2.0, 0.0]), "e": array(exponent, [2, 3, 0])}
    np.testing.assert_array_equal(evaluate(made, feeds)[0], [2.25, -8.0, 1.0])


@pytest.mark.parametrize(("base", "exponent", "wide"), [
    ("float", "int32", "double"), ("float", "double", "double"), ("float", "int64", "double"), ("float16", "float", "float"),
    ("float16", "int64", "double"), ("double", "int64", "double"),
])  # fmt: skip
def test_other_exponents_and_their_bases_are_cast_below_12(base, exponent, wide):
    after = (
        f"t1 = Cast<to={CODE[wide]}>(x)\nt2 = Cast<to={CODE[wide]}>(e)\nt3 = Pow(t1, t2)\ny = Cast<to={CODE[base]}>(t3)"
    )
    check("y = Pow(x, e)", 12, after, 11, grade="close", rtol=1e-3 if base == "float16" else 1e-6,
          feeds={"x": array(base, [1.5, -2.0, 0.0]), "e": array(exponent, [2, 3, 0])}, **power(base, exponent))  # fmt: skip


def test_a_constant_that_no_float_holds_is_not_rounded():
    made = convert.attempt(model("y = Pow(x, e)", 12, **power("float", "", constants="int64 e = {16777217}")), {"": 11})
    x = np.array([-1, 1, 0], np.float32)
    np.testing.assert_array_equal(evaluate(made.model, {"x": x})[0], [-1, 1, 0])
    assert made.grade == "close"


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(("times", "after"), [
    (0, ["Mul", "Add"]), (1, ["Identity"]), (2, ["Mul"]), (3, ["Mul", "Mul"]), (4, ["Mul", "Mul"]), (13, ["Mul"] * 5),
])  # fmt: skip
def test_integers_are_multiplied_below_12(kind, times, after):
    made = convert.attempt(model("y = Pow(x, e)", 12, **power(kind, "", constants=f"float e = {{{times}}}")), {"": 11})
    assert [n.op_type for n in made.model.graph.node] == after
    assert made.grade == "exact"
    x = np.array([0, -3, 5], kind)
    np.testing.assert_array_equal(evaluate(made.model, {"x": x})[0], x**times)


def test_an_exponent_of_one_element_must_not_add_dimensions():
    io = power("int64", "", constants="int64[1] e = {2}")
    assert [n.op_type for n in convert.attempt(model("y = Pow(x, e)", 12, **io), {"": 11}).model.graph.node] == ["Mul"]
    io = {"inputs": "int64[3] x", "outputs": "int64[1,3] y", "constants": "int64[1,1] e = {2}"}
    after = "t1 = Cast<to=11>(x)\nt2 = Cast<to=11>([[2]])\nt3 = Pow(t1, t2)\ny = Cast<to=7>(t3)"
    check("y = Pow(x, e)", 12, after, 11, grade="close", **io)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_other_powers_of_integers_go_through_double_below_12(kind):
    after = f"t1 = Cast<to=11>(x)\nt2 = Cast<to=11>(e)\nt3 = Pow(t1, t2)\ny = Cast<to={CODE[kind]}>(t3)"
    feeds = {"x": array(kind, [46340, -7, 3]), "e": array(kind, [2, 3, 19])}
    check("y = Pow(x, e)", 12, after, 11, grade="close", feeds=feeds, **power(kind, kind))
    rooted = convert.attempt(model("y = Pow(x, e)", 12, **power(kind, "", constants="float e = {0.5}")), {"": 11}).model
    np.testing.assert_array_equal(evaluate(rooted, {"x": array(kind, [0, 16, 17])})[0], [0, 4, 4])


def test_a_bfloat16_exponent_is_widened_below_15():
    check("y = Pow(x, e)", 15, "t1 = Cast<to=1>(e)\ny = Pow(x, t1)", 13, run=False, **power("float", "bfloat16"))
