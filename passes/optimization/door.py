"""The door of optimization: all that other rooms import of it."""

from opshift.passes.optimization.bodies import BodyVisit
from opshift.passes.optimization.optimize import attempt as optimize

__all__ = ["BodyVisit", "optimize"]
