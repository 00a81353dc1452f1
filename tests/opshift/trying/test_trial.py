"""`--try` in a compiler under an interpreter of its own: what helps, exit codes, and how far outputs may be off."""

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from opshift.cli import main as cli
from opshift.trying.trial import off_by
from tests.support import model

NPU = str(Path(__file__).parents[1] / "adapters" / "npu.py")
TARGET = 'name = "npu"\nsource = "made up"\n[versions."1"]\nopset = 22\n'

pytestmark = pytest.mark.posix  # process groups


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "npu.toml").write_text(TARGET)
    return tmp_path


def tried(capsys, body, *more):
    onnx.save(model(body, 22, inputs="float[2,3] x", outputs="float[2,3] y"), "in.onnx")
    named = () if "--python" in more else ("--python", sys.executable)
    options = ["--target", "npu.toml", "--try", "--adapter", NPU, "--runs", "1", *named, *more]
    code = cli.main(["inline", "in.onnx", "out.onnx", *options])
    told = capsys.readouterr()
    return code, told.out, told.err


def ops():
    return [node.op_type for node in onnx.load("out.onnx").graph.node]


@pytest.mark.long
def test_what_the_compiler_refuses_is_expanded(here, capsys):
    code, out, _ = tried(capsys, "a = Abs(x) y = Mish(a)")
    assert code == 0, out
    assert "refuses Mish with 2-D input: expanded, 1 node" in out
    assert "runs in npu" in out
    assert "Mish" not in ops()


@pytest.mark.long
def test_a_compiler_that_dies_is_no_end(here, capsys):
    code, out, _ = tried(capsys, "y = Celu(x)")
    assert code == 0, out
    assert "ends at Celu with 2-D input: expanded, 1 node" in out


@pytest.mark.long
def test_where_the_compiler_dies_of_all_forms_the_model_is_refused(here, capsys):
    code, out, _ = tried(capsys, "y = Celu(x)", "--tries", "1")
    assert code == 3
    assert "crashes on it (1 try): its compiler ended: Segmentation fault; error: no such unit" in out
    assert not os.path.exists("out.onnx")


@pytest.mark.long
def test_what_it_computes_otherwise_is_never_called_running(here, capsys):
    code, out, _ = tried(capsys, "y = Gelu(x)", "--tries", "1")
    assert code == 4
    assert 'runs it, but with other results (1 try): "y": off by' in out


def test_an_interpreter_without_it_is_a_usage_error_in_one_sentence(here, capsys):
    code, _, err = tried(capsys, "y = Abs(x)", "--python", str(here / "python"))
    assert code == 2
    assert err.count("\n") == 1
    assert "python is no interpreter of Python: No such file or directory; name the interpreter" in err


@pytest.mark.parametrize(
    ("expected", "actual", "why"),
    [
        ([1.0, -100], [1.9, -100], ""),
        ([1.0, -100], [2.1, -100], "off by 1.1 where the largest element is 1e+02"),
        ([0.0], [1e-9], "off by 1e-09 where the largest element is 0"),
        ([np.inf, 1.0], [np.inf, 1.0], ""),
        ([np.nan, 1.0], [1.0, 1.0], "not finite elsewhere"),
        ([np.nan, np.nan], [1.0, 1.0], "the source has no finite number there; try --inputs FILE.npz with real data"),
        ([1], [2], "other values"),
        ([1], [1.0], "float64 instead of int64"),
        ([1.0], [[1.0]], "shape [1, 1] instead of [1]"),
    ],
)
def test_outputs_are_off_by_parts_of_their_largest_element(expected, actual, why):
    assert off_by(np.array(expected), np.array(actual), 0.01)[0] == why


@pytest.mark.long
def test_an_option_of_the_compiler_is_tried_first_and_told(here, capsys):
    code, out, _ = tried(capsys, "y = Elu(x)")
    assert code == 0, out
    assert "refuses the model: gave its compiler --no-fuse, which the file cannot hold" in out
    assert "outputs are off by nothing; as it was, refused" in out
    assert ops() == ["Elu"]


@pytest.mark.long
def test_what_runs_as_it_is_stays_so(here, capsys):
    (here / "npu.toml").write_text(TARGET + 'lacks = ["HardSwish"]\n')
    code, out, _ = tried(capsys, "y = HardSwish(x)")
    assert code == 0, out
    assert ops() == ["HardSwish"]
    assert "outputs are off by nothing" in out
