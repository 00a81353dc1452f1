"""DynamicQuantizeLSTM: an LSTM whose state is quantized before each of its products with quantized weights."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recurrence import LENGTHS, R, X, scan_over_time
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

_UNDIVIDED, _NARROW = 4, 256
"""Of so many sequences, a state that is wider is quantized as a whole, whatever the number of threads."""


@says("Replaced DynamicQuantizeLSTM by a Scan over an LSTM step with DynamicQuantizeLinear and MatMulInteger")
def quantize_in_each_step(node: Node) -> list[str]:
    batch = (node.scope.shape(node.input(X)) or [None] * 3)[1]
    size = node.attributes.get("hidden_size", (node.scope.shape(node.input(R)) or [None] * 3)[1])
    together = isinstance(batch, int) and batch <= _UNDIVIDED and isinstance(size, int) and size > _NARROW
    if batch != 1 and (not together or node.input(LENGTHS)):
        several = batch if isinstance(batch, int) else "any number of"
        raise CannotConvert(
            node,
            f"there are {several} sequences in the batch, and onnxruntime's result then depends on the "
            "number of threads (by 0.004 where the largest element is 0.85)",
            supported="one sequence",
            fix="--fix-shape",
        )
    return scan_over_time(node)


defined("DynamicQuantizeLSTM", quantize_in_each_step, opset=13, domain=MICROSOFT)
