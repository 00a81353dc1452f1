"""Vectors from which sizes follow, where all else goes to a file of data."""

import onnx
import onnxruntime
import pytest

from opshift.cli import main as cli
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize(
    "body",
    ["y = ReduceSum(w, k)", "k2 = Constant<value = int64[1] {0}>() y = ReduceSum(w, k2)", "y = Resize(w, , s)", "t = Range(f, g, f) y = Add(w, t)"],
)  # fmt: skip
def test_what_sizes_follow_from_stays_in_the_message(body, tmp_path, capsys):
    """onnxruntime reads it there alone to infer shapes, and does not load what it cannot."""
    constants = "float[2,1] v = {1, 2}, int64[1] k = {0}, float[2] s = {2, 2}, float f = {1}, float g = {3}"
    source = model(f"w = Add(x, v) {body}", 18, inputs="float[2,1] x", outputs="float[A,B] y", constants=constants)
    onnx.save(source, tmp_path / "in.onnx")
    typed = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx")]
    assert cli.main([*typed, "--opset", "18", "--external-data", "all", "--threshold", "0"]) == 0
    assert "equal: the same " in capsys.readouterr().out
    onnxruntime.InferenceSession(tmp_path / "out.onnx")
    held = {
        tensor.name: tensor for tensor in onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer
    }
    assert held["v"].data_location == onnx.TensorProto.EXTERNAL
