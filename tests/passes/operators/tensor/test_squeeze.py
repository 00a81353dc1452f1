"""Squeeze and Unsqueeze: negative axes, and axes that moved from an attribute to an input."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

SQUEEZE = {"inputs": "float[1,N,1] x", "outputs": "float[N] y"}
UNSQUEEZE = {"inputs": "float[2,N] x", "outputs": "float[1,2,N,1] y"}


@pytest.mark.parametrize(("op", "axes", "io"), [("Squeeze", [0, -1], SQUEEZE), ("Unsqueeze", [-1, 0], UNSQUEEZE)])
def test_axes_move_between_attribute_and_input_at_13(op, axes, io):
    listed = ", ".join(map(str, axes))
    check(f"y = {op}<axes=[{listed}]>(x)", 12, f"y = {op}(x, [{listed}])", 13, **io)
    check(
        f"y = {op}(x, a)",
        13,
        f"y = {op}<axes=[{listed}]>(x)",
        12,
        constants=f"int64[2] a = {{{listed}}}",
        **io,
    )


def test_negative_axes_are_counted_from_the_front_below_11():
    check("y = Squeeze<axes=[0, -1]>(x)", 11, "y = Squeeze<axes=[0, 2]>(x)", 10, **SQUEEZE)
    check("y = Unsqueeze<axes=[-1, 0]>(x)", 11, "y = Unsqueeze<axes=[0, 3]>(x)", 10, **UNSQUEEZE)
    check_unchanged("y = Squeeze<axes=[0]>(x)", 12, 1, inputs="float[] x", outputs="float[] y")


@pytest.mark.parametrize(("op", "rank", "shape"), [("Squeeze", 1, [3, 1]), ("Unsqueeze", 3, [3, 1])])
def test_negative_axes_of_an_unknown_rank_are_counted_at_run_time(op, rank, shape):
    """The chain of helpers is that of axes known at run time."""
    io = {"inputs": "float[N] x, int64[K] s", "outputs": f"float[{','.join('ABC'[:rank])}] y"}
    source = model(f"z = Reshape(x, s) y = {op}<axes=[-1]>(z)", 11, **io)
    after = convert.attempt(source, {"": 10})
    assert not after.refusals
    check_values(source, after.model, {"s": np.array(shape)}, rtol=0, atol=0)


def test_no_new_axes():
    io = {"inputs": "float[N] x", "outputs": "float[N] y"}
    check("y = Unsqueeze<axes: ints = []>(x)", 12, "y = Unsqueeze(x, [])", 13, **io)
    check("y = Unsqueeze(x, a)", 13, "y = Unsqueeze<axes=[]>(x)", 12, constants="int64[0] a = {}", **io)


def test_no_axes_means_all():
    check("y = Squeeze<axes: ints = []>(x)", 12, "y = Squeeze(x)", 13, **SQUEEZE)
    check_unchanged("y = Squeeze(x)", 28, 1, **SQUEEZE)
    check_refused("y = Squeeze(x, a)", 13, 12, "axes is empty", constants="int64[0] a = {}", **SQUEEZE)


@pytest.mark.parametrize("target", [12, 9])
@pytest.mark.parametrize(
    ("op", "x", "axes"),
    [
        ("Squeeze", (1, 2, 1), [-1, 0]),
        ("Squeeze", (1, 2, 0), [0]),
        ("Squeeze", (1,), [0]),
        ("Squeeze", (3, 1), [-1]),
        ("Unsqueeze", (2, 0), [-1, 1]),
        ("Unsqueeze", (2, 3), [1]),
        ("Unsqueeze", (), [1, 0]),
        ("Unsqueeze", (0,), [2, -1, 0]),
    ],
)
def test_axes_known_at_run_time_become_a_computed_shape(op, x, axes, target):
    """No operator of these opsets takes them; the chain of helpers is too long to spell out."""
    rank = len(x) + len(axes) * (1 if op == "Unsqueeze" else -1)
    dims = ["ABCDE"[:n] for n in (len(x), rank)]
    io = {"inputs": f"float[{','.join(dims[0])}] x, int64[K] a", "outputs": f"float[{','.join(dims[1])}] y"}
    io = {k: v.replace("float[] ", "float ") for k, v in io.items()}
    source = model(f"y = {op}(x, a)", 13, **io)
    result = convert.attempt(source, {"": target})
    assert not result.refusals
    feeds = {"x": np.arange(np.prod(x), dtype=np.float32).reshape(x), "a": np.array(axes)}
    check_values(source, result.model, feeds, rtol=0, atol=0)


def test_a_scalar_axis_becomes_a_vector_at_23():
    check(
        "y = Unsqueeze(x, a)",
        22,
        "y = Unsqueeze(x, [1])",
        23,
        constants="int64 a = {1}",
        inputs="float[N] x",
        outputs="float[N,1] y",
    )
    check(
        "y = Unsqueeze(x, a)",
        22,
        "t1 = Reshape(a, [-1])\n y = Unsqueeze(x, t1)",
        23,
        inputs="float[N] x, int64 a",
        outputs="float[N,1] y",
        feeds={"a": np.array(1)},
    )
    check_unchanged("y = Unsqueeze(x, a)", 21, 28, inputs="float[N] x, int64[1] a", outputs="float[] y")
    check(
        "y = Unsqueeze(x, a)",
        13,
        "y = Unsqueeze<axes=[1]>(x)",
        12,
        constants="int64 a = {1}",
        inputs="float[N] x",
        outputs="float[N,1] y",
    )


def test_axes_of_a_function_attribute_become_an_input():
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 12, "local": 1]>
        g (float[N] x) => (float[1,N] y) { y = local.row <axes=[0]>(x) }
        <opset_import: ["": 12], domain: "local">
        row <axes> (x) => (y) { y = Unsqueeze <axes: ints = @axes> (x) }"""
    )
    up = convert.attempt(source, {"": 13}, ir_version=8).model
    assert [n.op_type for n in up.functions[0].node] == ["Constant", "Unsqueeze"]
    check_values(source, up, rtol=0, atol=0)
    down = convert.attempt(up, {"": 12}, ir_version=8).model
    # The attribute is bound by reference, so the call was inlined.
    assert show(down) == "y = Unsqueeze<axes=[0]>(x)"
    check_values(source, down, rtol=0, atol=0)


