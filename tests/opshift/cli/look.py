"""Pictures of a report, as a desk and a phone show it: python -m tests.lab pictures REPORT.html FOLDER [--height N]."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from html import escape
from pathlib import Path

WIDTHS = {"desk": 1280, "phone": 390}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--height", type=int, default=2400)
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, width in WIDTHS.items():  # in a frame: a window is never as narrow as a phone
        frame, picture = (options.folder / f"{name}.{kind}" for kind in ("html", "png"))
        size = f"width:{width}px;height:{options.height}px;border:0"
        frame.write_text(
            f'<body style="margin:0"><iframe src="{escape(options.report.resolve().as_uri())}" style="{size}"></iframe>',
            encoding="utf-8",
        )
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={max(width, 500)},{options.height}", f"--screenshot={picture.resolve()}"]
        subprocess.run([*command, frame.resolve().as_uri()], check=True, capture_output=True)
        print(picture)


if __name__ == "__main__":
    main()
