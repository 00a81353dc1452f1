"""Split: sizes that moved from an attribute to an input, and the number of parts."""

import numpy as np
import pytest

from tests.passes.operators.legacy import check_legacy
from tests.support import check, check_computes, check_refused, check_unchanged


def bounds(**values):
    return ", ".join(f"int64[{len(v)}] {name} = {{{', '.join(map(str, v))}}}" for name, v in values.items())


SPLIT = {"inputs": "float[N,5] x", "outputs": "float[N,2] y, float[N,3] z"}
SPLIT_AT_RUN_TIME = """t1 = Gather(s, [0])
    t2 = Add([0], t1)
    y = Slice(x, [0], t2, [-1])
    t3 = Gather(s, [1])
    t4 = Add(t2, t3)
    z = Slice(x, t2, t4, [-1])"""


def test_sizes_move_between_attribute_and_input_at_13():
    check("y, z = Split<axis=1, split=[2,3]>(x)", 12, "y, z = Split<axis=1>(x, [2, 3])", 13, **SPLIT)
    check(
        "y, z = Split<axis=1>(x, s)",
        13,
        "y, z = Split<axis=1, split=[2, 3]>(x)",
        12,
        constants=bounds(s=[2, 3]),
        **SPLIT,
    )
    io = {**SPLIT, "inputs": "float[N,5] x, int64[2] s"}
    feeds = {"s": np.array([2, 3])}
    check("y, z = Split<axis=-1>(x, s)", 13, SPLIT_AT_RUN_TIME, 12, feeds=feeds, **io)


def test_a_negative_axis_of_split_is_counted_from_the_front_below_11():
    check("y, z = Split<axis=-1, split=[2,3]>(x)", 11, "y, z = Split<axis=1, split=[2, 3]>(x)", 10, **SPLIT)
    check_unchanged("y, z = Split<split=[2,3]>(x)", 12, 2, inputs="float[5] x", outputs="float[2] y, float[3] z")


def test_equal_parts_are_numbered_at_18():
    io = {"inputs": "float[N,4] x", "outputs": "float[N,2] y, float[N,2] z"}
    check("y, z = Split<axis=1>(x)", 17, "y, z = Split<axis=1, num_outputs=2>(x)", 18, **io)
    check("y, z = Split<axis=1, num_outputs=2>(x)", 18, "y, z = Split<axis=1>(x)", 17, **io)
    check_unchanged("y, z = Split<axis=1>(x, s)", 13, 28, constants=bounds(s=[2, 2]), **io)


@pytest.mark.parametrize("axis", [1, -1])
def test_empty_parts_get_sizes_at_18(axis):
    """onnxruntime refuses to number the parts of nothing."""
    io = {"inputs": "float[N,0] x", "outputs": "float[N,0] y, float[N,0] z"}
    check(f"y, z = Split<axis={axis}>(x)", 13, f"y, z = Split<axis={axis}>(x, [0, 0])", 18, **io)
    one = {"inputs": "float[0] x", "outputs": "float[0] y"}
    check("y = Split(x)", 16, "y = Split(x, [0])", 18, **one)


def test_omitted_sizes_go_where_the_parts_are_numbered():
    """onnxruntime takes num_outputs beside a name for an input, an empty one included."""
    io = {"inputs": "float[4] x", "outputs": "float[2] y, float[2] z, float[1] a, float[1] b"}
    after = "y, z = Split<num_outputs=2>(x)\nt1, t2 = Split<num_outputs=2>(z)\na, b = Split<num_outputs=2>(y)"
    text = 'y, z = Split(x, "")\n c, d = Split(z, "")\n a, b = Split(y, "")'
    made = check(text, 13, after, 18, **io)
    assert [len(n.input) for n in made.graph.node] == [1, 1, 1]


def test_unequal_parts_get_sizes_below_18():
    check(
        "y, z = Split<axis=-1, num_outputs=2>(x)",
        18,
        "y, z = Split<axis=-1>(x, [3, 2])",
        17,
        inputs="float[N,5] x",
        outputs="float[N,3] y, float[N,2] z",
    )


