"""What is no ONNX model is named as what it is."""

import io
import os
import pickle
import zipfile

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.errors import InvalidModel

from opshift.cli import main as cli
from opshift.files import foreign, model_file
from tests.support import model

RELU = model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y")


def field(number, value):
    """A field of bytes in protobuf's wire format."""
    return bytes([number << 3 | 2, len(value)]) + value


def zipped(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as held:
        for name in names:
            held.writestr(name, b"x")
    return data.getvalue()


def arrays():
    data = io.BytesIO()
    np.savez(data, x=np.zeros(3))
    return data.getvalue()


def tensor():
    return onnx.numpy_helper.from_array(np.zeros(3, np.float32), "x").SerializeToString()


TF_NODE = field(1, b"x") + field(2, b"Placeholder")
KINDS = [
    ("in.onnx", b"", "it is empty"),
    ("in.onnx", b"hello, world\n", "it is text"),
    ("in.onnx", b'{"a": 1}\n', "it is JSON"),
    ("in.onnx", b"\n  <!DOCTYPE html>\n<html><body>Sign in</body></html>", "it is a web page"),
    ("in.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull"),
    ("in.onnx", onnx.printer.to_text(RELU).encode(), "onnx.parser.parse_model"),
    ("in.pbtxt", b"ir_version: 8\ngraph {\n}\n", "text_format.Parse"),
    ("in.tflite", b"\x1c\x00\x00\x00TFL3" + bytes(40), "tf2onnx.convert --tflite"),
    ("in.pt", zipped("m/data.pkl", "m/version"), "torch.onnx.export"),
    ("in.pth", pickle.dumps({"a": 1}, 2), "torch.onnx.export"),
    ("in.pb", field(1, TF_NODE) + field(1, TF_NODE), "tf2onnx.convert --graphdef"),
    ("in.pb", field(1, TF_NODE + field(3, b"y")), "tf2onnx.convert --graphdef"),
    ("saved_model.pb", b"\x08\x01" + field(2, field(1, b"\x0a\x00")), "a TensorFlow SavedModel"),
    ("in.pdmodel", field(1, b"\x08\x00\x10\x01"), "paddle2onnx"),
    ("in.pdmodel", field(1, b"\x08\x00\x10\x01\x1a\x01x"), "paddle2onnx"),
    ("in.mlmodel", b"\x08\x04" + field(2, field(1, field(1, b"x"))), "a Core ML model"),
    ("input_0.pb", tensor(), "a single tensor"),
    ("graph.pb", RELU.graph.SerializeToString(), "the graph of an ONNX model alone"),
    ("in.npz", arrays(), "a .npz file"),
    ("in.npy", b"\x93NUMPY\x01\x00" + bytes(9), "(.npy)"),
    ("in.png", b"\x89PNG\r\n\x1a\n" + bytes(9), "a picture"),
    ("in.exe", b"MZ\x90\x00" + bytes(9), "a program"),
    ("in.zip", zipped("readme"), "a zip archive"),
    ("in.h5", b"\x89HDF\r\n\x1a\n" + bytes(9), "Keras"),
    ("in.safetensors", (60).to_bytes(8, "little") + b'{"a":{}}', "a safetensors file"),
    ("in.gguf", b"GGUF\x03\x00\x00\x00", "a GGUF file"),
    ("in.engine", b"ptrt" + bytes(9), "a TensorRT engine"),
    ("in.ort", b"\x10\x00\x00\x00ORTM" + bytes(9), "(.ort)"),
    ("in.onnx.gz", b"\x1f\x8b\x08" + bytes(9), "gzip"),
    ("in.onnx.bz2", b"BZh91AY" + bytes(9), "bzip2"),
    ("in.onnx.xz", b"\xfd7zXZ\0\0" + bytes(9), "xz"),
    ("in.onnx.zst", b"\x28\xb5\x2f\xfd" + bytes(9), "zstd"),
    ("in.rar", b"Rar!\x1a\x07\x01\0" + bytes(9), "a RAR archive"),
    ("in.tar", b"in.onnx".ljust(257, b"\0") + b"ustar\x0000", "a tar archive"),
    ("in.rknn", b"RKNN" + bytes(9), "an RKNN model"),
    ("in.txt", "no model".encode("utf-16"), "text in UTF-16"),
    ("zeros.onnx", bytes(5000), "only zeros, as an interrupted download leaves"),
]


ZIP = b"PK\x03\x04" + bytes(26)
TORCH = foreign._TORCH


@pytest.mark.parametrize(
    ("head", "name", "said"),
    [
        (b"\xef\xbb\xbf \r\n<?XML ", "", "XML"),
        (b"<net name", "", "XML"),
        (b"<\n", "", "a model in ONNX text"),
        (b"graph { node", "", "a model in protobuf's text format"),
        (b"[1, 2]", "", "JSON"),
        (b'{\n  "irVersion": "8"', "", "a model in protobuf's JSON"),
        (b'{"error": "no graph"}', "", "JSON"),
        ("opset né".encode()[:-1], "", "text"),
        (b"opset \xe9 ", "", ""),
        (b"opset\x0bshift\xff", "", ""),
        (b"opset\x1f", "", ""),
        (b"opset\x20\f", "", "text"),
        (ZIP, "", "a zip archive"),
        (ZIP, "m.pt", TORCH),
        (ZIP, "m.pth", TORCH),
        (ZIP + b"m/version", "", TORCH),
        (ZIP + b"data.pkl", "", TORCH),
        (ZIP + b"x.npy", "", "a .npz file"),
        (ZIP, "m.keras", "a Keras file"),
        (ZIP + b"config.json", "", "a Keras file"),
        *((bytes([0x80, protocol]) + b"}", "", f"{TORCH}, if it is one; else") for protocol in (2, 3, 4, 5)),
        (b"\x80\x06}", "", ""),
        (((1 << 30) - 1).to_bytes(8, "little") + b"{", "", "a safetensors file"),
        ((1 << 30).to_bytes(8, "little") + b"{", "", ""),
        ((60).to_bytes(8, "little") + b"[", "", ""),
        (b"\x08\x01" + field(2, b"x"), "saved_model.pb", "a TensorFlow SavedModel"),
        (b"\x08\x01" + field(2, b"x"), "in.mlmodel", "a Core ML model"),
        (b"\x08\x01\x10\x01", "", "a single tensor"),
        (b"\x08\x01" + field(8, b"x"), "", "a single tensor"),
        (b"\x08\x01" + field(9, b"x"), "", "a single tensor"),
        (b"\x08\x01" + field(9, b"x") + field(7, b"x"), "", ""),
        (b"\x08\x01", "", ""),
        (field(1, field(4, b"Relu")), "", "the graph of an ONNX model alone"),
        (field(1, field(4, b"a b")), "", ""),
        (field(2, field(4, b"Relu")), "", ""),
        (field(2, TF_NODE), "", ""),
        (field(2, b"\x08\x00\x10\x01"), "", ""),
        (field(1, b"\x08\x00"), "", ""),
    ],
)
def test_what_its_first_bytes_tell(head, name, said):
    found = foreign.describe_file(head, name)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_no_more_than_the_first_bytes_are_looked_at(tmp_path):
    for end, said in ((b"\x01", "it is text"), (b"", "it is text")):
        (tmp_path / "in.onnx").write_bytes(b"x" * foreign.HEAD + end)
        with pytest.raises(InvalidModel, match=said):
            model_file.read(tmp_path / "in.onnx")
    (tmp_path / "in.onnx").write_bytes(b"x" * (foreign.HEAD - 1) + b"\x01")
    with pytest.raises(InvalidModel, match=r"not an ONNX model \("):
        model_file.read(tmp_path / "in.onnx")


def test_a_folder_of_many_models_is_named_by_some(tmp_path):
    for count, said in ((3, "it holds m0.onnx, m1.onnx, m2.onnx"), (4, "m2.onnx and more")):
        for number in range(count):
            (tmp_path / f"m{number}.onnx").write_bytes(b"")
        assert foreign.folder(str(tmp_path)).endswith(said)


def test_a_name_in_the_folder_that_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "encoder.onnx").write_bytes(RELU.SerializeToString())
    with pytest.raises(InvalidModel, match=r"; did you mean encoder\.onnx\?"):
        model_file.read("encodr.onnx")
    with pytest.raises(InvalidModel, match=r"; did you mean encoder\.onnx\?"):
        model_file.read("encoder.onx")


