"""STFT, which opset 17 brought."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.fourier import as_scalar, given_length, parts_of, size_of, transform
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced STFT by gathered frames, multiplied by the window and by DFT matrices")
def transformed_frame_by_frame(node: Node) -> str:
    rank = node.rank()
    if rank not in (2, 3):
        raise CannotConvert(
            node, f"STFT gets a signal of rank {rank}", supported="rank 2 (batch, time) or 3 (batch, time, 1 or 2)"
        )
    if node.input(2) and node.scope.rank(node.input(2)) not in (None, 1):
        raise CannotConvert(node, f"STFT gets a window of rank {node.scope.rank(node.input(2))}", supported="a vector")
    build, signal = node.build, node.input(0)
    parts = parts_of(node) if rank == 3 else 1
    if rank == 2:  # as inference and onnxruntime take real signals, beside what the text says
        signal = build.Unsqueeze(signal, [2])
    length = given_length(node, 3)
    if length is None and node.input(2):
        dims = node.scope.shape(node.input(2))
        length = dims[0] if dims and isinstance(dims[0], int) else as_scalar(node, build.Shape(node.input(2)))
    total = size_of(node, node.input(0), 1)
    if length is None:
        length = total
    step = as_scalar(node, build.Cast(node.input(1), to=T.INT64))
    behind = build.Sub(as_scalar(node, total), as_scalar(node, length))
    starts = build.Unsqueeze(build.Range(0, build.Add(behind, 1), step), [1])
    places = build.Add(starts, build.Range(0, as_scalar(node, length), 1))
    frames = build.Gather(signal, places, axis=1)
    if node.input(2):
        frames = build.Mul(frames, build.Unsqueeze(node.input(2), [1]))
    onesided = bool(node.attributes.get("onesided", 1))
    return transform(node, frames, 4, 2, length, parts, inverse=False, onesided=onesided)


changed("STFT", 17, Pair(down=transformed_frame_by_frame))
