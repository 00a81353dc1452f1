"""Prepares a model for an old runtime inside a pipeline of `onnx_ir` passes, and proves that it computes the same.

python examples/pipeline.py examples/encoder.onnx for-production.onnx
"""

import sys

import onnx_ir
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass
from opshift.passes import ConvertVersionPass, InlineFunctionsPass, OptimizePass

import opshift

TARGET = "onnxruntime-1.8"  # or an opset, such as 13


def main(source: str, output: str) -> None:
    """Inline the model's functions, convert and optimize it, save it, and run both forms."""
    pipeline = Sequential(
        InlineFunctionsPass(),
        ConvertVersionPass(TARGET),
        OptimizePass(),
        RemoveUnusedNodesPass(),
        TopologicalSortPass(),
    )
    result = pipeline(onnx_ir.load(source))
    onnx_ir.save(result.model, output)

    plan = opshift.plan(source, TARGET, optimize=True)
    found = opshift.verify(source, output)
    print(f"modified: {result.modified}; {len(plan.changes)} changes, {plan.grade}; {found.status} by {found.engine}")
    if not found.equal:
        sys.exit(f"{found.tensor}: {found.why}")


if __name__ == "__main__":
    main(*sys.argv[1:])
