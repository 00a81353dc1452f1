"""Convolutions with an addend and an activation, or with pads that are an input."""

from itertools import product

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed
from tests.passes.operators.microsoft.test_qlinear import eight_bits, scale

RNG = np.random.default_rng(0)
IMAGE = {"X": (1, 2, 5, 5), "W": (2, 2, 3, 3), "B": (2,)}


def test_convolutions_with_an_addend():
    made = calls("FusedConv", {**IMAGE, "Z": (1, 2, 5, 5)}, {"activation": [None, "Relu", "Tanh", "Sigmoid", "HardSwish"], "pads": [[1, 1, 1, 1]]}, types=[FLOAT])  # fmt: skip
    assert check(made) == 20


@pytest.mark.parametrize(("name", "params"), [("HardSigmoid", [0.2, 0.4]), ("Clip", [-0.5, 0.5]), ("LeakyRelu", [0.2])])
def test_activations_with_parameters(name, params):
    given = {"activation": [name], "activation_params": [params]}
    made = calls("FusedConv", IMAGE, {**given, "strides": [None, [2, 2]], "auto_pad": [None, "SAME_UPPER"]}, types=[FLOAT])  # fmt: skip
    made += calls("FusedConv", {"X": (1, 2, 5), "W": (2, 1, 3)}, {**given, "group": [2], "dilations": [None, [2]]}, types=[FLOAT])  # fmt: skip
    assert check(made) == 10


def test_unknown_activations_are_refused():
    for given in ({"activation": ["Gelu"]}, {"activation": ["LeakyRelu"]}, {"activation": ["Clip"], "activation_params": [[1.0]]}):  # fmt: skip
        check_refused(calls("FusedConv", {"X": (1, 2, 5, 5), "W": (2, 2, 3, 3)}, given, types=[FLOAT]), "supported: ")  # fmt: skip


TRANSPOSED = {"X": (1, 2, 4, 4), "W": (2, 3, 3, 3), "B": (3,)}


def test_pads_that_are_constant():
    pads = [np.array([1, 1, 1, 1]), np.array([0, 1, 1, 0])]
    made = calls("ConvTransposeWithDynamicPads", {**TRANSPOSED, "Pads": pads}, {"strides": [None, [2, 2]], "output_padding": [None, [1, 1]]}, types=[FLOAT])  # fmt: skip
    assert check(made, held=[2]) == 12


def test_pads_that_are_computed():
    pads = [np.array([1, 1, 1, 1]), np.array([0, 2, 1, 0])]
    made = calls("ConvTransposeWithDynamicPads", {**TRANSPOSED, "Pads": pads}, {"strides": [None, [2, 1]], "output_padding": [None, [1, 0]]}, types=[FLOAT])  # fmt: skip
    assert check(made, grade="close") == 12


@pytest.mark.parametrize("held", [(), (2,)])
def test_pads_beside_automatic_ones(held):
    """SAME decides, VALID does not."""
    automatic = {"auto_pad": ["SAME_UPPER", "SAME_LOWER", "VALID"], "strides": [None, [2, 2]]}
    made = calls("ConvTransposeWithDynamicPads", {**TRANSPOSED, "Pads": np.array([1, 0, 0, 1])}, automatic, types=[FLOAT])  # fmt: skip
    ran = [call for call in made if call.inputs[2] is not None]
    assert check(ran, held=held, grade="close") == 12


