"""Scan: over batches and over one sequence, along any axis, and as loops."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.conversion import convert

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.support import check_refused, check_unchanged, check_values, evaluate, model

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
    batch = result.model.graph.node[-1].attribute[0].g
    assert [value.type.tensor_type.elem_type for value in (*batch.input, *batch.output)] == [1, 1, 1, 1]
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


def test_only_states_stay_beyond_the_length_of_a_sequence():
    body = "num_scan_inputs=1, body = b (float[3] old, float[3] e) => (float[3] new, float[3] o, float[3] p) { new = Add(old, e) o = Mul(new, e) p = Neg(e) }"
    io = {
        "inputs": "int64[2] n, float[2,3] i, float[2,4,3] x",
        "outputs": "float[2,3] s, float[2,4,3] y, float[2,4,3] z",
    }
    source = model(f"s, y, z = Scan<{body}>(n, i, x)", 8, **io)
    made = convert.attempt(source, {"": 11}).model
    feeds = {"n": np.array([2, 3]), "i": drawn(2, 3), "x": drawn(2, 4, 3)}
    np.testing.assert_array_equal(evaluate(made, feeds)[0], evaluate(source, feeds)[0])


def test_reversed_sequences_of_several_lengths_are_refused():
    io = {**BATCH, "inputs": "int64[2] n, " + BATCH["inputs"]}
    check_refused(
        f"s, y = Scan<{BODY}, directions=[1]>(n, i, x)", 8, 9, "the Scan runs backwards and has sequence_lens", **io
    )


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
    assert any(n.op_type == "Loop" for loop in loops for n in loop.attribute[0].g.node) == (batch > 1)


@pytest.mark.parametrize(("inputs", "lengths"), [*((SHAPES[0], n) for n in ([4, 4], [2, 3], [1, 4])), (SHAPES[2], [2])])
def test_loops_keep_the_states_beyond_the_length_of_a_sequence(inputs, lengths):
    batch = len(lengths)
    io = {"inputs": f"int64[{batch}] n, {inputs}", "outputs": "float[B,3] s, float[B,4,3] y"}
    source = model(f"s, y = Scan<{BODY}>(n, i, x)", 8, **io)
    made = convert.attempt(source, {"": 7}).model
    feeds = {"n": np.array(lengths), "i": drawn(batch, 3), "x": drawn(batch, 4, 3)}
    same_rows(source, made, feeds, lengths)
    check_refused(
        f"s, y = Scan<{BODY}, directions=[1]>(n, i, x)", 8, 7, "the Scan runs backwards and has sequence_lens", **io
    )


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


def test_a_loop_keeps_what_a_scan_told_of_its_elements():
    """Inference of Resize wants to know how many sizes there are, which the sizes of what is scanned do not tell it."""
    body = "y = Scan<num_scan_inputs=1, scan_input_axes=[1], body = b (int64[4] n) => (float[A,B,C,D] o) { o = Resize(x, , , n) }>(s)"
    source = model(body, 16, inputs="float[1,1,2,2] x, int64[K,2] s", outputs="float[L,A,B,C,D] y")
    made = opshift.inline(source, ["Scan"])
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, {"s": np.array([[1, 1], [1, 1], [3, 3], [4, 4]])}, rtol=0, atol=0)


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


@pytest.mark.parametrize("target", [8, 7])
def test_axes_from_the_end_that_runtimes_take_below_11_are_what_they_are_there(target):
    io = {name: text.format("3,4") for name, text in SEQUENCE.items()}
    source = model(f"s, y = Scan<{BODY}, scan_input_axes=[-1], scan_output_axes=[-1]>(i, x)", 9, **io)
    made = convert.attempt(source, {"": target}).model
    check_values(source, made, rtol=0, atol=0)


@pytest.mark.parametrize("axes", ["scan_input_axes=[2]", "scan_output_axes=[2]", "scan_output_axes=[-3]"])
def test_axes_that_there_are_not_are_refused(axes):
    io = {name: text.format("3,4") for name, text in SEQUENCE.items()}
    source = model(f"s, y = Scan<{BODY}, {axes}>(i, x)", 9, **io)
    assert "is out of range" in str(convert.attempt(source, {"": 8}).refusals[0])


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


@pytest.mark.parametrize("target", [10, 9, 8, 7])
def test_a_scan_says_what_shape_comes_of_an_if_that_became_loops(target):
    """onnxruntime asks a Scan for the shapes that its body yields, and infers none of a Loop."""
    body = """y = Scan<num_scan_inputs=1, body = b (float[4] e) => (float[] r) {
        r = If (q) <
            then_branch = t () => (float[] a) { a = Slice(e, s, f) },
            else_branch = h () => (float[] c) { d = Neg(e) c = Slice(d, s, f) }
        >
    }>(x)"""
    source = model(body, 11, inputs="float[3,4] x, bool q, int64[1] s, int64[1] f", outputs="float[3,N] y")
    made = convert.attempt(source, {"": target}).model
    onnx.checker.check_model(made, full_check=True)
    feeds = {"x": drawn(3, 4), "s": np.int64([1]), "f": np.int64([3])}
    for q in (True, False):
        expected, actual = (OnnxRuntime(m).run({**feeds, "q": np.array(q)}) for m in (source, made))
        np.testing.assert_array_equal(actual[0], expected[0], strict=True)


@pytest.mark.parametrize("length", ["1", "4", "N"])
def test_a_reversed_scan_of_scalars_becomes_a_loop_where_integers_can_be_counted_back(length):
    body = """s, y = Scan<num_scan_inputs=1, scan_output_directions=[1], body = b (float old, float e) => (float new, float o) {
        new = Add(old, e) o = Identity(new)
    }>(i, x)"""
    source = model(body, 19, inputs=f"float i, float[{length}] x", outputs="float s, float[M] y")
    x = drawn(4 if length == "N" else int(length))
    for target in (8, 7, 6):
        made = convert.attempt(source, {"": target}).model
        onnx.checker.check_model(made, full_check=True)
        again = made if target > 6 else convert.attempt(made, {"": 7}).model  # no engine loads a model of 6
        for expected, actual in zip(*(evaluate(m, {"i": drawn(), "x": x}) for m in (source, again)), strict=True):
            np.testing.assert_array_equal(actual, expected)
    assert convert.attempt(source, {"": 5}).refusals, "of int64, which could not be subtracted"


@pytest.mark.parametrize("batch", ["2", "N"])
def test_lengths_of_sequences_go_below_opset_6(batch):
    io = {
        "inputs": f"int64[{batch}] l, float[{batch},3] i, float[{batch},4,3] x",
        "outputs": "float[B,3] s, float[B,T,3] y",
    }
    source = model(f"s, y = Scan<{BODY}>(l, i, x)", 8, **io)
    made = convert.attempt(source, {"": 5}).model
    onnx.checker.check_model(made, full_check=True)
    again = convert.attempt(made, {"": 7}).model  # no engine loads a model of 5
    same_rows(source, again, {"l": np.int64([2, 4]), "i": drawn(2, 3), "x": drawn(2, 4, 3)}, [2, 4])


MISSTATED = """<ir_version: 8, opset_import: ["" : {}]> g (float[N,M] x, int64[K] k) => (float[A,B] y) <float[{}] r> {{
    r = Reshape(x, k)
    y = Scan<num_scan_inputs=1, {}, body = b (float[2] e) => (float[2] u) {{ u = Neg(e) }}>({}r) }}"""


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize(
    ("declared", "axes", "sizes"),
    [
        ("5,2", "scan_input_directions = [1]", (3, 2)),
        ("2,5", "scan_input_directions = [1], scan_input_axes = [1]", (2, 3)),
    ],
)
def test_a_declared_size_does_not_say_how_long_a_reversed_scan_is(opset, declared, axes, sizes):
    source = onnx.parser.parse_model(MISSTATED.format(opset, declared, axes, ""))
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "k": np.array(sizes)}
    expected = evaluate(source, feeds)
    for target in (8, 7):
        np.testing.assert_array_equal(evaluate(convert.attempt(source, {"": target}).model, feeds)[0], expected[0])


@pytest.mark.parametrize("sizes", [(1, 3, 2), (3, 1, 2), (2, 2, 2)])
def test_declared_sizes_of_a_batch_are_not_believed_below_8(sizes):
    source = onnx.parser.parse_model(
        MISSTATED.format(8, "1,5,2", "directions = [1]", '"", ').replace("float[A,B] y", "float[A,B,C] y")
    )
    feeds = {"x": np.arange(np.prod(sizes), dtype=np.float32).reshape(2, -1), "k": np.array(sizes)}
    (expected,), (y,) = (evaluate(m, feeds) for m in (source, convert.attempt(source, {"": 7}).model))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("directions", ["", "directions = [1], "])
@pytest.mark.parametrize(("declared", "sizes"), [("1,5,2", (1, 3, 2)), ("1,5,2", (3, 1, 2)), ("5,3,2", (3, 1, 2))])
def test_declared_sizes_of_a_batch_are_not_believed_from_9_on(declared, sizes, directions):
    """Nor do runtimes find them where one Scan lies in another: they make room by them."""
    text = MISSTATED.replace(" {}, body", " {}body").replace("float[A,B] y", "float[A,B,C] y")
    source = onnx.parser.parse_model(text.format(8, declared, directions, '"", '))
    feeds = {"x": np.arange(np.prod(sizes), dtype=np.float32).reshape(2, -1), "k": np.array(sizes)}
    (expected,) = evaluate(source, feeds)
    for target in (9, 21):
        np.testing.assert_array_equal(evaluate(convert.attempt(source, {"": target}).model, feeds)[0], expected)


@pytest.mark.newest  # older runtimes die of strings in loops
def test_rows_of_strings_are_taken_whole():
    """Of which onnxruntime gathers the first string alone, but along the last axis."""
    body = "num_scan_inputs=1, body = b (string[2] e) => (string[2] o) { o = Identity(e) }"
    texts = np.array([["a", "b"], ["c", "d"], ["e", "f"]], object)
    source = model(f"y = Scan<{body}>(x)", 11, inputs="string[3,2] x", outputs="string[3,2] y")
    assert evaluate(opshift.inline(source, ["Scan"]), {"x": texts})[0].tolist() == texts.tolist()
    batch = np.stack([texts, texts[::-1]])
    source = model(f"y = Scan<{body}>(, x)", 8, inputs="string[2,3,2] x", outputs="string[2,3,2] y")
    made = convert.attempt(source, {"": 7}).model
    assert evaluate(made, {"x": batch})[0].tolist() == batch.tolist()
