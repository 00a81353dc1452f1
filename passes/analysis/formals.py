"""Copy functions whose calls omit different optional inputs or attributes: one copy for each variant of call.

A step looks at the inputs of a node to see which are given. In a function body, an input's name does not tell whether
the caller gives it. So before nodes are converted, the names of inputs that a variant omits become empty in its copy,
and references to attributes that it omits are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping

from opshift.passes.analysis.callers import (
    MOST_COPIES,
    NOTHING_OMITTED,
    Asks,
    Called,
    Callee,
    Callers,
    Omitted,
    callee_of,
    find_handed_on,
    key_of,
    nodes_of,
    outside,
)
from opshift.passes.changes import Change
from opshift.passes.errors import Refusal, function_place
from opshift.passes.model import schemas
from opshift.passes.model.editing.names import Names
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, with_nested
from opshift.passes.records import dataclass, field

NeedsWork = Callable[[str, str, int, int], bool]
"""Tells whether nodes of a domain's operator have to change between two of its versions."""


@dataclass
class ResolvedModel:
    """The model with copied functions; or the refusals.

    `stuck` are functions that have to be inlined: copies of an operator of ONNX would need new names. `copied` has the
    original function of each copy.
    """

    model: ModelProto
    changes: list[Change] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    stuck: set[Op] = field(default_factory=set)
    copied: dict[Op, str] = field(default_factory=dict)


def asking(source: ModelProto, targets: Mapping[str, int], wanted: Container[Op], needs_work: NeedsWork) -> Asks:
    """Make a function that tells whether an operator in a function body has to change.

    It has to if the user wants it replaced (`wanted`), or if it needs work on the way to one of the target versions.
    """
    imported: dict[str, set[int]] = {domain: {version} for domain, version in targets.items()}
    holders: list[ModelProto | FunctionProto] = [source, *source.functions]
    for domain, version in (entry for holder in holders for entry in opsets(holder).items()):
        if domain not in targets:
            imported.setdefault(domain, set()).add(version)

    def asks(domain: str, op: str, version: int) -> bool:
        return (domain, op) in wanted or not all(
            is_lasting(domain, op, version, to, needs_work) for to in imported.get(domain, ())
        )

    return asks


def is_lasting(domain: str, op: str, version: int, target: int, needs_work: NeedsWork) -> bool:
    """Tell whether calls of an operator mean the same at another version."""
    at, goal = schemas.since(domain, op, version), schemas.since(domain, op, target)
    return at == goal if at is None or goal is None else not needs_work(domain, op, at, goal)


def copy_functions(source: ModelProto, asks: Asks, inlined: Container[Op] = ()) -> ResolvedModel:
    """Copy the model with a copy of each function for each kind of call; `source` itself if no function needs one."""
    if not source.functions or all(key_of(function)[:2] in inlined for function in source.functions):
        return ResolvedModel(source)
    calls = Callers(source, asks, inlined)
    if not any(map(any, calls.split.values())):
        return ResolvedModel(source)
    variants = calls.variants()
    if sum(map(len, variants.values())) - len(variants) > MOST_COPIES:
        why = f"calls of functions omit inputs and attributes in too many combinations; supported: {MOST_COPIES}"
        return ResolvedModel(source, refusals=[Refusal("", "graph", "", 0, False, why)])
    result = ResolvedModel(source)
    for key, of in calls.functions.items():
        if key in variants and not variants[key] and key[:2] not in inlined:
            result.refusals += _refuse_unjudged(key, calls, of)
    result.stuck = {key[:2] for key, found in variants.items() if len(found) > 1 and schemas.is_onnx_domain(key[0])}
    result.stuck = {op for op in result.stuck if op not in inlined}
    if result.refusals or result.stuck or not any(any(variant) for found in variants.values() for variant in found):
        return result
    return _Writing(source, calls, variants, inlined).result


def find_omittable(model: ModelProto) -> dict[Callee, frozenset[str]]:
    """Find the optional inputs of each function that some calls omit, or may omit if no call is known."""
    calls = Callers(model, lambda domain, op, version: not domain, ())
    if not any(map(any, calls.split.values())):
        return {}
    variants = calls.variants()
    found: dict[Callee, frozenset[str]] = {}
    for key, called in variants.items():
        inputs = frozenset[str]().union(*(variant.inputs for variant in called)) if called else calls.split[key].inputs
        if inputs:
            found[key] = inputs
    return found


