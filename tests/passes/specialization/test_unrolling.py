"""Unrolled models yield what onnxruntime makes of them as they are."""

import numpy as np
import onnx
import pytest
from opshift.passes.specialization.door import unroll

from opshift.verification.engines import OnnxRuntime
from tests.support import evaluate, model

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
COUNTED = """
  b, s = Loop(m, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] r) {
    f = Cast<to = 1>(i) w = Add(v, f) r = Mul(w, a) on = Identity(go) }>
  y = Identity(b) z = Identity(s)
"""
UNTIL = """
  n, b = Loop(, c, k, a) <body = turn (int64 i, bool go, int64 n0, float[3] v) => (bool on, int64 n1, float[3] w) {
    one = Constant<value_int = 1>() n1 = Add(n0, one) w = Add(v, v) on = Less(n1, most) }>
  y = Identity(b)
"""
AS_LONG = """
  b, t = Loop(, c, a, x) <body = turn (int64 i, bool go, float[3] v, float[4,3] u) => (bool on, float[3] w, float[4,3] u) {
    q = Shape(u) zero = Constant<value_int = 0>() h = Gather(q, zero) two = Constant<value_int = 2>()
    n = Add(i, two) on = Less(n, h) w = Add(v, v) }>
  y = Identity(b)
"""
SCAN = """
  h, s = Scan(a, {scanned}) <{attributes}, body = turn (float[3] v, float[3] e) => (float[3] w, float[3] r) {{
    w = Add(v, e) r = Mul(w, e) }}>
  y = Identity(h) z = Identity(s)
"""


def check(body, opset, op, *, outputs="float[] y", inputs="float[4,3] x", constants="", a="a = Gather(x, at)"):
    constants = f"int64 at = {{0}}, bool c = {{1}}{', ' if constants else ''}{constants}"
    of = model(f"{a} {body}", opset, inputs=inputs, outputs=outputs, constants=constants)
    for value in of.graph.output:
        value.ClearField("type")
    done = unroll(of, 64, frozenset({op}))
    made, changes = done.model, done.changes
    assert changes
    assert op not in [node.op_type for node in made.graph.node]
    onnx.checker.check_model(made)
    names = [node.name for node in made.graph.node if node.name]
    assert len(names) == len(set(names))
    for one, other in zip(OnnxRuntime(of).run({"x": X}), OnnxRuntime(made).run({"x": X}), strict=True):
        np.testing.assert_array_equal(one, other)
    return made


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("iterations", [2, 5])
def test_iterations_that_are_counted(opset, iterations):
    made = check(COUNTED, opset, "Loop", outputs="float[] y, float[] z", constants=f"int64 m = {{{iterations}}}")
    assert [node.op_type for node in made.graph.node].count("Mul") == iterations


@pytest.mark.parametrize("most", [1, 4])
def test_iterations_until_a_condition_of_constants(most):
    made = check(UNTIL, 13, "Loop", constants=f"int64 k = {{0}}, int64 most = {{{most}}}")
    assert [node.op_type for node in made.graph.node].count("Add") == most


def test_iterations_that_hang_on_a_size():
    made = check(AS_LONG, 13, "Loop")
    assert [node.op_type for node in made.graph.node].count("Add") == 3


@pytest.mark.parametrize(
    ("attributes", "scanned"),
    [
        ("num_scan_inputs = 1", "x"),
        ("num_scan_inputs = 1, scan_input_directions = [1]", "x"),
        ("num_scan_inputs = 1, scan_output_directions = [1], scan_output_axes = [1]", "x"),
        ("num_scan_inputs = 1, scan_input_axes = [-1]", "t"),
    ],
)
def test_scans(attributes, scanned):
    body = SCAN.format(attributes=attributes, scanned=scanned)
    transposed = "a = Gather(x, at) t = Transpose(x)"
    made = check(body, 13, "Scan", outputs="float[] y, float[] z", a=transposed)
    assert [node.op_type for node in made.graph.node].count("Mul") == 4


SEQUENCES = """
  q = SequenceConstruct(a)
  s = Loop(m, c, q) <body = turn (int64 i, bool go, seq(float[3]) v) => (bool on, seq(float[3]) w) {
    on = Identity(go) w = SequenceInsert(v, a) }>
  y = ConcatFromSequence<axis = 0>(s)
"""
DRAWN = """
  r = RandomUniform<shape = [1], low = 1.0, high = 9.0>() k = Cast<to = 7>(r)
  y = Loop(k, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) { on = Identity(go) w = Neg(v) }>
"""
UNTIL_DRAWN = """
  y = Loop(, c, a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
    r = RandomUniform<shape = [1]>() h = Constant<value_float = 0.5>() on = Less(r, h) w = Neg(v) }>
"""


