"""A model with other element types, and what is to be said of it."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from math import prod

from opshift.passes.changes import RETYPED, Change, Kept, Result, TypesReport
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas, tensors
from opshift.passes.model.messages import ModelProto, TypeProto, copy_model, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import dims_of, element_name, has_shape
from opshift.passes.process import collector_paused
from opshift.passes.types.casting import Casting
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.formats import FORMATS, is_narrower
from opshift.passes.types.problem import Problem, Value
from opshift.passes.types.solving import solve
from opshift.passes.types.staying import METADATA, Staying
from opshift.passes.types.wanted import Types, check_names

_MOST_SIZED = 20_000
"""Nodes of a model up to which the sizes of values are inferred, to weigh casts; in larger ones all weigh the same."""


@collector_paused()
def change(source: ModelProto, wanted: Types, folder: str | None = None) -> Result:
    """A copy of a model in which element types are changed; the model itself where there is nothing to change.

    `folder` is where external data lie.
    """
    check_names(wanted, source)
    if source.training_info:
        why = "its training graphs name these types, too; supported: a model without training graphs"
        return Result(None, (), (Refusal("", "model", "", 0, False, why),))
    if refusal := _without_casts(source, wanted):
        return Result(None, (), (refusal,))
    model = copy_model(source)
    whole = _elements(model, wanted.mapping)
    problem = Problem(model, wanted)
    staying = Fitting(problem, folder, wanted.given) if wanted.of_integers else Staying(problem, folder)
    staying.find()
    narrow = solve(problem, _sizes(staying), staying.pulling)
    if refusal := _find_lacking(problem):
        return Result(None, (), (refusal,))
    if (
        wanted.target
        and isinstance(staying, Fitting)
        and (refused := tuple(staying.find_refusals(narrow, wanted.target)))
    ):
        return Result(None, (), refused)
    kept = tuple(_find_kept(problem, narrow))
    casting = Casting(problem, staying.limits, narrow, folder)
    written = casting.write()
    if not (written.retyped or written.converted or written.casts or written.outside or written.dropped):
        report = TypesReport(wanted.label, 0, (), (), 0, kept, unmatched=staying.unmatched, share=float(not whole))
        return Result(source, (), (), types=report if kept or staying.unmatched else None)
    opset = problem.main.opsets.get("", 0)
    grade = "narrowed" if wanted.narrows else "close"
    assumed = [each for variable, held in staying.assumed.items() if narrow[variable] for each in sorted(held)]
    if wanted.of_integers and wanted.narrows and not assumed:
        grade = "exact"
    changes = [
        Change(node.name or next(iter(node.output), ""), node.op_type, node.domain, opset, opset, RETYPED, grade)
        for node, _ in written.retyped
    ]
    if wanted.of_integers:
        pass  # what stays does so by the model alone
    elif wanted.narrows:
        _note(model, wanted, kept)
    else:
        _forget(model)
    report = TypesReport(
        types=wanted.label,
        narrowed=len(written.retyped),
        casts=tuple(written.casts),
        outside=tuple(written.outside),
        dropped=written.dropped,
        kept=kept,
        replaced=written.replaced,
        origins=written.origins,
        unmatched=staying.unmatched,
        lost=staying.lost,
        ranges=("given" if wanted.seen.real else "drawn") if wanted.seen is not None else "",
        share=1 - _elements(model, wanted.mapping) / whole if whole else 1.0,
        assumed=tuple(dict.fromkeys(assumed)),
        masks=wanted.seen.masks if wanted.seen is not None and written.replaced else (),
    )
    return Result(model, tuple(changes), (), types=report)


def _without_casts(source: ModelProto, wanted: Types) -> Refusal | None:
    """Why nothing can be changed: the opset has no cast to the type."""
    from opshift.passes.model.imports import opsets

    opset = opsets(source).get("")
    if opset is None:
        return None
    for target in wanted.mapping.values():
        text = f"tensor({element_name(target)})"
        if _casts_to(text, opset):
            continue
        first = next((v for v in schemas.versions("", "Cast") if _casts_to(text, v)), None)
        why = f"opset {opset} has no {FORMATS[target].name}; try --opset {first}"
        return Refusal("", "types", "", 0, True, why)
    return None


def _find_lacking(problem: Problem) -> Refusal | None:
    """Refuse if the operators that read most of the weights take the type only from a later opset on."""
    whole, lacking, first = 0, 0, 0
    op = ""
    for value in problem.values():
        if value.tensor is None or not problem.moves(value.elem_type):
            continue
        count = tensors.size(value.tensor)
        whole += count
        for place, index, at in value.readers:
            variable = place.reads[index][at] if index >= 0 else 0
            found = _LATER.search(problem.reasons[variable]) if variable > 0 else None
            if found:
                lacking += count
                if int(found[1]) > first:
                    op, first = problem.reasons[variable], int(found[1])
                break
    if 2 * lacking <= whole or not first:
        return None
    return Refusal(
        "", "types", "", 0, True, f"{op}, and most of the weights belong to such operators; add --opset {first}"
    )


_LATER = re.compile(r" from opset (\d+) on$")


def _casts_to(text: str, opset: int) -> bool:
    schema = schemas.schema("", "Cast", opset)
    return schema is not None and text in schema.outputs[0].types


def _sizes(staying: Staying):  # type: ignore[no-untyped-def]
    """How many elements values have: those of the main graph by their shapes, others as one.

    Shapes that the model declares are taken as they are, as inference takes longer than all else for most models.
    """
    problem = staying.problem
    known: dict[int, int] = {}
    declared: dict[str, TypeProto] = {}

    def size(value: Value) -> int:
        if value.place is not problem.main or len(problem.main.nodes) > _MOST_SIZED:
            return 1
        if id(value) not in known:
            if not declared:
                graph = problem.main.graph
                declared.update((each.name, each.type) for each in (*graph.input, *graph.output, *graph.value_info))
            named = declared.get(value.name)
            sizes = dims_of(named) if named is not None and has_shape(named) else staying.sizes(value.name)
            known[id(value)] = max(prod(each for each in sizes or () if isinstance(each, int) and each > 0), 1)
        return known[id(value)]

    return size


def _find_kept(problem: Problem, narrow: list[bool]) -> Iterator[Kept]:
    """The nodes that could have changed, and did not."""
    seen: set[tuple[int, int]] = set()
    for variable, owner in enumerate(problem.owners):
        if owner is None or owner.node < 0 or narrow[variable] or (id(owner.place), owner.node) in seen:
            continue
        if any(narrow[other] for other in owner.place.groups[owner.node].values()):
            continue  # mean and variance of BatchNormalization
        elem_type = problem.elem_types[variable]
        if not is_narrower(elem_type, problem.wanted.mapping[elem_type]):
            continue
        seen.add((id(owner.place), owner.node))
        node = owner.place.nodes[owner.node]
        why = problem.reasons[variable] or "the casts around it would cost more than it saves"
        first = next(filter(None, node.output), "")
        yield Kept(node.name or first, normalize_domain(node.domain), node.op_type, first, why)


def _note(model: ModelProto, wanted: Types, kept: tuple[Kept, ...]) -> None:
    """Write into a model what kept its type, so that it keeps it the next time."""
    held = {}
    for entry in model.metadata_props:
        if entry.key == METADATA:
            try:
                held = json.loads(entry.value)
            except ValueError:
                held = {}
    names = [FORMATS[target].name for target in wanted.mapping.values()]
    for name in names:
        held[name] = {**held.get(name, {}), **{each.output: each.why for each in kept if each.output}}
    _forget(model)
    if any(held.values()):
        model.metadata_props.add(key=METADATA, value=json.dumps(held, ensure_ascii=False))


def _forget(model: ModelProto) -> None:
    for index in [i for i, entry in enumerate(model.metadata_props) if entry.key == METADATA]:
        del model.metadata_props[index]


def _elements(model: ModelProto, elem_types: Container[int]) -> int:
    """How many elements of weights a model has of some types."""
    found = 0
    for body in bodies(model):
        for tensor in getattr(body, "initializer", ()):
            found += tensors.size(tensor) if tensor.data_type in elem_types else 0
        for node in body.node:
            if node.op_type == "Constant":
                held = (attribute.t for attribute in node.attribute if attribute.HasField("t"))
                found += sum(tensors.size(tensor) for tensor in held if tensor.data_type in elem_types)
    return found
