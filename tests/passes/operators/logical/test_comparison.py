"""Comparisons of types that the older versions do not take."""

import numpy as np
import pytest
from opshift.passes.backends import fit
from opshift.passes.backends.target_files import find
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_unchanged, evaluate, model, show


def pair(kind, n=4):
    return {"inputs": f"{kind}[{n}] a, {kind}[{n}] b", "outputs": f"bool[{n}] y"}


def ends(kind):
    """Neighbours at both ends of an integer type and above 2^53, and equal ones."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    a = np.array([low, high, min(2**53 + 1, high - 1), 5], kind)
    return {"a": a, "b": np.array([low + 1, high - 1, min(2**53, high - 2), 5], kind)}


@pytest.mark.parametrize("kind", ["bool", "int32", "int64"])
def test_equal_types_of_opset_7_stay(kind):
    check_unchanged("y = Equal(a, b)", 11, 7, **pair(kind))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "uint32"])
def test_equal_integers_are_widened_below_11(kind):
    wide = 7 if kind == "uint32" else 6
    check("y = Equal(a, b)", 11, f"t1 = Cast<to={wide}>(a)\nt2 = Cast<to={wide}>(b)\ny = Equal(t1, t2)", 10,
          feeds=ends(kind), **pair(kind))  # fmt: skip


def test_equal_uint64_is_neither_less_nor_greater_below_11():
    check("y = Equal(a, b)", 11, "t1 = Less(a, b)\nt2 = Greater(a, b)\nt3 = Or(t1, t2)\ny = Not(t3)", 10,
          feeds=ends("uint64"), **pair("uint64"))  # fmt: skip


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_equal_floats_are_numbers_and_neither_less_nor_greater_below_11(kind):
    one, zero = {"float": ("1.0", "0.0"), "double": ("float64:1.0", "float64:0.0")}.get(
        kind, ("float16:1.0", "float16:0.0")
    )
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    values = np.array([0.0, -0.0, np.nan, np.nan, 1.5, np.inf, np.inf, -np.inf], dtype)
    others = np.array([-0.0, 0.0, np.nan, 1.0, 1.5, np.inf, -np.inf, np.nan], dtype)
    after = f"""t1 = Less(a, b)
        t2 = Greater(a, b)
        t3 = Or(t1, t2)
        t4 = Not(t3)
        t5 = Less(a, {one})
        t6 = Greater(a, {zero})
        t7 = Or(t5, t6)
        t8 = Less(b, {one})
        t9 = Greater(b, {zero})
        t10 = Or(t8, t9)
        t11 = And(t7, t10)
        y = And(t4, t11)"""
    check("y = Equal(a, b)", 11, after, 10, feeds={"a": values, "b": others}, **pair(kind, 8))


@pytest.mark.parametrize(("a", "b", "y"), [("4", "4", "4"), ("2,2", "2", "2,2"), ("", "3", "3"), ("N,1", "2", "N,2")])
def test_equal_strings_are_places_in_the_list_of_distinct_ones_below_19(a, b, y):
    zero = "<allowzero=1>" if "N" in a else ""
    after = f"""t1 = Reshape(a, [-1])
        t2 = Reshape(b, [-1])
        t3 = Concat<axis=0>(t1, t2)
        t4, t5, t6 = Unique(t3)
        t7 = Size(a)
        t8 = Reshape(t7, [1])
        t9 = Slice(t6, [0], t8)
        t10 = Slice(t6, t8, [9223372036854775807])
        t11 = Shape(a)
        t12 = Reshape{zero}(t9, t11)
        t13 = Shape(b)
        t14 = Reshape(t10, t13)
        y = Equal(t12, t14)"""
    check(
        "y = Equal(a, b)",
        19,
        after,
        18,
        inputs=f"string[{a}] a, string[{b}] b".replace("[]", ""),
        outputs=f"bool[{y}] y",
    )


def test_strings_beside_a_list_of_known_ones_are_counted_below_19():
    io = {"inputs": "string[N,1] a", "outputs": "bool[N,2] y", "constants": 'string[2] words = {"a", ""}'}
    grams = "max_gram_length=1, max_skip_count=0, min_gram_length=1, mode=TF, ngram_counts=[0], ngram_indexes=[0, 1]"
    after = f"""t1 = Reshape(a, [-1, 1])
        t2 = Concat<axis=0>(t1, object:[['']])
        t3 = TfIdfVectorizer<{grams}, pool_strings=['a', '']>(t2)
        t4 = Slice(t3, [0], [-1], [0])
        y = Greater(t4, 0.0)"""
    feeds = {"a": np.array([["a"], ["b"], [""], ["A"]], object)}
    check("y = Equal(a, words)", 19, after, 18, feeds=feeds, **io)
    source = model("y = Equal(a, words)", 19, **io)
    result = convert.attempt(source, {"": 9}).model
    assert evaluate(result, feeds)[0].tolist() == [[True, False], [False, False], [False, True], [False, False]]
    assert evaluate(result, {"a": feeds["a"][:0]})[0].shape == (0, 2)


@pytest.mark.parametrize("op", ["Greater", "Less"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_order_of_32_bits_is_that_of_doubles_below_9(op, kind):
    check(f"y = {op}(a, b)", 9, f"t1 = Cast<to=11>(a)\nt2 = Cast<to=11>(b)\ny = {op}(t1, t2)", 8,
          feeds=ends(kind), **pair(kind))  # fmt: skip


@pytest.mark.parametrize("op", ["Greater", "Less"])
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_order_of_64_bits_is_that_of_two_halves_below_9(op, kind):
    after = f"""t1 = Div(a, const)
        t2 = Div(b, const)
        t3 = Mul(t1, const)
        t4 = Sub(a, t3)
        t5 = Mul(t2, const)
        t6 = Sub(b, t5)
        t7 = Cast<to=11>(t1)
        t8 = Cast<to=11>(t2)
        t9 = Cast<to=11>(t4)
        t10 = Cast<to=11>(t6)
        t11 = Cast<to=7>(t1)
        t12 = Cast<to=7>(t2)
        t13 = Equal(t11, t12)
        t14 = {op}(t7, t8)
        t15 = {op}(t9, t10)
        t16 = And(t13, t15)
        y = Or(t14, t16)"""
    check(f"y = {op}(a, b)", 9, after, 8, feeds=ends(kind), **pair(kind))
    if kind == "int64":
        around_zero = {"a": np.array([-1, 1, -(2**32), 0]), "b": np.array([1, -1, -1, -(2**40)])}
        check(f"y = {op}(a, b)", 9, after, 8, feeds=around_zero, **pair(kind))


@pytest.mark.parametrize("held", [0, 2**53 - 1, 2**53, -(2**53), 2**60 + 1])
@pytest.mark.parametrize("op", ["Less", "Greater"])
def test_a_small_constant_needs_no_halves_below_9(op, held):
    x = np.array([held - 1, held, held + 1, -(2**63), 2**63 - 1])
    io = {"inputs": "int64[5] x", "outputs": "bool[5] y", "constants": f"int64 c = {{{held}}}"}
    made = check_down(f"y = {op}(x, c)", 9, 8, 7, feeds={"x": x}, **io)
    assert ("Div" in show(made)) == (abs(held) >= 2**53)


@pytest.mark.parametrize("op", ["Greater", "Less"])
def test_order_of_floats_stays(op):
    check_unchanged(f"y = {op}(a, b)", 28, 7, **pair("float"))


@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual"])
def test_order_of_bfloat16_is_that_of_floats_below_16(op):
    check(
        f"y = {op}(a, b)",
        16,
        f"t1 = Cast<to=1>(a)\nt2 = Cast<to=1>(b)\ny = {op}(t1, t2)",
        15,
        **pair("bfloat16", 12),
    )


@pytest.mark.parametrize("kind", ["float", "double", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("op", ["Greater", "Less"])
def test_or_equal_is_asked_separately(op, kind):
    """A NaN is neither: negating the opposite comparison would say that it is."""
    check(
        f"y = {op}OrEqual(a, b)", 12, f"t1 = {op}(a, b)\nt2 = Equal(a, b)\ny = Or(t1, t2)", 11,
        inputs=f"{kind}[12] a, {kind}[12] b", outputs="bool[12] y",
    )  # fmt: skip


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("kind", ["float", "double", "int32"])
def test_less_is_greater_with_its_inputs_exchanged(kind, opset):
    """For a backend that computes Less wrongly, such as MNN: the same for NaN, infinities, -0.0 and scalars."""
    numbers = [0, -0.0, 1, -1, np.nan, np.inf, -np.inf] if kind != "int32" else [0, 1, -1, 2**31 - 1, -(2**31)]
    dtype = np.dtype("float32" if kind == "float" else "float64" if kind == "double" else kind)
    a, b = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    of = model("y = Less(a, b)", opset, inputs=f"{kind}[N,M] a, {kind}[N,M] b", outputs="bool[N,M] y")
    after = convert.attempt(of, {"": opset}, ops=[("", "Less")]).model
    assert [node.op_type for node in after.graph.node] == ["Greater"]
    np.testing.assert_array_equal(evaluate(after, {"a": a, "b": b})[0], np.less(a, b))


def test_mnn_gets_no_less_of_floats():
    after = fit.convert_for_backend(model("y = Less(a, b)", 17, **pair("float")), find("mnn-3.6")).model
    assert [node.op_type for node in after.graph.node] == ["Greater"]
