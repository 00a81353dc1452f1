"""What a file is that is no ONNX model, as far as its first bytes tell, and what makes a model of it."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator

from opshift.files.wire import BYTES, VARINT, fields
from opshift.passes.model.encoding.fields import Malformed

HEAD = 4096
"""Bytes that are looked at."""

_TORCH = "a PyTorch file; torch.onnx.export makes a model of the module that it holds"
_MAGIC = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file that it stands for; `git lfs pull` fetches that"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes; tf2onnx converts Keras models"),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", _TORCH),
    (0, b"GGUF", "a GGUF file, which holds weights without a graph"),
    (0, b"ptrt", "a TensorRT engine, which cannot be converted back; take the model that it was built from"),
    (0, b"RKNN", "an RKNN model, which cannot be converted back; take the model that it was built from"),
    (0, b"\x1f\x8b", "compressed by gzip; unpack it first"),
    (0, b"BZh", "compressed by bzip2; unpack it first"),
    (0, b"\xfd7zXZ\0", "compressed by xz; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first"),
    (0, b"Rar!\x1a\x07", "a RAR archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
    (0, b"\x93NUMPY", "an array of numpy's (.npy), not a model"),
    (0, b"\x7fELF", "a program or a library"),
    (0, b"MZ", "a program or a library"),
    (0, b"\xff\xfe", "text in UTF-16"),
    (0, b"\xfe\xff", "text in UTF-16"),
    (4, b"TFL3", "a TensorFlow Lite model; `python -m tf2onnx.convert --tflite` makes an ONNX model of it"),
    (4, b"ORTM", "a model in onnxruntime's own format (.ort); take the ONNX model that it was made of"),
)
_TEXTS = (
    (("<!doctype html", "<html"), "a web page: the download failed, or needs a login"),
    (("<?xml", "<net"), "XML; OpenVINO IR is read where the file's name ends in .xml"),
    (
        ("<ir_version", "<\n"),
        "a model in ONNX text; onnx.parser.parse_model reads it, and onnx.save makes a file of it",
    ),
    (("ir_version:", "graph {"), "a model in protobuf's text format; google.protobuf.text_format.Parse reads it"),
    (('{"irversion"', '{"graph"'), "a model in protobuf's JSON; google.protobuf.json_format.Parse reads it"),
    (("{", "["), "JSON"),
)
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in (2, 3, 4, 5))


def describe_file(head: bytes, name: str = "") -> str:
    """What a file is that begins with these bytes, in words that follow "it is"; empty where nobody knows.

    Args:
        head: the first `HEAD` bytes, or all if there are fewer.
        name: the file's name, which tells what kind of zip it is.
    """
    if not head:
        return "empty"
    for offset, magic, what in _MAGIC:
        if head[offset:].startswith(magic):
            return what
    if not head.strip(b"\0"):
        return "only zeros, as an interrupted download leaves"
    if head.startswith(b"PK\x03\x04"):
        return _of_zip(head, name)
    if head.startswith(_PICKLES):
        return f"{_TORCH}, if it is one; else a pickle of something"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        return "a safetensors file, which holds weights without a graph"
    return _of_text(head) or _of_messages(head, name)


def folder(path: str) -> str:
    """What a folder is, in words that follow "it is"."""
    held = sorted(os.listdir(path))
    if "saved_model.pb" in held:
        return "a TensorFlow SavedModel; `python -m tf2onnx.convert --saved-model` makes an ONNX model of it"
    models = [name for name in held if name.endswith(".onnx")]
    more = " and more" if len(models) > 3 else ""
    return f"a folder; it holds {', '.join(models[:3])}{more}" if models else "a folder"


def _of_zip(head: bytes, name: str) -> str:
    if b"data.pkl" in head or b"/version" in head or name.endswith((".pt", ".pth")):
        return _TORCH
    if b".npy" in head:
        return "a .npz file of arrays, not a model"
    if name.endswith(".keras") or b"config.json" in head:
        return "a Keras file; tf2onnx converts Keras models"
    return "a zip archive; unpack it first"


def _of_text(head: bytes) -> str:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the last letter may be cut in two
    except UnicodeDecodeError:
        return ""
    if any(ord(letter) < 32 and letter not in "\t\n\r\f" for letter in text):
        return ""
    start = text.lstrip("\ufeff \t\r\n").lower()
    start = "".join(start.split()) if start.startswith("{") else start  # JSON may be spread over lines
    return next((what for starts, what in _TEXTS if start.startswith(starts)), "text")


def _of_messages(head: bytes, name: str) -> str:
    """What a message of another program begins with: protobuf has no magic bytes, but its fields are telling."""
    found = list(_whole_fields(head))
    if not found:
        return ""
    (number, wire, value), *_ = found
    held = list(_whole_fields(value)) if wire == BYTES else []
    inner = [(n, w) for n, w, _ in held]
    if number == 1 and any(n == 4 and text.isalnum() for n, _, text in held):  # an operator; TensorFlow's is the second
        return "the graph of an ONNX model alone; onnx.helper.make_model makes a model of a GraphProto"
    if number == 1 and inner[:2] == [(1, BYTES), (2, BYTES)]:
        return "a TensorFlow graph; `python -m tf2onnx.convert --graphdef` makes an ONNX model of it"
    if number == 1 and inner[:2] == [(1, VARINT), (2, VARINT)]:
        return "a PaddlePaddle program; paddle2onnx makes an ONNX model of it"
    if name == "saved_model.pb":
        return "a TensorFlow SavedModel; `python -m tf2onnx.convert --saved-model` makes an ONNX model of its folder"
    if name.endswith(".mlmodel"):
        return "a Core ML model; take the model that it was made of"
    wires = {(n, w) for n, w, _ in found}
    if (1, VARINT) in wires and {(2, VARINT), (8, BYTES), (9, BYTES)} & wires and (7, BYTES) not in wires:
        return "a single tensor, as ONNX keeps test data (input_0.pb), not a model"
    return ""


def _whole_fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The fields of a message whose values begin within some bytes: number, wire type, value as far as it is there."""
    try:
        for tag, _, start, stop in fields(data, 0, len(data)):
            yield tag >> 3, tag & 7, data[start:stop]
    except (IndexError, Malformed):
        return
