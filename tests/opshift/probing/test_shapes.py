"""Cases of other ranks and with open sizes: onnxruntime says which there are, the backend which it takes."""

from dataclasses import replace

import numpy as np
import pytest
from opshift.passes.backends.backend import MeasuredCall

from opshift.probing import shapes
from opshift.probing.samples import Sample
from opshift.probing.worker import Worker
from opshift.verification import adapters
from opshift.verification.engines import OnnxRuntime
from tests.support import model

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def case(body, feeds, inputs):
    of = model(body, 13, inputs=inputs, outputs="float[] y")
    return Sample("made up", ("", of.graph.node[0].op_type), of, feeds, OnnxRuntime(of).run(feeds), 1e-3, 1e-7)


@pytest.fixture(scope="module")
def runtime():
    made = Worker(adapters.KNOWN["onnxruntime"].session)
    yield made
    made.stop()


def ranks(of, agrees, runtime):
    return shapes.measure_shapes([of], agrees, runtime)


def test_ranks_that_both_take_are_measured(runtime):
    relu = case("y = Relu(x)", {"x": X}, "float[2,3] x")
    assert ranks(relu, lambda made: True, runtime) == MeasuredCall((0, 1, 2, 3, 4, 5, 6), True)
    flat = lambda made: made.feeds["x"].ndim < 4 and not is_open(made)  # noqa: E731
    assert ranks(relu, flat, runtime) == MeasuredCall((0, 1, 2, 3), False, failed=(4, 5, 6))


def test_ranks_that_there_are_not_are_none(runtime):
    gemm = case("y = Gemm(x, w)", {"x": X, "w": X.T.copy()}, "float[2,3] x, float[3,2] w")
    assert ranks(gemm, lambda made: True, runtime) == MeasuredCall((2,), True)


def test_lists_of_axes_are_left_out_where_they_do_not_fit(runtime):
    transpose = case("y = Transpose<perm=[1,0]>(x)", {"x": X}, "float[2,3] x")
    assert ranks(transpose, lambda made: True, runtime).ranks == (0, 1, 2, 3, 4, 5, 6)


@pytest.mark.long
def test_what_is_expected_is_what_onnxruntime_makes(runtime):
    seen = []

    def agrees(made):
        seen.append(made)
        return True

    ranks(case("y = Neg(x)", {"x": X}, "float[2,3] x"), agrees, runtime)
    for made in seen:
        np.testing.assert_array_equal(made.expected[0], -made.feeds["x"])


@pytest.mark.long
def test_without_an_array_there_is_nothing_to_measure(runtime):
    empty = replace(case("y = Relu(x)", {"x": X}, "float[2,3] x"), feeds={})
    assert ranks(empty, lambda made: True, runtime) == MeasuredCall((), False)


def is_open(made):
    return any(dim.dim_param for dim in made.model.graph.input[0].type.tensor_type.shape.dim)
