"""The door of element types: all that other rooms import of it."""

from opshift.passes.types.carriers import Carriers, read_carriers
from opshift.passes.types.carrying import carry_types
from opshift.passes.types.changing import change
from opshift.passes.types.constants import is_same
from opshift.passes.types.describing import Convertible, count_types, describe
from opshift.passes.types.ends import probes
from opshift.passes.types.formats import FORMATS, as_floats, rounded
from opshift.passes.types.simulating import simulated
from opshift.passes.types.undoing import restored
from opshift.passes.types.wanted import KEEP, Range, Seen, Types, types, types_of_target

__all__ = [
    "FORMATS",
    "KEEP",
    "Carriers",
    "Convertible",
    "Range",
    "Seen",
    "Types",
    "as_floats",
    "carry_types",
    "change",
    "count_types",
    "describe",
    "is_same",
    "probes",
    "read_carriers",
    "restored",
    "rounded",
    "simulated",
    "types",
    "types_of_target",
]
