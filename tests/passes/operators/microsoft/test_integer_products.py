"""Products and sums of quantized numbers."""

from itertools import product

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed
from tests.passes.operators.microsoft.test_qlinear import KINDS, eight_bits, scale

RNG = np.random.default_rng(0)
PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
COLUMNS = [((), ()), ((1,), (1,)), ((5,), (5,))]
"""Shapes of a scale and a zero point of five columns."""


ADDED = ((5,), (3, 5), (1, 5), (3, 1), (1,), (), None)


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize(("of", "zero"), COLUMNS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_gemm(a, b, of, zero, added):
    found = []
    for turned_a, turned_b, alpha in ((0, 0, None), (0, 1, None), (1, 0, 0.5), (1, 1, 0.5)):
        c = None if added is None else RNG.integers(-9000, 9000, added).astype(np.int32)
        x, w = eight_bits(a, *((4, 3) if turned_a else (3, 4))), eight_bits(b, *((5, 4) if turned_b else (4, 5)))
        given = (x, scale(), eight_bits(a), w, scale(*of), eight_bits(b, *zero), c)
        attributes = {"transA": turned_a, "transB": turned_b} | ({} if alpha is None else {"alpha": alpha})
        found.append(Call("QGemm", (*given, np.array(0.05, FLOAT), eight_bits(a)), (True,), attributes))
        found.append(Call("QGemm", given, (True,), attributes))
    assert check(found, grade="close", steps=1) == 8


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_products_that_yield_floats(a, b):
    static, dynamic = [], []
    shapes = [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((1, 1), (1, 5)),
        ((0, 4), (4, 5)),
        ((4,), (4, 5)),
    ]
    for (of, zero), (x, w) in product(COLUMNS, shapes):
        of, zero = ((2, 1, 5) if len(w) == 3 and shape == (5,) else shape for shape in (of, zero))
        integers, s, bias = eight_bits(b, *w), scale(*of), RNG.normal(size=5).astype(FLOAT)
        for b_zero, added in product((eight_bits(b, *zero), None), (bias, None)):
            for a_zero in (eight_bits(a), None):
                static.append(
                    Call(
                        "MatMulIntegerToFloat",
                        (eight_bits(a, *x), integers, scale(), s, a_zero, b_zero, added),
                        (True,),
                    )
                )
            if a == np.uint8:
                dynamic.append(
                    Call(
                        "DynamicQuantizeMatMul", (RNG.normal(size=x).astype(FLOAT), integers, s, b_zero, added), (True,)
                    )
                )
    assert check(static, grade="close", held=(1, 3, 5), opsets=(21, 13)) == 144
    assert not dynamic or check(dynamic, grade="close", held=(1, 2, 3), opsets=(21, 13)) == 72


def test_products_of_sixteen_bits():
    found = []
    for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 0), (0, 5))):
        numbers = [RNG.integers(-(2**13), 2**13, of).astype(np.int16) for of in (a, b)]
        found += calls("MatMulInteger16", dict(zip("AB", numbers, strict=True)), types=[FLOAT])
    assert check(found) == 4


def test_what_the_kernel_scales_otherwise_is_refused():
    a, w, s, columns = eight_bits(np.uint8, 2, 3, 4), eight_bits(np.int8, 2, 4, 5), scale(), scale(5)
    bias = np.ones(5, FLOAT)
    check_refused(
        [Call("MatMulIntegerToFloat", (a, w, s, columns, None, None, bias), (True,))],
        "the scales of shape [5] do not have one scale for each column of B, which has shape [2, 4, 5]",
    )
    floats = a.astype(FLOAT)
    check_refused(
        [Call("DynamicQuantizeMatMul", (floats, w, columns, None, bias), (True,))],
        "the scales of shape [5] do not have one scale for each column of B, which has shape [2, 4, 5]",
    )
    zero = np.array(0, np.int8)
    given = (a[0], s, np.array(0, np.uint8), w[0], s, zero, None)
    check_refused(
        [Call("QGemm", (*given, s), (True,)), Call("QGemm", (*given, None, zero), (True,))],
        "only one of y_scale and y_zero_point is given",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_integers_by_their_text(kind):
    a, b, z = eight_bits(kind, 2, 3), eight_bits(kind, 3), np.array(5, kind)
    for zero in (None, z):
        expected = (a.astype(int) - (5 if zero is not None else 0)) * (b.astype(int) - 5)
        np.testing.assert_array_equal(computed(Call("MulInteger", (a, zero, b, z), (True,)), 13)[0], expected)
    call = Call("ReduceSumInteger", (a,), (True,), {"axes": [1], "keepdims": 0})
    np.testing.assert_array_equal(computed(call, 13)[0], a.astype(int).sum(1))
