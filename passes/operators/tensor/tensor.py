"""Casting, copying and joining tensors, and the operators of this family that only learned new types."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import elem_type_of
from opshift.passes.operators.shared.recipes import BFLOAT16, FLOAT8, carried, nonnegative_axis
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto

INTEGERS_AS_DOUBLE: dict[int, int] = dict.fromkeys(
    (T.BOOL, T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32), T.DOUBLE
)


# --- Cast, CastLike -----------------------------------------------------------------------------------------


@says("to was the name of a type and becomes its number.")
def type_name_to_number(node: Node) -> None:
    name = node.attributes["to"]
    if name.upper() not in T.DataType.keys():  # noqa: SIM118
        raise CannotConvert(node, f"to={name!r}; a name of TensorProto.DataType could be expressed")
    node.attributes["to"] = T.DataType.Value(name.upper())


@says("to was the number of a type and becomes its name.")
def type_number_to_name(node: Node) -> None:
    node.attributes["to"] = T.DataType.Name(node.attributes["to"])


@says("saturate did not exist; it only says how float8 types are cast to, which did not exist either.")
def without_saturate(node: Node) -> None:
    node.attributes.pop("saturate", None)


@says("round_mode did not exist; it only says how float8e8m0 is cast to, which did not exist either.")
def without_round_mode(node: Node) -> None:
    node.attributes.pop("round_mode", None)


@says("Strings were not allowed: a cast of strings to strings leaves them as they are.")
def without_strings(node: Node) -> Replacement:
    kinds = {node.scope.elem_type(name) for name in (node.input(0), *node.outputs)}
    if kinds == {T.STRING}:
        return str(node.build.Identity(node.input(0)))
    if T.STRING in kinds:
        raise CannotConvert(node, "no operator of opset 8 turns numbers into strings, or strings into numbers")
    return None


changed("Cast", 6, Pair(up=type_name_to_number, down=type_number_to_name))
changed("Cast", 9, Pair(down=without_strings))  # what the text adds on numbers, runtimes did before
same("Cast", 13, "bfloat16 came; the text now spells out the casts out of range, which runtimes did before")
changed(["Cast", "CastLike"], 19, Pair(down=without_saturate))
# For an infinity cast to a fnuz type the texts of 19..23 say NaN where 24 says the largest number. That is an
# erratum: no runtime ever made NaN of it.
changed(["Cast", "CastLike"], 24, Pair(down=without_round_mode))


@says("The type to cast to was given by another tensor and is written out.")
def cast_to_the_other_type(node: Node) -> str:
    kept = {name: node.attributes[name] for name in node.attributes}
    return str(node.build.Cast(node.input(0), to=node.elem_type(1), **kept))


changed("CastLike", 15, Pair(down=cast_to_the_other_type))
defined("CastLike", cast_to_the_other_type)


# --- Identity -----------------------------------------------------------------------------------------------


@says("Identity took no sequence: one is copied by inserting an element at the end and erasing it again.")
def copy_sequence(node: Node) -> Replacement:
    kind = node.scope.type(node.input(0))
    if kind is None:
        raise CannotConvert(node, f'the type of "{node.input(0)}" is unknown; a tensor could be expressed')
    if kind.WhichOneof("value") == "tensor_type":
        return None
    elem_type = elem_type_of(kind.sequence_type.elem_type)
    if not elem_type:
        raise CannotConvert(node, "no tensor; a tensor or a sequence of tensors could be expressed")
    element = node.build.constant("" if elem_type == T.STRING else 0, elem_type)
    return str(node.build.SequenceErase(node.build.SequenceInsert(node.input(0), element)))


changed("Identity", 14, Pair(down=copy_sequence))


# --- Concat -------------------------------------------------------------------------------------------------


@says("axis was 1 by default and is required.")
def axis_is_written(node: Node) -> None:
    if "axis" not in node.attributes:
        node.attributes["axis"] = 1


changed("Concat", 4, Pair(up=axis_is_written, down=carried(INTEGERS_AS_DOUBLE)))
changed("Concat", 11, Pair(down=nonnegative_axis(default=0)))


# --- Transpose ----------------------------------------------------------------------------------------------

changed("Transpose", 21, Pair(down=carried(FLOAT8)))
same(
    "Transpose",
    25,
    "int2 and uint2 came; the text now says that perm holds each axis once, which it always did",
)


# --- operators that only learned new types ---------------------------------------------------------------

changed(["ReverseSequence", "Unique"], 28, Pair(down=carried(BFLOAT16)))
changed("Where", 16, Pair(down=carried(BFLOAT16)))
changed("IsInf", 20, Pair(down=carried({**FLOAT8, **BFLOAT16, T.FLOAT16: T.FLOAT}, variable="T1")))
changed("IsNaN", 20, Pair(down=carried(FLOAT8, variable="T1")))
