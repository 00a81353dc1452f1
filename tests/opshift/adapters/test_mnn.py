"""MNN as it is installed: `OPSHIFT_PYTHON_MNN=mnn-env/bin/python python -m pytest tests/opshift/adapters`."""

import os

import numpy as np
import onnx
import pytest

from opshift.cli import main as cli
from opshift.probing import installed
from opshift.probing.worker import Run, Task
from tests.support import model

if "OPSHIFT_PYTHON_MNN" not in os.environ:
    pytest.skip("no interpreter is named that has MNN", allow_module_level=True)

X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture(scope="module")
def mnn():
    made = installed.find("mnn").open()
    yield made
    made.stop()


def source(body, opset=17, **io):
    return model(body, opset, **{"inputs": "float[1,3] x", "outputs": "float[1,3] y", **io}).SerializeToString()


def test_it_runs_a_model(mnn):
    assert mnn.run(Task(source("y = Relu(x)"), {"x": X}, [np.maximum(X, 0)])).agrees


def test_int64_and_bool_go_in_and_out(mnn):
    held = source("y = Cast<to = 7>(x)", inputs="bool[1,3] x", outputs="int64[1,3] y")
    assert mnn.run(Task(held, {"x": X > 0}, [(X > 0).astype(np.int64)])).agrees


def test_a_scalar_is_one(mnn):
    held = source("y = ReduceSum<keepdims = 0>(x)", inputs="float[1,3] x", outputs="float y")
    assert mnn.run(Task(held, {"x": X}, [np.float32(2).reshape(())])).agrees


def test_outputs_come_in_their_order_and_layout(mnn):
    held = source("b = Relu(x) a = Neg(x)", outputs="float[1,3] b, float[1,3] a")
    assert mnn.run(Task(held, {"x": X}, [np.maximum(X, 0), -X])).agrees
    image = np.arange(2 * 5 * 4 * 4, dtype=np.float32).reshape(2, 5, 4, 4)
    pooled = source(
        "y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)",
        inputs="float[2,5,4,4] x",
        outputs="float[2,5,2,2] y",
    )
    assert mnn.run(Task(pooled, {"x": image}, [image[:, :, 1::2, 1::2]])).agrees


def test_what_it_lacks_is_said_in_a_line(mnn):
    found = mnn.ask(Run(source("y = Mish(x)", 18), [{"x": X}]))
    assert (found.why, found.loaded) == ("These Op Not Support: ONNX::Mish", False)


def test_try_expands_what_it_lacks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnn.toml").write_text('name = "mnn"\nsource = "nothing"\n[versions."0"]\n')
    onnx.save(model("y = Mish(x)", 18, inputs="float[1,3] x", outputs="float[1,3] y"), "in.onnx")
    assert cli.main(["inline", "in.onnx", "out.onnx", "--target", "mnn.toml", "--try"]) == 0
    assert "refuses Mish with 2-D input: expanded, 1 node" in capsys.readouterr().out
