"""How operators on integers are told from what is computed in floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.passes.fusion.quantization import products, requantized
from opshift.passes.fusion.quantization.calls import QuantizedKind
from opshift.passes.fusion.quantization.forms import DYNAMIC, MOVED, SCALED
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.traversal import Op

KINDS: dict[Op, QuantizedKind] = {
    ("", "QLinearConv"): QuantizedKind("Conv", requantized.standard_convolution),
    ("", "QLinearMatMul"): QuantizedKind("MatMul", requantized.product),
    (MICROSOFT, "QGemm"): QuantizedKind("Gemm", requantized.gemm, 7),
    (MICROSOFT, "QLinearAdd"): QuantizedKind("Add", requantized.all_of(2)),
    (MICROSOFT, "QLinearAveragePool"): QuantizedKind("AveragePool", requantized.pool, 3),
    (MICROSOFT, "QLinearConcat"): QuantizedKind("Concat", requantized.all_of(0), 0),
    (MICROSOFT, "QLinearConv"): QuantizedKind("Conv", requantized.convolution),
    (MICROSOFT, "QLinearGlobalAveragePool"): QuantizedKind("GlobalAveragePool", requantized.pool, 3),
    (MICROSOFT, "QLinearLeakyRelu"): QuantizedKind("LeakyRelu", requantized.all_of(1), 3),
    (MICROSOFT, "QLinearMul"): QuantizedKind("Mul", requantized.all_of(2)),
    (MICROSOFT, "QLinearSigmoid"): QuantizedKind("Sigmoid", requantized.all_of(1), 3),
    (MICROSOFT, "QLinearSoftmax"): QuantizedKind("Softmax", requantized.softmax, 3),
    (MICROSOFT, "QLinearWhere"): QuantizedKind("Where", requantized.choice_of_integers, 7),
}
"""Operators on integers whose result is quantized."""

FLOATS: dict[Op, Sequence[QuantizedKind]] = {
    (MICROSOFT, "QGemm"): (QuantizedKind("Gemm", requantized.gemm),),
    (MICROSOFT, "DynamicQuantizeMatMul"): products.with_or_without_bias(products.dynamic),
    (MICROSOFT, "MatMulIntegerToFloat"): products.with_or_without_bias(products.product_with_scales),
    (MICROSOFT, "MatMulNBits"): (
        QuantizedKind("Add", products.in_blocks_with_bias),
        QuantizedKind("MatMul", products.in_blocks),
    ),
    SCALED: (QuantizedKind("Mul", products.dequantized_product),),
    MOVED: (QuantizedKind("QuantizeLinear", products.move_of_integers),),
    DYNAMIC: (),  # of several results, see `ranges`
    ("", "MatMulInteger"): (QuantizedKind("MatMul", products.integers),),
    ("", "ConvInteger"): (
        QuantizedKind("Add", products.integer_convolution),
        QuantizedKind("Cast", products.integer_convolution),
    ),
    (MICROSOFT, "MatMulInteger16"): (QuantizedKind("MatMul", products.sixteen_bits),),
    (MICROSOFT, "NhwcMaxPool"): (QuantizedKind("Transpose", products.pool_with_channels_last),),
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
