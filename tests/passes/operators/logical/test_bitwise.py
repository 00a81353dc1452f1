"""Operators on bits in arithmetic: all types, both signs, the highest bit, and shifts by all bits."""

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from opshift.verification import engines
from tests.passes.operators.elements import CODE
from tests.support import check, check_computes, check_unchanged, converted, evaluate, model

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


@pytest.mark.parametrize("target", [17, 12, 10, 8, 7])
@pytest.mark.parametrize("kind", ["int32", "uint8", "uint64"])
@pytest.mark.parametrize(("a", "b"), [((13,), (13,)), ((2, 3), (3,)), ((), (2,)), ((), ()), ((0, 3), (3,)), ((0,), ())])
def test_operands_of_unknown_rank(a, b, kind, target):
    """Reductions over the last axis of nothing keep it in onnxruntime; this is none."""
    body = """u = Reshape<allowzero = 1>(a, p) v = Reshape<allowzero = 1>(b, q) z = BitwiseXor(u, v)
        s = Shape(z) m = Constant<value = int64[1] {-1}>() y = Reshape(z, m)"""
    io = {"inputs": f"{kind}[A] a, int64[P] p, {kind}[B] b, int64[Q] q", "outputs": f"{kind}[N] y, int64[R] s"}
    result = converted(model(body, 18, **io), target)
    assert not result.refusals
    assert result.grade == "exact"
    onnx.checker.check_model(result.model, full_check=True)
    x, z = (np.resize(samples(kind)[::step], shape) for step, shape in ((1, a), (-1, b)))
    feeds = {"a": x.ravel(), "p": np.int64(a), "b": z.ravel(), "q": np.int64(b)}
    y, shape = engines.OnnxRuntime(result.model).run(feeds)
    np.testing.assert_array_equal(y, (x ^ z).ravel(), strict=True)
    assert tuple(shape) == (x ^ z).shape


SHIFTED = {"inputs": "{0}[6] x, {0}[6] n", "outputs": "{0}[6] y"}


def shift(direction, kind, counts=None):
    io = {key: text.format(kind) for key, text in SHIFTED.items()}
    if counts is not None:
        io = {**io, "inputs": f"{kind}[6] x", "constants": f"{kind}[6] n = {{{', '.join(map(str, counts))}}}"}
    return f'y = BitShift<direction="{direction}">(x, n)', io


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_short_constant_shifts_of_unsigned_integers_stay(direction, kind):
    body, io = shift(direction, kind, [0, 1, 2, 3, 4, 7])
    check_unchanged(body, 28, 11, **io)
    check_unchanged(body, 11, 28, **io)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("bits", [32, 64])
def test_long_shifts_of_unsigned_integers_leave_nothing_below_28(direction, bits):
    body, io = shift(direction, f"uint{bits}")
    code = CODE[f"uint{bits}"]
    after = f"""t1 = BitShift<direction={direction}>(x, n)
        t2 = Less(n, uint{bits}:{bits})
        t3 = Cast<to={code}>(t2)
        y = Mul(t1, t3)"""
    counts = np.array([0, 1, bits - 1, bits, bits + 1, 200], f"uint{bits}")
    check(body, 28, after, 27, feeds={"x": np.full(6, 2**bits - 3, f"uint{bits}"), "n": counts}, **io)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("x", [5, -7, -128, 127, -1, 0])
def test_shifts_are_those_of_python_below_28(direction, kind, x):
    info = np.iinfo(kind)
    values = np.full(6, x).astype(kind)
    counts = np.array([0, 1, info.bits - 1, info.bits, info.bits + 3, 100], kind)
    body, io = shift(direction, kind)
    result = convert.attempt(model(body, 28, **io), {"": 26})
    (actual,) = evaluate(result.model, {"x": values, "n": counts})
    exact = [int(v) << int(n) if direction == "LEFT" else int(v) >> int(n) for v, n in zip(values, counts, strict=True)]
    np.testing.assert_array_equal(actual, [(e - info.min) % 2**info.bits + info.min for e in exact])
    assert result.grade == "exact"


def test_negative_shifts_leave_the_sign_below_28():
    for direction, expected in (("LEFT", [0, 0]), ("RIGHT", [-1, 0])):
        body = f'y = BitShift<direction="{direction}">(x, n)'
        result = convert.attempt(model(body, 28, inputs="int32[2] x, int32[1] n", outputs="int32[2] y"), {"": 26})
        feeds = {"x": np.array([-9, 9], np.int32), "n": np.array([-1], np.int32)}
        np.testing.assert_array_equal(evaluate(result.model, feeds)[0], expected)
        held = model(body, 28, inputs="int32[2] x", outputs="int32[2] y", constants="int32[1] n = {-1}")
        result = convert.attempt(held, {"": 26})
        assert "Less" in [n.op_type for n in result.model.graph.node], "a runtime may mask the count"
        np.testing.assert_array_equal(evaluate(result.model, feeds)[0], expected)


def test_constant_short_shifts_of_signed_integers_need_no_mask_below_28():
    body, io = shift("LEFT", "int32", [0, 1, 2, 3, 4, 31])
    made = convert.attempt(model(body, 28, **io), {"": 27}).model
    assert [n.op_type for n in made.graph.node] == ["Cast", "Cast", "BitShift", "Cast"]
