"""The Python counterpart of `inline --try`, for pipelines: in an installed backend, or in one that they bring along."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.files.lending import lend
from opshift.passes import goals
from opshift.passes.conversion import convert
from opshift.passes.errors import Refusal
from opshift.passes.goals import NOTHING
from opshift.passes.inputs.sizes import Sizes
from opshift.passes.inputs.wanted import Values
from opshift.passes.progress import Heard, listen
from opshift.passes.stages.operator_names import as_names
from opshift.passes.targets import Target
from opshift.trying.search import Bound
from opshift.trying.trial import Given, Runs
from opshift.trying.tried import TrialManner, Tried
from opshift.verification.feeding.asked import Inputs, at, read_options
from opshift.verification.side import Side

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    Model: TypeAlias = onnx.ModelProto | onnx_ir.Model | str | os.PathLike[str]


@dataclass(frozen=True)
class Trial:
    """What came of trying a model; true where it runs and agrees.

    Attributes:
        model: what runs, of the kind that was given; None where nothing was found.
        tried: what was found, and done about it; of what still fails, the words of the backend.
        refusals: why there was nothing to be tried, if so.
    """

    model: Any
    tried: Tried
    refusals: tuple[Refusal, ...] = ()

    def __bool__(self) -> bool:
        return self.tried.agrees


def try_in(
    model: Model,
    target: Target | None = None,
    run: Runs | None = None,
    *,
    ops: Iterable[str] = (),
    inputs: Inputs | None = None,
    input_shape: Sizes | None = None,
    runs: int | None = None,
    seed: int = 0,
    fix_shape: Sizes | None = None,
    set: Values | None = None,
    annotate: bool = False,
    tries: int = Bound.tries,
    seconds: float = Bound.seconds,
    progress: Heard | None = None,
    python: str | None = None,
    adapter: str | None = None,
) -> Trial:
    """Replace what has to be, until a backend runs the model and agrees with the source: `inline --try`.

    Args:
        model: as for `convert_version`.
        target: a backend, as for `inline`. Without `run` it has to be installed, and runs in a process of its own.
        run: a function that runs a model in a backend of yours: it is given the serialized model and the inputs by
            name, and returns the outputs in their order. What it raises is a refusal; a node or an operator that its
            words name is replaced first. It runs in this process: it has to come to an end.
        ops: operators to replace in any case, as for `inline`.
        inputs: arrays by name, or where they lie, as for `verify`; what is left out is drawn.
        input_shape: sizes to run on, as for `verify`.
        runs: on how many sets of inputs, as for `verify`.
        seed: of what is drawn.
        fix_shape: as for `convert_version`.
        set: as for `convert_version`.
        annotate: as for `convert_version`.
        tries: how often something is run at most.
        seconds: how long it is looked for something to replace.
        progress: as for `convert_version`.
        python: the interpreter that has the backend, if it is one of its own.
        adapter: a file of yours that opens models in the backend.

    Returns:
        The model that runs, and what was found on the way.

    Raises:
        InvalidModel: as for `convert_version`.
        ValueError: as for `inline` and `verify`; neither a target nor a function is given, or the target cannot be
            tried or is not installed.
    """
    from opshift.trying import attempt

    if tries < 1 or not seconds > 0:
        raise ValueError("tries must be 1 or more, and seconds more than 0")
    goal = goals.inlining(as_names(ops), None, target, None, NOTHING)
    goal = goals.with_options(goal, fix_shape=fix_shape, set=set, annotate=annotate)
    if run is not None and not callable(run):
        raise ValueError(f"run must be a function that takes the bytes of a model and its inputs by name, not {run!r}")
    if run is None and goal.backend is None:
        raise ValueError("try_model needs a backend by name, or a function that runs a model")
    backend = None if run is None else Given(run)
    found = attempt.backend_of(goal, python, adapter) if backend is None else backend.name
    with listen(progress), lend(model) as (proto, folder, back):
        proto = convert.check_in_any_order(proto)
        wanted = at(read_options(inputs, input_shape, runs=runs, seed=seed), goal.fixed, proto)
        side = Side(proto, folder)
        result, tried = attempt.attempt(side, goal, TrialManner(found, Bound(tries, seconds)), wanted, backend)
        made = back(result.model) if tried.agrees and result.model is not None else None
        return Trial(made, tried, result.refusals)
