"""The command line on models with external data: what is read, what goes along, and what is left alone."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import opshift
from opshift.cli import main as cli
from tests.opshift.cli.test_main import ROWS, listing
from tests.support import evaluate, model

pytestmark = pytest.mark.posix


def with_external_axes(folder):
    (folder / "data").mkdir(parents=True)
    source = model("t = ReduceMax(x, a) y = Mul(t, w)", 18, constants="int64[1] a = {1}, float[1] w = {2}", **ROWS)
    path = folder / "in.onnx"
    for tensor in source.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        tensor.ClearField("int64_data")
        tensor.ClearField("float_data")
        tensor.raw_data = array.tobytes()
    onnx.save(source, path, save_as_external_data=True, location="data/weights.bin", size_threshold=0)
    return path


def test_axes_in_external_data_are_read_and_the_data_stay_where_they_are(tmp_path):
    path = with_external_axes(tmp_path)
    weights = (tmp_path / "data/weights.bin").read_bytes()
    assert cli.main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13"]) == 0
    written = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert [(t.name, t.data_location) for t in written.graph.initializer] == [("w", onnx.TensorProto.EXTERNAL)]
    assert {a.name: list(a.ints) for a in written.graph.node[0].attribute} == {"axes": [1]}
    assert (tmp_path / "data/weights.bin").read_bytes() == weights
    x = np.array([[1, 5, 2]], np.float32)
    np.testing.assert_array_equal(evaluate(onnx.load(tmp_path / "out.onnx"), {"x": x})[0], [[10]])


def test_external_data_go_along_to_another_folder(tmp_path):
    path = with_external_axes(tmp_path / "here")
    there = tmp_path / "there"
    there.mkdir()
    assert cli.main(["convert", str(path), str(there / "out.onnx"), "--opset", "13"]) == 0
    assert listing(there) == ["data", "out.onnx"]
    assert evaluate(onnx.load(there / "out.onnx"), {"x": np.ones((1, 3), np.float32)})[0] == 2
    assert cli.main(["convert", str(path), str(there / "again.onnx"), "--opset", "13"]) == 0, "the data are the same"
    assert listing(there) == ["again.onnx", "data", "out.onnx"]
    other = bytes((there / "data/weights.bin").stat().st_size)
    (there / "data/weights.bin").write_bytes(other)
    assert cli.main(["convert", str(path), str(there / "more.onnx"), "--opset", "13"]) == 6, "data would be overwritten"
    assert (there / "data/weights.bin").read_bytes() == other
    assert listing(there) == ["again.onnx", "data", "out.onnx"]


def test_external_data_outside_the_folder_are_refused(tmp_path, capsys):
    path = with_external_axes(tmp_path / "here")
    hostile = onnx.load(path, load_external_data=False)
    for tensor in hostile.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../etc/passwd"
    path.write_bytes(hostile.SerializeToString())
    (tmp_path / "there").mkdir()
    for output in (tmp_path / "there/out.onnx", tmp_path / "here/out.onnx"):
        assert cli.main(["convert", str(path), str(output), "--opset", "28"]) == 5
        assert "outside the model's folder" in capsys.readouterr().err
        assert not output.exists()


@pytest.mark.parametrize("location", ["missing.bin", "sub/../weights.bin"])
def test_a_failure_to_move_external_data_leaves_no_trace(location, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    held = model("y = ReduceMax(x, a)", 18, constants="int64[1] a = {1}, float[2] w = {1, 2}", **ROWS)
    held.graph.initializer[1].ClearField("float_data")
    held.graph.initializer[1].data_location = onnx.TensorProto.EXTERNAL
    held.graph.initializer[1].external_data.add(key="location", value=location)
    onnx.save(held, before / "in.onnx")
    (before / "weights.bin").write_bytes(bytes(8))
    (after / "weights.bin").write_bytes(b"mine")
    assert cli.main(["convert", str(before / "in.onnx"), str(after / "out.onnx"), "--opset", "13", "--no-verify"]) == 5
    assert listing(after) == ["weights.bin"]
    assert (after / "weights.bin").read_bytes() == b"mine"


def test_weights_that_were_left_behind_are_named(tmp_path, capsys):
    path = with_external_axes(tmp_path)
    (tmp_path / "data/weights.bin").unlink()
    missing = "external data 'data/weights.bin' are not there: 2 tensors (a, w), 12 bytes at least"
    said = f"not proved: {missing}; put the file beside the model\n"
    for typed in (
        ["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "17"],
        ["verify", str(path), str(path)],
    ):
        assert cli.main(typed) == 3
        assert said in capsys.readouterr().out
    assert opshift.verify(path, path).why in said
    assert not (tmp_path / "out.onnx").exists()
