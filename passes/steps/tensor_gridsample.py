"""GridSample: its modes were renamed when it learnt to sample volumes, and bfloat16 came."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.view import Node

T = TensorProto

FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)

NEWER = {"bilinear": "linear", "bicubic": "cubic"}
OLDER = {newer: older for older, newer in NEWER.items()}


def modes_of_any_rank(node: Node) -> None:
    """The modes of images are named like those of any rank."""
    mode = node.attributes.get("mode")
    if mode in NEWER:
        node.attributes["mode"] = NEWER[mode]


def modes_of_images(node: Node) -> Replacement:
    """Only images could be sampled, and the modes are named for them; a volume is sampled as an image of its layers."""
    shape, mode = node.scope.shape(node.input(0)), node.attributes.get("mode")
    if mode not in (None, "nearest", *OLDER, *NEWER):
        raise CannotConvert(node, f"mode={mode}; {', '.join((*OLDER, 'nearest'))} could be expressed")
    if mode in OLDER:
        node.attributes["mode"] = OLDER[mode]
    if shape is None or len(shape) == 4:
        return None
    if len(shape) != 5:
        raise CannotConvert(node, f"the data has rank {len(shape)}; 4 and 5 could be expressed")
    return _layers(node, mode or "linear")


def _layers(node: Node, mode: str) -> str:
    """sum over d of weight(z - d) * sample(X[:, :, d], (x, y)), the layers sampled at once as channels."""
    if mode not in ("linear", "nearest") or node.elem_type() not in FLOATS:
        raise CannotConvert(node, f"a volume with mode={mode}; linear and nearest of floats could be expressed")
    node.close("a volume is a weighted sum of its layers, and each layer sampled as an image")
    build, (x, grid), elem_type = node.build, node.inputs, node.elem_type()
    dims, points = build.Shape(x), build.Shape(grid)  # N C D H W and N D' H' W' 3
    channels = build.Mul(build.Gather(dims, [1]), build.Gather(dims, [2]))
    image = build.Concat(build.Gather(dims, [0]), channels, build.Gather(dims, [3, 4]), axis=0)
    rows = build.Mul(build.Gather(points, [1]), build.Gather(points, [2]))
    plane = build.Concat(build.Gather(points, [0]), rows, build.Gather(points, [3]), [2], axis=0)
    flat = build.Reshape(build.Gather(grid, [0, 1], axis=4), plane)
    sampled = build.again(node.proto, [build.Reshape(x, image), flat])
    apart = build.Concat(build.Gather(dims, [0, 1, 2]), build.Gather(points, [1, 2, 3]), axis=0)
    layers = build.Reshape(sampled, apart)  # N C D D' H' W'
    weights = _weights(node, mode, build.Gather(dims, [2]), build.Gather(grid, [2], axis=4))
    if elem_type != T.FLOAT:
        weights = build.Cast(weights, to=elem_type)
    zero = build.constant(0.0, elem_type)
    counted = build.Where(build.Equal(weights, zero), zero, build.Mul(weights, layers))  # not 0 * inf
    return str(build.ReduceSum(counted, [2], keepdims=0))


def _weights(node: Node, mode: str, depth: str, at: str) -> str:
    """How much each layer counts at each point, as N 1 D D' H' W'."""
    build = node.build

    def number(value: float) -> str:
        return build.constant(value, T.FLOAT)

    size = build.Cast(depth, to=T.FLOAT)
    z = build.Add(build.Cast(at, to=T.FLOAT), number(1.0))
    last = build.Sub(size, number(1.0))
    if node.attributes.get("align_corners", 0):
        z, low, high = build.Mul(build.Mul(z, number(0.5)), last), number(0.0), last
    else:
        z = build.Mul(build.Sub(build.Mul(z, size), number(1.0)), number(0.5))
        low, high = number(-0.5), build.Sub(size, number(0.5))
    padding = node.attributes.get("padding_mode", "zeros")
    if mode == "nearest":
        z = build.Round(z)
    if padding == "reflection":
        span = build.Sub(high, low)  # of a single layer nothing is left to reflect
        span = build.Where(build.Greater(span, number(0.0)), span, number(1.0))
        away = build.Mod(build.Abs(build.Sub(z, low)), build.Mul(span, number(2.0)), fmod=1)
        z = build.Add(build.Min(away, build.Sub(build.Mul(span, number(2.0)), away)), low)
        if mode == "nearest":
            z = build.Round(z)
    if padding in ("border", "reflection"):
        z = build.Min(build.Max(z, number(0.0)), last)
    z = build.Unsqueeze(build.Squeeze(z, [4]), [1, 2])  # N 1 1 D' H' W'
    layer = build.Cast(build.Range(0, build.Reshape(depth, []), 1), to=T.FLOAT)
    layer = build.Reshape(layer, [1, 1, -1, 1, 1, 1])
    return str(build.Max(build.Sub(number(1.0), build.Abs(build.Sub(z, layer))), number(0.0)))


def bfloat16_in_float(node: Node) -> Replacement:
    """bfloat16 was neither sampled nor a position: it is interpolated in float32."""
    inputs, wide = node.inputs, [k for k in range(2) if node.elem_type(k) == T.BFLOAT16]
    if not wide:
        return None
    node.close("bfloat16 is interpolated in float32")
    for k in wide:
        inputs[k] = node.build.Cast(inputs[k], to=T.FLOAT)
    made = node.build.again(node.proto, inputs)
    return str(node.build.Cast(made, to=T.BFLOAT16) if 0 in wide else made)


changed("GridSample", 20, Pair(up=modes_of_any_rank, down=modes_of_images))
changed("GridSample", 22, Pair(down=bfloat16_in_float))
