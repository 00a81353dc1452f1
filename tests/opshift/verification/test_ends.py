"""Nodes in two types at the ends of ranges: what differs is found."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto
from opshift.passes.types.ends import Probe, probes
from opshift.passes.types.wanted import types

from opshift.verification.ends import compare_runs, run_ends
from opshift.verification.feeding.asked import DRAWN
from opshift.verification.side import Side
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

T = TensorProto
SOURCE = model(
    "a = Mul(x, k) b = Add(a, x) y = Cast<to=1>(b)", 17,
    inputs="int64[3] x", outputs="float[3] y", constants="int64 k = {1000}",
)  # fmt: skip


def test_each_kind_of_node_is_run_at_its_ends():
    found = probes(SOURCE, types("int64=int32"), None)
    assert [probe.name for probe in found] == ["a", "b"]
    assert {-(2**20), 2**20}.issubset(found[0].feeds[0])
    assert run_ends(found).kinds == 2
    assert not run_ends(found).why


def test_another_result_is_found():
    probe = probes(SOURCE, types("int64=int32"), None)[1]
    other = onnx.ModelProto()
    other.CopyFrom(probe.narrow)
    other.graph.node[0].op_type = "Sub"
    seen = run_ends([probe._replace(narrow=other)])
    assert seen.node == "b"
    assert "in int32 instead of" in seen.why


def test_a_result_that_is_said_to_fit_and_does_not_is_found():
    wide = model("y = Mul(x0, x1)", 17, inputs="int64[N] x0, int64[N] x1", outputs="int64[N] y")
    narrow = model("y = Mul(x0, x1)", 17, inputs="int32[N] x0, int32[N] x1", outputs="int32[N] y")
    probe = Probe("y", wide, narrow, ((2**20, 1), (2**20, 1)), (T.INT64, T.INT64), True)
    assert "exceeds int32" in run_ends([probe]).why
    assert not run_ends([probe._replace(is_certain=False)]).why


def test_outputs_of_whole_models_are_the_same_or_not():
    narrow = model("y = Add(x, x)", 17, inputs="int32[3] x", outputs="int32[3] y")
    wide = model("y = Add(x, x)", 17, inputs="int64[3] x", outputs="int64[3] y")
    found = compare_runs(Side(wide), Side(narrow), DRAWN)
    assert (found.status, found.cast) == ("equal", ("x", "y"))
    other = model("y = Sub(x, x)", 17, inputs="int32[3] x", outputs="int32[3] y")
    assert compare_runs(Side(wide), Side(other), DRAWN).status == "different"
