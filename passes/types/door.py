"""The door of element types: all that other rooms import of it."""

from opshift.passes.types.carriers import Carriers, read_carriers
from opshift.passes.types.carrying import carry_types

__all__ = ["Carriers", "carry_types", "read_carriers"]
