"""Wildcards and folders are expanded by opshift itself, for shells that do not, and for what is quoted."""

import onnx
import pytest

from opshift.cli import main as cli
from opshift.files import urls
from tests.support import model


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.onnx", "in/b.onnx", "in/deep/c.onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y"), name)
    (tmp_path / "in" / "a.onnx.data").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "made"),
    [
        ("in/*.onnx", ["a.onnx", "b.onnx"]),
        ("in/[a].onnx", ["a.onnx"]),
        ("in/?.onnx", ["a.onnx", "b.onnx"]),
        ("in/**/*.onnx", ["a.onnx", "b.onnx", "c.onnx"]),
        ("in", ["a.onnx", "b.onnx"]),
        ("in/", ["a.onnx", "b.onnx"]),
    ],
)
def test_what_is_typed_stands_for_models(here, typed, made):
    assert cli.main(["convert", typed, "--out-dir", "out", "--opset", "13", "--no-verify"]) == 0
    assert sorted(path.name for path in (here / "out").iterdir()) == made


def test_one_model_may_be_named_by_a_wildcard(here, capsys):
    assert cli.main(["inspect", "in/a*x"]) == 0
    assert cli.main(["convert", "in/b.*", "out.onnx", "--opset", "13", "--no-verify"]) == 0
    assert cli.main(["inspect", "in/*.onnx"]) == 2
    assert "in/*.onnx matches 2 models" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"), [("in/*.pb", "no file has this name"), ("empty", "the folder holds no model")]
)
def test_what_stands_for_nothing_is_a_usage_error(here, capsys, typed, said):
    (here / "empty").mkdir()
    assert cli.main(["convert", typed, "--out-dir", "out", "--opset", "13"]) == 2
    assert said in capsys.readouterr().err


def test_a_name_that_holds_brackets_is_a_name(here):
    (here / "in" / "a.onnx").rename(here / "in" / "m[1].onnx")
    assert urls.expand_paths(["in/m[1].onnx"]) == ["in/m[1].onnx"]
    assert cli.main(["inspect", "in/m[1].onnx"]) == 0
