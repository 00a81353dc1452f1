"""The scatter family: renamed, combined, and before it existed."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.passes.operators.tensor.test_gather import PICKS
from tests.support import check, check_down, check_refused, check_unchanged, check_values, model, show

IO = {"inputs": "float[3,3] x, float[2,3] u", "outputs": "float[3,3] y"}
DISTINCT = "int64[2,3] i = {1, 0, 2, 0, 2, -2}"
REPEATED = "int64[2,3] i = {1, 0, -1, 0, 2, 2}"
REDUCTIONS = [("add", 15), ("mul", 15), ("max", 17), ("min", 17), ("max", 13), ("add", 11)]


def test_scatter_becomes_scatter_elements_at_11():
    io = {**IO, "constants": DISTINCT.replace("-2", "1")}
    after = "y = ScatterElements<axis=0>(x, [[1, 0, 2], [0, 2, 1]], u)"
    check("y = Scatter<axis=0>(x, i, u)", 9, after, 18, **io)
    check_unchanged("y = Scatter<axis=0>(x, i, u)", 9, 10, **io)


def test_no_reduction_needs_nothing():
    check_unchanged("y = ScatterElements<axis=1>(x, i, u)", 18, 11, constants=DISTINCT, **IO)
    after = "y = ScatterElements(x, [[1, 0, 2], [0, 2, -2]], u)"
    check('y = ScatterElements<reduction="none">(x, i, u)', 18, after, 15, constants=DISTINCT, **IO)
    check_unchanged('y = ScatterElements<reduction="add">(x, i, u)', 18, 16, constants=DISTINCT, **IO)


def test_unknown_reductions_are_refused():
    check_refused('y = ScatterElements<reduction="sub">(x, i, u)', 18, 17, "reduction=sub", constants=DISTINCT, **IO)


@pytest.mark.parametrize(("reduction", "target"), REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -2, 1])
@pytest.mark.parametrize("indices", [DISTINCT, REPEATED])
def test_elements_are_combined_before_they_are_scattered(reduction, target, axis, indices):
    body = f'y = ScatterElements<reduction="{reduction}", axis={axis}>(x, i, u)'
    source = model(body, 18, constants=indices, **IO)
    result = convert.attempt(source, {"": target})
    repeated = indices == REPEATED
    assert ("Loop" in show(result.model)) == repeated
    assert result.grade == ("close" if repeated or reduction in ("max", "min") else "exact")
    for seed in range(3):
        drawn = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
        check_values(source, result.model, {"x": drawn[:3], "u": drawn[3:]}, rtol=1e-6, atol=0)
    if reduction in ("add", "mul"):  # runtimes differ on the maximum of NaN
        check_values(source, result.model, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("reduction", "target"), REDUCTIONS[:5])
@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        ("{0, 2}", "int64[2,1] i = {0, 2}"),
        ("{0, -3}", "int64[2,1] i = {0, -3}"),
        ("runtime", ""),
    ],
)
def test_slices_are_combined_before_they_are_scattered(reduction, target, indices, shape):
    inputs = IO["inputs"] + (", int64[2,1] i" if not shape else "")
    body = f'y = ScatterND<reduction="{reduction}">(x, i, u)'
    source = model(body, 18, inputs=inputs, outputs=IO["outputs"], constants=shape)
    made = convert.attempt(source, {"": target}).model
    assert ("Loop" in show(made)) == (indices != "{0, 2}")
    for given in ([0, 1], [2, 2], [-1, 2]):
        feeds = {"i": np.array(given).reshape(2, 1), "x": POINTS["x"].reshape(3, 3)}
        check_values(source, made, feeds | {"u": -feeds["x"][1:]}, rtol=1e-6, atol=0)


def test_elements_by_tuples_of_indices():
    io = {"inputs": "int64[2,3] x, int64[2,2] u, int64[2,2,2] i", "outputs": "int64[2,3] y"}
    source = model('y = ScatterND<reduction="add">(x, i, u)', 18, **io)
    made = convert.attempt(source, {"": 13}).model
    given = {"i": np.array([[[0, 1], [1, 2]], [[0, 1], [-1, -1]]])}
    check_values(source, made, given, rtol=0, atol=0)
    assert convert.attempt(source, {"": 13}).grade == "exact"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("indices", [(2, 1), (0, 1), (2, 1, 1), (2, 0, 1), (0, 3, 1), (1,)])
@pytest.mark.parametrize("data", [(3, 2), (3, 0), (3, 0, 2), (3,)])
def test_what_has_no_element_is_combined(data, indices, known):
    given = {
        "x": np.arange(np.prod(data), dtype=np.float32).reshape(data),
        "i": np.ones(indices, np.int64),
        "u": np.full(indices[:-1] + data[1:], 7, np.float32),
    }
    dims = {name: value.shape if known else [f"{name}{k}" for k in range(value.ndim)] for name, value in given.items()}
    types = {"x": "float", "i": "int64", "u": "float"}
    inputs = ", ".join(f"{types[name]}[{','.join(map(str, dims[name]))}] {name}" for name in given).replace("[]", "")
    io = {"inputs": inputs, "outputs": inputs.split(" ")[0] + " y"}
    check_down('y = ScatterND<reduction="max">(x, i, u)', 18, 17, 13, 11, feeds=given, grade="close", **io)


@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
@pytest.mark.parametrize(("op", "indices"), [("ScatterND", "3,1"), ("ScatterElements", "3")])
def test_a_loop_below_16_carries_no_bfloat16(op, indices, reduction):
    io = {"inputs": f"float[4] x, int64[{indices}] i, float[3] u", "outputs": "float[4] y"}
    text = f'b = Cast<to=16>(x) w = Cast<to=16>(u) z = {op}<reduction="{reduction}">(b, i, w) y = Cast<to=1>(z)'
    source = model(text, 18, **io)
    made = convert.attempt(source, {"": 13}).model
    onnx.checker.check_model(made, full_check=True)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "go"))
    for node in (node for node in made.graph.node if node.op_type == "Loop"):
        node.input[1] = "go"  # onnx.reference makes no round of a Loop without a condition
    given = {"x": np.float32([1, 2, 3, 4]), "u": np.float32([1.5, 3, -2]), "i": np.array([1, 1, 3])}
    given["i"] = given["i"].reshape([int(size) for size in indices.split(",")])
    numpy_form = {"add": np.add, "mul": np.multiply, "max": np.maximum}[reduction]
    expected = given["x"].copy()
    numpy_form.at(expected, given["i"].reshape(-1), given["u"])
    np.testing.assert_array_equal(Reference(made).run(given)[0], expected)  # these numbers are exact in bfloat16


POINTS = {
    "x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3),
    "g": np.float32([[[[-1.2, 0], [0.3, 1]], [[0, 0], [1, -0.4]]]]),
}


@pytest.mark.parametrize("shape", ["3,4", "N,M"])
def test_updates_of_one_element_are_combined_below_11(shape):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    io = {"inputs": f"float[{shape}] x, int64[3,3] i, float[3,3] u", "outputs": "float[A,B] y"}
    feeds = {"x": x, "i": np.array([[0, 0, 1], [-1, 3, 2], [1, 1, 1]])}
    check_down('y = ScatterElements<axis=1, reduction="mul">(x, i, u)', 18, 10, 9, feeds=feeds, grade="close", **io)
    io = {"inputs": f"float[{shape}] x, int64[3,1] i, float[3,4] u", "outputs": "float[A,B] y"}
    feeds = {"x": x, "i": np.array([[0], [2], [-3]])}
    check_down('y = ScatterND<reduction="max">(x, i, u)', 18, 10, 9, feeds=feeds, grade="close", **io)


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize(("axis", "taken", "indices"), PICKS)
def test_scatter_elements_below_11(axis, taken, indices, shape):
    io = {"inputs": f"float[{shape}] x, int64[{taken}] i, float[{taken}] u", "outputs": "float[A,B] y"}
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 10, 9, feeds={"i": np.array(indices)}, **io)


def test_constant_places_are_scattered_to_below_9():
    io = {"inputs": "float[2,3] x, float[2,2] u", "outputs": "float[2,3] y"}
    io["constants"] = "int64[2,2] i = {0, -1, 1, 2}"
    shown = show(check_down("y = ScatterElements<axis=1>(x, i, u)", 11, 10, 8, 7, **io))
    assert [line.split(" = ")[1].split("(")[0] for line in shown.splitlines()] == [
        *("Reshape", "Reshape", "Concat<axis=0>", "Gather<axis=0>")
    ]


def test_places_from_the_front_on_stay_below_11():
    io = {"inputs": "float[N] x, float[2] u", "outputs": "float[N] y", "constants": "int64[2] i = {0, 2}"}
    check("y = ScatterElements(x, i, u)", 11, "y = Scatter(x, [0, 2], u)", 10, **io)


@pytest.mark.parametrize("shape", ["3,3", "N,M"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("axis", "indices"),
    [
        (0, [[1, -1, 0], [2, 2, -3]]),
        (1, [[1, -1], [0, 0], [2, 1]]),  # one element twice: runtimes let the later one win
        (-1, [[1, -1], [0, 2]]),
        (0, [[-2]]),
        (0, np.zeros([0, 3])),
        (1, np.zeros([2, 0])),
    ],
)
def test_run_time_places_are_found_by_a_loop_below_9(axis, indices, kind, shape):
    indices = np.array(indices).astype(kind)
    taken = ",".join(map(str, indices.shape))
    io = {"inputs": f"float[{shape}] x, {kind}[{taken}] i, float[{taken}] u", "outputs": f"float[{shape}] y"}
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 8, 7, feeds={"i": indices}, **io)
    io["inputs"] = io["inputs"].replace(taken, "P,Q")
    updates = np.arange(indices.size, dtype=np.float32).reshape(indices.shape)
    check_down(f"y = ScatterElements<axis={axis}>(x, i, u)", 11, 8, feeds={"i": indices, "u": updates}, **io)


@pytest.mark.parametrize("kind", ["string", "double", "bool", "uint8"])
def test_any_type_is_scattered_below_9(kind):
    io = {"inputs": f"{kind}[5] x, int64[2] i, {kind}[2] u", "outputs": f"{kind}[5] y"}
    check_down("y = Scatter(x, i, u)", 9, 8, 7, feeds={"i": np.array([4, 1])}, **io)
    io = {"inputs": f"{kind}[1,1,4] x, int64[1,1,2] i, {kind}[1,1,2] u", "outputs": f"{kind}[1,1,4] y"}
    check_down("y = Scatter<axis=2>(x, i, u)", 9, 8, 7, feeds={"i": np.array([[[3, 0]]])}, **io)


def test_places_that_are_never_negative_are_taken_as_they_are_below_9():
    io = {"inputs": "float[5] x, float[5] z, float[1] u", "outputs": "float[5] y"}
    made = check_down("i = ArgMax<axis=0>(z) y = Scatter(x, i, u)", 9, 8, 7, **io)
    assert "Less" not in {node.op_type for node in made.graph.node}


def test_scattering_into_data_of_unknown_rank_is_refused_below_9():
    io = {"inputs": "float[2,3] x, int64[P] s, int64[2,2] i, float[2,2] u", "outputs": "float[A,B] y"}
    check_refused("d = Reshape(x, s) y = Scatter(d, i, u)", 9, 8, 'the rank of "d" is unknown', **io)


@pytest.mark.parametrize("sizes", [("2,0", "1,0"), ("M,N", "K,L"), ("2,N", "1,N"), ("1,0", "1,0")])
def test_nothing_is_scattered_into_what_is_empty(sizes):
    rows = 1 if sizes[0][0] == "1" else 2
    io = {"inputs": f"float[{sizes[0]}] x, int64[{sizes[1]}] i, float[{sizes[1]}] u", "outputs": f"float[{sizes[0]}] y"}
    x, i, u = np.zeros((rows, 0), np.float32), np.zeros((1, 0), np.int64), np.zeros((1, 0), np.float32)
    check_down("y = Scatter(x, i, u)", 9, 8, 7, feeds={"x": x, "i": i, "u": u}, **io)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(
    ("cache", "update", "axis"),
    [("2,3,4,5", "2,3,2,5", ""), ("2,4,5", "2,2,5", ", axis=1"), ("2,4,5", "2,4,3", ", axis=-1")],
)
def test_tensor_scatter_below_24(mode, cache, update, axis):
    body = f'y = TensorScatter<mode="{mode}"{axis}>(p, u, w)'
    feeds = {"w": np.array([1, 2] if mode == "linear" else [3, 1])}
    io = {"inputs": f"float[{cache}] p, float[{update}] u, int64[2] w", "outputs": f"float[{cache}] y"}
    check_down(body, 24, 23, 17, 13, feeds=feeds, **io)
    rank = cache.count(",") + 1
    p, u = (np.arange(np.prod(dims), dtype=np.float32).reshape(dims) for dims in (eval(cache), eval(update)))
    symbols = [",".join(letters[:rank]) for letters in ("ABCD", "EFGH")]
    io = {"inputs": f"float[{symbols[0]}] p, float[{symbols[1]}] u", "outputs": f"float[{symbols[0]}] y"}
    check_down(body.replace(", w", ""), 24, 23, 17, feeds={"p": p, "u": -u}, **io)


@pytest.mark.parametrize("reduction", ["add", "mul"])
@pytest.mark.parametrize("indices", ["int64[1,2] i", ""])
def test_truths_are_combined_as_truths(reduction, indices):
    feeds = {"x": np.array([[True, False]]), "u": np.array([[False, True]])}
    held = "" if indices else "int64[1,2] i = {1, 0}"
    check_down(
        f'y = ScatterElements<axis=1, reduction="{reduction}">(x, i, u)', 16, 15, 11, 10,
        feeds=feeds | ({"i": np.array([[1, 1]])} if indices else {}), constants=held,
        inputs=", ".join(filter(None, ["bool[1,2] x", indices, "bool[1,2] u"])), outputs="bool[1,2] y",
    )  # fmt: skip


@pytest.mark.newest  # older kernels end the process
@pytest.mark.parametrize(("dims", "refused"), [("2,0", True), ("0,0", False), ("0", False), ("1,0", False)])
def test_slices_that_are_the_whole(dims, refused):
    shape = [*map(int, dims.split(","))][:-1]
    updates = ",".join(map(str, [*shape, 2, 3]))
    source = model(
        'y = ScatterND<reduction="add">(x, i, u)', 18, inputs=f"float[2,3] x, float[{updates}] u", outputs="float[2,3] y",
        constants=f"int64[{dims}] i = {{}}",
    )  # fmt: skip
    result = convert.attempt(source, {"": 15})
    assert (result.model is None) is refused
    if not refused:
        feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "u": np.ones([*shape, 2, 3], np.float32)}
        check_values(source, result.model, feeds, rtol=0, atol=0)


KINDS = ["float4e2m1", "int4", "uint4", "float8e5m2"]


@pytest.mark.newest
@pytest.mark.parametrize(
    ("kind", "target"), [*((kind, to) for kind in KINDS for to in (23, None)), ("float8e8m0", None)]
)
def test_what_scatter_elements_does_not_take_is_scattered_as_something_else(kind, target):
    io = {"inputs": f"{kind}[1,3,2] p, {kind}[1,2,2] u", "outputs": f"{kind}[1,3,2] y"}
    source = model("y = TensorScatter(p, u)", 24, **io)
    after = convert.attempt(source, {"": target} if target else {}, ops=[("", "TensorScatter")]).model
    onnx.checker.check_model(after, full_check=True)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    feeds = {"p": np.array([[[1, 2], [4, 2], [1, 1]]]).astype(dtype), "u": np.array([[[2, 4], [1, 2]]]).astype(dtype)}
    made = Reference(after).run(feeds)[0]
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.astype(np.float32), [[[2, 4], [1, 2], [1, 1]]])


@pytest.mark.parametrize("shape", ["[2,2,2]", "[2]"])
@pytest.mark.parametrize("dims", ["0,2", "A,2"])
def test_indices_of_another_rank_than_the_data_are_refused(shape, dims):
    io = {"inputs": f"float{shape} x, int64[{dims}] i, float[{dims}] u", "outputs": f"float{shape} y"}
    source = model('y = ScatterElements<reduction="mul">(x, i, u)', 18, **io)
    onnx.checker.check_model(source, full_check=True)
    (refusal,) = convert.attempt(source, {"": 18}, ops=[("", "ScatterElements")]).refusals
    assert "the indices have rank 2, and the data has rank" in refusal.why
    for body, target in (
        ('y = ScatterElements<reduction="mul">(x, i, u)', 15),
        ("y = ScatterElements(x, i, u)", 8),
        ("y = GatherElements(x, i)", 10),
    ):
        check_refused(body, 18, target, "the indices have rank 2, and the data has rank", **io)
