"""Operators that took bfloat16 at 22."""

import pytest

from tests.support import check, check_refused


@pytest.mark.parametrize(
    ("node", "casts", "grade"),
    [
        ("Conv(x, w)", 2, "close"),
        ("ConvTranspose(x, w)", 2, "close"),
        ("Conv(x, w, b)", 3, "close"),
        ("DeformConv(x, w, o)", 3, "close"),
        ("GlobalAveragePool(x)", 1, "close"),
        ("GlobalLpPool(x)", 1, "close"),
        ("LpNormalization(x)", 1, "close"),
        ("LpPool<kernel_shape=[2,2]>(x)", 1, "close"),
        ("GlobalMaxPool(x)", 1, "exact"),
        ("MaxUnpool<kernel_shape=[2,2]>(x, i)", 1, "exact"),
        ("MaxRoiPool<pooled_shape=[2,2]>(x, r)", 2, "close"),
        ("InstanceNormalization(x, b, b)", 2, "close"),
    ],
)
def test_bfloat16_is_computed_in_float_below_22(node, casts, grade):
    """No engine has these kernels for bfloat16, so that the graph itself is what is compared."""
    operands = node[node.rindex("(") + 1 : -1].split(", ")
    cast = list(dict.fromkeys(name for name in operands if name != "i"))
    lines = [f"t{k + 1} = Cast<to=1>({name})" for k, name in enumerate(cast)]
    assert len(lines) == casts
    result = f"t{casts + 1}"
    inner = ", ".join(name if name == "i" else f"t{cast.index(name) + 1}" for name in operands)
    head = node[: node.rindex("(")].replace("=[2,2]", "=[2, 2]")
    lines += [f"{result} = {head}({inner})", f"y = Cast<to=16>({result})"]
    check(
        f"y = {node}", 22, "\n".join(lines), 21, grade=grade, run=False,
        inputs="bfloat16[1,2,4,4] x, bfloat16[2,2,3,3] w, bfloat16[2] b, bfloat16[1,18,2,2] o, "
        "int64[1,2,4,4] i, bfloat16[1,5] r",
        outputs="bfloat16[A,B,C,D] y",
    )  # fmt: skip


def test_bfloat16_has_no_form_below_13():
    io = {"inputs": "bfloat16[1,2,4,4] x", "outputs": "bfloat16[1,2,1,1] y"}
    check_refused("y = GlobalMaxPool(x)", 22, 12, "bfloat16", **io)