def test_sequences_are_carried_where_they_can_be_repeated():
    made = check(SEQUENCES, 14, "Loop", constants="int64 m = {3}")
    assert [node.op_type for node in made.graph.node].count("SequenceInsert") == 3


def test_names_of_nodes_stay_apart():
    body = COUNTED.replace("w = Add(v, f)", "[sum] w = Add(v, f)")
    made = check(body, 13, "Loop", outputs="float[] y, float[] z", constants="int64 m = {3}")
    assert len([node.name for node in made.graph.node if node.op_type == "Add" and node.name]) == 3


@pytest.mark.parametrize(
    ("body", "inputs", "why"),
    [
        (COUNTED, "float[4,3] x, int64 m", 'the trip count "m" is dynamic'),
        (
            UNTIL.replace("Less(n1, most)", "Less(n1, m)"),
            "float[4,3] x, int64 m",
            'whether it goes on ("on") is dynamic',
        ),
        (COUNTED.replace("Loop(m, c, a)", "Loop(m, d, a)"), "float[4,3] x, bool d", 'its condition "d" is dynamic'),
        (AS_LONG, "float[N,3] x", 'whether it goes on ("on") is dynamic'),
        (
            COUNTED.replace("Loop(m, c, a)", "Loop(k, c, a)"),
            "float[4,3] x",
            "5001 iterations of 4 nodes are too many; allowed: 20000 nodes",
        ),
        (UNTIL, "float[4,3] x", "it has 1000 iterations; allowed: 64; try --unroll 1000"),
        (
            UNTIL.replace("Loop(,", "Loop(ends,"),
            "float[4,3] x",
            "it has 1000 iterations; allowed: 64; try --unroll 1000",
        ),
        (UNTIL.replace("Less(n1, most)", "Less(n1, ends)"), "float[4,3] x", "5001 iterations of 4 nodes are too many"),
        (SCAN.format(attributes="num_scan_inputs = 1", scanned="x"), "float[N,3] x", 'the length of "x" is dynamic'),
        (SEQUENCES, "float[4,3] x", "Identity of opset 13 takes no sequences"),
        (DRAWN, "float[4,3] x", 'the trip count "k" is dynamic'),
        (UNTIL_DRAWN, "float[4,3] x", 'whether it goes on ("on") is dynamic'),
    ],
)
def test_what_stays_is_named_with_the_reason(body, inputs, why):
    until = "int64 n0" in body
    constants = f"int64 at = {{0}}, bool c = {{1}}, int64 most = {{{1000 if until else 3}}}, int64 ends = {{6000}}"
    constants += "" if "k = " in body else f", int64 k = {{{0 if until else 50000}}}"
    constants += "" if "int64 m" in inputs else ", int64 m = {3}"
    of = model(f"a = Gather(x, at) {body}", 13, inputs=inputs, outputs="float[] y", constants=constants)
    done = unroll(of, 64)
    assert done.model is of
    assert not done.changes
    assert [refusal.why.startswith(why) for refusal in done.stays] == [True]


