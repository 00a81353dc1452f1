"""Sums with a bias or a residual, judged by numpy: none of them has a kernel on the CPU."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, HALF, NEWEST, Call, check_refused, computed

RNG = np.random.default_rng(0)


def draw(*shape, kind=FLOAT):
    return RNG.normal(size=shape).astype(kind)


@pytest.mark.parametrize("kind", [FLOAT, HALF])
def test_a_sum_of_three(kind):
    x, bias, skip = draw(2, 3, 4, kind=kind), draw(4, kind=kind), draw(2, 3, 4, kind=kind)
    for opset in (NEWEST, 11):
        made = computed(Call("BiasAdd", (x, bias, skip), (True,)), opset)[0]
        np.testing.assert_allclose(made, x.astype(float) + bias + skip, atol=2e-3 if kind is HALF else 1e-6)


@pytest.mark.parametrize(("axis", "inner", "shape"), [(3, 1, (2, 1, 1, 4)), (3, 0, (1, 1, 3, 4)), (2, 1, (2, 3, 3, 4)), (1, 1, (2, 3, 3, 4))])  # fmt: skip
@pytest.mark.parametrize("opset", [NEWEST, 11])
def test_softmax_over_all_axes_from_one_on(axis, inner, shape, opset):
    data, bias = draw(2, 3, 3, 4), draw(*shape)
    total = (data.astype(np.float64) + bias).reshape(int(np.prod(data.shape[:axis])), -1)
    exponents = np.exp(total - total.max(1, keepdims=True))
    expected = (exponents / exponents.sum(1, keepdims=True)).reshape(data.shape)
    call = Call("BiasSoftmax", (data, bias), (True,), {"axis": axis, "is_inner_broadcast": inner})
    np.testing.assert_allclose(computed(call, opset)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_bias_of_another_rank_is_refused():
    call = Call("BiasSoftmax", (draw(2, 3, 4), draw(4)), (True,), {"axis": 2, "is_inner_broadcast": 1})
    check_refused([call], "the data has rank 3, and the bias has rank 1")


@pytest.mark.parametrize("op", ["BiasDropout", "BitmaskBiasDropout"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("more", [(), (FLOAT(0.4),), (FLOAT(0.4), np.array(False))])
def test_dropout_at_inference_drops_nothing(op, residual, more):
    data, bias, rest = draw(2, 3, 4), draw(4), draw(2, 3, 4)
    inputs = (data, bias, rest if residual else None, *more, *[None] * (2 - len(more)))
    for opset in (NEWEST, 13, 11):
        made = computed(Call(op, inputs, (True, op == "BiasDropout")), opset)
        np.testing.assert_array_equal(made[0], data + bias + (rest if residual else 0))
        assert all(mask.all() for mask in made[1:])


def test_dropout_without_its_mask():
    data = draw(2, 3)
    np.testing.assert_array_equal(computed(Call("BitmaskDropout", (data, None, None), (True, False)), 13)[0], data)


@pytest.mark.parametrize("op", ["BitmaskDropout", "BitmaskBiasDropout"])
def test_a_mask_of_bits_is_refused(op):
    call = Call(op, (draw(2, 3), *([draw(3)] if "Bias" in op else [])), (True, True))
    check_refused([call], "whose last bits are not documented")


@pytest.mark.parametrize("op", ["ComplexMul", "ComplexMulConj"])
def test_what_is_complex_is_refused(op):
    check_refused([Call(op, (draw(2, 2), draw(2, 2)), (True,))], "where real and imaginary parts are")
