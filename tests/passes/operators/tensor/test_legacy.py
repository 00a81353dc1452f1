"""Tensor operators below opset 7, where no engine runs: values are compared after raising the result to opset 7."""

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_refused, check_unchanged, evaluate, model, show

FLOATS = np.array([[0.0, -0.0, np.inf], [np.nan, -1.5, 2.0]], np.float32)
INTS = np.array([[0, -1, 2], [127, -128, 5]])


def check_legacy(before, opset, after, target, feeds, expected, **io):
    """The nodes and, computed at opset 7, the values; at IR 4, so that constants are no inputs."""
    made = convert.attempt(model(before, opset, **io), {"": target}, ir_version=4)
    assert not made.refusals
    assert show(made.model) == "\n".join(line.strip() for line in after.splitlines())
    assert made.grade == "exact"
    onnx.checker.check_model(made.model)
    raised = convert.attempt(made.model, {"": 7})
    assert not raised.refusals
    for want, got in zip(expected, evaluate(raised.model, feeds), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "number"), [("INT32", 6), ("int32", 6), ("FLOAT16", 10), ("BOOL", 9)])
def test_the_type_of_a_cast_has_a_name_below_6(name, number):
    io = {"inputs": "double[3] x", "outputs": {6: "int32", 10: "float16", 9: "bool"}[number] + "[3] y"}
    x = np.array([0.0, -0.0, 3.0])
    expected = [x.astype({6: np.int32, 10: np.float16, 9: bool}[number])]
    check_legacy(f'y = Cast<to="{name}">(x)', 1, f"y = Cast<to={number}>(x)", 6, {"x": x}, expected, **io)
    check_legacy(f"y = Cast<to={number}>(x)", 6, f"y = Cast<to={name.upper()}>(x)", 1, {"x": x}, expected, **io)


def test_an_unknown_type_of_a_cast_is_refused():
    io = {"inputs": "float[3] x", "outputs": "int32[3] y"}
    check_refused('y = Cast<to="integer">(x)', 1, 6, "a name of TensorProto.DataType", **io)


def test_concat_was_along_axis_1():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,6] y"}
    expected = [np.concatenate([FLOATS, FLOATS], 1)]
    check_legacy("y = Concat(x, x)", 1, "y = Concat<axis=1>(x, x)", 4, {"x": FLOATS}, expected, **io)
    check_unchanged("y = Concat<axis=0>(x, x)", 1, 28, inputs="float[2,3] x", outputs="float[4,3] y")
    check_unchanged("y = Concat<axis=0>(x, x)", 28, 1, inputs="float[2,3] x", outputs="float[4,3] y")


@pytest.mark.parametrize("elem_type", ["int8", "int32", "bool"])
def test_small_integers_are_joined_as_doubles_below_4(elem_type):
    after = f"""t1 = Cast<to=DOUBLE>(x)
        t2 = Cast<to=DOUBLE>(x)
        t3 = Concat<axis=0>(t1, t2)
        y = Cast<to={elem_type.upper()}>(t3)"""
    x = INTS.astype(elem_type)
    io = {"inputs": f"{elem_type}[2,3] x", "outputs": f"{elem_type}[4,3] y"}
    check_legacy("y = Concat<axis=0>(x, x)", 4, after, 3, {"x": x}, [np.concatenate([x, x])], **io)


@pytest.mark.parametrize("elem_type", ["int64", "uint64", "string"])
def test_types_that_no_float_holds_are_refused(elem_type):
    io = {"inputs": f"{elem_type}[2] x", "outputs": f"{elem_type}[4] y"}
    check_refused("y = Concat<axis=0>(x, x)", 4, 3, f"tensor({elem_type})", **io)
    io["outputs"] = f"{elem_type}[2,1] y"
    check_refused("y = Reshape(x, s)", 5, 4, f"tensor({elem_type})", constants="int64[2] s = {2, 1}", **io)
    io["outputs"] = f"{elem_type}[1] y, {elem_type}[1] z"
    check_refused("y, z = Split<axis=0>(x)", 2, 1, f"tensor({elem_type})", **io)
    io["outputs"] = f"{elem_type}[4] y"
    check_refused("y = Tile(x, r)", 6, 3, f"tensor({elem_type})", constants="int64[1] r = {2}", **io)


RESHAPE = {"inputs": "float[2,3] x", "outputs": "float[3,2] y"}


def test_the_shape_moves_between_attribute_and_input_at_5():
    expected = [FLOATS.reshape(3, 2)]
    before = "y = Reshape<shape=[3,-1], consumed_inputs=[0]>(x)"
    check_legacy(before, 1, "y = Reshape(x, [3, -1])", 5, {"x": FLOATS}, expected, **RESHAPE)
    held = "int64[2] s = {3, -1}"
    after = "y = Reshape<shape=[3, -1]>(x)"
    check_legacy("y = Reshape(x, s)", 5, after, 4, {"x": FLOATS}, expected, constants=held, **RESHAPE)
    check_refused("y = Reshape(x)", 1, 5, "there is no shape", **RESHAPE)


