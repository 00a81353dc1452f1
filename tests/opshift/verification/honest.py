"""Honest forms of real models: exported ones, and files that are given; none of them may be called different.

python -m tests.opshift.verification.honest [--step N] [FILE ...]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

import onnx
from onnx import ModelProto
from opshift.passes.errors import InvalidModel, Refused

import opshift
from opshift.verification.side import Side
from opshift.verification.verify import verify_sides
from tests.exported import store
from tests.exported.test_refined import WAYS


def forms(paths: list[str], step: int) -> Iterator[tuple[str, ModelProto]]:
    """The models to convert, with their names."""
    for path in paths:
        yield path, onnx.load(path)
    if not paths:
        yield from [(e.name, e.model) for name in store.frameworks() for e in store.read(name)][::step]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    ways = {**WAYS, "at opset 12": lambda model: opshift.convert_version(model, 12)}
    counts: Counter[str] = Counter()
    for name, source in forms(options.files, options.step):
        for way, convert in ways.items():
            try:
                made = convert(source)
            except (InvalidModel, Refused):
                counts["refused"] += 1
                continue
            found = verify_sides(Side(source), Side(made), grade="close")
            counts[found.status] += 1
            if not found:
                print(f"{name} {way}: {found.status} {found.tensor} {found.why}")
    print(dict(counts))


if __name__ == "__main__":
    main()
