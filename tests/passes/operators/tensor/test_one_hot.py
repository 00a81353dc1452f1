"""OneHot: negative classes, and before it existed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert
from opshift.passes.errors import Refused

import opshift
from tests.support import check, check_down, check_refused, check_unchanged, evaluate, model

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


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("depth", ["int64 d = {4}", ""])
def test_one_hot_below_9(axis, depth):
    given = "int64[2,3] i, float[2] v" + ("" if depth else ", int64 d")
    feeds = {"i": np.array([[0, 3, 7], [1, 2, 4]]), "v": np.array([INF, NAN], np.float32)}
    feeds.update({} if depth else {"d": np.array(4)})
    io = {"inputs": given, "outputs": "float[A,B,C] y", "constants": depth}
    check_down(f"y = OneHot<axis={axis}>(i, d, v)", 9, 8, 7, feeds=feeds, **io)


def test_one_hot_of_one_index_and_of_negative_ones():
    feeds = {"i": np.array(-2), "d": np.array(4)}
    check_down(
        "y = OneHot(i, d, v)", 11, 10, 8, feeds=feeds, inputs="int64 i, float[2] v, int64 d", outputs="float[A] y"
    )


@pytest.mark.parametrize("depth", ["int64[1] d", "int64[K] d", "int32[1] d"])
@pytest.mark.parametrize(("index", "on"), [(-2, [2]), (1, [1]), (4, []), (-5, [])])
def test_one_index_is_no_vector_beside_a_depth_that_is_one(depth, index, on):
    """By the text: no engine runs the source."""
    source = model("y = OneHot(i, d, v)", 11, inputs=f"int64 i, float[2] v, {depth}", outputs="float[A] y")
    feeds = {"i": np.array(index), "d": np.array([4], depth.split("[")[0]), "v": np.array([INF, NAN], np.float32)}
    (found,) = evaluate(opshift.convert_version(source, 8), feeds)
    np.testing.assert_array_equal(found, np.array([NAN if k in on else INF for k in range(4)], np.float32))


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_a_negative_depth_is_refused(kind):
    io = {"inputs": "int64[2] i, float[2] v", "outputs": "float[2,N] y", "constants": f"{kind} d = {{-1}}"}
    why = "the depth is -1; supported: 0 or more"
    check_refused("y = OneHot(i, d, v)", 9, 8, why, **io)
    with pytest.raises(Refused, match=why):
        opshift.inline(model("y = OneHot(i, d, v)", 18, **io), ["OneHot"])


@pytest.mark.parametrize("depth", ["int64 d = {3}", ""])
@pytest.mark.parametrize(("kind", "on"), [(np.uint64, [2]), (np.int64, [0, 2])])
def test_what_unsigned_64_bits_hold_beyond_int64_is_no_class(depth: str, kind: type[np.generic], on: list[int]):
    """The largest of uint64 has the bits of -1 in int64, which is the last class there."""
    i = np.array([-1, 3, 1]).astype(kind)
    given = f"{kind.__name__}[3] i, float[2] v" + ("" if depth else ", int64 d")
    source = model("y = OneHot(i, d, v)", 21, inputs=given, outputs="float[3,D] y", constants=depth)
    inlined = opshift.inline(source, ["OneHot"])
    assert "OneHot" not in [node.op_type for node in inlined.graph.node]
    feeds = {"i": i, "v": np.array([-1, 2], np.float32)} | ({} if depth else {"d": np.array(3)})
    (found,) = evaluate(inlined, feeds)
    assert [row for row in range(3) if 2 in found[row]] == on
    assert found[2].tolist() == [-1, 2, -1]


@pytest.mark.parametrize("target", ["inline", 8])
def test_more_places_than_a_constant_should_list_are_counted_when_the_model_runs(target: str | int):
    io = {"inputs": "int64[2] i, float[2] v", "outputs": "float[2,N] y", "constants": f"int64 d = {{{2**63 - 1}}}"}
    source = model("y = OneHot(i, d, v)", 9 if target == 8 else 18, **io)
    made = opshift.inline(source, ["OneHot"]) if target == "inline" else convert.attempt(source, {"": target}).model
    assert made.ByteSize() < 10_000
    assert "OneHot" not in [node.op_type for node in made.graph.node]
