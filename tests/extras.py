"""What stands on the core of opshift, and the core without it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from configparser import ConfigParser
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

CONTRACT = Path(__file__).parents[1] / ".ci" / "importlinter.ini"


def extras() -> tuple[str, ...]:
    """The packages that no module of the core may import, as the contract says."""
    contract = ConfigParser(inline_comment_prefixes=None)
    contract.read(CONTRACT, encoding="utf-8")
    return tuple(contract["importlinter:contract:extras"]["forbidden_modules"].split())


def loaded() -> list[str]:
    """The modules of extras that this process has imported."""
    return sorted(name for name in sys.modules if is_extra(name, extras()))


def is_extra(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


class _Blocker(MetaPathFinder):
    def __init__(self, packages: Sequence[str]):
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if is_extra(fullname, self._packages):
            raise ModuleNotFoundError(f"{fullname} is an extra, and this is the core alone", name=fullname)
        return None


def block() -> None:
    """Let no extra be imported from now on."""
    for name in loaded():
        del sys.modules[name]
    sys.meta_path.insert(0, _Blocker(extras()))