def test_a_shape_known_at_run_time_is_read_from_the_result():
    for size, shape in (("N", [3, -1]), ("2", [3, 2])):
        io = {"inputs": "float[N,3] x, int64[2] s", "outputs": f"float[3,{size}] y"}
        after = f"y = Reshape<shape={shape}>(x)"
        check_legacy("y = Reshape(x, s)", 5, after, 4, {"x": FLOATS}, [FLOATS.reshape(3, 2)], **io)
    for outputs in ("float[M,N] y", "float[0,N] y"):
        check_refused("y = Reshape(x, s)", 5, 4, "known only at run time", **{**io, "outputs": outputs})


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
    check_refused("y, z = Split(x, s)", 1, 2, "constants could be expressed", **io)


def test_integers_are_split_as_doubles_and_the_axis_is_written_out():
    after = """t1 = Cast<to=DOUBLE>(x)
        t2, t3 = Split<axis=0>(t1)
        y = Cast<to=INT32>(t2)
        z = Cast<to=INT32>(t3)"""
    io = {"inputs": "int32[2,3] x", "outputs": "int32[1,3] y, int32[1,3] z"}
    x = INTS.astype(np.int32)
    check_legacy("y, z = Split(x)", 2, after, 1, {"x": x}, [x[:1], x[1:]], **io)


TILE = {"inputs": "float[2,3] x", "outputs": "float[A,B] y"}


@pytest.mark.parametrize(("axis", "repeats"), [(0, [2, 1]), (1, [1, 2])])
def test_copies_along_one_axis_become_repeats(axis, repeats):
    expected = [np.tile(FLOATS, repeats)]
    held = f"float t = {{2}}, float a = {{{axis}}}"
    after = f"y = Tile(x, {repeats})"
    check_legacy("y = Tile(x, t, a)", 1, after, 6, {"x": FLOATS}, expected, constants=held, **TILE)
    feeds = {"x": FLOATS, "t": np.array([2], np.float32)}
    operands = ", ".join("t2" if count == 2 else "[1]" for count in repeats)
    after = f"t1 = Cast<to=7>(t)\nt2 = Reshape(t1, [1])\nt3 = Concat<axis=0>({operands})\ny = Tile(x, t3)"
    io = {**TILE, "inputs": "float[2,3] x, float[1] t", "constants": f"float a = {{{axis}}}"}
    check_legacy("y = Tile(x, t, a)", 1, after, 6, feeds, expected, **io)


def test_an_axis_of_tile_known_at_run_time_is_refused():
    io = {**TILE, "inputs": "float[2,3] x, float a", "constants": "float t = {2}"}
    check_refused("y = Tile(x, t, a)", 1, 6, "the axis is known only at run time", **io)


@pytest.mark.parametrize("repeats", [[2, 3], [1, 2], [0, 1], [1, 1]])
def test_repeats_become_copies_along_one_axis_after_another(repeats):
    made = [f"Tile({{}}, {float(count)}, {float(axis)})" for axis, count in enumerate(repeats) if count != 1]
    lines = [f"t{k} = {call.format(f't{k - 1}' if k > 1 else 'x')}" for k, call in enumerate(made, 1)]
    after = "\n".join(lines).replace(f"t{len(made)} =", "y =") or "y = Identity(x)"
    held = f"int64[2] r = {{{repeats[0]}, {repeats[1]}}}"
    check_legacy("y = Tile(x, r)", 6, after, 5, {"x": FLOATS}, [np.tile(FLOATS, repeats)], constants=held, **TILE)


def test_repeats_known_at_run_time():
    after = """t1 = Gather(r, 0)
        t2 = Cast<to=FLOAT>(t1)
        t3 = Tile(x, t2, 0.0)
        t4 = Gather(r, 1)
        t5 = Cast<to=FLOAT>(t4)
        y = Tile(t3, t5, 1.0)"""
    io = {**TILE, "inputs": "float[2,3] x, int64[2] r"}
    feeds = {"x": FLOATS, "r": np.array([3, 2])}
    check_legacy("y = Tile(x, r)", 6, after, 5, feeds, [np.tile(FLOATS, (3, 2))], **io)


@pytest.mark.parametrize(
    ("repeats", "call"),
    [
        ((2, 1), "Concat<axis=0>(x, x)"),
        ((0, 1), "Slice<axes=[0], ends=[0], starts=[0]>(x)"),
    ],
)
@pytest.mark.parametrize("elem_type", ["int32", "int64", "bool"])
def test_what_is_no_float_is_joined_with_itself(repeats, call, elem_type):
    x = INTS.astype(elem_type)
    io = {"inputs": f"{elem_type}[2,3] x", "outputs": f"{elem_type}[A,3] y"}
    held = f"int64[2] r = {{{repeats[0]}, {repeats[1]}}}"
    check_legacy("y = Tile(x, r)", 6, f"y = {call}", 5, {"x": x}, [np.tile(x, repeats)], constants=held, **io)
    io["inputs"] += ", int64[2] r"
    check_refused("y = Tile(x, r)", 6, 5, "repeats are known only at run time", **io)


def test_a_count_that_the_type_of_the_data_does_not_hold():
    io = {"inputs": "float16[1] x", "outputs": "float16[N] y", "constants": "int64[1] r = {2049}"}
    x = np.array([1.5], np.float16)
    after = f"y = Concat<axis=0>({', '.join(['x'] * 2049)})"
    check_legacy("y = Tile(x, r)", 6, after, 5, {"x": x}, [np.tile(x, 2049)], **io)
