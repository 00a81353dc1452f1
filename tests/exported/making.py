"""What the makers of exported models share."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from tests.exported import store


def parsed(description: str | None) -> argparse.Namespace:
    """The options that all makers take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", nargs="+", default=[], help="for a try: the file then holds these families alone")
    parser.add_argument("--large", type=Path, help="write models with larger dimensions into this folder")
    return parser.parse_args()


def export(
    description: str | None,
    framework: str,
    packages: list[str],
    families: Iterable[str],
    exported: Callable[[str, int], list[store.Family]],
) -> None:
    """Write what is asked for of a framework's families, `exported` so wide."""
    options = parsed(description)
    chosen = [name for name in families if not options.only or name in options.only]
    found = [family for name in chosen for family in exported(name, 8 if options.large else 1)]
    if options.large:
        store.write_large(options.large, framework, found)
    else:
        store.write(framework, found, packages)


def coarse(values: np.ndarray) -> np.ndarray:
    """Weights of a few bits, which a zip packs well."""
    return np.round(values * 32) / 32


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporters print, from C++ as well."""
    logging.disable(logging.WARNING)
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nothing, number)
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for number, held in zip((1, 2), kept, strict=True):
            os.dup2(held, number)
            os.close(held)
        os.close(nothing)
        logging.disable(logging.NOTSET)
