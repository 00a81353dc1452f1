"""Parts that are cut one by one are cut at once."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, model

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
FEEDS = {"x": np.asarray([SPECIAL, SPECIAL[::-1]], np.float32)}
IO = {"inputs": "float[N,6] x"}
EDGES = "int64[1] a = {1}, int64[1] o = {0}, int64[1] b = {2}, int64[1] c = {6}, int64[1] m = {-4}"
LONG = "int64[1] huge = {9223372036854775807}, int64[1] far = {-100}, int64[1] last = {-1}"
CUTS = f"{EDGES}, {LONG}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x, o, b, a", "x, b, c, a"),
        ("x, o, m, last", "x, m, c, a"),
        ("x, far, b, a", "x, b, huge, last"),
    ],
)
def test_slices_that_cover_an_axis_are_a_split(first, second):
    for body in (f"p = Slice({first}) q = Slice({second})", f"q = Slice({second}) p = Slice({first})"):
        check_optimized(
            body,
            "p, q = Split<axis=1>(x, [2, 4])",
            outputs="float[N,2] p, float[N,4] q",
            constants=CUTS,
            feeds=FEEDS,
            **IO,
        )


def test_who_reads_a_part_reads_it_still():
    check_optimized(
        "p = Slice(x, o, b, a) s = Neg(p) q = Slice(x, b, c, a) t = Relu(q)",
        "t1, t2 = Split<axis=1>(x, [2, 4])\ns = Neg(t1)\nt = Relu(t2)",
        outputs="float[N,2] s, float[N,4] t",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )


def test_the_same_part_twice_is_one():
    check_optimized(
        "p = Slice(x, o, b, a) q = Slice(x, b, c, a) r = Slice(x, o, b, a) s = Neg(p) t = Abs(r) u = Abs(q)",
        "t1, t2 = Split<axis=1>(x, [2, 4])\ns = Neg(t1)\nt = Abs(t1)\nu = Abs(t2)",
        outputs="float[N,2] s, float[N,2] t, float[N,4] u",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )


def test_another_part_that_begins_where_one_does_is_cut_for_itself():
    check_optimized(
        "p = Slice(x, o, b, a) q = Slice(x, b, c, a) r = Slice(x, o, d, a) s = Slice(x, b, c, a) t = Neg(s)",
        "p, q = Split<axis=1>(x, [2, 4])\nr = Slice(x, [0], [4], [1])\nt = Neg(q)",
        outputs="float[N,2] p, float[N,4] q, float[N,4] r, float[N,4] t",
        constants=f"{CUTS}, int64[1] d = {{4}}",
        feeds=FEEDS,
        **IO,
    )


def test_before_sizes_were_inputs_they_are_an_attribute():
    check_optimized(
        "p = Slice(x, o, b, a) q = Slice(x, b, c, a)",
        "p, q = Split<axis=1, split=[2, 4]>(x)",
        11,
        outputs="float[N,2] p, float[N,4] q",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )


@pytest.mark.parametrize(
    ("first", "second", "inputs"),
    [
        ("x, o, b, a", "x, a, c, a", "float[N,6] x"),  # one column in both
        ("x, a, b, a", "x, b, c, a", "float[N,6] x"),  # the first column in none
        ("x, o, b, a", "x, b, c, a", "float[N,M] x"),  # an axis of no known length
        ("x, o, b, a", "x, b, c, o", "float[6,6] x"),  # two axes
        ("x, o, b, a, b", "x, b, c, a", "float[N,6] x"),  # every other column
        ("x, o, b, a", "z, b, c, a", "float[N,6] x, float[N,6] z"),  # two values
    ],
)
def test_other_slices_stay(first, second, inputs):
    body = f"p = Slice({first}) q = Slice({second})"
    check_kept(body, inputs=inputs, outputs="float[A,B] p, float[C,D] q", constants=CUTS)


def test_slices_of_different_axes_in_a_row_are_one():
    check_optimized(
        "t = Slice(x, a, b, last) y = Slice(t, o, a, o)",
        "y = Slice(x, [1, 0], [2, 1], [1, 0], [1, 1])",
        outputs="float[A,1] y",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )


def test_a_part_of_every_other_place_is_taken_of_the_same_ones():
    check_optimized(
        "t = Slice(x, last, far, a, last) y = Slice(t, o, a, o)",
        "y = Slice(x, [-1, 0], [-100, 1], [1, 0], [-1, 1])",
        outputs="float[A,6] y",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )


def test_slices_of_one_axis_in_a_row_stay():
    check_kept("t = Slice(x, a, c, a) y = Slice(t, a, b, last)", outputs="float[N,1] y", constants=CUTS, **IO)


# --- sequences ----------------------------------------------------------------------------------------------

SEQUENCES = "int64 zero = {0}, int64 one = {1}, int64 end = {-1}, int64 four = {4}, int64[2] sizes = {2, 4}"


@pytest.mark.parametrize(
    ("cut", "at", "after", "width"),
    [
        ("SplitToSequence<axis=1>(x, sizes)", "one", [2, 4], 4),
        ("SplitToSequence<axis=-1>(x, sizes)", "end", [2, 4], 4),
        ("SplitToSequence<axis=1, keepdims=0>(x, four)", "one", [4, 2], 2),  # where told how to split, axes stay
        ("SplitToSequence<axis=1>(x)", "zero", [1] * 6, 1),
    ],
)
def test_a_part_out_of_a_sequence_is_one_of_a_split(cut, at, after, width):
    io = {"outputs": f"float[N,{width}] y", "constants": SEQUENCES, **IO}
    before = model(f"s = {cut} y = SequenceAt(s, {at})", 18, **io)
    made = optimized(before)
    (split,) = made.graph.node
    assert split.op_type == "Split"
    assert "y" in split.output
    assert [onnx.numpy_helper.to_array(tensor).tolist() for tensor in made.graph.initializer] == [after]
    check_values(before, made, FEEDS, rtol=0, atol=0)


def test_all_parts_come_of_one_split():
    body = "s = SplitToSequence<axis=1>(x, sizes) p = SequenceAt(s, zero) q = SequenceAt(s, one)"
    check_optimized(
        body,
        "p, q = Split<axis=1>(x, [2, 4])",
        outputs="float[N,2] p, float[N,4] q",
        constants=SEQUENCES,
        feeds=FEEDS,
        **IO,
    )


@pytest.mark.parametrize(
    "made", ["SplitToSequence<axis=1>(x)", "SplitToSequence<keepdims=0>(x)", "SequenceConstruct(x, x)"]
)
def test_a_place_that_is_none_takes_nothing(made):
    io = {"inputs": "float[2,6] x", "outputs": "float[A,B] y", "constants": "int64[0] none = {}"}
    check_kept(f"s = {made} y = SequenceAt(s, none)", **io)


def test_a_place_without_its_axis_is_gathered():
    check_optimized(
        "s = SplitToSequence<axis=1, keepdims=0>(x) y = SequenceAt(s, end)",
        "y = Gather<axis=1>(x, -1)",
        inputs="float[N,M] x",
        outputs="float[N] y",
        constants=SEQUENCES,
        feeds=FEEDS,
    )


@pytest.mark.parametrize(
    ("cut", "at", "inputs"),
    [
        ("SplitToSequence<axis=1>(x, four)", "one", "float[N,M] x"),
        ("SplitToSequence<axis=1>(x, four)", "k", "float[N,6] x, int64 k"),
        ("SplitToSequence<axis=1>(x, n)", "one", "float[N,6] x, int64 n"),
    ],
)
def test_a_part_of_which_something_is_not_known_stays(cut, at, inputs):
    check_kept(f"s = {cut} y = SequenceAt(s, {at})", inputs=inputs, outputs="float[N,K] y", constants=SEQUENCES)


def test_members_of_a_sequence_that_is_put_together_are_read():
    check_optimized(
        "n = Neg(x) s = SequenceConstruct(x, n) p = SequenceAt(s, end) y = Relu(p)",
        "t1 = Neg(x)\ny = Relu(t1)",
        outputs="float[N,6] y",
        constants=SEQUENCES,
        feeds=FEEDS,
        **IO,
    )


def test_members_that_are_joined_are_joined_at_once():
    check_optimized(
        "n = Neg(x) s = SequenceConstruct(x, n) y = ConcatFromSequence<axis=1>(s)",
        "t1 = Neg(x)\ny = Concat<axis=1>(x, t1)",
        outputs="float[N,12] y",
        feeds=FEEDS,
        **IO,
    )


def test_members_that_are_stacked_stay():
    body = "n = Neg(x) s = SequenceConstruct(x, n) y = ConcatFromSequence<axis=1, new_axis=1>(s)"
    check_kept(body, outputs="float[N,2,6] y", **IO)


# --- inside -------------------------------------------------------------------------------------------------

BRANCH = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[N,6] x, bool c) => (float[N,2] y) <int64[1] o = {0}, int64[1] b = {2}, int64[1] d = {4}, int64[1] e = {6}, int64[1] a = {1}> {
  y = If (c) <
    then_branch = t () => (float[N,2] t_y) {
      p = Slice(x, o, b, a) q = Slice(x, b, d, a) r = Slice(x, d, e, a) n = Sub(p, q) t_y = Add(n, r)
    },
    else_branch = f () => (float[N,2] f_y) { f_y = Slice(x, o, b, a) }
  >
}
"""
FUNCTION = """
<ir_version: 8, opset_import: ["" : OPSET, "local" : 1]>
g (float[2,6] x) => (float[2,LEFT] y, float[2,RIGHT] z) { y, z = local.halves(x) }
<domain: "local", opset_import: ["" : OPSET]>
halves (v) => (p, q) {
  o = Constant<value_ints=[0]>() m = Constant<value_ints=[LEFT]>() e = Constant<value_ints=[6]>()
  a = Constant<value_ints=[0]>() w = Constant<value_ints=[2, 6]>()
  u = Reshape(v, w) k = Constant<value_ints=[1]>()
  p = Slice(u, o, m, k) q = Slice(u, m, e, k)
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_slices_in_a_branch_are_a_split(condition):
    before = onnx.parser.parse_model(BRANCH)
    made = optimize.attempt(before).model
    branches = {a.name: [n.op_type for n in a.g.node] for a in made.graph.node[0].attribute}
    assert branches == {"then_branch": ["Split", "Sub", "Add"], "else_branch": ["Slice"]}
    check_values(before, made, {**FEEDS, "c": np.asarray(condition)}, rtol=0, atol=0)


@pytest.mark.parametrize(("opset", "left", "op"), [(18, 3, "Split"), (14, 3, "Split"), (18, 2, "Slice")])
def test_in_a_function_the_sizes_are_told_by_the_number_of_equal_parts(opset, left, op):
    text = FUNCTION.replace("OPSET", str(opset)).replace("LEFT", str(left)).replace("RIGHT", str(6 - left))
    before = onnx.parser.parse_model(text)
    made = optimize.attempt(before).model
    assert op in [n.op_type for n in made.functions[0].node]
    assert ("Slice" in [n.op_type for n in made.functions[0].node]) == (op == "Slice")
    check_values(before, made, FEEDS, rtol=0, atol=0)


# --- Concat -------------------------------------------------------------------------------------------------

JOINED = {"inputs": "float[N,2] x, float[N,3] z", "outputs": "float[?,?] y"}


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize(("inner", "outer"), [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_what_is_joined_twice_is_joined_at_once(inner, outer, n):
    feeds = {"x": np.full((n, 2), np.nan, np.float32), "z": np.arange(3 * n, dtype=np.float32).reshape(n, 3)}
    check_optimized(
        f"a = Concat<axis={inner}>(x, z) b = Concat<axis={inner}>(z, a) y = Concat<axis={outer}>(b, x)",
        f"y = Concat<axis={outer}>(z, x, z, x)",
        feeds=feeds,
        **JOINED,
    )


@pytest.mark.parametrize(
    "body",
    [
        "a = Concat<axis=0>(x, x) y = Concat<axis=1>(a, a)",
        "a = Concat<axis=1>(x, z) b = Neg(a) c = Concat<axis=1>(a, x) y = Concat<axis=0>(b, b) w = Neg(c)",
        "a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, a)",
    ],
    ids=["along another axis", "read by others", "read twice"],
)
def test_what_is_joined_otherwise_stays(body):
    outputs = "float[?,?] y, float[?,?] w" if " w =" in body else "float[?,?] y"
    check_kept(body, inputs=JOINED["inputs"], outputs=outputs)


def test_a_join_that_is_an_output_stays():
    check_kept(
        "a = Concat<axis=1>(x, z) y = Concat<axis=1>(a, x)",
        inputs=JOINED["inputs"],
        outputs="float[?,?] y, float[?,?] a",
    )


def test_joins_in_a_branch_and_in_a_function():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[2] x, bool c) => (float[N] y) {
            y = If (c) <then_branch = t () => (float[N] p) { r = Concat<axis=0>(x, x) p = Concat<axis=0>(r, x) },
                        else_branch = e () => (float[N] q) { q = own.F(x) }>
        }
        <domain: "own", opset_import: ["" : 18]> F (a) => (b) { d = Concat<axis=0>(a, a) b = Concat<axis=0>(a, d) }
    """)
    made = optimized(source)
    (then,) = [a.g for n in made.graph.node for a in n.attribute if a.name == "then_branch"]
    assert [(n.op_type, len(n.input)) for n in then.node] == [("Concat", 3)]
    assert [(n.op_type, len(n.input)) for n in made.functions[0].node] == [("Concat", 3)]


def test_slices_that_are_cut_further_are_no_split():
    """The Split would make one part that nothing reads: what is cut twice is cut at once."""
    check_optimized(
        "p = Slice(x, o, b, a) q = Slice(p, o, a, o) r = Slice(x, b, c, a) s = Slice(r, o, a, o)",
        "q = Slice(x, [0, 0], [2, 1], [1, 0], [1, 1]) s = Slice(x, [2, 0], [6, 1], [1, 0], [1, 1])".replace(
            ") s", ")\ns"
        ),
        outputs="float[?,?] q, float[?,?] s",
        constants=CUTS,
        feeds=FEEDS,
        **IO,
    )
