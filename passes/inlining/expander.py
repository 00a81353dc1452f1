"""Expansion: an operator becomes its definition, stamped where it stood and reduced to what this call needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_type_of, make_attribute
from opshift.passes.model.messages import AttributeProto, FunctionProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Op, subgraphs
from opshift.passes.model.types import elem_type_of, plain_type, type_text
from opshift.passes.rewrite.builder import Builder

from opshift import functions

if TYPE_CHECKING:
    from opshift.passes.analysis.scope import Scope
    from opshift.passes.rewrite.node import Node


class Expander:
    """Knows what is to be expanded: `ops` on request, `local` model functions always, anything else on need."""

    def __init__(self, ops: frozenset[Op] = frozenset(), local: Mapping[Op, list[FunctionProto]] | None = None):
        self._ops = ops
        self._local = local or {}

    def wants(self, domain: str, op: str) -> bool:
        """Whether the operator must go even where the target has it."""
        return (domain, op) in self._ops or self.is_local(domain, op)

    def is_local(self, domain: str, op: str) -> bool:
        """Whether the operator is a function of the model that must go."""
        return (domain, op) in self._local

    def inlines(self, domain: str, op: str) -> bool:
        """Whether the operator goes and is none of ONNX's own, but a function."""
        return self.wants(domain, op) and (self.is_local(domain, op) or not schemas.is_onnx_domain(domain))

    def opset(self, proto: NodeProto, scope: Scope, version: int) -> int | None:
        """The opset at which a node can be expanded; None if there is no definition."""
        op = _op(proto)
        if op in self._local:
            return version
        if not functions.has_definition(*op):
            return None
        form = functions.find(*op, _elem_type(proto, scope))
        return None if form is None else form.version(version)

    def misfit(self, node: Node) -> str:
        """Why the operator's definitions do not take this call; empty for an operator that has none."""
        if not functions.has_definition(*_op(node.proto)):
            return ""
        data = node.input(0)
        value_type = node.scope.type(data)
        if value_type is None or not elem_type_of(value_type):
            return node.unknown("type", data).why
        return f"its definition does not accept {plain_type(type_text(value_type) or data)}"

    def expand(self, node: Node) -> tuple[list[NodeProto], dict[str, int], str, str]:
        """The nodes that take over, the versions they are written at, the grade, and a sentence.

        Raises:
            CannotConvert: the definition does not take this call.
        """
        op = _op(node.proto)
        if op in self._local:
            return self._inline(node, self._local[op])
        form = functions.find(*op, _elem_type(node.proto, node.scope))
        if form is None:
            raise CannotConvert(node, "opshift has no definition of this operator for this element type")
        if node.schema is None:
            _check_call(node, form)
        _check_choices(node, form)
        node.build.opset = form.opset
        nodes = instantiate(node, form)
        return nodes, {"": form.opset}, form.grade, f"Replaced {node.op_type} by {_list_operators(nodes)}"

    def _inline(self, node: Node, overloads: list[FunctionProto]) -> tuple[list[NodeProto], dict[str, int], str, str]:
        wanted = getattr(node.proto, "overload", "")
        body = next((f for f in overloads if getattr(f, "overload", "") == wanted), None)
        if body is None:
            raise CannotConvert(node, f"the model has no function of this name with overload {wanted!r}")
        imports = {normalize_domain(i.domain): i.version for i in body.opset_import}
        if any(True for _ in subgraphs(node.proto)) and imports.get("", node.scope.opset) != node.scope.opset:
            raise CannotConvert(
                node, "the call passes a subgraph into a function that is written at another opset than the model"
            )
        nodes = _stamp(node, body, node.inputs, node.outputs)
        if functions.has_definition(*_op(node.proto)):  # a definition that the file carries along
            nodes = _reduce(nodes, node, imports.get("", 1))
        for made in nodes:
            node.scope.record(made, imports.get("", 1))
        return nodes, imports, "exact", "Inlined a model-local function"


