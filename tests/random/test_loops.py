"""Loops of onnx.reference are run as onnxruntime runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from opshift.verification.engines import EngineError
from tests.conformance.engines import Evaluator
from tests.random.loops import Looping
from tests.random.worker import answer
from tests.runtime import Runtime

HEAD = '<ir_version: 8, opset_import: ["" : 16]>'
STACKS = f"""{HEAD} g (int64 n, float[2,1] x) => (float[N] s, float[N,2,1] z, float[2,1] y) {{
    y, s, z = Loop(n, {{}}, x) <body = b (int64 i, bool c, float[2,1] v) => (bool d, float[2,1] w, float t, float[2,1] u) {{
        d = Identity(c) w = Add(v, x) t = ReduceSum<keepdims=0>(v) u = Neg(v) }}>
}}"""
ENDS = f"""{HEAD} g (int64 n, float[2,1] x) => (float[N,2,1] z) {{
    c = Constant<value = bool {{1}}>()
    z = Loop(, c) <body = b (int64 i, bool c) => (bool d, float[2,1] u) {{ d = Less(i, n) u = Identity(x) }}>
}}"""
SCANS = f"""{HEAD} g (int64 n, float[2,1] x) => (float[2] y, float[A,B] z, float[C,D] o) {{
    s = Constant<value = float[2] {{0, 0}}>()
    k = Constant<value = float[3,2] {{1, 2, 3, 4, 5, 6}}>()
    y, z, o = Scan<num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[1, 0], scan_output_axes=[1, 0],
        scan_output_directions=[0, 1], body = b (float[2] v, float[3] e, float[1] f) => (float[2] w, float[3] t, float[1] u) {{
        w = Add(v, f) t = Mul(e, f) u = Add(f, f) }}>(s, k, x)
}}"""
FEEDS = {"n": np.array(3), "x": np.array([[1], [2]], np.float32)}


@pytest.mark.parametrize("text", [STACKS.replace("{}", ""), ENDS, SCANS])
def test_it_runs_as_elsewhere(text: str):
    model = onnx.parser.parse_model(text)
    for feeds in (FEEDS, {**FEEDS, "n": np.array(1)}):
        expected = Runtime(model).run(feeds)
        found, why = answer("onnx.reference", model.SerializeToString(), feeds)
        assert found is not None, why
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(other, one)
            assert (other.dtype, other.shape) == (one.dtype, one.shape)


def test_nothing_is_said_where_there_is_no_trip_whose_values_have_sizes():
    feeds: dict[str, Any] = {**FEEDS, "n": np.array(0)}
    with pytest.raises(EngineError, match="no trip"):
        Looping(onnx.parser.parse_model(STACKS.replace("{}", ""))).run(feeds)


def test_its_own_loop_is_no_judge():
    with pytest.raises(EngineError, match="no condition"):
        Evaluator(onnx.parser.parse_model(STACKS.replace("{}", "")))


def test_what_fails_inside_is_told():
    """The error of the reference names the node around it, and no more."""
    text = """<ir_version: 8, opset_import: ["" : 8]> g (float[1,2] x, float[2] s, bool c) => (float[N,2] y) { y = If(c) <
        then_branch = t () => (float[A,2] a) { a = BatchNormalization(x, s, s, s, s) },
        else_branch = e () => (float[B,2] b) { b = Identity(x) }> }"""
    feeds = {"x": np.ones((1, 2), np.float32), "s": np.ones(2, np.float32), "c": np.array(True)}
    with pytest.raises(EngineError, match="BatchNormalization"):
        Looping(onnx.parser.parse_model(text)).run(feeds)
