"""Layers that make colors of what a camera sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, recipe


@recipe
def colors(d: Draw) -> Any:
    count, height, width = d.number(1, 2), 2 * d.number(1, 4), 2 * d.number(1, 4)
    blended, half = d.chance(), (count, height // 2, width // 2)
    shapes = [(count, height * 3 // 2, width, 1)]
    if d.chance():
        shapes = [(count, height, width, 1), *([(*half, 2)] if blended else [(*half, 1)] * 2)]
    images = [d.rng.integers(0, 256, shape) for shape in shapes]
    kind = np.uint8 if d.chance() else np.float32
    name = f"{'NV12' if blended else 'I420'}to{d.one(('RGB', 'BGR'))}"
    return d.make(8, name, [d.parameter(image.astype(kind)) for image in images])
