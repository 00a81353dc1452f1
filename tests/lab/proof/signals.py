"""Models of signal processing: Fourier transforms, windows and mel filters, in ONNX text and as torch exports them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import onnx.parser
from onnx import ModelProto

EXPORTED = Path(__file__).with_name("signals.zip")
"""What `make_signals` wrote."""

TEXTS = {
    "DFT": (17, "float[N,16,1] x", "float[N,16,2] y", "", "y = DFT<axis=1>(x)"),
    "DFT onesided": (17, "float[N,15,1] x", "float[N,8,2] y", "", "y = DFT<axis=1, onesided=1>(x)"),
    "DFT of any length": (20, "float[N,L,1] x", "float[N,L,2] y", "int64 a = {1}", "y = DFT(x, , a)"),
    "DFT and its inverse": (17, "float[N,16,1] x", "float[N,16,2] y", "", "f = DFT<axis=1>(x) y = DFT<axis=1, inverse=1>(f)"),
    "DFT and its inverse at opset 20": (
        20,
        "float[N,16,1] x",
        "float[N,16,1] y",
        "int64 a = {1}, int64[1] b = {0}, int64[1] e = {1}, int64[1] last = {2}",
        "f = DFT(x, , a) i = DFT<inverse=1>(f, , a) y = Slice(i, b, e, last)",
    ),
    "DFT of 1,000 and its inverse": (
        17,
        "float[N,1000,1] x",
        "float[N,1000,2] y",
        "",
        "f = DFT<axis=1>(x) y = DFT<axis=1, inverse=1>(f)",
    ),
    "STFT of 400": (
        17,
        "float[N,1600,1] x",
        "float[N,T,201,2] y",
        "int64 step = {160}, int64 length = {400}",
        "w = HannWindow(length) y = STFT<onesided=1>(x, step, w, length)",
    ),
    "filter": (
        17,
        "float[N,8,1] x",
        "float[N,8,2] y",
        "float[8,1] h = {1, 1, 0.5, 0, 0, 0, 0.5, 1}",
        "f = DFT<axis=1>(x) m = Mul(f, h) y = DFT<axis=1, inverse=1>(m)",
    ),
    "DFT of complex numbers": (17, "float[N,16,2] x", "float[N,16,2] y", "", "y = DFT<axis=1>(x)"),
    "two-dimensional DFT": (17, "float[N,8,12,1] x", "float[N,8,12,2] y", "", "r = DFT<axis=2>(x) y = DFT<axis=1>(r)"),
    "STFT": (
        17,
        "float[N,64,1] x",
        "float[N,T,9,2] y",
        "int64 step = {8}, int64 length = {16}",
        "w = HannWindow(length) y = STFT<onesided=1>(x, step, w, length)",
    ),
    "STFT without window": (17, "float[N,64,1] x", "float[N,T,16,2] y", "int64 step = {8}, int64 length = {16}", "y = STFT<onesided=0>(x, step, , length)"),
    "power": (
        17,
        "float[N,64,1] x",
        "float[N,T,9] y",
        "int64 step = {8}, int64 length = {16}",
        "w = HammingWindow(length) s = STFT<onesided=1>(x, step, w, length) y = ReduceSumSquare<axes=[3], keepdims=0>(s)",
    ),
    "mel spectrogram": (
        17,
        "float[N,128,1] x",
        "float[N,T,8] y",
        "int64 step = {16}, int64 length = {32}, int64 bins = {8}, int64 rate = {8000}, float low = {0}, float high = {4000}, float e = {0.000001}",
        """w = HannWindow(length) s = STFT<onesided=1>(x, step, w, length) p = ReduceSumSquare<axes=[3], keepdims=0>(s)
           m = MelWeightMatrix(bins, length, rate, low, high) d = MatMul(p, m) c = Add(d, e) y = Log(c)""",
    ),
    "magnitude": (
        17,
        "float[N,64,1] x",
        "float[N,T,9] y",
        "int64 step = {8}, int64 length = {16}",
        "w = BlackmanWindow(length) s = STFT<onesided=1>(x, step, w, length) y = ReduceL2<axes=[3], keepdims=0>(s)",
    ),
    "MelWeightMatrix": (
        17,
        "float[N,17] x",
        "float[N,8] y",
        "int64 length = {32}, int64 bins = {8}, int64 rate = {8000}, float low = {20}, float high = {3800}",
        "m = MelWeightMatrix(bins, length, rate, low, high) y = MatMul(x, m)",
    ),
    "windows": (
        17,
        "float[N,16] x",
        "float[N,16] y, float[N,16] z",
        "int64 length = {16}",
        "h = HannWindow<periodic=0>(length) b = BlackmanWindow(length) y = Mul(x, h) z = Mul(x, b)",
    ),
}  # fmt: skip


def models() -> Iterator[tuple[str, ModelProto]]:
    for name, (opset, inputs, outputs, constants, body) in TEXTS.items():
        text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}'
        yield name, onnx.parser.parse_model(text)
    with zipfile.ZipFile(EXPORTED) as exported:
        for name in exported.namelist():
            yield name.removesuffix(".onnx"), ModelProto.FromString(exported.read(name))
