"""numpy, imported at its first use: a conversion that computes nothing does without it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            found = vars(self)[name] = getattr(importlib.import_module("numpy"), name)
            return found

    np = _Numpy()

__all__ = ["np"]
