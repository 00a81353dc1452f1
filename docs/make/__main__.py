"""`python docs/make [SITE]`: the site, from docs/, the tables of the installed package and its docstrings.

Zensical, which renders it, takes pages as they are: what stands elsewhere is put into them first, in build/docs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import index
import inserted
import operators

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PREPARED = ROOT / "build" / "docs"
BUILT = ROOT / "site"
UNSEEN = ("make", "overrides", *inserted.TABLES)  # the pages of operators say what the large tables say


def prepare() -> None:
    """Write every page that is rendered, and what they show."""
    shutil.rmtree(PREPARED, ignore_errors=True)
    shutil.copytree(DOCS, PREPARED, ignore=shutil.ignore_patterns(*UNSEEN))
    for page in PREPARED.rglob("*.md"):
        page.write_text(inserted.prepared(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in operators.pages():
        page = PREPARED / "operators" / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")


def build(site: Path) -> None:
    """Render the pages; a warning is an error."""
    shutil.rmtree(BUILT, ignore_errors=True)
    subprocess.run([Path(sys.executable).parent / "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=True)
    index.write(BUILT)
    if site != BUILT:
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(BUILT, site)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUTF8", "1")
    prepare()
    build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else BUILT)
