"""The door of folding: all that other rooms import of it."""

from opshift.passes.fusion.families import BY_NAME, FAMILIES, family
from opshift.passes.fusion.fold import attempt as fold
from opshift.passes.fusion.quantization.forms import INTEGERS, MOVED, SCALED, on_integers
from opshift.passes.fusion.reader import DRAWING

__all__ = ["BY_NAME", "DRAWING", "FAMILIES", "INTEGERS", "MOVED", "SCALED", "family", "fold", "on_integers"]
