"""Changes of shape and order in a row become one, or none."""

import numpy as np
import pytest

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, model, show

FEEDS = {"x": np.arange(72, dtype=np.float32).reshape(6, 12)}
IO = {"inputs": "float[N,3,4] x"}


@pytest.mark.parametrize(
    ("first", "second", "outputs", "after"),
    [
        ("[1,2,0]", "[1,2,0]", "[4,N,3]", "y = Transpose<perm=[2, 0, 1]>(x)"),
        ("[0,2,1]", "[1,0,2]", "[4,N,3]", "y = Transpose<perm=[2, 0, 1]>(x)"),
        ("[0,2,1]", "[0,2,1]", "[N,3,4]", "y = Identity(x)"),
    ],
)
def test_two_transposes_are_one(first, second, outputs, after):
    body = f"t = Transpose<perm={first}>(x) y = Transpose<perm={second}>(t)"
    check_optimized(body, after, outputs=f"float{outputs} y", **IO)


def test_a_transpose_without_an_order_reverses():
    body = "t = Transpose(x) y = Transpose<perm=[1,0,2]>(t)"
    check_optimized(body, "y = Transpose<perm=[1, 2, 0]>(x)", outputs="float[3,4,N] y", **IO)


def test_a_transpose_that_is_read_elsewhere_stays():
    check_optimized(
        "t = Transpose<perm=[0,2,1]>(x) y = Transpose<perm=[1,0,2]>(t)",
        "t = Transpose<perm=[0, 2, 1]>(x)\ny = Transpose<perm=[2, 0, 1]>(x)",
        outputs="float[N,4,3] t, float[4,N,3] y",
        **IO,
    )


@pytest.mark.parametrize(
    ("first", "second", "constants", "after"),
    [
        ("Reshape(x, a)", "Reshape(t, b)", "int64[2] a = {-1, 4}, int64[1] b = {-1}", "y = Reshape(x, [-1])"),
        ("Flatten(x)", "Reshape(t, b)", "int64[1] b = {-1}", "y = Reshape(x, [-1])"),
        ("Unsqueeze(x, a)", "Squeeze(t, a)", "int64[1] a = {1}", "y = Identity(x)"),
        ("Unsqueeze(x, a)", "Squeeze(t, b)", "int64[1] a = {-1}, int64[1] b = {-1}", "y = Identity(x)"),
        ("Unsqueeze(x, a)", "Unsqueeze(t, b)", "int64[1] a = {0}, int64[1] b = {2}", "y = Unsqueeze(x, [0, 2])"),
        ("Unsqueeze(x, a)", "Unsqueeze(t, b)", "int64[1] a = {-1}, int64[1] b = {0}", "y = Unsqueeze(x, [0, 4])"),
        ("Reshape(x, a)", "Unsqueeze(t, b)", "int64[2] a = {0, 12}, int64[1] b = {1}", "y = Reshape(x, [0, 1, 12])"),
        ("Unsqueeze(x, a)", "Flatten(t)", "int64[1] a = {1}", "y = Reshape(x, [0, 12])"),
    ],
)
def test_two_changes_of_the_shape_are_one(first, second, constants, after):
    rank = {"y = Reshape(x, [-1])": "[M]", "y = Identity(x)": "[N,3,4]", "y = Reshape(x, [0, 12])": "[N,12]"}
    shape = rank.get(after, "[A,B,C]" if "Reshape" in after else "[A,B,C,D,E]")
    body = f"t = {first} y = {second}"
    check_optimized(body, after, constants=constants, outputs=f"float{shape} y", **IO)


@pytest.mark.parametrize(
    ("inner", "outer", "axes"),
    [("0", "0", [0, 1]), ("0", "2", [0, 2]), ("1", "0", [0, 2]), ("0, 3", "1", [0, 1, 4]), ("-1", "0", None), ("0", "-1", None)],
)  # fmt: skip
def test_two_unsqueezes_of_an_unknown_rank_are_one_where_axes_count_from_the_first(inner, outer, axes):
    source = model(
        "r = Reshape(x, s) t = Unsqueeze(r, a) y = Unsqueeze(t, b)",
        18,
        inputs="float[N] x, int64[K] s",
        outputs="float[A,B,C,D,E] y" if "," in inner else "float[A,B,C,D] y",
        constants=f"int64[{inner.count(',') + 1}] a = {{{inner}}}, int64[1] b = {{{outer}}}",
    )
    made = optimized(source)
    assert show(made).count("Unsqueeze") == (2 if axes is None else 1)
    assert (f"y = Unsqueeze(t1, {axes})" in show(made)) is (axes is not None)
    check_values(source, made, {"x": np.arange(6, dtype=np.float32), "s": np.array([2, 3])}, rtol=0, atol=0)


