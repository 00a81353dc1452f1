"""Run two whole models on inputs such as users have, and compare their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from opshift.passes import progress
from opshift.passes.errors import InvalidModel
from opshift.passes.model import schemas, tensor_data
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.records import dataclass, field, replace
from opshift.verification import adapters, bounds, interfaces, isolation, random_operators
from opshift.verification.engines import (
    ENGINES,
    INVALID,
    TOO_LONG,
    EngineError,
    NeverRuns,
    OnnxRuntime,
    Reference,
    Session,
    call_within,
    is_rough,
    one_line,
)
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding import responding, windows
from opshift.verification.feeding.asked import Asked
from opshift.verification.labels import Explained, explain_labels, find_scores
from opshift.verification.side import Side
from opshift.verification.tolerances import Tolerances
from opshift.verification.verdict import DIFFERENT, EQUAL, UNVERIFIED, Finding, OutputReport, Verification

Run = Callable[[Mapping[str, Any]], list[Any]]
T = TypeVar("T")

MOST = 1 << 30
"""Models with more bytes of weights are run as a whole only if the user asks for it."""
ITERATIONS = 1000
"""Iterations after which a Loop without a trip count ends, in both models alike."""
_WHY_LABELS_DIFFER = ("two scores tie within rounding", "the source does not choose the class with the largest score")
_PATIENCE = 15.0
"""The time limit in seconds for the first run of a whole model in onnx.reference, and for all runs."""

# onnxruntime for both forms if it loads them. If it loads only one, the other runs in onnx.reference: two engines that
# agree say as much as one. The reference alone comes last, because it is blind to some version differences.
_PAIRS: tuple[tuple[type[OnnxRuntime | Reference], type[OnnxRuntime | Reference]], ...] = (
    (OnnxRuntime, OnnxRuntime),
    (OnnxRuntime, Reference),
    (Reference, OnnxRuntime),
    (Reference, Reference),
)


@dataclass
class WholeRun:
    """The result of running both whole models.

    Attributes:
        feeds: the inputs that the first model runs on.
        shapes: their shapes, for the report.
        outputs: how close the outputs are.
        engine: the engines that ran both; empty if they were not compared.
        runs: how many sets of inputs both ran on.
        absolute, relative: the largest differences of outputs.
        tensor, why: the first output that differs, and how; or why nothing was compared.
        is_different: whether outputs differ.
        cast: inputs and outputs that have another precision in one of the models.
        part: the largest share of elements of one output that differ.
        empty: how outputs differ at sizes of 0.
        nan: outputs that were NaN in each run.
        remarks: notes for the report, which do not change the verdict.
        first: the engine that ran the first model.
    """

    feeds: list[dict[str, Any]] = field(default_factory=list)
    shapes: list[dict[str, Any]] = field(default_factory=list)
    outputs: dict[str, OutputReport] = field(default_factory=dict)
    engine: str = ""
    runs: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    tensor: str = ""
    why: str = ""
    is_different: bool = False
    cast: tuple[str, ...] = ()
    part: float = 0.0
    empty: str = ""
    nan: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    first: Any = OnnxRuntime

    @property
    def status(self) -> str:
        """The verdict by outputs alone, without changed parts."""
        return DIFFERENT if self.is_different else EQUAL if self.engine else UNVERIFIED

    def answer(self, status: str, findings: Sequence[Finding] = (), remarks: Sequence[str] = ()) -> Verification:
        """Make the verification from the outputs and the findings about regions."""
        is_same = all(one.is_same for one in self.outputs.values()) and all(one.is_same for one in findings)
        return Verification(
            status,
            is_same and status == EQUAL,
            self.engine,
            self.runs,
            self.absolute,
            self.relative,
            tuple(self.shapes),
            tuple(self.outputs.values()),
            tuple(findings),
            self.tensor if status == DIFFERENT else "",
            self.why if status != EQUAL else "",
            cast=self.cast,
            remarks=tuple(remarks),
        )


def run_whole(before: Side, after: Side, grade: str, wanted: Asked, *, rounded_to: int = 0) -> WholeRun:
    """Run both models on the same inputs, and compare outputs. Runs before their changed parts are compared.

    Pairs of engines are tried in turn (onnxruntime for both models first) until one runs both. Where the two engines
    of a pair are not the same, a difference of outputs does not count, as an engine may be wrong: the changed parts
    then decide.

    Args:
        before, after: the models.
        grade: `exact` or `close`.
        wanted: what the user says of inputs and engines.
        rounded_to: the element type in which the first model computes where the second carries its values in a wider
            one: outputs are rounded to it before they are compared. 0 if there is none.

    Raises:
        InvalidModel: an operator of the first model takes the type of an input at no opset.
    """
    if size := too_large(wanted, before, after):
        return WholeRun(why=f"{size >> 20} MB of weights; --runs 1 runs the whole models as well")
    reasons: list[str] = []
    best = WholeRun()
    named = [tuple(adapters.JUDGES[name] for name in wanted.engines)] if wanted.engines else _PAIRS
    for first, second in dict.fromkeys((before.in_place_of(a), after.in_place_of(b)) for a, b in named):
        if reasons and (is_rough(first, before.model) or is_rough(second, after.model)):
            continue
        one, other = replace(before, engine=first), replace(after, engine=second)
        same = first is second and first in ENGINES  # others compute something else than what is written
        try:
            limit = _PATIENCE if Reference in (first, second) and not wanted.engines else math.inf
            found = call_within(limit, _run, one, other, grade if same else "close", wanted, rounded_to)
        except EngineError as error:
            reasons.append(str(error))
            if first is OnnxRuntime and INVALID.search(reasons[-1]):
                _check_types(before.model)
            if TOO_LONG in reasons[-1] or isinstance(error, NeverRuns):  # another pair takes as long
                break
            continue
        if found.engine and not found.is_different:
            return found
        is_exact = first is second and not any(is_rough(first, side.model) for side in (before, after))
        if found.is_different and (is_exact or wanted.engines or before.network or after.network):
            return found
        if found.is_different:  # the engines may be to blame: the parts decide
            why = "onnxruntime is not exact for DFT and STFT" if first is second else "two engines yield other outputs"
            found = replace(found, is_different=False, engine="", why=why)
        best = found if len(found.feeds) > len(best.feeds) else best
        reasons.append(found.why)
    return replace(best, why="; ".join(dict.fromkeys(filter(None, reasons))))


def _check_types(model: ModelProto) -> None:
    """Raise `InvalidModel` if an operator takes the type of an input at no opset, whatever is declared of others.

    Many exporters write what only a newer opset allows, such as Clip of int64; onnx.reference runs it.
    """
    from onnx.defs import onnx_opset_version

    copy = copy_model(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        value.ClearField("type")
    why = _infer_complaint(copy)
    for entry in copy.opset_import:
        if not normalize_domain(entry.domain):
            entry.version = onnx_opset_version()
    if why and why == _infer_complaint(copy):
        raise InvalidModel(f"the model is not valid: {why}")


def _infer_complaint(model: ModelProto) -> str:
    """Return the error of onnx's type inference for a model that an engine refused; empty if there is none."""
    from opshift.passes.analysis.inferring.untyped_inputs import infer_shapes

    try:
        infer_shapes(model, check_type=True)
    except Exception as error:
        return one_line(error)
    return ""


