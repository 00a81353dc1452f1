"""No rule puts more nodes in the place of what is there."""

from tests.passes.simplification.rules.support import check_kept

IO = {"inputs": "float[N,4,H,W] x", "outputs": "float[N,4,H,W] y"}


def test_a_reshape_back_to_the_shape_of_a_value_stays():
    check_kept("g = Reshape(x, groups) i = Softmax(g) s = Shape(x) y = Reshape(i, s)", **IO,
               constants="int64[3] groups = {0, 2, -1}")  # fmt: skip
