"""Fourier transforms by matrices, against numpy.fft."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_computes, check_refused, check_values

RNG = np.random.default_rng(0)


def pairs(z, dtype=np.float32):
    return np.stack([z.real, z.imag], axis=-1).astype(dtype)


def transformed(x, axis, length, inverse, onesided):
    z = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    axis %= x.ndim
    if inverse and onesided:
        return np.fft.irfft(z, n=length, axis=axis)[..., None].astype(x.dtype)
    y = (np.fft.ifft if inverse else np.fft.fft)(z, n=length, axis=axis)
    return pairs(np.take(y, range(y.shape[axis] // 2 + 1), axis) if onesided else y, x.dtype)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [None, 3, 8])
@pytest.mark.parametrize(
    ("parts", "inverse", "onesided"), [(1, 0, 0), (1, 0, 1), (2, 0, 0), (1, 1, 0), (2, 1, 0), (2, 1, 1)]
)
@pytest.mark.parametrize("axis", [1, -2])
def test_transforms(axis, parts, inverse, onesided, length, known):
    x = RNG.normal(size=(2, 5, 4, parts)).astype(np.float32)
    n = f"int64 n = {{{length}}}" if length else ""
    dims = f"2,5,4,{parts}" if known else f"B,N,M,{parts}"
    outside = length is not None and not known
    check_computes(
        f"y = DFT<axis={axis}, inverse={inverse}, onesided={onesided}>(x{', n' if length else ''})", 17, 13,
        transformed(x, axis, length, inverse, onesided), feeds={"x": x, "n": np.array(length)} if outside else {"x": x},
        grade="close", rtol=1e-5, atol=2e-6, inputs=f"float[{dims}] x" + (", int64 n" if outside else ""), outputs="float[P,Q,R,S] y",
        constants="" if outside else n,
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "dtype", "tolerance"), [("double", np.float64, 1e-9), ("float16", np.float16, 2e-2)])
def test_long_signals_and_other_types(kind, dtype, tolerance):
    x = RNG.normal(size=(1, 1000, 1)).astype(dtype)
    check_computes(
        "y = DFT(x)", 17, 16, transformed(x.astype(np.float64), 1, None, 0, 0).astype(dtype), feeds={"x": x}, grade="close",
        rtol=tolerance, atol=tolerance, inputs=f"{kind}[1,1000,1] x", outputs=f"{kind}[A,B,C] y",
    )  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("window", "length"), [(True, False), (True, True), (False, True), (False, False)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time(onesided, window, length, known):
    x, w = RNG.normal(size=(2, 32, 1)).astype(np.float32), RNG.uniform(size=8).astype(np.float32)
    size = 8 if window or length else 32
    frames = np.stack([x[:, k : k + size, 0] * (w if window else 1) for k in range(0, 32 - size + 1, 5)], axis=1)
    y = pairs(np.fft.fft(frames, axis=2)[..., : size // 2 + 1] if onesided else np.fft.fft(frames, axis=2))
    call = f"x, s, {'w' if window else ''}, {'n' if length else ''}".rstrip(", ")
    dims, taps = ("2,32", "8") if known else ("B,L", "K")
    inputs = f"float[{dims},1] x" + (f", float[{taps}] w" if window else "")
    held = "int64 s = {5}" + (", int64 n = {8}" if length else "")
    feeds = {"x": x} | ({"w": w} if window else {})
    if not known:
        inputs, held = inputs + ", int64 s" + (", int32 n" if length else ""), ""
        inputs = inputs.replace("int64 s", "int32 s") if length else inputs  # both are of one type
        feeds |= {"s": np.array(5, np.int32 if length else np.int64)} | ({"n": np.array(8, np.int32)} if length else {})
    check_computes(
        f"y = STFT<onesided={onesided}>({call})", 17, 13, y, feeds=feeds, grade="close", rtol=1e-5, atol=5e-6, inputs=inputs,
        outputs="float[P,Q,R,S] y", constants=held,
    )  # fmt: skip


def test_an_axis_of_one_frequency_that_is_not_the_one():
    """Each axis gets a branch; that of size 1 would be a signal of length 0."""
    x = RNG.normal(size=(1, 5, 2)).astype(np.float32)
    check_computes(
        "y = DFT<inverse=1, onesided=1>(x, , a)", 20, 16, transformed(x, 1, None, 1, 1), feeds={"x": x, "a": np.array(1)},
        grade="close", rtol=1e-5, atol=1e-6, inputs="float[1,5,2] x, int64 a", outputs="float[A,B,C] y",
    )  # fmt: skip


def test_what_cannot_be_expressed():
    check_refused(
        "y = DFT<axis=2>(x)",
        17,
        16,
        "axis 2 is not one of the signal's 2",
        inputs="float[2,5,1] x",
        outputs="float[A,B,C] y",
    )
    check_refused(
        "y = DFT(x, n)", 17, 16, "a transform of length 0", inputs="float[2,5,1] x", outputs="float[A,B,C] y", constants="int64 n = {0}",
    )  # fmt: skip
    check_refused(
        "y = DFT(x)", 17, 16, "the last dimension is unknown", inputs="float[2,5,C] x", outputs="float[A,B,D] y"
    )


def test_frames_of_a_signal_in_a_function_whose_step_its_callers_give():
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (int32 a, int32 b) => (float[P,Q,R,S] y) { y = my.F(a, b) }
        <domain: "my", opset_import: ["" : 17]> F (a, b) => (y)
        { x = Constant<value = float[1,10,1] {1,2,3,4,5,6,7,8,9,1}>() y = STFT<onesided=0>(x, a, "", b) }"""
    )
    made = convert.attempt(source, {"": 16}).model
    assert made.functions
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, {"a": np.array(4, np.int32), "b": np.array(5, np.int32)}, rtol=1e-4, atol=1e-4)


def test_a_transform_of_nothing_is_refused():
    check_refused("y = DFT<axis=1>(x)", 17, 16, "length 0", inputs="float[1,0,1] x", outputs="float[1,A,2] y")
