"""Write `docs/models.md`: `python -m tests.lab models FOLDER ...`, by hand, as it takes minutes.

It follows OODTE (arXiv 2505.01892): each model goes through each verb, both forms run in onnxruntime as users run them,
and outputs and first classes are compared. Crashes are counted. Inputs are those that the proof of opshift ran on.
Rows are kept in a file, `--rows`, from which a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
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
VERBS: dict[str, Sequence[str]] = {
    "convert down": ("convert", "--opset", "{down}"),
    "convert up": ("convert", "--opset", "{up}"),
    "optimize": ("optimize",),
    "fold": ("fold",),
    "inline": ("inline", "--portable"),
}
DOWN, UP = 5, 5  # opsets from a model's own
ROUNDING = 1e-3
"""The largest difference, as a part of the largest output, that counts as equal."""
SMALL = 1e-3
"""A difference is told as a part of this where all outputs are smaller: a sigmoid near 0 has steps of 6e-8."""
TIED = 1e-5
"""How far apart scores are, as a part of the largest, of which rounding may make either the first."""


class Row(NamedTuple):
    """What came of one model and one verb: a word, and the reason where it is not `equal`."""

    model: str
    verb: str
    word: str
    why: str = ""
    gap: float = 0.0


def rows(path: Path, seconds: float) -> Iterator[Row]:
    """Take one model through each verb."""
    opset = next((e.version for e in onnx.load(path, load_external_data=False).opset_import if not e.domain), 0)
    for verb, typed in VERBS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield _row(
                path,
                verb,
                [part.format(down=max(opset - DOWN, 7), up=min(opset + UP, 26)) for part in typed],
                Path(folder),
                seconds,
            )


def _row(path: Path, verb: str, typed: Sequence[str], folder: Path, seconds: float) -> Row:
    out, inputs = folder / "out.onnx", folder / "inputs.npz"
    command = [sys.executable, "-m", "opshift", typed[0], str(path), str(out), *typed[1:], "--save-inputs", str(inputs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Row(path.name, verb, "too slow", f"took more than {seconds:.0f} s")
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode == 3:
        return Row(path.name, verb, "refused", next((line for line in lines if "refused" in line), lines[-1]))
    if done.returncode == 4:
        told = next((line for line in lines if line.startswith("DIFFERENT")), lines[-1])
        return Row(path.name, verb, "not written", told)
    if done.returncode:
        return Row(path.name, verb, "crash", lines[-1])
    return _compare(path, verb, out, inputs)


def _compare(path: Path, verb: str, out: Path, inputs: Path) -> Row:
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
            if not _same(a, b):
                return Row(path.name, verb, "different", "an output that is not float")
            continue
        if a.shape != b.shape:
            return Row(path.name, verb, "different", f"shape {list(b.shape)} instead of {list(a.shape)}")
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a.astype(np.float64) - b))
        if a.size and not np.isfinite(apart).all():
            return Row(path.name, verb, "different", "a number that is infinite or NaN in one form alone")
        if not a.size:
            continue
        scale = max(float(np.abs(np.nan_to_num(a)).max()), SMALL)
        gap = max(gap, float(apart.max()) / scale)
        if a.ndim and a.shape[-1] > 1:
            chosen = np.take_along_axis(a, b.argmax(-1)[..., None], -1)[..., 0]
            if others := int((a.max(-1) - chosen > TIED * scale).sum()):
                return Row(path.name, verb, "other class", f"{others} of {chosen.size}", gap)
    if gap > ROUNDING:
        return Row(path.name, verb, "different", f"by {gap:.0e} of the largest output", gap)
    return Row(path.name, verb, "equal", "", gap)


def _same(a: object, b: object) -> bool:
    """Compare integers, texts, and lists or maps of anything."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return np.array_equal(np.asarray(a), np.asarray(b))


def page(found: Sequence[Row], count: int) -> str:
    """The page."""
    names = list(dict.fromkeys(row.model for row in found))
    cells = {(row.model, row.verb): row for row in found}
    words = [row.word for row in found]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    lines = [
        "# Trained models, through every verb",
        "",
        "Written by `python -m tests.lab models FOLDER ...`; do not edit.",
        "",
        f"{datetime.date.today()}: {f'{len(names)} of ' if len(names) < count else ''}{count} model files that ship in packages, opshift {opshift.__version__}, onnx "
        f"{onnx.__version__}, onnxruntime {onnxruntime.__version__}. After OODTE",
        "([arXiv 2505.01892](https://arxiv.org/abs/2505.01892)): both forms run in onnxruntime with its own optimizations, and outputs and first",
        f"classes are compared. A number is the largest difference as a part of the largest output, or of {SMALL} where that is smaller; classes whose",
        f"scores differ by less than {TIED} of it are tied. Opsets go {DOWN} down and {UP} up, between 7 and 26. In all: {counted}.",
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
    parser.add_argument("--seconds", type=float, default=300, help="for one model and one verb")
    parser.add_argument("--rows", type=Path, default=None, help="where to keep what is known, and to go on from")
    options = parser.parse_args()
    paths = sorted(
        {path.name: path for folder in options.folders for path in folder.rglob("*.onnx")}.values(),
        key=lambda path: path.stat().st_size,
    )
    paths = [path for path in paths if path.stat().st_size <= options.most << 20]
    known = options.rows.read_text(encoding="utf-8").splitlines() if options.rows and options.rows.exists() else []
    found = [Row(*json.loads(line)) for line in known]
    for path in paths:
        if any(row.model == path.name for row in found):
            continue
        started = time.perf_counter()
        found += (new := list(rows(path, options.seconds)))
        if options.rows:
            with options.rows.open("a", encoding="utf-8") as kept:
                kept.writelines(json.dumps(row) + "\n" for row in new)
        told = " | ".join(f"{row.verb}: {row.word} {row.why}" for row in new)
        print(f"{path.name} | {time.perf_counter() - started:.0f} s | {told}", flush=True)
        PAGE.write_text(page(found, len(paths)), encoding="utf-8")
    if not paths:
        sys.exit("there is no model")


if __name__ == "__main__":
    main()
