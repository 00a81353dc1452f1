"""Dropout: from training or not to a ratio that training may drop at."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import FLOAT8, from_the_caller, without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Dropped is_test of Dropout; replaced training by a random mask and a scale")
def drop_is_test(node: Node) -> Replacement:
    testing, ratio = node.attributes.pop("is_test", 0), node.attributes.get("ratio", 0.5)
    if testing or not ratio:
        return None
    result, mask = drop_at_random(node, node.build.constant(ratio, _width(node)))
    return [result, node.build.Cast(mask, to=node.elem_type())][: len(node.outputs)]


@says("Added is_test=1")
def set_is_test(node: Node) -> None:
    if node.is_used(1):
        raise CannotConvert(
            node,
            "the mask output is used, and Dropout below opset 7 makes no mask in inference",
            supported="only the first output",
        )
    node.attributes["is_test"] = 1


@says("Cast the mask of Dropout from bool to the type of the data")
def mask_from_bool(node: Node) -> Replacement:
    return _with_mask(node)


@says("Cast the mask of Dropout from the type of the data to bool")
def mask_to_bool(node: Node) -> Replacement:
    return _with_mask(node, T.BOOL)


def _with_mask(node: Node, elem_type: int = 0) -> Replacement:
    """The outputs with a mask of another type, of that of the data where none is named; none that nobody reads."""
    if not node.is_used(1):
        node.outputs = node.outputs[:1]
        return None
    result, mask = node.build.again(node.proto, node.inputs)
    return [result, node.build.Cast(mask, to=elem_type or node.elem_type())]


@says("Moved ratio of Dropout from attribute to input")
def ratio_to_input(node: Node) -> None:
    held = node.attributes.find("ratio")
    if held is None:
        return
    if held.ref_attr_name:
        node.set_input(1, from_the_caller(node, held))
    elif 0 <= held.f < 1:  # the text says so from 12 on; nothing hangs on it in inference
        node.set_input(1, node.build.constant(held.f, T.FLOAT, hint="ratio"))
    del node.attributes["ratio"]


@says("Moved ratio of Dropout from input to attribute; replaced training by a random mask and a scale")
def ratio_to_attribute(node: Node) -> Replacement:
    ratio = node.scope.array(node.input(1)) if node.input(1) else None
    training = node.scope.array(node.input(2)) if node.input(2) else None
    if node.input(2) and (ratio is None or ratio.any()) and (training is None or training.any()):
        return drop_at_random(node, _ratio(node, always=training is not None))[: len(node.outputs)]
    data, build = node.input(0), node.build
    node.attributes.pop("seed", None)
    if ratio is not None:
        node.attributes["ratio"] = float(ratio.reshape(()))
    if not node.is_used(1):
        node.inputs, node.outputs = [data], node.outputs[:1]
        return None
    kept = build.Expand(build.constant(True, T.BOOL), build.Shape(data))
    return [build.Dropout(data, ratio=node.attributes.get("ratio")), kept]


def _ratio(node: Node, *, always: bool) -> str:
    """The ratio at which elements are dropped: 0 where training_mode does not hold."""
    build, wide = node.build, _width(node)
    ratio = node.input(1) or build.constant(0.5, wide)
    ratio = build.Cast(ratio, to=wide) if node.input(1) and node.elem_type(1) != wide else ratio
    return ratio if always else str(build.Mul(ratio, build.Cast(node.input(2), to=wide)))


def drop_at_random(node: Node, ratio: str) -> list[str]:
    """x / (1 - ratio) * mask, and the mask: where a number drawn from 0 to 1 is not below the ratio."""
    node.close("draws other random numbers from the same distribution")
    build, wide, elem_type, seed = node.build, _width(node), node.elem_type(), node.attributes.get("seed")
    drawn = build.RandomUniformLike(node.input(0), dtype=wide, seed=None if seed is None else float(seed))
    mask = build.Not(build.Less(drawn, ratio))
    data = node.input(0) if elem_type == wide else build.Cast(node.input(0), to=wide)
    scaled = build.Div(data, build.Sub(build.constant(1, wide), ratio))
    result = build.Mul(scaled, build.Cast(mask, to=wide))
    return [result if elem_type == wide else build.Cast(result, to=elem_type), mask]


def _width(node: Node) -> int:
    """The type to draw and to scale in."""
    return T.DOUBLE if node.elem_type() == T.DOUBLE else T.FLOAT


@says("Cast float8 and bfloat16 to a type that older Dropout accepts, and back")
def narrow_dropout(node: Node) -> Replacement:
    build, elem_type = node.build, node.elem_type()
    if node.input(1) and node.elem_type(1) in (T.BFLOAT16, *FLOAT8):
        node.set_input(1, build.Cast(node.input(1), to=T.FLOAT))
    if elem_type not in FLOAT8:
        return None
    results = build.again(node.proto, [build.Cast(node.input(0), to=T.FLOAT), *node.inputs[1:]])
    kept, *mask = [results] if isinstance(results, str) else results
    return [build.Cast(kept, to=elem_type, saturate=0), *mask]


@says("Replaced Dropout by its input, or by a random mask and a scale where training_mode is set")
def pass_on(node: Node) -> list[str]:
    build, data = node.build, node.input(0)
    training = node.scope.array(node.input(2)) if node.input(2) else None
    if node.input(2) and (training is None or training.any()):
        return drop_at_random(node, _ratio(node, always=training is not None))[: len(node.outputs)]
    mask = build.Expand(build.constant(True, T.BOOL), build.Shape(data)) if node.is_used(1) else ""
    return [data, mask][: len(node.outputs)]


defined("Dropout", pass_on, opset=13)
changed("Dropout", 6, Pair(up=without_hint))
changed("Dropout", 7, Pair(up=drop_is_test, down=set_is_test))
changed("Dropout", 10, Pair(up=mask_from_bool, down=mask_to_bool))
changed("Dropout", 12, Pair(up=ratio_to_input, down=ratio_to_attribute))
changed("Dropout", 22, Pair(down=narrow_dropout))