@pytest.mark.parametrize(
    ("size", "sizes"), [(5, [2, 2, 1, 0]), (9, [3, 3, 3, 0]), (3, [1, 1, 1, 0]), (0, [0, 0, 0, 0])]
)
@pytest.mark.parametrize("known", [True, False])
def test_the_last_parts_are_empty_where_nothing_is_left_for_them(size, sizes, known):
    """onnx.reference leaves them empty; onnxruntime refuses to run the node as it was."""
    x = np.arange(size, dtype=np.float32)
    check_computes(
        "a, b, c, d = Split<num_outputs=4>(x)",
        18,
        17,
        np.split(x, np.cumsum(sizes)[:-1]),
        inputs=f"float[{size if known else 'N'}] x",
        outputs="float[A] a, float[B] b, float[C] c, float[D] d",
        feeds={"x": x},
    )


@pytest.mark.parametrize("size", [0, 3, 4])
def test_parts_of_a_size_known_at_run_time(size):
    sizes = """t1 = Shape(x)
        t2 = Gather(t1, 0)
        t3 = Add(t2, 1)
        t4 = Div(t3, 2)
        t5 = Mul(t4, [0, 1])
        t6 = Sub(t2, t5)
        t7 = Max(t6, 0)
        t8 = Min(t7, t4)
        y, z = Split(x, t8)"""
    check(
        "y, z = Split<num_outputs=2>(x)",
        18,
        sizes,
        17,
        inputs="float[N] x",
        outputs="float[A] y, float[B] z",
        feeds={"x": np.arange(size, dtype=np.float32)},
    )


def test_sizes_in_a_branch():
    """The sizes are held by the outer graph."""
    body = """y = If(c) <then_branch = t () => (float[N,2] a) { a, b = Split<axis=1>(x, s) },
                         else_branch = e () => (float[N,2] d) { e, d = Split<axis=1>(x, r) }>"""
    after = "y = If<else_branch={ t1, t2 = Split<axis=1, split=[3, 2]>(x); t2 }, "
    after += "then_branch={ t1, t2 = Split<axis=1, split=[2, 3]>(x); t1 }>(c)"
    io = {
        "inputs": "float[N,5] x, bool c",
        "outputs": "float[N,2] y",
        "constants": bounds(s=[2, 3], r=[3, 2]),
    }
    for taken in (True, False):
        check(body, 13, after, 12, feeds={"c": np.array(taken)}, **io)


FLOATS = np.array([[0.0, -0.0, np.inf], [np.nan, -1.5, 2.0]], np.float32)
INTS = np.array([[0, -1, 2], [127, -128, 5]])


def test_the_axis_of_a_split_is_told_by_the_shapes():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,1] y, float[2,2] z"}
    expected = [FLOATS[:, :1], FLOATS[:, 1:]]
    after = "y, z = Split<axis=1, split=[1, 2]>(x)"
    check_legacy("y, z = Split<split=[1,2]>(x)", 1, after, 2, {"x": FLOATS}, expected, **io)
    held = "float[2] s = {1, 2}"
    check_legacy("y, z = Split(x, s)", 1, after, 2, {"x": FLOATS}, expected, constants=held, **io)
    check_refused(
        "y, z = Split(x)", 1, 2, "axis is missing", inputs="float[N,N] x", outputs="float[A,B] y, float[A,B] z"
    )
    io["inputs"] += ", float[2] s"
    check_refused("y, z = Split(x, s)", 1, 2, "supported: constant sizes", **io)


def test_integers_are_split_as_doubles_and_the_axis_is_written_out():
    after = """t1 = Cast<to=DOUBLE>(x)
        t2, t3 = Split<axis=0>(t1)
        y = Cast<to=INT32>(t2)
        z = Cast<to=INT32>(t3)"""
    io = {"inputs": "int32[2,3] x", "outputs": "int32[1,3] y, int32[1,3] z"}
    x = INTS.astype(np.int32)
    check_legacy("y, z = Split(x)", 2, after, 1, {"x": x}, [x[:1], x[1:]], **io)
