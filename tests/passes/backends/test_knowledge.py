"""What is find_known_calls of each call: read, believed, or unknown with the reason."""

import pytest
from onnx import TensorProto
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend, MeasuredCall, Types
from opshift.passes.backends.knowledge import BELIEVED, READ, UNKNOWN, find_known_calls

from tests.support import model

RELU = ("", "Relu")
BRANCH = """
    c = Constant<value = bool {1}>()
    y = If(c)<then_branch = g () => (a) { a = Relu(x) }, else_branch = h () => (b) { b = Relu(x) }>
"""


def found(body, shape="2,3", obstacles=(), opset=13, domains="", **facts):
    of = model(
        body, opset, inputs=f"float[{shape}] x", outputs="float[] y", **({"domains": domains} if domains else {})
    )
    return [tuple(call) for call in find_known_calls(of, Backend("npu-1", **facts), None, obstacles)]


def measured(ranks, symbolic=False):
    types = {"T": Types(frozenset({"tensor(float)"}))}
    return {"measured": {RELU: MeasuredCall(ranks, symbolic, types)}}


def test_what_was_measured_is_read():
    assert found("y = Relu(x)", **measured((1, 2))) == [("Relu", READ, "")]
    assert found("y = Relu(x)", "N,3", **measured((1, 2), True)) == [("Relu", READ, "")]


def test_ranks_sizes_and_operators_that_were_not_are_unknown():
    assert found("y = Relu(x)", "2,3,4", **measured((1, 2))) == [("Relu", UNKNOWN, "rank 3 was not measured")]
    assert found("y = Relu(x)", "N,3", **measured((1, 2))) == [("Relu", UNKNOWN, "dynamic sizes were not measured")]
    assert found("y = Abs(x)", **measured((1, 2))) == [("Abs", UNKNOWN, "not measured")]
    body = "s = Shape(x) z = Reshape(x, s) t = my.F(z) y = Relu(t)"
    assert found(body, domains='"my" : 1', **measured((1, 2)))[-1] == (
        "Relu",
        UNKNOWN,
        "the rank of its input is unknown",
    )


def test_without_measurements_it_is_believed():
    assert found("y = Relu(x)") == [("Relu", BELIEVED, "")]
    assert found("y = Relu(x)", supports=frozenset({RELU})) == [("Relu", BELIEVED, "")]


@pytest.mark.parametrize("facts", [{}, measured((1, 2))])
def test_domains_of_others_are_unknown_unless_they_are_listed(facts):
    said = found("y = my.F(x)", domains='"my" : 1', **facts)
    assert said == [("my::F", UNKNOWN, "the target says nothing about my")]
    listed = {**facts, "supports": frozenset({("my", "F")})}
    assert found("y = my.F(x)", domains='"my" : 1', **listed) == [("my::F", BELIEVED, "")]


def test_calls_in_branches_count_and_what_is_lacked_does_not():
    assert found(BRANCH, **measured((2,)))[-2:] == [("Relu", READ, "")] * 2
    assert found("y = Relu(x)", lacks={RELU: 1}) == []


def typed(ran, failed="", rank=2, op=RELU):
    return {"measured": {op: measurements.read(op[1], f"{rank}; T: {ran}{f', not {failed}' if failed else ''}")}}


def test_types_that_were_not_measured_are_unknown():
    facts = typed("floats")
    of = model("y = Relu(x)", 14, inputs="int32[2,3] x", outputs="int32[2,3] y")
    backend = Backend("npu-1", opset=14, **facts)
    assert list(find_known_calls(of, backend)) == [("Relu", UNKNOWN, "int32 was not measured")]
    assert list(
        find_known_calls(model("y = Relu(x)", 14, inputs="double[2,3] x", outputs="double[2,3] y"), backend)
    ) == [("Relu", READ, "")]
    none = Backend("npu-1", opset=14, measured={RELU: MeasuredCall((2,))})
    assert list(find_known_calls(of, none)) == [("Relu", UNKNOWN, "int32 was not measured")]


def test_the_types_of_results_count_too():
    facts = {"measured": {("", "Cast"): measurements.read("Cast", "2; T1: float; T2: int32")}}
    for kind, word in (("int32", READ), ("int64", UNKNOWN)):
        of = model(
            f"y = Cast<to = {TensorProto.DataType.Value(kind.upper())}>(x)",
            13,
            inputs="float[2,3] x",
            outputs=f"{kind}[2,3] y",
        )
        assert [call.word for call in find_known_calls(of, Backend("npu-1", opset=13, **facts))] == [word]


def test_type_variables_are_those_of_the_newest_version_that_there_is():
    facts = {"measured": {("", "Pad"): measurements.read("Pad", "2; T: float; Tind: int64")}}
    of = model("y = Pad<pads = [0, 0, 1, 1]>(x)", 10, inputs="float[2,3] x", outputs="float[3,4] y")
    assert [call.word for call in find_known_calls(of, Backend("npu-1", opset=18, **facts))] == [READ]


def test_a_type_that_nobody_knows_is_unknown():
    of = model(
        "t = my.F(x) s = Shape(x) z = Reshape(t, s) y = Relu(z)",
        14,
        inputs="float[2,3] x",
        outputs="float[] y",
        domains='"my" : 1',
    )
    found_ = list(find_known_calls(of, Backend("npu-1", opset=14, **typed("floats", rank="any"))))
    assert found_[-1] == ("Relu", UNKNOWN, "a type is unknown")


def test_what_has_no_elements_may_be_of_any_type():
    facts = {"measured": {("", "Resize"): measurements.read("Resize", "4; T1: float")}}
    body = "y = Resize(x, r, s)"
    held = "float[0] r = {}, float[4] s = {1, 1, 2, 2}"
    of = model(body, 13, inputs="float[1,1,2,2] x", outputs="float[1,1,4,4] y", constants=held)
    assert [call.word for call in find_known_calls(of, Backend("npu-1", opset=18, **facts))] == [READ]


def test_what_was_seen_to_fail_is_not_said_to_be_unmeasured():
    of = model(
        "n = Neg(c) y = Add(x, n)", 13, inputs="int64[2] x", outputs="int64[2] y", constants="int64[2] c = {1, 2}"
    )
    facts = {"measured": {("", "Neg"): measurements.read("Neg", "1; T: float, not int64")}}
    assert next(find_known_calls(of, Backend("npu-1", opset=13, **facts))) == (
        "Neg",
        UNKNOWN,
        "int64 failed when measured",
    )
