"""BatchNormalization: training or not, statistics of features or channels, in several types."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.recipes import as_image, recast, without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
SHORT = (T.FLOAT16, T.BFLOAT16)
FILLED_IN_PLACE = [0, 0, 0, 1, 1]  # consumed_inputs: the statistics are overwritten


@says("Added consumed_inputs to BatchNormalization, and reshaped the data to rank 4")
def image_with_consumed_inputs(node: Node) -> Replacement:
    node.attributes["consumed_inputs"] = FILLED_IN_PLACE
    return as_image(node)


@says("Dropped is_test of BatchNormalization; the number of outputs now tells inference from training")
def drop_is_test(node: Node) -> None:
    testing = node.attributes.pop("is_test", 0)
    extra = [k for k in range(1, len(node.outputs)) if node.outputs[k]]
    if testing and any(map(node.is_used, extra)):
        raise CannotConvert(
            node, "is_test=1, but the outputs for running statistics are used", supported="only the first output"
        )
    if testing and extra:
        node.outputs = node.outputs[:1]
    if not testing and not extra:
        raise CannotConvert(
            node,
            "runtimes disagree whether is_test=0 with a single output is training",
            supported="is_test=1",
        )
    if not node.attributes.get("spatial", 1) and node.rank() != 2:
        node.rank(1)
        _check_features(node, node.scope.shape(node.input(0)) or [])


def _check_features(node: Node, data: Sequence[Dim]) -> None:
    """Refuse what holds something else for scale and statistics than a number for each feature."""
    for index in range(1, 5):
        dims = node.scope.shape(node.input(index))
        if dims is None:
            continue
        if len(dims) != len(data) - 1:
            raise CannotConvert(
                node,
                "spatial=0 needs statistics for each feature, and they are given for each channel",
                supported="statistics per feature",
            )
        if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(dims, data[1:], strict=True)):
            shown = [", ".join(str(dim or "?") for dim in shape) for shape in (dims, data[1:])]
            found = f'"{node.input(index)}" of shape [{shown[0]}]'
            raise CannotConvert(
                node,
                f"{found} does not fit the features, which have shape [{shown[1]}]",
                supported="the shape of the features",
            )


@says("Added is_test to BatchNormalization: 1 for one output, 0 for more")
def set_is_test(node: Node) -> Replacement:
    node.attributes["is_test"] = int(not any(node.outputs[1:]))
    return features_as_channels(node)


@says("Dropped spatial of BatchNormalization; for spatial=0, reshaped the data so that every feature is a channel")
def features_as_channels(node: Node) -> Replacement:
    shape = node.scope.shape(node.input(0))
    if node.attributes.pop("spatial", 1) or (shape is not None and len(shape) == 2):
        return None
    if shape is not None:
        _check_features(node, shape)
    build = node.build
    flat = [build.Flatten(node.input(0), axis=1), *(build.Reshape(name, [-1]) for name in node.inputs[1:])]
    results = build.again(node.proto, flat)
    results = [results] if isinstance(results, str) else results
    for index, like in zip(range(len(results)), (0, 3, 4, 3, 4), strict=False):
        if node.is_used(index):
            results[index] = build.Reshape(results[index], build.Shape(node.input(like)))
    return list(results)


@says("Added a channel axis to data of rank 1")
def vector_as_matrix(node: Node) -> Replacement:
    shape = node.scope.shape(node.input(0))
    if shape is None or len(shape) != 1:
        return None
    build = node.build
    results = build.again(node.proto, [build.Unsqueeze(node.input(0), axes=[1]), *node.inputs[1:]])
    result, *rest = [results] if isinstance(results, str) else results
    return [build.Squeeze(result, axes=[1]), *rest]


@says("Set training_mode=1 for a BatchNormalization with several outputs; dropped the saved statistics")
def set_training_mode(node: Node) -> Replacement:
    for index in range(1, 5):
        rank = node.scope.rank(node.input(index))
        if rank is not None and rank != 1:
            raise CannotConvert(node, f'"{node.input(index)}" has rank {rank}', supported="vectors")
    if not any(node.outputs[1:]):
        node.outputs = node.outputs[:1]
        return None
    if node.is_used(4):
        raise CannotConvert(
            node, "the output saved_var is used, and ONNX does not define its value", supported="the other outputs"
        )
    build = node.build
    results = build.emit("BatchNormalization", node.inputs, {**node.attributes, "training_mode": 1}, outputs=3)
    if node.is_used(3):
        axes = [axis for axis in range(node.rank()) if axis != 1]
        results.append(build.ReduceMean(node.input(0), axes=axes, keepdims=0))
    node.outputs = node.outputs[: len(results)]
    return list(results[: len(node.outputs)])


@says("Replaced BatchNormalization in training by its formula, and cast statistics to the type of the data")
def drop_training_mode(node: Node) -> Replacement:
    if node.attributes.pop("training_mode", 0):
        return _training_results(node)
    node.outputs = node.outputs[:1]
    return _in_one_type(node, range(5), {node.elem_type(index) for index in range(5)})


@says("Cast data, scale and bias of BatchNormalization to the widest of their types")
def scale_in_type_of_data(node: Node) -> Replacement:
    elem_types = {node.elem_type(0), node.elem_type(1)}
    if node.attributes.get("training_mode", 0) and node.elem_type(0) in SHORT:
        elem_types.add(T.FLOAT)  # batch statistics of short floats are computed in float32
    return None if len(elem_types) == 1 else _in_one_type(node, range(3), elem_types)


def _in_one_type(node: Node, indices: range, elem_types: set[int]) -> Replacement:
    wide = _widest(elem_types)
    if elem_types == {wide}:
        return None
    node.close("data, scale and statistics of several types are computed in the widest")
    build, inputs = node.build, node.inputs
    for index in indices:
        inputs[index] = recast(build, inputs[index], node.elem_type(index), wide)
    results = build.again(node.proto, inputs)
    result, *rest = [results] if isinstance(results, str) else results
    return [recast(build, result, wide, node.elem_type(0)), *rest]


def _widest(elem_types: set[int]) -> int:
    if T.DOUBLE in elem_types:
        return T.DOUBLE
    return T.FLOAT16 if elem_types == {T.FLOAT16} else T.FLOAT


def _training_results(node: Node) -> list[str]:
    """(x - mean) / sqrt(var + epsilon) * scale + B, and running * momentum + current * (1 - momentum)."""
    node.close("training is computed from its definition")
    build, rank, elem_types = node.build, node.rank(), [node.elem_type(index) for index in range(5)]
    wide = _widest({*elem_types, T.FLOAT})
    x, scale, bias, *running = [recast(build, name, elem_types[i], wide) for i, name in enumerate(node.inputs)]
    axes = [axis for axis in range(rank) if axis != 1]
    channel = [-1] + [1] * (rank - 2)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wide)
    momentum = node.attributes.get("momentum", 0.9)
    mean = build.ReduceMean(x, axes=axes)
    centered = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    y = build.Add(build.Mul(normal, build.Reshape(scale, channel)), build.Reshape(bias, channel))
    results = [recast(build, y, wide, elem_types[0])]
    for index, current in enumerate([mean, variance][: len(node.outputs) - 1]):
        kept = build.Mul(running[index], build.constant(momentum, wide))
        new = build.Mul(build.Reshape(current, [-1]), build.constant(1 - momentum, wide))
        results.append(recast(build, build.Add(kept, new), wide, elem_types[3]))
    return results


@says("Replaced BatchNormalization by a product and a sum for each channel; in training by its formula")
def scaled_and_shifted(node: Node) -> list[str]:
    """X * s + (B - mean * s), s = scale / sqrt(var + epsilon), as runtimes compute it."""
    if node.attributes.get("training_mode", 0):
        return _training_results(node)
    node.close("the operator is computed from its definition")
    build, rank, elem_types = node.build, node.rank(), [node.elem_type(index) for index in range(5)]
    wide, epsilon = _widest({*elem_types, T.FLOAT}), node.attributes.get("epsilon", 1e-5)
    channel = [-1] + [1] * (rank - 2)
    held = [node.scope.array(name) for name in node.inputs[1:]]
    if not any(array is None for array in held):
        numbers = [array.astype("float64") for array in held if array is not None]  # scale, B, mean, var
        factor = numbers[0] / (numbers[3] + epsilon) ** 0.5
        of_channels = [factor, numbers[1] - numbers[2] * factor]
        s, shift = (build.constant(array.reshape(channel), wide) for array in of_channels)
    else:
        scale, bias, mean, variance = (recast(build, node.input(i), elem_types[i], wide) for i in range(1, 5))
        ratio = build.Div(scale, build.Sqrt(build.Add(variance, build.constant(epsilon, wide))))
        s, shift = (
            build.Reshape(vector, channel) if rank > 2 else vector
            for vector in (ratio, build.Sub(bias, build.Mul(mean, ratio)))
        )
    y = build.Add(build.Mul(recast(build, node.input(0), elem_types[0], wide), s), shift)
    return [recast(build, y, wide, elem_types[0]), "", ""][: len(node.outputs)]


defined("BatchNormalization", scaled_and_shifted, opset=15)
changed("BatchNormalization", 6, Pair(up=without_hint, down=image_with_consumed_inputs))
changed("BatchNormalization", 7, Pair(up=drop_is_test, down=set_is_test))
changed("BatchNormalization", 9, Pair(up=features_as_channels, down=vector_as_matrix))
changed("BatchNormalization", 14, Pair(up=set_training_mode, down=drop_training_mode))
changed("BatchNormalization", 15, Pair(down=scale_in_type_of_data))
