"""What the schemas, and attributes that name a type, say of the types of a node's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from opshift.passes.model import schemas
from opshift.passes.model.messages import TensorProto, normalize_domain

T = TensorProto

ANY = "*"
"""The group of an input that takes several types, of which nothing else of the node depends."""


class Operand(NamedTuple):
    """The types that one input or output of an operator has.

    Attributes:
        group: operands of one group have the same element type; `ANY` for an input that stands alone.
        types: those that the schema takes, as it spells them.
        kind: the element type, where the schema takes one alone; else 0.
    """

    group: str
    types: frozenset[str]
    elem_type: int = 0


class Signature(NamedTuple):
    """The operands of an operator at an opset."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    variadic_input: bool
    variadic_output: bool

    def input(self, index: int) -> Operand | None:
        """The operand of an input; None where there is no such one."""
        return _at(self.inputs, index, self.variadic_input)

    def output(self, index: int) -> Operand | None:
        """The operand of an output; None where there is no such one."""
        return _at(self.outputs, index, self.variadic_output)


def _at(held: tuple[Operand, ...], index: int, variadic: bool) -> Operand | None:
    if index < len(held):
        return held[index]
    return held[-1] if held and variadic else None


TIED: Mapping[str, Mapping[str, str]] = {
    "Attention": {"T2": "T1", "U": "T1"},
    "BatchNormalization": {"T1": "T"},
    "Dropout": {"T1": "T"},
    "Pow": {"T1": "T"},
    "RMSNormalization": {"V": "T"},
    "SequenceInsert": {"S": "T"},
    "SequenceAt": {"S": "T"},
    "SequenceConstruct": {"S": "T"},
    "SplitToSequence": {"S": "T"},
    "ConcatFromSequence": {"S": "T"},
    "Optional": {"O": "V"},
    "OptionalGetElement": {"O": "V"},
}
"""Variables of schemas that stand for one element type, though the schemas do not say so, or that runtimes want alike:
a sequence and its elements, and the operands of arithmetic."""


class TypeAttribute(NamedTuple):
    """An attribute that names the type of an output; without it, the output has a type by default.

    `default` is that type; 0 where it is the one of the first input.
    """

    name: str
    default: int = T.FLOAT


ATTRIBUTES: Mapping[str, TypeAttribute] = {
    "Cast": TypeAttribute("to"),
    "Bernoulli": TypeAttribute("dtype", 0),
    "EyeLike": TypeAttribute("dtype", 0),
    "RandomNormalLike": TypeAttribute("dtype", 0),
    "RandomUniformLike": TypeAttribute("dtype", 0),
    "RandomNormal": TypeAttribute("dtype"),
    "RandomUniform": TypeAttribute("dtype"),
    "Multinomial": TypeAttribute("dtype", T.INT32),
    "SequenceEmpty": TypeAttribute("dtype"),
    "HannWindow": TypeAttribute("output_datatype"),
    "HammingWindow": TypeAttribute("output_datatype"),
    "BlackmanWindow": TypeAttribute("output_datatype"),
    "MelWeightMatrix": TypeAttribute("output_datatype"),
}
"""The operators whose first output has the type that an attribute names."""

STASHED = ("LayerNormalization",)
"""The operators whose further outputs have the type that `stash_type` names."""


@cache
def signature(domain: str, op: str, opset: int) -> Signature | None:
    """The operands of an operator; None for one that is not known."""
    domain = normalize_domain(domain)
    schema = schemas.schema(domain, op, opset)
    if schema is None and not domain:
        schema = schemas.schema(schemas.ONNXRUNTIME, op, 1)
    if schema is None:
        return None
    tied = TIED.get(op, {}) if not domain else {}
    attribute = None if domain else ATTRIBUTES.get(op)

    def operand(formal: schemas.Parameter, place: str) -> Operand:
        if len(formal.types) == 1:
            (only,) = formal.types
            return Operand("", formal.types, _elements(only))
        if formal.option == "Variadic" and not formal.homogeneous:
            return Operand(place, formal.types)
        return Operand(tied.get(formal.type, formal.type), formal.types)

    inputs = [operand(formal, "in") for formal in schema.inputs]
    outputs = [operand(formal, "out") for formal in schema.outputs]
    if attribute is not None:
        outputs[0] = outputs[0]._replace(group="=")
    if op == "DequantizeLinear" and not domain and schema.since >= 23:
        outputs[0] = outputs[0]._replace(group=inputs[1].group)  # `output_dtype` says otherwise, see `building`
    if op in STASHED:
        outputs[1:] = [each._replace(group="stash") for each in outputs[1:]]
    variadic = [bool(formals) and formals[-1].option == "Variadic" for formals in (schema.inputs, schema.outputs)]
    groups = [each.group for each in (*inputs, *outputs)]
    inputs = [
        each._replace(group=ANY) if groups.count(each.group) == 1 and each.group not in ("", "in") else each
        for each in inputs
    ]
    if variadic[0] and inputs[-1].group == ANY:
        inputs[-1] = inputs[-1]._replace(group="in")
    return Signature(tuple(inputs), tuple(outputs), variadic[0], variadic[1])


@cache
def _elements(text: str) -> int:
    from opshift.passes.model.types import ELEMENT_TYPES

    return ELEMENT_TYPES.get(text, 0)
