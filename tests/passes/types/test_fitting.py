"""Integers of 64 bits as integers of 32: what fits becomes narrow, and what may not fit stays, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.changes import Result
from opshift.passes.types.changing import change
from opshift.passes.types.wanted import types

from tests.support import evaluate, model, show

T = TensorProto
SIZES = "sizes, and what is computed of them, are below 2^31"


def narrowed(source: ModelProto, interface: str = "keep", **given: tuple[float, float]) -> Result:
    kept = source.SerializeToString()
    wanted = types("int64=int32", interface)
    vars(wanted)["given"] = given
    result = change(source, wanted)
    assert source.SerializeToString() == kept, "the model that was given was changed"
    assert result.model is not None
    onnx.checker.check_model(result.model, full_check=True)
    return result


def check(source: ModelProto, expected: str, *, grade: str, **feeds: Any) -> Result:
    """Narrow, compare the nodes with what is expected, and run both forms, which have to be the same."""
    result = narrowed(source)
    assert result.model is not None
    assert show(result.model) == "\n".join(line.strip() for line in expected.strip().splitlines()), show(result.model)
    assert result.grade == grade
    for one, other in zip(evaluate(source, feeds), evaluate(result.model, feeds), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    return result


def reasons(source: ModelProto) -> list[str]:
    """Why what stays does so, in a model of which nothing can be narrowed."""
    result = narrowed(source)
    assert result.model is source
    assert result.types is not None
    return [f"{each.op}: {each.why}" for each in result.types.kept]


# --- what stays -------------------------------------------------------------------------------------------------------


def test_a_model_without_such_integers_stays_as_it_is():
    source = model("y = Abs(x)", 17, inputs="int32[2] x", outputs="int32[2] y")
    assert narrowed(source).model is source


def test_numbers_beyond_the_range_stay():
    body = "k = Constant<value_int=3000000000>() a = Min(x, k) y = Cast<to=1>(a)"
    source = model(body, 17, inputs="int64[2] x", outputs="float[2] y")
    assert reasons(source) == ['Min: "k" may be 3000000000, which is beyond int32']


def test_products_that_may_be_beyond_the_range_stay():
    source = model("a = Mul(x, x) y = Cast<to=1>(a)", 17, inputs="int64[2] x", outputs="float[2] y")
    assert reasons(source) == ['Mul: "a" may be 1099511627776, which is beyond int32']


def test_what_a_loop_multiplies_in_each_round_stays():
    body = (
        "y = Loop(n, , x) <body = b (int64 i, bool go, int64[2] v) => (bool on, int64[2] w)"
        " { on = Identity(go) two = Constant<value_int=2>() w = Mul(v, two) }>"
    )
    source = model(body, 17, inputs="int64 n, int64[2] x", outputs="int64[2] y")
    assert narrowed(source).model is source


def test_the_largest_number_stays_where_it_is_no_end_of_a_slice():
    body = "e = Constant<value_ints=[9223372036854775807]>() y = Slice(x, k, e) z = Min(e, k)"
    source = model(body, 17, inputs="float[4] x, int64[1] k", outputs="float[N] y, int64[1] z")
    assert any("which is beyond int32" in why for why in reasons(source))


def test_what_leads_from_sizes_to_sizes_stays():
    body = "s = Shape(x) t = Mul(s, two) y = Reshape(z, t)"
    source = model(
        body, 17, inputs="float[2,N] x, float[M] z", outputs="float[A,B] y", constants="int64[2] two = {1, 2}"
    )
    assert reasons(source) == ["Mul: its inputs and outputs are sizes, which are int64"]


# --- what becomes narrow ----------------------------------------------------------------------------------------------


def test_ids_are_cast_once_and_the_rest_is_narrow():
    body = "a = Add(x, one) b = Mod(a, five) y = Gather(t, b)"
    constants = "int64 one = {1}, int64 five = {5}, float[5] t = {0, 1, 2, 3, 4}"
    source = model(body, 17, inputs="int64[3] x", outputs="float[3] y", constants=constants)
    result = check(
        source,
        """
        t1 = Cast<to=6>(x)
        t2 = Add(t1, int32:1)
        t3 = Mod(t2, int32:5)
        y = Gather([0.0, 1.0, 2.0, 3.0, 4.0], t3)
        """,
        grade="narrowed",
        x=np.array([0, 4, 3]),
    )
    assert result.types is not None
    assert result.types.assumed == ('"x" lies within 2^20 of 0; --val-range tells otherwise',)


def test_ids_lie_below_the_length_of_the_table():
    body = "y = Gather(t, x) a = Mul(x, big) z = Cast<to=1>(a)"
    constants = "int64 big = {200000000}, float[5] t = {0, 1, 2, 3, 4}"
    source = model(body, 17, inputs="int64[3] x", outputs="float[3] y, float[3] z", constants=constants)
    result = narrowed(source)
    assert result.types is not None
    assert result.types.assumed == ('"x" holds indices of a table of 5',)


def test_what_the_user_says_of_an_input_counts():
    body = "k = Constant<value_int=1000000>() a = Mul(x, k) y = Cast<to=1>(a)"
    source = model(body, 17, inputs="int64[3] x", outputs="float[3] y")
    assert narrowed(source).model is source
    assert narrowed(source, x=(0, 100)).changes


def test_sizes_that_are_known_need_no_assumption():
    body = "n = Size(x) r = Range(zero, n, one) y = Cast<to=1>(r)"
    constants = "int64 zero = {0}, int64 one = {1}"
    fixed = model(body, 17, inputs="float[2,3] x", outputs="float[N] y", constants=constants)
    assert narrowed(fixed).grade == "exact"
    free = narrowed(model(body, 17, inputs="float[2,M] x", outputs="float[N] y", constants=constants))
    assert (free.grade, free.types and free.types.assumed) == ("narrowed", (SIZES,))


def test_open_ends_of_slices_become_those_of_int32():
    body = (
        "s = Constant<value_ints=[1]>() e = Constant<value_ints=[9223372036854775807]>() u = Unsqueeze(k, a)"
        " f = Identity(e) y = Slice(x, s, f) n = Neg(k) z = Cast<to=1>(n)"
    )
    source = model(
        body, 17, inputs="float[4] x, int64 k", outputs="float[N] y, float z", constants="int64[1] a = {0}"
    )  # fmt: skip
    result = narrowed(source)
    assert result.model is not None
    feeds = {"x": np.float32([1, 2, 3, 4]), "k": np.array(3)}
    for one, other in zip(evaluate(source, feeds), evaluate(result.model, feeds), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("interface", ["keep", "narrow"])
def test_operands_that_are_int64_by_schema_get_a_cast(interface: str):
    body = "a = Add(x, one) y = Tile(d, a) b = Mul(a, a) z = Cast<to=1>(b)"
    source = model(
        body, 17, inputs="int64[1] x, float[2] d", outputs="float[N] y, float[1] z", constants="int64 one = {1}"
    )
    result = narrowed(source, interface, x=(0, 8))
    assert result.model is not None
    kinds = {value.name: value.type.tensor_type.elem_type for value in result.model.graph.input}
    assert kinds["x"] == (T.INT64 if interface == "keep" else T.INT32)
    casts = [node for node in result.model.graph.node if node.op_type == "Cast"]
    assert sum(node.attribute[0].i == T.INT64 for node in casts) == 1
    x = np.array([2], np.int64 if interface == "keep" else np.int32)
    found = evaluate(result.model, {"x": x, "d": np.float32([1, 2])})
    np.testing.assert_array_equal(found[0], np.float32([1, 2, 1, 2, 1, 2]))


def test_what_a_branch_yields_is_narrow():
    body = (
        "i = If(p) <then_branch = t () => (int64[2] u) { u = Add(x, one) },"
        " else_branch = e () => (int64[2] v) { v = Sub(x, one) }> y = Cast<to=1>(i)"
    )
    source = model(body, 17, inputs="int64[2] x, bool p", outputs="float[2] y", constants="int64 one = {1}")
    result = narrowed(source)
    assert result.model is not None
    feeds = {"x": np.array([1, 5]), "p": np.array(True)}
    np.testing.assert_array_equal(evaluate(result.model, feeds)[0], evaluate(source, feeds)[0])
    assert result.changes


def test_functions_are_looked_at_call_by_call():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (int64[2] x) => (float[2] y) { a = local.next(x) y = Cast<to=1>(a) }
        <domain: "local", opset_import: ["" : 17]>
        next (a) => (b) { one = Constant<value_int=1>() b = Add(a, one) }
    """)
    result = narrowed(source)
    assert result.changes
    assert result.model is not None
    np.testing.assert_array_equal(evaluate(result.model, {"x": np.array([1, 2])})[0], [2, 3])


def test_floats_and_integers_are_changed_one_after_the_other():
    with pytest.raises(ValueError, match="use two commands"):
        types("float16,int64=int32")
    with pytest.raises(ValueError, match="turns integers into floats or floats into integers"):
        types("float32=int32")
