"""If, Loop and Scan: what their graphs may yield and carry."""

import numpy as np
import onnx
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_refused, check_unchanged, check_values, evaluate, model, show

IF = """
y = If (c) <
    then_branch = t () => ({then}) {{ a = Abs(x) }},
    else_branch = e () => ({other}) {{ b = {made} }}
>
"""


def branches(then="float[3] a", other="float[3] b", made="Neg(x)"):
    return IF.format(then=then, other=other, made=made)


def test_an_if_of_one_shape_stays():
    check_unchanged(branches(), 11, 10, inputs="float[3] x, bool c", outputs="float[3] y")
    check_unchanged(branches("float[N] a", "float[N] b"), 12, 7, inputs="float[N] x, bool c", outputs="float[N] y")
    check_unchanged(branches("float[] a", "float[] b"), 8, 25, inputs="float[3] x, bool c", outputs="float[3] y")


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("float[1,3] b", "Unsqueeze<axes=[0]>(x)"),
        ("float[6] b", "Concat<axis=0>(x, x)"),
        ("float[M] b", "Concat<axis=0>(x, x)"),
        ("float[] b", "Concat<axis=0>(x, x)"),
    ],
)
@pytest.mark.parametrize("target", [7, 10])
def test_an_if_of_two_shapes_becomes_two_loops_below_11(stated, made, target):
    body = branches("float[3] a", stated, made) + "z = Reshape(y, flat) s = Shape(y)"
    io = {"inputs": "float[3] x, bool c", "outputs": "float[A] z, int64[R] s"}
    source = model(body, 11, constants="int64[1] flat = {-1}", **io)
    result = convert.attempt(source, {"": target})
    assert result.grade == "exact"
    onnx.checker.check_model(result.model)
    assert [n.op_type for n in result.model.graph.node] == ["Not", "Cast", "Loop", "Cast", "Loop", "Reshape", "Shape"]
    for condition in (True, False):
        feeds = {"c": np.array(condition)}
        check_values(source, result.model, feeds, rtol=0, atol=0)


def test_what_a_branch_holds_goes_along_into_the_loop():
    source = model(
        branches("float[3] a", "float[6] b", "Concat<axis=0>(x, w)"),
        13,
        inputs="float[3] x, bool c",
        outputs="float[N] y",
    )
    branch = source.graph.node[0].attribute[1].g
    assert branch.name == "e"
    branch.doc_string = "the other"
    branch.value_info.add(name="b").type.CopyFrom(branch.output[0].type)
    values = onnx.numpy_helper.from_array(np.float32([5]), "w")
    indices = onnx.numpy_helper.from_array(np.int64([1]), "where")
    branch.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [3]))
    made = convert.attempt(source, {"": 10}).model
    loops = [node for node in made.graph.node if node.op_type == "Loop"]
    bodies = [attribute.g for loop in loops for attribute in loop.attribute]
    held = next(body for body in bodies if body.name == "e")
    assert held.doc_string == "the other"
    assert [tensor.values.name for tensor in held.sparse_initializer] == ["w"]
    assert held.value_info[0] == branch.value_info[0]


def test_casts_in_a_branch_have_types_below_6():
    """Their schema infers nothing there, so that a checker needs them stated."""
    source = model("y = ReduceMin<keepdims=1>(x, a)", 20, inputs="bool[4,2] x, int64[1] a", outputs="bool[4,1] y")
    made = convert.attempt(source, {"": 5}).model
    onnx.checker.check_model(made, full_check=True)
    x = np.array([[True, False], [True, True], [False, False], [True, True]])
    raised = convert.attempt(made, {"": 7}).model
    for axis in (1, -1):
        np.testing.assert_array_equal(evaluate(raised, {"x": x, "a": np.int64([axis])})[0], x.min(1, keepdims=True))


def test_only_the_chosen_branch_is_run():
    """The branch not taken would divide by zero, which integers do not survive."""
    source = model(
        """y = If (c) < then_branch = t () => (int64[3] a) { a = Identity(x) },
                        else_branch = e () => (int64[6] b) { d = Div(x, zero) b = Concat<axis=0>(d, d) } >""",
        11, inputs="int64[3] x, bool c, int64[1] zero", outputs="int64[] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 10}).model
    feeds = {"x": np.arange(3), "c": np.array(True), "zero": np.zeros(1, np.int64)}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], [0, 1, 2])


