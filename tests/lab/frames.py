"""Print the functions that stand between `main` and the first step that changes a node.

    python -m tests.lab frames convert examples/encoder.onnx out.onnx --opset 13

A newcomer reads these in this order. Only functions of the package count; a step is a function of `passes/operators`
that takes a `Node`. `--dry-run` is added, so that nothing is written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from opshift.passes.rewrite.node import Node

from opshift.cli.main import main as run_command

ROOT = Path(__file__).parents[2]
PACKAGE = tuple(str(ROOT / top) for top in ("opshift", "passes"))
STEPS = str(ROOT / "passes" / "operators")


def frames_to_first_step(command: list[str]) -> list[str]:
    """The functions from `main` to the first step of a command, as `file: function`."""
    found: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and not found and _is_step(frame):
            found.extend(_functions(frame))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run_command([*command, "--dry-run"])
    finally:
        sys.setprofile(before)
    return found


def _is_step(frame: FrameType) -> bool:
    code = frame.f_code
    if not code.co_filename.startswith(STEPS) or not code.co_argcount:
        return False
    return isinstance(frame.f_locals.get(code.co_varnames[0]), Node)


def _functions(frame: FrameType | None) -> list[str]:
    functions: list[str] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            functions.append(f"{Path(file).relative_to(ROOT)}: {frame.f_code.co_name}")
        frame = frame.f_back
    return functions[::-1]


def main(command: list[str]) -> int:
    """Print the functions, numbered."""
    functions = frames_to_first_step(command)
    for place, function in enumerate(functions, 1):
        print(place, function)
    return int(not functions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