@pytest.mark.parametrize(("name", "content", "said"), KINDS, ids=[said for *_, said in KINDS])
def test_a_file_is_named_as_what_it_is(tmp_path, capsys, name, content, said):
    (tmp_path / name).write_bytes(content)
    assert cli.main(["inspect", str(tmp_path / name)]) == 5
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith(f"opshift: {tmp_path / name}: not an ONNX model: it is ")
    assert told.count("\n") == 1


def test_a_large_file_is_named_by_its_beginning(tmp_path):
    (tmp_path / "in.onnx").write_bytes(b"<html>" + b"x" * 100)
    with pytest.raises(InvalidModel, match="a web page"):
        model_file.read(tmp_path / "in.onnx", whole=10)


def test_what_nobody_knows_is_told_as_before(tmp_path):
    (tmp_path / "in.onnx").write_bytes(os.urandom(3) + b"\xff" * 100)
    with pytest.raises(InvalidModel, match="not an ONNX model"):
        model_file.read(tmp_path / "in.onnx")


def test_a_model_that_is_cut_off_stays_one_that_is_cut_off(tmp_path):
    (tmp_path / "in.onnx").write_bytes(RELU.SerializeToString()[:-5])
    with pytest.raises(InvalidModel, match="it ends in the middle of a field"):
        model_file.read(tmp_path / "in.onnx")


def test_a_name_that_nothing_has_is_told_with_the_one_that_could_be_meant(tmp_path, capsys):
    (tmp_path / "encoder.onnx").write_bytes(RELU.SerializeToString())
    for name, meant in (
        ("encodr.onnx", f"; did you mean {tmp_path / 'encoder.onnx'}?"),
        ("x", ""),
        ("n.onnx", ""),
        ("no/x.onnx", ""),
    ):
        assert cli.main(["inspect", str(tmp_path / name)]) == 5
        assert capsys.readouterr().err == f"opshift: {tmp_path / name}: No such file or directory{meant}\n"


@pytest.mark.parametrize(
    ("held", "said"),
    [([], "it is a folder\n"), (["a.onnx"], "it holds a.onnx\n"), (["saved_model.pb"], "--saved-model")],
)
def test_a_folder_is_named_with_what_it_holds(tmp_path, capsys, held, said):
    (tmp_path / "folder").mkdir()
    for name in held:
        (tmp_path / "folder" / name).write_bytes(b"")
    assert cli.main(["inspect", str(tmp_path / "folder")]) == 5
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("end", range(0, 200, 7))
def test_no_beginning_of_a_model_is_taken_for_something_else(end):
    assert foreign.describe_file(RELU.SerializeToString()[:end]) in ("", "empty")
