"""Products, convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto

Sizes = Sequence[int]

AUTO = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


@layer("MatMul")
def mat_mul(of: Layer) -> Made:
    """A vector is never transposed."""
    sides = []
    for index, name in enumerate(("transpose_a", "transpose_b")):
        value = of.input(index)
        if of.flag(name, False) and (rank := of.rank(index)) > 1:
            value = of.permute(value, [*range(rank - 2), rank - 1, rank - 2])
        sides.append(value)
    return str(of.build.MatMul(*sides))


@layer("Einsum")
def einsum(of: Layer) -> Made:
    return str(of.build.Einsum(*of.inputs, equation=of.exact_text("equation")))


# --- convolutions -------------------------------------------------------------------------------------------


@layer("Convolution")
def convolution(of: Layer) -> Made:
    value, windows = _windows(of, of.dims(1))
    return str(of.build.Conv(value, of.input(1), **windows))


@layer("GroupConvolution")
def group_convolution(of: Layer) -> Made:
    """The groups are an axis of the weights of their own."""
    groups, outputs, *rest = of.static(1)
    weights = of.reshape(1, [groups * outputs, *rest])
    value, windows = _windows(of, [0, 0, *rest[1:]])
    return str(of.build.Conv(value, weights, group=groups, **windows))


def _windows(of: Layer, weights: list[int] | None) -> tuple[str, dict[str, object]]:
    """The data, padded where only the run tells how much, and the attributes of a convolution."""
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    rank = of.rank() - 2
    strides, dilations = of.ints("strides"), of.ints("dilations", [1] * rank)
    found: dict[str, object] = {"strides": strides, "dilations": dilations}
    pads = [0] * 2 * rank
    if auto in ("explicit", "notset"):
        pads = [*of.ints("pads_begin"), *of.ints("pads_end")]
    elif auto != "valid":
        kernel = weights[2:] if weights is not None else []
        known = same_pads(of, auto, kernel, strides, dilations)
        if known is None and len(kernel) == rank and min(kernel) > 0:
            return _same_at_run_time(of, auto, kernel, strides, dilations, found)
        if known is None:
            return of.input(0), {**found, "auto_pad": AUTO[auto]}
        pads = known
    return of.input(0), {**found, "pads": pads}


def _same_at_run_time(
    of: Layer, auto: str, kernel: Sizes, strides: Sizes, dilations: Sizes, found: dict[str, object]
) -> tuple[str, dict[str, object]]:
    """Runtimes find out the pads, but not those of windows with gaps in them or between them."""
    if set(dilations) == {1} and all(k >= stride for k, stride in zip(kernel, strides, strict=True)):
        return of.input(0), {**found, "auto_pad": AUTO[auto]}
    begin: list[sizes.Size] = [0, 0]
    end: list[sizes.Size] = [0, 0]
    for size, k, stride, dilation in zip(sizes.dims(of)[2:], kernel, strides, dilations, strict=True):
        steps = sizes.over(of, sizes.plus(of, size, stride - 1), stride)
        reach = sizes.plus(of, sizes.times(of, sizes.minus(of, steps, 1), stride), (k - 1) * dilation + 1)
        needed = sizes.larger(of, sizes.minus(of, reach, size), 0)
        less = sizes.over(of, needed, 2)
        more = sizes.minus(of, needed, less)
        begin.append(less if auto == "same_upper" else more)
        end.append(more if auto == "same_upper" else less)
    padded = of.build.Pad(of.input(0), sizes.vector(of, [*begin, *end]))
    return str(padded), {**found, "pads": [0] * 2 * len(kernel)}


def same_pads(of: Layer, auto: str, kernel: Sizes, strides: Sizes, dilations: Sizes) -> list[int] | None:
    """The pads that SAME stands for; None where sizes are not known, and the runtime has to find out."""
    dims = of.dims()
    if kernel and set(kernel) == {1}:
        return [0] * 2 * len(kernel)
    if dims is None or min([*dims[2:], *kernel], default=-1) < 0 or len(kernel) != len(dims) - 2:
        return None
    begin, end = [], []
    for size, k, stride, dilation in zip(dims[2:], kernel, strides, dilations, strict=True):
        over = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        less, more = over // 2, over - over // 2
        begin.append(less if auto == "same_upper" else more)
        end.append(more if auto == "same_upper" else less)
    return [*begin, *end]


@layer("ConvolutionBackpropData")
def transposed_convolution(of: Layer) -> Made:
    return _transpose(of, of.input(1), 1, of.dims(1))


@layer("GroupConvolutionBackpropData")
def group_transposed_convolution(of: Layer) -> Made:
    groups, inputs, *rest = of.static(1)
    return _transpose(of, of.reshape(1, [groups * inputs, *rest]), groups, [0, *rest])


def _transpose(of: Layer, weights: str, groups: int, dims: list[int] | None) -> str:
    rank = of.rank() - 2
    strides, dilations = of.ints("strides"), of.ints("dilations", [1] * rank)
    extra = of.ints("output_padding", [0] * rank) or [0] * rank
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    begin, end = of.ints("pads_begin", [0] * rank), of.ints("pads_end", [0] * rank)
    if of.has(2):
        if any(extra):
            raise Unmapped("an output shape and output_padding are both given", supported="one of them")
        begin, end = _cut_to_shape(of, auto, begin, (dims or [])[2:], strides, dilations)
    elif auto in AUTO:  # without a shape to reach there is nothing to cut
        begin, end = [0] * rank, [0] * rank
    if min([*begin, *end], default=0) < 0:
        raise Unmapped(f"pads {begin} and {end}", supported="0 or more")
    return str(
        of.build.ConvTranspose(
            of.input(0),
            weights,
            strides=strides,
            dilations=dilations,
            pads=[*begin, *end],
            output_padding=extra if any(extra) else None,
            group=groups,
        )
    )


def _cut_to_shape(
    of: Layer, auto: str, begin: list[int], kernel: Sizes, strides: Sizes, dilations: Sizes
) -> tuple[list[int], list[int]]:
    """The pads that leave the output shape; the odd one of SAME_UPPER comes first, other than for a convolution."""
    wanted, data = of.require_constant(2), of.static()[2:]
    if len(kernel) != len(data) or min(kernel) < 1 or len(wanted) != len(data):
        raise Unmapped("the shape of the weights is unknown")
    over = [
        stride * (size - 1) + (k - 1) * dilation + 1 - want
        for size, k, stride, dilation, want in zip(data, kernel, strides, dilations, wanted, strict=True)
    ]
    if auto in AUTO:
        parts = {"same_upper": [n - n // 2 for n in over], "same_lower": [n // 2 for n in over]}
        begin = parts.get(auto, [0] * len(over))
    return begin, [number - before for number, before in zip(over, begin, strict=True)]


@layer("DeformableConvolution")
def deformable_convolution(of: Layer) -> Made:
    groups, offsets = of.integer("group", 1), of.integer("deformable_group", 1)
    value, windows = _windows(of, of.dims(2))
    if "auto_pad" in windows or value != of.input(0) or not of.flag("bilinear_interpolation_pad", False):
        raise Unmapped("auto_pad is set, or bilinear_interpolation_pad is false", supported="explicit pads, and true")
    mask = of.input(3) if of.has(3) else None
    return str(
        of.build.DeformConv(
            of.input(0), of.input(2), of.input(1), None, mask, group=groups, offset_group=offsets, **windows
        )
    )
