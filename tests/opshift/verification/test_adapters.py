"""What brings an optional backend in."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from opshift import adapters as files
from opshift.verification import adapters
from opshift.verification.adapters import OpenVino, OpenVinoNetwork
from tests.support import model

IMPORTED = "try:\n    import openvino_telemetry\n    told = True\nexcept ImportError:\n    told = False\n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """OpenVINO as a package that tells its makers of it, where what does so is installed."""
    (tmp_path / "openvino.py").write_text(IMPORTED)
    (tmp_path / "openvino_telemetry.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("openvino", "openvino_telemetry"):
        monkeypatch.setitem(sys.modules, name, None)  # which puts back what is there now
        del sys.modules[name]
    return tmp_path


def test_openvino_tells_nobody_that_it_is_imported(installed):
    assert not adapters._openvino().told
    assert "openvino_telemetry" not in sys.modules
    import openvino_telemetry  # by who wants it

    assert openvino_telemetry.__file__ == str(installed / "openvino_telemetry.py")


def test_what_was_imported_before_stays(installed):
    import openvino_telemetry

    assert adapters._openvino().told
    assert sys.modules["openvino_telemetry"] is openvino_telemetry


def test_what_somebody_keeps_out_stays_out(installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino_telemetry", None)
    assert not adapters._openvino().told
    assert sys.modules["openvino_telemetry"] is None


def test_it_is_put_back_where_openvino_is_not_installed(installed):
    (installed / "openvino.py").write_text("raise ImportError")
    with pytest.raises(ImportError):
        adapters._openvino()
    assert "openvino_telemetry" not in sys.modules


@pytest.mark.newest
def test_an_input_that_nobody_reads_is_none_to_openvino():
    io = {"inputs": "float[2] x, float[3] u, float[2] z", "outputs": "float[2] y"}
    given = {"x": np.float32([1, 5]), "u": np.zeros(3, np.float32), "z": np.float32([7, 11])}
    for body, expected in (("y = Sub(x, z)", [-6, -6]), ("y = Sub(z, x)", [6, 6])):
        (made,) = OpenVino(model(body, 13, **io)).run(given)
        assert made.tolist() == expected


@pytest.mark.parametrize("levels", [255, 256])
def test_openvino_counts_levels_as_the_network_says(tmp_path, levels):
    openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")
    made, ends = openvino.opset13, np.float32([[[-2], [-1], [-3]], [[3], [2], [1]]])
    x = made.parameter([2, 3, 4], np.float32)
    low, high = (made.constant(end[None]) for end in ends)
    end = made.shuffle_channels(made.fake_quantize(x, low, high, low, high, levels), -1, 2)
    openvino.serialize(openvino.Model([made.result(end)], [x], "net"), tmp_path / "net.xml")
    given = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    step = (ends[1] - ends[0]) / (levels - 1)
    rounded = np.round((np.clip(given, *ends) - ends[0]) / step) * step + ends[0]
    of = model("y = Identity(x)", 13, inputs="float[2,3,4] x", outputs="float[2,3,4] y")
    (found,) = OpenVinoNetwork(str(tmp_path / "net.xml"), of).run({"x": given})
    np.testing.assert_allclose(found, rounded[..., [0, 2, 1, 3]], rtol=1e-5, atol=1e-6)


def test_each_backend_has_a_class_that_is_called_so():
    for name, adapter in adapters.KNOWN.items():
        module, _, held = adapter.session.partition(":")
        assert adapter.file or getattr(importlib.import_module(module), held).engine == name
        assert not adapter.file or Path(files.__file__).with_name(adapter.file).exists()
    assert {name: judge.engine for name, judge in adapters.JUDGES.items()} == {
        "onnxruntime": "onnxruntime",
        "reference": "onnx.reference",
        "openvino": "openvino",
    }
    assert [name for name, adapter in adapters.KNOWN.items() if not adapter.file] == [
        "onnxruntime",
        "openvino",
        "opencv",
        "tract",
    ]
