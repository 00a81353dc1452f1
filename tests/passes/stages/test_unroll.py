"""The stage that unrolls and replaces Ifs, from the verbs on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import pytest
from opshift.passes.goals import Goal
from opshift.passes.pipeline import FixPass

import opshift
from opshift.cli.main import main
from tests import pairs
from tests.support import evaluate, model

BOTH = """
  a = Loop(m, c, x) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
    on = Identity(go) w = Add(v, v) }>
  y = If(c2) <then_branch = p () => (float[3] t) { t = Neg(a) }, else_branch = q () => (float[3] e) { e = Abs(a) }>
"""
SOURCE = model(BOTH, 17, inputs="float[3] x, bool c2", outputs="float[3] y", constants="int64 m = {2}, bool c = {1}")
ASKED = ["--unroll", "8", "--if-to-where", "8"]
LSTM = model(
    "y = LSTM<hidden_size = 1>(x, w, r)",
    14,
    inputs="float[T,1,1] x",
    outputs="float[T,1,1,1] y",
    constants="float[1,4,1] w = {1, 2, 3, 4}, float[1,4,1] r = {1, 0, 1, 0}",
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(SOURCE, "in.onnx")
    onnx.save(LSTM, "lstm.onnx")
    return tmp_path


def ops(made: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in made.graph.node}


def test_it_comes_after_sizes_and_before_the_opset():
    names = [stage.name for stage in Goal({"": 13}, unroll=8, if_to_where=4, annotate=True).stages()]
    assert names == ["unroll up to 8 iterations and replace If by Where", "convert to opset 13", "annotate"]
    assert Goal(unroll=8).label == "unrolled"


@pytest.mark.parametrize("verb", ["convert", "inline", "fold", "optimize"])
def test_every_verb_does_it(here: Path, verb: str, in_this_process: None):
    assert main([verb, "in.onnx", "out.onnx", *ASKED]) == 0
    assert ops(onnx.load("out.onnx")).isdisjoint({"If", "Loop"})


@pytest.mark.usefixtures("in_this_process")
def test_what_stays_is_in_text_and_json(here: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "in.onnx", "out.onnx", "--unroll", "1", "--if-to-where", "1"]) == 0
    said = capsys.readouterr().out
    assert 'stays: Loop "a": it has 2 iterations; allowed: 1; try --unroll 2' in said
    assert 'stays: If "y": its branches have 2 nodes; allowed: 1; try --if-to-where 2' in said
    assert "nothing to do" not in said
    assert main(["convert", "in.onnx", "out.onnx", "--unroll", "1", "--format", "json"]) == 0
    (stays,) = json.loads(capsys.readouterr().out)["control_flow"]
    assert (stays["op"], stays["why"]) == ("Loop", "it has 2 iterations; allowed: 1; try --unroll 2")


@pytest.mark.parametrize("option", ["--unroll", "--if-to-where"])
def test_numbers_below_1_are_refused(here: Path, option: str, capsys: pytest.CaptureFixture[str]):
    assert main(["convert", "in.onnx", "out.onnx", option, "0"]) == 2
    assert f"{option} must be 1 or more, not 0" in capsys.readouterr().err
    assert not (here / "out.onnx").exists()


@pytest.mark.parametrize("function", [opshift.convert_version, opshift.inline, opshift.fold, opshift.optimize])
def test_from_python(function: object):
    assert ops(function(SOURCE, unroll=8, if_to_where=8)).isdisjoint({"If", "Loop"})  # type: ignore[operator]
    with pytest.raises(ValueError, match="--unroll must be 1 or more"):
        function(SOURCE, unroll=0)  # type: ignore[operator]


def test_plans_and_passes_of_onnx_ir():
    import onnx_ir

    assert {change.op for change in opshift.plan(SOURCE, unroll=8, if_to_where=8).changes} >= {"If", "Loop"}
    made = FixPass(unroll=8, if_to_where=8)(onnx_ir.serde.deserialize_model(SOURCE)).model
    assert {node.op_type for node in made.graph}.isdisjoint({"If", "Loop"})


@pytest.mark.parametrize("target", pairs.some(["tvm-0.27", "onnx2torch-1.5"], 2))
def test_backends_without_them_get_models_without_them(target: str):
    made = opshift.inline(LSTM, target=target, fix_shape={"x": (3, 1, 1)})
    assert ops(made).isdisjoint({"LSTM", "Scan", "Loop"})
    assert "LSTM" in ops(opshift.inline(LSTM, target="openvino", fix_shape={"x": (3, 1, 1)}))
    with pytest.raises(opshift.Refused, match='the length of "x" is dynamic; try --fix-shape'):
        opshift.inline(LSTM, target=target)


def test_backends_without_if_get_where():
    made = opshift.inline(SOURCE, target="onnx2torch-1.5")
    assert ops(made).isdisjoint({"If", "Loop"})


@pytest.mark.parametrize(
    ("target", "node", "expected"),
    pairs.some(
        [
            ("ncnn-20261020", "CumSum<reverse=1>(x, a)", [[6, 5, 3], [15, 11, 6]]),
            ("rknn-2.5", "CumProd(x, a)", [[1, 2, 6], [4, 20, 120]]),
            ("iree-3.13", "CumProd<reverse=1>(x, a)", [[6, 6, 3], [120, 30, 6]]),  # it reads Scan, along the first axis
        ],
        3,
    ),
)
def test_backends_without_loops_get_what_loops_replace(target: str, node: str, expected: list[list[float]]):
    made = opshift.inline(
        model(f"z = Neg(x)\n y0 = {node}\n y = Add(y0, z)", 26, inputs="float[2,3] x", outputs="float[2,3] y",
              constants="int64 a = {1}"),
        target=target,
    )  # fmt: skip
    assert ops(made).isdisjoint({"CumSum", "CumProd", "Scan", "Loop"})
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert np.array_equal(evaluate(made, {"x": x})[0], np.array(expected, np.float32) - x)


def test_a_quantized_recurrent_operator_is_unrolled_after_it_is_replaced():
    source = model(
        "y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 1>(x, w, r, , , , , , ws, wz, rs, rz)",
        14,
        inputs="float[2,1,1] x",
        outputs="float[2,1,1,1] y",
        constants="uint8[1,1,4] w = {1, 2, 3, 4}, uint8[1,1,4] r = {1, 0, 1, 0}, float[1] ws = {0.5}, "
        "uint8[1] wz = {1}, float[1] rs = {0.5}, uint8[1] rz = {0}",
        domains='"com.microsoft" : 1',
    )
    made = opshift.inline(source, target="tvm-0.27")
    assert ops(made).isdisjoint({"DynamicQuantizeLSTM", "Scan", "Loop"})


@pytest.mark.parametrize(
    ("target", "op"), [("ncnn-20261020", "CumSum"), pytest.param("iree-3.13", "CumProd", marks=pytest.mark.long)]
)
def test_what_a_loop_of_unknown_length_replaces_needs_sizes(target: str, op: str):
    source = model(f"y = {op}(x, a)", 26, inputs="float[N] x", outputs="float[N] y", constants="int64 a = {0}")
    with pytest.raises(opshift.Refused, match='replacement needs Scan, and the length of "x" is dynamic; try --fix'):
        opshift.inline(source, target=target)
    assert ops(opshift.inline(source, target=target, fix_shape={"x": [3]})).isdisjoint({op, "Scan", "Loop"})


def test_an_if_of_a_dynamic_condition_becomes_where_for_a_backend_that_reads_constant_ones():
    source = model(
        "y = If(c) <then_branch = p () => (float[3] t) { t = Neg(x) }, else_branch = q () => (float[3] e) { e = Abs(x) }>",
        17,
        inputs="float[3] x, bool c",
        outputs="float[3] y",
    )
    made = opshift.inline(source, target="rknn-2.5")
    assert "If" not in ops(made)
    x = np.array([-1, 2, -3], np.float32)
    assert np.array_equal(evaluate(made, {"x": x, "c": np.array(True)})[0], [1, -2, 3])
    assert np.array_equal(evaluate(made, {"x": x, "c": np.array(False)})[0], [1, 2, 3])


def test_a_loop_that_data_ends_says_so():
    source = model(
        "y = NonMaxSuppression(b, s, m)",
        14,
        inputs="float[1,6,4] b, float[1,1,6] s",
        outputs="int64[N,3] y",
        constants="int64[1] m = {3}",
    )
    with pytest.raises(opshift.Refused, match=r"its replacement needs Loop, and whether it goes on .* is dynamic"):
        opshift.inline(source, target="rknn-2.5")


def test_a_recurrent_operator_of_an_old_opset_is_unrolled_at_a_newer_one():
    source = model(
        "y = RNN<hidden_size = 1>(x, w, r)",
        7,
        inputs="float[3,1,1] x",
        outputs="float[3,1,1,1] y",
        constants="float[1,1,1] w = {0.5}, float[1,1,1] r = {0.25}",
    )
    made = opshift.inline(source, target="tvm-0.27")
    assert ops(made).isdisjoint({"RNN", "Scan", "Loop"})
    state, expected = 0.0, list[float]()
    for x in (1.0, -2.0, 0.5):
        expected.append(state := float(np.tanh(0.5 * x + 0.25 * state)))
    found = evaluate(made, {"x": np.array([1, -2, 0.5], np.float32).reshape(3, 1, 1)})[0]
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-6)
