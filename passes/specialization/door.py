"""The door of specialization: all that other rooms import of it."""

from opshift.passes.specialization.declare import types_of
from opshift.passes.specialization.fixing import annotated, followed
from opshift.passes.specialization.fixing import attempt as fix
from opshift.passes.specialization.maps import as_tensors

__all__ = ["annotated", "as_tensors", "fix", "followed", "types_of"]
