"""Prepare the model for the stages: cut a part out (`extract`), or join two models (`merge`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from opshift.files import external, model_file
from opshift.jobs.outcome import several
from opshift.passes import process
from opshift.passes.changes import Change
from opshift.passes.errors import Refusal, Refused
from opshift.passes.goals import Goal
from opshift.passes.inputs.interface import required_inputs
from opshift.passes.inputs.parts import Cut
from opshift.passes.model.messages import ModelProto, TypeProto, copy_model
from opshift.passes.model.types import elem_type_of, is_fixed, tensor_type
from opshift.passes.records import dataclass, replace
from opshift.passes.surgery import door as surgery
from opshift.verification.feeding.asked import DRAWN, Asked, check_inputs
from opshift.verification.side import Side
from opshift.verification.verdict import UNVERIFIED, Verification

if TYPE_CHECKING:
    from onnx import TensorShapeProto

    from opshift.verification.cutting import Captured


@dataclass(frozen=True)
class Prepared:
    """The model for the stages.

    Attributes:
        model: the part, or the joined model.
        folder: where external data lie.
        changes: what was done, for the report.
        wanted: the inputs to verify it on.
        remark: how it was compared with the models in the files; empty with `--no-verify`.
        stop: how it differs from them, or why it is not proved; None if it is equal.
    """

    model: ModelProto
    folder: str
    changes: tuple[Change, ...]
    wanted: Asked
    remark: str = ""
    stop: Verification | None = None


class Preparation(Protocol):
    """What to do to a model before the stages."""

    @property
    def name(self) -> str:
        """Name the work for the progress line."""
        ...

    def prepare(self, model: ModelProto, path: Path, wanted: Asked, *, verify: bool) -> Prepared:
        """Make the model for the stages from the one in a file."""
        ...


@dataclass(frozen=True)
class Extraction:
    """Cut a part out."""

    cut: Cut
    name = "cut out"

    def prepare(self, model: ModelProto, path: Path, wanted: Asked, *, verify: bool) -> Prepared:
        """Cut the part out, and compare it with the whole model unless `--no-verify`.

        Runs before the stages of `opshift extract`.

        Raises:
            ValueError: the model has no such value or node.
            Refused: the type of an input of the part is unknown.
        """
        folder = _folder(path)
        wanted = check_inputs(wanted, model) if verify else wanted
        part, border, captured = extract_part(Side(model, folder), self.cut, wanted, verify=verify)
        of_part = replace(DRAWN, seed=wanted.seed, engines=wanted.engines, save=wanted.save, repro=wanted.repro)
        of_part = replace(of_part, evidence=wanted.evidence, runs=None, tolerances=wanted.tolerances)
        if captured is not None and captured.given:
            taken = {value.name for value in part.graph.input}
            runs = [{**given, **values} for given, values in zip(captured.given, captured.values, strict=True)]
            of_part = replace(of_part, inputs=tuple({n: v for n, v in run.items() if n in taken} for run in runs))
        changes = tuple(_list_changes(model, border))
        if captured is None or not verify:
            return Prepared(part, folder, changes, of_part)
        remark, stop = _compare_part(Side(part, folder), captured)
        return Prepared(part, folder, changes, of_part, remark, stop)


class Extracted(NamedTuple):
    """A part, its border, and the values that the whole model had there."""

    model: ModelProto
    border: surgery.Border
    captured: Captured | None


def extract_part(whole: Side, cut: Cut, wanted: Asked = DRAWN, *, verify: bool = False) -> Extracted:
    """Cut a part out; run the whole model to `verify` it, or if the type of an input of the part is unknown."""
    with process.ours():
        border = surgery.find_border(whole.model, cut)
        types = surgery.types_of(whole.model, border)
    captured = _run_whole_model(whole, border, types, wanted, verify=verify)
    types = complete(types, border, captured, whole.model)
    return Extracted(surgery.cut_out(whole.model, border, types), border, captured)


def _run_whole_model(
    whole: Side, border: surgery.Border, types: Mapping[str, TypeProto], wanted: Asked, *, verify: bool
) -> Captured | None:
    """Run the whole model, if the part is to be compared with it, or the type of a value at its border is unknown."""
    names = [*border.inputs, *border.outputs]
    if not verify and all(name in types for name in names):
        return None
    from opshift.verification import cutting  # slow to import, and not wanted without a run
    from opshift.verification.whole import too_large

    if all(name in types for name in names) and (size := too_large(wanted, whole)):
        return cutting.Captured(why=f"{size >> 20} MB of weights; --runs 1 runs it")
    return cutting.capture(whole, names, wanted)


def complete(
    types: Mapping[str, TypeProto], border: surgery.Border, captured: Captured | None, model: ModelProto
) -> dict[str, TypeProto]:
    """Add to the types of a part's border those that only a run of the whole model shows, and drop sizes that a run
    contradicts.

    Raises:
        Refused: the type of an input of the part is unknown.
    """
    completed = dict(types)
    runs = list(captured.values) if captured is not None else []
    for name in (*border.inputs, *border.outputs):
        seen = [run[name] for run in runs if run.get(name) is not None]
        if name not in completed and seen:
            from opshift.verification.parts import type_of

            taken = [dim for held in required_inputs(model).values() for dim in held.tensor_type.shape.dim]
            with suppress(ValueError):  # an empty sequence
                completed[name] = type_of(seen[0], is_fixed=all(map(is_fixed, taken)))
        if name in completed and seen:
            completed[name] = _fit_type(completed[name], seen)
        if name not in completed and name in border.inputs:
            why = captured.why if captured is not None else ""
            why = f"its type cannot be inferred, and no run shows it{f' ({why})' if why else ''}"
            raise Refused([Refusal(name, "value", "", 0, False, why)])
    return completed


def _fit_type(value_type: TypeProto, seen: list[Any]) -> TypeProto:
    """Correct the declared type of a new input of a part by the values that it has in a run of the whole model.

    The rank becomes that of the values, and a size that a value contradicts becomes dynamic.
    """
    shapes = [value.shape for value in seen if hasattr(value, "shape")]
    if value_type.WhichOneof("value") != "tensor_type" or not shapes:
        return value_type
    fitting = TypeProto()
    fitting.CopyFrom(value_type)
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        fitting.tensor_type.ClearField("shape")
        return fitting
    if not fitting.tensor_type.HasField("shape") or ranks != {len(fitting.tensor_type.shape.dim)}:
        return tensor_type(elem_type_of(fitting), [None] * ranks.pop())
    dims = fitting.tensor_type.shape.dim
    for axis, dim in enumerate(dims):
        if is_fixed(dim) and any(shape[axis] != dim.dim_value for shape in shapes):
            dim.Clear()
    return fitting


def _compare_part(part: Side, captured: Captured) -> tuple[str, Verification | None]:
    """Run the part on values of the whole model; returns a sentence about it, and the verdict where they differ."""
    from opshift.verification.cutting import verify_part
    from opshift.verification.verify import apart

    verification = apart(verify_part, part, captured)
    if verification.status == "different":
        return "", verification
    if not verification.equal:
        return f"not compared with the whole model ({verification.why})", None
    return f"compared with the whole model: {_spell_proof(verification)}", None


def _list_changes(whole: ModelProto, border: surgery.Border) -> list[Change]:
    """List what cutting out a part did, for the report."""
    nodes = len(whole.graph.node)
    done = [Change("", "graph", "", 0, 0, f"Cut out {border.nodes} of {nodes} nodes")]
    done += [Change("", "input", "", 0, 0, f'Made "{name}" an input') for name in border.inputs]
    before = {value.name for value in whole.graph.output}
    done += [
        Change("", "output", "", 0, 0, f'Made "{name}" an output') for name in border.outputs if name not in before
    ]
    return done


# --- two models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merging:
    """Join a second model behind the first.

    Attributes:
        other: the file of the second.
        connect: outputs of the first with inputs of the second.
    """

    other: str
    connect: tuple[tuple[str, str], ...] = ()
    name = "join"

    def prepare(self, model: ModelProto, path: Path, wanted: Asked, *, verify: bool) -> Prepared:
        """Join the two models, and compare the result with both in turn unless `--no-verify`.

        Runs before the stages of `opshift merge`.

        Raises:
            ValueError: a model has no such output or input, or it is of another type.
            Refused: neither can be converted to the opset of the other.
        """
        one = Side(model, _folder(path))
        other = Side(model_file.read(self.other), _folder(self.other)).checked()
        joined = merge_models(one, other, self.connect)
        folder = os.path.commonpath([_folder(path), _folder(self.other)])
        prepared = Prepared(joined.model, folder, joined.changes, wanted)
        if not verify:
            return prepared
        from opshift.verification.cutting import Names, verify_in_turn
        from opshift.verification.verify import apart
        from opshift.verification.whole import too_large

        wanted = check_inputs(wanted, joined.model)
        if size := too_large(wanted, one, other):
            verification = Verification(UNVERIFIED, why=f"{size >> 20} MB of weights; --runs 1 runs it")
        else:
            names, side = Names(joined.first, joined.second), Side(joined.model, folder)
            verification = apart(verify_in_turn, one, other, side, joined.passed, names, wanted, joined.grade)
            if "found no inputs" in verification.why:
                hint = _suggest_sizes(one.model, other.model, joined.passed)
                verification = replace(verification, why="; ".join(filter(None, [verification.why, hint])))
        remark, stop = _judge_merge(verification, converted=joined.is_converted)
        return replace(prepared, remark=remark, stop=stop)


class Merged(NamedTuple):
    """Two models as one, and what was done to them."""

    model: ModelProto
    first: Mapping[str, str]
    second: Mapping[str, str]
    passed: Mapping[str, str]
    changes: tuple[Change, ...]

    @property
    def is_converted(self) -> bool:
        """Whether one of the two models was converted to the opset of the other."""
        return any(change.source != change.target for change in self.changes)

    @property
    def grade(self) -> str:
        return "close" if any(change.grade == "close" for change in self.changes) else "exact"


def merge_models(one: Side, other: Side, connect: Iterable[tuple[str, str]] = ()) -> Merged:
    """Join two models at one opset; data in files are referred to from the folder that both lie in.

    `opshift merge` and `opshift.merge` call it.

    Raises:
        ValueError: a model has no such output or input, or it is of another type.
        Refused: neither can be converted to the opset of the other.
    """
    with process.ours():
        passed = surgery.connections(one.model, other.model, connect)
        models, changes = _convert_to_one_opset(one, other)
        folders = [side.folder for side in (one, other) if side.folder is not None]
        for model, side in zip(models, (one, other), strict=True):
            if side.folder is not None and len(set(folders)) > 1:
                external.relocate(model, os.path.relpath(side.folder, os.path.commonpath(folders)))
        joined = surgery.join(models[0], models[1], passed)
    ways = ", ".join(f'"{output}" is read as "{name}"' for name, output in passed.items())
    changes = (*changes, Change("", "graph", "", 0, 0, f"Joined {len(other.model.graph.node)} nodes: {ways}"))
    if joined.renamed:
        how = f"Renamed {joined.renamed} values, as both models used their names"
        changes = (*changes, Change("", "name", "", 0, 0, how))
    for value in other.model.graph.input:
        name, now = value.name, joined.second.get(value.name, value.name)
        if name not in passed and now != name:
            how = f'Input "{name}" of the second model is "{now}"; --connect {name}={name} lets both read one'
            changes = (*changes, Change("", "input", "", 0, 0, how))
    return Merged(joined.model, joined.first, joined.second, passed, changes)


def _convert_to_one_opset(one: Side, other: Side) -> tuple[list[ModelProto], tuple[Change, ...]]:
    """Convert both models to the newer of their opsets, or to the older one where that is not possible.

    Runs before the two are joined.
    """
    refused: Refused | None = None
    for best in (max, min):
        targets = surgery.common_opsets(one.model, other.model, best)
        if not targets:
            break
        goal = Goal(targets)
        results = [goal.run(side.model, side.folder) for side in (one, other)]
        converted = [result.model for result in results if result.model is not None]
        if len(converted) == len(results):
            return converted, tuple(change for result in results for change in result.changes)
        failed, side = next((r, s) for r, s in zip(results, (one, other), strict=True) if r.model is None)
        refused = refused or goal.make_error(side.model, failed, side.folder)
    if refused is not None:
        raise refused
    return [copy_model(side.model) for side in (one, other)], ()


def _suggest_sizes(one: ModelProto, other: ModelProto, passed: Mapping[str, str]) -> str:
    """Say which sizes the second model takes, and the option that names sizes of the first one's inputs.

    Runs if random inputs of the first model make no value that the second takes.
    """
    open_inputs = [
        f"{name}:{','.join(_spell_size(dim) for dim in held.tensor_type.shape.dim)}"
        for name, held in required_inputs(one).items()
        if held.tensor_type.shape.dim and not all(map(is_fixed, held.tensor_type.shape.dim))
    ]
    for value in other.graph.input:
        taken = value.type.tensor_type.shape.dim
        if value.name in passed and taken and open_inputs and any(map(is_fixed, taken)):
            shape = ",".join(map(_spell_size, taken))
            return (
                f'the second model takes "{passed[value.name]}" as [{shape}]: give sizes that lead to it, '
                f"--input-shape {' --input-shape '.join(open_inputs)} with numbers for the names"
            )
    return ""


def _spell_size(dim: TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if is_fixed(dim) else dim.dim_param or "SIZE"


def _judge_merge(found: Verification, *, converted: bool) -> tuple[str, Verification | None]:
    """Write the sentence about two joined models that were run one after the other; if one was converted, it has to
    be proved.
    """
    if found.status == "different" or (converted and not found.equal):
        return "", found
    if not found.equal:
        return f"not compared with the two models ({found.why})", None
    return f"compared with the two models, run one after the other: {_spell_proof(found)}", None


def _spell_proof(found: Verification) -> str:
    how = "the same values" if found.is_same else "equal values"
    return f"{how}, on {several(found.runs, 'input')}"


def _folder(path: str | Path) -> str:
    return str(Path(path).resolve().parent)
