"""Quantized operators that are taken apart are found again: the same calls, with the same numbers."""

from itertools import product

import numpy as np
import pytest
from opshift.passes.changes import GRANTED
from opshift.passes.fusion import fold
from opshift.passes.model.schemas import MICROSOFT

from tests.passes.operators.microsoft.harness import FLOAT, Call, feeds, inlined, model
from tests.passes.operators.microsoft.test_qlinear import KINDS, eight_bits, scale, triple
from tests.support import evaluate, show
from tests.support import model as plain_model

pytestmark = pytest.mark.newest
PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
RNG = np.random.default_rng(0)


def check(made, op, *, opset=21, apart=True):
    """Each of the calls comes back; the weights, scales and zero points are constants."""
    held = [index for index in range(20) if not _is_data(made[0], index)]
    source = model(made, held, opset=opset)
    for value in source.graph.output:
        value.ClearField("type")
    expected = evaluate(source, feeds(made))
    for value, want in zip(source.graph.output, expected, strict=True):
        value.type.tensor_type.elem_type = {"f": 1, "u": 2, "i": 3}[want.dtype.kind] if want.dtype != np.int32 else 6
    plain = inlined(source, opset) if apart else source
    result = fold.attempt(plain, ops=[(MICROSOFT, op)])
    assert [node.op_type for node in result.model.graph.node] == [op] * len(made), show(result.model)
    for want, got in zip(expected, evaluate(result.model, feeds(made)), strict=True):
        np.testing.assert_array_equal(got, want)
    return result


def _is_data(call, index):
    return (call.op == "QLinearWhere" and index == 0) or index == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_two_operands(op, kind):
    made = [
        Call(op, (*triple(kind, *a), *triple(kind, *b), np.array(0.7, FLOAT), eight_bits(kind)), (True,))
        for a, b in (((2, 3, 5), (3, 5)), ((2, 1), (1, 3)), ((), (4,)))
    ]
    assert check(made, op).grade == "close"


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_one_operand(kind):
    for op, attributes in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.25})):
        made = [Call(op, (*triple(kind, 2, 30), scale(), eight_bits(kind)), (True,), attributes)]
        assert check(made, op).grade == "exact"
    made = [Call("QLinearSoftmax", (*triple(kind, 2, 3, 4), np.array(1 / 256, FLOAT), eight_bits(kind)), (True,), {"axis": axis, "opset": opset})
            for axis, opset in ((1, 13), (-1, 13), (1, 12))]  # fmt: skip
    found = check(made, "QLinearSoftmax").model
    assert [[a.i for a in node.attribute if a.name == "opset"] for node in found.graph.node] == [[13], [13], [12]]


