"""The Python API: convert, inline, plan and verify models, each a path, an `onnx.ModelProto` or an `onnx_ir.Model`.

Functions spell out the arguments that they share: type checkers, editors and `help` show these of each. What they are
is told once, by `convert_version` and `verify`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.files import formats, model_file
from opshift.files.lending import as_given, lend, load_model, rewriting, within
from opshift.passes import goals
from opshift.passes.changes import Change, Result, worst
from opshift.passes.errors import Refusal
from opshift.passes.goals import Goal, Refinement
from opshift.passes.inputs.ends import Names
from opshift.passes.inputs.matching import CONNECT, pairs
from opshift.passes.inputs.parts import part_of
from opshift.passes.inputs.sizes import Sizes
from opshift.passes.inputs.wanted import Values
from opshift.passes.model.editing.order import in_order_if_needed
from opshift.passes.model.messages import ModelProto
from opshift.passes.progress import Heard, listen
from opshift.passes.stages.operator_names import as_names
from opshift.passes.targets import Target
from opshift.verification.feeding.asked import DRAWN, Asked, Engines, Inputs, Ranges, at, check_inputs, read_options
from opshift.verification.side import Side
from opshift.verification.tolerances import Given as Tolerance
from opshift.verification.verdict import Verification, escape, html_table, several
from opshift.verification.verify import compare_models

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from opshift.jobs.difference import Difference

    Model: TypeAlias = onnx.ModelProto | onnx_ir.Model | str | os.PathLike[str]


_SHOWN = 3  # kinds of changes that a plan prints


@dataclass(frozen=True)
class Plan:
    """What a conversion would do.

    Attributes:
        changes: one entry for each node that a step would change, with its grade.
        refusals: the reasons why the model cannot be converted; empty if it can.
        nearest: where there are refusals, the opset nearest to the target that can be reached.
    """

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    nearest: int | None = None

    @property
    def grade(self) -> str:
        """`exact`: the same values for every input. `close`: the same real-number function, other rounding."""
        return worst(change.grade for change in self.changes)

    def __str__(self) -> str:
        rows = self._rows()
        lines = [self._head(), *(f"{count} x {op} {what}: {how}" for count, op, what, how in rows[:_SHOWN])]
        return "\n".join([*lines, *([f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else [])])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [(str(count), *kind) for count, *kind in self._rows()]
        return f"<p>{escape(self._head())}</p>{html_table(('', 'operator', '', 'what is done'), rows) if rows else ''}"

    def _head(self) -> str:
        if self.refusals:
            nearest = f"; nearest opset that works: {self.nearest}" if self.nearest is not None else ""
            return f"refused: {several(len(self.refusals), 'reason')}{nearest}"
        return f"{several(len(self.changes), 'change')}, {self.grade}"

    def _rows(self) -> list[tuple[int, str, str, str]]:
        """How often what is done to which operator, or why it cannot be done."""
        if self.refusals:
            kinds = Counter((refusal.operator, refusal.boundary, refusal.why) for refusal in self.refusals)
        else:
            kinds = Counter((change.op, change.rung, change.how) for change in self.changes)
        return [(count, *kind) for kind, count in kinds.most_common()]


@rewriting
def convert_version(
    model: Model,
    target_version: Target | None = None,
    *,
    ir_version: int | None = None,
    modernize: bool = False,
    optimize: bool = False,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    quantization: str | None = None,
    zipmap: str | None = None,
    map: str | None = None,
    interface: Iterable[str] | str | None = None,
    types: str | None = None,
    keep: Iterable[str] | str | None = None,
    only: Iterable[str] | str | None = None,
    budget: float | Mapping[str, float] | None = None,
    inputs: Inputs | None = None,
    input_shape: Sizes | None = None,
    val_range: Ranges | None = None,
    progress: Heard | None = None,
) -> Model:
    """Convert a model to another opset, up or down; a drop-in for `onnx.version_converter.convert_version`.

    Args:
        model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`; it is never changed.
        target_version: an opset of the default domain, `"latest"`, the name of a target such as
            `"onnxruntime-1.8"`, or opsets by domain, such as `{"": 13, "ai.onnx.ml": 2}`. What a target is said to lack
            at its opset is replaced, or the model goes to one below at which it has it.
        ir_version: the IR version to write; without it, the one that was current when the opset came out, or the
            lowest above that which a feature of the model needs. It can be asked for alone: the model keeps its opset.
        modernize: then put operators in the place of the nodes that compute them, as `fold` does; none that a named
            target lacks.
        optimize: then optimize the model, as `optimize` does.
        fix_shape: sizes of inputs, by name, or of symbolic dimensions, that are written into the model before anything
            else, and from which all is computed that follows: `{"x": (1, 3, 224, 224)}`, `{"batch": 1}`, or as
            `--fix-shape` takes them.
        set: values of inputs, by name, which become constants and are asked for no more: `{"sr": 16000}`; arrays,
            numbers, texts and lists of these, or paths of `.npy` files.
        rebatch: how many samples the model is to take at once, or `"dynamic"` for any number.
        annotate: declare types and sizes of the values between, as far as they follow.
        rename: new names of inputs, outputs and symbolic dimensions: `{"images": "x"}`, or as `--rename` takes them;
            the other arguments speak of the new ones.
        add_output: values that become outputs, or nodes whose values do, by name or a pattern with `*`.
        drop_output: outputs that go, with the nodes that only they need.
        unroll: unroll Loops, Scans, LSTMs, GRUs and RNNs of at most so many turns, if their number is known.
        if_to_where: replace an If whose branches have at most so many nodes by Where, if both can always be computed.
        quantization: how quantized operators are written, `"qdq"`: on floats between DequantizeLinear and
            QuantizeLinear, or `"qoperator"`: as QLinearConv and QLinearMatMul, where all scales are such as these have.
            It can be asked for alone.
        zipmap: `"tensor"` makes the output of ZipMap, a list of maps, the scores that go into it. It can be asked for
            alone, as can `map`.
        map: `"tensor"` makes the maps that CastMap and DictVectorizer read their values, in the order of the keys.
        interface: types that the opset lacks, and those that carry their values, at inputs and outputs, too, such as
            `["float8e4m3fn=float", "int4=int8"]`; roundings are written out. It can be asked for alone. With `types`,
            also `"narrow"`, for inputs and outputs to change with the rest, or `"input:x=float16"`.
        types: other element types, `"float16"` or `"bfloat16"` for float32, `"float32"` for back again,
            `"float64=float32"`, `"int64=int32"`, or `"target"` for what a named target needs. The model is run, to see
            which values fit in, and how far outputs move. It can be asked for alone.
        keep: patterns of nodes that keep their types, such as `"op:Softmax"`, `"node:*head*"`, `"value:y"`.
        only: patterns of nodes whose types may change, and no others'.
        budget: how far an output may move by other types, or outputs by name: the root mean square of the difference
            over that of the output; 0.01 without it, 0.04 for bfloat16.
        inputs: what to run the model on for that, as for `verify`; without it, inputs are drawn.
        input_shape: the sizes to run it at; integers that are sizes are at most these.
        val_range: the least and the largest number of inputs, as for `verify`; integers are narrowed by these.
        progress: is called with what is done next, its place and the count, both 0 where nobody knows; what it raises
            ends this. The logger `opshift` tells the same.

    Returns:
        A converted copy of the same kind; an `onnx.ModelProto` for a path (external data stay references). The
        weights of an `onnx_ir.Model` are not copied: the result has the same tensors.

    Raises:
        Refused: the model cannot be expressed at the target, or mixes samples; every reason is listed.
        InvalidModel: the model cannot be read, is not what ONNX allows, or imports opsets that are not known.
        ValueError: an unknown target or IR version, or nothing is given to reach or to fix; an input or a dimension
            that the model does not have, or a size or a value that it does not take.
    """
    wanted = Refinement(modernize, optimize=optimize, quantization=goals.check_quantization(quantization))
    goal = goals.convert_version_goal(
        target_version,
        ir_version,
        wanted,
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
        zipmap=zipmap,
        map=map,
        types=types,
        interface=interface,
        keep=keep,
        only=only,
        budget=budget,
    )
    return _run_goal(model, goal, progress, read_options(inputs, input_shape, val_range))


@rewriting
def inline(
    model: Model,
    ops: Iterable[str] = (),
    target: Target | None = None,
    *,
    domain: str | None = None,
    portable: bool = False,
    ir_version: int | None = None,
    modernize: bool = False,
    optimize: bool = False,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    zipmap: str | None = None,
    map: str | None = None,
    interface: Iterable[str] | str | None = None,
    progress: Heard | None = None,
) -> Model:
    """Replace operators by their definitions in more elementary operators.

    Args:
        model: as for `convert_version`.
        ops: operators to replace wherever they occur, such as `"ReduceL2"` or `"domain::Name"`; the model's own
            functions can be named too.
        target: an opset to convert to at the same time; or a backend by name (`"rknn-2.1"`, see `opshift targets`) or
            by the path of a TOML file: everything that it lacks is replaced, to any depth, at an opset and an IR
            version that it reads. The model keeps its opset where that will do.
        domain: replace all operators of a domain, the model's own functions among them.
        portable: replace all that is not of the default domain, such as operators of `com.microsoft` and `ai.onnx.ml`.
        ir_version: as for `convert_version`.
        modernize: as for `convert_version`; what was replaced does not come back.
        optimize: as for `convert_version`.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        rebatch: as for `convert_version`.
        annotate: as for `convert_version`.
        rename: as for `convert_version`.
        add_output: as for `convert_version`.
        drop_output: as for `convert_version`.
        unroll: as for `convert_version`.
        if_to_where: as for `convert_version`.
        zipmap: as for `convert_version`.
        map: as for `convert_version`.
        interface: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        A rewritten copy of the same kind; see `convert_version`.

    Raises:
        Refused: an operator has no definition, or one that does not fit the types or shapes of a call, or the backend
            does not read what is left; every node is named.
        InvalidModel: as for `convert_version`.
        ValueError: as for `convert_version`; or an operator that neither ONNX nor the model has, or nothing is named.
    """
    ops = as_names(ops)
    goal = goals.inlining(ops, domain, target, ir_version, Refinement(modernize, optimize=optimize), portable=portable)
    goal = goals.with_options(
        goal,
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
        zipmap=zipmap,
        map=map,
        interface=interface,
    )
    if not (ops or goal.has_options or portable) and domain is None and target is None:
        raise ValueError("nothing to do: give operators, a domain, a target, portable=True or sizes to fix")
    return _run_goal(model, goal, progress)


@rewriting
def fold(
    model: Model,
    ops: Iterable[str] | None = None,
    target: Target | None = None,
    *,
    ir_version: int | None = None,
    optimize: bool = False,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    progress: Heard | None = None,
) -> Model:
    """Put operators in the place of the nodes that compute them: `inline` run backwards.

    What is used elsewhere, is a graph output, or would not compute the same, stays as it is.

    Args:
        model: as for `convert_version`.
        ops: the operators to recognise, such as `"LayerNormalization"`; without it, all that exporters write as one
            node and the model's opset has.
        target: convert to this first, as `convert_version` does; without it, the model keeps its opset. What a named
            target lacks is not brought in.
        ir_version: as for `convert_version`.
        optimize: also optimize the model, as `optimize` does; what comes to light is folded, too.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        rebatch: as for `convert_version`.
        annotate: as for `convert_version`.
        rename: as for `convert_version`.
        add_output: as for `convert_version`.
        drop_output: as for `convert_version`.
        unroll: as for `convert_version`.
        if_to_where: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        A folded copy of the same kind; see `convert_version`.

    Raises:
        Refused: as for `convert_version`.
        InvalidModel: as for `convert_version`.
        ValueError: as for `convert_version`; or an operator is not known, has no definition to recognise it by, came
            after the model's opset, or is lacked by the target; or `ops` names none.
    """
    goal = goals.with_options(
        goals.conversion(target, ir_version, goals.folding(ops, optimize=optimize)),
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
    )
    return _run_goal(model, goal, progress)


@rewriting
def optimize(
    model: Model,
    *,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    progress: Heard | None = None,
) -> Model:
    """Compute no more what is constant, computed already, or of no effect, and join what one operator can do.

    Args:
        model: as for `convert_version`.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        rebatch: as for `convert_version`.
        annotate: as for `convert_version`.
        rename: as for `convert_version`.
        add_output: as for `convert_version`.
        drop_output: as for `convert_version`.
        unroll: as for `convert_version`.
        if_to_where: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        An optimized copy of the same kind, at the same opset; see `convert_version`.

    Raises:
        InvalidModel: as for `convert_version`.
        ValueError: as for `convert_version`.
    """
    goal = goals.with_options(
        goals.conversion(None, wanted=Refinement(optimize=True)),
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
    )
    return _run_goal(model, goal, progress)


@rewriting
def extract(
    model: Model,
    to: str | Iterable[str] | None = None,
    start: str | Iterable[str] | None = None,
    *,
    around: str | None = None,
    depth: int | None = None,
    progress: Heard | None = None,
) -> Model:
    """Cut a part out of a model: the nodes between some values, or those around a node.

    Args:
        model: as for `convert_version`.
        to: the values that the part yields, or nodes for what these make, by name or a pattern with `*`; without any,
            the outputs of the model.
        start: values that the part is given, named in the same way; without any, the inputs of the model. Those of
            its inputs that the part reads remain.
        around: a node, whose neighbours make the part, in the place of `to` and `start`.
        depth: how many nodes away these may be; without it, 2.
        progress: as for `convert_version`.

    Returns:
        The part, of the same kind; see `convert_version`. Of weights it has those that it reads.

    Raises:
        Refused: the type of a value that the part is to be given does not follow from the inputs, and no run tells it.
        InvalidModel: as for `convert_version`.
        ValueError: the model has no such value or node, or nothing is named.
    """
    from opshift.jobs.preparing import extract_part

    asked = part_of(to, start, around, depth)
    with listen(progress), lend(model) as (proto, folder, back):
        made: Model = back(extract_part(Side(proto, folder).checked(), asked).model)
        return made


def merge(
    first: Model,
    second: Model,
    connect: Names | None = None,
    *,
    progress: Heard | None = None,
) -> Model:
    """Join two models: outputs of the first become inputs of the second.

    Both come to the newer of their opsets, or to the older one where that cannot be reached. Where both have a name, it
    is the second model's that changes, but for names of its inputs and outputs that the first has for a value between.

    Args:
        first: as for `convert_version`.
        second: the second model, which reads outputs of the first.
        connect: outputs of the first with the inputs of the second that they become: `{"y": "x"}`; without it, those
            of one name, or the only output and the only input.
        progress: as for `convert_version`.

    Returns:
        The joined model, an `onnx_ir.Model` where both are, else an `onnx.ModelProto`. External data of models in two
        folders are read into it.

    Raises:
        Refused: neither can be converted to the opset of the other.
        InvalidModel: as for `convert_version`.
        ValueError: a model has no such output or input, or it is of another type.
    """
    from opshift.jobs.preparing import merge_models

    with listen(progress):
        one, other = (Side(*load_model(model)).checked() for model in (first, second))
        if one.folder != other.folder:
            one, other = (Side(within(side.model, side.folder)) for side in (one, other))
        made = merge_models(one, other, pairs(connect, CONNECT)).model
        made = model_file.embed_data(made, one.folder) if one.folder is not None else made
        return as_given(made, first, second)


@rewriting
def strip(model: Model, *, progress: Heard | None = None) -> Model:
    """Take the weights out of a model, so that one that fails can be shared.

    Args:
        model: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        A copy of the same kind. Its large tensors refer to data that are not there, with a note of how to draw numbers
        like theirs. Doc strings and metadata of nodes, which may hold stack traces, are gone.

    Raises:
        InvalidModel: as for `convert_version`, or data are not there.
    """
    from opshift.files import stripping

    with listen(progress), lend(model) as (proto, folder, back):
        made: Model = back(stripping.strip(proto, folder).model)
        return made


@rewriting
def fill(model: Model, *, progress: Heard | None = None) -> Model:
    """Draw weights like those that `strip` took out.

    Args:
        model: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        A copy of the same kind with all weights. They are the same each time.

    Raises:
        InvalidModel: as for `convert_version`, or it cannot be read how to draw them.
    """
    from opshift.files import stripping
    from opshift.files.writing import scratch

    with listen(progress), lend(model) as (proto, _, back), scratch() as folder:
        made, _ = stripping.fill(proto, Path(folder))
        found: Model = back(within(made, folder))
        return found


def plan(
    model: Model,
    target: Target | None = None,
    *,
    ops: Iterable[str] = (),
    domain: str | None = None,
    modernize: bool = False,
    optimize: bool = False,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    rebatch: int | str | None = None,
    annotate: bool = False,
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
    unroll: int | None = None,
    if_to_where: int | None = None,
    zipmap: str | None = None,
    map: str | None = None,
    interface: Iterable[str] | str | None = None,
    progress: Heard | None = None,
) -> Plan:
    """What bringing `model` to `target` would change, and what would be refused and why; writes nothing.

    Args:
        model: as for `convert_version`.
        target: an opset, or opsets by domain, as for `convert_version`; or a backend, as for `inline`; without it,
            the model's own opset.
        ops: operators to replace by their definitions on the way, as for `inline`.
        domain: replace all operators of a domain on the way, as for `inline`.
        modernize: list what would be folded then, too, as for `convert_version`.
        optimize: list what would be optimized then, too, as for `convert_version`.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        rebatch: as for `convert_version`.
        annotate: as for `convert_version`.
        rename: as for `convert_version`.
        add_output: as for `convert_version`.
        drop_output: as for `convert_version`.
        unroll: as for `convert_version`.
        if_to_where: as for `convert_version`.
        zipmap: as for `convert_version`.
        map: as for `convert_version`.
        interface: as for `convert_version`.
        progress: as for `convert_version`.

    Returns:
        The changes with their grades, or the refusals with the nearest opset that can be reached.

    Raises:
        InvalidModel: as for `convert_version`.
        ValueError: as for `inline`.
    """
    goal = goals.with_options(
        goals.inlining(ops, domain, target, wanted=Refinement(modernize, optimize=optimize)),
        fix_shape=fix_shape,
        set=set,
        rebatch=rebatch,
        annotate=annotate,
        rename=rename,
        add_output=add_output,
        drop_output=drop_output,
        unroll=unroll,
        if_to_where=if_to_where,
        zipmap=zipmap,
        map=map,
        interface=interface,
    )
    with listen(progress), lend(model) as (proto, folder, _):
        result = goal.refuse_open_inputs(proto, goal.run(proto, folder), folder)
        return Plan(result.changes, result.refusals, goal.find_nearest_opset(proto, result, folder))


def verify(
    before: Model,
    after: Model,
    *,
    exact: bool = False,
    inputs: Inputs | None = None,
    input_shape: Sizes | None = None,
    val_range: Ranges | None = None,
    runs: int | None = None,
    seed: int = 0,
    save_inputs: str | os.PathLike[str] | None = None,
    repro: str | os.PathLike[str] | None = None,
    engine: Engines | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    progress: Heard | None = None,
    set: Values | None = None,
    map: Mapping[str, str] | None = None,
) -> Verification:
    """Compare two models: their outputs on the same inputs, and each part in which they differ.

    Both run in onnxruntime with graph optimizations off, in a process of their own, which a model may end; what
    onnxruntime cannot load runs in onnx.reference. Inputs that are not given are drawn from a seed, at sizes that users
    feed: symbolic dimensions take several sizes, integers values that are valid where they are used. Each part in which
    the models differ is also run alone, on values of these runs and on numbers at which its operators decide, and in
    float64 where an engine can.

    Args:
        before: the model that counts as right; as for `convert_version`.
        after: the model to compare with it. Inputs and outputs stand for each other by name, else by position.
        exact: whether only the same values, bit for bit, count as equal; else other rounding does, too.
        inputs: arrays by name, or a path: a `.npz`, a `.npy` for a model of one input, or a folder of `input_0.pb`,
            `input_1.pb` and so on, or of folders `test_data_set_0` and so on of these; or a list of these for several
            runs. What is left out is drawn.
        input_shape: sizes to run on, by the name of an input or of a symbolic dimension: `{"x": (1, 3, 224, 224)}`,
            `{"batch": 4}`, or as `--input-shape` takes them. It changes nothing in the models.
        val_range: the least and the largest number of what is drawn, by the name of an input: `{"x": (0, 1)}`; a
            pair alone is for all inputs.
        runs: on how many sets of inputs; without it, three, two where all sizes are fixed, or all that are given.
        seed: of what is drawn.
        save_inputs: where to keep what both ran on: a `.npz`, or a folder, which gets what `inputs` reads.
        repro: a new folder for the smallest models that still differ, where the two do, with inputs and outputs.
        engine: what runs both: `"onnxruntime"`, `"reference"` or `"openvino"`; or a pair of these, the first for
            `before`. A difference between two engines is one then, of a single model, too.
        rtol: what an output may differ by in the place of the bounds, as a part of the magnitude of the first model's
            element: a number, or numbers by the name of an output. Without `atol` nothing else is allowed.
        atol: the same in all; added to what `rtol` allows.
        progress: as for `convert_version`.
        set: values of inputs by name, as for `convert_version`; `after` may have constants in their place.
        map: names of inputs and outputs of `after` by those of `before` that they stand for.

    Returns:
        A verification, which is true where it is `equal` (`is_same`: bit for bit); `different` with the first value
        that differs and its node, or `unverified` with the reason.

    Raises:
        InvalidModel: as for `convert_version`.
        ValueError: the model has no such input, output or dimension, or one of another rank, size or type; an engine
            is not known or not installed.
        OSError: a file of inputs cannot be read, or not be written.
    """
    wanted = read_options(inputs, input_shape, val_range, runs, seed, save_inputs, repro, engine, rtol, atol, set, map)
    with listen(progress):
        one, other = (Side(*load_model(model), _network(model)).checked() for model in (before, after))
        return compare_models(one, other, check_inputs(wanted, one.model), exact=exact)


def diff(before: Model, after: Model, *, progress: Heard | None = None) -> Difference:
    """Compare two models node by node: operators, attributes, weights, types and sizes; nothing is run.

    Args:
        before: as for `convert_version`.
        after: the model to compare with it.
        progress: as for `convert_version`.

    Returns:
        How they differ, which is false where they do not, and prints as `opshift diff` does.

    Raises:
        InvalidModel: as for `convert_version`.
    """
    from opshift.jobs.difference import difference

    with listen(progress):
        one, other = (Side(*load_model(model)).checked() for model in (before, after))
        names = [os.fspath(m) if isinstance(m, (str, os.PathLike)) else "" for m in (before, after)]
        return difference(one, other, (names[0] or "the first", names[1] or "the second"))


def _network(model: Any) -> str | None:
    """The path of OpenVINO IR, which runs in OpenVINO."""
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) and formats.is_foreign(model) else None


def _run_goal(model: Model, goal: Goal, progress: Heard | None, given: Asked = DRAWN) -> Model:
    with listen(progress), lend(model) as (proto, folder, back):

        def run(proto: ModelProto) -> Result:
            """Run the goal on the model, or on the model with its nodes in order."""
            if goal.types is None:
                return goal.run(proto, folder)
            from opshift.jobs.narrowing import narrow  # which runs the model

            # of another batch, inputs are those of the result
            asked = at(given, goal.fixed, goal.with_ends(proto)) if goal.rebatch is None else given
            return narrow(goal, proto, lambda each, allowed: each.run(proto, folder, allowed), folder, asked)[0]

        result = goal.refuse_open_inputs(proto, in_order_if_needed(run, proto), folder)
        if result.model is None:
            raise goal.make_error(proto, result, folder)
        made: Model = back(result.model)
        return made
