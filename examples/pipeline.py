"""Prepares a model for an old runtime inside a pipeline of `onnx_ir` passes, and proves that it computes the same.

python examples/pipeline.py examples/encoder.onnx for-production.onnx
"""

import sys

import onnx_ir
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import IdentityEliminationPass, RemoveUnusedNodesPass
from opshift.passes import ConvertVersionPass, InlineFunctionsPass

import opshift


def main(source: str, output: str) -> None:
    """Inline the model's functions, convert it, tidy it, save it, and run both forms."""
    pipeline = Sequential(
        InlineFunctionsPass(),
        ConvertVersionPass("onnxruntime-1.8"),  # or an opset, such as 13
        IdentityEliminationPass(),
        RemoveUnusedNodesPass(),
    )
    result = pipeline(onnx_ir.load(source))
    onnx_ir.save(result.model, output)

    plan = opshift.plan(source, "onnxruntime-1.8")
    found = opshift.verify(source, output, grade=plan.grade)
    print(f"modified: {result.modified}; {len(plan.changes)} changes, {plan.grade}; {found.status} by {found.engine}")
    if not found.equal:
        sys.exit(f"{found.tensor}: {found.why}")


if __name__ == "__main__":
    main(*sys.argv[1:])
