"""An LSTM that quantizes its state before each product: one sequence, or several that are quantized as one."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, check, check_refused

RNG = np.random.default_rng(0)
LAST, ALL = (False, True, False), (True, True, True)


def call(direction="bidirectional", kind=np.uint8, of_columns=False, time=5, batch=1, size=4, **held):
    """`held` are attributes, and which of the optional inputs there are."""
    ways, columns = 2 if direction == "bidirectional" else 1, 4 * size
    low, high, zero = (0, 256, 128) if kind is np.uint8 else (-127, 128, 0 if of_columns else -3)
    of = (ways, columns) if of_columns else (ways,)

    def floats(*shape, there=True):
        return RNG.normal(size=shape).astype(FLOAT) if there else None

    def scales():
        return [RNG.uniform(0.002, 0.006, of).astype(FLOAT), np.full(of, zero).astype(kind)]

    weights = [RNG.integers(low, high, (ways, rows, columns)).astype(kind) for rows in (3, size)]
    lengths, starts = held.pop("lengths", None), held.pop("starts", False)
    given = (
        *(floats(time, batch, 3), *weights, floats(ways, 2 * columns, there=held.pop("biased", True))),
        *(None if lengths is None else np.array(lengths, np.int32), floats(ways, batch, size, there=starts)),
        *(floats(ways, batch, size, there=starts), floats(ways, 3 * size, there=held.pop("peepholes", False))),
        *(*scales(), *scales()),
    )
    outputs = held.pop("outputs", ALL)
    return Call("DynamicQuantizeLSTM", given, outputs, {"direction": direction, "hidden_size": size, **held})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_one_sequence(direction):
    options = [{}, {"lengths": [3]}, {"starts": True, "peepholes": True}, {"clip": 0.7, "input_forget": 1, "biased": False},
               {"time": 1, "outputs": LAST}]  # fmt: skip
    made = [
        call(direction, kind, of_columns, **held)
        for kind in (np.uint8, np.int8)
        for of_columns in (False, True)
        for held in options
    ]
    assert check(made, grade="close", symbolic=False) == 20


def test_a_wide_state_of_few_sequences_is_quantized_as_one():
    assert check([call(batch=3, size=260)], grade="close", symbolic=False) == 1


def test_sequences_that_threads_divide_are_refused():
    several = [call(batch=2), call(batch=5, size=260), call(batch=3, size=260, lengths=[5, 3, 1])]
    check_refused(several, "supported: one sequence")