def too_large(wanted: Asked, *sides: Side) -> int:
    """Count the bytes of weights if they are too many to run; 0 if not, or where the user gives runs or inputs."""
    size = max(sum(map(tensor_data.nbytes, side.model.graph.initializer)) for side in sides)
    return size if size > MOST and not (wanted.runs or wanted.sets or wanted.engines) else 0


def _run(before: Side, after: Side, grade: str, wanted: Asked, rounded_to: int) -> WholeRun:
    """Run both whole models in their engines on the same inputs, compare outputs, and try small sizes at the end."""
    cast = interfaces.casts(before.model, after.model)
    names = [value.name for value in before.model.graph.output]
    make_judge = partial(OutputJudge, before, grade, wanted.tolerances, names)
    judge = make_judge()
    whole = judge.found
    whole.cast, whole.first = tuple(cast), before.engine
    progress.tell("run the first model")
    first = before.open()
    runs = list(
        feeding.running(
            before,
            lambda given: first.run(interfaces.round_inputs(given, cast)),
            wanted,
            beside=after.model,
        )
    )
    whole.feeds = [interfaces.round_inputs(fed.given, cast) for fed in runs]
    expected = [fed.outputs for fed in runs]
    try:
        second = after.open()
    except EngineError as error:
        whole.why = str(error)
        if before.engine is after.engine is OnnxRuntime and INVALID.search(whole.why):
            whole.is_different, whole.why = True, f"onnxruntime does not load the second model: {error}"
        return whole
    whole.engine = " and ".join(dict.fromkeys([before.engine_name, after.engine_name]))
    for number, (given, values) in enumerate(zip(whole.feeds, expected, strict=True)):
        progress.tell("run the second model", number + 1, len(whole.feeds))
        try:
            actual = second.run(interfaces.as_second(given, cast))
        except EngineError as error:
            judge.fail(given, f"the second model fails: {error}")
            if Reference in (before.engine, after.engine):  # which runs what is not valid, and not all that is
                whole.engine, whole.is_different = "", False
            return whole
        pairs = list(zip(names, values, actual, strict=True))
        values = [interfaces.in_narrower(a, b)[0] if name in cast else a for name, a, b in pairs]
        actual = [interfaces.in_narrower(a, b)[1] if name in cast else b for name, a, b in pairs]
        if rounded_to:
            values, actual = ([interfaces.in_type(value, rounded_to) for value in run] for run in (values, actual))
        if not judge.add(given, values, actual):
            return whole
    if expected and all(map(bounds.is_all_nan, expected)):
        whole.engine, whole.why = "", "all outputs were NaN in each run"
        return whole
    whole.nan = [
        name for k, name in enumerate(names) if expected and all(bounds.is_all_nan([run[k]]) for run in expected)
    ]
    whole.remarks += [f'output "{name}" was NaN in each run, so its values were not tested' for name in whole.nan]
    whole.remarks += [
        f'{count} of the labels in "{name}" differ, where {why}'
        for name, told in judge.labels.items()
        for count, why in zip(told, _WHY_LABELS_DIFFER, strict=True)
        if count
    ]
    whole.remarks += responding.remarks(before.model, expected)
    whole.remarks += _find_unfilled_windows(before, whole.feeds)
    is_plain = not (wanted.sets or wanted.runs or whole.cast or rounded_to)
    if is_plain and before.engine is after.engine is OnnxRuntime:
        _try_small_sizes((before.model, after.model), first, second, whole, make_judge)
    return whole


