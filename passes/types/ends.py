"""Nodes that were narrowed, alone, with the numbers at the ends of what they may read."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from opshift.passes.model import schemas
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.types import tensor_type
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.problem import Place, Problem, Value
from opshift.passes.types.ranges import MOST, Interval, Ranges
from opshift.passes.types.solving import solve
from opshift.passes.types.wanted import Types

T = TensorProto

ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "BitwiseAnd", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Max", "Min", "Mod", "Mul", "Neg", "Sign", "Sub", "Sum", "Where"),
    ]
)


class Probe(NamedTuple):
    """A node in both types, and what both are to be fed: vectors of all combinations of ends."""

    name: str
    wide: ModelProto
    narrow: ModelProto
    feeds: tuple[tuple[int, ...], ...]
    """The numbers of each input."""
    elem_types: tuple[int, ...]
    """The element type of each input of the wide one."""
    is_certain: bool
    """Whether nothing was assumed, so that no result may be beyond int32."""


def probes(source: ModelProto, wanted: Types, folder: str | None) -> list[Probe]:
    """One for each kind of node that computes with integers and becomes narrow."""
    model = copy_model(source)
    problem = Problem(model, wanted)
    fitting = Fitting(problem, folder, wanted.given)
    fitting.find()
    assert fitting.ranges is not None, "they were found"
    narrow = solve(problem, lambda value: 1, fitting.pulling)
    found: dict[object, Probe] = {}
    for place in problem.places:
        for index, node in enumerate(place.nodes):
            groups = [variable for variable in place.groups[index].values() if variable > 0]
            if normalize_domain(node.domain) or node.op_type not in ELEMENTWISE or not any(narrow[v] for v in groups):
                continue
            probe = _probe(place, node, fitting.ranges)
            if probe is not None:
                found.setdefault((probe.wide.SerializeToString(deterministic=True), probe.feeds), probe)
    return list(found.values())


def _probe(place: Place, node: NodeProto, ranges: Ranges) -> Probe | None:
    values = [place.find(name) if name else None for name in node.input]
    if any(value is None or value.elem_type not in (T.INT64, T.BOOL) for value in values):
        return None
    held = [value for value in values if value is not None]
    known = [Interval(0, 1) if value.elem_type == T.BOOL else ranges.of(value) for value in held]
    if any(each is None for each in known):
        return None
    intervals = [each for each in known if each is not None]
    columns = list(zip(*product(*map(_ends, intervals)), strict=True))
    opset = place.opsets.get("", schemas.latest())
    wide, narrow = (_alone(node, held, elem_type, opset) for elem_type in (T.INT64, T.INT32))
    certain = not any(each.basis for each in intervals)
    feeds = tuple(tuple(map(int, column)) for column in columns)
    return Probe(node.name or node.output[0], wide, narrow, feeds, tuple(value.elem_type for value in held), certain)


def _ends(known: Interval) -> list[float]:
    """The ends of a range, what lies beside them, and what lies around 0."""
    low, high = max(known.low, -MOST - 1), min(known.high, MOST)
    return sorted({each for each in (low, low + 1, -1, 0, 1, 2, high - 1, high) if low <= each <= high})


def _alone(node: NodeProto, values: list[Value], elem_type: int, opset: int) -> ModelProto:
    """A model of one node."""
    model = ModelProto(ir_version=schemas.ir_version("", opset))
    model.opset_import.add(domain="", version=opset)
    made = model.graph.node.add()
    made.CopyFrom(node)
    made.name = made.doc_string = ""
    del made.metadata_props[:]
    for at, value in enumerate(values):
        made.input[at] = f"x{at}"
        given = model.graph.input.add(name=f"x{at}")
        given.type.CopyFrom(tensor_type(elem_type if value.elem_type == T.INT64 else value.elem_type, ["N"]))
    made.output[:] = ["y"]
    model.graph.name = "ends"
    model.graph.output.add(name="y")
    for attribute in made.attribute:
        if attribute.name == "to" and attribute.i == T.INT64:
            attribute.CopyFrom(make_attribute("to", elem_type))
    return model
