"""Branches that are never taken do not hinder a conversion."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert, dead_branches

from tests.support import check_refused, check_unchanged, check_values, model

IF = """y = If ({condition}) <
    then_branch = t () => (uint8[A,B,C] a) {{ a = {then} }},
    else_branch = e () => (uint8[A,B,C] b) {{ b = {other} }}
>"""
DECODE, LIVE = "ImageDecoder(x)", "Reshape(x, shape)"  # there is no decoder below opset 20
IO = {"inputs": "uint8[6] x, bool c", "outputs": "uint8[A,B,C] y"}


def body(condition, then, other):
    return IF.format(condition=condition, then=then, other=other)


def source_of(condition, then, other, before="", opset=20):
    constants = "bool yes = {1}, bool no = {0}, int64 six = {6}, int64[3] shape = {1, 2, 3}"
    return model(before + body(condition, then, other), opset, constants=constants, **IO)


@pytest.mark.parametrize("target", [8, 13, 19])
@pytest.mark.parametrize(
    ("condition", "then", "other", "before"),
    [
        ("yes", LIVE, DECODE, ""),
        ("no", DECODE, LIVE, ""),
        ("is_six", LIVE, DECODE, "count = Size(x) is_six = Equal(count, six) "),
    ],
)
def test_the_branch_that_a_constant_never_takes_is_replaced(condition, then, other, before, target):
    source = source_of(condition, then, other, before)
    kept = source.SerializeToString()
    result = convert.attempt(source, {"": target})
    assert not result.refusals
    assert source.SerializeToString() == kept
    assert [c.how for c in result.changes if c.op == "If"] == [
        "Removed the branch that a constant condition never takes"
    ]
    onnx.checker.check_model(result.model)
    expected = source_of(condition, LIVE, LIVE, before)  # no engine decodes what is not an image
    check_values(expected, result.model, rtol=0, atol=0)


def test_a_branch_that_may_be_taken_is_refused():
    io = {**IO, "constants": "bool yes = {1}, int64[3] shape = {1, 2, 3}"}
    check_refused(body("c", LIVE, DECODE), 20, 19, "ImageDecoder", **io)
    check_refused(body("yes", DECODE, LIVE), 20, 19, "ImageDecoder", **io)


def test_a_default_that_a_caller_may_override_decides_nothing():
    io = {**IO, "inputs": "uint8[6] x, bool yes", "constants": "bool yes = {1}, int64[3] shape = {1, 2, 3}"}
    check_refused(body("yes", LIVE, DECODE), 20, 19, "ImageDecoder", **io)


def test_a_dead_branch_that_can_be_converted_stays():
    io = {**IO, "constants": "bool yes = {1}, int64[3] shape = {1, 2, 3}"}
    check_unchanged(body("yes", LIVE, "Reshape(x, shape)"), 20, 19, **io)


def test_a_dead_branch_inside_a_branch_of_a_function():
    text = """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (uint8[6] x, bool c) => (uint8[A,B,C] y) { y = my.f (x, c) }
    <opset_import: ["" : 20], domain: "my">
    f (x, c) => (y) {
        shape = Constant<value_ints = [1, 2, 3]>()
        one = Constant<value_int = 1>()
        yes = Equal(one, one)
        y = If (c) <
            then_branch = t () => (a) { a = If (yes) <
                then_branch = tt () => (d) { d = Reshape(x, shape) },
                else_branch = te () => (f) { f = ImageDecoder(x) }
            > },
            else_branch = e () => (b) { b = Reshape(x, shape) }
        >
    }"""
    source = onnx.parser.parse_model(text)
    result = convert.attempt(source, {"": 19})
    assert not result.refusals
    feeds = {"c": np.array(True), "x": np.arange(6, dtype=np.uint8)}
    plain = onnx.parser.parse_model(text.replace("ImageDecoder(x)", "Reshape(x, shape)"))
    check_values(plain, result.model, feeds, rtol=0, atol=0)


def test_what_a_shape_tells_decides_in_the_graph_where_it_stands():
    """The size follows from inference of the source alone, at the place of the graph in it."""
    inner = """ y = If (c) <
        then_branch = t () => (uint8[A,B,C] a) {
            rows = NonZero(x) count = Size(x) is_six = Equal(count, six) a = If (is_six) <
                then_branch = tt () => (uint8[A,B,C] d) { d = Reshape(x, shape) },
                else_branch = te () => (uint8[A,B,C] f) { f = ImageDecoder(x) }> },
        else_branch = e () => (uint8[A,B,C] b) { b = Reshape(x, shape) }> """
    source = model(
        f"cut = Identity(x) {inner}".replace("Size(x)", "Size(cut)"),
        20,
        constants="int64 six = {6}, int64[3] shape = {1, 2, 3}",
        **IO,
    )
    made, decided = dead_branches.copy_live_branches(source, 20, None)
    assert [node.output[0] for node in decided] == ["a"]
    [nested] = [node for node in made.graph.node[1].attribute[0].g.node if node.op_type == "If"] or [None]
    assert nested is None or nested.attribute[0].g == nested.attribute[1].g
    assert (
        dead_branches.copy_live_branches(model("y = Relu(x)", 20, inputs="float[2] x", outputs="float[2] y"), 20, None)
        is None
    )
    assert (
        dead_branches.copy_live_branches(
            model(body("c", LIVE, LIVE), 20, constants="int64[3] shape = {1, 2, 3}", **IO), 20, None
        )
        is None
    )
    same = model(body("yes", "Identity(x)", "Identity(x)"), 20, constants="bool yes = {1}", **IO)
    branch = [attribute.g for attribute in same.graph.node[0].attribute]
    branch[1].CopyFrom(branch[0])
    assert dead_branches.copy_live_branches(same, 20, None) is None
