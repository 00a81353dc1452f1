"""What each element type holds, against the types of numpy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
import pytest
from opshift.passes.model.formats import FORMATS, Floats, Integers

SMALL = [n for n, form in FORMATS.items() if isinstance(form, Floats) or form.highest < 2**16]


def dtype(number: int) -> Any:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


@np.errstate(all="ignore")
def numbers(number: int) -> Any:
    """Every number of a type of at most 16 bits, in float64; of a longer one, its ends and what lies beside 1."""
    form, kind = FORMATS[number], dtype(number)
    if isinstance(form, Integers):
        return np.arange(form.lowest, form.highest + 1).astype(np.float64)
    if kind.itemsize > 2:
        info = np.finfo(kind)
        return np.array(
            [info.max, -info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, np.inf, np.nan], kind
        ).astype(np.float64)
    bits = np.arange(2 ** (8 * kind.itemsize)).astype(f"u{kind.itemsize}").view(kind)
    return bits.astype(np.float64)


@np.errstate(all="ignore")
def kept(values: Any, kind: Any) -> Any:
    """Values after a cast to a type and back; integers only where they have a place there."""
    if kind.kind in "iu" or kind.name.startswith(("int", "uint")):
        form = FORMATS[onnx.helper.np_dtype_to_tensor_dtype(kind)]
        assert isinstance(form, Integers)
        held = np.isfinite(values) & (values == np.trunc(values)) & (values >= form.lowest) & (values <= form.highest)
        return np.where(held, values, 1e300)
    return values.astype(kind).astype(np.float64)


@pytest.mark.newest
@pytest.mark.parametrize("wide", SMALL, ids=lambda number: FORMATS[number].name)
def test_a_type_holds_another_where_no_number_of_it_is_rounded(wide: int):
    pytest.importorskip("ml_dtypes")
    for narrow in SMALL:
        values = numbers(narrow)
        same = np.array_equal(kept(values, dtype(wide)), values, equal_nan=True)
        assert FORMATS[wide].holds(FORMATS[narrow]) == same, FORMATS[narrow].name
