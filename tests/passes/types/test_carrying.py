"""Models whose values are carried in wider types compute the same numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.changes import Result
from opshift.passes.goals import Goal
from opshift.passes.model.named_types import named_types
from opshift.passes.types.carriers import read_carriers

from tests.support import evaluate, model

T = TensorProto
pytestmark = pytest.mark.newest
X = np.array([[-9.0, -2.75, -0.5, -0.0, 0.3], [0.5, 1.26, 3.0, 100.0, 700.0]], np.float32)
IO = {"inputs": "float[2,5] x", "outputs": "float[2,5] y"}


def carried(source: ModelProto, pairs: Iterable[str], target: int | None = None) -> Result:
    kept = source.SerializeToString()
    goal = Goal({} if target is None else {"": target}, carriers=read_carriers(pairs))
    result = goal.run(source)
    assert source.SerializeToString() == kept, "the model that was given was changed"
    if result.model is not None:
        onnx.checker.check_model(result.model, full_check=True)
        assert not goal.carriers.keys() & set(named_types(result.model)), "a type is left"
    return result


def check(
    source: ModelProto, pair: str, expected: Any, *targets: int | None, grade: str = "exact", **feeds: Any
) -> None:
    """Carry, and compare what comes out with what the text of the operator says, at each target."""
    for target in targets or (None,):
        result = carried(source, [pair], target)
        assert result.model is not None, "\n".join(map(str, result.refusals))
        assert result.grade == grade
        (actual,) = evaluate(result.model, feeds)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


def refused(source: ModelProto, pair: str) -> str:
    result = carried(source, [pair])
    assert result.model is None
    return "\n".join(map(str, result.refusals))


# --- what stays, and what is refused ----------------------------------------------------------------------------------


def test_a_model_without_such_a_type_stays_as_it_is():
    source = model("y = Abs(x)", 21, **IO)
    result = carried(source, ["int4=int8"])
    assert result.model == source
    assert not result.changes


def test_bits_of_a_carried_float_are_refused():
    body = "q = Cast<to=17>(x) b = BitCast<to=2>(q) y = Cast<to=1>(b)"
    assert "the bits of float8e4m3fn cannot be read in the type that stores it" in refused(
        model(body, 26, **IO), "float8e4m3fn=float"
    )


def test_an_operator_that_does_not_take_the_carrier_is_refused():
    body = "q = Cast<to=17>(x) z = Cast<to=17>(s) y = QLinearMatMul(q, s, z, q, s, z, s, z)"
    io = {"inputs": "float[5,5] x", "outputs": "float8e4m3fn[5,5] y"}
    source = model(body, 21, constants="float s = {1.0}", **io)
    assert "the operator does not accept float, the type that stores float8e4m3fn" in refused(
        source, "float8e4m3fn=float"
    )


def test_an_operator_that_nobody_knows_is_refused():
    source = model("b = Cast<to=16>(x) c = acme.Twist(b) y = Cast<to=1>(c)", 21, domains='"acme" : 1', **IO)
    assert "the node uses bfloat16, and opshift does not know what the node computes with it" in refused(
        source, "bfloat16=float"
    )


# --- values that go in and come out -----------------------------------------------------------------------------------


def test_the_ends_of_a_model_have_the_type_that_carries_theirs():
    source = model("y = Transpose(x)", 21, inputs="int4[2,5] x", outputs="int4[5,2] y")
    result = carried(source, ["int4=int8"], 13)
    assert result.model is not None
    kinds = [value.type.tensor_type.elem_type for value in (*result.model.graph.input, *result.model.graph.output)]
    assert kinds == [T.INT8, T.INT8]
    assert result.retyped == ("x", "y")


def test_sequences_hold_the_type_that_carries_theirs():
    source = model(
        "s = SplitToSequence<axis=0>(x) i = Constant<value_int=1>() y = SequenceAt(s, i)",
        24, inputs="bfloat16[2,5] x", outputs="bfloat16[1,5] y",
    )  # fmt: skip
    x = np.float32([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
    check(source, "bfloat16=float", x[1:], None, 12, x=x)


# --- weights ----------------------------------------------------------------------------------------------------------


def test_packed_weights_are_unpacked():
    source = model("w = DequantizeLinear(p, s) y = Add(x, w)", 21, constants="float s = {0.5}", **IO)
    values = np.array([-8, -7, -1, 0, 7], np.int8)  # an odd number, so that half a byte is left
    packed = onnx.helper.make_tensor("p", T.INT4, [5], values)
    source.graph.initializer.append(packed)
    check(source, "int4=int8", X + values * np.float32(0.5), None, 20, 13, 8, x=X)


@pytest.mark.parametrize("wide", ["float", "float16", "double"])
def test_weights_of_float8_are_written_as_numbers(wide: str):
    source = model("f = Cast<to=1>(p) y = Add(x, f)", 19, **IO)
    values = np.array([0.5, -448, 2**-9, 1.125, 0], np.float32)
    source.graph.initializer.append(onnx.helper.make_tensor("p", T.FLOAT8E4M3FN, [5], values))
    check(source, f"float8e4m3fn={wide}", X + values, None, 18, 9, x=X)


# --- casts and quantization -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("like", [False, True])
def test_a_cast_to_float8_rounds_and_saturates(like: bool):
    cast = "c = Cast<to=17>(o) q = CastLike(x, c)" if like else "q = Cast<to=17>(x)"
    source = model(f"{cast} y = Cast<to=1>(q)", 19, constants="float o = {1.0}", **IO)
    expected = np.array([[-9, -2.75, -0.5, -0.0, 0.3125], [0.5, 1.25, 3, 96, 448]], np.float32)
    check(source, "float8e4m3fn=float", expected, None, 18, 10, 7, x=X)


def test_of_a_number_that_does_not_fit_int4_keeps_the_low_bits():
    source = model("q = Cast<to=22>(x) y = Cast<to=1>(q)", 21, **IO)
    x = np.array([[-9, -8.7, -8, -1, -0.9], [0, 7, 7.9, 8, 15]], np.float32)
    expected = np.array([[7, -8, -8, -1, 0], [0, 7, 7, -8, -1]], np.float32)
    for wide in ("int8", "int32", "float"):
        check(source, f"int4={wide}", expected, None, 20, 13, x=x)


@pytest.mark.parametrize(("kind", "wide", "low", "high"), [
    ("int4", "int8", -8, 7), ("int4", "int32", -8, 7), ("uint4", "int8", 0, 15), ("uint4", "float", 0, 15),
])  # fmt: skip
def test_quantized_numbers_are_cut_off_at_the_ends_of_the_type(kind: str, wide: str, low: int, high: int):
    number = {"int4": 22, "uint4": 21}[kind]
    body = f"q = QuantizeLinear<output_dtype={number}>(x, s) y = DequantizeLinear(q, s)"
    expected = (np.clip(np.rint(X / np.float32(0.5)), low, high) * 0.5).astype(np.float32)
    check(model(body, 21, constants="float s = {0.5}", **IO), f"{kind}={wide}", expected, None, 13, 9, x=X)


def test_quantization_to_float8_is_written_as_its_formula():
    body = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
    source = model(body, 19, constants="float s = {2.0}", **IO)
    source.graph.initializer.append(onnx.helper.make_tensor("z", T.FLOAT8E5M2, [], [0.0]))
    expected = np.array([[-8, -3, -0.5, -0.0, 0.3125], [0.5, 1.25, 3, 96, 640]], np.float32)
    check(source, "float8e5m2=float", expected, None, 18, 10, x=X)


# --- bfloat16, in which operators compute -----------------------------------------------------------------------------


def test_results_are_rounded_to_bfloat16():
    source = model("b = Cast<to=16>(x) c = Add(b, b) d = Mul(c, b) y = Cast<to=1>(d)", 21, **IO)
    import ml_dtypes

    b = X.astype(ml_dtypes.bfloat16)
    check(source, "bfloat16=float", ((b + b) * b).astype(np.float32), None, 12, 8, x=X)


def test_what_only_chooses_is_not_rounded_again():
    source = model("b = Cast<to=16>(x) c = Relu(b) d = Transpose<perm=[0,1]>(c) y = Cast<to=1>(d)", 21, **IO)
    result = carried(source, ["bfloat16=float"])
    assert result.model is not None
    assert [node.op_type for node in result.model.graph.node].count("Round") == 1


def test_other_rounding_than_that_of_the_text_is_said():
    source = model("b = Cast<to=16>(x) c = Exp(b) y = Cast<to=1>(c)", 21, **IO)
    result = carried(source, ["bfloat16=float"])
    assert result.grade == "close"
    assert any("computes in a wider type, and rounds to bfloat16" in change.remark for change in result.changes)


def test_branches_are_carried_as_well():
    body = (
        "b = Cast<to=16>(x) c = If(p) <then_branch = t () => (bfloat16[2,5] u) { u = Add(b, b) },"
        " else_branch = e () => (bfloat16[2,5] v) { v = Identity(b) }> y = Cast<to=1>(c)"
    )
    source = model(body, 21, inputs="float[2,5] x, bool p", outputs="float[2,5] y")
    x = np.resize(np.float32([1.5, -3, 0.25]), (2, 5))
    check(source, "bfloat16=float", x * 2, None, 12, x=x, p=np.array(True))


def test_functions_are_inlined_first():
    source = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 21, "local" : 1]>
        g (bfloat16[2] x) => (bfloat16[2] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 21]>
        twice (a) => (b) { b = Add(a, a) }
    """)
    result = carried(source, ["bfloat16=float"], 12)
    assert result.model is not None
    x = np.float32([1.0, 1.0078125])
    np.testing.assert_array_equal(evaluate(result.model, {"x": x})[0], x * 2)
