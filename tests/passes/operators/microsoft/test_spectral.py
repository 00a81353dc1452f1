"""Transforms of the last axis, by the text and numpy."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import DOUBLE, FLOAT, NEWEST, Call, check_refused, computed

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(8,), (2, 3, 6), (1, 2)])
@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
@pytest.mark.parametrize("opset", [NEWEST, 17])
def test_there_and_back(shape, kind, opset):
    x = RNG.normal(size=shape).astype(kind)
    spectrum = np.fft.rfft(x)
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(kind)
    made = computed(Call("Rfft", (x,), (True,), {"signal_ndim": 1}), opset)[0]
    np.testing.assert_allclose(made, parts, rtol=1e-5, atol=1e-5)
    back = computed(Call("Irfft", (parts,), (True,), {"signal_ndim": 1}), opset)[0]
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [{"signal_ndim": 2}, {"signal_ndim": 1, "normalized": 1}, {"signal_ndim": 1, "onesided": 0}])  # fmt: skip
def test_others_are_refused(attributes):
    check_refused(
        [Call("Rfft", (np.ones((2, 4), FLOAT),), (True,), attributes)], "signal_ndim=1, normalized=0, onesided=1"
    )
