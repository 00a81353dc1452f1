"""What `types="float16"` makes of models that other converters get wrong."""

import re

import pytest
from onnx import TensorProto

import opshift
from tests import pairs
from tests.types import cases as _cases  # noqa: F401  adds them
from tests.types import judge
from tests.types.case import CASES

NEWEST = 22  # the last opset that the oldest dependencies know is below


def marked(*, bfloat16=False):
    for name, case in CASES.items():
        marks = [pytest.mark.newest] if case.opset >= NEWEST or bfloat16 else []
        yield pytest.param(case, id=name, marks=marks)


@pytest.mark.parametrize("case", pairs.some([*marked()], 8))
def test_float16(case):
    converted = opshift.convert_version(case.model, types="float16")
    assert judge.judge(case, converted).wrong == ()


@pytest.mark.parametrize("case", pairs.some([*marked(bfloat16=True)], 8))
def test_bfloat16_at_opset_22(case):
    converted = opshift.convert_version(case.model, max(case.opset, 22), types="bfloat16")
    assert judge.judge(case, converted, judge.BFLOAT16).wrong == ()


@pytest.mark.parametrize("name", ["cast_there", "if_captures"])
def test_a_second_time_changes_nothing(name):
    once = opshift.convert_version(CASES[name].model, types="float16")
    assert opshift.convert_version(once, types="float16") == once


@pytest.mark.parametrize("name", ["resize_scales", "if_captures", "clip_bounds", "functions", "function_with_a_body"])
def test_back_to_float32_leaves_no_casts(name):
    source = CASES[name].model
    back = opshift.convert_version(opshift.convert_version(source, types="float16"), types="float32")
    assert judge.invalid(back) == []
    assert judge.count_casts(back) <= judge.count_casts(source)
    assert judge.judge_model(source, back, CASES[name].feeds).error < 0.02
    assert not any(tensor.data_type == TensorProto.FLOAT16 for tensor in back.graph.initializer)


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
