"""Shrink as a choice, with NaN, infinities and a limit below zero."""

import numpy as np
import pytest

from opshift.verification.engines import Reference
from tests.passes.operators.on_request import inlined
from tests.support import check_computes, check_refused, evaluate, model

VALUES = [0.0, 0.5, -0.5, 0.75, -0.75, 2.0, -3.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("limit", [0.5, 0.0, 1.5, -0.25])
@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_floats(kind, limit):
    x = np.array(VALUES, {"float": np.float32, "double": np.float64, "float16": np.float16}[kind])
    expected = np.where(
        x < -limit, x + x.dtype.type(0.25), np.where(x > limit, x - x.dtype.type(0.25), x.dtype.type(0))
    )
    check_computes(
        f"y = Shrink<lambd={limit}, bias=0.25>(x)", 9, 8, expected, feeds={"x": x}, inputs=f"{kind}[10] x", outputs=f"{kind}[10] y",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", "int32", "uint16"])
def test_integers(kind):
    x = np.array([0, 1, 2, 3, 100], kind) if kind[0] == "u" else np.array([0, -1, -3, 3, 100], kind)
    expected = np.where(x < -2, x + 1, np.where(x > 2, x - 1, 0)).astype(kind)
    check_computes(
        "y = Shrink<lambd=2.0, bias=1.0>(x)", 9, 8, expected, feeds={"x": x}, inputs=f"{kind}[5] x", outputs=f"{kind}[5] y",
    )  # fmt: skip


BETWEEN = [0.30004883, -0.30004883, 0.3000001, 2.0, 0.0, 65504, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("given", ["lambd=0.3", "lambd=0.3, bias=0.1", "lambd=1e6", "lambd=-1e6", "bias=1e6"])
def test_what_float16_does_not_hold_is_compared_and_added_in_float32(given):
    """A float16 is more than 0.3 and no more than what a float16 of it is, and infinity is more than a million."""
    body, io = f"y = Shrink<{given}>(x)", {"inputs": "float16[9] x", "outputs": "float16[9] y"}
    x = np.array(BETWEEN, np.float16)
    (expected,) = evaluate(model(body, 9, **io), {"x": x})
    with np.errstate(over="ignore"):  # of onnx.reference
        check_computes(body, 9, 8, expected, feeds={"x": x}, **io)
        (actual,) = evaluate(inlined(model(body, 13, **io), "Shrink"), {"x": x})
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["int16", "uint16"])
@pytest.mark.parametrize("bias", ["1e-5", "0.9999999", "0.5"])
def test_short_integers_are_rounded_as_kernels_round_them(kind, bias):
    """float32, which bias is, holds no more than some 32767 - 1e-5, and a double would be cut to 32766."""
    body, io = f"y = Shrink<bias={bias}>(x)", {"inputs": f"{kind}[4] x", "outputs": f"{kind}[4] y"}
    x = np.array([32767, 30000, 2, 0], kind)
    (expected,) = evaluate(model(body, 9, **io), {"x": x})
    assert expected[0] == (32767 if bias == "1e-5" else 32766)
    check_computes(body, 9, 8, expected, feeds={"x": x}, **io)
    (actual,) = evaluate(inlined(model(body, 13, **io), "Shrink"), {"x": x})
    assert actual.tolist() == expected.tolist()


def test_64_bits_are_refused():
    check_refused(
        "y = Shrink(x)",
        9,
        8,
        "64-bit integers, which double does not hold exactly",
        inputs="int64[5] x",
        outputs="int64[5] y",
    )


@pytest.mark.parametrize("limit", [-0.5, -0.0, 0.0, 0.5])
def test_a_zero_below_0_has_the_sign_that_onnxruntime_gives_it(limit):
    """-0 is below 0.5, the opposite of -0.5, and raised by nothing it is 0. The Where of onnxruntime would hide a -0."""
    source = model(f"y = Shrink<lambd={limit}, bias=0.0>(x)", 13, inputs="float[2] x", outputs="float[2] y")
    x = np.array([-0.0, 0.0], np.float32)
    (expected,), (actual,) = evaluate(source, {"x": x}), Reference(inlined(source, "Shrink")).run({"x": x})
    assert actual.tobytes() == expected.tobytes()
