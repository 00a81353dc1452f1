"""Sequences before they existed, and SequenceMap as a loop."""

import numpy as np
import pytest

from tests.support import check, check_down, check_refused

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
        (
            "s = SequenceConstruct(a, b) y = SequenceAt(s, p)",
            f"{TWO}, int64 p",
            "float[N] y",
            "or tensors of one known shape, could be expressed",
        ),
        ("s = SequenceConstruct(a, b)", TWO, "seq(float[N]) s", "an output of the model and seq(tensor(float))"),
        (at(0), "seq(float[N]) s", "float[N] y", "an input of the model and seq(tensor(float))"),
        (f"s = SplitToSequence(a, c) {at(0)}", "float[2] a, int64 c", "float[N] y", "the sizes are known only"),
        (f"s = SplitToSequence(a) {at(0)}", "float[N] a", "float[N] y", "the size of axis 0 is unknown"),
        (f"s = SequenceConstruct(a, b) {at(2)}", TWO, "float[N] y", "position 2 lies outside"),
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
    check_refused(body, 11, 10, "known only at run time", **io)


def test_a_map_becomes_a_loop_below_17():
    body = """s = SequenceConstruct(a, b)
    q, r = SequenceMap<body = g (float[N] e, float[1] k) => (float[N] f, int64[1] h) { f = Add(e, k) h = Shape(e) }>(s, c)
    y = ConcatFromSequence<axis=0>(q) z = ConcatFromSequence<axis=0>(r)"""
    io = {"inputs": f"{TWO}, float[1] c", "outputs": "float[5] y, int64[2] z"}
    check_down(body, 17, 16, 14, 13, 12, 11, **io)
    check_refused(body, 17, 10, "known only at run time", **io)


def test_a_map_over_two_sequences_below_17():
    body = """s = SequenceConstruct(a, b) t = SequenceConstruct(b, a)
    q = SequenceMap<body = g (float[N] e, float[M] k) => (float[K] f) { f = Concat<axis=0>(e, k, c) }>(s, t)
    y = ConcatFromSequence<axis=0>(q)"""
    check_down(body, 17, 16, 13, 11, inputs=f"{TWO}, float[1] c", outputs="float[12] y")