def _refuse_unjudged(key: Callee, calls: Callers, of: Called) -> Iterator[Refusal]:
    """Refuse the nodes with decisive inputs in a function that nobody calls: it is unknown whether these are given."""
    where = function_place(*key[:2])
    handed = [
        (node, find_handed_on(node, calls.functions[callee], calls.decisive[callee], seen, of.defaults))
        for node, callee, seen in of.calls
        if callee in calls.functions
    ]
    for node, omitted in (*of.asking, *handed):
        if any(omitted):
            name, domain = node.name or next(iter(node.output), ""), normalize_domain(node.domain)
            why = f"no call of the function tells whether {omitted} is given; supported: functions that are called"
            yield Refusal(name, node.op_type, domain, 0, False, why, where)


# --- writing --------------------------------------------------------------------------------------------------------


class _Writing:
    """Writes the copies of functions; the variant that omits least keeps the function's name."""

    def __init__(
        self, source: ModelProto, calls: Callers, variants: Mapping[Callee, list[Omitted]], inlined: Container[Op]
    ):
        self._calls = calls
        self._names: dict[Callee, dict[Omitted, str]] = {}
        fresh = Names(source).fresh
        for key, (_, *others) in ((key, found) for key, found in variants.items() if len(found) > 1):
            self._names[key] = {variant: fresh(_name_variant(key[1], variant)) for variant in others}
        self._renamed = {key[:2] for key in self._names}
        self.result = ResolvedModel(ModelProto())
        model = self.result.model
        model.CopyFrom(source)
        for body in with_nested(outside(model)) if self._names else ():
            self._body(body, NOTHING_OMITTED)
        places = [(index, 0) for index in range(len(source.functions))]
        for index, held in enumerate(source.functions):
            key = key_of(held)
            first, *others = variants.get(key) or [NOTHING_OMITTED]
            for place, variant in enumerate(others, 1):
                copy = model.functions.add()
                copy.CopyFrom(held)
                copy.name = self._names[key][variant]
                self.result.copied[key[0], copy.name] = key[1]
                self._function(copy, variant)
                places.append((index, place))
            self._function(model.functions[index], first)
            if key[:2] not in inlined and (others or any(first)):
                self._note(held, first, others)
        order = iter(places)
        model.functions.sort(key=lambda _: next(order))

    def _function(self, function: FunctionProto, omitted: Omitted) -> None:
        if self._names or any(omitted):
            for node, seen in nodes_of(function, frozenset(function.input)):
                self._node(node, Omitted(omitted.inputs & seen, omitted.attributes))

    def _body(self, body: Body, omitted: Omitted) -> None:
        for node in body.node:
            self._node(node, omitted)

    def _node(self, node: NodeProto, omitted: Omitted) -> None:
        if (normalize_domain(node.domain), node.op_type) in self._renamed:
            key = callee_of(node)
            if key in self._names:
                node.op_type = self._names[key].get(self._calls.variant(node, key, omitted), key[1])
        if not omitted.inputs.isdisjoint(node.input):
            names = ["" if name in omitted.inputs else name for name in node.input]
            while names and not names[-1]:
                names.pop()
            node.input[:] = names
        if omitted.attributes and any(a.ref_attr_name in omitted.attributes for a in node.attribute):
            retain(node.attribute, [a.ref_attr_name not in omitted.attributes for a in node.attribute])

    def _note(self, function: FunctionProto, first: Omitted, others: list[Omitted]) -> None:
        how = f"No call gives {first}; removed it from the body"
        if others:
            how = f"Calls omit different inputs or attributes; made {1 + len(others)} copies of the function"
        opset = next((i.version for i in function.opset_import if not normalize_domain(i.domain)), 0)
        self.result.changes.append(
            Change(function.name, function.name, normalize_domain(function.domain), opset, opset, how)
        )


def _name_variant(name: str, variant: Omitted) -> str:
    return "_without_".join([name, *sorted(variant.inputs | variant.attributes)])
