"""Transpose of float8."""

import pytest

from tests.support import check


@pytest.mark.parametrize("float8", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
def test_float8_is_moved_as_float_below_21(float8):
    number = 17 + ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"].index(float8)
    model = check(
        f"z = Cast<to={number}, saturate=0>(x) t = Transpose<perm=[1,0]>(z) y = Cast<to=1>(t)",
        21,
        f"""t1 = Cast<saturate=0, to={number}>(x)
        t2 = Cast<to=1>(t1)
        t3 = Transpose<perm=[1, 0]>(t2)
        t4 = Cast<saturate=0, to={number}>(t3)
        y = Cast<to=1>(t4)""",
        20,
        inputs="float[3,4] x",
        outputs="float[4,3] y",
    )
    assert model.opset_import[0].version == 20
