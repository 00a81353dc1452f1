"""The door of element types: all that other rooms import of it."""

from opshift.passes.types.carriers import Carriers, read_carriers
from opshift.passes.types.carrying import carry_types
from opshift.passes.types.changing import change
from opshift.passes.types.describing import Convertible, count_types, describe
from opshift.passes.types.ends import Probe, probes
from opshift.passes.types.formats import FORMATS, as_floats, round_array
from opshift.passes.types.masks import MOVING
from opshift.passes.types.reasons import BUDGET, MEASURED, Reason
from opshift.passes.types.simulating import simulate
from opshift.passes.types.undoing import Undoing
from opshift.passes.types.wanted import BUDGETS, KEEP, Range, Seen, Types, check_names, types, types_of_target

__all__ = [
    "BUDGET",
    "BUDGETS",
    "FORMATS",
    "KEEP",
    "MEASURED",
    "MOVING",
    "Carriers",
    "Convertible",
    "Probe",
    "Range",
    "Reason",
    "Seen",
    "Types",
    "Undoing",
    "as_floats",
    "carry_types",
    "change",
    "check_names",
    "count_types",
    "describe",
    "probes",
    "read_carriers",
    "round_array",
    "simulate",
    "types",
    "types_of_target",
]
