"""What a branch holds that is not taken is a call only if an engine runs it the other way round."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

from tests.random.branches import turned
from tests.random.engines import Engines
from tests.random.models import Source
from tests.random.verbs import Verb
from tests.random.verdict import INVALID, OK, UNJUDGED, Judge

NORMALIZED = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2,3] x, float[3] s, float[B] b) => (float[?,?] y) {
        y = If (c) <then_branch = t () => (float[2,3] p) { p = Identity(x) },
                    else_branch = e () => (float[2,3] q) { q = LayerNormalization(x, s, b) }>
    }
"""
TO_16 = Verb("down", (("convert", ({"": 16},)),))


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as held:
        yield held


def source(taken: bool, bias: int) -> Source:
    feeds = {"c": np.array(taken), "x": np.ones((2, 3), np.float32), "s": np.ones(3, np.float32)}
    return Source(onnx.parser.parse_model(NORMALIZED), {**feeds, "b": np.ones(bias, np.float32)}, "if")


@pytest.mark.parametrize(("bias", "status"), [pytest.param(3, INVALID, marks=pytest.mark.long), (4, UNJUDGED)])
def test_what_no_engine_runs_is_no_finding(engines: Engines, monkeypatch: pytest.MonkeyPatch, bias, status):
    assert Judge(engines, source(True, 3)).judge(TO_16).status == OK
    monkeypatch.setattr("tests.random.verdict.complaint", lambda _: "it is broken")
    monkeypatch.setattr("tests.random.verdict.undefined", lambda *_: "")
    assert Judge(engines, source(True, bias)).judge(TO_16).status == status


@pytest.mark.long
def test_conditions_are_turned_one_by_one_and_together():
    nested = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2] x) => (float[2] y) <bool h = {1}> {
            k = Constant<value = bool {0}>()
            y = If (c) <then_branch = t () => (float[2] p) {
                p = If (h) <then_branch = tt () => (float[2] p1) { p1 = Neg(x) }, else_branch = te () => (float[2] p2) { p2 = Abs(x) }>
            }, else_branch = e () => (float[2] q) {
                q = If (k) <then_branch = et () => (float[2] q1) { q1 = Exp(x) }, else_branch = ee () => (float[2] q2) { q2 = Relu(x) }>
            }>
        }
    """)
    fed = {"c": np.array(True), "x": np.array([-2, 3], np.float32)}
    with Engines() as engines:
        runs = [engines.run("onnxruntime", s.model, s.feeds)[0] for s in turned(Source(nested, fed, "if in if"))]
    results = {tuple(np.round(run[0], 2)) for run in runs if run is not None}
    assert len(runs) == 7
    assert results == {(2.0, -3.0), (2.0, 3.0), (0.0, 3.0), (np.float32(0.14), np.float32(20.09))}


@pytest.mark.long
def test_a_model_without_branches_has_nothing_to_turn():
    plain = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    assert not list(turned(Source(plain, {"x": np.ones(2, np.float32)}, "graph")))
    fed = replace(source(True, 3), feeds={})
    assert not list(turned(fed))
