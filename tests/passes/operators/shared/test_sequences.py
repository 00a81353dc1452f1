"""Sequences that leave If and Loop below opset 13: as one tensor with the sizes of what it holds."""

import numpy as np
import onnx
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_refused, evaluate, model

IF = """y = If (c) <
    then_branch = t () => ({kind} a) {{ {then} }},
    else_branch = e () => ({kind} b) {{ {other} }}
>"""
LOOP = """
first = {first}
y = Loop (m, , first) <body = b (int64 i, bool go, seq({kind}) old) => (bool going, seq({kind}) new) {{
    going = Identity(go) {body}
}}>
"""


def converted(body, opset, target, **io):
    source = model(body, opset, **io)
    result = convert.attempt(source, {"": target})
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert result.grade == "exact"
    onnx.checker.check_model(result.model)
    return source, result.model


def same_sequences(source, made, **feeds):
    for expected, actual in zip(evaluate(source, feeds), evaluate(made, feeds), strict=True):
        assert type(actual) is type(expected)
        if not isinstance(expected, list):
            np.testing.assert_array_equal(actual, expected)
            continue
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert (a.dtype, a.shape) == (e.dtype, e.shape)
            np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("target", [12, 11])
@pytest.mark.parametrize(
    ("then", "other"),
    [
        ("a = SequenceConstruct(x, x)", "n = Neg(x) b = SequenceConstruct(n)"),
        ("a = SequenceConstruct(x)", "n = Concat<axis=0>(x, x) b = SequenceConstruct(n, x, n)"),
        ("a = SequenceEmpty()", "n = Neg(x) b = SequenceConstruct(n)"),
    ],
)
def test_a_branch_yields_what_a_sequence_holds(then, other, target):
    body = IF.format(kind="seq(float[N,3])", then=then, other=other)
    source, made = converted(body, 13, target, inputs="float[2,3] x, bool c", outputs="seq(float[N,3]) y")
    x = np.float32([[0, -0.0, np.inf], [np.nan, 1, -2]])
    for condition in (True, False):
        same_sequences(source, made, x=x, c=np.array(condition))


def test_tensors_beside_a_sequence_stay_in_their_places():
    body = """p, y, q = If (c) <
        then_branch = t () => (float[3] a, seq(float) s, int64[1] k) {
            a = Neg(x) h = ReduceSum<keepdims=0>(x) s = SequenceConstruct(h, h) k = Shape(x)
        },
        else_branch = e () => (float[3] b, seq(float) r, int64[1] l) {
            b = Abs(x) g = ReduceMax<keepdims=0>(x) r = SequenceConstruct(g) l = Shape(b)
        }
    >"""
    io = {"inputs": "float[3] x, bool c", "outputs": "float[3] p, seq(float) y, int64[1] q"}
    source, made = converted(body, 13, 12, **io)
    for condition in (True, False):
        same_sequences(source, made, x=np.float32([1, 5, -2]), c=np.array(condition))


@pytest.mark.parametrize("target", [12, 11])
@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize(
    ("kind", "first", "body"),
    [
        ("float[N]", "SequenceEmpty()", "r = Slice(x, zero, end) new = SequenceInsert(old, r)"),
        ("float[2,N]", "SequenceEmpty()", "r = Expand(end, wide) f = Cast<to=1>(r) new = SequenceInsert(old, f)"),
        ("float", "SequenceEmpty()", "r = ReduceSum<keepdims=0>(x) new = SequenceInsert(old, r)"),
        ("float[5]", "SequenceConstruct(x, x)", "n = Neg(x) s = SequenceInsert(old, n) new = SequenceInsert(s, x)"),
    ],
)
def test_a_loop_carries_what_a_sequence_holds(kind, first, body, trips, target):
    made_end = "one = Constant<value_ints=[1]>() ii = Add(i, one) end = Identity(ii) "
    io = {
        "inputs": "float[5] x, int64 m",
        "outputs": f"seq({kind}) y",
        "constants": "int64[1] zero = {0}, int64[2] wide = {2, 3}",
    }
    source, made = converted(LOOP.format(kind=kind, first=first, body=made_end + body), 13, target, **io)
    same_sequences(source, made, x=np.float32([0, -0.0, np.nan, np.inf, -3]), m=np.array(trips))


