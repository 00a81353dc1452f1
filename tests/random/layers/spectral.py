"""Spectra of parts of a signal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, recipe


@recipe
def short_time(d: Draw) -> Any:
    size, step = d.number(1, 8), d.number(1, 5)
    window = d.number(1, size)
    shape = [d.count(2)] * d.number(0, 1) + [size + d.number(0, 12)]
    inputs = [d.parameter(d.array(shape)), d.given(d.array([window])), d.constant(size, "int64"), d.whole(step)]
    return d.make(15, "STFT", inputs, transpose_frames=d.chance())


@recipe
def signals_of_frames(d: Draw) -> Any:
    size, count, batch = d.number(2, 8), d.number(1, 4), d.number(0, 2)
    step, window = d.number(1, size), d.number(1, size)
    shape = [*([batch] if batch else []), size // 2 + 1, count, 2]
    held = [d.rng.uniform(0.3, 1, window).astype(np.float32), np.array(size), np.array(step)]
    held += [np.array([d.number(1, size + step * count)])] if d.chance(0.3) else []
    inputs = [d.parameter(d.array(shape)), *map(d.constant, held)]
    return d.make(16, "ISTFT", inputs, center=d.chance(0.4), normalized=d.chance(0.4))