@pytest.mark.parametrize("target", [12, 11, 9, 5, 1])
@pytest.mark.parametrize(
    ("op", "axes", "sorted_axes", "dims", "out"),
    [
        ("Squeeze", [1, 0], [0, 1], "1,1,3,4", "3,4"),
        ("Squeeze", [-1, 0], [0, 3], "1,2,3,1", "2,3"),
        ("Squeeze", [-1, -4], [0, 3], "1,2,3,1", "2,3"),
        ("Unsqueeze", [2, 0], [0, 2], "3,4", "1,3,1,4"),
        ("Unsqueeze", [-1, 0], [0, 3], "3,4", "1,3,4,1"),
    ],
)
def test_axes_in_any_order_go_upwards_below_11(op, axes, sorted_axes, dims, out, target):
    held = f"int64[{len(axes)}] a = {{{', '.join(map(str, axes))}}}"
    source = model(
        f"y = {op}(x, a) z = Identity(y)", 13, inputs=f"float[{dims}] x", outputs=f"float[{out}] z", constants=held
    )
    made = convert.attempt(source, {"": target}).model
    onnx.checker.check_model(made, full_check=True)
    if target < 11:
        assert list(made.graph.node[0].attribute[0].ints) == sorted_axes


def test_axes_of_old_models_go_upwards_below_11():
    check(
        "y = Squeeze<axes=[2, 0]>(x)",
        12,
        "y = Squeeze<axes=[0, 2]>(x)",
        10,
        inputs="float[1,N,1] x",
        outputs="float[N] y",
    )
    check_unchanged("y = Squeeze<axes=[2, 0]>(x)", 12, 11, inputs="float[1,N,1] x", outputs="float[N] y")


def test_axes_of_unknown_rank_become_a_vector_at_23():
    source = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "my" : 1]> g (float[1,N] x) => (float[M] y) <int64 a = {0}> { y = my.F(x, a) }
        <domain: "my", opset_import: ["" : 21]> F (x, a) => (y) { y = Squeeze(x, a) }"""
    )
    made = convert.attempt(source, {"": 23}).model
    assert [n.op_type for n in made.functions[0].node] == ["Constant", "Reshape", "Squeeze"]
    x = np.arange(3, dtype=np.float32)[None]
    np.testing.assert_array_equal(evaluate(made, {"x": x})[0], x[0])  # no engine takes the scalar of the source
