"""Spectra of parts of a signal."""

from __future__ import annotations

from typing import Any

from tests.random.layers.draw import Draw, recipe


@recipe
def short_time(d: Draw) -> Any:
    size, step = d.number(1, 8), d.number(1, 5)
    window = d.number(1, size)
    shape = [d.number(1, 2)] * d.number(0, 1) + [size + d.number(0, 12)]
    inputs = [d.parameter(d.array(shape)), d.given(d.array([window])), d.constant(size, "int64"), d.whole(step)]
    return d.make(15, "STFT", inputs, transpose_frames=d.chance())
