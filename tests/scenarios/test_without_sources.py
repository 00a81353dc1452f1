"""What is installed as compiled modules, without a source among them, does what it does with them."""

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from opshift.cli import main as cli
from tests.support import model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SOURCE = model(
    "t = ReduceMax(x, a) u = Gelu(t) v = Sub(u, u) w = Identity(v) y = Add(u, w)",
    20,
    inputs="float[N,3] x",
    outputs="float[N,1] y",
    constants="int64[1] a = {1}",
)
LOOKING = ["ledger", "ledger --op Resize --op ai.onnx.ml::TreeEnsemble", "targets", "schema", "inspect in.onnx"]
WRITING = [
    "convert in.onnx older.onnx --opset 13",
    "inline in.onnx inlined.onnx --op Gelu --no-verify",
    "fold inlined.onnx folded.onnx --no-verify",
    "optimize in.onnx optimized.onnx --no-verify",
]


CODE = """
import sys, opshift
from opshift.cli.main import main
print(*[main(line.split()) for line in sys.argv[1:]])
print(opshift.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The packages and the data that pyproject.toml lists."""
    site = tmp_path_factory.mktemp("site")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    for package in listed["packages"]:
        inside = package.split(".")
        place = ROOT.joinpath(*inside[inside[1:2] in (["passes"], ["functions"]) :])
        for path in place.glob("*.py"):
            py_compile.compile(str(path), str(site.joinpath(*inside, f"{path.stem}.pyc")), doraise=True)
        for path in (path for data in listed["package-data"].get(package, ()) for path in place.glob(data)):
            held = site.joinpath(*inside, path.relative_to(place))
            held.parent.mkdir(exist_ok=True)
            shutil.copy(path, held)
    return site


@pytest.mark.long
def test_every_verb_does_the_same(installed, tmp_path, monkeypatch, capsys):
    folders = [tmp_path / "with", tmp_path / "without"]
    for folder in folders:
        folder.mkdir()
        onnx.save(SOURCE, folder / "in.onnx")
    beside = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": beside, "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *LOOKING, *WRITING],
        cwd=folders[1],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    monkeypatch.chdir(folders[0])
    assert not any(cli.main(line.split()) for line in LOOKING)
    assert done.stdout.startswith(capsys.readouterr().out)
    assert not any(cli.main(line.split()) for line in WRITING)
    ends = f"\n{' '.join('0' for _ in LOOKING + WRITING)}\n{installed / 'opshift' / '__init__.pyc'}\n"
    assert done.stdout.endswith(ends), done.stderr
    assert not list(installed.rglob("*.py"))
    written = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert written[0] == written[1]
    assert len(written[0]) == 5