LOOP = """
s = Loop (m, c) <body = b (int64 i, bool go) => (bool going, float[3] row) {
    going = Identity(go) f = Cast<to=1>(i) row = Add(x, f)
}>
"""


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_that_carries_nothing_is_given_a_value_below_11(trips):
    io = {"inputs": "int64 m, bool c, float[3] x", "outputs": "float[T,3] s"}
    source = model(LOOP, 11, **io)
    result = convert.attempt(source, {"": 10}).model
    onnx.checker.check_model(result)
    node = result.graph.node[0]
    assert (len(node.input), len(node.output)) == (3, 2)
    assert len(node.attribute[0].g.input) == len(node.attribute[0].g.output) == 3
    feeds = {"m": np.array(trips), "c": np.array(True), "x": np.float32([-0.0, np.inf, np.nan])}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], evaluate(source, feeds)[0])


def test_a_loop_without_any_input_is_given_a_value_below_11():
    body = """
    s = Loop () <body = b (int64 i, bool go) => (bool go2, int64 row) {
        go2 = Identity(go) row = Identity(i)
    }>
    """
    made = convert.attempt(model(body, 11, inputs="float x", outputs="int64[N] s"), {"": 8}).model
    assert list(made.graph.node[0].input[:2]) == ["", ""]
    assert len(made.graph.node[0].input) == 3


def test_a_loop_that_carries_a_value_stays():
    body = """
    v, s = Loop (m, c, x) <
        body = b (int64 i, bool go, float[3] old) => (bool go2, float[3] new, float[3] row) {
        go2 = Identity(go)
        new = Add(old, old) row = Neg(old)
    }>
    """
    io = {"inputs": "int64 m, bool c, float[3] x", "outputs": "float[3] v, float[N,3] s"}
    check_unchanged(body, 11, 8, **io)


BODY = "num_scan_inputs=1, body = b (float[3] old, float[3] e) => (float[3] new, float[3] o) { new = Add(old, e) o = Mul(new, e) }"
BATCH = {"inputs": "float[2,3] i, float[2,4,3] x", "outputs": "float[2,3] s, float[2,4,3] y"}
SEQUENCE = {"inputs": "float[3] i, float[{}] x", "outputs": "float[3] s, float[{}] y"}


def drawn(*shape):
    return np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("target", [9, 11, 21])
