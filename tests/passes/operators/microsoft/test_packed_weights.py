"""GatherPacked and MatMulPacked: each format, number by number, and by the kernel where there is one."""

from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto

from tests import pairs
from tests.passes.operators.microsoft.harness import (
    FLOAT,
    HALF,
    Call,
    calls,
    check_refused,
    check_where_it_runs,
    computed,
)

UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
SIZES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 6: (32, 22), 8: (32, 34), 13: (256, 176), 14: (256, 210), 20: (32, 18)}
SIZES |= {23: (256, 136), 30: (1, 2), 42: (64, 18)}


def half(held):
    return FLOAT(held.view(HALF)[0])


def unpacked(kind, held):
    """The numbers of a block, one after the other."""
    x, b = np.zeros(SIZES[kind][0], FLOAT), held.astype(int)
    if kind in (0, 1, 30):
        return held.view({0: FLOAT, 1: HALF, 30: bfloat16}[kind]).astype(FLOAT)
    for i in range(len(x)):
        low, scale = i % 32 % 16, half(held[:2]) if kind != 14 else half(held[208:])
        if kind in (2, 20):
            code = b[2 + low] >> 4 * (i // 16) & 15
            x[i] = scale * FLOAT(code - 8 if kind == 2 else UNEVEN[code])
        elif kind == 6:
            code = b[6 + low] >> 4 * (i // 16) & 15 | (b[2 + i // 8] >> i % 8 & 1) << 4
            x[i] = scale * FLOAT(code - 16)
        elif kind == 8:
            x[i] = scale * FLOAT(held.view(np.int8)[2 + i])
        elif kind == 42:
            x[i] = scale * FLOAT((b[2 + i // 4] >> 2 * (i % 4) & 3) - 1)
        elif kind == 23:
            part = i // 32
            six = b[4 + part // 2] >> 4 * (part % 2) & 15 | ((b[2] | b[3] << 8) >> 2 * part & 3) << 4
            x[i] = scale * FLOAT(six - 32) * FLOAT(UNEVEN[b[8 + 16 * part + low] >> 4 * (i % 32 // 16) & 15])
        elif kind == 13:
            part, at = i // 32, i % 32
            if part < 4:
                factor, offset = b[4 + part] & 63, b[8 + part] & 63
            else:
                factor = b[8 + part] & 15 | (b[part] >> 6) << 4
                offset = b[8 + part] >> 4 | (b[4 + part] >> 6) << 4
            code = (b[48 + 32 * (part // 2) + at] >> 4 * (part % 2) & 15) + 16 * (b[16 + at] >> part & 1)
            x[i] = scale * FLOAT(factor) * FLOAT(code) - half(held[2:4]) * FLOAT(offset)
        else:
            side, part, at = i // 128, i % 128 // 32, i % 32
            code = b[64 * side + 32 * (part % 2) + at] >> 4 * (part // 2) & 15
            code |= (b[128 + 32 * side + at] >> 2 * part & 3) << 4
            x[i] = scale * FLOAT(held.view(np.int8)[192 + i // 16]) * FLOAT(code - 32)
    return x


def rows(kind, count, size):
    numbers, held = SIZES[kind]
    made = np.random.default_rng(kind).integers(0, 256, (count, size // numbers * held)).astype(np.uint8)
    if kind > 1 and kind != 30:  # scales that a sum does not lose
        for at in range(208 if kind == 14 else 0, made.shape[1], held):
            made[:, at : at + 4 if kind == 13 else at + 2] = np.array([0x66, 0x2E] * (2 if kind == 13 else 1), np.uint8)
    return made, np.array([np.concatenate([unpacked(kind, block) for block in row.reshape(-1, held)]) for row in made])


@pytest.mark.parametrize("kind", pairs.some(list(SIZES), 3))
def test_formats(kind):
    held, numbers = rows(kind, 3, 256)
    index = np.array([[0, 2, -1], [3, 1, 7]])
    options = {"K": [256], "packed_type": [kind], "output_dtype": [TensorProto.FLOAT, TensorProto.FLOAT16, None]}
    found = calls("GatherPacked", {"data": held, "indices": [index, index.astype(np.int32)]}, options, types=[FLOAT])
    whole = [call for call in found if call.attributes.get("output_dtype") == TensorProto.FLOAT]
    check_where_it_runs(whole, 2)
    check_where_it_runs([c for c in found if c.attributes.get("output_dtype") == TensorProto.FLOAT16], 2, opsets=(21,))
    nothing = replace(whole[0], inputs=(held, np.zeros((2, 0), np.int64)))
    assert computed(nothing, 21)[0].shape == (2, 0, 256)
    for opset in (21, 13):
        (got,) = computed(whole[0], opset)
        np.testing.assert_array_equal(got, numbers[np.where((index < 0) | (index > 2), 0, index)])


@pytest.mark.parametrize("name", [None, "relu2", "relu_squared", "silu"])
def test_products_by_the_text(name):
    held, numbers = rows(8, 4, 64)
    x = np.random.default_rng(0).normal(size=(2, 3, 64)).astype(HALF)
    rest = {} if name is None else {"activation_type": name}
    call = Call("MatMulPacked", (x, held), (True,), {"K": 64, "N": 4, "packed_type": 8, **rest})
    y = x.astype(np.float64) @ numbers.T.astype(HALF).astype(np.float64)
    want = y if name is None else y / (1 + np.exp(-y)) if name == "silu" else np.maximum(y, 0) ** 2
    np.testing.assert_allclose(computed(call, 13)[0], want, rtol=5e-3, atol=5e-3)


def test_what_cannot_be_said_is_refused():
    call = Call("GatherPacked", (np.zeros((1, 66), np.uint8), np.array([0])), (True,), {"K": 256, "packed_type": 16})
    check_refused([call], "packed_type=16")
    x, held = np.ones((1, 64), HALF), np.zeros((1, 68), np.uint8)
    options = {"K": 64, "N": 1, "packed_type": 8}
    check_refused([Call("MatMulPacked", (x, held, FLOAT(2)), (True,), options)], "global_scale")
    check_refused([Call("MatMulPacked", (x, held), (True,), {**options, "activation_type": "zork"})], "'zork'")
