"""One layer each, drawn at random: its attributes, and the values that it takes."""

from tests.random.layers import (  # noqa: F401
    chance,
    colors,
    control,
    decoding,
    detection,
    elementwise,
    indexing,
    layout,
    nn,
    normalization,
    recurrent,
    resampling,
    spectral,
)
from tests.random.layers.draw import RECIPES, Draw, Unfit

__all__ = ["RECIPES", "Draw", "Unfit"]