def _find_unfilled_windows(side: Side, feeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """List windows (kernels) that were larger than their feature map in each run, and are not at other sizes."""
    wide = windows.windows(side.model)
    largest = max(feeds, key=lambda given: sum(getattr(value, "size", 0) for value in given.values()))
    sizes = {name: value.shape for name, value in largest.items() if hasattr(value, "shape")}
    seen = windows.infer_shapes(side.model, side.folder, sizes, [window.value for window in wide]) if wide else {}
    unfilled = [window for window in wide if window.lacking(seen.get(window.value, ()))]
    ever = windows.infer_shapes(side.model, side.folder, {}, [window.value for window in unfilled]) if unfilled else {}
    names = [str(window) for window in unfilled if not window.lacking(ever.get(window.value, ()))]
    if not names:
        return []
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    said = f"kernels larger than their feature map, so not fully tested: {', '.join(names[:3])}{rest}"
    return [f"{said}; try larger sizes with --input-shape"]


def _try_small_sizes(
    models: Sequence[ModelProto],
    first: Session,
    second: Session,
    found: WholeRun,
    make_judge: Callable[[], OutputJudge],
) -> None:
    """Run both models with all dynamic sizes at 2, 1 and 0, as far as the first model accepts that.

    Kernels may crash on these, so each runs in a process of its own.
    """
    dims = [{value.name: value.type.tensor_type.shape.dim for value in model.graph.input} for model in models]
    fixed = {
        name: [any(dim.dim_value for dim in pair) for pair in zip(shape, dims[1][name], strict=False)]
        if name in dims[1]
        else [True] * len(shape)  # the second model has a value in its place
        for name, shape in dims[0].items()
    }
    if all(map(all, fixed.values())) or not isolation.forks() or _reflects(models[0]):
        return
    for size in (2, 1, 0):
        given = {name: _cut_down(value, fixed.get(name, ()), size) for name, value in found.feeds[0].items()}
        if {name: feeding.shape_of(value) for name, value in given.items()} in found.shapes:
            continue
        with suppress(isolation.Ended):
            name, why, part = isolation.call(_compare_once, first, second, given, make_judge())
            if why and size:
                found.is_different, found.tensor, found.why = True, name, f"{why}, at sizes of {size}"
                found.part = part
            elif why and name and "shape" not in why:  # which sizes of 0 have is nobody's promise
                found.empty = f'"{name}" differs at sizes of 0: {why}'
        if found.is_different:
            return


def _reflects(model: ModelProto) -> bool:
    """Whether a model reflects values at their ends: onnxruntime before 1.25 reads beyond them where they are few."""
    pads = (node for body in bodies(model) for node in body.node if node.op_type == "Pad")
    return any(attribute.s == b"reflect" for node in pads for attribute in node.attribute)


def _cut_down(value: Any, fixed: Sequence[bool], size: int) -> Any:
    """Cut an input to its first elements along dynamic dimensions. Runs for the extra runs at sizes 2, 1 and 0."""
    if getattr(value, "ndim", None) != len(fixed):
        return value
    return value[tuple(slice(None) if is_fixed else slice(size) for is_fixed in fixed)]


def _compare_once(
    first: Session, second: Session, given: Mapping[str, Any], judge: OutputJudge
) -> tuple[str, str, float]:
    """Run both models; returns the first output that differs, how, and the part of its elements that do.

    Nothing differs if the first model fails, or yields nothing.
    """
    isolation.end_after(math.ceil(_PATIENCE))
    try:
        expected = first.run(given)
    except EngineError:
        return "", "", 0.0
    try:
        judge.add(given, expected, second.run(given))
    except EngineError as error:
        if any(getattr(value, "size", 1) for value in expected):
            judge.fail(given, f"the second model fails: {error}")
    return judge.found.tensor, judge.found.why, judge.found.part


def in_first_engine(run: Callable[..., T], *sides: Side) -> T:
    """Call a function with the sides in the first engine that runs them all; raises `EngineError` if none does."""
    reasons = []
    for engine in ENGINES:
        try:
            limit = math.inf if engine is OnnxRuntime else _PATIENCE
            return call_within(limit, run, *(replace(side, engine=engine) for side in sides))
        except EngineError as error:
            reasons.append(str(error))
    raise EngineError("; ".join(dict.fromkeys(reasons)))


class OutputJudge:
    """Compares outputs run by run, with a measure of what rounding does to them.

    Attributes:
        found: what the runs told so far.
        labels: how many labels in an output differ and may, over all runs.
    """

    def __init__(
        self,
        before: Side,
        grade: str,
        asked: Tolerances,
        names: Sequence[str],
        wrap: Callable[[Run], Run] = lambda run: run,
    ):
        """`asked` are tolerances of the user; `wrap` says how a session of the first model is run."""
        self._before, self._grade, self._asked, self.names, self._wrap = before, grade, asked, names, wrap
        self._moved: dict[int, list[tuple[Any, ...]]] = {}
        self._forms: list[Run] | None = None
        self._scores = find_scores(before.model) if grade == "close" else {}
        self.labels: dict[str, Explained] = {}
        self.found = WholeRun()

    def add(self, given: Mapping[str, Any], expected: Sequence[Any], actual: Sequence[Any]) -> bool:
        """Compare all outputs of a run; whether they agree."""
        found = self.found
        found.shapes.append({name: feeding.shape_of(value) for name, value in given.items()})
        found.runs += 1
        for name, a, b in zip(self.names, expected, actual, strict=True):
            report = self.output(name, given, a, b, expected)
            found.outputs[name] = found.outputs[name].worse(report) if name in found.outputs else report
            if not report.is_random and name not in self.labels:
                absolute, relative = bounds.measure(a, b)
                found.absolute, found.relative = max(found.absolute, absolute), max(found.relative, relative)
            found.part = max(found.part, report.part)
            if report.why and not found.is_different:
                found.is_different, found.tensor, found.why = True, name, report.why
        return not found.is_different

    def fail(self, given: Mapping[str, Any], why: str) -> None:
        """Note that the second model fails on these inputs."""
        self.found.shapes.append({name: feeding.shape_of(value) for name, value in given.items()})
        self.found.is_different, self.found.why = True, why

    def output(self, name: str, given: Mapping[str, Any], a: Any, b: Any, run: Sequence[Any] = ()) -> OutputReport:
        """Compare an output; `run` are all outputs of the first model, scores of labels included."""
        if run and name in self._scores and not bounds.identical(a, b):
            held = self._scores[name]
            told = explain_labels(a, b, run[self.names.index(held.scores)], held)
            if told is not None:
                ties, corrected = self.labels.get(name, Explained())
                self.labels[name] = Explained(ties + told.ties, corrected + told.corrected)
                return OutputReport(name, is_same=False, by_user=name in self._asked or "" in self._asked)
        return self._judge(name, given, a, b)

    def _judge(self, name: str, given: Mapping[str, Any], a: Any, b: Any) -> OutputReport:
        """Compare an output: by the user's tolerance if there is one, else by equality, tolerance, and what a
        rounding does. Runs for each output of each run.
        """
        asked = self._asked.get(name, self._asked.get(""))
        if asked is not None:
            closeness = bounds.judge_by_user(a, b, asked)
            return OutputReport(
                name, closeness.difference, closeness.allowed, bounds.identical(a, b), by_user=True, why=closeness.why
            )
        if bounds.identical(a, b):
            return OutputReport(name)
        closeness = bounds.judge_outputs(a, b, self._grade)
        if closeness.why and random_operators.is_random(self._before, given, name, a, b, self._grade):
            return OutputReport(name, is_same=False, is_random=True)
        if closeness.why and getattr(a, "dtype", None) == getattr(b, "dtype", ()):
            place = self.names.index(name)
            closeness = bounds.judge_outputs(a, b, "close", tuple(run[place] for run in self._run_moved(given)))
        apart, allowed, counted = closeness.difference, closeness.allowed, closeness.counted
        return OutputReport(
            name, apart, allowed, is_same=False, part=closeness.part, why=closeness.why, counted=counted
        )

    def _run_moved(self, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run the first model with inputs and weights moved by one rounding."""
        if id(given) not in self._moved:
            progress.tell("measure what rounding does")
            runs = []
            if self._forms is None:
                self._forms = []
                for seed in range(2):
                    with suppress(EngineError):
                        moved = replace(self._before, model=bounds.move_weights(self._before.model, seed))
                        self._forms.append(self._wrap(moved.open().run))
            for seed, run in enumerate(self._forms):
                fed = {name: bounds.move_by_rounding(value, seed) for name, value in given.items()}
                with suppress(EngineError):
                    runs.append(tuple(run(fed)))
            self._moved[id(given)] = runs
        return self._moved[id(given)]


# --- models that no engine runs -------------------------------------------------------------------------------


def runnable_part(side: Side) -> tuple[Side, str] | None:
    """Cut off operators that no engine knows, and what depends on them; returns the rest and their names.

    Used if no engine runs the whole model.

    None where all are known.
    """
    known = {"", "ai.onnx.ml", schemas.MICROSOFT, *(function.domain for function in side.model.functions)}
    lost: set[str] = set()
    kept, unknown = [], dict[str, None]()
    for node in side.model.graph.node:
        if normalize_domain(node.domain) not in known:
            unknown[f"{node.domain}::{node.op_type}"] = None
        elif not lost.intersection(node.input):
            kept.append(node)
            continue
        lost.update(node.output)
    if not unknown:
        return None
    model = copy_model(side.model)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(kept)
    read = {name for node in kept for name in node.input}
    for name in [name for node in kept for name in node.output if name and name not in read]:
        model.graph.output.add(name=name)
    return replace(side, model=model), f"no engine knows {', '.join(unknown)}"


def draw_inputs(side: Side, wanted: Asked) -> list[dict[str, Any]]:
    """Draw inputs that a model runs on; none if none are found."""
    with suppress(EngineError):
        return [fed.given for fed in feeding.running(side, side.open().run, wanted)]
    return []


# --- loops ----------------------------------------------------------------------------------------------------


def bound_loops(model: ModelProto) -> ModelProto:
    """Copy a model with Loops without a trip count limited to `ITERATIONS` iterations.

    Runs before anything is run, as such a Loop may never end.
    """
    if not any(_is_endless(node) for body in bodies(model) for node in body.node):
        return model
    bounded = copy_model(model)
    limit = TensorProto(data_type=TensorProto.INT64, int64_data=[ITERATIONS])
    for number, body in enumerate(list(bodies(bounded))):
        endless = [node for node in body.node if _is_endless(node)]
        for node in endless:
            node.input[0] = f"~turns{number}"
        if endless:
            constant = NodeProto(op_type="Constant", output=[f"~turns{number}"])
            constant.attribute.append(make_attribute("value", limit))
            body.node.insert(0, constant)
    return bounded


def _is_endless(node: Any) -> bool:
    return node.op_type == "Loop" and not normalize_domain(node.domain) and bool(node.input) and not node.input[0]
