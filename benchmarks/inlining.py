"""`python -m benchmarks inlining [--nodes N ...] [--runs N] [--limit S]`: what takes the place of a call.

onnx's inliner has three ways in. `inline_local_functions` takes the model's own functions. `inline_selected_functions`
takes operators that are named, or all that have a definition but those that are named (`exclude`). onnx_ir's pass takes
the model's own functions alone; onnxscript's optimizer calls it.
"""

from __future__ import annotations

from benchmarks import models
from benchmarks.conversions import COLUMNS, Shape

OURS = "opshift inline --no-verify"
_LOAD = "import sys, onnx, onnx.inliner as i; m = onnx.load(sys.argv[-2]); m = "
_SAVE = "; onnx.save(m, sys.argv[-1])"
NAMED = f"{_LOAD}i.inline_selected_functions(m, [('', sys.argv[1])], inline_schema_functions=True){_SAVE}"
BUT = f"{_LOAD}i.inline_selected_functions(m, [('', 'Relu')], exclude=True, inline_schema_functions=True){_SAVE}"
LOCAL = f"{_LOAD}i.inline_local_functions(m){_SAVE}"
PASS = (
    "import sys, onnx_ir; from onnx_ir.passes.common import InlinePass;"
    "onnx_ir.save(InlinePass()(onnx_ir.load(sys.argv[1])).model, sys.argv[2])"
)


def _operator(op: str, peer: str = NAMED) -> dict[str, list[str]]:
    return {OURS: ["-m", "opshift", "inline", "--op", op, "--no-verify"], "onnx.inliner": ["-c", peer, op]}


_FUNCTIONS = {
    OURS: ["-m", "opshift", "inline", "--domain", models.FUNCTIONS, "--no-verify"],
    "onnx.inliner": ["-c", LOCAL],
    "onnx_ir": ["-c", PASS],
}

SHAPES = [
    Shape("ReduceL2 inlined at 18", models.norms, _operator("ReduceL2")),
    Shape("ReduceL2 inlined at 18, as all but Relu", models.norms, _operator("ReduceL2", BUT)),
    Shape("Celu inlined at 12", models.celus, _operator("Celu")),
    Shape("LayerNormalization inlined at 18", models.layer_norms, _operator("LayerNormalization")),
    Shape("calls of one function, inlined", models.calls, _FUNCTIONS),
    Shape("a function for each call, inlined", models.functions, _FUNCTIONS),
    Shape("functions that call the next one, inlined", models.function_chain, _FUNCTIONS, 10_000),
]

HEAD = f"""
## Inlining

Operators become their definitions, and calls of the model's own functions their bodies. `onnx.inliner` takes operators
that are named, or all but those that are named; its time grows with the square of the calls, or faster, in the latter
case, and where a definition hangs on types. onnx_ir's pass, which onnxscript's optimizer calls, takes a model's
functions alone.

{COLUMNS}"""
