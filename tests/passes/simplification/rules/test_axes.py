"""Axes that are joined, moved and taken apart again are moved as they are."""

import numpy as np
import onnx.checker
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized
from tests.support import check_values, model

DATA = np.arange(2 * 3 * 4 * 5, dtype=np.float32)
DATA[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
FEEDS = {"x": DATA.reshape(2, 3, 4, 5)}
FINITE = {"x": np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)}


@pytest.mark.parametrize(
    ("inputs", "joined", "perm", "apart", "after"),
    [
        ("2,3,4,5", "-1, 4, 5", "0,2,1", "2, 3, 5, 4", "[0, 1, 3, 2]"),
        ("2,3,4,5", "6, 20", "1,0", "4, 5, 2, 3", "[2, 3, 0, 1]"),
        ("2,3,4,5", "2, 12, 5", "2,0,1", "5, 2, 3, 4", "[3, 0, 1, 2]"),
        ("N,3,4,M", "0, 12, -1", "0,2,1", "0, -1, 3, 4", "[0, 3, 1, 2]"),
        ("N,3,4,5", "0, 3, 20", "0,2,1", "0, 4, 5, 3", "[0, 2, 3, 1]"),
    ],
)
def test_joined_axes_are_moved_as_they_are(inputs, joined, perm, apart, after):
    constants = f"int64[{joined.count(',') + 1}] a = {{{joined}}}, int64[{apart.count(',') + 1}] b = {{{apart}}}"
    check_optimized(
        f"r = Reshape(x, a) t = Transpose<perm=[{perm}]>(r) y = Reshape(t, b)",
        f"y = Transpose<perm={after}>(x)",
        constants=constants,
        inputs=f"float[{inputs}] x",
        outputs="float[A,B,C,D] y",
        feeds=FEEDS,
    )


@pytest.mark.parametrize(
    ("inputs", "joined", "perm", "apart"),
    [
        ("2,3,4,5", "6, 20", "1,0", "5, 4, 2, 3"),  # taken apart the other way
        ("2,3,4,5", "8, 15", "1,0", "3, 5, 2, 4"),  # joined across axes
        ("2,3,4,5", "6, 20", "1,0", "4, 5, 3, 2"),
        ("N,3,4,M", "-1, 20", "1,0", "4, 5, -1, 3"),  # of no known length
    ],
)
def test_other_axes_stay(inputs, joined, perm, apart):
    constants = f"int64[{joined.count(',') + 1}] a = {{{joined}}}, int64[{apart.count(',') + 1}] b = {{{apart}}}"
    body = f"r = Reshape(x, a) t = Transpose<perm=[{perm}]>(r) y = Reshape(t, b)"
    check_kept(body, constants=constants, inputs=f"float[{inputs}] x", outputs="float[A,B,C,D] y")


def test_a_transpose_before_goes_along():
    check_optimized(
        "s = Transpose<perm=[0,2,1,3]>(x) r = Reshape(s, a) t = Transpose<perm=[0,2,1]>(r) y = Reshape(t, b)",
        "y = Transpose<perm=[0, 2, 3, 1]>(x)",
        constants="int64[3] a = {-1, 3, 5}, int64[4] b = {2, 4, 5, 3}",
        inputs="float[2,3,4,5] x",
        outputs="float[2,4,5,3] y",
        feeds=FEEDS,
    )


