"""Gather and its relatives: indices that count from the back."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, model

PICK = {"inputs": "float[N,3] x, int64[2] i", "outputs": "float[N,2] y"}
BOTH_SIGNS = {"feeds": {"i": np.array([-3, 2])}}


def test_indices_that_cannot_be_negative_stay():
    check_unchanged(
        "y = Gather<axis=1>(x, i)",
        28,
        7,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
        constants="int64[2] i = {2, 0}",
    )
    check_unchanged(
        "s = Shape(x) i = Identity(s) y = Gather<axis=1>(x, i)",
        11,
        7,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
    )


@pytest.mark.parametrize(("indices", "counted"), [("Cast<to=7>(u)", False), ("Cast<to=7>(i)", True), ("Neg(s)", True)])
def test_indices_that_may_be_negative_are_counted(indices, counted):
    body = f"s = Shape(x) n = {indices} y = Gather<axis=0>(x, n)"
    source = model(body, 11, inputs="float[N] x, uint8[1] u, int32[1] i", outputs="float[1] y")
    after = convert.attempt(source, {"": 10}).model
    assert (len(after.graph.node) > len(source.graph.node)) == counted


@pytest.mark.parametrize("elem_type", ["int64", "int32"])
def test_constant_indices_are_counted_from_the_front_below_11(elem_type):
    shown = "[2, 0]" if elem_type == "int64" else "int32:[2, 0]"
    check(
        "y = Gather<axis=1>(x, i)",
        11,
        f"y = Gather<axis=1>(x, {shown})",
        10,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
        constants=f"{elem_type}[2] i = {{-1, 0}}",
    )


def test_indices_are_counted_from_the_front_at_run_time_below_11():
    counted = """t1 = Cast<to=1>(i)
        t2 = Less(t1, 0.0)
        t3 = Cast<to=7>(t2)
        t4 = Mul(t3, 3)
        t5 = Add(i, t4)
        y = Gather<axis=1>(x, t5)"""
    check("y = Gather<axis=1>(x, i)", 11, counted, 10, **PICK, **BOTH_SIGNS)


def test_the_size_of_the_axis_is_read_at_run_time():
    counted = """t1 = Shape(x)
        t2 = Gather(t1, 0)
        t3 = Cast<to=6>(t2)
        t4 = Cast<to=1>(i)
        t5 = Less(t4, 0.0)
        t6 = Cast<to=6>(t5)
        t7 = Mul(t6, t3)
        t8 = Add(i, t7)
        y = Gather(x, t8)"""
    check(
        "y = Gather(x, i)",
        11,
        counted,
        10,
        inputs="float[N,3] x, int32[2,1] i",
        outputs="float[2,1,3] y",
        feeds={"i": np.array([[-3], [2]], np.int32)},
    )


GATHER_ND = {"inputs": "float[A,B,C] x, int64[A,D,1] i", "outputs": "float[A,D,C] y"}


@pytest.mark.parametrize("batch", [0, 2, 3])
def test_indices_get_their_place_in_the_batch_below_12(batch):
    x = np.arange(batch * 12, dtype=np.float32).reshape(batch, 3, 4)
    i = np.resize([1, 0, -1], (batch, 2, 1))
    places = """t1 = Shape(i)
        t2 = Slice(t1, [0], [-1], [0])
        t3 = Concat<axis=0>(t2, [1])
        t4 = Slice(t2, [0], [1], [0])
        t5 = ConstantOfShape<value=[1]>(t4)
        t6 = NonZero(t5)
        t7 = Squeeze<axes=[0]>(t6)
        t8 = Unsqueeze<axes=[1, 2]>(t7)
        t9 = Expand(t8, t3)
        t10 = Concat<axis=2>(t9, i)
        y = GatherND(x, t10)"""
    check("y = GatherND<batch_dims=1>(x, i)", 12, places, 11, feeds={"x": x, "i": i}, **GATHER_ND)


def test_two_batch_axes():
    source = model(
        "y = GatherND<batch_dims=2>(x, i)",
        12,
        inputs="float[2,3,4] x, int64[2,3,1] i",
        outputs="float[2,3] y",
    )
    after = convert.attempt(source, {"": 11}).model
    feeds = {
        "x": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "i": np.array([[[3], [0], [-1]], [[1], [2], [0]]]),
    }
    check_values(source, after, feeds, rtol=0, atol=0)


def test_no_batch():
    check(
        "y = GatherND<batch_dims=0>(x, i)",
        12,
        "y = GatherND(x, i)",
        11,
        inputs="float[2,3] x, int64[1,2] i",
        outputs="float[1] y",
        feeds={"i": np.array([[1, -1]])},
    )
    check_refused(
        "y = GatherND<batch_dims=1>(x, i)",
        12,
        11,
        "the rank of",
        inputs="float[A,B] x, int64[] i",
        outputs="float[A] y",
    )


ONE_HOT = {
    "inputs": "int64[4] i",
    "outputs": "float[4,3] y",
    "constants": "int64[1] d = {3}, float[2] v = {-1, 2}",
}


def test_classes_are_counted_from_the_front_below_11():
    """-4 is below the range: it must not become -1, which runtimes would take for the last class."""
    counted = """t1 = Add(i, [3])
        t2 = Less(i, 0)
        t3 = Where(t2, t1, i)
        t4 = Less(t3, 0)
        t5 = Where(t4, [3], t3)
        y = OneHot(t5, [3], [-1.0, 2.0])"""
    check("y = OneHot(i, d, v)", 11, counted, 10, feeds={"i": np.array([-3, -4, 1, 3])}, **ONE_HOT)


def test_classes_of_other_types_are_cast_to_int64_first():
    counted = """t1 = Cast<to=7>(i)
        t2 = Add(t1, d)
        t3 = Less(t1, 0)
        t4 = Where(t3, t2, t1)
        t5 = Less(t4, 0)
        t6 = Where(t5, d, t4)
        y = OneHot(t6, d, [0, 1])"""
    io = {"inputs": "float[4] i, int64 d", "outputs": "int64[4,D] y", "constants": "int64[2] v = {0, 1}"}
    feeds = {"i": np.array([0.0, -1.0, 2.0, -4.0], np.float32), "d": np.array(3)}
    check("y = OneHot(i, d, v)", 11, counted, 10, feeds=feeds, **io)


def test_classes_that_cannot_be_negative_stay():
    io = {
        **ONE_HOT,
        "inputs": "float[4] x",
        "constants": ONE_HOT["constants"] + ", int64[4] i = {0, 2, 1, 3}",
    }
    check_unchanged("y = OneHot(i, d, v)", 27, 9, **io)
    check_unchanged("y = OneHot(i, d, v)", 9, 28, **ONE_HOT)
    check_unchanged("y = OneHot(i, d, v)", 11, 10, **{**ONE_HOT, "inputs": "uint8[4] i"})


def test_a_cast_to_a_small_type_may_turn_negative():
    io = {**ONE_HOT, "inputs": "uint8[4] u"}
    source = model("i = Cast<to=3>(u) y = OneHot(i, d, v)", 11, **io)
    after = convert.attempt(source, {"": 10}).model  # no engine takes int8: 255 is -1 here, the last class
    made = ["Cast", "Cast", "Add", "Less", "Where", "Less", "Where", "OneHot"]
    assert [n.op_type for n in after.graph.node] == made


def test_other_negative_axes_of_one_hot_are_counted_from_the_front():
    io = {**ONE_HOT, "inputs": "float[1] x", "outputs": "float[3,4] y"}
    io["constants"] += ", int64[4] i = {0, 2, 1, 3}"
    check("y = OneHot<axis=-2>(i, d, v)", 11, "y = OneHot<axis=0>([0, 2, 1, 3], [3], [-1.0, 2.0])", 10, **io)


def test_compress_along_a_negative_axis():
    io = {"inputs": "float[N,3] x, bool[2] c", "outputs": "float[N,D] y"}
    check("y = Compress<axis=-1>(x, c)", 11, "y = Compress<axis=1>(x, c)", 10, **io)
    check_unchanged("y = Compress(x, c)", 11, 9, inputs="float[N,3] x, bool[2] c", outputs="float[D] y")
