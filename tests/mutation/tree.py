"""A copy of the checkout that is laid out as it is installed, so that a mutant is one file written into it."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSIDE = ("passes", "functions")  # lie in `opshift` where it is installed
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "site")
_moments = itertools.count(1)


class Tree:
    """Code and tests in `folder`; what they import and what they start is there, not in the checkout."""

    def __init__(self, folder: Path):
        self.folder = folder

    def fill(self) -> None:
        """Copy what the checkout holds now."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(ROOT, self.folder, ignore=LEFT_OUT)
        for name in INSIDE:
            (self.folder / name).rename(self.folder / "opshift" / name)
            (self.folder / name).symlink_to(Path("opshift") / name)

    def path(self, file: str) -> Path:
        """Where a file of the checkout lies."""
        return self.folder / (f"opshift/{file}" if file.split("/")[0] in INSIDE else file)

    def module(self, file: str) -> str:
        """The name that a file of the code is imported by."""
        inner = self.path(file).relative_to(self.folder).with_suffix("")
        return ".".join(inner.parts).removesuffix(".__init__")

    def file(self, path: str) -> str:
        """The name in the checkout of a file of the tree."""
        inner = Path(path).relative_to(self.folder).as_posix()
        return next((inner[8:] for name in INSIDE if inner.startswith(f"opshift/{name}/")), inner)

    def enter(self) -> None:
        """Import from here, in this process and in those that it starts; nothing of the code may be imported yet."""
        os.chdir(self.folder)
        os.environ["PYTHONPATH"] = str(self.folder)
        sys.path[:] = [str(self.folder), *(path for path in sys.path if path not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "opshift")]:
            del sys.modules[name]

    @contextmanager
    def holding(self, file: str, text: str) -> Iterator[None]:
        """Hold another text of one file for a while, under a date that no compiled form of it has."""
        path = self.path(file)
        kept, stat = path.read_bytes(), path.stat()
        later = stat.st_mtime_ns + next(_moments) * 2_000_000_000
        try:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(later, later))
            yield
        finally:
            path.write_bytes(kept)
            os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
