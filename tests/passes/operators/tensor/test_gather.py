"""Indices of Gather and its kin counted from the front, batches of GatherND, and what they become."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, model

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


PICKS = [
    (0, "2,3", [[1, -1, 0], [2, 2, -3]]),
    (1, "3,2", [[1, -1], [0, 0], [2, 1]]),
    (-1, "2,2", [[1, -1], [0, 2]]),
    (0, "0,3", np.zeros([0, 3], np.int64)),
]


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize(("axis", "taken", "indices"), PICKS)
def test_gather_elements_below_11(axis, taken, indices, shape):
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i", "outputs": "float[A,B] y"}
    check_down(f"y = GatherElements<axis={axis}>(x, i)", 11, 10, 9, 8, 7, feeds={"i": np.array(indices)}, **io)


def test_gather_elements_of_a_vector_is_gather():
    io = {"inputs": "float[5] x", "outputs": "float[2] y", "constants": "int64[2] i = {4, -2}"}
    check("y = GatherElements(x, i)", 11, "y = Gather<axis=0>(x, [4, 3])", 10, **io)


@pytest.mark.parametrize("shape", ["2,3,4", "N,M,K"])
@pytest.mark.parametrize(
    "indices",
    [[[1], [-1]], [[[1, 0], [0, -1]], [[0, 1], [1, 1]]], [[1, 2, -1]], [1, -2], [-2], np.zeros([0, 2], np.int64)],
)
def test_gather_nd_and_scatter_nd_below_11(indices, shape):
    indices = np.array(indices)
    taken = ",".join(map(str, indices.shape))
    updates = (*indices.shape[:-1], *(2, 3, 4)[indices.shape[-1] :])
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "i": indices}
    result = f"float[{','.join('ABCDE'[: len(updates)])}]"
    result = result if updates else "float"
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i"}
    check_down("y = GatherND(x, i)", 11, 10, 8, feeds=feeds, outputs=f"{result} y", **io)
    given = f"float[{','.join(map(str, updates))}] u" if updates else "float u"
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i, {given}", "outputs": f"float[{shape}] y"}
    check_down("y = ScatterND(x, i, u)", 11, 10, 9, feeds=feeds, **io)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("op", "shape", "indices", "updates"),
    [
        ("GatherND", (2, 3, 0), (5, 2), None),
        ("GatherND", (2, 3, 4, 0), (5, 2), None),
        ("GatherND", (2, 3, 0, 4), (5, 2), None),
        ("GatherND", (2, 3, 4), (0, 2), None),
        ("ScatterND", (2, 3, 0), (5, 2), (5, 0)),
        ("ScatterND", (2, 3, 0), (5, 1), (5, 3, 0)),
        ("ScatterND", (2, 3, 4), (0, 2), (0, 4)),
        ("ScatterND", (2, 3), (1, 2), (1,)),
    ],
)
def test_slices_of_nothing(op, shape, indices, updates, known):
    def dims(of, letters):
        return ",".join(map(str, of) if known else letters[: len(of)])

    last = f"{dims(indices[:-1], 'IJ')},{indices[-1]}".lstrip(",")
    inputs, names = f"float[{dims(shape, 'ABCD')}] x, int64[{last}] i", "x, i"
    feeds = {"x": np.ones(shape, np.float32), "i": np.zeros(indices, np.int64)}
    if updates is not None:
        inputs, names = f"{inputs}, float[{dims(updates, 'UVW')}] u", "x, i, u"
        feeds["u"] = np.full(updates, 7, np.float32)
    rank = len(shape) if updates is not None else len(indices) - 1 + len(shape) - indices[-1]
    io = {"inputs": inputs, "outputs": f"float[{','.join('PQRST'[:rank])}] y"}
    check_down(f"y = {op}({names})", 12, 10, 9, feeds=feeds, **io)


@pytest.mark.parametrize(
    ("op", "opset", "indices"),
    [
        ("Gather<axis=1>", 11, [-4, 0]),
        ("GatherElements<axis=1>", 11, [3, 0]),
        ("GatherElements<axis=1>", 11, [0, -4]),
        ("GatherND", 11, [0, 3]),
        ("GatherND", 11, [-3, 0]),
        ("ScatterElements<axis=1>", 11, [-4, 0]),
        ("ScatterND", 11, [0, 3]),
        ("Scatter<axis=1>", 9, [3, 0]),
    ],
)
def test_indices_outside_the_data_name_no_other_element(op, opset, indices):
    """Engines refuse them as well, but only those that are known can be told."""
    updates = ", float[1,2] u = {1, 2}" if op.startswith("Scatter<") or "Elements" in op else ", float[1] u = {1}"
    call = f"y = {op}(x, i{', u' if 'Scatter' in op else ''})"
    io = {"inputs": "float[2,3] x", "constants": f"int64[1,2] i = {{{indices[0]}, {indices[1]}}}{updates}"}
    rank = {"GatherND": "P", "Gather<axis=1>": "P,Q,R"}.get(op, "P,Q")
    check_refused(call, opset, opset - 1, "is out of range", outputs=f"float[{rank}] y", **io)
    check_refused(call, opset, 7, "is out of range", outputs=f"float[{rank}] y", **io)
