"""Convert ONNX models between opset versions, up and down, and prove that the result computes the same."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # an import of typing would be the longest part of this one, in which an interrupt is not quiet

if TYPE_CHECKING:
    from opshift.api import (
        Plan,
        convert_version,
        diff,
        extract,
        fill,
        fold,
        inline,
        merge,
        optimize,
        plan,
        strip,
        verify,
    )
    from opshift.jobs.batch import FileResult, convert_files
    from opshift.passes.changes import Change
    from opshift.passes.errors import InvalidModel, Refusal, Refused
    from opshift.trying.pipelines import Trial, try_in
    from opshift.verification.verdict import Verification

if not os.path.isdir(os.path.join(__path__[0], "passes")):  # which lies beside this folder in a checkout
    __path__.append(os.path.dirname(__path__[0]))

__version__ = "0.1.0"
__all__ = [
    "Change",
    "FileResult",
    "InvalidModel",
    "Plan",
    "Refusal",
    "Refused",
    "Trial",
    "Verification",
    "convert_files",
    "convert_version",
    "diff",
    "extract",
    "fill",
    "fold",
    "inline",
    "merge",
    "optimize",
    "plan",
    "strip",
    "try_in",
    "verify",
]

_HOMES = {
    "Change": "opshift.passes.changes",
    "FileResult": "opshift.jobs.batch",
    "InvalidModel": "opshift.passes.errors",
    "Refusal": "opshift.passes.errors",
    "Refused": "opshift.passes.errors",
    "Trial": "opshift.trying.pipelines",
    "Verification": "opshift.verification.verify",
    "convert_files": "opshift.jobs.batch",
    "try_in": "opshift.trying.pipelines",
}


def __dir__() -> list[str]:
    """What there is to use, which `help` tells of, too."""
    return sorted({*__all__, "__version__", "__doc__", "__name__", "__file__", "__path__", "__all__"})


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: `opshift --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'opshift' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "opshift.api")), name)
