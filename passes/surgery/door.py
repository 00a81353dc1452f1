"""The door of surgery: all that other rooms import of it."""

from opshift.passes.surgery.ends import change_ends
from opshift.passes.surgery.extraction import Border, cut_out, find_border, types_of
from opshift.passes.surgery.merging import common_opsets, connections, join

__all__ = ["Border", "change_ends", "common_opsets", "connections", "cut_out", "find_border", "join", "types_of"]
