"""Changes that happen to three or more operators, each used as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas, tensors
from opshift.passes.model.messages import AttributeProto, TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Replacement, Step
from opshift.passes.rewrite.says import says

FROM_THE_CALLER: Mapping[int, tuple[str, int, list[Dim]]] = {  # an attribute of Constant, its element type and shape
    AttributeProto.FLOAT: ("value_float", TensorProto.FLOAT, []),
    AttributeProto.INT: ("value_int", TensorProto.INT64, []),
    AttributeProto.INTS: ("value_ints", TensorProto.INT64, [None]),
}


def from_the_caller(node: Node, held: AttributeProto) -> str:
    """What each call of a function gives for an attribute that is bound by reference, as a value of the body."""
    name, elem_type, dims = FROM_THE_CALLER[held.type]
    bound = AttributeProto(name=name, type=held.type, ref_attr_name=held.ref_attr_name)
    return node.build.set_type(node.build.emit("Constant", [], {name: bound}), elem_type, dims)


@says("Moved axes from attribute to input")
def axes_to_input(node: Node) -> None:
    held = node.attributes.find("axes")
    if held is None:
        return
    if held.ref_attr_name:
        node.set_input(1, from_the_caller(node, held))
    elif held.ints:
        node.set_input(1, node.build.constant(tensors.int64s(held.ints), hint="axes"))
    del node.attributes["axes"]


def constant_axes(node: Node, index: int = 1) -> list[int] | None:
    """The axes that an input holds, an absent one as none; None if they are known only at run time."""
    name = node.input(index)
    return [] if not name else node.scope.ints(name)


def check_positive(node: Node, *names: str) -> None:
    """Raise `CannotConvert` where an attribute holds a number below 1, which counts or divides nothing."""
    for name in names:
        held = node.attributes.get(name, 1)
        if any(number < 1 for number in (held if isinstance(held, Sequence) else [held])):
            raise CannotConvert(node, f"{name}={held}", supported="positive numbers")


def axis_within(node: Node, rank: int, default: int = 0) -> int:
    """The axis in an attribute, counted from the front."""
    axis = node.attributes.get("axis", default)
    if not -rank <= axis < rank:
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    return int(axis) % rank


@says("Replaced negative axes by positive ones")
def nonnegative_axes(node: Node) -> None:
    axes = node.attributes.get("axes", [])
    if any(axis < 0 for axis in axes):
        rank = node.rank()
        node.attributes["axes"] = [_from_front(node, axis, rank) for axis in axes]


def nonnegative_axis(default: int) -> Step:
    """The same for one axis in an attribute, with its default."""

    @says("Replaced a negative axis by a positive one")
    def count_from_front(node: Node) -> None:
        axis = node.attributes.get("axis", default)
        if axis < 0:
            node.attributes["axis"] = _from_front(node, axis, node.rank())

    return count_from_front


def axis_inside(default: int | None) -> Step:
    """An axis in an attribute is one of the data, which inference did not check; with no default there may be none."""

    @says("Checked that axis is in range for the older opset")
    def refuse_beyond(node: Node) -> None:
        axis, rank = node.attributes.get("axis", default), node.scope.rank(node.input(0))
        if axis is not None and rank is not None:
            _from_front(node, axis, rank)

    return refuse_beyond


def axes_inside(new: bool = False) -> Step:
    """The same for several axes: of the data, or of what they are put into as `new` ones."""

    @says("Checked that axes are in range for the older opset")
    def refuse_beyond(node: Node) -> None:
        axes, rank = node.attributes.get("axes", []), node.scope.rank(node.input(0))
        if rank is None:
            return
        for axis in axes:
            _from_front(node, axis, rank + (len(axes) if new else 0))

    return refuse_beyond


def _from_front(node: Node, axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    return axis + rank if axis < 0 else axis


def carrier_casts(carriers: Mapping[int, int], why: str = "", variable: str = "T") -> Step:
    """A type that the other side does not take is computed in one that it does: cast in, run, cast back.

    Every input and output whose type is `variable` is cast. `why` grades the detour `close`; without it the results
    are the same bit for bit.
    """

    @says("Cast to a wider type that the older operator accepts, and back")
    def through_a_carrier_type(node: Node) -> Replacement:
        schema = node.schema
        assert schema is not None, "steps are registered for operators with schemas"
        bound = [i for i, name in enumerate(node.inputs) if name and _is(schema.input(i), variable)]
        elem_type = node.elem_type(bound[0])
        carrier = carriers.get(elem_type)
        if carrier is None:
            return None
        if why:
            node.close(why)
        inputs = node.inputs
        for index in bound:
            inputs[index] = node.build.Cast(inputs[index], to=carrier)
        results = node.build.again(node.proto, inputs)
        results = [results] if isinstance(results, str) else results
        saturate = 0 if elem_type in _FLOAT8 else None  # an infinity must come back as one
        return [
            node.build.Cast(wide, to=elem_type, saturate=saturate)
            if node.outputs[i] and _is(schema.output(i), variable)
            else wide
            for i, wide in enumerate(results)
        ]

    return through_a_carrier_type


def _is(parameter: schemas.Parameter | None, variable: str) -> bool:
    return parameter is not None and parameter.type == variable


def wrap_negative(node: Node, values: str, size: str, elem_type: int) -> str:
    """values + size * (values < 0), computed at run time in operators that exist from opset 7 on."""
    build = node.build
    negative = build.Less(build.Cast(values, to=TensorProto.FLOAT), build.constant(0.0, TensorProto.FLOAT))
    return str(build.Add(values, build.Mul(build.Cast(negative, to=elem_type), size)))


def categories(node: Node, x: str, strings: Sequence[str], numbers: Iterable[int], default: str | int) -> str:
    """Strings as numbers or numbers as strings, whatever is not listed as the default: CategoryMapper of ai.onnx.ml."""
    attributes: dict[str, Any] = {"cats_strings": list(strings), "cats_int64s": list(numbers)}
    attributes["default_string" if isinstance(default, str) else "default_int64"] = default
    return str(node.build.emit("CategoryMapper", [x], attributes, domain="ai.onnx.ml"))


_FLOAT8 = {
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
}


def round_to_even(build: Builder, x: str, elem_type: int) -> str:
    """x rounded to an integer, halves to even ones, also where there is no Round; -0.0 becomes 0.0 there."""
    if build.opset >= 11:
        return str(build.Round(x))
    half = build.constant(0.5, elem_type)
    floor = build.Floor(x)
    rest, middle = build.Sub(x, floor), build.Mul(floor, half)
    tie_to_odd = build.And(build.Not(build.Less(rest, half)), build.Less(build.Floor(middle), middle))
    return str(build.Add(floor, build.Cast(build.Or(build.Greater(rest, half), tie_to_odd), to=elem_type)))


def select(build: Builder, condition: str, a: str, b: str, elem_type: int) -> str:
    """a where the condition holds, else b, for floats where there is no Where: anything to the power 0 is 1.

    This is exact for infinities, NaN and -0.0 on either side.
    """
    if build.opset >= 9:
        return str(build.Where(condition, a, b))
    chosen = build.Cast(condition, to=elem_type)
    other = build.Cast(build.Not(condition), to=elem_type)
    return str(build.Mul(build.Pow(a, chosen), build.Pow(b, other)))


def pick(build: Builder, op: str, a: str, b: str) -> str:
    """Max or Min of two tensors that can only be compared: b where a is beaten, else a."""
    beaten = build.Less(a, b) if op == "Max" else build.Greater(a, b)
    return str(build.Where(beaten, b, a))


def with_sign(build: Builder, size: str, x: str, elem_type: int) -> str:
    """size, negated where x is negative or -0.0; by a factor, because runtimes lose the sign of 0 in a Where."""
    zero, one = (build.constant(value, elem_type) for value in (0.0, 1.0))
    negative = build.Cast(build.Or(build.Less(x, zero), build.Less(build.Reciprocal(x), zero)), to=elem_type)
    return str(build.Mul(size, build.Sub(one, build.Add(negative, negative))))


def saturate_to_bytes(build: Builder, ratio: str, zero_point: str, elem_type: int) -> str:
    """A float32 ratio rounded, moved by a float32 zero point and cut off at the ends of int8 or uint8."""
    lowest, highest = (0.0, 255.0) if elem_type == TensorProto.UINT8 else (-128.0, 127.0)
    moved = round_to_even(build, ratio, TensorProto.FLOAT)
    moved = build.Add(moved, zero_point) if zero_point else moved
    return str(build.Cast(clip(build, moved, lowest, highest, TensorProto.FLOAT), to=elem_type))


def clip(build: Builder, x: str, lowest: float, highest: float, elem_type: int) -> str:
    """x cut off at two bounds, which Clip takes as inputs from opset 11 on."""
    if build.opset < 11:
        return str(build.Clip(x, min=lowest, max=highest))
    return str(build.Clip(x, build.constant(lowest, elem_type), build.constant(highest, elem_type)))


def wider(elem_type: int) -> int:
    """The type to compute in where 16 bits round or overflow on the way: float32 for those, else the type itself."""
    return TensorProto.FLOAT if elem_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else elem_type


def recast(build: Builder, name: str, elem_type: int, to: int) -> str:
    """A value of one type in another; the value itself where that is the same."""
    return name if elem_type == to else str(build.Cast(name, to=to))


def along_channels(node: Node, index: int, elem_type: int) -> str:
    """A vector with one element a channel, shaped to be broadcast over all axes of the data behind the channels."""
    build, ones, held = node.build, [1] * (node.rank() - 2), node.scope.array(node.input(index))
    if held is not None and held.size <= tensors.SMALL:
        return build.constant(held.reshape([-1, *ones]), elem_type)
    column = build.Reshape(node.input(index), [-1, *ones]) if ones else node.input(index)
    return recast(build, column, node.elem_type(index), elem_type)


def behind_channels(node: Node) -> list[int]:
    """All axes of the data after the second."""
    if node.rank() < 3:
        raise CannotConvert(node, f"{node.op_type} gets data of rank {node.rank()}", supported="rank 3 or more")
    return list(range(2, node.rank()))


def channels_first(build: Builder, x: str, rank: int) -> str:
    """An image whose channels come last, as operators of ONNX take it."""
    return str(build.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])) if rank > 2 else x


def channels_last(build: Builder, x: str, rank: int) -> str:
    """The other way round."""
    return str(build.Transpose(x, perm=[0, *range(2, rank), 1])) if rank > 2 else x


@says("Reshaped data of another rank than 4 to (N, C, -1, 1) and back")
def as_image(node: Node) -> Replacement:
    rank = node.rank()
    if rank == 4:
        return None
    if rank < 2:
        raise CannotConvert(node, f"{node.op_type} gets data of rank {rank}", supported="rank 2 or more")
    dims, alone = node.scope.shape(node.input(0)) or [], not any(node.outputs[1:])
    if 0 in dims and alone:
        return node.input(0)  # there is nothing to compute
    known = [all(isinstance(dim, int) for dim in part) for part in (dims[:2], dims[2:])]
    if not any(known) and alone:
        return unless_empty(node, lambda build: _through_image(node, build, dims)[0], "image")
    return _through_image(node, node.build, dims)


def _through_image(node: Node, build: Builder, dims: list[Dim]) -> list[str]:
    """The node on an image, with what is taken for -1 only where that can be told of data without an element, too."""
    sides = [dim if isinstance(dim, int) else -1 for dim in dims[2:]]
    image = build.Reshape(node.input(0), [0, 0, -1 if {0, -1} & {*sides} else prod(sides), 1])
    results = build.again(node.proto, [image, *node.inputs[1:]])
    result, *rest = [results] if isinstance(results, str) else results
    target = build.Shape(node.input(0)) if sides.count(-1) > 1 or 0 in sides else [0, 0, *sides]
    return [build.Reshape(result, target), *rest]


IF_OF_BFLOAT16 = 16
"""The opset from which on If yields it."""


def unless_empty(node: Node, compute: Callable[[Builder], str], hint: str) -> str:
    """What is computed of the data in their own shape, or the data as they are where they have no element."""
    build, x, elem_type = node.build, node.input(0), node.scope.elem_type(node.input(0))
    held = TensorProto.FLOAT if elem_type == TensorProto.BFLOAT16 and build.opset < IF_OF_BFLOAT16 else elem_type
    result = build.If(
        build.Cast(build.Size(x), to=TensorProto.BOOL),
        then_branch=build.branch(lambda inner: recast(inner, compute(inner), elem_type, held), hint, held),
        else_branch=build.branch(lambda inner: recast(inner, str(inner.Identity(x)), elem_type, held), "empty", held),
    )
    return (
        recast(build, build.set_type(result, held, node.scope.shape(x)), held, elem_type) if elem_type else str(result)
    )


@says("Dropped the attribute consumed_inputs, which changes no value")
def without_hint(node: Node) -> None:
    if "consumed_inputs" in node.attributes:
        del node.attributes["consumed_inputs"]


def with_defaults(defaults: Mapping[str, float]) -> Step:
    """The defaults of one side, written out for the other."""

    @says("Set missing attributes to their defaults, as the newer defaults differ")
    def defaults_written_out(node: Node) -> None:
        without_hint(node)
        for name, value in defaults.items():
            if name not in node.attributes:
                node.attributes[name] = value

    return defaults_written_out


def mirror(build: Builder, name: str, elem_type: int) -> str:
    """Values in the opposite order: floats negated, integers (the least has no negative) from -1 or the largest."""
    if elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return str(build.Neg(name))
    bits: dict[int, int] = {
        TensorProto.UINT8: 8,
        TensorProto.UINT16: 16,
        TensorProto.UINT32: 32,
        TensorProto.UINT64: 64,
    }
    return str(build.Sub(build.constant(2 ** bits[elem_type] - 1 if elem_type in bits else -1, elem_type), name))


T = TensorProto
FLOAT8: dict[int, int] = dict.fromkeys((T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ), T.FLOAT)
BFLOAT16: dict[int, int] = {T.BFLOAT16: T.FLOAT}
