"""The types of a model as variables: one for each group of operands of a node that have one element type.

A value has the variable of the operand that makes it. Where the variable of an operand that reads it comes out
otherwise, there is a cast. Constants have no variable: they are converted.

Functions are looked at call by call, as if they were inlined, so that one call may be narrow and another wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from opshift.passes.analysis.callers import key_of
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, graphless, results, subgraphs
from opshift.passes.model.types import dims_of, element_name, has_shape
from opshift.passes.types.formats import FORMATS, is_narrower
from opshift.passes.types.operands import ANY, ATTRIBUTES, STASHED, Signature, TypeAttribute, signature
from opshift.passes.types.reasons import NONE, Reason
from opshift.passes.types.wanted import KEEP, Types

T = TensorProto

WIDE = 0
"""The variable of what keeps its type whatever else happens."""
FREE = -1
"""Stands for the variable of what may have either type: constants, and operands that take both."""

_OVERRIDABLE_SINCE = 4
"""The IR version from which on an initializer that is also an input is a default."""
_MANY = 8
"""Initializers that are also inputs, from which on they are what exporters wrote once, and no defaults."""
_MOST_NODES = 50_000
"""Nodes in calls of functions that are looked at one by one; beyond, calls with the same types share their types."""

TENSOR = "tensor({})"


class Value:
    """A value of one body, whose element type may change."""

    __slots__ = ("elem_type", "form", "forms", "maker", "name", "place", "readers", "target", "tensor", "variable")

    def __init__(self, name: str, place: Place, elem_type: int, form: str, target: str, variable: int, maker: int = -1):
        self.name = name
        self.place = place
        self.elem_type = elem_type
        self.form = form
        self.target = target
        """The type that it would have, as schemas spell it; empty where that does not change."""
        self.variable = variable
        self.maker = maker
        """The index of the node that makes it; -1 for what a body is given."""
        self.tensor: TensorProto | None = None
        self.forms: dict[tuple[bool, float], str] = {}
        """The names under which it is read, by whether it is narrow there, and what limits it; its own without any."""
        self.readers: list[tuple[Place, int, int]] = []
        """Where it is read: the body, the index of the node (-1 for the body's outputs), and which input it is."""


class Place:
    """One body, in one call of its function."""

    def __init__(self, body: Body, opset: Mapping[str, int], parent: Place | None, bound: Mapping[str, AttributeProto]):
        self.body = body
        self.opsets = opset
        self.parent = parent
        self.bound = bound
        self.values: dict[str, Value] = {}
        self.nodes: list[NodeProto] = []
        self.ops: list[str] = []
        """The operator of each node, as users write it: those of the default domain by their name alone."""
        self.inputs: list[list[str]] = []
        self.outputs: list[list[str]] = []
        self.reads: list[list[int]] = []
        """The variable of each input of each node."""
        self.groups: list[dict[str, int]] = []
        """The variables of each node by group of operands."""
        self.output_reads: list[int] = []
        self.inner: dict[tuple[int, str, int], Place] = {}
        self.holding: set[int] = set()
        """The nodes that hold bodies."""
        self.given: dict[str, Value] = {}
        """The arguments of a call, by the names that the function gives them."""
        self.calls: dict[int, Place] = {}
        self.absent: frozenset[str] = parent.absent if parent is not None else frozenset()
        """The arguments that a call leaves out."""

    @property
    def graph(self) -> GraphProto:
        """The body in an attribute of a node, or that of the model."""
        assert isinstance(self.body, GraphProto), "it is not a function"
        return self.body

    def find(self, name: str) -> Value | None:
        """The value that a name means here."""
        place: Place | None = self
        while place is not None:
            if name in place.values:
                return place.values[name]
            place = place.parent
        return None

    def attribute(self, node: NodeProto, name: str) -> AttributeProto | None:
        """An attribute of a node, as the call of the function binds it."""
        for attribute in node.attribute:
            if attribute.name == name:
                return self.bound.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        return None

    def value_of(self, node: NodeProto, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        held = self.attribute(node, name)
        return default if held is None else attribute_value(held)


class Kind(NamedTuple):
    """What is known of all nodes of a body that call one operator.

    Attributes:
        op: the operator, as users write it.
        signature: what its schema says; None without one.
        varies: whether each node has to be looked at: calls of functions, constants, what may hold graphs.
        named: the attribute that names the type of the first output.
        follows: whether the first output has the type of an input of its group.
    """

    op: str
    signature: Signature | None
    varies: bool
    named: TypeAttribute | None
    follows: bool


class Owner(NamedTuple):
    """The node that a variable belongs to; `node` is -1 for what a body is given."""

    place: Place
    node: int


class Problem:
    """The variables of a model, what ties them together, and why some of them stay as they are."""

    def __init__(self, model: ModelProto, wanted: Types):
        self.model = model
        self.wanted = wanted
        self.elem_types: list[int] = [0]
        self.owners: list[Owner | None] = [None]
        self.reasons = [Reason("it keeps its type")]
        self.ties: list[tuple[int, int]] = []
        self.places: list[Place] = []
        self.constants: list[Value] = []
        self._functions = {key_of(function): function for function in model.functions}
        self._by_op = {(key[0], key[1]): function for key, function in self._functions.items()}
        self._shared: dict[object, Place] = {}
        self._targets: dict[tuple[int, str], str] = {}
        self._counted = 0
        self._declared: dict[str, TypeProto] | None = None
        self.main = self._main()

    # --- variables ----------------------------------------------------------------------------------------------

    def variable(self, elem_type: int, owner: Owner | None) -> int:
        """A new variable for a type that may change."""
        self.elem_types.append(elem_type)
        self.owners.append(owner)
        self.reasons.append(NONE)
        return len(self.elem_types) - 1

    def stay(self, variable: int, why: str) -> None:
        """Let what a variable stands for keep its type; the first reason is the one that is told."""
        if variable > 0 and not self.reasons[variable]:
            self.reasons[variable] = why if isinstance(why, Reason) else Reason(why)

    def moves(self, elem_type: int) -> bool:
        """Whether a type may become another one."""
        return elem_type in self.wanted.mapping

    def _target(self, elem_type: int, form: str) -> str:
        reached = self.wanted.mapping.get(elem_type)
        self._targets[elem_type, form] = target = form.format(element_name(reached)) if reached else ""
        return target

    def declared_sizes(self, name: str) -> list[int | str | None] | None:
        """The sizes that the model declares of a value of the main graph, which is quicker than to infer them."""
        if self._declared is None:
            graph = self.model.graph
            self._declared = {each.name: each.type for each in (*graph.input, *graph.output, *graph.value_info)}
        named = self._declared.get(name)
        return list(dims_of(named)) if named is not None and has_shape(named) else None

    def values(self) -> Iterator[Value]:
        """All values whose types may change."""
        for place in self.places:
            yield from place.values.values()

    # --- bodies -------------------------------------------------------------------------------------------------

    def _main(self) -> Place:
        graph = self.model.graph
        place = Place(graph, opsets(self.model), None, {})
        held, defaults = self._weights(), {tensor.name for tensor in graph.initializer}
        for value in graph.input:
            if value.name in held:
                continue
            elem_type, form = describe_type(value.type)
            if self.moves(elem_type):
                variable = WIDE if value.name in defaults else self._outside(elem_type, value.name, place)
                self._add(place, value.name, elem_type, form, variable)
            elif elem_type:
                self._add(place, value.name, elem_type, form, FREE)
        self._fill(place)
        for value in graph.output:
            found = place.find(value.name)
            if found is None or not self.moves(found.elem_type):
                place.output_reads.append(FREE)
                continue
            variable = self._outside(found.elem_type, value.name, place)
            self._read(found, variable, place, -1, len(place.output_reads))
            place.output_reads.append(variable)
        return place

    def _weights(self) -> set[str]:
        """The initializers that nobody gives other values to: those that are also inputs, if all or most of them are.

        Before IR version 4 all had to be, and exporters kept to that. A few of them are defaults of inputs.
        """
        graph = self.model.graph
        names = {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
        inputs = {value.name for value in graph.input}
        both = names & inputs
        many = self.model.ir_version < _OVERRIDABLE_SINCE or (len(both) >= _MANY and 2 * len(both) > len(names))
        return names if many else names - both

    def _outside(self, elem_type: int, name: str, place: Place) -> int:
        """The variable of an input or an output of the model."""
        narrow = self.wanted.interface != KEEP
        if name in self.wanted.at:
            narrow = self.wanted.at[name] == self.wanted.mapping[elem_type]
        return self.variable(elem_type, Owner(place, -1)) if narrow else WIDE

    def _add(self, place: Place, name: str, elem_type: int, form: str, variable: int, maker: int = -1) -> Value:
        target = self._targets.get((elem_type, form))
        target = self._target(elem_type, form) if target is None else target
        value = place.values[name] = Value(name, place, elem_type, form, target, variable, maker)
        return value

    def _add_constant(self, place: Place, tensor: TensorProto, name: str, maker: int = -1) -> None:
        value = self._add(place, name, tensor.data_type, TENSOR, FREE, maker)
        value.tensor = tensor
        self.constants.append(value)

    def _read(self, value: Value, variable: int, place: Place, node: int, index: int) -> None:
        value.readers.append((place, node, index))
        self._tie(value, variable)

    def _tie(self, value: Value, variable: int) -> None:
        """Let a sequence be read as it is: no cast takes one."""
        if value.form != TENSOR and variable != FREE and value.variable != FREE and self.moves(value.elem_type):
            self.ties.append((value.variable, variable))

    def _fill(self, place: Place) -> None:
        """Read the constants and the nodes of a body."""
        body = place.body
        self.places.append(place)
        if isinstance(body, GraphProto):
            for tensor in body.initializer:
                if tensor.name in place.values:  # the default of an input
                    continue
                self._add_constant(place, tensor, tensor.name)
            for sparse in body.sparse_initializer:
                self._add(place, sparse.values.name, sparse.values.data_type, TENSOR, WIDE)
        place.nodes = list(body.node)
        kinds: dict[tuple[str, str], Kind] = {}
        for index, node in enumerate(place.nodes):
            key, inputs = (node.domain, node.op_type), node.input[:]
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = self._kind(place, *key)
            place.ops.append(kind.op)
            place.inputs.append(inputs)
            place.outputs.append(node.output[:])
            place.groups.append({})
            place.reads.append([FREE] * len(inputs))
            if kind.varies:
                self._node(place, index, node, kind)
            else:
                self._plain(place, index, node, kind)

    def _body(self, place: Place, node: NodeProto, index: int) -> dict[str, list[Place]]:
        """The bodies in the attributes of a node, which are filled once it is known what they are given."""
        found: dict[str, list[Place]] = {}
        for name, at, graph in subgraphs(node):
            inner = Place(graph, place.opsets, place, place.bound)
            place.inner[index, name, at] = inner
            place.holding.add(index)
            found.setdefault(name, []).append(inner)
        return found

    # --- nodes --------------------------------------------------------------------------------------------------

    def _kind(self, place: Place, given: str, op: str) -> Kind:
        domain = normalize_domain(given)
        spelled, of = f"{given}::{op}" if domain else op, signature(domain, op, place.opsets.get(domain, 1))
        varies = of is None or (domain, op) in self._by_op or not (domain or (op in graphless() and op != "Constant"))
        return Kind(spelled, of, varies, NAMED.get(spelled), spelled not in _OTHERWISE)

    def _node(self, place: Place, index: int, node: NodeProto, kind: Kind) -> None:
        domain, op = normalize_domain(node.domain), node.op_type
        function = self._by_op.get((domain, op))
        if function is not None:
            return self._call(place, index, node, function)
        if not domain and op == "Constant":
            return self._constant(place, index, node)
        if not domain and any(True for _ in subgraphs(node)):
            return self._control(place, index, node)
        return (self._plain if kind.signature is not None else self._unknown)(place, index, node, kind)

    def _plain(self, place: Place, index: int, node: NodeProto, kind: Kind) -> None:
        """An operator that a schema describes."""
        of = kind.signature
        assert of is not None, "a schema describes it"
        groups, reads, owner = place.groups[index], place.reads[index], Owner(place, index)
        values, inputs, formals = place.values, place.inputs[index], of.inputs
        kinds: dict[str, Value] = {}
        unknown: list[tuple[int, str]] = []
        for at, name in enumerate(inputs):
            if not name:
                continue
            operand = formals[at] if at < len(formals) else of.input(at)
            if operand is None:
                continue
            value = values.get(name) or place.find(name)
            if value is None:
                if name not in place.absent:
                    unknown.append((at, operand.group))
                continue
            group, target = operand.group, value.target
            if not target:
                kinds.setdefault(group, value)
                continue
            if not group:
                variable = WIDE
            elif group == ANY:
                variable = FREE if target in operand.types else WIDE
            else:
                kinds.setdefault(group, value)
                variable = groups.get(group) or self._group(groups, group, value.elem_type, owner)
                if target not in operand.types:
                    self.stay(variable, lacks(node, value, self, place))
            reads[at] = variable
            value.readers.append((place, index, at))
            if value.form != TENSOR:
                self._tie(value, variable)
        for at, group in unknown:
            if group in groups:  # of an operator that nobody knows; it has the type of the others
                value = self._add(place, inputs[at], kinds[group].elem_type, TENSOR, WIDE)
                reads[at] = groups[group]
                self._read(value, groups[group], place, index, at)
        formals = of.outputs
        for at, name in enumerate(place.outputs[index]):
            if not name:
                continue
            operand = formals[at] if at < len(formals) else of.output(at)
            if operand is None:
                continue
            group = operand.group
            like = kinds.get(group) if group else None  # boxes are floats, and the indices of NonMaxSuppression int64
            if like is not None and not at and kind.follows:
                elem_type, form = like.elem_type, like.form
            else:
                elem_type, form = self._output_type(place, node, at, operand.elem_type, like)
            if not elem_type:
                elem_type, form = find_declared_type(place, name)
            if not self.moves(elem_type):
                if elem_type:
                    self._add(place, name, elem_type, form, FREE, index)
                continue
            if not group or group == "stash":
                variable = WIDE
            else:
                if at == 0 and kind.named is not None and not self._is_like(place, node):
                    group = "="
                variable = groups.get(group) or self._group(groups, group, elem_type, owner)
            value = self._add(place, name, elem_type, form, variable, index)
            if kind.op.startswith(_CLASSICAL):
                self.stay(variable, "runtimes compute it in float32")
            if variable and value.target not in operand.types:
                self.stay(variable, lacks(node, value, self, place))
            if (
                kind.op in ("Cast", "CastLike")
                and (first := place.find(inputs[0])) is not None
                and first.elem_type == elem_type
            ):
                reads[0] = variable if first.tensor is not None else reads[0]  # it is stored as it is cast

    def _group(self, groups: dict[str, int], group: str, elem_type: int, owner: Owner) -> int:
        if group not in groups:
            groups[group] = self.variable(elem_type, owner)
        return groups[group]

    def _is_like(self, place: Place, node: NodeProto) -> bool:
        return node.op_type == "DequantizeLinear" and not place.value_of(node, "output_dtype", 0)

    def _output_type(self, place: Place, node: NodeProto, at: int, fixed: int, like: Value | None) -> tuple[int, str]:
        """The element type of an output, and what it is a tensor, a sequence or an optional of; 0 if unknown."""
        op, domain = node.op_type, normalize_domain(node.domain)
        if fixed:
            return fixed, TENSOR
        if not domain and at == 0:
            named = NAMED.get(op)
            if named is not None and not self._is_like(place, node):
                kind = place.value_of(node, named.name, 0)
                if not kind and not named.default:
                    first = place.find(node.input[0])
                    kind = first.elem_type if first is not None else 0
                kind = T.DataType.Value(kind) if isinstance(kind, str) else kind  # as Cast below 6 has it
                return int(kind or named.default), FORMS.get(op, TENSOR)
            if op == "ConstantOfShape":
                held = place.value_of(node, "value")
                return (held.data_type if held is not None else T.FLOAT), TENSOR
            if op == "Optional" and like is None:
                held = place.value_of(node, "type")
                kind, form = describe_type(held) if held is not None else (0, "")
                return kind, f"optional({form})"
        if not domain and at > 0 and op in STASHED:
            return int(place.value_of(node, "stash_type", T.FLOAT)), TENSOR
        if like is None:
            return 0, TENSOR
        form = like.form
        if not domain:
            if op in FORMS:
                form = FORMS[op]
            elif op == "Optional":
                form = f"optional({form})"
            elif op == "OptionalGetElement" and form.startswith("optional("):
                form = form[len("optional(") : -1]
        return like.elem_type, form

    def _constant(self, place: Place, index: int, node: NodeProto) -> None:
        held = tensors.of_constant(node) if not any(a.ref_attr_name for a in node.attribute) else None
        if held is None:
            name = next((a.ref_attr_name for a in node.attribute if a.ref_attr_name), "")
            elem_type = T.FLOAT if name and place.body is not None and _binds_floats(place, name) else 0
            if any(a.name == "sparse_value" for a in node.attribute):
                elem_type = next(a.sparse_tensor.values.data_type for a in node.attribute if a.name == "sparse_value")
            if elem_type:
                self._add(place, node.output[0], elem_type, TENSOR, WIDE, index)
            return
        self._add_constant(place, held, node.output[0], index)

    def _unknown(self, place: Place, index: int, node: NodeProto, _: object = None) -> None:
        """An operator that no schema describes takes what it took."""
        for at, name in enumerate(node.input):
            value = place.find(name) if name else None
            if value is not None and self.moves(value.elem_type):
                place.reads[index][at] = WIDE
                self._read(value, WIDE, place, index, at)
        for name in filter(None, node.output):
            elem_type, form = find_declared_type(place, name)
            if elem_type:
                self._add(place, name, elem_type, form, WIDE if self.moves(elem_type) else FREE, index)
        for inner in (each for found in self._body(place, node, index).values() for each in found):
            self._add_inputs(inner, [None] * len(inner.graph.input))
            self._fill(inner)
            self._yields(inner, [WIDE] * len(inner.body.output))

    # --- control flow and calls ---------------------------------------------------------------------------------

    def _control(self, place: Place, index: int, node: NodeProto) -> None:
        held = self._body(place, node, index)
        if node.op_type == "If":
            return self._branches(place, index, node, [each for found in held.values() for each in found])
        if node.op_type == "Loop":
            return self._loop(place, index, node, held["body"][0], 2, len(node.input) - 2, 0, 1)
        if node.op_type == "Scan":
            first = 1 if place.opsets.get("", 1) < 9 else 0
            scanned = int(place.value_of(node, "num_scan_inputs", 0))
            states = len(node.input) - first - scanned
            return self._loop(place, index, node, held["body"][0], first, states, scanned, 0)
        for name in list(place.inner):
            if name[0] == index:
                del place.inner[name]
        return self._unknown(place, index, node)

    def _branches(self, place: Place, index: int, node: NodeProto, branches: list[Place]) -> None:
        for inner in branches:
            self._fill(inner)
        for at, name in enumerate(node.output):
            found = [inner.find(results(inner.body)[at]) for inner in branches]
            first = next((value for value in found if value is not None), None)
            variable = FREE
            if first is not None:
                if self.moves(first.elem_type):
                    variable = self.variable(first.elem_type, Owner(place, index))
                    self._fits(place, node, first, variable)
                if name:
                    self._add(place, name, first.elem_type, first.form, variable, index)
            for inner, value in zip(branches, found, strict=True):
                inner.output_reads.append(variable)
                if value is not None and variable != FREE:
                    self._read(value, variable, inner, -1, at)

    def _loop(
        self, place: Place, index: int, node: NodeProto, inner: Place, first: int, states: int, scanned: int, head: int
    ) -> None:
        """A Loop or a Scan: carried values, scanned ones, and what each round yields.

        `first` is where the carried values stand among the inputs, `head` how many outputs of the body come before.
        """
        formals = list(inner.graph.input)
        skipped = len(formals) - states - scanned  # the counter and the condition of a Loop
        carried: list[int] = []
        self._add_inputs(inner, [None] * skipped, at=0)
        for at in range(states + scanned):
            formal, name = formals[skipped + at], node.input[first + at]
            value = place.find(name) if name else None
            elem_type, form = (value.elem_type, value.form) if value is not None else describe_type(formal.type)
            variable = FREE
            if self.moves(elem_type):
                variable = self.variable(elem_type, Owner(place, index))
                if value is not None:
                    place.reads[index][first + at] = variable
                    self._read(value, variable, place, index, first + at)
            if elem_type:
                made = self._add(inner, formal.name, elem_type, form, variable)
                if self.moves(elem_type):
                    self._fits(place, node, made, variable)
            carried.append(variable)
        self._fill(inner)
        yielded = results(inner.body)
        for at, name in enumerate(yielded):
            value = inner.find(name)
            which = at - head
            variable = carried[which] if 0 <= which < states else FREE
            if which >= states and value is not None and self.moves(value.elem_type):
                variable = self.variable(value.elem_type, Owner(place, index))
                self._fits(place, node, value, variable)
            inner.output_reads.append(variable)
            if value is not None and variable != FREE:
                self._read(value, variable, inner, -1, at)
            if 0 <= which < len(node.output) and node.output[which] and value is not None:
                self._add(place, node.output[which], value.elem_type, value.form, variable, index)

    def _fits(self, place: Place, node: NodeProto, value: Value, variable: int) -> None:
        """Let what a node passes keep its type where the opset's schema does not take the other one."""
        of = signature("", node.op_type, place.opsets.get("", 1))
        operand = of.outputs[-1] if of is not None and of.outputs else None
        if operand is not None and value.target not in operand.types:
            self.stay(variable, lacks(node, value, self, place))

    def _add_inputs(self, inner: Place, variables: list[int | None], at: int = 0) -> None:
        """Add the inputs of a body with their declared types; an input without a variable keeps its type."""
        for formal, variable in zip(list(inner.graph.input)[at:], variables, strict=False):
            elem_type, form = describe_type(formal.type)
            if elem_type:
                wide = WIDE if self.moves(elem_type) else FREE
                self._add(inner, formal.name, elem_type, form, wide if variable is None else variable)

    def _yields(self, inner: Place, variables: list[int]) -> None:
        for at, (name, variable) in enumerate(zip(results(inner.body), variables, strict=True)):
            value = inner.find(name)
            moves = value is not None and self.moves(value.elem_type)
            inner.output_reads.append(variable if moves else FREE)
            if value is not None and moves:
                self._read(value, variable, inner, -1, at)

    def _call(self, place: Place, index: int, node: NodeProto, function: FunctionProto) -> None:
        """A call of a function of the model."""
        given = [place.find(name) if name else None for name in node.input]
        bound = {a.name: a for a in function.attribute_proto}
        for attribute in node.attribute:
            known = place.bound.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if known is not None:
                bound[attribute.name] = known
        kinds = tuple((value.elem_type, value.form) if value is not None else None for value in given)
        arguments = zip_longest(function.input, node.input[: len(function.input)], fillvalue="")
        absent = frozenset(formal for formal, name in arguments if not name or name in place.absent)
        key = (id(function), kinds, absent, tuple(sorted((n, a.SerializeToString()) for n, a in bound.items())))
        inner = self._shared.get(key) if self._counted > _MOST_NODES else None
        if inner is None:
            inner = self._instance(function, given, bound, absent)
            self._shared[key] = inner
        place.calls[index] = inner
        for at, (value, formal) in enumerate(zip(given, function.input, strict=False)):
            if value is not None and self.moves(value.elem_type):
                place.reads[index][at] = inner.values[formal].variable
                self._read(value, inner.values[formal].variable, place, index, at)
        for at, name in enumerate(node.output):
            value = inner.find(function.output[at]) if at < len(function.output) else None
            if name and value is not None:
                self._add(place, name, value.elem_type, value.form, inner.output_reads[at], index)

    def _instance(
        self,
        function: FunctionProto,
        given: list[Value | None],
        bound: Mapping[str, AttributeProto],
        absent: frozenset[str],
    ) -> Place:
        self._counted += len(function.node)
        inner = Place(function, opsets(function), None, bound)
        inner.absent = absent
        for formal, value in zip(function.input, given, strict=False):
            if value is not None:
                variable = self.variable(value.elem_type, Owner(inner, -1)) if self.moves(value.elem_type) else FREE
                self._add(inner, formal, value.elem_type, value.form, variable)
                inner.given[formal] = value
        self._fill(inner)
        for at, name in enumerate(function.output):
            value = inner.find(name)
            variable = FREE
            if value is not None and self.moves(value.elem_type):
                variable = self.variable(value.elem_type, Owner(inner, -1))
                self._read(value, variable, inner, -1, at)
            inner.output_reads.append(variable)
        return inner


FORMS: Mapping[str, str] = {
    **dict.fromkeys(("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SplitToSequence"), "seq(tensor({}))"),
    **dict.fromkeys(("SequenceAt", "ConcatFromSequence"), TENSOR),
}
"""What operators on sequences make."""


NAMED: Mapping[str, TypeAttribute] = {**ATTRIBUTES, "DequantizeLinear": TypeAttribute("output_dtype")}
"""The operators that may name the type of what they make, by the attribute that does so."""
_CLASSICAL = "ai.onnx.ml::"
_OTHERWISE = frozenset([*NAMED, *FORMS, "ConstantOfShape", "Optional", "OptionalGetElement"])
"""The operators whose first output may not have the type of an input of its group."""


def lacks(node: NodeProto, value: Value, problem: Problem, place: Place) -> Reason:
    """That an operator does not take a type, and the opset from which on it does."""
    from opshift.passes.model import schemas

    target, domain = value.target, normalize_domain(node.domain)
    name = FORMATS[problem.wanted.mapping[value.elem_type]].name
    for version in schemas.versions(domain, node.op_type):
        later = schemas.schema(domain, node.op_type, version)
        formals = (*later.inputs, *later.outputs) if later is not None else ()
        if version > place.opsets.get(domain, 1) and any(target in formal.types for formal in formals):
            return Reason(f"{node.op_type} accepts {name} from opset {version} on", opset=version)
    return Reason(f"{node.op_type} does not accept {name}")


def describe_type(value_type: TypeProto) -> tuple[int, str]:
    """The element type in a type, and the form around it, as schemas spell it; 0 for none."""
    which = value_type.WhichOneof("value")
    if which == "tensor_type":
        return value_type.tensor_type.elem_type, TENSOR
    if which == "sequence_type":
        element, form = describe_type(value_type.sequence_type.elem_type)
        return element, f"seq({form})"
    if which == "optional_type":
        element, form = describe_type(value_type.optional_type.elem_type)
        return element, f"optional({form})"
    return 0, TENSOR


def find_declared_type(place: Place, name: str) -> tuple[int, str]:
    """The type that a body declares of a value."""
    if isinstance(place.body, GraphProto):
        for value in (*place.body.value_info, *place.body.output):
            if value.name == name:
                return describe_type(value.type)
    return 0, TENSOR


def _binds_floats(place: Place, name: str) -> bool:
    bound = place.bound.get(name)
    return bound is not None and bound.type in (AttributeProto.FLOAT, AttributeProto.FLOATS)


def narrowing(problem: Problem, variable: int) -> bool:
    """Whether a variable stands for a type that would hold fewer numbers."""
    elem_type = problem.elem_types[variable]
    return is_narrower(elem_type, problem.wanted.mapping[elem_type])
