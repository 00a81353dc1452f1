"""Operators on bits in arithmetic: all types, both signs, the highest bit."""

import numpy as np
import pytest

from tests.support import check, check_computes

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPY = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


def samples(kind):
    ends = np.iinfo(kind)
    values = np.random.default_rng(0).integers(ends.min, ends.max, 9, dtype=kind, endpoint=True)
    return np.concatenate([values, np.array([0, 1, ends.max, ends.min], kind)])


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("op", NUMPY)
def test_two_operands(op, kind):
    a, b = samples(kind)[:, None], samples(kind)[::-1]
    check_computes(
        f"y = {op}(a, b)", 18, 17, NUMPY[op](a, b), feeds={"a": a, "b": b},
        inputs=f"{kind}[13,1] a, {kind}[13] b", outputs=f"{kind}[13,13] y",
    )  # fmt: skip


def test_scalars():
    check_computes(
        "y = BitwiseXor(a, b)", 18, 11, np.array(0b0110, np.int32), feeds={"a": np.array(0b0011, np.int32), "b": np.array(0b0101, np.int32)},
        inputs="int32 a, int32 b", outputs="int32 y",
    )  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
def test_inversion(kind):
    ones = np.iinfo(kind).max if kind[0] == "u" else -1
    prefix = "" if kind == "int64" else f"{kind}:"
    check(
        "y = BitwiseNot(x)", 18, f"y = Sub({prefix}{ones}, x)", 17, inputs=f"{kind}[13] x", outputs=f"{kind}[13] y",
        feeds={"x": samples(kind)},
    )  # fmt: skip


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", INTEGERS[4:])
def test_shifts(kind, direction):
    x, y = samples(kind)[:, None], np.arange(np.iinfo(kind).bits).astype(kind)
    shifted = (np.left_shift if direction == "LEFT" else np.right_shift)(x, y)
    check_computes(
        f'z = BitShift<direction="{direction}">(x, y)', 11, 10, shifted, feeds={"x": x, "y": y},
        inputs=f"{kind}[13,1] x, {kind}[{len(y)}] y", outputs=f"{kind}[13,{len(y)}] z",
    )  # fmt: skip


def test_shifts_of_all_bits_which_opset_28_defines():
    x, y = np.array([255, 255, 1], np.uint8), np.array([8, 200, 7], np.uint8)
    check_computes(
        'z = BitShift<direction="LEFT">(x, y)', 28, 10, np.array([0, 0, 128], np.uint8), feeds={"x": x, "y": y},
        inputs="uint8[3] x, uint8[3] y", outputs="uint8[3] z",
    )  # fmt: skip


@pytest.mark.parametrize("dims", ["0,4", "N,M"])
@pytest.mark.parametrize("op", NUMPY)
def test_no_bits_of_nothing(op, dims):
    a = np.zeros((0, 4), np.int32)
    check_computes(
        f"y = {op}(a, b)", 18, 17, a, feeds={"a": a, "b": a[:, :1]}, inputs=f"int32[{dims}] a, int32[{dims[0]},1] b",
        outputs="int32[P,Q] y",
    )  # fmt: skip
