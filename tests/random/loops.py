"""onnx.reference with loops as their text has them: its own Loop runs no trip without a condition, and joins what is stacked;
its own Scan knows neither axes nor directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.reference
from onnx import ModelProto
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_loop

from opshift.verification.engines import EngineError, _with_names, one_line
from tests.conformance.engines import Evaluator


class Loop(op_loop.Loop):  # type: ignore[misc]
    """The states after the last trip, and what each trip yields along a new axis."""

    op_domain = ""

    def _run(
        self,
        trips: Any,
        cond: Any,
        *args: Any,
        context: Any = None,
        attributes: Any = None,
        bindings: Any = None,
        **_: Any,
    ) -> tuple[Any, ...]:
        goes_on, state, yielded = np.array(True) if cond is None else cond, list(args), []
        while np.all(goes_on) and (trips is None or len(yielded) < trips):
            given = zip(self.body.input_names, (np.array(len(yielded)), goes_on, *state), strict=True)
            made = self._run_body({**(context or {}), **dict(given)}, attributes=attributes, bindings=bindings)
            goes_on, state = made[0], made[1 : 1 + self.N]
            yielded.append(made[1 + self.N :])
        return self._check_and_fix_outputs((*state, *_stacked(yielded, self.K)))  # type: ignore[no-any-return]


class Scan(OpRun):  # type: ignore[misc]
    """The states after the last element, and what each element yields along an axis, in the order in which it was read or not."""

    op_domain = ""

    def need_context(self) -> bool:
        """See `OpRun.need_context`: bodies read what is outside of them."""
        return True

    def _run(
        self, *args: Any, context: Any = None, attributes: Any = None, bindings: Any = None, **_: Any
    ) -> tuple[Any, ...]:
        names, held = self.body.input_names, len(args) - self.num_scan_inputs
        state, read, yielded = list(args[:held]), list(args[held:]), []
        scanned = [
            np.moveaxis(x, axis, 0)[::way] for x, axis, way in zip(read, *self._told("input", len(read)), strict=True)
        ]
        for elements in zip(*scanned, strict=True):
            given = zip(names, (*state, *elements), strict=True)
            made = self._run_body({**(context or {}), **dict(given)}, attributes=attributes, bindings=bindings)
            state = made[:held]
            yielded.append(made[held:])
        stacked = _stacked(yielded, len(self.body.output_names) - held)
        told = zip(stacked, *self._told("output", len(stacked)), strict=True)
        return self._check_and_fix_outputs((*state, *(np.moveaxis(x[::way], 0, axis) for x, axis, way in told)))  # type: ignore[no-any-return]

    def _told(self, what: str, count: int) -> tuple[list[int], list[int]]:
        """Axes and steps of inputs or outputs."""
        axes, backwards = (getattr(self, f"scan_{what}_{name}") or [0] * count for name in ("axes", "directions"))
        return list(axes), [-1 if back else 1 for back in backwards]


def _stacked(yielded: list[Any], count: int) -> list[Any]:
    if count and not yielded:
        raise RuntimeError("there is no trip, and nothing tells the sizes of what is stacked")
    return [np.stack(values) for values in zip(*yielded, strict=True)]


class Looping(Evaluator):
    """onnx.reference, but for its Loop and its Scan. Whoever runs it asks first whether it judges what it is fed."""

    own = ("Loop",)

    def __init__(self, model: ModelProto):
        try:
            self._evaluator = onnx.reference.ReferenceEvaluator(_with_names(model), new_ops=[Loop, Scan])
        except Exception as error:
            raise EngineError(one_line(error)) from None
        self._outputs = None

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """See `Evaluator.run`. What fails inside of graphs is told, not the nodes around it."""
        try:
            return super().run(feeds)
        except EngineError as error:
            first = error.__context__ or error
            while first.__cause__ is not None:
                first = first.__cause__
            raise EngineError(one_line(first)) from None
