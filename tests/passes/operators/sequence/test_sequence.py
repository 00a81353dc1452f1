"""Sequences before they existed, and SequenceMap as a loop."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

import opshift
from tests.support import check, check_down, check_refused, check_values, model

TWO = "float[2] a, float[3] b"


def at(position):
    return f"p = Constant<value = int64 {{{position}}}>() y = SequenceAt(s, p)"


@pytest.mark.parametrize("position", [1, -1])
def test_a_tensor_is_taken_where_it_was_put_in(position):
    body = f"s = SequenceConstruct(a, b) {at(position)}"
    check(body, 11, "y = Identity(b)", 10, inputs=TWO, outputs="float[3] y")
    check_down(body, 11, 9, 7, inputs=TWO, outputs="float[3] y")


def test_parts_of_a_tensor():
    body = f"s = SplitToSequence<axis=-1, keepdims=0>(a) {at(1)}"
    after = """t1, t2, t3 = Split<axis=1, split=[1, 1, 1]>(a)
    t4 = Squeeze<axes=[1]>(t2)
    y = Identity(t4)"""
    check(body, 11, after, 10, inputs="float[2,3] a", outputs="float[2] y")
    after = """t1, t2, t3 = Split<axis=1, split=[2, 2, 1]>(a)
    y = Concat<axis=1>(t1, t2, t3)"""
    body = "c = Constant<value = int64 {2}>() s = SplitToSequence<axis=1, keepdims=0>(a, c) y = ConcatFromSequence<axis=-1>(s)"
    check(body, 11, after, 10, inputs="float[2,5] a", outputs="float[2,5] y")
    body = body.replace("int64 {2}", "int64[2] {1, 4}")
    after = after.replace("[2, 2, 1]", "[1, 4]").replace(", t3", "")
    check(body, 11, after, 10, inputs="float[2,5] a", outputs="float[2,5] y")


def test_insertions_and_erasures_are_followed():
    body = """s0 = SequenceEmpty() s1 = SequenceInsert(s0, a) s2 = SequenceInsert(s1, b, z) s3 = SequenceInsert(s2, b)
    s4 = SequenceErase(s3) y = ConcatFromSequence<axis=-1, new_axis=1>(s4) n = SequenceLength(s4)"""
    after = """t1 = Unsqueeze<axes=[1]>(b)
    t2 = Unsqueeze<axes=[1]>(a)
    y = Concat<axis=1>(t1, t2)
    n = Identity(2)"""
    io = {"inputs": "float[2] a, float[2] b", "outputs": "float[2,2] y, int64 n", "constants": "int64 z = {0}"}
    check(body, 11, after, 10, **io)


def test_a_branch_takes_from_a_sequence_outside():
    branch = "{0} = {0} () => (float[N] {1}) {{ {2} = Constant<value = int64 {{{3}}}>() {1} = SequenceAt(s, {2}) }}"
    then, other = branch.format("then_branch", "u", "p", 0), branch.format("else_branch", "v", "q", 1)
    body = f"s = SequenceConstruct(a, b) y = If (c) <{then}, {other}>"
    check_down(body, 11, 10, 8, inputs="float[2] a, float[2] b, bool c", outputs="float[N] y")


def test_a_copied_sequence_is_followed():
    body = f"s1 = SequenceConstruct(a, b) s = Identity(s1) {at(0)}"
    check(body, 14, "y = Identity(a)", 10, inputs=TWO, outputs="float[2] y")


@pytest.mark.parametrize(
    ("body", "inputs", "outputs", "why"),
    [
        ("s = SequenceEmpty() y = SequenceAt(s, p)", "int64 p", "float[N] y", "the sequence is empty"),
        (
            "s = SequenceEmpty() t = SequenceErase(s, p) n = SequenceLength(t)",
            "int64 p",
            "int64 n",
            "sequence is empty",
        ),
        ("s = SequenceConstruct(a, b)", TWO, "seq(float[N]) s", "an output of the model and seq(tensor(float))"),
        (at(0), "seq(float[N]) s", "float[N] y", "an input of the model and seq(tensor(float))"),
        (f"s = SplitToSequence(a, c) {at(0)}", "float[2] a, int64 c", "float[N] y", "the number of parts is dynamic"),
        (
            f"s = SplitToSequence(a, c) {at(0)}",
            "float[2] a, int64[N] c",
            "float[N] y",
            "the number of parts is dynamic",
        ),
        (
            f"s = SplitToSequence(a, c) {at(0)}",
            "float[2] a, int64[0] c",
            "float[N] y",
            "there are no elements to split",
        ),
        (f"s = SplitToSequence(a) {at(0)}", "float[0] a", "float[N] y", "there are no elements to split"),
        (f"s = SplitToSequence(a) {at(0)}", "float[N] a", "float[N] y", "the size of axis 0 is unknown"),
        (f"s = SequenceConstruct(a, b) {at(2)}", TWO, "float[N] y", "position 2 is out of range"),
        ("s = SequenceEmpty() y = ConcatFromSequence<axis=0>(s)", TWO, "float[N] y", "the sequence is empty"),
    ],
)
def test_what_is_known_only_at_run_time_is_refused(body, inputs, outputs, why):
    check_refused(body, 11, 10, why, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("position", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("target", [10, 9, 7])
def test_a_position_known_at_run_time_below_11(target, position, kind):
    io = {"inputs": f"float[2] a, float[2] b, {kind} p", "outputs": "float[2] y"}
    feeds = {"p": np.array(position, kind)}
    check_down("s = SequenceConstruct(a, b, a) y = SequenceAt(s, p)", 11, target, feeds=feeds, **io)


SEVERAL_SHAPES = [
    ("float[2] a, float[3] b, float[0] c", 10),
    ("float[2,3] a, float[1,3] b, float[2,3] c", 9),
    ("float[2] a, float b, float[1,2,1] c", 7),
    ("float[N] a, float[M] b, float[N] c", 6),
    ("string[2] a, string[1] b, string[3] c", 10),
    ("bool[2] a, bool[3] b, bool c", 10),
]


def check_positions(body, target, positions, inputs):
    """Whatever `body` makes of the position `p` has the same values, and the same shapes, at the target."""
    body += " flat = Constant<value = int64[1] {-1}>() y = Reshape(v, flat) n = Shape(v)"
    for kind in ("int32", "int64"):
        io = {"inputs": f"{inputs}, {kind} p", "outputs": f"{inputs.split('[')[0]}[N] y, int64[R] n"}
        for position in positions:
            check_down(body, 11, target, feeds={"p": np.array(position, kind)}, **io)


@pytest.mark.parametrize(("inputs", "target"), SEVERAL_SHAPES)
def test_tensors_of_several_shapes_at_a_position_known_at_run_time_below_11(inputs, target):
    body = "s0 = SequenceConstruct(a, b) s = SequenceInsert(s0, c) v = SequenceAt(s, p)"
    check_positions(body, target, (0, 1, 2, -1, -3), inputs)


ONE_SHAPE = ("float[2] a, float[2] b, float[2] c", 7)


@pytest.mark.parametrize(("inputs", "target"), [ONE_SHAPE, *SEVERAL_SHAPES[::3]])
def test_an_erasure_at_a_position_known_at_run_time_below_11(inputs, target):
    erased = "s0 = SequenceConstruct(a, b, c) s = SequenceErase(s0, p)"
    for position in (0, 1):
        body = f"{erased} q = Constant<value = int64 {{{position}}}>() v = SequenceAt(s, q)"
        check_positions(body, target, (0, 1, 2, -1, -3), inputs)
    check_positions(f"{erased} v = SequenceLength(s)", target, (2,), inputs.replace("float", "int64"))


@pytest.mark.parametrize(("inputs", "target"), [ONE_SHAPE, SEVERAL_SHAPES[0], SEVERAL_SHAPES[3]])
def test_an_insertion_at_a_position_known_at_run_time_below_11(inputs, target):
    for length, before in enumerate(("SequenceEmpty()", "SequenceConstruct(a)", "SequenceConstruct(a, b)")):
        body = f"s0 = {before} s = SequenceInsert(s0, c, p) v = ConcatFromSequence<axis=0>(s)"
        check_positions(body, target, range(-length, length + 1), inputs)


def test_parts_of_a_tensor_at_a_position_known_at_run_time_below_11():
    body = "sizes = Constant<value = int64[3] {1, 2, 2}>() s = SplitToSequence<axis=1>(a, sizes) v = SequenceAt(s, p)"
    check_positions(body, 7, (0, 1, 2, -1, -2), "float[2,5] a")
    check_positions("s = SplitToSequence<keepdims=0>(a) v = SequenceAt(s, p)", 7, (0, 1, -1), "float[2,5] a")


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("target", [10, 7])
def test_parts_whose_sizes_the_run_tells_below_11(target, kind):
    body = f"s = SplitToSequence<axis=-1>(a, sizes) n = SequenceLength(s) {at(-2)} z = ConcatFromSequence<axis=0>(s)"
    io = {"inputs": f"float[2,N] a, {kind}[3] sizes", "outputs": "int64 n, float[2,K] y, float[6,M] z"}
    a = np.float32(np.arange(12).reshape(2, 6))
    check_down(body, 11, target, feeds={"a": a, "sizes": np.array([2, 2, 2], kind)}, **io)
    body, io["outputs"] = body.replace("axis=0", "axis=1"), "int64 n, float[2,K] y, float[2,M] z"
    for sizes in ([1, 2, 3], [0, 6, 0]):
        check_down(body, 11, target, feeds={"a": a, "sizes": np.array(sizes, kind)}, **io)


def test_an_element_of_a_function_and_of_a_branch_below_11():
    text = """<ir_version: 8, opset_import: ["" : 13, "m" : 1]>
    g (float[2] a, float[3] b, float[1] c, int64 p, bool is_first) => (float[N] y) {
        s = SequenceConstruct(a, b)
        y = If (is_first) <
            then_branch = t () => (float[N] u) { u = SequenceAt(s, p) },
            else_branch = e () => (float[N] v) { v = m.other (a, b, c, p) }
        >
    }
    <opset_import: ["" : 13], domain: "m">
    other (a, b, c, p) => (y) { s0 = SequenceConstruct(a, b, c) s = SequenceErase(s0, p) y = SequenceAt(s, p) }"""
    source = onnx.parser.parse_model(text)
    made = convert.attempt(source, {"": 8}).model
    onnx.checker.check_model(made, full_check=True)
    for is_first in (True, False):
        for position in (0, 1, -1, -2):
            feeds = {"p": np.array(position), "is_first": np.array(is_first)}
            check_values(source, made, feeds, rtol=0.0, atol=0.0)


def test_an_element_on_request():
    body = "s = SequenceConstruct(a, b) y = SequenceAt(s, p) z = Identity(y)"
    source = model(body, 17, inputs=f"{TWO}, int64 p", outputs="float[N] z")
    made = opshift.inline(source, ["SequenceAt"])
    assert {node.op_type for node in made.graph.node}.isdisjoint({"SequenceAt", "SequenceConstruct"})
    for position in (0, 1, -1, -2):
        check_values(source, made, {"p": np.array(position)}, rtol=0.0, atol=0.0)
    kept = model(body + " n = SequenceLength(s)", 17, inputs=f"{TWO}, int64 p", outputs="float[N] z, int64 n")
    made = opshift.inline(kept, ["SequenceAt"])
    assert "SequenceConstruct" in {node.op_type for node in made.graph.node}
    check_values(kept, made, {"p": np.array(-2)}, rtol=0.0, atol=0.0)
    given = model("y = SequenceAt(s, p)", 17, inputs="seq(float[N]) s, int64 p", outputs="float[N] y")
    with pytest.raises(opshift.Refused, match="are dynamic"):
        opshift.inline(given, ["SequenceAt"])


def test_a_position_inside_a_loop_below_11():
    body = """s = SequenceConstruct(a, b)
    y = Loop (m, yes) <body = g (int64 i, bool go) => (bool going, float[2] row) { going = Identity(go) row = SequenceAt(s, i) }>"""
    io = {"inputs": "float[2] a, float[2] b, int64 m", "outputs": "float[N,2] y", "constants": "bool yes = {1}"}
    for trips in (0, 1, 2):
        check_down(body, 11, 10, 7, feeds={"m": np.array(trips)}, **io)


def test_a_sequence_that_a_branch_yields_is_refused():
    branch = "{0} = {0} () => (seq(float[N]) {1}) {{ {1} = SequenceConstruct({2}) }}"
    body = f"s = If (c) <{branch.format('then_branch', 'u', 'a')}, {branch.format('else_branch', 'v', 'b')}> {at(0)}"
    io = {"inputs": "float[2] a, float[2] b, bool c", "outputs": "float[N] y"}
    check_refused(body, 11, 10, "are dynamic", **io)


def test_a_sequence_that_an_unknown_operator_reads_is_refused():
    io = {"inputs": "float[2] a", "outputs": "float[2] y", "domains": '"acme" : 1'}
    check_refused("s = SequenceConstruct(a) y = acme.Op(s)", 11, 10, 'Op "y": the node reads a sequence', **io)


def test_a_map_becomes_a_loop_below_17():
    body = """s = SequenceConstruct(a, b)
    q, r = SequenceMap<body = g (float[N] e, float[1] k) => (float[N] f, int64[1] h) { f = Add(e, k) h = Shape(e) }>(s, c)
    y = ConcatFromSequence<axis=0>(q) z = ConcatFromSequence<axis=0>(r)"""
    io = {"inputs": f"{TWO}, float[1] c", "outputs": "float[5] y, int64[2] z"}
    check_down(body, 17, 16, 14, 13, 12, 11, **io)
    check_refused(body, 17, 10, "are dynamic", **io)


def test_a_map_over_two_sequences_below_17():
    body = """s = SequenceConstruct(a, b) t = SequenceConstruct(b, a)
    q = SequenceMap<body = g (float[N] e, float[M] k) => (float[K] f) { f = Concat<axis=0>(e, k, c) }>(s, t)
    y = ConcatFromSequence<axis=0>(q)"""
    check_down(body, 17, 16, 13, 11, inputs=f"{TWO}, float[1] c", outputs="float[12] y")


def test_what_the_body_of_a_map_holds_is_kept_below_17():
    body = """s = SequenceConstruct(a, b)
    q = SequenceMap<body = g (float[N] e) => (float[N] f) { d = Add(e, z) f = Mul(d, d) }>(s) y = ConcatFromSequence<axis=0>(q)"""
    source = model(body, 17, inputs=TWO, outputs="float[5] y")
    graph = source.graph.node[1].attribute[0].g
    graph.value_info.add(name="d").type.CopyFrom(graph.output[0].type)
    zero = onnx.helper.make_tensor("z", onnx.TensorProto.FLOAT, [1], [2.0])
    where = onnx.helper.make_tensor("at", onnx.TensorProto.INT64, [1], [0])
    graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(zero, where, [1]))
    made = convert.attempt(source, {"": 15}).model
    loop = next(node for node in made.graph.node if node.op_type == "Loop").attribute[0].g
    assert [value.name for value in loop.value_info] == ["d"]
    assert len(loop.sparse_initializer) == 1
    onnx.checker.check_model(made)
