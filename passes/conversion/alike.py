"""Merge functions that differ only in their names, as exporters write one for each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from opshift.passes.changes import Change
from opshift.passes.model import schemas
from opshift.passes.model.call_signatures import BodyLayout, CallSignature, Survey
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, subgraphs
from opshift.passes.records import dataclass, field

from opshift import functions

_FEWEST = 16  # that are worth a look at each call


@dataclass
class Alike:
    """For each call: the function that the user wrote, before functions that differ only in names were merged."""

    names: dict[str, str] = field(default_factory=dict)
    chosen: frozenset[Op] = frozenset()

    def as_written(self, changes: list[Change]) -> list[Change]:
        """Rename the changes, so that reports show the functions that the user wrote. Runs at the end of a
        conversion.
        """
        if not self.names:
            return changes
        return [
            change._replace(op=self.names.get(change.node, change.op))
            if (change.domain, change.op) in self.chosen
            else change
            for change in changes
        ]


def merge_functions(model: ModelProto, survey: Survey, inlined: Collection[Op]) -> Alike:
    """Make calls of functions that differ only in names call one of them, so that one conversion serves all.

    Runs before functions are inlined.
    """
    chosen = _choose_functions(model, survey, inlined)
    if len(chosen) < _FEWEST:
        return Alike()
    calls = list(_find_calls(model, survey, {*chosen, *chosen.values()}))
    names = {node.name or next(iter(node.output), ""): node.op_type for node, _, _ in calls}
    if len(names) < len(calls):
        return Alike()  # names that are given twice tell nothing
    kinds: dict[tuple[str, str, int, int, int, str, bool], CallSignature] = {}
    for node, layout, index in calls:
        signature = layout.signatures[index]
        domain, op = normalize_domain(signature.domain), signature.op
        node.op_type = chosen.get((domain, op), (domain, op))[1]
        same = signature.same and not signature.attributes
        form = (
            signature.domain,
            node.op_type,
            signature.inputs,
            signature.outputs,
            signature.attributes,
            signature.overload,
            same,
        )
        if form not in kinds:
            kinds[form] = CallSignature(*form[:-1], same=same)
        layout.signatures[index] = kinds[form]
    return Alike(names, frozenset(chosen.values()))


def _choose_functions(model: ModelProto, survey: Survey, inlined: Collection[Op]) -> dict[Op, Op]:
    """For each function, choose the first one that is equal but for its name. Callers of the others will call this
    one.
    """
    ops = [(normalize_domain(function.domain), function.name) for function in model.functions]
    times = Counter(ops)
    first: dict[int, Op] = {}
    replaced_by: dict[Op, Op] = {}
    for op, layout in zip(ops, survey.functions, strict=True):
        if op not in inlined or times[op] > 1 or schemas.is_onnx_domain(op[0]) or functions.has_definition(*op):
            continue
        one = first.setdefault(id(layout.values), op)  # a survey looks at one of those that are alike
        if one != op:
            replaced_by[op] = one
    return replaced_by


def _find_calls(
    model: ModelProto, survey: Survey, functions: Collection[Op]
) -> Iterator[tuple[NodeProto, BodyLayout, int]]:
    """List the calls of some functions, in all graphs and function bodies, each with its place in the survey."""
    pending: list[tuple[Body, BodyLayout]] = [(model.graph, survey.graph)]
    pending += zip(model.functions, survey.functions, strict=True)
    while pending:
        body, layout = pending.pop()
        if isinstance(body, FunctionProto) and (normalize_domain(body.domain), body.name) in functions:
            continue  # it goes
        for index, signature in enumerate(layout.signatures):
            if (normalize_domain(signature.domain), signature.op) in functions:
                yield body.node[index], layout, index
        for index, inner in layout.inner.items():
            pending += zip((graph for _, _, graph in subgraphs(body.node[index])), inner, strict=True)