def test_a_zero_in_a_shape_speaks_of_the_value_before():
    constants = "int64[3] a = {4, -1, 3}, int64[2] b = {0, -1}"
    io = {"inputs": "float[N,K] x", "outputs": "float[A,B] y"}
    made = check_optimized(
        "t = Reshape(x, a) y = Reshape(t, b)", "y = Reshape(x, [4, -1])", constants=constants, feeds=FEEDS, **io
    )
    assert len(made.graph.node) == 1


def test_a_squeeze_of_all_that_turns_out_to_be_1_stays():
    """One element is left without axes, whatever the model declares."""
    body, io = "t = Flatten<axis=0>(x) y = Squeeze(t)", {"inputs": "float[N] x", "outputs": "float[M] y"}
    check_kept(body, **io)
    check_optimized(body, "y = Identity(x)", inputs="float[3] x", outputs="float[3] y")


def test_a_reshape_that_needs_two_dimensions_stays():
    body = "t = Transpose<perm=[2,1,0]>(x) y = Reshape(t, s)"
    check_kept(body, outputs="float[A,B] y", constants="int64[2] s = {-1, 3}", **IO)


def test_a_transpose_of_axes_of_length_1_is_a_view():
    check_optimized(
        "t = Transpose<perm=[0,2,1,3]>(x) y = Reshape(t, s)",
        "y = Reshape(x, [-1, 5])",
        inputs="float[N,1,K,5] x",
        outputs="float[M,5] y",
        constants="int64[2] s = {-1, 5}",
    )


def test_a_transpose_between_an_unsqueeze_and_a_squeeze_does_without():
    check_optimized(
        "t = Unsqueeze(x, a) u = Transpose<perm=[3,1,2,0,4]>(t) y = Squeeze(u, b)",
        "y = Transpose<perm=[2, 0, 1, 3]>(x)",
        inputs="float[N,M,3,4] x",
        outputs="float[3,N,M,4] y",
        constants="int64[1] a = {0}, int64[1] b = {-2}",
    )


def test_a_squeeze_of_another_axis_is_not_mistaken_for_one_of_the_axis_that_was_put_in():
    check_optimized(
        "t = Unsqueeze(x, a) u = Transpose<perm=[2,1,0]>(t) y = Squeeze(u, b)",
        "y = Transpose<perm=[1, 0]>(x)",
        inputs="float[N,M] x",
        outputs="float[M,N] y",
        constants="int64[1] a = {0}, int64[1] b = {2}",
    )


def test_axes_are_inputs_since_13():
    body, held = "t = Unsqueeze(x, a) y = Unsqueeze(t, b)", "int64[1] a = {0}, int64[1] b = {2}"
    check_optimized(body, "y = Unsqueeze(x, [0, 2])", 13, constants=held, outputs="float[1,N,1,3,4] y", **IO)


@pytest.mark.parametrize("opset", [11, 12])
def test_axes_that_are_attributes_stay_so(opset):
    body = "t = Unsqueeze<axes=[0]>(x) y = Unsqueeze<axes=[2]>(t)"
    check_optimized(body, "y = Unsqueeze<axes=[0, 2]>(x)", opset, outputs="float[1,N,1,3,4] y", **IO)


@pytest.mark.parametrize(
    ("added", "perm", "gone", "after"),
    [
        (2, "[0,3,2,1]", 2, "y = Transpose<perm=[0, 2, 1]>(x)"),
        (-2, "[0,2,3,1]", 1, "y = Transpose<perm=[0, 2, 1]>(x)"),
        (-2, "[1,2,0,3]", -3, "y = Transpose<perm=[1, 0, 2]>(x)"),
        (0, "[3,2,1,0]", -1, "y = Transpose<perm=[2, 1, 0]>(x)"),
    ],
)
def test_a_transpose_between_an_axis_put_in_and_taken_out(added, perm, gone, after):
    body = f"u = Unsqueeze(x, a) t = Transpose<perm={perm}>(u) y = Squeeze(t, b)"
    constants = f"int64[1] a = {{{added}}}, int64[1] b = {{{gone}}}"
    check_optimized(body, after, constants=constants, outputs="float[A,B,C] y", **IO)
