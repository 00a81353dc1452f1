"""Roundings that are written out, against those of ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.changes import Ledger
from opshift.passes.model.formats import FORMATS, Floats
from opshift.passes.types.carriers import read_carriers
from opshift.passes.types.carrying import carry_types

from tests.support import converted, evaluate, model

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.newest
T = TensorProto
NARROW = [n for n, form in FORMATS.items() if isinstance(form, Floats) and form.digits <= 8 and not form.powers]
OPSET = 28


def dtype(number: int) -> Any:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def beside(number: int, work: Any) -> Any:
    """Each number of a type, the middle between it and the next one, and the neighbours of both."""
    kind, form = dtype(number), FORMATS[number]
    assert isinstance(form, Floats)
    with np.errstate(all="ignore"):
        held = np.arange(2 ** (8 * kind.itemsize)).astype(f"u{kind.itemsize}").view(kind).astype(np.float64)
    held = np.unique(held[np.isfinite(held)])[:: 1 if kind.itemsize == 1 else 37]
    points = np.concatenate([held, (held[1:] + held[:-1]) / 2, [form.largest * 1.07, form.largest * 4, 1e-30, 1e30]])
    with np.errstate(all="ignore"):
        points = np.concatenate([points, -points]).astype(work)
    return np.concatenate([
        points, np.nextafter(points, np.asarray(np.inf, work)), np.nextafter(points, np.asarray(-np.inf, work)),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan], work),
    ])  # fmt: skip


def nearest(x: Any, number: int, *, saturate: bool) -> Any:
    """The number that is nearest, of two the one whose bits are even; beyond the largest one as the text of Cast has it.

    ml_dtypes has the numbers. It is not asked to round float64, which it rounds to float32 first.
    """
    form, kind = FORMATS[number], dtype(number)
    assert isinstance(form, Floats)
    bits = np.arange(2 ** (8 * kind.itemsize)).astype(f"u{kind.itemsize}")
    with np.errstate(all="ignore"):
        values = bits.view(kind).astype(np.float64)
    positive = np.isfinite(values) & ~np.signbit(values)
    bits, values = bits[positive], values[positive]
    order = np.argsort(values, kind="stable")
    bits, values = bits[order], values[order]
    values, first = np.unique(values, return_index=True)
    size = np.minimum(np.nan_to_num(np.abs(x.astype(np.float64)), nan=0.0), form.largest * 2)
    above = np.append(values, form.largest + (form.largest - values[-2]))  # the next one, were there one
    even = np.append(bits[first] % 2 == 0, bits[first[-1]] % 2 == 1)
    place = np.clip(np.searchsorted(above, size, side="right") - 1, 0, len(above) - 2)
    low, high = above[place], above[place + 1]
    up = (size - low > high - size) | ((size - low == high - size) & ~even[place])
    rounded = np.where(size >= above[-1], np.inf, np.where(up, high, low))
    beyond = form.largest if saturate or not form.nan else np.inf if form.infinite else np.nan
    rounded = np.copysign(np.where(rounded > form.largest, beyond, rounded), x)
    rounded = np.where(rounded == 0, 0.0, rounded) if not form.negative_zero else rounded
    return np.where(np.isnan(x), np.nan if form.nan else -0.0, rounded).astype(x.dtype)


@pytest.mark.parametrize("work", ["float", "double"])
@pytest.mark.parametrize(
    ("number", "saturate"),
    [
        pytest.param(number, saturate, id=f"{FORMATS[number].name}-{saturate}")
        for number in NARROW
        for saturate in ([True, False] if FORMATS[number].name.startswith("float8") else [True])
    ],
)
def test_numbers_between_two_become_the_nearest_ties_the_even_one(number: int, work: str, saturate: bool):
    form = FORMATS[number]
    saturate = saturate and form.name != "bfloat16"
    x = beside(number, np.float32 if work == "float" else np.float64)
    named = f", saturate={int(saturate)}" if form.name.startswith("float8") else ""
    source = model(
        f"q = Cast<to={number}{named}>(x) y = Cast<to={T.FLOAT if work == 'float' else T.DOUBLE}>(q)",
        OPSET, inputs=f"{work}[N] x", outputs=f"{work}[N] y",
    )  # fmt: skip
    expected = nearest(x, number, saturate=saturate)
    ledger = Ledger()
    carried = carry_types(source, read_carriers([f"{form.name}={work}"]), ledger, None)
    assert not ledger.refusals
    for target in (OPSET, 13, *([8] if work == "float" else [])):
        result = converted(carried, target).model
        assert result is not None
        actual = evaluate(result, {"x": x})[0]
        np.testing.assert_array_equal(actual, expected, err_msg=f"at opset {target}")
        if target >= 13:
            zero = (expected == 0) & ~np.isnan(x)
            signs = [np.signbit(values[zero]) for values in (actual, expected)]
            np.testing.assert_array_equal(*signs, err_msg="the sign of 0")


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str, saturate: int):
    powers = 2.0 ** np.arange(-126, 128)
    between = [powers[:-1] * factor for factor in (1.49, 1.5, 1.51, 1.99)]
    x = np.concatenate([powers, *between, [np.inf, np.nan, 0.0]]).astype(np.float32)
    mantissa, exponent = np.frexp(x[:-3].astype(np.float64))  # from 0.5 on
    up = {"up": mantissa > 0.5, "down": mantissa < 0, "nearest": mantissa >= 0.75}[mode]
    ends = [2.0**127, np.nan, 2.0**-127] if saturate else [np.nan, np.nan, np.nan]
    expected = np.concatenate([2.0 ** (exponent - 1 + up), ends]).astype(np.float32)
    source = model(
        f'q = Cast<to=24, round_mode="{mode}", saturate={saturate}>(x) y = Cast<to=1>(q)',
        OPSET, inputs="float[N] x", outputs="float[N] y",
    )  # fmt: skip
    carried = carry_types(source, read_carriers(["float8e8m0=float"]), Ledger(), None)
    for target in (OPSET, 13):
        result = converted(carried, target).model
        assert result is not None
        np.testing.assert_array_equal(evaluate(result, {"x": x})[0], expected)
