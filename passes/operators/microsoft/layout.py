"""Operators of `com.microsoft` that move, pad or list values, most of which ONNX has with other inputs."""

from __future__ import annotations

from math import inf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced ExpandDims by Unsqueeze")
def unsqueeze(node: Node) -> str:
    held = node.scope.ints(node.input(1))
    if held is not None:
        return str(node.build.Unsqueeze(node.input(0), held[:1]))
    axis = node.build.Reshape(node.build.Cast(node.input(1), to=T.INT64), [1])
    return str(node.build.Unsqueeze(node.input(0), axis))


@says("Replaced com.microsoft::GatherND by ONNX's GatherND with int64 indices")
def gather(node: Node) -> str:
    build = node.build
    return str(build.GatherND(node.input(0), recast(build, node.input(1), node.elem_type(1), T.INT64)))


@says("Replaced com.microsoft::Pad by ONNX's Pad")
def padding(node: Node) -> str:
    build, value = node.build, node.input(2)
    pads = node.input(1) if len(node.scope.shape(node.input(1)) or ()) == 1 else build.Reshape(node.input(1), [-1])
    scalar = build.Reshape(value, build.constant([], T.INT64)) if value else None
    return str(build.Pad(node.input(0), pads, scalar, mode=node.attributes.get("mode")))


@says("Replaced com.microsoft::Range by ONNX's Range")
def range_of_scalars(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    bounds = [build.Reshape(node.input(index), build.constant([], T.INT64)) for index in range(2)]
    step = build.Reshape(node.input(2), build.constant([], T.INT64)) if node.input(2) else build.constant(1, elem_type)
    return str(build.Range(*bounds, step))


@says("Replaced com.microsoft::Trilu by ONNX's Trilu")
def triangle(node: Node) -> str:
    build, k = node.build, node.input(1)
    diagonal = build.Reshape(k, build.constant([], T.INT64)) if k else None
    return str(build.Trilu(node.input(0), diagonal, upper=node.attributes.get("upper")))


@says("Replaced com.microsoft::Unique by ONNX's Unique; each NaN stays a value of its own")
def distinct(node: Node) -> list[str]:
    build, x, nothing = node.build, node.input(0), node.build.constant(0.0, T.DOUBLE)
    number = build.Cast(x, to=T.DOUBLE)
    is_nan = build.IsNaN(number)
    place = build.Cast(flat_indices.count(build, build.Size(x)), to=T.DOUBLE)
    keys = (
        build.Where(is_nan, nothing, number),
        build.Where(is_nan, build.Add(place, build.constant(1.0, T.DOUBLE)), nothing),
    )
    rows = build.Concat(*(build.Unsqueeze(key, [1]) for key in keys), axis=1)
    _, first, inverse, counts = build.emit("Unique", [rows], {"axis": 0, "sorted": 0}, outputs=4)
    return [build.Gather(x, first), inverse, counts][: len(node.outputs)]


@says("Replaced com.microsoft::GridSample by ONNX's GridSample")
def grid_samples(node: Node) -> str:
    own = {name: node.attributes.get(name) for name in ("align_corners", "mode", "padding_mode")}
    return str(node.build.emit("GridSample", [node.input(0), node.input(1)], own))


@says("Replaced UnfoldTensor by Gather of the slices")
def unfold(node: Node) -> str:
    build, attributes, rank = node.build, node.attributes, node.rank()
    size, step, axis = attributes["size"], attributes.get("step", 1), attributes.get("dim", -1)
    if not -rank <= axis < rank or size < 1 or step < 1:
        raise CannotConvert(node, f"dim={axis}, size={size} or step={step} is out of range for data of rank {rank}")
    axis %= rank
    length = build.Shape(node.input(0), start=axis, end=axis + 1)
    count = build.Div(build.Sub(length, [size]), [step])
    starts = build.Range(0, build.Add(build.Mul(build.Squeeze(count, [0]), step), 1), step)
    indices = build.Add(build.Unsqueeze(starts, [1]), build.constant([list(range(size))], T.INT64))
    slices = build.Gather(node.input(0), indices, axis=axis)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return str(build.Transpose(slices, perm=order))


@says("Set scores of tokens that would repeat an n-gram to -inf")
def without_repetition(node: Node) -> str:
    build, size, ids = node.build, node.attributes["ngram_size"], node.input(0)
    if size < 1:
        raise CannotConvert(node, f"ngram_size={size}", supported="1 or more")
    scores, ends = node.input(1), [1 << 62]
    last = build.Slice(ids, [size - 1], ends, [1])
    repeats = build.Equal(last, last)
    for offset in range(size - 1):
        context = build.Slice(ids, [offset - size + 1], [offset - size + 2] if offset < size - 2 else ends, [1])
        window = build.Slice(ids, [offset], [offset - size + 1], [1])
        repeats = build.And(repeats, build.Equal(window, context))
    nowhere = build.Expand(build.constant(0.0, T.FLOAT), build.Shape(scores))
    found = build.ScatterElements(nowhere, last, build.Cast(repeats, to=T.FLOAT), axis=1, reduction="max")
    return str(build.Where(build.Cast(found, to=T.BOOL), build.constant(-inf, T.FLOAT), scores))


@says("Replaced IsAllFinite by IsNaN, IsInf and ReduceMax over all inputs")
def all_finite(node: Node) -> str:
    build, attributes = node.build, node.attributes
    nans, infinities = (not attributes.get(name, 0) for name in ("isinf_only", "isnan_only"))
    if not nans and not infinities:
        raise CannotConvert(node, "isinf_only=1 and isnan_only=1", supported="at most one of them")
    bad = []
    for name in node.inputs:
        elem_type = node.scope.elem_type(name)
        wide = recast(build, name, elem_type, T.FLOAT) if elem_type in (T.FLOAT16, T.BFLOAT16) else name
        found = [build.IsNaN(wide)] * nans + [build.IsInf(wide)] * infinities
        both = found[0] if len(found) == 1 else build.Or(*found)
        flat = build.Reshape(build.Cast(both, to=T.INT32), [-1])
        bad.append(build.ReduceMax(build.Concat(build.constant([0], T.INT32), flat, axis=0), keepdims=0))
    worst = bad[0] if len(bad) == 1 else build.Max(*bad)
    return str(build.Not(build.Cast(worst, to=T.BOOL)))


defined("ExpandDims", unsqueeze, opset=13, domain=MICROSOFT)
defined("GatherND", gather, opset=13, domain=MICROSOFT)
defined("GridSample", grid_samples, opset=16, domain=MICROSOFT)
defined("IsAllFinite", all_finite, opset=18, domain=MICROSOFT)
defined("NGramRepeatBlock", without_repetition, opset=18, domain=MICROSOFT)
defined("Pad", padding, opset=18, domain=MICROSOFT)
defined("Range", range_of_scalars, opset=11, domain=MICROSOFT)
defined("Trilu", triangle, opset=14, domain=MICROSOFT)
defined("UnfoldTensor", unfold, opset=15, domain=MICROSOFT)
defined("Unique", distinct, opset=13, domain=MICROSOFT)
refused(
    "Tokenizer",
    "its separators are regular expressions, which no ONNX operator splits by",
    domain=MICROSOFT,
)
refused(
    "MurmurHash3",
    "MurmurHash3 multiplies modulo 2**32, which ONNX does not define for Mul",
    domain=MICROSOFT,
)
