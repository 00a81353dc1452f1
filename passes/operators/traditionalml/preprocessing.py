"""Operators of ai.onnx.ml that prepare features: each is a formula of the default domain."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.numbers import wide_of
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
ML = "ai.onnx.ml"
OPSET, STRINGS = 18, 19  # strings are equal from opset 19 on


@says("Replaced Normalizer by a division by the norm of each row")
def normalization(node: Node) -> str:
    build, elem_type, norm = node.build, wide_of(node), node.attributes.get("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise fault(f"norm is {norm!r}; it is one of MAX, L1, L2", node.proto)
    if node.scope.rank(node.input(0)) not in (None, 1, 2):
        raise CannotConvert(node, "Normalizer gets data of rank 3 or more", supported="a matrix of rows, or one row")
    node.close("sums in another order")
    x = recast(build, node.input(0), node.elem_type(), elem_type)
    if norm == "MAX":
        known = (
            x if elem_type != node.elem_type() else build.Where(build.IsNaN(x), build.constant(-np.inf, elem_type), x)
        )
        size = build.ReduceMax(known, [-1], keepdims=1)
    elif norm == "L1":
        size = build.ReduceSum(build.Abs(x), [-1], keepdims=1)
    else:
        size = build.Sqrt(build.ReduceSum(build.Mul(x, x), [-1], keepdims=1))
    nothing = build.Equal(size, build.constant(0.0, elem_type))
    divisor = build.Where(nothing, build.constant(1.0, elem_type), size)
    return recast(build, build.Div(x, divisor), elem_type, T.FLOAT)


@says("Replaced Scaler by (X - offset) * scale")
def scaling(node: Node) -> str:
    build, elem_type = node.build, wide_of(node)
    offset, scale = node.attributes.get("offset", []), node.attributes.get("scale", [])
    if len(offset) != len(scale) or not scale:
        raise fault(f"offset has {len(offset)} entries, scale {len(scale)}", node.proto)
    x = build.Sub(recast(build, node.input(0), node.elem_type(), elem_type), build.constant(_single(offset), elem_type))
    return recast(build, build.Mul(x, build.constant(_single(scale), elem_type)), elem_type, T.FLOAT)


@says("Replaced Imputer by Where")
def impute(node: Node) -> str:
    build, elem_type, x = node.build, node.elem_type(), node.input(0)
    whole = elem_type in (T.INT64, T.INT32)
    values = node.attributes.get("imputed_value_int64s" if whole else "imputed_value_floats", [])
    missing = node.attributes.get("replaced_value_int64" if whole else "replaced_value_float", 0 if whole else 0.0)
    width = node.scope.size(x, -1) if node.scope.rank(x) else None
    if not values or (width is not None and len(values) not in (1, width)):
        raise fault(f"{len(values)} imputed values for {width} features", node.proto)
    found = build.IsNaN(x) if missing != missing else build.Equal(x, build.constant(missing, elem_type))
    return str(build.Where(found, build.constant(values[0] if len(values) == 1 else values, elem_type), x))


@says("Replaced Binarizer by Greater and Cast")
def binarize(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    threshold = node.attributes.get("threshold", 0.0)
    wide = elem_type if elem_type in (T.FLOAT, T.DOUBLE) else T.DOUBLE
    x = recast(build, node.input(0), elem_type, wide)
    return str(build.Cast(build.Greater(x, build.constant(threshold, wide)), to=elem_type))


@says("Replaced OneHotEncoder by comparing with all categories (Equal)")
def compare_with_categories(node: Node) -> str:
    build, elem_type, x = node.build, node.elem_type(), node.input(0)
    strings, numbers = node.attributes.get("cats_strings", []), node.attributes.get("cats_int64s", [])
    categories, held = (strings, T.STRING) if elem_type == T.STRING else (numbers, T.INT64)
    if not categories or (strings and numbers):
        raise fault(f"{len(numbers)} cats_int64s and {len(strings)} cats_strings", node.proto)
    if not node.attributes.get("zeros", 1):
        node.remarks.append("an element of an unknown category becomes zeros; onnxruntime fails there")
    if elem_type != T.STRING:
        x = recast(build, x, elem_type, T.INT64)
    is_one = build.Cast(build.Equal(build.Unsqueeze(x, [-1]), build.constant(categories, held)), to=T.FLOAT)
    last = [category not in categories[at + 1 :] for at, category in enumerate(categories)]
    return str(is_one if all(last) else build.Mul(is_one, build.constant(last, T.FLOAT)))


@says("Replaced ArrayFeatureExtractor by Gather")
def extract(node: Node) -> str:
    build, x = node.build, node.input(0)
    if node.rank() == 1:
        x = build.Reshape(x, [1, -1])
    return str(build.Gather(x, build.Reshape(node.input(1), [-1]), axis=-1))


@says("Replaced FeatureVectorizer by Slice, Pad and Concat")
def concatenation(node: Node) -> str:
    build, sizes = node.build, node.attributes.get("inputdimensions", [])
    if len(sizes) != len(node.inputs):
        raise fault(f"inputdimensions has {len(sizes)} entries for {len(node.inputs)} inputs", node.proto)
    parts = []
    for index, size in enumerate(sizes):
        x = recast(build, node.input(index), node.elem_type(index), T.FLOAT)
        rank, held = node.rank(index), node.scope.size(node.input(index), -1)
        if rank == 1:
            x = build.Reshape(x, [1, -1])
        elif rank > 2:
            x, held = build.Flatten(x, axis=1), None
        parts.append(x if held == size else _resize(node, x, held, size))
    return str(build.Concat(*parts, axis=1)) if len(parts) > 1 else parts[0]


def _resize(node: Node, x: str, held: int | None, size: int) -> str:
    build = node.build
    if held is None or held < size:
        x = build.Pad(x, [0, 0, 0, size if held is None else size - held])
    return str(x if held is not None and held < size else build.Slice(x, [0], [size], [1]))


def _single(values: list[float]) -> object:
    return np.asarray(values[0] if len(values) == 1 else values, np.float32)


defined("Normalizer", normalization, opset=OPSET, domain=ML)
defined("Scaler", scaling, opset=OPSET, domain=ML)
defined("Imputer", impute, opset=OPSET, domain=ML)
defined("Binarizer", binarize, opset=OPSET, domain=ML)
defined("OneHotEncoder", compare_with_categories, opset=STRINGS, domain=ML)
defined("ArrayFeatureExtractor", extract, opset=OPSET, domain=ML)
defined("FeatureVectorizer", concatenation, opset=OPSET, domain=ML)
