"""Beside onnx and numpy alone everything but the optional works: models are converted, and onnx.reference judges."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.helper
import pytest
from opshift.passes.model import installed, tensors
from opshift.passes.model.types import NUMBERS

import opshift
from opshift import passes
from opshift.cli import main as cli
from tests.support import model

pytestmark = pytest.mark.posix

ROOT = Path(__file__).parents[2]
NEEDED = ("numpy", "numpy.libs", "onnx", "google", "ml_dtypes", "typing_extensions.py", "tomli")
ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y", "constants": "int64[1] a = {1}"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What runs a command in an environment that has onnx, numpy, and what these need."""
    site = tmp_path_factory.mktemp("site")
    for name in NEEDED:
        found = importlib.util.find_spec(name.removesuffix(".py")) if name != "numpy.libs" else None
        places = list(found.submodule_search_locations or [found.origin]) if found else []
        if name == "numpy.libs":
            places = [str(Path(importlib.util.find_spec("numpy").origin).parents[1] / name)]
        for place in filter(os.path.exists, places[:1]):
            (site / name).symlink_to(place)
    (site / "opshift").mkdir()
    for path in (ROOT / "opshift").iterdir():
        (site / "opshift" / path.name).symlink_to(path)
    for name in ("passes", "functions"):
        (site / "opshift" / name).symlink_to(ROOT / name)

    def run(*typed):
        code = f"import sys; sys.path.append({str(site)!r}); from opshift.cli.main import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, *map(str, typed)], capture_output=True, text=True
        )

    return run


ENTRIES = {
    "the command": ("-m", "opshift", "convert", "in.onnx", "out.onnx", "--opset", "13"),
    "another command": ("-m", "opshift", "verify", "a.onnx", "b.onnx"),
    "a function": ("-c", "import opshift; opshift.convert_version('in.onnx', 13)"),
    "a class": ("-c", "from opshift import Change"),
    "a pass": ("-c", "from opshift.passes.goals import Goal"),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "error", ["ImportError('cannot import name')", "type('VersionError', (Exception,), {})('1 < 2')"]
)
def test_a_protobuf_that_is_too_old_for_onnx_is_named_from_every_entry(entry, error, tmp_path):
    """As TensorFlow pins it."""
    for name, version, more in (("onnx", "9.8.7", "Requires-Dist: protobuf>=6.31.1\n"), ("protobuf", "3.20.3", "")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "__init__.py").write_text(f"raise {error}")
    (tmp_path / "onnx" / "onnx_ml_pb2.py").write_text(f"raise {error}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, *ENTRIES[entry]], capture_output=True, text=True, env=environment)
    said = "onnx 9.8.7 does not load with protobuf 3.20.3: pip install -U 'protobuf>=6.31.1'\n"
    if "command" in entry:
        assert (done.returncode, done.stderr) == (2, f"opshift: {said}")
    else:
        assert done.stderr.endswith(f"ImportError: {said}")
        assert done.stderr.count("Traceback") == 1


@pytest.mark.long
def test_a_model_is_converted_and_judged_beside_onnx_and_numpy_alone(alone, tmp_path):
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model("t = ReduceMax(x, a) u = Gelu(t) y = Mish(u)", 20, **ROWS), source)
    done = alone("convert", source, output, "--opset", "13")
    assert (done.returncode, done.stderr) == (0, "")
    assert "equal: the same " in done.stdout
    assert onnx.load(output) == opshift.convert_version(str(source), 13)


@pytest.mark.long
def test_other_commands_work_there_too(alone, tmp_path):
    source = tmp_path / "in.onnx"
    onnx.save(model("y = ReduceMax(x, a)", 20, **ROWS), source)
    assert "no onnxruntime" in alone("--version").stdout
    done = alone("verify", source, source)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_rich_a_terminal_gets_plain_lines(tmp_path, monkeypatch, capsys):
    onnx.save(model("y = ReduceMax(x, a)", 20, **ROWS), tmp_path / "in.onnx")
    for name in ("rich", "rich.console", "rich.table", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert cli.main(["convert", str(tmp_path / "in.onnx"), "--opset", "13", "--no-verify"]) == 0
    assert cli.main(["convert", str(tmp_path), "--out-dir", str(tmp_path / "o"), "--opset", "13", "--no-verify"]) == 0
    assert cli.main(["targets"]) == 0
    assert "opset 20 -> 13, " in capsys.readouterr().out


def test_passes_without_onnx_ir_say_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "onnx_ir" or name == "opshift.passes.pipeline"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    monkeypatch.delattr(passes, "pipeline", raising=False)
    with pytest.raises(ImportError, match=r"pip install opshift\[pipeline\]"):
        passes.ConvertVersionPass  # noqa: B018


@pytest.fixture
def old(monkeypatch):
    """An onnx that knows opset 21 and has float32 in the place of bfloat16, as 1.16 does."""
    table = [*onnx.helper.VERSION_TABLE[:-1], ("1.16.0", 10, 21, 5, 1)]
    caches = (installed._opsets, installed.is_old, installed._infers, installed.reads)
    real = onnx.helper.tensor_dtype_to_np_dtype
    import numpy as np

    monkeypatch.setattr(onnx.helper, "VERSION_TABLE", table)
    monkeypatch.setattr(onnx, "__version__", "1.16.2")
    monkeypatch.setattr(
        onnx.helper, "tensor_dtype_to_np_dtype", lambda kind: np.dtype("float32") if kind in (16, 17) else real(kind)
    )
    for each in caches:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()


def refusals(source, target):
    return [str(refusal) for refusal in opshift.plan(source, target).refusals]


@pytest.mark.usefixtures("old")
def test_what_an_older_onnx_infers_otherwise_is_refused_with_its_version():
    source = model("t = Swish(x) s = Shape(t) y = Trilu(t)", 24, inputs="float[N,3] x", outputs="float[N,3] y")
    assert refusals(source, 13) == [
        "onnx: onnx 1.16.2 is installed, and it is too old: it infers nothing of Swish as of opset 24; install a newer onnx"
    ]
    assert opshift.plan(source, 13).nearest is None


@pytest.mark.usefixtures("old")
def test_what_it_infers_alike_is_converted():
    source = model("t = Relu(x) y = ReduceMax(t, a)", 24, **ROWS)
    assert opshift.convert_version(source, 13).opset_import[0].version == 13


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E4M3FN"])
def test_values_that_it_reads_as_others_are_never_read(kind):
    tensor = onnx.TensorProto(data_type=NUMBERS[kind], dims=[1], raw_data=bytes(2 if kind == "BFLOAT16" else 1))
    with pytest.raises(installed.Lacking, match=f"does not read values of type {kind.lower()}"):
        tensors.array(tensor)


def test_the_installed_onnx_reads_every_type():
    assert all(installed.reads(number) for number in NUMBERS.values() if number)
