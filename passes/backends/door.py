"""The door of backends: all that other rooms import of it."""

from opshift.passes.backends.backend import Backend, MeasuredCall, Types, Value
from opshift.passes.backends.fit import (
    convert_for_backend,
    convert_to_opset,
    find_classical_operators,
    find_foreign_operators,
    find_vendor_operators,
    ml_opset,
)
from opshift.passes.backends.knowledge import BELIEVED, READ, UNKNOWN, KnownCalls, find_known_calls
from opshift.passes.backends.measurements import read as read_measured
from opshift.passes.backends.measurements import spell_call
from opshift.passes.backends.obstacles import find_copied_outputs, obstacles
from opshift.passes.backends.open_inputs import find_open_inputs, list_attempts
from opshift.passes.backends.respelling import find_respelled, find_unread_forms, respell
from opshift.passes.backends.target_files import find, loads, newest, parse, read, targets, text_of, write
from opshift.passes.backends.whole_numbers import keep_in_floats

__all__ = [
    "BELIEVED",
    "READ",
    "UNKNOWN",
    "Backend",
    "KnownCalls",
    "MeasuredCall",
    "Types",
    "Value",
    "convert_for_backend",
    "convert_to_opset",
    "find",
    "find_classical_operators",
    "find_copied_outputs",
    "find_foreign_operators",
    "find_known_calls",
    "find_open_inputs",
    "find_respelled",
    "find_unread_forms",
    "find_vendor_operators",
    "keep_in_floats",
    "list_attempts",
    "loads",
    "ml_opset",
    "newest",
    "obstacles",
    "parse",
    "read",
    "read_measured",
    "respell",
    "spell_call",
    "targets",
    "text_of",
    "write",
]
