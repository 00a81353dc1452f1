"""DFT: by matrices, against numpy.fft, and its axis from attribute to input and back."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_refused, evaluate

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
        "axis 2 is out of range: the signal has 2 axes",
        inputs="float[2,5,1] x",
        outputs="float[A,B,C] y",
    )
    check_refused(
        "y = DFT(x, n)", 17, 16, "the Fourier transform has length 0", inputs="float[2,5,1] x", outputs="float[A,B,C] y", constants="int64 n = {0}",
    )  # fmt: skip
    check_refused(
        "y = DFT(x)",
        17,
        16,
        "the last dimension of the signal is unknown",
        inputs="float[2,5,C] x",
        outputs="float[A,B,D] y",
    )


def test_the_first_element_alone():
    x = np.random.default_rng(0).normal(size=(2, 5, 1)).astype(np.float32)
    check_computes(
        "y = DFT(x, n)", 17, 16, np.concatenate([x[:, :1], 0 * x[:, :1]], -1), feeds={"x": x}, grade="close", rtol=1e-6,
        inputs="float[2,5,1] x", outputs="float[A,B,C] y", constants="int64 n = {1}",
    )  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("attributes", "shape", "parts"),
    [("", (1, 0, 1), 2), ("", (2, 0, 2), 2), ("<inverse=1>", (1, 0, 2), 2), ("<inverse=1, onesided=1>", (3, 1, 2), 1)],
)
def test_a_transform_of_no_point(attributes, shape, parts, known):
    """As many points as 2 * (1 - 1) are a signal back from one frequency."""
    dims = ",".join(map(str, shape)) if known else f"B,N,{shape[-1]}"
    check_computes(
        f"y = DFT{attributes}(x)", 17, 16, np.zeros((shape[0], 0, parts), np.float32), feeds={"x": np.ones(shape, np.float32)},
        grade="close", inputs=f"float[{dims}] x", outputs="float[P,Q,R] y",
    )  # fmt: skip


def test_a_frequency_of_nothing_is_refused():
    check_refused("y = DFT<onesided=1>(x)", 17, 16, "length 0", inputs="float[1,0,1] x", outputs="float[1,A,2] y")


REAL = {"inputs": "float[2,5,4,1] x", "outputs": "float[2,5,4,2] y"}
FEEDS = {"x": np.random.default_rng(3).normal(size=(2, 5, 4, 1)).astype(np.float32)}


@pytest.mark.parametrize(("attribute", "axis"), [("", 1), ("<axis=2>", 2), ("<axis=-3>", -3), ("<axis=0>", 0)])
def test_axis_becomes_an_input_at_20(attribute, axis):
    check(f"y = DFT{attribute}(x)", 17, f"y = DFT(x, _, {axis})", 20, feeds=FEEDS, **REAL)


@pytest.mark.parametrize(("constant", "axis"), [(None, -2), (1, 1), (-3, -3)])
def test_axis_becomes_an_attribute_below_20(constant, axis):
    held = {"constants": f"int64 a = {{{constant}}}"} if constant is not None else {}
    check(f"y = DFT(x{', , a' if held else ''})", 20, f"y = DFT<axis={axis}>(x)", 19, feeds=FEEDS, **REAL, **held)


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3, -4])
def test_a_run_time_axis_becomes_conditions_below_20(axis):
    io = {"inputs": "float[2,5,4,1] x, int64 a", "outputs": "float[A,B,C,2] y"}
    after = """t1 = Equal(a, 0)
        t2 = Equal(a, -4)
        t3 = Or(t1, t2)
        y = If<else_branch={ t4 = Equal(a, 1); t5 = Equal(a, -3); t6 = Or(t4, t5); t7 = If<else_branch={ t8 = DFT<axis=2, onesided=1>(x); t8 }, then_branch={ t8 = DFT<axis=1, onesided=1>(x); t8 }>(t6); t7 }, then_branch={ t4 = DFT<axis=0, onesided=1>(x); t4 }>(t3)"""
    check("y = DFT<onesided=1>(x, , a)", 20, after, 19, feeds={**FEEDS, "a": np.array(axis)}, **io)


def test_a_run_time_axis_needs_a_rank_below_20():
    check_refused("y = DFT(x, , a)", 20, 19, "rank", inputs="float[] x, int64 a", outputs="float[] y")


@pytest.mark.newest
@pytest.mark.parametrize("axis", [1, 2])
def test_an_axis_that_the_calls_of_a_function_give_stays_theirs(axis):
    source = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[1,5,4,1] x) => (float[A,B,C,D] y) {{ y = own.t<a = {axis}>(x) }}
        <domain: "own", opset_import: ["": 17]> t <a> (x) => (y) {{ y = DFT<axis: int = @a>(x) }}"""
    )
    made = convert.attempt(source, {"": 20}, ir_version=9).model
    constant, _ = made.functions[0].node
    assert (constant.op_type, constant.attribute[0].ref_attr_name) == ("Constant", "a")
    x = RNG.normal(size=(1, 5, 4, 1)).astype(np.float32)
    np.testing.assert_allclose(evaluate(made, {"x": x})[0], transformed(x, axis, None, 0, 0), rtol=1e-5, atol=2e-6)
