"""The door of element types: all that other rooms import of it."""

from opshift.passes.types.carriers import Carriers, read_carriers
from opshift.passes.types.carrying import carry_types
from opshift.passes.types.changing import change
from opshift.passes.types.describing import WideIntegers, describe_int64
from opshift.passes.types.ends import probes
from opshift.passes.types.formats import FORMATS, as_floats, rounded
from opshift.passes.types.masks import MOVING
from opshift.passes.types.simulating import simulated
from opshift.passes.types.undoing import Undoing
from opshift.passes.types.wanted import KEEP, Range, Seen, Types, check_names, types

__all__ = [
    "FORMATS",
    "KEEP",
    "MOVING",
    "Carriers",
    "Range",
    "Seen",
    "Types",
    "Undoing",
    "WideIntegers",
    "as_floats",
    "carry_types",
    "change",
    "check_names",
    "describe_int64",
    "probes",
    "read_carriers",
    "rounded",
    "simulated",
    "types",
]
