"""Matrix products of integers, where MatMul and Gemm take none."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.builder import Builder

T = TensorProto
INTEGERS = (T.INT32, T.INT64, T.UINT32, T.UINT64)


def summed_products(build: Builder, a: str, b: str, rank_a: int, rank_b: int) -> str:
    """sum over k of a[..., i, k, 1] * b[..., 1, k, j]; a vector has no i, or no j."""
    if rank_b == 1:
        common = rank_a - 1
    elif rank_a == 1:
        a, common = build.Unsqueeze(a, axes=[1]), rank_b - 2
    else:
        a, b = build.Unsqueeze(a, axes=[rank_a]), build.Unsqueeze(b, axes=[rank_b - 2])
        common = max(rank_a, rank_b) - 1
    return str(build.ReduceSum(build.Mul(a, b), axes=[common], keepdims=0))
