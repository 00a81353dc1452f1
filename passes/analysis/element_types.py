"""Find element types by schemas alone: inputs and outputs with the same type variable have the same type.

This answers most questions about types, so that types of the whole model need not be inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cache

from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.model import schemas, tensors
from opshift.passes.model.messages import AttributeProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.types import ELEMENT_TYPES

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def elem_type(scope: KnownBody, name: str) -> int:
    """Find the element type of a tensor; 0 if declared types and schemas do not tell it, or if it is no tensor."""
    found = 0
    passed: dict[tuple[KnownBody, str], None] = {}
    owner: KnownBody | None = scope.owner(name)
    while owner is not None and (owner, name) not in passed:
        if name in owner.elem_types:
            found = owner.elem_types[name]
            break
        passed[owner, name] = None
        found = owner.stated_elem_type(name)
        maker = None if found else owner.source_of(name)
        if maker is None:
            break
        found, name = find_output_type(*maker, name, owner)
        if found or not name:
            break
        owner = owner.owner(name)
    for via, value in passed:
        via.elem_types[value] = found
    return found


def spread(scope: KnownBody, nodes: Sequence[NodeProto], stated: Container[str]) -> None:
    """Find the types of the outputs of all nodes of a body, which is faster than `elem_type` for each.

    Values in `stated` are left out, and values whose type depends on these.
    """
    known, made_here = scope.elem_types, set[str]()
    typing: dict[str, tuple[int, int]] = {}
    for node in nodes:
        op, made, read = node.op_type, node.output, node.input
        made_here.update(made)
        if op not in typing:
            fixed, alike = (0, ()) if op in _BY_ATTRIBUTE else _typing("", op, scope.opset, 0)
            typing[op] = fixed, alike[0] if alike else -1
        elem_type, like = typing[op]
        if normalize_domain(node.domain) or not made or made[0] in stated:
            continue
        if not elem_type and 0 <= like < len(read) and (name := read[like]):
            elem_type = known.get(name) or (0 if name in made_here else scope.elem_type(name))
        if elem_type:
            known[made[0]] = elem_type


_BY_ATTRIBUTE = frozenset(("Cast", "Constant"))


def find_output_type(node: NodeProto, opset: int, output: str, scope: KnownBody) -> tuple[int, str]:
    """Find the element type of an output, or an input of the same type; (0, "") if the schema tells neither."""
    domain, op, outputs, inputs = normalize_domain(node.domain), node.op_type, node.output, node.input
    if op == "Cast" and not domain:
        return next((a.i for a in node.attribute if a.name == "to"), 0), ""
    if op == "Constant" and not domain:
        held = tensors.of_constant(node)
        return (held.data_type if held is not None else 0), ""
    if domain in schemas.VENDORS and (domain, op) in scope.context.local:
        return 0, ""
    at = 0 if outputs[0] == output else list(outputs).index(output)
    if not domain and schemas.since(domain, op, opset) is None:
        domain = schemas.ONNXRUNTIME
    if domain in schemas.VENDORS and (op, at) in _OF_VENDORS:
        return _OF_VENDORS[op, at](node, scope)
    fixed, alike = _typing(domain, op, opset, at)
    return fixed, next((name for i in alike if i < len(inputs) and (name := inputs[i])), "")


def _of_attribute(name: str, default: int) -> Rule:
    """Make a rule: an attribute names the type."""
    return lambda node, _: (next((a.i for a in node.attribute if a.name == name), default), "")


def _of_sums(node: NodeProto, scope: KnownBody) -> tuple[int, str]:
    """A rule: sums of integers have 32 bits, with the sign of the integers."""
    return _SUMS.get(scope.elem_type(node.input[0]), 0), ""


def _of_zero_point(node: NodeProto, _: KnownBody) -> tuple[int, str]:
    """A rule: the type of the zero point; without one, the output is float32."""
    name = node.input[_ZERO_POINT] if len(node.input) > _ZERO_POINT else ""
    return (0, name) if name else (TensorProto.FLOAT, "")


Rule = Callable[[NodeProto, KnownBody], tuple[int, str]]
_ZERO_POINT = 8  # the last input of QGemm
_SUMS: dict[int, int] = {
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.UINT32,
    TensorProto.UINT16: TensorProto.UINT32,
}
_OF_VENDORS: dict[tuple[str, int], Rule] = {
    ("GatherPacked", 0): _of_attribute("output_dtype", TensorProto.BFLOAT16),
    ("GridSample", 0): lambda node, _: (0, node.input[0]),
    ("LayerNormalization", 1): _of_attribute("stash_type", TensorProto.FLOAT),
    ("LayerNormalization", 2): _of_attribute("stash_type", TensorProto.FLOAT),
    ("MatMulInteger16", 0): _of_sums,
    ("QGemm", 0): _of_zero_point,
    ("ReduceSumInteger", 0): _of_sums,
    ("SimplifiedLayerNormalization", 1): _of_attribute("stash_type", TensorProto.FLOAT),
}
"""Rules for outputs of vendor operators whose schema does not tell the type, by operator and place of the output."""


@cache
def _typing(domain: str, op: str, opset: int, output: int) -> tuple[int, tuple[int, ...]]:
    """Find the only element type that a schema allows for an output, and the inputs with the same type variable."""
    schema = schemas.schema(domain, op, opset)
    formal = None if schema is None else schema.output(output)
    if schema is None or formal is None or any(a.type in _GRAPHS for a in schema.attributes.values()):
        return 0, ()
    alike = tuple(i for i, other in enumerate(schema.inputs) if other.type == formal.type and other.homogeneous)
    only = next(iter(formal.types)) if len(formal.types) == 1 else ""
    return ELEMENT_TYPES.get(only, 0), alike
