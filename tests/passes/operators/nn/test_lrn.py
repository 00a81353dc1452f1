"""LRN and MaxUnpool, which stay."""

from tests.support import check_unchanged

MATRIX = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}


def test_normalization_over_channels_and_unpooling_stay():
    check_unchanged("y = LRN<size=3>(x)", 1, 28, **MATRIX)
    check_unchanged("y = LRN<size=3>(x)", 28, 1, **MATRIX)
    io = {"inputs": "float[1,1,2] x, int64[1,1,2] i", "outputs": "float[1,1,4] y"}
    check_unchanged("y = MaxUnpool<kernel_shape=[2], strides=[2]>(x, i)", 9, 28, **io)
    check_unchanged("y = MaxUnpool<kernel_shape=[2], strides=[2]>(x, i)", 28, 9, **io)
