"""The judge of half precision rounds where onnxruntime does not."""

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto

from tests.types import rounding

VALUES = np.array([12, 1.0001, 1e-9, -70000, 65519, 65520, 3e-8, 2049, -0.0, 1 / 3], np.float32)


def run(body: str, outputs: str = "float[n] y", opset: int = 17) -> np.ndarray:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[n] x) => ({outputs}) {{ {body} }}'
    [[found]] = rounding.run(onnx.parser.parse_model(text), [{"x": VALUES}])
    return np.asarray(found)


def in_float16() -> np.ndarray:
    with np.errstate(over="ignore"):
        return VALUES.astype(np.float16).astype(np.float32)


def in_bfloat16() -> np.ndarray:
    """The upper 16 bits, ties to even."""
    bits = VALUES.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("to", "expected"), [(TensorProto.FLOAT16, in_float16()), (TensorProto.BFLOAT16, in_bfloat16())]
)
def test_values_are_rounded_as_numpy_does(to, expected):
    np.testing.assert_array_equal(run(f"h = Cast<to={to}>(x) y = Cast<to=1>(h)"), expected)
    np.testing.assert_array_equal(run(f"h = Cast<to={to}>(x) a = Neg(h) b = Neg(a) y = Cast<to=1>(b)"), expected)


def test_casts_between_operators_without_a_half_kernel_are_not_dropped():
    found = run("h = Cast<to=10>(x) e = Exp(h) l = Log(e) y = Cast<to=1>(l)")
    assert np.isinf(found[0])  # Exp(12) is 162754, beyond float16
    found = run("h = Cast<to=16>(x) e = Exp(h) l = Log(e) y = Cast<to=1>(l)")
    np.testing.assert_allclose(found[0], 12, rtol=0.01)


def test_a_half_constant_and_a_half_output_are_float32_at_the_end():
    # the text of a float16 tensor holds its bits: 16896 is 3
    found = run("h = Cast<to=10>(x) c = Constant<value = float16 {16896}>() y = Add(h, c)", "float16[n] y")
    assert found.dtype == np.float32
    assert found[0] == 15


def test_bodies_are_rounded_too():
    found = run(
        """h = Cast<to=10>(x) t = Constant<value = bool {1}>()
        b = If (t) <then_branch = t1 () => (float16[n] p) { e = Exp(h) p = Log(e) },
                    else_branch = t2 () => (float16[n] q) { q = Identity(h) }>
        y = Cast<to=1>(b)"""
    )
    assert np.isinf(found[0])


def test_functions_are_rounded_too():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[n] x) => (float[n] y) { h = Cast<to=10>(x) f = own.f(h) y = Cast<to=1>(f) }
        <opset_import: ["" : 17], domain: "own"> f (a) => (b) { e = Exp(a) b = Log(e) }"""
    )
    [[found]] = rounding.run(model, [{"x": VALUES}])
    assert np.isinf(found[0])
