"""Normalizations: training or not, statistics of several types, scale and bias per group or per channel."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import along_channels, carried, drop_consumed_inputs, shape_of
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
SHORT = (T.FLOAT16, T.BFLOAT16)
FILLED_IN_PLACE = [0, 0, 0, 1, 1]  # consumed_inputs: the statistics are overwritten


@says("consumed_inputs is required, and the data is an image of rank 4.")
def image_with_consumed_inputs(node: Node) -> Replacement:
    node.attributes["consumed_inputs"] = FILLED_IN_PLACE
    return as_image(node)


@says("The data is an image of rank 4: another rank is reshaped to (N, C, -1, 1) and back.")
def as_image(node: Node) -> Replacement:
    rank = node.rank()
    if rank == 4:
        return None
    build = node.build
    image = build.Reshape(node.input(0), [0, 0, -1, 1])
    results = build.again(node.proto, [image, *node.inputs[1:]])
    result, *rest = [results] if isinstance(results, str) else results
    dims = node.scope.shape(node.input(0)) or []
    back = [0, 0, *(dim if isinstance(dim, int) else -1 for dim in dims[2:])]
    target = build.Shape(node.input(0)) if back.count(-1) > 1 or 0 in back[2:] else back
    return [build.Reshape(result, target), *rest]


# --- BatchNormalization: training or not ----------------------------------------------------------------


@says("is_test chose inference and is gone: one output means inference, more mean training.")
def drop_is_test(node: Node) -> None:
    testing = node.attributes.pop("is_test", 0)
    extra = [k for k in range(1, len(node.outputs)) if node.outputs[k]]
    if testing and any(map(node.is_used, extra)):
        raise CannotConvert(node, "is_test=1 and running statistics are used; the first output could be expressed")
    if testing and extra:
        node.outputs = node.outputs[:1]
    if not testing and not extra:
        raise CannotConvert(
            node,
            "is_test=0 with one output is read as training and as inference; is_test=1 could be expressed",
        )
    if not node.attributes.get("spatial", 1) and node.rank() != 2 and node.rank() != node.rank(1) + 1:
        raise CannotConvert(node, "spatial=0 with statistics per channel; statistics per feature could be expressed")


@says("Inference becomes explicit: is_test=1 for one output, 0 for more.")
def set_is_test(node: Node) -> Replacement:
    node.attributes["is_test"] = int(not any(node.outputs[1:]))
    return features_as_channels(node)


@says("spatial=0 kept statistics of every feature: in flattened data every feature is a channel.")
def features_as_channels(node: Node) -> Replacement:
    shape = node.scope.shape(node.input(0))
    if node.attributes.pop("spatial", 1) or (shape is not None and len(shape) == 2):
        return None
    build = node.build
    flat = [build.Flatten(node.input(0), axis=1), *(build.Reshape(name, [-1]) for name in node.inputs[1:])]
    results = build.again(node.proto, flat)
    results = [results] if isinstance(results, str) else results
    for index, like in zip(range(len(results)), (0, 3, 4, 3, 4), strict=False):
        if node.is_used(index):
            results[index] = build.Reshape(results[index], build.Shape(node.input(like)))
    return list(results)


@says("Data of rank 1, one channel, was not allowed and gets a channel axis.")
def vector_as_matrix(node: Node) -> Replacement:
    shape = node.scope.shape(node.input(0))
    if shape is None or len(shape) != 1:
        return None
    build = node.build
    results = build.again(node.proto, [build.Unsqueeze(node.input(0), axes=[1]), *node.inputs[1:]])
    result, *rest = [results] if isinstance(results, str) else results
    return [build.Squeeze(result, axes=[1]), *rest]


@says("Several outputs meant training, which training_mode=1 now says; the saved statistics are gone.")
def set_training_mode(node: Node) -> Replacement:
    if not any(node.outputs[1:]):
        node.outputs = node.outputs[:1]
        return None
    if node.is_used(4):
        raise CannotConvert(node, "saved_var is used, which has no definition; the other outputs could be expressed")
    build = node.build
    results = build.emit("BatchNormalization", node.inputs, {**node.attributes, "training_mode": 1}, outputs=3)
    if node.is_used(3):
        axes = [axis for axis in range(node.rank()) if axis != 1]
        results.append(build.ReduceMean(node.input(0), axes=axes, keepdims=0))
    node.outputs = node.outputs[: len(results)]
    return list(results[: len(node.outputs)])


@says("training_mode=1 becomes its formula, and statistics of another type than the data were not allowed.")
def drop_training_mode(node: Node) -> Replacement:
    if node.attributes.pop("training_mode", 0):
        return _trained(node)
    node.outputs = node.outputs[:1]
    return _in_one_type(node, range(5), {node.elem_type(index) for index in range(5)})


@says("scale and bias of another type than the data were not allowed: the wider of the two types is used.")
def scale_in_type_of_data(node: Node) -> Replacement:
    kinds = {node.elem_type(0), node.elem_type(1)}
    if node.attributes.get("training_mode", 0) and node.elem_type(0) in SHORT:
        kinds.add(T.FLOAT)  # batch statistics of short floats are computed in float32
    return None if len(kinds) == 1 else _in_one_type(node, range(3), kinds)


def _in_one_type(node: Node, indices: range, kinds: set[int]) -> Replacement:
    wide = _widest(kinds)
    if kinds == {wide}:
        return None
    node.close("data, scale and statistics of several types are computed in the widest")
    build, inputs = node.build, node.inputs
    for index in indices:
        inputs[index] = _cast(build, inputs[index], node.elem_type(index), wide)
    results = build.again(node.proto, inputs)
    result, *rest = [results] if isinstance(results, str) else results
    return [_cast(build, result, wide, node.elem_type(0)), *rest]


def _widest(kinds: set[int]) -> int:
    if T.DOUBLE in kinds:
        return T.DOUBLE
    return T.FLOAT16 if kinds == {T.FLOAT16} else T.FLOAT


def _cast(build: Builder, name: str, elem_type: int, to: int) -> str:
    return name if elem_type == to else str(build.Cast(name, to=to))


def _trained(node: Node) -> list[str]:
    """(x - mean) / sqrt(var + epsilon) * scale + B, and running * momentum + current * (1 - momentum)."""
    node.close("training is computed from its definition")
    build, rank, kinds = node.build, node.rank(), [node.elem_type(index) for index in range(5)]
    wide = _widest({*kinds, T.FLOAT})
    x, scale, bias, *running = [_cast(build, name, kinds[i], wide) for i, name in enumerate(node.inputs)]
    axes = [axis for axis in range(rank) if axis != 1]
    channel = [-1] + [1] * (rank - 2)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wide)
    momentum = node.attributes.get("momentum", 0.9)
    mean = build.ReduceMean(x, axes=axes)
    centered = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    y = build.Add(build.Mul(normal, build.Reshape(scale, channel)), build.Reshape(bias, channel))
    results = [_cast(build, y, wide, kinds[0])]
    for index, current in enumerate([mean, variance][: len(node.outputs) - 1]):
        kept = build.Mul(running[index], build.constant(momentum, wide))
        new = build.Mul(build.Reshape(current, [-1]), build.constant(1 - momentum, wide))
        results.append(_cast(build, build.Add(kept, new), wide, kinds[3]))
    return results


# --- GroupNormalization: scale and bias per group or per channel ----------------------------------------


@says("scale and bias were given per group and are given per channel; statistics keep the type of the data.")
def scale_per_channel(node: Node) -> None:
    build, groups = node.build, node.attributes["num_groups"]
    if node.elem_type() != T.FLOAT:
        node.attributes["stash_type"] = node.elem_type()
    shape = node.scope.shape(node.input(0))
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if channels == groups:
        return
    if isinstance(channels, int):
        target = build.constant(tensors.int64s([1, channels // groups]))
    else:
        each = build.Div(build.Shape(node.input(0), start=1, end=2), [groups])
        target = build.Concat([1], each, axis=0)
    for index in (1, 2):
        column = build.Expand(build.Reshape(node.input(index), [-1, 1]), target)
        node.set_input(index, build.Reshape(column, [-1]))


@says("scale and bias per channel did not exist: the operator becomes its definition.")
def group_statistics(node: Node) -> str:
    node.close("group statistics are computed from their definition")
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    stash = node.attributes.get("stash_type", T.FLOAT)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), stash)
    grouped = build.Reshape(_cast(build, x, elem_type, stash), [0, node.attributes["num_groups"], -1])
    centered = build.Sub(grouped, build.ReduceMean(grouped, [2]))
    variance = build.ReduceMean(build.Mul(centered, centered), [2])
    normal = _cast(build, build.Div(centered, build.Sqrt(build.Add(variance, epsilon))), stash, elem_type)
    if node.scope.shape(x) is not None:
        scale, bias = (along_channels(node, index, node.elem_type(index)) for index in (1, 2))
        return str(build.Add(build.Mul(build.Reshape(normal, shape_of(node)), scale), bias))
    channels = build.Concat(build.Shape(x, start=0, end=2), [-1], axis=0)
    scale, bias = (build.Unsqueeze(node.input(index), [1]) for index in (1, 2))
    scaled = build.Add(build.Mul(build.Reshape(normal, channels), scale), bias)
    return str(build.Reshape(scaled, build.Shape(x)))


@says("The operator got a definition that readers bind the default of axes to: it is written out.")
def write_axes(node: Node) -> None:
    node.attributes.setdefault("axes", [0, 2, 3])


changed("BatchNormalization", 6, Pair(up=drop_consumed_inputs, down=image_with_consumed_inputs))
changed("InstanceNormalization", 6, Pair(up=drop_consumed_inputs, down=as_image))
changed("BatchNormalization", 7, Pair(up=drop_is_test, down=set_is_test))
changed("BatchNormalization", 9, Pair(up=features_as_channels, down=vector_as_matrix))
changed("BatchNormalization", 14, Pair(up=set_training_mode, down=drop_training_mode))
changed("BatchNormalization", 15, Pair(down=scale_in_type_of_data))
changed("GroupNormalization", 21, Pair(up=scale_per_channel, down=group_statistics))
changed("MeanVarianceNormalization", 13, Pair(up=write_axes))
changed(
    "InstanceNormalization",
    22,
    Pair(down=carried({T.BFLOAT16: T.FLOAT}, why="bfloat16 is computed in float32")),
)
