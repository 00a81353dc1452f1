"""The models shipped inside the onnx package go through the command line: converted and equal, or refused by name.

`python -m tests.lab package` takes each to all of `OPSETS` or `LIGHT_OPSETS` so, the tests to one of them.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnx.checker

from opshift.cli import main as cli
from opshift.jobs import exit_codes

DATA = Path(onnx.__file__).parent / "backend/test/data"
SMALL = sorted(
    p for kind in ("simple", "pytorch-converted", "pytorch-operator") for p in DATA.glob(f"{kind}/*/model.onnx")
)
LIGHT = sorted(DATA.glob("light/*.onnx"))
OPSETS = (7, 13, 21, 28)
LIGHT_OPSETS = (9, 13, 26)


def name(path: Path) -> str:
    """The kind of a model and its own name."""
    return path.stem if path in LIGHT else "/".join(path.parts[-3:-1])


def converted(path: Path, target: int, folder: Path, *, proved: bool = True) -> int:
    """The exit code, once everything that must hold with it has been checked."""
    output = folder / "out.onnx"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(
            ["convert", str(path), str(output), "--opset", str(target), *([] if proved else ["--no-verify"])]
        )
    assert code in (exit_codes.DONE, exit_codes.REFUSED), out.getvalue() + err.getvalue()
    assert err.getvalue() == ""
    if code == exit_codes.DONE:
        assert proved == any(said in out.getvalue() for said in ("equal: ", "every changed part is equal"))
        onnx.checker.check_model(str(output))
    else:
        assert "refused: " in out.getvalue() or "not proved: " in out.getvalue()
        assert not list(folder.iterdir())
    assert code == exit_codes.DONE or not is_exported(path)
    return code


def is_exported(path: Path) -> bool:
    """Whether PyTorch or Caffe2 wrote a model: each of these can be expressed at every opset."""
    return path in LIGHT or path.parts[-3].startswith("pytorch")


def main() -> int:
    done = 0
    for paths, targets in ((SMALL, OPSETS), (LIGHT, LIGHT_OPSETS)):
        for path in paths:
            for target in targets:
                with TemporaryDirectory() as folder:
                    done += converted(path, target, Path(folder)) == exit_codes.DONE
    print(f"{done} conversions are proved to be equal, and all others are refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
