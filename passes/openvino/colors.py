"""Images of a camera: brightness for each pixel, and two differences of color for each square of four."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import FLOATS, Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size

T = TensorProto


@layer("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR")
def rgb_of_planes(of: Layer) -> Made:
    """Planes one below the other, or each as an input; NV12 has both differences in one."""
    if of.elem_type() not in FLOATS | {T.UINT8}:
        raise Unmapped("the pixels are neither float nor uint8")
    b = of.build
    bright, blue, red = (
        b.Sub(plane, _number(of, zero)) for plane, zero in zip(_planes(of), (16, 128, 128), strict=True)
    )
    bright = b.Mul(bright, _number(of, 1.164))
    made = {
        "R": b.Add(bright, b.Mul(red, _number(of, 1.596))),
        "G": b.Sub(b.Sub(bright, b.Mul(blue, _number(of, 0.391))), b.Mul(red, _number(of, 0.813))),
        "B": b.Add(bright, b.Mul(blue, _number(of, 2.018))),
    }
    color = b.Clip(b.Concat(*(made[letter] for letter in of.type[-3:]), axis=3), _number(of, 0), _number(of, 255))
    of.close("may round otherwise")
    if of.elem_type() == T.UINT8:
        color = b.Round(color)
    return of.cast(color, of.elem_type())


def _number(of: Layer, value: float) -> str:
    return str(of.build.constant(float(value), T.FLOAT))


def _planes(of: Layer) -> list[str]:
    """Brightness, and how blue and how red each pixel is, each of one channel."""
    b = of.build
    count, rows, width, _ = sizes.dims(of)
    whole = [of.cast(of.input(index), T.FLOAT) for index in range(len(of.inputs))]
    half = sizes.over(of, width, 2)
    if len(whole) > 1:
        low = sizes.over(of, rows, 2)
        bright, rest = whole[0], whole[1:]
    else:  # of three halves of the rows, the last one holds the differences, one behind the other
        low = sizes.over(of, rows, 3)
        height = sizes.one(of, sizes.times(of, low, 2))
        bright, held = b.Slice(whole[0], [0], height, [1]), b.Slice(whole[0], height, [2**31 - 1], [1])
        if of.type.startswith("NV12"):
            rest = [sizes.reshape(of, held, [count, low, half, 2])]
        else:
            both = sizes.reshape(of, held, [count, 2, low, half, 1])
            rest = [str(b.Squeeze(b.Slice(both, [k], [k + 1], [1]), [1])) for k in (0, 1)]
    if len(rest) == 1:
        rest = [str(b.Slice(rest[0], [k], [k + 1], [3])) for k in (0, 1)]
    return [str(bright), *(_double(of, plane, [count, low, half]) for plane in rest)]


def _double(of: Layer, plane: str, dims: list[Size]) -> str:
    """Each pixel as a square of four."""
    count, height, width = dims
    apart = sizes.reshape(of, plane, [count, height, 1, width, 1, 1])
    squares = of.build.Expand(apart, of.build.constant([1, 1, 2, 1, 2, 1], T.INT64))
    return sizes.reshape(of, str(squares), [count, sizes.times(of, height, 2), sizes.times(of, width, 2), 1])