@pytest.mark.parametrize("directions", ["", ", directions=[1]"])
def test_each_sequence_of_a_batch_is_scanned_on_its_own_from_9_on(target, directions):
    source = model(f"s, y = Scan<{BODY}{directions}>(, i, x)", 8, **BATCH)
    result = convert.attempt(source, {"": target})
    onnx.checker.check_model(result.model, full_check=True)
    assert result.grade == "exact"
    feeds = {"i": drawn(2, 3), "x": drawn(2, 4, 3)}
    for before, after in zip(evaluate(source, feeds), evaluate(result.model, feeds), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("lengths", [[4, 4], [2, 3], [1, 4]])
def test_states_stay_beyond_the_length_of_a_sequence(lengths):
    io = {**BATCH, "inputs": "int64[2] n, " + BATCH["inputs"]}
    source = model(f"s, y = Scan<{BODY}>(n, i, x)", 8, **io)
    made = convert.attempt(source, {"": 11}).model
    feeds = {"n": np.array(lengths), "i": drawn(2, 3), "x": drawn(2, 4, 3)}
    (state, rows), (expected, expected_rows) = evaluate(made, feeds), evaluate(source, feeds)
    np.testing.assert_array_equal(state, expected)
    for k, length in enumerate(lengths):  # what follows is undefined
        np.testing.assert_array_equal(rows[k, :length], expected_rows[k, :length])


def test_reversed_sequences_of_several_lengths_are_refused():
    io = {**BATCH, "inputs": "int64[2] n, " + BATCH["inputs"]}
    check_refused(f"s, y = Scan<{BODY}, directions=[1]>(n, i, x)", 8, 9, "a reversed scan with sequence_lens", **io)


@pytest.mark.parametrize(
    "how",
    [
        "",
        ", scan_input_directions=[1]",
        ", scan_output_directions=[1]",
        ", scan_input_directions=[1], scan_output_directions=[1]",
    ],
)
@pytest.mark.parametrize(
    "axes", ["", "scan_input_axes=[1], scan_output_axes=[1]", "scan_input_axes=[-1], scan_output_axes=[-1]"]
)
def test_a_sequence_becomes_a_batch_of_one_below_9(how, axes):
    shape = "3,4" if axes else "4,3"
    io = {name: text.format(shape) for name, text in SEQUENCE.items()}
    source = model(f"s, y = Scan<{BODY}{how}{', ' * bool(axes)}{axes}>(i, x)", 11, **io)
    made = convert.attempt(source, {"": 8}).model
    onnx.checker.check_model(made)
    feeds = {"i": drawn(3), "x": drawn(3, 4) if axes else drawn(4, 3)}
    for before, after in zip(evaluate(source, feeds), evaluate(made, feeds), strict=True):
        np.testing.assert_array_equal(after, before)


def same_rows(source, made, feeds, lengths):
    """The states are equal, and the rows up to the length of each sequence; what follows is undefined."""
    (state, rows), (expected, expected_rows) = evaluate(made, feeds), evaluate(source, feeds)
    np.testing.assert_array_equal(state, expected)
    assert rows.shape == expected_rows.shape
    for k, length in enumerate(lengths):
        np.testing.assert_array_equal(rows[k, :length], expected_rows[k, :length])


SHAPES = ["float[2,3] i, float[2,4,3] x", "float[N,3] i, float[N,L,3] x", "float[1,3] i, float[1,4,3] x"]


@pytest.mark.parametrize("inputs", SHAPES)
@pytest.mark.parametrize("directions", ["", ", directions=[1]"])
def test_a_scan_becomes_loops_below_8(inputs, directions):
    io = {"inputs": inputs, "outputs": "float[B,3] s, float[B,T,3] y"}
    source = model(f"s, y = Scan<{BODY}{directions}>(, i, x)", 8, **io)
    result = convert.attempt(source, {"": 7})
    assert result.grade == "exact"
    onnx.checker.check_model(result.model, full_check=True)
    batch = 1 if "[1," in inputs else 2
    same_rows(source, result.model, {"i": drawn(batch, 3), "x": drawn(batch, 4, 3)}, [4] * batch)
    loops = [n for n in result.model.graph.node if n.op_type == "Loop"]
    assert any(n.op_type == "Loop" for n in loops[0].attribute[0].g.node) == (batch > 1)


@pytest.mark.parametrize(("inputs", "lengths"), [*((SHAPES[0], n) for n in ([4, 4], [2, 3], [1, 4])), (SHAPES[2], [2])])
def test_loops_keep_the_states_beyond_the_length_of_a_sequence(inputs, lengths):
    batch = len(lengths)
    io = {"inputs": f"int64[{batch}] n, {inputs}", "outputs": "float[B,3] s, float[B,4,3] y"}
    source = model(f"s, y = Scan<{BODY}>(n, i, x)", 8, **io)
    made = convert.attempt(source, {"": 7}).model
    feeds = {"n": np.array(lengths), "i": drawn(batch, 3), "x": drawn(batch, 4, 3)}
    same_rows(source, made, feeds, lengths)
    check_refused(f"s, y = Scan<{BODY}, directions=[1]>(n, i, x)", 8, 7, "a reversed scan with sequence_lens", **io)


@pytest.mark.parametrize("how", ["scan_input_axes=[1], scan_output_axes=[1]", "scan_input_directions=[1]"])
def test_a_scan_without_states_and_inside_an_if_becomes_a_loop_below_8(how):
    body = f"""y = If (c) <
        then_branch = t () => (float[A,B] a) {{
            a = Scan<num_scan_inputs=1, {how}, body = b (float[2] e) => (float[2] o) {{ o = Neg(e) }}>(x)
        }},
        else_branch = e () => (float[A,B] b) {{ b = Identity(x) }}
    >"""
    source = model(body, 11, inputs="float[2,2] x, bool c", outputs="float[A,B] y")
    made = convert.attempt(source, {"": 7}).model
    onnx.checker.check_model(made)
    for condition in (True, False):
        check_values(source, made, {"c": np.array(condition)}, rtol=0, atol=0)


def test_runtimes_are_told_the_shapes_that_a_batched_scan_yields():
    """onnxruntime wants them below opset 9, and cannot find the rank of what Unsqueeze yields by itself."""
    body = """s, y = Scan<num_scan_inputs=1, body = b (float[3] old, float[3] e) => (new, row) {
        new = Add(old, e) r = Unsqueeze(e, axes) row = Squeeze(r, axes)
    }>(i, x)"""
    io = {"inputs": "float[3] i, float[4,3] x", "outputs": "float[A] s, float[B,C] y"}
    source = model(body, 13, constants="int64[1] axes = {0}", **io)
    made = convert.attempt(source, {"": 8}).model
    check_values(source, made, rtol=0, atol=0)


def test_negative_scan_axes_are_counted_from_the_front_below_11():
    io = {name: text.format("3,4") for name, text in SEQUENCE.items()}
    source = model(f"s, y = Scan<{BODY}, scan_input_axes=[-1], scan_output_axes=[-2]>(i, x)", 11, **io)
    made = convert.attempt(source, {"": 10}).model
    held = {a.name: list(a.ints) for a in made.graph.node[0].attribute}
    assert (held["scan_input_axes"], held["scan_output_axes"]) == ([1], [0])
    check_unchanged(f"s, y = Scan<{BODY}, scan_input_axes=[1]>(i, x)", 9, 25, **io)


def test_bfloat16_goes_in_and_out_of_graphs_as_float32_below_16():
    body = """
    v, s = Loop (m, c, x) <
        body = b (int64 i, bool go, bfloat16[3] old) => (bool go2, bfloat16[3] new, bfloat16[3] row) {
            go2 = Identity(go) new = Identity(old) row = Identity(old)
        }
    >
    """
    io = {"inputs": "int64 m, bool c, bfloat16[3] x", "outputs": "bfloat16[3] v, bfloat16[N,3] s"}
    made = convert.attempt(model(body, 16, **io), {"": 15}).model  # no engine runs bfloat16
    onnx.checker.check_model(made, full_check=True)
    assert show(made) == (
        "t1 = Cast<to=1>(x)\n"
        "t2, t3 = Loop<body={ t4 = Cast<to=16>(old_1); t5 = Identity(go); t6 = Identity(t4); t7 = Identity(t4); "
        "t8 = Cast<to=1>(t6); t9 = Cast<to=1>(t7); t5, t8, t9 }>(m, c, t1)\n"
        "v = Cast<to=16>(t2)\ns = Cast<to=16>(t3)"
    )
    for body in (
        branches("bfloat16[3] a", "bfloat16[3] b", "Identity(x)").replace("Abs", "Identity"),
        "z, y = Scan<num_scan_inputs=1, body = b (bfloat16 o, bfloat16 e) => (bfloat16 n, bfloat16 r)"
        " { n = Identity(e) r = Identity(o) }>(w, x)",
    ):
        io = {"inputs": "bfloat16[3] x, bool c, bfloat16 w", "outputs": "bfloat16[A] y"}
        made = convert.attempt(model(body, 16, **io), {"": 15}).model
        onnx.checker.check_model(made, full_check=True)
        assert made.graph.node[-1].op_type == "Cast"
    check_refused(body, 16, 12, "bfloat16", **io)


def test_what_is_stated_in_the_body_of_a_scan_is_kept():
    body = """y = Scan<num_scan_inputs=1, body = b (uint8[1,1,3,3] e) => (int32[1,1,2,2] row) {
        w = Constant<value = uint8[1,1,2,2] {1, 2, 0, 3}>() row = ConvInteger(e, w)
    }>(x)"""
    source = model(body, 10, inputs="uint8[2,1,1,3,3] x", outputs="int32[2,1,1,2,2] y")
    # no engine runs it at 5: onnxruntime has no Cast of then, onnx.reference runs no Loop without a condition
    onnx.checker.check_model(convert.attempt(source, {"": 5}).model, full_check=True)
    made = convert.attempt(source, {"": 7}).model
    x = np.arange(18, dtype=np.uint8).reshape(2, 1, 1, 3, 3)
    check_values(source, made, {"x": x}, rtol=0.0, atol=0.0)
