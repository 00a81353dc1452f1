"""RotaryEmbedding, and its kin of which positions have three coordinates or angles are computed beside it."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
SECTIONED, INTERLEAVED = 0, 1  # layouts of MRotaryEmbedding


@says("Replaced com.microsoft::RotaryEmbedding by ONNX's RotaryEmbedding")
def rotate(node: Node) -> str:
    build, positions = node.build, node.input(1)
    if node.rank(1) == 1:
        length = share_along(node, node.input(0), 1 if node.rank() == 3 else 2, 1)
        batch = build.Concat(build.Shape(node.input(0), end=1), [1], axis=0)
        positions = build.Expand(build.Add(positions, flat_indices.count(build, length)), batch)
    return _turn(node, [node.input(2), node.input(3), positions])


@says("Replaced MRotaryEmbedding by RotaryEmbedding with angles gathered by three positions")
def rotate_by_three_positions(node: Node) -> str:
    build, sections, layout = node.build, node.attributes["mrope_section"], node.attributes.get("mrope_layout", 0)
    if len(sections) != 3 or layout not in (SECTIONED, INTERLEAVED):
        raise CannotConvert(
            node, f"mrope_section={sections}, mrope_layout={layout}", supported="three sections, layout 0 or 1"
        )
    turns = _coordinates(sections, layout)
    chosen = [build.constant([turn == axis for turn in turns], T.BOOL) for axis in (1, 2)]
    caches = []
    for index in (2, 3):
        time, height, width = (
            build.Gather(node.input(index), build.Gather(node.input(1), axis, axis=0), axis=0) for axis in range(3)
        )
        caches.append(build.Where(chosen[1], width, build.Where(chosen[0], height, time)))
    return _turn(node, caches)


def _coordinates(sections: list[int], layout: int) -> list[int]:
    """Which of time, height and width turns each angle."""
    if layout == SECTIONED:
        return [axis for axis, size in enumerate(sections) for _ in range(size)]
    turns = [0] * sum(sections)
    for axis in (1, 2):
        turns[axis : 3 * sections[axis] : 3] = [axis] * len(turns[axis : 3 * sections[axis] : 3])
    return turns


def _turn(node: Node, angles: list[str]) -> str:
    if node.attributes.get("is_packed_batching", 0):
        raise CannotConvert(node, "is_packed_batching=1 packs sequences of several lengths into one", supported="0")
    if (scale := node.attributes.get("scale", 1.0)) != 1.0:
        raise CannotConvert(node, f"onnxruntime ignores scale={scale:g}", supported="1")
    node.close("sums and rounds in another order")
    build, x, size = node.build, node.input(0), node.attributes.get("rotary_embedding_dim", 0)
    interleaved = 1 if node.attributes.get("interleaved", 0) == 1 else None
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": size or None}
    if node.rank() == 4:
        return str(build.emit("RotaryEmbedding", [x, *angles], attributes))
    if node.rank() != 3:
        raise CannotConvert(node, f"RotaryEmbedding gets data of rank {node.rank()}", supported="rank 3 or 4")
    hidden, width = ((node.scope.shape(node.input(i)) or [None])[-1] for i in (0, 2))
    heads = node.attributes.get("num_heads", 0) if size else 0
    if not heads and isinstance(hidden, int) and isinstance(width, int) and width:
        heads = hidden // (2 * width)
    if heads:
        return str(build.emit("RotaryEmbedding", [x, *angles], {**attributes, "num_heads": heads}))
    each = build.Mul(build.Shape(node.input(2), start=-1), 2)  # the caches turn all of a head
    apart = regroup(node, x, 2, [None, each])
    y = build.emit("RotaryEmbedding", [build.Transpose(apart, perm=[0, 2, 1, 3]), *angles], attributes)
    return regroup(node, build.Transpose(y, perm=[0, 2, 1, 3]), 2, [None])


@says("Replaced com.microsoft::RMSNormRotary by RMSNormalization in float32, then RotaryEmbedding")
def normalized_and_rotated(node: Node) -> list[str]:
    shape = node.scope.shape(node.input(0)) or [None] * 4
    heads, stride = shape[2:]
    if not (isinstance(heads, int) and isinstance(stride, int)):
        raise CannotConvert(node, "the number of heads or their size is unknown")
    node.close("the kernel rounds more often where it computes in bfloat16")
    build, given, elem_type = node.build, node.attributes, node.elem_type()
    x, start, width = (
        recast(build, node.input(0), elem_type, T.FLOAT),
        given.get("input_start", 0),
        given.get("input_width", 0),
    )
    if start or width not in (0, stride):
        x, stride = build.Slice(x, [start], [start + (width or stride)], [3]), width or stride - start
    of_result = T.FLOAT16 if given.get("output_fp16", 0) else T.BFLOAT16
    normal = build.RMSNormalization(x, node.input(1), epsilon=given.get("epsilon", 1e-6))
    if T.FLOAT16 not in (elem_type, of_result) and node.elem_type(3) != T.FLOAT:
        normal = build.Cast(build.Cast(normal, to=T.BFLOAT16), to=T.FLOAT)
    line = (
        build.Reshape(normal, [1, -1, heads * stride])
        if given.get("flatten_batch", 0)
        else regroup(node, normal, 2, [None])
    )
    length, one = share_along(node, line, 1, 1), build.Equal(build.Size(node.input(2)), 1)
    counted = build.Mul(flat_indices.count(build, length), build.Cast(one, to=T.INT64))
    first = (
        build.Reshape(node.input(2), [1, -1]) if given.get("flatten_batch", 0) or node.rank(2) != 2 else node.input(2)
    )
    positions = build.Expand(build.Add(first, counted), build.Shape(line, end=2))
    caches = [recast(build, node.input(index), node.elem_type(index), T.FLOAT) for index in (3, 4)]
    turned = {"num_heads": heads, "rotary_embedding_dim": given["rotary_embedding_dim"]}
    y = build.Cast(build.emit("RotaryEmbedding", [line, *caches, positions], turned), to=of_result)
    return [y, normal][: len(node.outputs)]


@says("Replaced GemmaRotaryEmbedding by q * cos(emb) + q_rot * sin(emb), and the same for k")
def rotate_by_computed_angles(node: Node) -> list[str]:
    build, elem_type, angle = node.build, node.elem_type(1), node.elem_type(0)
    sine, cosine = (
        build.Unsqueeze(recast(build, wave, angle, elem_type), [1])
        for wave in (build.Sin(node.input(0)), build.Cos(node.input(0)))
    )
    pairs = (node.inputs[1:3], node.inputs[3:5])
    return [str(build.Add(build.Mul(x, cosine), build.Mul(turned, sine))) for x, turned in pairs]


defined("RotaryEmbedding", rotate, opset=23, domain=MICROSOFT)
defined("MRotaryEmbedding", rotate_by_three_positions, opset=23, domain=MICROSOFT)
defined("GemmaRotaryEmbedding", rotate_by_computed_angles, opset=13, domain=MICROSOFT)
defined("RMSNormRotary", normalized_and_rotated, opset=23, domain=MICROSOFT)
