"""Layers that normalize, and attention."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.reduction import check_axes

T = TensorProto


@layer("MVN")
def mean_variance(of: Layer) -> Made:
    """(x - mean) / sqrt(variance + eps), or / (sqrt(variance) + eps)"""
    b, x = of.build, of.input(0)
    axes: list[int] | str
    if of.version >= 6:
        check_axes(of)
        axes = of.vector(1) if of.constant(1) is None else of.axes(1, of.rank())
        inside = of.choice("eps_mode", ("inside_sqrt", "outside_sqrt")) == "inside_sqrt"
    else:
        every = list(range(1 if of.flag("across_channels", False) else 2, of.rank()))
        axes = of.ints("reduction_axes", every) or every
        inside = True
    if not axes:
        raise Unmapped("no axes are given", supported="at least one")
    alone = 1 if isinstance(axes, str) else None  # without axes, each element is its own mean
    centered = b.Sub(x, b.ReduceMean(x, axes, keepdims=1, noop_with_empty_axes=alone))
    if not of.flag("normalize_variance", True):
        return str(centered)
    variance = b.ReduceMean(b.Mul(centered, centered), axes, keepdims=1, noop_with_empty_axes=alone)
    eps = of.like(of.number("eps"))
    size = b.Sqrt(b.Add(variance, eps)) if inside else b.Add(b.Sqrt(variance), eps)
    return str(b.Div(centered, size))


@layer("BatchNormInference")
def batch_norm(of: Layer) -> Made:
    """Before version 5 the data are the third input."""
    places = (0, 1, 2, 3, 4) if of.version >= 5 else (2, 0, 1, 3, 4)
    eps = of.number("epsilon" if "epsilon" in of.entry.attributes else "eps")
    return str(of.build.BatchNormalization(*(of.input(place) for place in places), epsilon=eps))


@layer("GroupNormalization")
def group_norm(of: Layer) -> Made:
    groups, eps = of.integer("num_groups"), of.number("epsilon")
    if 0 in (of.dims() or ()):  # which runtimes do not take
        return of.input(0)
    return str(of.build.GroupNormalization(*of.inputs, num_groups=groups, epsilon=eps))


@layer("GRN")
def global_response(of: Layer) -> Made:
    """x / sqrt(sum of the squares of all channels + bias)"""
    b, x = of.build, of.input(0)
    total = b.ReduceSum(b.Mul(x, x), [1], keepdims=1)
    return str(b.Div(x, b.Sqrt(b.Add(total, of.like(of.number("bias"))))))


@layer("RMS")
def root_mean_square(of: Layer) -> Made:
    """x / sqrt(mean of the squares in the last axis + epsilon) * scale"""
    b, x = of.build, of.input(0)
    mean = b.ReduceMean(b.Mul(x, x), [-1], keepdims=1)
    made = b.Div(x, b.Sqrt(b.Add(mean, of.like(of.number("epsilon")))))
    made = b.Mul(made, of.input(1)) if of.flag("elementwise_affine", True) else made
    named = of.text("output_type", "undefined")
    return str(made if named in ("undefined", "dynamic") else of.cast(made, of.element_type("output_type")))


@layer("LRN")
def local_response(of: Layer) -> Made:
    """Of channels, which ONNX has for images alone, or of places."""
    rank, size, b = of.rank(), of.integer("size"), of.build
    axes = of.axes(1, rank)
    if axes != [1] and min(axes, default=0) < 2:
        raise Unmapped(f"axes {of.require_constant(1)} for data of rank {rank}", supported="axis 1, or axes behind it")
    if size % 2 == 0:
        raise Unmapped(f"size={size} is even", supported="an odd size")
    names = {name: of.number(name) for name in ("alpha", "beta", "bias")}
    if axes != [1]:
        return _response_of_places(of, axes, size, **names)
    if rank == 4:
        return str(b.LRN(of.input(0), size=size, **names))
    if rank < 4:
        more = list(range(rank, 4))
        return str(b.Squeeze(b.LRN(b.Unsqueeze(of.input(0), more), size=size, **names), more))
    places = b.ReduceProd(b.Shape(of.input(0), start=2), keepdims=1)
    image = b.Reshape(of.input(0), b.Concat(b.Shape(of.input(0), end=2), places, [1], axis=0), allowzero=1)
    return str(b.Reshape(b.LRN(image, size=size, **names), b.Shape(of.input(0)), allowzero=1))


def _response_of_places(of: Layer, axes: list[int], size: int, alpha: float, beta: float, bias: float) -> str:
    """x / (bias + alpha * mean of the squares in a window) ** beta; what lies outside of the data counts as 0."""
    b, x = of.build, of.input(0)
    if 0 in (of.dims() or ()):  # which runtimes do not take
        return x
    window = [size if axis in axes else 1 for axis in range(2, of.rank())]
    mean = b.AveragePool(b.Mul(x, x), kernel_shape=window, pads=[n // 2 for n in window] * 2, count_include_pad=1)
    of.close("divides before scaling")
    return str(b.Div(x, b.Pow(b.Add(b.Mul(mean, of.like(alpha)), of.like(bias)), of.like(beta))))


@layer("ScaledDotProductAttention")
def attention(of: Layer) -> Made:
    """softmax(q @ k' * scale + mask) @ v; a mask of booleans is -inf where it is false."""
    b, (query, key, value) = of.build, of.inputs[:3]
    causal = of.flag("causal", False)
    rank, wide = of.rank(1), of.dims(0)
    if of.has(5):
        raise Unmapped("a sink is given", supported="a call without it")
    if rank != of.rank(0) or rank != of.rank(2):
        raise Unmapped("query, key and value have different ranks", supported="one rank")
    turned = b.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2])
    if of.has(4):
        scale = b.Reshape(of.input(4), b.constant([], T.INT64)) if of.dims(4) else of.input(4)
    elif wide is not None and wide[-1] > 0:
        scale = of.like(wide[-1] ** -0.5)
    else:
        scale = b.Reciprocal(b.Sqrt(b.Cast(b.Squeeze(b.Shape(query, start=-1), [0]), to=of.elem_type())))
    scores = b.Mul(b.MatMul(query, turned), scale)
    if causal:
        sizes = [b.Shape(query, start=-2, end=-1), b.Shape(key, start=-2, end=-1)]
        least = b.ConstantOfShape(b.Concat(*sizes, axis=0), value=_infinity(of))
        scores = b.Add(scores, b.Trilu(least, 1, upper=1))
    elif of.has(3):
        scores = _mask(of, scores)
    of.close("sums in another order")
    return str(b.MatMul(b.Softmax(scores, axis=-1), value))


def _infinity(of: Layer) -> TensorProto:
    from opshift.passes.model import tensors

    return tensors.tensor([float("-inf")], of.elem_type())


def _mask(of: Layer, scores: str) -> str:
    if of.elem_type(3) == T.BOOL:
        return str(of.build.Where(of.input(3), scores, of.like(float("-inf"))))
    return str(of.build.Add(scores, of.input(3)))
