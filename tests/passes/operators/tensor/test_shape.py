"""Shape, of which a part is asked."""

import pytest

from tests.support import check, check_unchanged


@pytest.mark.parametrize(
    ("bounds", "starts", "ends"),
    [
        ("start=1", 1, 2**63 - 1),
        ("end=-1", 0, -1),
        ("start=-100, end=2", -100, 2),
        ("start=0, end=0", 0, 0),
        ("start=2, end=1", 2, 1),
        ("end=9", 0, 9),
    ],
)
def test_a_part_of_the_shape_is_sliced_below_15(bounds, starts, ends):
    check(
        f"y = Shape<{bounds}>(x)",
        15,
        f"t1 = Shape(x)\n y = Slice(t1, [{starts}], [{ends}], [0])",
        14,
        inputs="float[N,3,4] x",
        outputs="int64[M] y",
    )


def test_the_whole_shape_stays():
    check_unchanged("y = Shape(x)", 28, 7, inputs="float[N,3] x", outputs="int64[2] y")
    check("y = Shape<start=0>(x)", 15, "y = Shape(x)", 14, inputs="float[N,3] x", outputs="int64[2] y")
