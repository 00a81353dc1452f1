"""AffineGrid before it existed."""

import numpy as np
import pytest

from tests.support import check, check_down, check_refused

rng = np.random.default_rng(0)


def test_modes_are_renamed_at_20():
    io = {"inputs": "float[2,3,4,5] x, float[2,6,7,2] g", "outputs": "float[2,3,6,7] y"}
    for older, newer in (("bilinear", "linear"), ("bicubic", "cubic")):
        bodies = [f'y = GridSample<mode="{mode}">(x, g)' for mode in (older, newer)]
        check(bodies[0], 16, f"y = GridSample<mode={newer}>(x, g)", 20, atol=1e-6, **io)
        check(bodies[1], 20, f"y = GridSample<mode={older}>(x, g)", 16, atol=1e-6, **io)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [[2, 1, 3, 4], [1, 1, 2, 2], [2, 1, 3, 4, 2]])
def test_a_grid_is_computed_below_20(size, corners):
    axes = len(size) - 2
    theta = rng.random((size[0], axes, axes + 1), np.float32)
    body, io = (
        f"y = AffineGrid<align_corners={corners}>(t, s)",
        {"outputs": f"float[{','.join('ABCDE'[: axes + 2])}] y"},
    )
    held = {"constants": f"int64[{axes + 2}] s = {{{','.join(map(str, size))}}}"}
    given = f"float[{size[0]},{axes},{axes + 1}] t"
    made = check_down(body, 20, 19, feeds={"t": theta}, grade="close", atol=1e-6, inputs=given, **held, **io)
    assert len(made.graph.node) == 2 * axes + 3
    check_down(body, 20, 13, 10, feeds={"t": theta}, grade="close", atol=1e-6, inputs=given, **held, **io)
    feeds, given = {"t": theta, "s": np.array(size)}, f"float[N,{axes},{axes + 1}] t, int64[{axes + 2}] s"
    check_down(body, 20, 19, 13, feeds=feeds, grade="close", atol=1e-6, inputs=given, **io)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(1, 2, 1, 3), (1, 2, 3, 1), (1, 2, 1, 1), (1, 2, 2, 3), (1, 1, 1, 2, 1)])
def test_sizes_of_one(size, corners):
    """Known or not, they become what onnxruntime makes of them."""
    axes = len(size) - 2
    theta, length = f"float[1,{axes},{axes + 1}] t", f"int64[{len(size)}] s"
    feeds = {"t": np.arange(1, axes * (axes + 1) + 1, dtype=np.float32).reshape(1, axes, -1) / 10}
    held = {"inputs": theta, "constants": f"{length} = {{{','.join(map(str, size))}}}", "feeds": feeds}
    given = {"inputs": f"{theta}, {length}", "feeds": {**feeds, "s": np.array(size)}}
    for io in (held, given):
        check_down(
            f"y = AffineGrid<align_corners={corners}>(t, s)", 20, 19, 16, 11,
            outputs=f"float[{','.join('ABCDE'[: axes + 2])}] y", grade="close", rtol=1e-5, atol=1e-6, **io,
        )  # fmt: skip


def test_sizes_that_are_unknown_below_7():
    """Of a rank that nodes tell alone: operands whose sizes may differ were taken for scalars."""
    io = {"inputs": "float[24] x, int64[N] n, int64[5] s", "outputs": "float[A,B,C,D,E] y"}
    check_refused(
        "t = Reshape(x, n) c = Cast<to=1>(t) y = AffineGrid(c, s)", 25, 6, "dimensions ? and ? may differ", **io
    )
