"""MatMulNBits: weights of 2, 4 and 8 bits, whole and padded blocks, zero points of each kind, as constants and at run time."""

import numpy as np
import onnx
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused, computed, inlined, model
from tests.support import show

ROWS = 5
RNG = np.random.default_rng(0)


def given(bits, size, block, **others):
    rng, blocks = np.random.default_rng(0), -(-size // block)
    return {
        "A": [(2, 3, size), (3, size)],
        "B": rng.integers(0, 256, (ROWS, blocks, block * bits // 8)).astype(np.uint8),
        "scales": np.abs(rng.normal(size=(ROWS, blocks))),
        "zero_points": [
            rng.integers(0, 256, (ROWS, -(-blocks * bits // 8))).astype(np.uint8),
            rng.random((ROWS, blocks)) * 2**bits,
        ],
        "bias": (ROWS,),
        **others,
    }


def attributes(bits, size, block):
    return {"K": [size], "N": [ROWS], "bits": [bits], "block_size": [block]}


@pytest.mark.parametrize("held", [(1, 2, 3), ()])
@pytest.mark.parametrize(("size", "block"), [(32, 16), (40, 16), (16, 16)])
@pytest.mark.parametrize(("bits", "ran"), [(4, 8), (8, 4), (2, 8)])
def test_weights(bits, size, block, held, ran):
    found = calls("MatMulNBits", given(bits, size, block), attributes(bits, size, block))
    assert check(found[::3], grade="close", held=held) == ran


def test_bytes_stay_where_they_lie():
    found = calls("MatMulNBits", given(4, 32, 16, zero_points=None, bias=None), attributes(4, 32, 16), types=[FLOAT])
    after = inlined(model(found[:1], (1, 2)), 21)
    assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "Transpose", "MatMul"], show(after)
    held = {tensor.name: tensor for tensor in after.graph.initializer}
    weights = held[after.graph.node[0].input[0]]
    assert (weights.data_type, list(weights.dims)) == (onnx.TensorProto.UINT4, [ROWS, 32])
    assert weights.raw_data == found[0].inputs[1].tobytes()


def test_groups_choose_scales():
    groups = np.random.default_rng(1).permutation(np.arange(32) // 16).astype(np.int32)
    found = calls("MatMulNBits", given(4, 32, 16, zero_points=None, g_idx=groups), attributes(4, 32, 16))
    assert check(found, grade="close", held=(1, 2, 4)) == 16
    found = calls("MatMulNBits", given(4, 32, 16, g_idx=groups), attributes(4, 32, 16))
    check_refused(found[:1], "g_idx and zero_points are both given")


def test_groups_of_what_is_padded():
    groups = np.random.default_rng(1).integers(0, 3, 48).astype(np.int32)
    found = calls("MatMulNBits", given(4, 40, 16, zero_points=None, g_idx=[groups, groups[:40]]), attributes(4, 40, 16))
    assert check([call for call in found if call.inputs[4] is not None], grade="close", held=(1, 2, 4)) == 16
    assert check([call for call in found if call.inputs[4] is not None], grade="close") == 16


def test_what_cannot_be_said_is_refused():
    groups = np.zeros(32, np.int32)
    found = calls("MatMulNBits", given(2, 32, 16, zero_points=None, g_idx=groups), attributes(2, 32, 16))
    check_refused(found[:1], "g_idx with bits=2")
    found = calls("MatMulNBits", given(4, 32, 16), {**attributes(4, 32, 16), "weight_prepacked": [1]})
    check_refused(found[:1], "weight_prepacked")
    check_refused(calls("MatMulNBits", given(4, 32, 16), {**attributes(4, 32, 16), "bits": [3]})[:1], "bits=3")


def test_each_call_keeps_its_own_weights():
    """Calls of one kind that differ in nothing but large constants."""
    made = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        packed = rng.integers(0, 256, (64, 8, 16)).astype(np.uint8)
        scales = rng.random((64, 8)).astype(FLOAT) * 0.02
        inputs = (rng.normal(size=(2, 256)).astype(FLOAT), packed, scales)
        made.append(Call("MatMulNBits", inputs, (True,), {"K": 256, "N": 64, "bits": 4, "block_size": 32}))
    assert check(made, grade="close", held=(1, 2), opsets=(21, 13)) == 3


def layer(rows):
    """Weights, scales and bias of a product of 32 columns."""
    weights = RNG.integers(0, 256, (rows, 2, 8)).astype(np.uint8)
    return weights, np.abs(RNG.normal(size=(rows, 2))).astype(FLOAT) * 0.1, RNG.normal(size=rows).astype(FLOAT)


def normalized(x, scale):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


def product(x, weights, scales, bias):
    nibbles = np.stack([weights & 15, weights >> 4], axis=-1).reshape(len(weights), 32) - 8.0
    return x @ (nibbles * scales.repeat(16, 1)).T + (0 if bias is None else bias)


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_what_is_fused_around_products_by_its_text(skips, biased):
    a, skip, scale = (RNG.normal(size=of).astype(FLOAT) for of in ((2, 3, 32), (2, 3, 32), (32,)))
    total = a + skip if skips else a
    x = normalized(total, scale)
    parts = [layer(rows) for rows in (6, 4, 4)]
    parts = [(w, s, b if biased else None) for w, s, b in parts]
    expected = [product(x, *part) for part in parts]
    given = (a, skip if skips else None, scale, *(each for part in parts for each in part))
    of = {"K": 32, "block_size": 16}
    for opset in (24, 21):
        call = Call("MatMulNBitsQkv", given, (True, True, True, skips), {**of, "Nq": 6, "Nkv": 4, "epsilon": 1e-5})
        for want, got in zip([*expected, total], computed(call, opset), strict=False):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        call = Call("MatMulNBitsMlp", (*given[:3], *given[6:]), (True, skips), {**of, "N": 4, "activation": "silu"})
        gate, up = expected[1:]
        np.testing.assert_allclose(computed(call, opset)[0], gate / (1 + np.exp(-gate)) * up, rtol=1e-4, atol=1e-4)
    check_refused(
        [Call("MatMulNBitsMlp", call.inputs, (True,), {**of, "N": 4, "activation": "gelu"})], "activation='gelu'"
    )


def weights(rows, size, block, bits):
    """Bytes, scales, and what they stand for."""
    blocks = -(-size // block)
    held = RNG.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    scales = RNG.uniform(0.01, 0.1, (rows, blocks)).astype(FLOAT)
    numbers = np.stack([(held >> shift) & (2**bits - 1) for shift in range(0, 8, bits)], -1).reshape(
        rows, blocks, block
    )
    return held, scales, ((numbers - 2.0 ** (bits - 1)) * scales[..., None]).reshape(rows, -1)[:, :size]


@pytest.mark.parametrize("empty", [(0, 1, 32), (ROWS, 0, 32), (0, 0, 0)])
def test_weights_without_elements_make_zeros(empty):
    bias = RNG.normal(size=ROWS).astype(FLOAT)
    inputs = np.full((2, 3, 32), np.nan, FLOAT), np.zeros(empty, np.uint8), np.zeros(0, FLOAT)
    rows = {"K": 32, "N": ROWS, "block_size": 32}
    for opset in (21, 13):
        (with_bias,) = computed(Call("MatMulNBits", (*inputs, None, None, bias), (True,), rows), opset)
        (without,) = computed(Call("MatMulNBits", inputs, (True,), rows), opset)
        np.testing.assert_array_equal(with_bias, np.broadcast_to(bias, (2, 3, ROWS)))
        np.testing.assert_array_equal(without, np.zeros((2, 3, ROWS)))


@pytest.mark.parametrize(("size", "rank", "bits"), [(64, 16, 8), (40, 20, 4)])
def test_adapters_by_their_text(size, rank, bits):
    x = RNG.normal(size=(2, 3, size)).astype(FLOAT)
    base, scales, whole = weights(ROWS, size, 32, 4)
    down, of_down, first = weights(rank, size, 16, bits)
    up, of_up, second = weights(ROWS, rank, 16, bits)
    rows = {"K": size, "N": ROWS, "lora_bits": bits, "lora_block_size": 16}
    for a, b, want in (
        (down, up, x @ whole.T + x @ first.T @ second.T),
        (down, up[:, :0], x @ whole.T),
        (down[:0], up, x @ whole.T),
    ):
        call = Call("MatMulNBitsQLoRA", (x, base, scales, a, of_down, b, of_up), (True,), rows)
        for opset in (21, 13):
            np.testing.assert_allclose(computed(call, opset)[0], want, rtol=1e-4, atol=1e-5)
