"""A model with other element types, and what is to be said of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from opshift.passes.changes import RETYPED, Change, Kept, Result, TypesReport
from opshift.passes.errors import Refusal
from opshift.passes.errors import reason as reason_of
from opshift.passes.model import schemas, tensors
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import element_name
from opshift.passes.process import collector_paused
from opshift.passes.types.casting import Casting
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.formats import FORMATS, is_narrower
from opshift.passes.types.operands import signature
from opshift.passes.types.problem import FREE, WIDE, Place, Problem, Value
from opshift.passes.types.reasons import ASKED, BUDGET, CASTS, MEASURED, RANGE, Reason
from opshift.passes.types.solving import is_heavy, solve
from opshift.passes.types.staying import METADATA, Staying
from opshift.passes.types.wanted import KEEP, Types, check_names

T = TensorProto

_MOST_SIZED = 20_000
"""Nodes of a model up to which the sizes of values are inferred, to weigh casts; in larger ones all weigh the same."""


@collector_paused()
def change(source: ModelProto, wanted: Types, folder: str | None = None, *, demanded: bool = False) -> Result:
    """A copy of a model in which element types are changed; the model itself where there is nothing to change.

    `folder` is where external data lie. Where it is `demanded`, half of the weights have to change.
    """
    check_names(wanted, source)
    if source.training_info:
        why = "its training graphs name these types, too; supported: a model without training graphs"
        return Result(None, (), (Refusal("", "model", "", 0, False, why),))
    if refusal := _without_casts(source, wanted):
        return Result(None, (), (refusal,))
    model = copy_model(source)
    problem = Problem(model, wanted)
    staying = Fitting(problem, folder, wanted.given) if wanted.of_integers else Staying(problem, folder)
    staying.find()
    narrow = solve(problem, _sizes(staying), staying.pulling)
    weights = _weigh(problem, narrow)
    if demanded and wanted.narrows and not wanted.of_integers and (refusal := _find_too_little(weights, wanted)):
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
        report = TypesReport(wanted.label, 0, (), (), 0, kept, unmatched=staying.unmatched, share=weights.share)
        return Result(source, (), (), types=report if kept or staying.unmatched else None)
    opset = problem.main.opsets.get("", 0)
    grade = "narrowed" if wanted.narrows else "close"
    assumed = [each for variable, held in staying.assumed.items() if narrow[variable] for each in sorted(held)]
    if wanted.of_integers and wanted.narrows and not assumed:
        grade = "exact"
    changes = [
        Change(node.name or (outputs[0] if outputs else ""), node.op_type, node.domain, opset, opset, RETYPED, grade)
        for node, outputs in [(place.nodes[index], place.outputs[index]) for place, index in written.retyped]
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
        share=weights.share,
        assumed=tuple(dict.fromkeys(assumed)),
        masks=wanted.seen.masks if wanted.seen is not None and written.replaced else (),
    )
    return Result(model, tuple(changes), (), types=report)


def _without_casts(source: ModelProto, wanted: Types) -> Refusal | None:
    """Why nothing can be changed: the opset has no cast to the type; one is named at which what is heavy takes it."""
    from opshift.passes.model.imports import opsets

    opset = opsets(source).get("")
    if opset is None:
        return None
    for target in wanted.mapping.values():
        text = f"tensor({element_name(target)})"
        if _yields("Cast", text, opset):
            continue
        ops = {"Cast", *(node.op_type for body in bodies(source) for node in body.node if is_heavy(node.op_type))}
        first = max(next((v for v in schemas.versions("", op) if _yields(op, text, v)), 0) for op in ops)
        why = f"opset {opset} has no {FORMATS[target].name}; try --opset {first}"
        return Refusal("", "types", "", 0, True, why)
    return None


class _Weights(NamedTuple):
    """How many elements of float weights have the type that is asked for, or keep theirs.

    Single numbers are no weights, nor what operators take in one type only, such as the scales of Resize.
    """

    changed: int
    held: Counter[tuple[str, str, Reason]]
    """How many elements keep their type, by operator and name of the node, and the reason."""

    @property
    def share(self) -> float:
        whole = self.changed + self.held.total()
        return self.changed / whole if whole else 1.0


def _weigh(problem: Problem, narrow: list[bool]) -> _Weights:
    changed, held, reached = 0, Counter[tuple[str, str, Reason]](), set(problem.wanted.mapping.values())
    for value in problem.constants:
        count = tensors.size(value.tensor) if value.tensor is not None else 0
        if count < _FEWEST:
            continue
        if value.elem_type in reached:
            changed += count
        elif value.target and (readers := list(_list_typed_readers(problem, value))):
            wide = next(((node, variable) for node, variable in readers if not narrow[variable]), None)
            if wide is None:
                changed += count
                continue
            node, variable = wide
            reason = (problem.reasons[variable] or CASTS) if variable else _UNKNOWN
            held[node.op_type, node.name or next(filter(None, node.output), ""), reason] += count
    return _Weights(changed, held)


def _find_too_little(weights: _Weights, wanted: Types) -> Refusal | None:
    """Refuse if less than half of the weights change, unless it is the user who keeps the others."""
    held = Counter({key: count for key, count in weights.held.items() if ASKED not in key[2].kinds})
    if weights.changed >= held.total() or (wanted.held and wanted.interface != KEEP):  # outputs may miss the budget
        return None
    (op, name, why), _ = held.most_common(1)[0]
    more = f" and {len(held) - 1} more keep their types" if len(held) > 1 else " keeps its type"
    share = weights.changed / (weights.changed + held.total())
    found = f'only {share:.0%} of the float weights can be {wanted.label}; {op} "{name}"{more}: {why}'
    return Refusal("", "types", "", 0, True, reason_of(found, fix=_suggest(wanted, held)))


def _list_typed_readers(problem: Problem, value: Value) -> Iterator[tuple[NodeProto, int]]:
    """The nodes that read a constant in a type that could change, or of which nobody knows, with their variables."""
    for place, index, at in value.readers:
        variable = place.reads[index][at] if index >= 0 else FREE
        if variable > 0 or (variable == WIDE and not _is_described(place, place.nodes[index])):
            yield place.nodes[index], variable


def _is_described(place: Place, node: NodeProto) -> bool:
    domain = normalize_domain(node.domain)
    return signature(domain, node.op_type, place.opsets.get(domain, 1)) is not None


def _suggest(wanted: Types, held: Counter[tuple[str, str, Reason]]) -> str:
    """List the options that let more weights change, for the refusal that too few do."""
    hints, kinds = list[str](), frozenset[str]().union(*(why.kinds for _, _, why in held))
    if later := max(why.opset for _, _, why in held):
        return f"--opset {later}"
    if BUDGET in kinds:
        hints.append("a larger --budget")
    if MEASURED in kinds and wanted.seen is not None and not wanted.seen.real:
        hints.append("--inputs FILE.npz with real data")
    if RANGE in kinds and T.FLOAT16 in wanted.mapping.values():
        hints.append("--types bfloat16")
    ops = dict.fromkeys(op for (op, _, _), _ in held.most_common())
    if len(ops) <= _NAMED or not hints:
        hints.append(" ".join(f"--keep op:{op}" for op in ops) + " to change the rest alone")
    return ", or ".join(hints)


_FEWEST = 2
"""The elements of a constant that is a weight; a single number is an epsilon or a factor."""
_NAMED = 3
"""Operators that are named with `--keep` at most, where there is something else to try."""
_UNKNOWN = Reason("it is unknown which types it takes")


def _yields(op: str, text: str, opset: int) -> bool:
    schema = schemas.schema("", op, opset)
    return schema is not None and text in schema.outputs[0].types


def _sizes(staying: Staying):  # type: ignore[no-untyped-def]
    """How many elements values have: those of the main graph by their shapes, others as one.

    Shapes that the model declares are taken as they are, as inference takes longer than all else. Where it declares
    none and did not run, all values weigh the same.
    """
    problem = staying.problem
    known: dict[int, int] = {}
    is_sized = len(problem.main.nodes) <= _MOST_SIZED
    is_sized &= problem.wanted.seen is not None or bool(problem.main.graph.value_info)

    def size(value: Value) -> int:
        if not is_sized or value.place is not problem.main:
            return 1
        if id(value) not in known:
            sizes = problem.declared_sizes(value.name)
            sizes = staying.sizes(value.name) if sizes is None else sizes
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
        why = problem.reasons[variable] or CASTS
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
