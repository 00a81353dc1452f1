"""STFT by matrices, against numpy.fft."""

import numpy as np
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime
from tests.support import check_computes, check_refused, check_values, model

RNG = np.random.default_rng(0)


def pairs(z):
    return np.stack([z.real, z.imag], axis=-1).astype(np.float32)


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


@pytest.mark.parametrize(("dims", "onesided"), [("2,16", 1), ("B,L", 0)])
def test_a_real_signal_of_batch_and_time_as_onnxruntime_takes_it(dims, onesided):
    io = {"inputs": f"float[{dims}] x, int64 s", "outputs": "float[P,Q,R,S] y", "constants": "int64 n = {8}"}
    feeds = {"x": RNG.normal(size=(2, 16)).astype(np.float32), "s": np.array(4)}
    source = model(f"y = STFT<onesided={onesided}>(x, s, , n)", 17, **io)
    (expected,) = OnnxRuntime(source).run(feeds)
    check_computes(
        f"y = STFT<onesided={onesided}>(x, s, , n)", 17, 13, expected, feeds=feeds, grade="close", rtol=1e-5, atol=5e-6, **io
    )  # fmt: skip


def test_a_signal_without_a_batch_is_refused():
    io = {"inputs": "float[16] x", "outputs": "float[P,Q,R,S] y", "constants": "int64 s = {4}, int64 n = {8}"}
    check_refused("y = STFT(x, s, , n)", 17, 16, "STFT gets a signal of rank 1", **io)
    io = {"inputs": "float[1,4,1] x, float[1,2] w", "outputs": "float[A,B,C,D] y", "constants": "int64 s = {1}"}
    check_refused("y = STFT(x, s, w)", 17, 16, "STFT gets a window of rank 2; supported: a vector", **io)


def test_a_step_behind_the_signal_leaves_one_frame():
    x, w = np.array([1, 2], np.float32).reshape(1, 2, 1), np.ones(1, np.float32)
    io = {"inputs": "float[1,2,1] x, int64 s, float[1] w", "outputs": "float[P,Q,R,S] y"}
    for step in (2**63 - 1, 2):
        feeds = {"x": x, "s": np.array(step), "w": w}
        expected = np.array([[[[1, 0]]]], np.float32)
        check_computes("y = STFT(x, s, w)", 17, 10, expected, feeds=feeds, grade="close", **io)
