"""The door of specialization: all that other rooms import of it."""

from opshift.passes.specialization.declare import types_of, with_output_types
from opshift.passes.specialization.fixing import annotate, follow_fixed
from opshift.passes.specialization.fixing import attempt as fix
from opshift.passes.specialization.maps import as_tensors
from opshift.passes.specialization.selecting import select
from opshift.passes.specialization.unrolling import LOOPS, Unrolled, functions_calling, unroll

__all__ = [
    "LOOPS",
    "Unrolled",
    "annotate",
    "as_tensors",
    "fix",
    "follow_fixed",
    "functions_calling",
    "select",
    "types_of",
    "unroll",
    "with_output_types",
]
