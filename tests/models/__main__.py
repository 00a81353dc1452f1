"""Write `docs/models.md`: `python -m tests.models FOLDER ...`, by hand, as it takes minutes.

It follows OODTE (arXiv 2505.01892): each model goes through each verb, both forms run in onnxruntime as users run them,
and outputs and first classes are compared. Crashes are counted. Inputs are those that the proof of opshift ran on.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime

import opshift

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
SECONDS = 300
VERBS: dict[str, Sequence[str]] = {
    "convert down": ("convert", "--opset", "{down}"),
    "convert up": ("convert", "--opset", "{up}"),
    "optimize": ("optimize",),
    "fold": ("fold",),
    "inline": ("inline", "--portable"),
}
DOWN, UP = 5, 5  # opsets from a model's own


class Row(NamedTuple):
    """What came of one model and one verb: a word, and the reason where it is not `equal`."""

    model: str
    verb: str
    word: str
    why: str = ""
    gap: float = 0.0


def rows(path: Path) -> Iterator[Row]:
    """Each verb on one model."""
    opset = next((e.version for e in onnx.load(path, load_external_data=False).opset_import if not e.domain), 0)
    for verb, typed in VERBS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield _row(
                path,
                verb,
                [part.format(down=max(opset - DOWN, 7), up=min(opset + UP, 26)) for part in typed],
                Path(folder),
            )


def _row(path: Path, verb: str, typed: Sequence[str], folder: Path) -> Row:
    out, inputs = folder / "out.onnx", folder / "inputs.npz"
    command = [sys.executable, "-m", "opshift", typed[0], str(path), str(out), *typed[1:], "--save-inputs", str(inputs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Row(path.name, verb, "crash", f"took more than {SECONDS} s")
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode == 3:
        return Row(path.name, verb, "refused", next((line for line in lines if "refused" in line), lines[-1]))
    if done.returncode:
        return Row(path.name, verb, "different" if done.returncode == 4 else "crash", lines[-1])
    return _compared(path, verb, out, inputs)


def _compared(path: Path, verb: str, out: Path, inputs: Path) -> Row:
    """Run both forms in onnxruntime as users do, and compare outputs and first classes."""
    with np.load(inputs) as held:
        fed = {
            name.removeprefix("0/"): held[name]
            for name in held.files
            if name.startswith("0/") or "0/" + name not in held
        }
    try:
        one, other = (
            onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]) for model in (path, out)
        )
        taken = {value.name for value in one.get_inputs()}
        runs = [session.run(None, {n: v for n, v in fed.items() if n in taken}) for session in (one, other)]
    except Exception as error:
        return Row(path.name, verb, "not run", " ".join(str(error).split())[:120])
    gap = 0.0
    for a, b in zip(*runs, strict=True):
        if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
            continue
        if a.shape != b.shape:
            return Row(path.name, verb, "different", f"shape {list(b.shape)} instead of {list(a.shape)}")
        if a.size:
            gap = max(gap, float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-30)))
        if a.ndim and a.shape[-1] > 1 and (a.argmax(-1) != b.argmax(-1)).any():
            return Row(
                path.name,
                verb,
                "other class",
                f"{int((a.argmax(-1) != b.argmax(-1)).sum())} of {a.argmax(-1).size}",
                gap,
            )
    return Row(path.name, verb, "equal", "", gap)


def page(found: Sequence[Row]) -> str:
    """The page."""
    names = list(dict.fromkeys(row.model for row in found))
    cells = {(row.model, row.verb): row for row in found}
    words = [row.word for row in found]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    lines = [
        "# Trained models, through every verb",
        "",
        "Written by `python -m tests.models FOLDER ...`; do not edit.",
        "",
        f"{datetime.date.today()}: {len(names)} model files that ship in packages, opshift {opshift.__version__}, onnx "
        f"{onnx.__version__}, onnxruntime {onnxruntime.__version__}. After OODTE",
        "([arXiv 2505.01892](https://arxiv.org/abs/2505.01892)): both forms run in onnxruntime with its own optimizations, and outputs and first",
        f"classes are compared. A number is the largest difference as a part of the largest output. Opsets go {DOWN} down and {UP} up, between 7 and",
        f"26. In all: {counted}.",
        "",
        f"| model | {' | '.join(VERBS)} |",
        f"|---{'|---' * len(VERBS)}|",
    ]
    for name in names:
        shown = [cells[name, verb] for verb in VERBS]
        lines.append(
            f"| {name} | {' | '.join(f'{row.gap:.0e}' if row.word == 'equal' and row.gap else row.word for row in shown)} |"
        )
    told = [row for row in found if row.why]
    if told:
        lines += ["", "## Why not", "", "| model | verb | why |", "|---|---|---|"]
        lines += [f"| {row.model} | {row.verb} | {row.word}: {row.why.replace('|', chr(92) + '|')} |" for row in told]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=100, help="MB of a model that is taken")
    options = parser.parse_args()
    paths = sorted(
        {path.name: path for folder in options.folders for path in folder.rglob("*.onnx")}.values(),
        key=lambda path: path.stat().st_size,
    )
    found: list[Row] = []
    for path in paths:
        if path.stat().st_size > options.most << 20:
            continue
        started = time.perf_counter()
        found += rows(path)
        print(
            path.name,
            f"{time.perf_counter() - started:.0f} s",
            *(f"{row.verb}: {row.word} {row.why}" for row in found[-len(VERBS) :]),
            sep=" | ",
            flush=True,
        )
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