def instantiate(node: Node, form: functions.Form) -> list[NodeProto]:
    """The definition with the call's inputs, outputs and attributes bound, computed in the form's carrier type.

    The nodes are written at `node.build.opset` and reduced to what this call needs.
    """
    inputs, outputs, build = node.inputs, node.outputs, node.build
    if not form.carrier:
        return _reduce(_stamp(node, form.body, inputs, outputs), node, build.opset)
    narrow = Builder(node.scope, build.opset, node.proto)
    for index in form.carried_inputs:
        if node.input(index):
            inputs[index] = narrow.Cast(inputs[index], to=form.carrier)
    wide = [node.scope.context.names.fresh(f"{name}/wide") if name else "" for name in outputs]
    nodes = [*narrow.nodes, *_stamp(node, form.body, inputs, wide)]
    for inner, output in zip(wide, outputs, strict=True):
        back = NodeProto(op_type="Cast", input=[inner], output=[output])
        back.attribute.append(make_attribute("to", form.elem_type))
        nodes += [back] if output else []
    return _reduce(nodes, node, build.opset)


def _reduce(nodes: list[NodeProto], node: Node, opset: int) -> list[NodeProto]:
    from opshift.passes.inlining.specialize import specialize_stamped

    return specialize_stamped(nodes, node, opset)


def _stamp(node: Node, body: FunctionProto, inputs: list[str], outputs: list[str]) -> list[NodeProto]:
    from opshift.passes.inlining.stamp import stamp

    if len(inputs) > len(body.input) or len(outputs) > len(body.output):
        raise CannotConvert(node, f"the call has more inputs or outputs than the function {body.name} declares")
    given: dict[str, AttributeProto] = {a.name: a for a in node.proto.attribute}
    schema = node.schema
    defaults = {n: a.default for n, a in schema.attributes.items() if a.default} if schema else {}
    stem = next(filter(None, node.outputs), node.op_type)

    def fresh(name: str) -> str:
        return node.scope.context.names.fresh(f"{stem}/{name}")

    return stamp(body, inputs, outputs, {**defaults, **given}, fresh)


def _check_call(node: Node, form: functions.Form) -> None:
    """What a schema would check: that inputs and attributes are there, and are what the definition declares."""
    for index, formal in enumerate(form.body.input):
        if not node.input(index):
            raise CannotConvert(node, f"input {formal} is missing, which the operator requires")
    for name in form.required:
        if name not in node.attributes:
            raise CannotConvert(node, f"attribute {name} is missing, which the operator requires")
    for name in node.attributes:
        attribute_type = form.attributes.get(name)
        if attribute_type is None:
            declared = ", ".join(form.attributes)
            raise CannotConvert(node, f"attribute {name} does not exist", supported=f"{declared}")
        found = attribute_type_of(node.proto.attribute[list(node.attributes).index(name)])
        if found != attribute_type:
            spelled = AttributeProto.AttributeType.Name
            raise CannotConvert(node, f"attribute {name} is {spelled(found)}", supported=f"{spelled(attribute_type)}")


def _check_choices(node: Node, form: functions.Form) -> None:
    """A schema does not say which texts an attribute may hold."""
    for name, texts in form.choices.items():
        if name in node.attributes and (value := node.attributes[name]) not in texts:
            raise CannotConvert(node, f"{name}={value!r}", supported=f"{' or '.join(texts)}")


def _op(proto: NodeProto) -> Op:
    return normalize_domain(proto.domain), proto.op_type


def _elem_type(proto: NodeProto, scope: Scope) -> int:
    return scope.elem_type(proto.input[0]) if proto.input else 0


def _list_operators(nodes: list[NodeProto]) -> str:
    names = [node.op_type for node in nodes]
    return ", ".join(names) if len(names) <= 8 else f"{len(names)} nodes"
