"""The door of trying: all that other rooms import of it."""

from opshift.trying.attempt import attempt, backend_of
from opshift.trying.learning import check as check_learnt
from opshift.trying.search import DIED, DIFFERS, HUNG, IMPOSSIBLE, UNTRIED, Bound
from opshift.trying.tried import TrialManner, Tried

__all__ = [
    "DIED",
    "DIFFERS",
    "HUNG",
    "IMPOSSIBLE",
    "UNTRIED",
    "Bound",
    "TrialManner",
    "Tried",
    "attempt",
    "backend_of",
    "check_learnt",
]