def test_a_masked_pool_is_refused():
    made = calls("MaxpoolWithMask", {"X": (1, 2, 5), "M": np.ones((1, 2, 5), np.int32)}, {"kernel_shape": [[2]]}, types=[FLOAT])  # fmt: skip
    check_refused(made, "For internal use.")


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("columns", [(), (1,), (6,)])
@pytest.mark.parametrize(("x", "w"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_convolutions_of_quantized_numbers(x, w, columns, last):
    found = []
    rest = [
        {},
        {"pads": [1, 0, 1, 2], "strides": [2, 1]},
        {"auto_pad": "SAME_UPPER"},
        {"group": 2, "kernel_shape": [3, 2], "dilations": [2, 1]},
    ]
    for of, bias in product(rest, (None, RNG.integers(-9000, 9000, 6).astype(np.int32))):
        image = eight_bits(x, *((2, 6, 7, 4) if last else (2, 4, 6, 7)))
        kernel = eight_bits(w, 6, 4 // of.get("group", 1), 3, 2)
        zero = np.full(columns, eight_bits(w), w)
        given = (
            image,
            scale(),
            eight_bits(x),
            kernel,
            scale(*columns),
            zero,
            np.array(0.2, FLOAT),
            eight_bits(x),
            bias,
        )
        found.append(Call("QLinearConv", given, (True,), {**of, "channels_last": last}))
    assert check(found, grade="close", steps=1, held=(3, 4, 5, 8), opsets=(21, 13)) == 8


@pytest.mark.parametrize("held", [(3, 4, 5, 8), (3, 8), ()])
@pytest.mark.parametrize(("scales", "zeros"), [((), (6,)), ((1,), (6,)), ((6,), ()), ((6,), (1,))])
def test_one_scale_beside_a_zero_point_for_each_channel(scales, zeros, held):
    found = []
    for bias in (None, RNG.integers(-9000, 9000, 6).astype(np.int32)):
        image, kernel = eight_bits(np.uint8, 2, 4, 6, 7), eight_bits(np.int8, 6, 4, 3, 2)
        of_kernel = (kernel, scale(*scales), eight_bits(np.int8, *zeros))
        given = (image, scale(), eight_bits(np.uint8), *of_kernel, np.array(0.2, FLOAT), eight_bits(np.uint8), bias)
        found.append(Call("QLinearConv", given, (True,)))
    assert check(found, grade="close", steps=1, held=held, opsets=(21, 13)) == 2


@pytest.mark.parametrize("last", [0, 1])
def test_no_channels_of_numbers_are_refused(last):
    """Of which the kernel yields what lies in memory."""
    image, kernel = eight_bits(np.uint8, *((2, 6, 7, 0) if last else (2, 0, 6, 7))), eight_bits(np.int8, 6, 0, 3, 2)
    zeros = (eight_bits(np.uint8), eight_bits(np.int8), eight_bits(np.uint8))
    given = (image, scale(), zeros[0], kernel, scale(), zeros[1], scale(), zeros[2])
    check_refused([Call("QLinearConv", given, (True,), {"channels_last": last})], "no input channels")


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_pools_with_channels_last(kind):
    found = []
    more = [{"pads": [None, [1, 0, 1, 1]], "strides": [None, [2, 2]], "ceil_mode": [None, 1]}]
    more += [{"auto_pad": ["SAME_UPPER", "VALID"], "strides": [[2, 1]]}, {"dilations": [[2, 1]]}]
    for of in more:
        found += calls(
            "NhwcMaxPool", {"x": eight_bits(kind, 2, 6, 7, 3)}, {"kernel_shape": [[3, 2]], **of}, types=[FLOAT]
        )
    found += calls("NhwcMaxPool", {"x": eight_bits(kind, 2, 6, 3)}, {"kernel_shape": [[2]]}, types=[FLOAT])
    assert check(found) == 12


def test_convolutions_with_channels_last_by_their_text():
    x, w, bias, z = (RNG.normal(size=shape).astype(FLOAT) for shape in ((2, 6, 7, 4), (6, 2, 3, 3), (6,), (2, 6, 7, 6)))
    of = {"pads": [1, 1, 1, 1], "group": 2}
    first = [a.transpose(0, 3, 1, 2).copy() for a in (x, z)]
    for given, activation in (((x, w, None, None), {}), ((x, w, bias, z), {"activation": "Relu"})):
        expected = computed(
            Call(
                "FusedConv",
                (first[0], w, given[2], first[1] if given[3] is not None else None),
                (True,),
                {**of, **activation},
            ),
            21,
        )[0]
        actual = computed(Call("NhwcFusedConv", given, (True,), {**of, **activation}), 21)[0]
        np.testing.assert_allclose(actual, expected.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