MODEL = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[2,3,4,5] x, bool c) => (float[2,3,5,4] y) <int64[3] a = {6, 4, 5}, int64[4] b = {2, 3, 5, 4}> {
  y = If (c) <
    then_branch = t () => (float[2,3,5,4] t_y) { r = Reshape(x, a) m = Transpose<perm=[0,2,1]>(r) t_y = Reshape(m, b) },
    else_branch = f () => (float[2,3,5,4] f_y) { f_y = local.turned(x) }
  >
}
<domain: "local", opset_import: ["" : 18]>
turned (v) => (w) {
  s = Constant<value_ints=[2, 3, 4, 5]>() a = Constant<value_ints=[6, 4, 5]>() b = Constant<value_ints=[2, 3, 5, 4]>()
  n = Reshape(v, s) n2 = Neg(n) r = Reshape(n2, a) m = Transpose<perm=[0,2,1]>(r) w = Reshape(m, b)
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch_and_in_a_function(condition):
    before = onnx.parser.parse_model(MODEL)
    made = optimize.attempt(before).model
    (then,) = (a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["Transpose"]
    assert [n.op_type for n in made.functions[0].node if n.op_type != "Constant"] == ["Reshape", "Neg", "Transpose"]
    check_values(before, made, {**FEEDS, "c": np.asarray(condition)}, rtol=0, atol=0)


def test_constant_axes_of_a_pad_are_of_64_bits():
    """A Cast stood between a constant of 32 bits, which onnx.checker does not take there, and the Pad."""
    io = {"outputs": "float[A,B] y", "opset": 23}
    made = check_optimized(
        "c = Cast<to=6>(a) y = Pad(x, n, , c)", "y = Pad(x, [1, 0], _, [-1])", inputs="float[2,3] x",
        constants="int32[1] a = {-1}, int64[2] n = {1, 0}", feeds={"x": DATA[:6].reshape(2, 3)}, **io,
    )  # fmt: skip
    onnx.checker.check_model(made, full_check=True)
    check_kept("y = Pad(x, n, , b)", inputs="float[2,3] x, int32[1] b", constants="int64[2] n = {1, 0}", **io)


@pytest.mark.parametrize(
    ("opset", "after"), [(11, "Squeeze<axes=[1]>(x)"), (12, "Squeeze<axes=[1]>(x)"), (13, "Squeeze(x, [1])")]
)
def test_a_squeeze_of_all_names_them_as_its_opset_does(opset, after):
    check_optimized("y = Squeeze(x)", f"y = {after}", opset, inputs="float[2,1,3] x", outputs="float[2,3] y")


def test_what_settles_is_known_by_its_rule():
    from opshift.passes.simplification import rules
    from opshift.passes.simplification.rules.axes import state_axes, widen_axes

    assert (rules.settles(state_axes), rules.settles(widen_axes)) == (True, False)


REDUCED = [  # axes of the first, of the second, what one node has
    ("3", "2", 0, "2, 3"),
    ("-1", "-1", 0, "2, 3"),
    ("0", "0, 2", 0, "0, 1, 3"),
    ("3", "2", 1, "2, 3"),
    ("1, 3", "1, -4", 1, "0, 1, 3"),
]


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(("first", "second", "kept", "both"), REDUCED)
def test_two_reductions_are_one(op, first, second, kept, both):
    outputs = f"float[{'A,B,C,D' if kept else ','.join('ABCD'[both.count(',') + 1 :])}] y".replace("[]", "")
    inputs = {"inputs": "float[2,3,4,5] x", "outputs": outputs, "feeds": FINITE}
    check_optimized(
        f"r = {op}<axes=[{first}], keepdims={kept}>(x) y = {op}<axes=[{second}], keepdims={kept}>(r)",
        f"y = {op}<axes=[{both}], keepdims={kept}>(x)",
        opset=13,
        **inputs,
    )
    held = f"int64[{first.count(',') + 1}] a = {{{first}}}, int64[{second.count(',') + 1}] b = {{{second}}}"
    made = optimize.attempt(model(f"r = {op}<keepdims={kept}>(x, a) y = {op}<keepdims={kept}>(r, b)", 18,
                                  constants=held, inputs=inputs["inputs"], outputs=outputs)).model  # fmt: skip
    (node,) = made.graph.node
    (axes,) = (onnx.numpy_helper.to_array(held) for held in made.graph.initializer if held.name == node.input[1])
    assert axes.tolist() == [int(axis) for axis in both.split(",")]


MOVED = [  # how the data are moved, which axes are reduced, and which they were before
    ("0,2,3,1", "1, 2", 0, "2, 3"),
    ("0,2,3,1", "-3, 2", 0, "2, 3"),
    ("3,2,1,0", "0, 1, 2", 0, "1, 2, 3"),
    ("0,3,2,1", "1, 2, 3", 1, "1, 2, 3"),
]


@pytest.mark.parametrize(("op", "grade"), [("ReduceMax", "exact"), ("ReduceMin", "exact"), ("ReduceMean", "close")])
@pytest.mark.parametrize(("perm", "axes", "kept", "before"), MOVED)
def test_axes_are_reduced_where_they_were_before_a_transpose(op, grade, perm, axes, kept, before):
    outputs = f"float[{'A,B,C,D' if kept else ','.join('ABCD'[before.count(',') + 1 :])}] y"
    check_optimized(
        f"t = Transpose<perm=[{perm}]>(x) y = {op}<axes=[{axes}], keepdims={kept}>(t)",
        f"y = {op}<axes=[{before}], keepdims={kept}>(x)",
        opset=13,
        grade=grade,
        rtol=0 if grade == "exact" else 1e-5,
        inputs="float[2,3,4,5] x",
        outputs=outputs,
        feeds=FINITE,
    )
    held = f"int64[{axes.count(',') + 1}] a = {{{axes}}}"
    source = model(f"t = Transpose<perm=[{perm}]>(x) y = {op}<keepdims={kept}>(t, a)", 18,
                   constants=held, inputs="float[2,3,4,5] x", outputs=outputs)  # fmt: skip
    made = optimize.attempt(source).model
    assert [node.op_type for node in made.graph.node] == [op]
    check_values(source, made, FINITE, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose<perm=[0,2,3,1]>(x) y = ReduceMax<axes=[1], keepdims=0>(t)",
        "t = Transpose<perm=[0,2,3,1]>(x) y = ReduceMax<axes=[1, 2], keepdims=1>(t)",
        "t = Transpose<perm=[0,2,3,1]>(x) r = ReduceMax<axes=[1, 2], keepdims=0>(t) s = ReduceMin(t) y = Add(r, s)",
        "t = Transpose<perm=[2,0,1,3]>(x) y = ReduceMean<axes=[0, 3], keepdims=1>(t)",
        "r = ReduceMax<axes=[3], keepdims=0>(x) y = ReduceMin<axes=[2], keepdims=0>(r)",
        "r = ReduceMax<axes=[3], keepdims=1>(x) y = ReduceMax<axes=[2, 3], keepdims=0>(r)",
        "r = ReduceMax<axes=[3], keepdims=0>(x) s = ReduceMax<axes=[2], keepdims=0>(r) t = ReduceSum(r) y = Add(s, t)",
        "r = ReduceSum<keepdims=0>(x, last) y = ReduceSum<keepdims=0>(r, last)",
    ],
)
def test_reductions_of_other_kinds_or_with_other_readers_stay(body):
    check_kept(body, opset=13, constants="int64[1] last = {2}", inputs="float[2,3,4,5] x", outputs="float[A,B] y")
