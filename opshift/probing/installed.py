"""Which backends are installed here, and in which release."""

from __future__ import annotations

import importlib.metadata

from opshift.passes.spelling import hint
from opshift.verification import adapters


def known(backend: str) -> str:
    """The name of a backend that can be tried; raises `ValueError` for another one."""
    if backend not in adapters.KNOWN:
        likely = hint(backend, adapters.KNOWN) or f"; {', '.join(adapters.KNOWN)} can be probed and tried"
        raise ValueError(f"unknown backend {backend!r}{likely}")
    return backend


def release(backend: str) -> str:
    """The release of an installed backend; raises `ValueError` if there is none."""
    packages = adapters.DISTRIBUTIONS.get(backend, (backend,))
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise ValueError(f"{backend} is not installed: pip install {packages[0]}")
