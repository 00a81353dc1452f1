"""What differs between outputs and those expected, in ONNX's own tolerances."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.conformance.cases import Case
from tests.conformance.oracle import truth


def mismatch(case: Case, outputs: Sequence[Any], *, rounded: bool = False) -> str:
    """What differs from the published outputs; empty if nothing does.

    ONNX publishes results of float32 arithmetic, which leaves some of the last bits of its largest terms where they
    cancel to 0. Where `rounded`, an element that differs may be as far from the result in float64 as the published
    output itself is somewhere, but not farther than 4 of those last bits.
    """
    if len(outputs) != len(case.outputs):
        return f"{len(outputs)} outputs instead of {len(case.outputs)}"
    for index, (expected, actual) in enumerate(zip(case.outputs, outputs, strict=True)):
        try:
            _assert_alike(expected, actual, case.rtol, case.atol)
        except AssertionError as error:
            if not (rounded and _as_near(case, index, actual)):
                return f"output {index}: " + " ".join(str(error).split())[:200]
    return ""


def difference(case: Case, expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """What differs between the outputs of two runs of a case, checked as published ones are."""
    return mismatch(replace(case, outputs=list(expected)), actual)


def _as_near(case: Case, index: int, actual: Any) -> bool:
    """Whether every element is as published in ONNX's tolerances, or as near to the float64 result as published ones."""
    published = case.outputs[index]
    alike = isinstance(published, np.ndarray) and isinstance(actual, np.ndarray) and published.dtype == actual.dtype
    if not alike or published.shape != actual.shape or published.dtype.kind != "f":
        return False
    exact = truth(case)
    if exact is None or np.shape(exact[index]) != published.shape or not np.isfinite(exact[index]).all():
        return False
    off = np.abs(published - exact[index]).max(initial=0.0)
    if off > 4 * np.finfo(published.dtype).eps * np.abs(published).max(initial=0.0):
        return False  # then one of the two is wrong
    near = np.abs(actual - exact[index]) <= off
    return bool((near | np.isclose(actual, published, rtol=case.rtol, atol=case.atol)).all())


def _assert_alike(expected: Any, actual: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, (list, tuple)):
        assert isinstance(actual, (list, tuple)), "not a sequence"
        assert len(expected) == len(actual), "another length"
        for e, a in zip(expected, actual, strict=True):
            _assert_alike(e, a, rtol, atol)
        return
    if expected is None or actual is None:
        assert expected is actual, "only one is an empty optional"
        return
    e, a = np.asarray(expected), np.asarray(actual)
    assert e.shape == a.shape, f"shape {a.shape} instead of {e.shape}"
    assert e.dtype == a.dtype or e.dtype.kind in "OSU", f"type {a.dtype} instead of {e.dtype}"
    if e.dtype.kind in "OSUb":
        np.testing.assert_array_equal(e, a)
        return
    if e.dtype.kind not in "iufc":  # bfloat16 and smaller floats
        rtol = max(rtol, 2**-6)
        e, a = e.astype(np.float64), a.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(a, e, rtol=rtol, atol=atol)
