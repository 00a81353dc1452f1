"""What brings an optional backend in."""

import sys

import pytest

from opshift.verification import adapters

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
