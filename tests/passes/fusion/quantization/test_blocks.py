"""Products with weights in blocks become MatMulNBits, 4 bits and 8, symmetric and not, however they lie."""

import ml_dtypes
import numpy as np
import pytest
from opshift.passes.fusion import fold
from opshift.passes.model.schemas import MICROSOFT

from tests.passes.fusion.quantization.test_operands import held, operators
from tests.passes.operators.microsoft.harness import FLOAT, Call, feeds, inlined
from tests.passes.operators.microsoft.harness import model as calls
from tests.support import evaluate

pytestmark = pytest.mark.newest
RNG = np.random.default_rng(0)
KINDS = {ml_dtypes.uint4: 16, ml_dtypes.int4: 8, np.uint8: 256, np.int8: 128}
ROWS, BLOCK = 5, 16


@pytest.mark.parametrize("lies", ["in rows", "in columns"])
@pytest.mark.parametrize("size", [32, 48, 40])
@pytest.mark.parametrize("zeros", ["none", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_in_blocks(kind, zeros, size, lies):
    blocks, end = -(-size // BLOCK), KINDS[kind]
    w, s = RNG.integers(0, end, (ROWS, size)), RNG.uniform(0.1, 0.2, (ROWS, blocks)).astype(FLOAT)
    z = RNG.integers(0, end, (ROWS, blocks))
    w, z = (of.astype(np.int16).astype(kind) for of in (w, z))
    rows = lies == "in rows"
    held_as = {"w": w, "s": s, "z": z} if rows else {"w": w.T.copy(), "s": s.T.copy(), "z": z.T.copy()}
    body = f"b = DequantizeLinear<axis = {int(rows)}, block_size = {BLOCK}>(w, s{', z' if zeros == 'some' else ''}) "
    body += f"{'c = Transpose<perm = [1, 0]>(b)' if rows else 'c = Identity(b)'} f = MatMul(x, {'c' if rows else 'b'}) y = Add(f, bias)"
    body = body.replace("c = Identity(b)", "")
    source = held(body, inputs=f"float[2,{size}] x", outputs="float[A,B] y", bias=np.ones(ROWS, FLOAT), **held_as)
    result = fold.attempt(source, ops=[(MICROSOFT, "MatMulNBits")]).model
    assert operators(result) == ["MatMulNBits"]
    x = {"x": RNG.normal(size=(2, size)).astype(FLOAT)}
    dequantized = (
        w.astype(int) - (z.astype(int) if zeros == "some" else np.zeros_like(z, int)).repeat(BLOCK, 1)[:, :size]
    ) * s.repeat(BLOCK, 1)[:, :size]
    np.testing.assert_allclose(
        evaluate(result, x)[0], x["x"] @ dequantized.T + 1, rtol=1e-4, atol=1e-2 if end > 16 else 1e-4
    )


@pytest.mark.parametrize("kind", KINDS)
def test_zero_points_in_the_middle_are_what_is_meant_without_any(kind):
    """Others are written."""
    signed = np.dtype(kind) in (np.dtype(np.int8), np.dtype(ml_dtypes.int4))
    middle = 0 if signed else 8 if kind is ml_dtypes.uint4 else 128
    w, s = np.ones((ROWS, 32), np.int16).astype(kind), np.ones((ROWS, 2), FLOAT)
    body = f"b = DequantizeLinear<axis = 1, block_size = {BLOCK}>(w, s, z) c = Transpose<perm = [1, 0]>(b) y = MatMul(x, c)"
    for zero, written in ((middle, False), (middle + 1, True)):
        z = np.full((ROWS, 2), zero, np.int16).astype(kind)
        source = held(body, inputs="float[2,32] x", outputs="float[A,B] y", w=w, s=s, z=z)
        (made,) = fold.attempt(source, ops=[(MICROSOFT, "MatMulNBits")]).model.graph.node
        assert bool([*made.input, ""][3]) is written


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("given", [True, False])
def test_what_was_taken_apart_comes_back(bits, given):
    weights = RNG.integers(0, 256, (ROWS, 2, BLOCK * bits // 8)).astype(np.uint8)
    zeros = RNG.integers(0, 256, (ROWS, 2 * bits // 8)).astype(np.uint8) if given else None
    call = Call("MatMulNBits", (RNG.normal(size=(3, 32)).astype(FLOAT), weights, np.ones((ROWS, 2), FLOAT), zeros), (True,),
                {"K": 32, "N": ROWS, "bits": bits, "block_size": BLOCK})  # fmt: skip
    source = calls([call], (1, 2, 3))
    source.graph.output[0].type.tensor_type.elem_type = 1
    result = fold.attempt(inlined(source, 21), ops=[(MICROSOFT, "MatMulNBits")])
    assert operators(result.model) == ["MatMulNBits"] or bits == 8, "8 bits are written out by other operators"
    for want, got in zip(evaluate(source, feeds([call])), evaluate(result.model, feeds([call])), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