def test_a_loop_carries_and_collects_tensors_beside_a_sequence():
    body = """
    first = SequenceEmpty()
    v, y, rows = Loop (m, , x, first) <
        body = b (int64 i, bool go, float[2] held, seq(float[2]) old)
            => (bool going, float[2] more, seq(float[2]) new, float[2] row) {
        going = Identity(go) more = Add(held, x) new = SequenceInsert(old, more) row = Neg(held)
    }>
    count = SequenceLength(y)
    """
    io = {"inputs": "float[2] x, int64 m", "outputs": "float[2] v, seq(float[2]) y, float[T,2] rows, int64 count"}
    source, made = converted(body, 13, 12, **io)
    same_sequences(source, made, x=np.float32([1, -2]), m=np.array(3))


@pytest.mark.parametrize("target", [16, 12, 11])
def test_a_map_of_a_sequence_goes_below_13(target):
    body = "y = SequenceMap(s, t) <body = b (float[N] e, float[1] f) => (float[N] g) { g = Mul(e, f) }>"
    io = {"inputs": "seq(float[N]) s, float[1] t", "outputs": "seq(float[N]) y"}
    source, made = converted(body, 17, target, **io)
    held = [np.float32([1, 2, 3]), np.float32([4]), np.float32([np.nan, -0.0])]
    same_sequences(source, made, s=held, t=np.float32([2]))


@pytest.mark.parametrize(
    ("kind", "first", "body", "why"),
    [
        ("float[5]", "SequenceInsert(s, x)", "new = SequenceInsert(old, x)", "supported: a sequence that the same graph constructs"),
        ("float[5]", "SequenceConstruct(x)", "new = SequenceErase(old)", "that only grows at its end"),
        ("float[5]", "SequenceConstruct(x)", "new = SequenceInsert(old, x, i)", "that only grows at its end"),
        (
            "float[5]", "SequenceConstruct(x)",
            "a = SequenceAt(old, i) new = SequenceInsert(old, a)", 'reads the carried sequence "old", whose elements are dynamic',
        ),
        (
            "float", "SequenceConstruct(x)",
            "a = ReduceSum<keepdims=0>(x) new = SequenceInsert(old, a)", "supported: tensors of one known rank",
        ),
        (
            "float[M,N]", "SequenceEmpty()",
            "d = Shape(z) a = Cast<to=1>(z) new = SequenceInsert(old, a)", "supported: shapes that differ along one axis",
        ),
    ],
)  # fmt: skip
def test_other_sequences_cannot_be_carried_below_13(kind, first, body, why):
    io = {"inputs": "float[5] x, int64 m, seq(float[5]) s, double[A,B] z", "outputs": f"seq({kind}) y"}
    check_refused(LOOP.format(kind=kind, first=first, body=body), 13, 12, why, **io)


def test_a_sequence_from_outside_cannot_leave_a_branch_below_13():
    body = IF.format(kind="seq(float[3])", then="a = SequenceConstruct(x)", other="b = SequenceInsert(s, x)")
    io = {"inputs": "float[3] x, bool c, seq(float[3]) s", "outputs": "seq(float[3]) y"}
    check_refused(body, 13, 12, 'the elements of the sequence "b" are dynamic', **io)


def test_loops_without_sequences_stay():
    body = """y = Loop (m, , x) <body = b (int64 i, bool go, float[2] old) => (bool going, float[2] new) {
        going = Identity(go) new = Add(old, old)
    }>"""
    source, made = converted(body, 13, 12, inputs="float[2] x, int64 m", outputs="float[2] y")
    assert [n.SerializeToString() for n in made.graph.node] == [n.SerializeToString() for n in source.graph.node]
