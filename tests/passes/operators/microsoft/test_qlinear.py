"""Elementwise operators, pools, Softmax, Concat and Where of quantized numbers."""

from itertools import product

import numpy as np
import pytest
from opshift.passes.conversion import convert
from opshift.passes.model.schemas import MICROSOFT

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed, model

RNG = np.random.default_rng(0)
KINDS = [np.uint8, np.int8]


def eight_bits(kind, *shape):
    ends = np.iinfo(kind)
    return RNG.integers(ends.min, ends.max + 1, shape).astype(kind)


def scale(*shape, low=0.01):
    return RNG.uniform(low, 0.05, shape).astype(FLOAT)


def triple(kind, *shape):
    """Numbers, their scale and their zero point."""
    return eight_bits(kind, *shape), scale(), eight_bits(kind)


def held(kind, **shapes):
    """Numbers, scales and zero points by name: 8 bits where nothing else is said."""
    return {name: scale(*of) if name.endswith("scale") else eight_bits(kind, *of) for name, of in shapes.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_two_operands(op, kind):
    found = []
    for a, b in (((2, 3, 37), (3, 37)), ((2, 1), (1, 3)), ((), (4,)), ((5,), ()), ((0, 3), (3,)), ((), ())):
        given = [
            eight_bits(kind, *a),
            scale(),
            eight_bits(kind),
            eight_bits(kind, *b),
            scale(),
            eight_bits(kind),
            np.asarray(scale() * 40 ** (op == "QLinearMul")),
        ]
        found += [Call(op, (*given, zero), (True,)) for zero in (None, eight_bits(kind))]  # the others must be there
    assert check(found, grade="close", steps=1) == 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("op", "of"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": [None, 0.3, -0.5, 0.0]})]
)
def test_functions_that_are_looked_up(op, of, kind):
    every = np.arange(256).astype(kind).reshape(2, 128)
    found = []
    for x, one in ((every, ()), (eight_bits(kind), (1,)), (eight_bits(kind, 0, 3), ())):
        for zero, alpha in product((None, eight_bits(kind, *one)), of.get("alpha", [None])):
            given = (x, scale(*one), zero, scale(*one, low=0.003), eight_bits(kind, *one))  # the last one must be there
            found.append(Call(op, given, (True,), {} if alpha is None else {"alpha": alpha}))
    assert check(found) == 6 * len(of.get("alpha", [None]))


@pytest.mark.parametrize("kind", KINDS)
def test_softmax(kind):
    found = []
    for x in ((2, 3, 40), (2, 4, 7), (4,)):  # of a sum of one exponential the kernel makes an infinity
        given = held(kind, X=x, X_scale=(), x_zero_point=())
        given |= {"y_scale": np.array(1 / 256, FLOAT), "y_zero_point": np.array(np.iinfo(kind).min, kind)}
        for opset, axes in ((13, [None, -1, 0]), (12, [None, 0, -1]), (11, [-len(x) + 1 if len(x) > 1 else 0])):
            found += calls("QLinearSoftmax", given, {"opset": [opset], "axis": axes}, types=[FLOAT])
    assert check(found, grade="close", steps=1) == 42


@pytest.mark.parametrize("opset", [21, 13])
def test_softmax_of_nothing(opset):
    call = Call("QLinearSoftmax", triple(np.uint8, 2, 4, 0) + triple(np.uint8)[1:], (True,), {"opset": 11, "axis": 1})
    assert computed(call, opset)[0].shape == (2, 4, 0)


def test_what_the_kernel_makes_an_infinity_of_is_refused():
    for shape, of, axis in (((2, 1), {"opset": 13}, -1), ((1, 2, 3), {"opset": 12}, 2), ((2, 1, 3), {"opset": 13}, 1)):
        small = np.array(0.001 if shape[-1] == 3 and axis == 2 else 1 / 256, FLOAT)
        call = Call(
            "QLinearSoftmax", (*triple(np.uint8, *shape), small, np.array(0, np.uint8)), (True,), {**of, "axis": axis}
        )
        check_refused([call], "the kernel computes infinities", held=(3,))
        large = (*call.inputs[:3], np.array(1 / 100, FLOAT), call.inputs[4])
        assert check([Call("QLinearSoftmax", large, (True,), call.attributes)], grade="close", steps=1, held=(3,)) == 1


def test_computed_scales_that_may_make_an_infinity_are_refused():
    for of, shapes in (({"opset": 13}, ((2, 1), (1,))), ({"opset": 12, "axis": 1}, ((2, 1, 1),))):
        for shape in shapes:
            call = Call("QLinearSoftmax", (*triple(np.uint8, *shape), scale(), eight_bits(np.uint8)), (True,), of)
            check_refused([call], "y_scale is dynamic")


@pytest.mark.parametrize("kind", KINDS)
def test_concat(kind):
    found = []
    for shapes, axis in ((((2, 3), (4, 3), (1, 3)), 0), (((2, 1), (2, 5)), -1), (((2, 3),), 1), (((0, 3), (2, 3)), 0)):
        for one, same in (((), False), ((1,), True)):
            shared = scale(*one)
            parts = [(eight_bits(kind, *of), shared if same else scale(*one), eight_bits(kind, *one)) for of in shapes]
            first = (shared if same else scale(*one), eight_bits(kind, *one))
            found.append(
                Call("QLinearConcat", (*first, *(each for part in parts for each in part)), (True,), {"axis": axis})
            )
    assert check(found) == 8
    check_refused([Call("QLinearConcat", found[0].inputs[:6], (True,), {"axis": 0})], "6 inputs")


@pytest.mark.parametrize("kind", KINDS)
def test_where(kind):
    found = []
    for c, x, y in (
        ((2, 3), (2, 3), (2, 3)),
        ((2, 1), (3,), (2, 3)),
        ((2, 3), (), ()),
        ((), (4,), (1,)),
        ((0,), (1,), ()),
        ((), (), ()),
    ):
        given = held(
            kind, X=x, x_scale=(), x_zero_point=(), Y=y, y_scale=(), y_zero_point=(), z_scale=(), z_zero_point=()
        )
        found += calls("QLinearWhere", {"condition": [RNG.random(c) < 0.5], **given}, types=[FLOAT])
    assert check(found) == 6


SIZES = {
    (2, 2): [((1, 1), (0, 0, 0, 0)), ((2, 2), (0, 0, 0, 0)), ((2, 2), (1, 0, 1, 1))],
    (3, 3): [((2, 2), (1, 1, 1, 1)), ((3, 1), (2, 2, 0, 1))],
}
"""Strides and pads by the size of the window."""


def pools(op, kind, sizes, attributes):
    """Calls on images of some sizes, with channels first and last."""
    for size in sizes:
        for last in (0, 1):
            x = (2, *size, 3) if last else (2, 3, *size)
            given = (eight_bits(kind, *x), scale(), eight_bits(kind), scale(low=0.02), eight_bits(kind))
            yield Call(op, given, (True,), {**attributes, "channels_last": last})


@pytest.mark.parametrize("kind", KINDS)
def test_average_pools(kind):
    found = []
    for window, rows in SIZES.items():
        for (strides, pads), ceil, included in product(rows, (0, 1), (0, 1)):
            of = {
                "kernel_shape": window,
                "strides": strides,
                "pads": pads,
                "ceil_mode": ceil,
                "count_include_pad": included,
            }
            found += pools("QLinearAveragePool", kind, [(6, 7), (5, 5)], of)
    for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        found += pools(
            "QLinearAveragePool", kind, [(6, 7)], {"kernel_shape": (3, 2), "strides": (2, 1), "auto_pad": pad}
        )
    found += pools("QLinearAveragePool", kind, [(6,)], {"kernel_shape": (2,)})
    assert check(found, grade="close", steps=1, symbolic=False) == len(found)


@pytest.mark.parametrize("kind", KINDS)
def test_global_pools(kind):
    found = list(pools("QLinearGlobalAveragePool", kind, [(6,), (4, 5), (1, 1), (2, 3, 4)], {}))
    assert check(found, grade="close", steps=1) == 8


def test_windows_of_images_of_unknown_size_are_refused():
    of = {"kernel_shape": (2, 2), "ceil_mode": 1, "count_include_pad": 1}
    source = model(list(pools("QLinearAveragePool", np.uint8, [(6, 7)], of))[:1], symbolic=True)
    result = convert.attempt(source, {"": 21}, ops=[(MICROSOFT, "QLinearAveragePool")])
    assert "the size of the image is unknown" in str(result.refusals[0])


@pytest.mark.parametrize("kind", KINDS)
def test_means_by_their_text(kind):
    x, s, z = eight_bits(kind, 2, 3, 4), np.array(0.02, FLOAT), np.array(9, kind)
    for axes, keep in (([1], 1), ([0, -1], 0), ([0, 1, 2], 0)):
        call = Call("QLinearReduceMean", (x, s, z, np.array(0.01, FLOAT), z), (True,), {"axes": axes, "keepdims": keep})
        mean = ((x.astype(int) - 9) * 0.02).mean(axis=tuple(axes), keepdims=bool(keep))
        ends = np.iinfo(kind)
        expected = np.clip(np.round(mean / 0.01) + 9, ends.min, ends.max)
        for opset in (13, 21):
            (actual,) = computed(call, opset)
            assert actual.dtype == kind
            assert np.abs(actual.astype(int) - expected).max() <= 1
