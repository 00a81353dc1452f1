"""The models shipped inside the onnx package go through the command line: converted and equal, or refused by name."""

from pathlib import Path

import onnx
import pytest

from opshift.cli import main as cli
from opshift.jobs import exit_codes

DATA = Path(onnx.__file__).parent / "backend/test/data"
SMALL = sorted(
    p for kind in ("simple", "pytorch-converted", "pytorch-operator") for p in DATA.glob(f"{kind}/*/model.onnx")
)
LIGHT = sorted(DATA.glob("light/*.onnx"))


def converted(path, target, folder, capsys):
    """The exit code, once everything that must hold with it has been checked."""
    output = folder / "out.onnx"
    code = cli.main(["convert", str(path), str(output), "--opset", str(target)])
    captured = capsys.readouterr()
    assert code in (exit_codes.DONE, exit_codes.REFUSED), captured.out + captured.err
    assert captured.err == ""
    if code == exit_codes.DONE:
        assert "equal (" in captured.out
        onnx.checker.check_model(str(output))
    else:
        assert "refused: " in captured.out or "could not be verified: " in captured.out
        assert not list(folder.iterdir())
    return code


def test_the_package_has_them_all():
    assert len(SMALL) >= 130
    assert len(LIGHT) == 9


@pytest.mark.parametrize("target", [7, 13, 21, 28])
@pytest.mark.parametrize("path", SMALL, ids=lambda p: f"{p.parts[-3]}/{p.parts[-2]}")
def test_small_models(path, target, tmp_path, capsys):
    code = converted(path, target, tmp_path, capsys)
    if path.parts[-3].startswith("pytorch"):
        assert code == exit_codes.DONE, "every model that PyTorch exported can be expressed"


@pytest.mark.parametrize("target", [9, 13, 26])
@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models(path, target, tmp_path, capsys):
    assert converted(path, target, tmp_path, capsys) == exit_codes.DONE
