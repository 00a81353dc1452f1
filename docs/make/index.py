"""The index of the site's search, as a script: a page that is opened as a file may load scripts, and nothing else."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

LONG = 2000  # of a section: tables of numbers are not what people search for


def write(site: Path) -> None:
    """Write search-index.js from what the renderer found, and leave out the search of its own."""
    found = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    entries = [[item["location"], plain(item["title"]), page(item), plain(item["text"])[:LONG]] for item in found]
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    (site / "search-index.js").write_text(f"window.searchIndex={text};", encoding="utf-8")
    (site / "search.json").unlink()


def page(item: dict[str, object]) -> str:
    """The title of the page that a section stands on."""
    path = item["path"]
    assert isinstance(path, list)
    return plain(str(path[-1])) if path else ""


def plain(html: str) -> str:
    """Text without tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
