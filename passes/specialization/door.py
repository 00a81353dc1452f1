"""The door of specialization: all that other rooms import of it."""

from opshift.passes.specialization.declare import types_of
from opshift.passes.specialization.fixing import annotated, followed
from opshift.passes.specialization.fixing import attempt as fix
from opshift.passes.specialization.maps import as_tensors
from opshift.passes.specialization.rebatching import CANNOT_CHANGE

__all__ = ["CANNOT_CHANGE", "annotated", "as_tensors", "fix", "followed", "types_of"]
