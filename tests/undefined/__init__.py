"""Calls that onnx.checker takes and some engine runs, and of which the text of the operator says nothing, or that it does
not allow: one table. What becomes of them is no defect, so that no case is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto

from tests.node_calls import Compute, all_values, calls
from tests.undefined.rows import ROWS


def undefined(of: ModelProto, feeds: Mapping[str, Any], differs: str = "", compute: Compute = all_values) -> str:
    """What the text of an operator leaves open in a model on these inputs; empty where it says all.

    Of some calls it leaves open no more than some difference, which counts where it is what `differs`. For `compute` see `calls`.
    """
    rows = [row for row in ROWS if not row.only or any(only in differs for only in row.shown)]
    found = (f"{call.node.op_type}: {row.what}" for call in calls(of, feeds, compute) for row in rows if row.of(call))
    return next(found, "")
