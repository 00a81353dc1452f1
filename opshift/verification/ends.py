"""Runs nodes that were narrowed on the numbers at the ends of their ranges, in both types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import ModelProto, TensorProto
from opshift.passes.records import dataclass
from opshift.verification import isolation
from opshift.verification.engines import ENGINES, EngineError
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side
from opshift.verification.verdict import Verification
from opshift.verification.whole import run_whole

if TYPE_CHECKING:
    from opshift.passes.types.door import Probe

T = TensorProto
_SECONDS = 300


@dataclass(frozen=True)
class Seen:
    """What the runs told: how many kinds of nodes are the same at their ends, and the first that is not."""

    kinds: int = 0
    node: str = ""
    why: str = ""


def run_ends(probes: Sequence[Probe]) -> Seen:
    """Run each node in both integer types on the ends of its ranges.

    Proves `--types int64=int32`; results beyond int32 are left out, as they are assumed not to occur.
    """
    try:
        return isolation.call(_run_ends, probes)
    except isolation.Ended as ended:
        return Seen(why=str(ended))


def _run_ends(probes: Sequence[Probe]) -> Seen:
    """Do the work of `run_ends`, in its process."""
    import numpy as np

    isolation.end_after(_SECONDS)
    count = 0
    for probe in probes:
        dtypes: dict[int, Any] = {T.INT64: np.int64, T.BOOL: np.bool_}
        given = enumerate(zip(probe.feeds, probe.elem_types, strict=True))
        wide = {f"x{at}": np.array(vector, dtypes[kind]) for at, (vector, kind) in given}
        keep = np.ones(len(probe.feeds[0]), bool)
        if probe.wide.graph.node[0].op_type in ("Div", "Mod"):  # by 0, of which nothing is said
            keep &= wide["x1"] != 0
        wide = {name: value[keep] for name, value in wide.items()}
        narrow = {name: value.astype(np.int32) if value.dtype == np.int64 else value for name, value in wide.items()}
        one, other = _first(probe.wide, wide), _first(probe.narrow, narrow)
        if one is None or other is None:
            continue
        count += 1
        within = np.ones(one.shape, bool) if one.dtype.kind == "b" else (one >= -(2**31)) & (one < 2**31)
        if probe.is_certain and not within.all():
            return Seen(count, probe.name, "a result exceeds int32")
        wrong = within & (one != other.astype(one.dtype))
        if wrong.any():
            place = int(np.argmax(wrong))
            fed = [value[place].item() for value in wide.values()]
            return Seen(count, probe.name, f"of {fed} it makes {other[place]} in int32 instead of {one[place]}")
    return Seen(count)


def _first(model: ModelProto, feeds: dict[str, Any]) -> Any:
    """Compute the first output of a model in the first engine that runs it; None if none does."""
    for engine in ENGINES:
        try:
            return engine(model).run(feeds)[0]
        except EngineError:
            continue
    return None


def compare_runs(before: Side, after: Side, wanted: Asked) -> Verification:
    """Compare outputs of two whole models that differ in the width of integers; these have to be the same.

    Runs in another process, after each node was proved on its ends.
    """
    isolation.end_after(_SECONDS)
    whole = run_whole(before, after, "exact", wanted)
    return whole.answer(whole.status)
