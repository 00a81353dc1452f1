"""How operators on integers are told from what is computed in floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.passes.fusion.quantization import products, requantized
from opshift.passes.fusion.quantization.calls import Kind
from opshift.passes.fusion.quantization.forms import DYNAMIC, MOVED, SCALED
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.traversal import Op

KINDS: dict[Op, Kind] = {
    ("", "QLinearConv"): Kind("Conv", requantized.standard_convolution),
    ("", "QLinearMatMul"): Kind("MatMul", requantized.product),
    (MICROSOFT, "QGemm"): Kind("Gemm", requantized.gemm, 7),
    (MICROSOFT, "QLinearAdd"): Kind("Add", requantized.all_of(2)),
    (MICROSOFT, "QLinearAveragePool"): Kind("AveragePool", requantized.pool, 3),
    (MICROSOFT, "QLinearConcat"): Kind("Concat", requantized.all_of(0), 0),
    (MICROSOFT, "QLinearConv"): Kind("Conv", requantized.convolution),
    (MICROSOFT, "QLinearGlobalAveragePool"): Kind("GlobalAveragePool", requantized.pool, 3),
    (MICROSOFT, "QLinearLeakyRelu"): Kind("LeakyRelu", requantized.all_of(1), 3),
    (MICROSOFT, "QLinearMul"): Kind("Mul", requantized.all_of(2)),
    (MICROSOFT, "QLinearSigmoid"): Kind("Sigmoid", requantized.all_of(1), 3),
    (MICROSOFT, "QLinearSoftmax"): Kind("Softmax", requantized.softmax, 3),
    (MICROSOFT, "QLinearWhere"): Kind("Where", requantized.chosen, 7),
}
"""Operators on integers whose result is quantized."""

FLOATS: dict[Op, Sequence[Kind]] = {
    (MICROSOFT, "QGemm"): (Kind("Gemm", requantized.gemm),),
    (MICROSOFT, "DynamicQuantizeMatMul"): products.with_or_without_bias(products.dynamic),
    (MICROSOFT, "MatMulIntegerToFloat"): products.with_or_without_bias(products.scaled),
    (MICROSOFT, "MatMulNBits"): (Kind("Add", products.in_blocks_with_bias), Kind("MatMul", products.in_blocks)),
    SCALED: (Kind("Mul", products.dequantized_product),),
    MOVED: (Kind("QuantizeLinear", products.moved),),
    DYNAMIC: (),  # of several results, see `ranges`
    ("", "MatMulInteger"): (Kind("MatMul", products.integers),),
    ("", "ConvInteger"): (Kind("Add", products.integer_convolution), Kind("Cast", products.integer_convolution)),
    (MICROSOFT, "MatMulInteger16"): (Kind("MatMul", products.sixteen_bits),),
    (MICROSOFT, "NhwcMaxPool"): (Kind("Transpose", products.pool_with_channels_last),),
}
"""Those whose result is not."""

INTEGERS: frozenset[Op] = frozenset(
    [("", "MatMulInteger"), ("", "ConvInteger"), (MICROSOFT, "MatMulInteger16"), (MICROSOFT, "NhwcMaxPool"), MOVED]
)
"""What is exact in integers, however it is spelled."""


def anchors(op: Op) -> Iterator[str]:
    """The operators one of which a body has to hold for this one to be found."""
    if op in KINDS or op == DYNAMIC:
        yield "QuantizeLinear"
    yield from (kind.of for kind in FLOATS.get(op, ()))