def test_iterations_that_hang_on_what_is_written_out():
    body = """
      s, a = Loop(m, c, x) <body = first (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] t) {
        on = Identity(go) w = Neg(v) t = Add(v, v) }>
      z = Shape(a) k = Gather(z, first)
      r = Loop(k, c, x) <body = second (int64 j, bool go2, float[3] p) => (bool on2, float[3] q) {
        on2 = Identity(go2) q = Mul(p, p) }>
      y = Add(r, s)
    """
    constants = "int64 m = {2}, bool c = {1}, int64 first = {0}"
    source = model(body, 18, inputs="float[3] x", outputs="float[3] y", constants=constants)
    made = unroll(source, 64, frozenset({"Loop"})).model
    assert "Loop" not in {node.op_type for node in made.graph.node}
    given = {"x": np.array([1, -2, 0.5], np.float32)}
    np.testing.assert_array_equal(evaluate(made, given)[0], evaluate(source, given)[0])


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(op, opset, *, length=3, attributes="", inside=False, most=64):
    """A recurrent operator with drawn weights, before and after."""
    size, twice = 2, 2 if "bidirectional" in attributes else 1
    rng = np.random.default_rng(0)
    shapes = {"w": (twice, GATES[op] * size, 3), "r": (twice, GATES[op] * size, size)}
    call = f"y, h = {op}<hidden_size = {size}{attributes}>(x, w, r, , lengths)"
    if inside:
        call = f"""y, h = If(c) <then_branch = a () => (float[] y1, float[] h1) {{ {call.replace("y, h", "y1, h1")} }},
            else_branch = b () => (float[] y2, float[] h2) {{ y2 = Neg(old_y) h2 = Neg(old_h) }}>"""
    inputs = (
        f"float[{length},2,3] x, int32[2] lengths, bool c, float[{length},{twice},2,2] old_y, float[{twice},2,2] old_h"
    )
    source = model(call, opset, inputs=inputs, outputs="float[] y, float[] h")
    for value in source.graph.output:
        value.type.tensor_type.ClearField("shape")
    for name, shape in shapes.items():
        weights = rng.normal(size=shape).astype(np.float32)
        source.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    done = unroll(source, most)
    if not done.stays:
        sizes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in source.graph.input
        }
        for condition in (True, False):
            feeds = {name: rng.normal(size=dims).astype(np.float32) for name, dims in sizes.items()}
            feeds |= {"lengths": np.array([3, 2], np.int32), "c": np.array(condition)}
            expected, actual = OnnxRuntime(source).run(feeds), OnnxRuntime(done.model).run(feeds)
            for one, other in zip(expected, actual, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return source, done


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("opset", "attributes"), [(11, ', direction = "bidirectional"'), (14, "")])
def test_recurrent_operators(op, opset, attributes):
    source, done = recurrent(op, opset, attributes=attributes)
    assert {op, "Scan", "Loop"}.isdisjoint(node.op_type for node in done.model.graph.node)
    assert done.model.ir_version == source.ir_version
    assert done.model.opset_import == source.opset_import


def test_recurrent_operators_in_branches():
    _, done = recurrent("GRU", 16, inside=True)
    (node,) = [node for node in done.model.graph.node if node.op_type == "If"]
    assert {"GRU", "Scan"}.isdisjoint(inner.op_type for inner in node.attribute[0].g.node)


def test_a_recurrent_operator_of_many_steps_stays_what_it_is():
    source, done = recurrent("LSTM", 14, length=70)
    assert done.model is source
    assert [refusal.why for refusal in done.stays] == ["it has 70 iterations; allowed: 64; try --unroll 70"]


def test_a_length_that_is_only_declared_is_not_believed():
    body = f"u = my.Made(x) {SCAN.format(attributes='num_scan_inputs = 1', scanned='u')}"
    source = model(body, 18, inputs="float[4,3] x, float[3] a", outputs="float[3] y, float[4,3] z", domains='"my" : 1')
    source.graph.value_info.add(name="u").CopyFrom(source.graph.input[0])
    source.graph.value_info[0].name = "u"
    done = unroll(source, 64)
    assert [refusal.why for refusal in done.stays] == ['the length of "u" is unknown; try --fix-shape']


def test_functions_that_hold_loops_are_inlined():
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18, "my" : 1]>
        g (float[3] x) => (float[3] y) { y = my.Twice(x) }
        <opset_import: ["" : 18], domain: "my"> Twice (a) => (b) {
            m = Constant<value_int = 2>()
            b = Loop(m, , a) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
                on = Identity(go) w = Add(v, v) }> }""")
    done = unroll(source, 64)
    assert [node.op_type for node in done.model.graph.node] == ["Add", "Add", "Identity"]
    assert not done.model.functions


def test_weights_in_a_body_are_written_once():
    body = """y = Loop(m, c, x) <body = turn (int64 i, bool go, float[3] v) => (bool on, float[3] w)
        <float[3] k = {1, 2, 3}> { on = Identity(go) w = Mul(v, k) }>"""
    source = model(body, 18, inputs="float[3] x", outputs="float[3] y", constants="int64 m = {9}, bool c = {1}")
    made = unroll(source, 64).model
    assert [list(tensor.dims) for tensor in made.graph.initializer] == [[3]]
    assert [node.op_type for node in made.graph.node].count("Mul") == 9
