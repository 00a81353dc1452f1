"""What single inputs are filled with."""

import numpy as np
import pytest
from onnx import TypeProto
from opshift.passes.model.types import tensor_type

from opshift.verification.engines import EngineError
from opshift.verification.feeding import values
from opshift.verification.feeding.asked import DRAWN, asked
from opshift.verification.feeding.meanings import Meanings

FLOAT, COMPLEX = 1, 14


def drawn(kind, wanted=DRAWN, **choice):
    return values.draw({"x": kind}, Meanings(), wanted, values.Choice(3, **choice))["x"]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
def test_a_few_numbers_are_never_of_one_sign(size, wide):
    for elem_type in (FLOAT, COMPLEX):
        for seed in range(40):
            made = drawn(tensor_type(elem_type, [size]), seed=seed, wide=wide)
            assert {-1.0, 1.0} == set(np.sign(made.real).tolist())
    signs = [np.sign(drawn(tensor_type(FLOAT, []), seed=seed, wide=wide)) for seed in range(4)]
    assert signs == [-1, 1, -1, 1], "in turn"


def test_numbers_of_all_magnitudes():
    made = np.abs([drawn(tensor_type(FLOAT, [10, 60]), seed=seed, wide=True) for seed in (1, 2)])
    assert 0.1 < (made > 6).mean() < 0.5
    assert 0.01 < (made < 2.0**-9).mean() < 0.2
    assert np.abs(drawn(tensor_type(FLOAT, [10, 60]))).max() < 6


def test_sizes_that_are_asked_for():
    wanted = asked(input_shape={"x": [2, 5]})
    assert drawn(tensor_type(FLOAT, [None, "N"]), wanted).shape == (2, 5)
    assert drawn(tensor_type(FLOAT, [None, "N"])).shape == (3, 3)


@pytest.mark.parametrize("elem_type", [0, 999])
def test_what_has_no_type_is_not_drawn(elem_type):
    kind = TypeProto()
    kind.tensor_type.elem_type = elem_type
    with pytest.raises(EngineError, match="the type of an input is unknown"):
        drawn(kind)
