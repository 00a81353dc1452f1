"""Where in its data a MaxPool finds its maxima, where there may be none."""

import pytest

from tests.support import check_refused


@pytest.mark.parametrize(
    ("size", "how"),
    [
        (1, "kernel_shape=[2], dilations=[2], pads=[1,1]"),  # between its elements
        (0, "kernel_shape=[3], pads=[2,2], ceil_mode=1"),
        (0, "kernel_shape=[2], pads=[1,1], storage_order=1"),
    ],
)
def test_the_maximum_of_padding_alone_is_nowhere(size, how):
    io = {"inputs": f"float[1,1,{size}] x", "outputs": "float[1,1,A] y, int64[1,1,A] i"}
    check_refused(f"y, i = MaxPool<{how}>(x)", 12, 7, "a pooling window lies in the padding alone", **io)
