"""ai.onnx.ml: LabelEncoder began with strings and their positions, and came to take pairs of any types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.operators.shared.classical.lookups import OPSET, look_up
from opshift.passes.operators.shared.recipes import categories
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
ML = "ai.onnx.ml"

# The ends of the names of LabelEncoder's attributes, and the defaults that its schemas give.
LISTS: dict[str, int] = {"strings": T.STRING, "int64s": T.INT64, "floats": T.FLOAT}
NAMES = {elem_type: name for name, elem_type in LISTS.items()}
MISSING: dict[int, Any] = {
    T.STRING: "_Unused", T.INT64: -1, T.INT32: -1, T.INT16: -1, T.FLOAT: -0.0, T.DOUBLE: -0.0,
}  # fmt: skip


@says("Replaced classes_strings of LabelEncoder by pairs of keys and values")
def classes_to_pairs(node: Node) -> None:
    classes = node.attributes.pop("classes_strings", [])
    positions = list(range(len(classes)))
    if not classes:
        raise CannotConvert(node, "attribute classes_strings is missing")
    if node.elem_type() == T.STRING:
        _check_keys(node, classes)
        _set_pairs(node, T.STRING, classes, T.INT64, positions, _default(node, T.INT64))
    else:
        _set_pairs(node, T.INT64, positions, T.STRING, classes, _default(node, T.STRING))


@says("Replaced LabelEncoder by CategoryMapper, or by a lookup table for other types of keys and values")
def pairs_to_categories(node: Node) -> Replacement:
    (key_kind, keys), (value_kind, values) = _pairs(node)
    default = _default(node, value_kind)
    if {key_kind, value_kind} == {T.STRING, T.INT64}:
        strings, numbers = (keys, values) if key_kind == T.STRING else (values, keys)
        if sorted(numbers) != list(range(len(numbers))):
            return categories(node, node.input(0), strings, numbers, default)
        _clear(node)
        node.attributes["classes_strings"] = [text for _, text in sorted(zip(numbers, strings, strict=True))]
        node.attributes["default_int64" if value_kind == T.INT64 else "default_string"] = default
        return None
    if key_kind == T.FLOAT:
        raise CannotConvert(node, "the keys are floats", supported="strings and int64")
    index = node.input(0)
    if key_kind == T.INT64:
        texts = [str(position) for position in range(len(keys))]
        index, keys = categories(node, index, texts, keys, ""), texts
    index = categories(node, index, keys, range(len(keys)), len(keys))
    return _entry(node, [*values, default], value_kind, index)


def _entry(node: Node, table: list[Any], elem_type: int, index: str) -> str:
    return str(node.build.Gather(node.build.constant(table, elem_type), index, axis=0))


@says("Checked that no key of LabelEncoder is repeated or NaN")
def unmistakable_keys(node: Node) -> None:
    _pairs(node)


@says("Moved keys and values of LabelEncoder from tensors to lists, or to a table")
def tensors_to_lists(node: Node) -> Replacement:
    (key_kind, keys), (value_kind, values) = _pairs(node)
    if not any(name.endswith("_tensor") for name in node.attributes):
        return None
    default = _default(node, value_kind)
    inputs = node.inputs
    if key_kind in (T.INT32, T.INT16):
        inputs, key_kind = [node.build.Cast(inputs[0], to=T.INT64)], T.INT64
    if key_kind not in NAMES:
        raise CannotConvert(node, "the keys are doubles", supported="floats, integers and strings")
    if value_kind in NAMES:
        _set_pairs(node, key_kind, keys, value_kind, values, default)
        node.inputs = inputs
        return None
    _set_pairs(node, key_kind, keys, T.INT64, range(len(keys)), len(keys))
    return _entry(node, [*values, default], value_kind, str(node.build.again(node.proto, inputs)))


Column = tuple[int, list[Any]]


def _pairs(node: Node) -> tuple[Column, Column]:
    keys, values = _column(node, "keys"), _column(node, "values")
    if len(keys[1]) != len(values[1]):
        raise CannotConvert(node, f"there are {len(keys[1])} keys, but {len(values[1])} values")
    _check_keys(node, keys[1])
    return keys, values


def _column(node: Node, side: str) -> Column:
    """The element type and the elements of keys_* or values_*."""
    given = [name for name in node.attributes if name.startswith(f"{side}_")]
    if len(given) != 1:
        raise CannotConvert(
            node,
            f"{len(given)} of the attributes {side}_* are set, and LabelEncoder needs one",
            supported="exactly one",
        )
    held = node.attributes[given[0]]
    if isinstance(held, TensorProto):
        return held.data_type, _elements(node, held)
    return LISTS[given[0].removeprefix(f"{side}_")], held


def _elements(node: Node, held: TensorProto) -> list[Any]:
    values = tensors.array(held)
    if values is None:
        raise CannotConvert(node, "a tensor in the attributes of LabelEncoder is empty")
    return [v.decode() if isinstance(v, bytes) else v for v in values.ravel().tolist()]


def _check_keys(node: Node, keys: list[Any]) -> None:
    if len(set(keys)) != len(keys):
        raise CannotConvert(
            node, "a key is repeated, and runtimes disagree which entry counts", supported="unique keys"
        )
    if any(key != key for key in keys):
        raise CannotConvert(node, "a key is NaN, and runtimes disagree what it matches", supported="other keys")


def _default(node: Node, elem_type: int) -> Any:
    """What a key that is not found becomes."""
    held = node.attributes.get("default_tensor")
    if held is not None:
        elements = _elements(node, held)
        if len(elements) != 1:
            raise CannotConvert(node, f"default_tensor has {len(elements)} elements", supported="1 element")
        return elements[0]
    name = f"default_{NAMES[elem_type].removesuffix('s')}" if elem_type in NAMES else ""
    return node.attributes.get(name, MISSING[elem_type])


def _set_pairs(
    node: Node, key_kind: int, keys: Sequence[Any], value_kind: int, values: Sequence[Any], default: Any
) -> None:
    _clear(node)
    node.attributes[f"keys_{NAMES[key_kind]}"] = list(keys)
    node.attributes[f"values_{NAMES[value_kind]}"] = list(values)
    node.attributes[f"default_{NAMES[value_kind].removesuffix('s')}"] = default


def _clear(node: Node) -> None:
    for name in list(node.attributes):
        if name.startswith(("keys_", "values_", "default_")):
            del node.attributes[name]


@says("Replaced LabelEncoder by Gather from a table, for strings after a comparison with each key")
def looked_up_in_table(node: Node) -> str:
    if node.opset < 2:
        classes = node.attributes.get("classes_strings", [])
        if not classes:
            raise fault("classes_strings is missing", node.proto)
        if node.elem_type() == T.STRING:
            places = {name: place for place, name in enumerate(classes)}
            return look_up(node, list(places), T.STRING, list(places.values()), T.INT64, _default(node, T.INT64))
        return look_up(node, range(len(classes)), T.INT64, classes, T.STRING, _default(node, T.STRING))
    (key_kind, keys), (value_kind, values) = _column(node, "keys"), _column(node, "values")
    if len(keys) != len(values) or not keys:
        raise fault(f"{len(keys)} keys for {len(values)} values", node.proto)
    pairs: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        name = "NaN" if key != key else key
        if pairs.setdefault(name, value) != value:
            raise CannotConvert(
                node,
                f"key {key!r} is repeated: ONNX takes the last entry, onnxruntime the first",
                supported="unique keys",
            )
    if node.opset < 4:  # where a NaN was found by its bits, which the kernel never does
        pairs.pop("NaN", None) if key_kind == T.FLOAT else None
    names = [float("nan") if name == "NaN" and key_kind != T.STRING else name for name in pairs]
    return look_up(node, names, key_kind, list(pairs.values()), value_kind, _default(node, value_kind))


defined("LabelEncoder", looked_up_in_table, opset=OPSET, domain=ML)
changed("LabelEncoder", 2, Pair(up=classes_to_pairs, down=pairs_to_categories), domain=ML)
changed("LabelEncoder", 4, Pair(up=unmistakable_keys, down=tensors_to_lists), domain=ML)
