"""Convolutions with an addend and an activation, or with pads that are an input."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, calls, check, check_refused

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
        check_refused(calls("FusedConv", {"X": (1, 2, 5, 5), "W": (2, 2, 3, 3)}, given, types=[FLOAT]), "could be expressed")  # fmt: skip


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
