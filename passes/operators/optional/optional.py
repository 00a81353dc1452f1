"""Optional values: tensors and sequences may now stand where an optional is asked for."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import type_text
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Removed OptionalGetElement of a value that is not an optional")
def element_of_itself(node: Node) -> Replacement:
    return None if _is_optional(node) else str(node.build.Identity(node.input(0)))


@says("Replaced OptionalHasElement of a value that is not an optional by a constant")
def present_or_not(node: Node) -> Replacement:
    if node.input(0) and _is_optional(node):
        return None
    return node.build.constant(bool(node.input(0)), T.BOOL)


def _is_optional(node: Node) -> bool:
    value_type = node.scope.type(node.input(0))
    text = value_type and type_text(value_type)
    if not text:
        raise node.unknown("type", node.input(0))
    return text.startswith("optional")


# --- 15: before optionals existed ---------------------------------------------------------------------------


@says("Removed Optional, and used its input directly")
def input_held(node: Node) -> str:
    node.scope.dissolve(node.outputs[0], node.inputs)
    return ""


@says("Removed OptionalGetElement, and used the element directly")
def element_held(node: Node) -> str:
    held = _elements(node)
    if not held:
        raise CannotConvert(node, "the optional is empty", supported="an optional that holds an element")
    return held[0]


@says("Replaced OptionalHasElement by a constant")
def whether_one_is_held(node: Node) -> str:
    return node.build.constant(bool(_elements(node)), T.BOOL)


def _elements(node: Node) -> list[str]:
    found = node.scope.elements(node.input(0))
    if found is None:
        raise CannotConvert(
            node,
            f'the optional "{node.input(0)}" is dynamic: only a run tells whether it is empty',
            supported="an optional that the same graph builds",
        )
    return found


changed("Optional", 15, Pair(down=input_held))
changed("OptionalGetElement", 15, Pair(down=element_held))
changed("OptionalHasElement", 15, Pair(down=whether_one_is_held))
for version in (18, 28):
    changed("OptionalGetElement", version, Pair(down=element_of_itself))
    changed("OptionalHasElement", version, Pair(down=present_or_not))
