"""What `types="float16"` makes of models that other converters get wrong."""

import inspect
import re

import onnx
import pytest
from onnx import TensorProto

import opshift
from opshift.cli.main import main
from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types import judge
from tests.types.case import CASES

# Cases that opshift does not get right yet, with the reason; once right they fail here until they are taken out.
FLOAT16: dict[str, str] = {
    "function_with_a_body": "the weights of a branch stay float32 where the If stands in a function",
    "function_argument_left_out": "an argument that a call leaves out is cast",
}
BFLOAT16: dict[str, str] = FLOAT16

NEWEST = 22  # the last opset that the oldest dependencies know is below
ABLE = "types" in inspect.signature(opshift.convert_version).parameters
waits = pytest.mark.xfail(not ABLE, reason="convert_version has no types yet", strict=False)


def marked(failing, bfloat16=False):
    for name, case in CASES.items():
        marks = [pytest.mark.newest] if case.opset >= NEWEST or bfloat16 else []
        if ABLE and name in failing:
            marks.append(pytest.mark.xfail(reason=failing[name], strict=True))
        yield pytest.param(case, id=name, marks=marks)


@waits
@pytest.mark.parametrize("case", list(marked(FLOAT16)))
def test_float16(case):
    converted = opshift.convert_version(case.model, types="float16")
    assert judge.judge(case, converted).wrong == ()


@waits
@pytest.mark.parametrize("case", list(marked(BFLOAT16, bfloat16=True)))
def test_bfloat16_at_opset_22(case):
    converted = opshift.convert_version(case.model, max(case.opset, 22), types="bfloat16")
    assert judge.judge(case, converted, judge.BFLOAT16).wrong == ()


@waits
@pytest.mark.parametrize("name", ["cast_there", "layer_norm_variance", "if_captures"])
def test_a_second_time_changes_nothing(name):
    once = opshift.convert_version(CASES[name].model, types="float16")
    assert opshift.convert_version(once, types="float16") == once


@waits
@pytest.mark.parametrize("name", ["cast_there", "resize_scales", "if_captures", "clip_bounds"])
def test_back_to_float32_leaves_no_casts(name):
    source = CASES[name].model
    back = opshift.convert_version(opshift.convert_version(source, types="float16"), types="float32")
    assert judge.invalid(back) == []
    assert judge.count_casts(back) <= judge.count_casts(source)
    assert judge.judge_model(source, back, CASES[name].feeds).error < 0.02
    assert not any(tensor.data_type == TensorProto.FLOAT16 for tensor in back.graph.initializer)


@waits
@pytest.mark.parametrize("name", ["cast_there", "layer_norm_variance", "loop_state"])
@pytest.mark.parametrize("interface", ["keep", "narrow"])
def test_from_the_shell(name, interface, tmp_path):
    case = CASES[name]
    onnx.save(case.model, tmp_path / "in.onnx")
    arguments = ["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--types", "float16"]
    assert main([*arguments, "--interface", interface]) == 0
    found = judge.judge(case, onnx.load(tmp_path / "out.onnx"), narrow=interface == "narrow")
    assert found.wrong == ()


def test_a_copy_of_the_source_passes_none():
    for case in CASES.values():
        copy = judge.sort(case.model)
        unexpected = [
            name for name in judge.wide_nodes(judge.walking.flat(copy), judge.FLOAT16) if name not in case.wide
        ]
        assert unexpected, case.name


def test_sources_are_valid_and_have_no_node_that_is_allowed_but_not_there():
    for case in CASES.values():
        copy = judge.sort(case.model)
        if case.opset < NEWEST:
            assert judge.invalid(copy) == [], case.name
        there = {node.name for graph, _ in judge.walking.graphs(judge.walking.flat(copy)) for node in graph.node}
        there = {re.sub(r"__\d+$", "", name) for name in there}
        assert case.wide <= there, case.name


def test_most_cases_cite_a_thread():
    cited = [case for case in CASES.values() if case.threads]
    assert len(cited) >= 50
    assert all(
        re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+", t) for case in cited for t in case.threads
    )
