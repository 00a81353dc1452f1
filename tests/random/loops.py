"""onnx.reference with loops as their text has them: its own run no trip without a condition, and join what is stacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.reference
from onnx import ModelProto
from onnx.reference.ops import op_loop

from opshift.verification.engines import EngineError, one_line
from tests.conformance.engines import Evaluator
from tests.runtime import every_node


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
        if self.K and not yielded:
            raise RuntimeError("there is no trip, and nothing tells the sizes of what is stacked")
        stacked = [np.stack(values) for values in zip(*yielded, strict=True)]
        return self._check_and_fix_outputs((*state, *stacked))  # type: ignore[no-any-return]


class Looping(Evaluator):
    """onnx.reference, but for its Loop."""

    own = ("Loop",)

    def __init__(self, model: ModelProto):
        super().__init__(model)
        bodies = (model.graph.node, *(function.node for function in model.functions))
        if any(node.op_type == "Loop" for body in bodies for node in every_node(body)):
            self._evaluator = onnx.reference.ReferenceEvaluator(self._evaluator.proto_, new_ops=[Loop])

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """See `Evaluator.run`. What fails inside of graphs is told, not the nodes around it."""
        try:
            return super().run(feeds)
        except EngineError as error:
            first = error.__context__ or error
            while first.__cause__ is not None:
                first = first.__cause__
            raise EngineError(one_line(first)) from None