@pytest.mark.parametrize("kind", KINDS)
def test_concat_and_where(kind):
    one = (scale(), eight_bits(kind))
    check(
        [Call("QLinearConcat", (*one, *triple(kind, 2, 3), *triple(kind, 4, 3)), (True,), {"axis": 0})], "QLinearConcat"
    )
    made = [Call("QLinearWhere", (RNG.random((2, 3)) < 0.5, *triple(kind, 2, 3), *triple(kind, 3), *one), (True,))]
    assert check(made, "QLinearWhere").grade == "exact"


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_pools(kind, last):
    image = (2, 6, 7, 3) if last else (2, 3, 6, 7)
    given = (*triple(kind, *image), scale(), eight_bits(kind))
    channels = {"channels_last": 1} if last else {}
    rest = [
        {"strides": (2, 2), "ceil_mode": 1},
        {"pads": (1, 0, 1, 1), "count_include_pad": 1},
        {"auto_pad": "SAME_UPPER"},
    ]
    check(
        [Call("QLinearAveragePool", given, (True,), {"kernel_shape": (3, 2), **of, **channels}) for of in rest],
        "QLinearAveragePool",
    )
    check([Call("QLinearGlobalAveragePool", given, (True,), channels)], "QLinearGlobalAveragePool")
    if last:
        check([Call("NhwcMaxPool", given[:1], (True,), {"kernel_shape": (2, 2), "strides": (1, 2)})], "NhwcMaxPool")


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("columns", [(), (6,)])
@pytest.mark.parametrize(("x", "w"), PAIRS)
def test_convolutions(x, w, columns, last):
    made = []
    for of, bias in product(
        ({}, {"pads": (1, 0, 1, 2), "strides": (2, 1), "group": 2}),
        (None, RNG.integers(-9000, 9000, 6).astype(np.int32)),
    ):
        weights = (eight_bits(w, 6, 4 // of.get("group", 1), 3, 2), scale(*columns), np.full(columns, eight_bits(w), w))
        result = (np.array(0.2, FLOAT), eight_bits(x))
        made.append(
            Call(
                "QLinearConv",
                (*triple(x, *((2, 6, 7, 4) if last else (2, 4, 6, 7))), *weights, *result, bias),
                (True,),
                {**of, **({"channels_last": 1} if last else {})},
            )
        )
    check(made, "QLinearConv")


@pytest.mark.parametrize("columns", [(), (5,)])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_products(a, b, columns):
    bias = RNG.integers(-9000, 9000, 5).astype(np.int32)
    made = []
    for turned, c, alpha in ((0, None, None), (1, bias, None), (0, bias, 0.5)):
        weights = (eight_bits(b, *((5, 4) if turned else (4, 5))), scale(*columns), eight_bits(b, *columns))
        of = {"transB": turned, **({} if alpha is None else {"alpha": alpha})}
        made += [
            Call("QGemm", (*triple(a, 3, 4), *weights, c, *rest), (True,), of)
            for rest in ((scale(), eight_bits(a)), ())
        ]
    check(made, "QGemm")
    w, s, z = eight_bits(b, 4, 5), scale(*columns), eight_bits(b, *columns)
    x, of, zero = triple(a, 3, 4)
    floats = RNG.normal(size=5).astype(FLOAT)
    check(
        [Call("MatMulIntegerToFloat", (x, w, of, s, zero, z, added), (True,)) for added in (None, floats)],
        "MatMulIntegerToFloat",
    )
    given = RNG.normal(size=(3, 4)).astype(FLOAT)
    check(
        [Call("DynamicQuantizeMatMul", (given, w, s, z, added), (True,)) for added in (None, floats)],
        "DynamicQuantizeMatMul",
    )


def test_products_of_sixteen_bits():
    a, b = (RNG.integers(-9000, 9000, of).astype(np.int16) for of in ((3, 4), (4, 5)))
    assert check([Call("MatMulInteger16", (a, b), (True,))], "MatMulInteger16").grade == "exact"


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_kernel_makes_an_infinity_of_stays(kind):
    """It yields the lowest number there, or the zero point: of one element at 1 / 256, or two at 1 / 400."""
    for shape, least, found in (
        ("2,1", 1 / 256, False), ("2,2", 1 / 400, False), ("2,2", 1 / 256, True), ("2,3", 1 / 400, True), ("2,3", 1 / 511, False),
        ("2,N", 1 / 256, False), ("2,N", 1 / 148, True), ("N,2", 1 / 256, True),
        ("0,3", 1 / 100, False),
    ):  # fmt: skip
        name, dims = np.dtype(kind).name, shape.split(",")
        body = "a = DequantizeLinear(x, s, z) f = Softmax(a) y = QuantizeLinear(f, t, z)"
        held = f"float s = {{0.1}}, float t = {{{least}}}, {name} z = {{0}}"
        source = plain_model(body, 13, inputs=f"{name}[{shape}] x", outputs=f"{name}[{shape}] y", constants=held)
        result = fold.attempt(source, ops=[(MICROSOFT, "QLinearSoftmax")])
        assert bool(result.changes) == found == (not result.stays), (shape, least)
        for change in result.changes:
            rounded = "computes in integers and rounds once, which may differ by a step"
            assert change.remark == (f"{rounded}; {GRANTED}" if "N" in shape else rounded)
        assert all(
            "makes an infinity" in one.why or "infinities" in one.why or "is empty" in one.why for one in result.stays
        )
        sizes = [5 if dim == "N" else int(dim) for dim in dims]
        given = {"x": RNG.integers(0, 100, sizes).astype(kind)}
        want, got = (evaluate(of, given)[0].astype(int) for of in (source, result.model))
        assert np.abs(want - got).max(initial=0) <= 1
