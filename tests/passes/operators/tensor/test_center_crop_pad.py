"""CenterCropPad before it existed."""

import numpy as np
import pytest

from tests.support import check_down, check_refused


@pytest.mark.parametrize(
    ("shape", "wanted", "axes"),
    [
        ("5,4", "3,7", ""),
        ("5,4", "6,3", ""),
        ("5,4", "7", "<axes=[-1]>"),
        ("5,4", "5,4", ""),
        ("5,4", "2", "<axes=[0]>"),
    ],
)
def test_center_crop_pad_below_18(shape, wanted, axes):
    sizes = np.array([int(size) for size in wanted.split(",")])
    io = {"inputs": f"float[{shape}] x", "outputs": "float[A,B] y"}
    check_down(f"y = CenterCropPad{axes}(x, s)", 18, 17, 13, constants=f"int64[{len(sizes)}] s = {{{wanted}}}", **io)
    for elem_type, dtype in (("int32", np.int32), ("int64", np.int64)):
        feeds = {"x": np.arange(20, dtype=np.float32).reshape(5, 4), "s": sizes.astype(dtype)}
        io = {"inputs": f"float[N,M] x, {elem_type}[{len(sizes)}] s", "outputs": "float[A,B] y"}
        check_down(f"y = CenterCropPad{axes}(x, s)", 18, 17, 13, feeds=feeds, **io)


@pytest.mark.parametrize("wanted", ["1", "1,2,3"])
def test_another_number_of_sizes_than_of_axes_is_refused(wanted):
    held = f"int64[{len(wanted.split(','))}] n = {{{wanted}}}"
    io = {"inputs": "float[5,4] x", "outputs": "float[A,B] y", "constants": held}
    check_refused("y = CenterCropPad(x, n)", 18, 17, "sizes for 2 axes; supported: one size for each axis", **io)
