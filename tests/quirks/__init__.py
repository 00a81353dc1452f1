"""What engines compute otherwise than the text of an operator says: one table, with evidence for each entry.

An entry that an engine mended holds of the versions before that. A judge asks `excuse(engine, model, feeds)` before it believes an engine: the text that comes back says why that engine is
no judge of that model; empty, it may judge. Without `feeds` only what hangs on the model alone is found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from onnx import ModelProto

from tests.node_calls import Compute, all_values, calls
from tests.quirks import reference, runtime
from tests.quirks.entry import Quirk

QUIRKS: tuple[Quirk, ...] = (*reference.QUIRKS, *runtime.QUIRKS)
HELD = tuple(quirk for quirk in QUIRKS if quirk.holds)


def excuse(
    engine: str,
    of: ModelProto,
    feeds: Mapping[str, Any] | None = None,
    differs: str = "",
    own: Collection[str] = (),
    compute: Compute = all_values,
) -> str:
    """Why an engine is no judge of a model on these inputs, or of what `differs` there; empty where it may judge.

    `own` are operators that whoever asks computes itself; for `compute` see `calls`.
    """
    rows = [
        quirk
        for quirk in HELD
        if engine.startswith(quirk.engine)
        and (not quirk.only or quirk.only in differs)
        and not set(quirk.operators) <= set(own)
    ]
    found = (
        f"{quirk.engine}: {call.node.op_type} where {quirk.when} {quirk.gives}"
        for call in (calls(of, feeds, compute) if rows else ())
        for quirk in rows
        if quirk.of(call)
    )
    return next(found, "")
