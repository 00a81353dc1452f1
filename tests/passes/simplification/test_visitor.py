"""Nodes are folded, merged and replaced one by one, and each change is named."""

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.changes import Allowance
from opshift.passes.optimization import optimize
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.equal_constants import content, digest
from opshift.passes.simplification.visitor import Visit
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import Workspace

from tests.support import evaluate, model, show

CONSTANTS = """float[2] w = {1, 2}, float[2] same = {1, 2}, int64[2] two = {2, 3}, int64 n = {6}, int64 zero = {0}, int64 one = {1}, int64[1] big = {200000},
    int64[2] wide = {400, 400}, int64[2] wider = {512, 513}, int64 far = {200000}, float f = {0.5}, float[1] lone = {3}, bool yes = {1}, int64[1] once = {1}, int64[2] much = {1, 200000}"""


def optimized(body, opset=18, names=(), **io):
    source = model(body, opset, **{"inputs": "float[2] x, bool b", "outputs": "y", "constants": CONSTANTS, **io})
    for node, name in zip(source.graph.node, names, strict=False):
        node.name = name
    return source, optimize.attempt(source)


FOLDED = [
    ("c = Add(w, same) y = Add(x, c)", "y = Add(x, [2.0, 4.0])", "exact"),
    ("c = Exp(w) y = Add(x, c)", "y = Add(x, [2.718282, 7.389056])", "close"),
    ("c = Expand(f, two) y = Add(x, c)", "y = Add(x, [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])", "exact"),
    ("c = ConstantOfShape(two) y = Add(x, c)", "y = Add(x, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])", "exact"),
    ("c = Range(zero, n, one) d = Cast<to=1>(c) e = ReduceSum(c) y = Mul(e, n)", "y = Constant<value=[90]>()", "exact"),
    ("a, c = Split<num_outputs=2>(w) y = Add(x, a)", None, "exact"),
    ("c = Gemm(x, x) y = Relu(c)", None, "exact"),
    ("c = Relu(w) y = Add(x, c)", None, "exact"),
    ("c = Unique(w) y = Add(x, c)", "y = Add(x, [1.0, 2.0])", "exact"),
    ("c = my.Add(w, w) y = Add(x, c)", None, "exact"),
    ("y = Add(w, w)", "y = Constant<value=[2.0, 4.0]>()", "exact"),
    ("c = ConstantOfShape(big) y = Add(x, c)", None, "exact"),
    ("c = Expand(f, wide) y = Add(x, c)", "y = Add(x, c)", "exact"),
    ("c = Expand(f, wider) y = Add(x, c)", None, "exact"),
    ("c = Expand(f, big) y = Add(x, c)", None, "exact"),
    ("c = Range(zero, far, one) y = Gather(c, zero)", None, "exact"),
    ("c = Tile(lone, big) y = Add(x, c)", None, "exact"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "after", "grade"), FOLDED)
def test_what_is_constant_is_computed_unless_it_is_large(body, after, grade):
    source, result = optimized(body, domains='"my" : 1')
    shown = show(result.model)
    if after is None:
        assert [node.op_type for node in result.model.graph.node] == [node.op_type for node in source.graph.node]
    elif "Add(x, c)" in after:
        assert [node.op_type for node in result.model.graph.node] in (["Expand", "Add"], ["Add"])
    else:
        assert shown == after
    assert result.grade == grade
    if "my." not in body and "Gemm" not in body:
        x = np.array([5, 7], np.float32)
        try:
            expected = evaluate(source, {"x": x, "b": np.array(True)})
        except AssertionError:
            return
        np.testing.assert_allclose(evaluate(result.model, {"x": x, "b": np.array(True)})[0], expected[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "most", "fits"),
    [
        ("Range", {"a": 0, "b": 100, "c": 1}, 800, True), ("Range", {"a": 0, "b": 101, "c": 1}, 800, False), ("Range", {"a": 0, "b": 200, "c": 2}, 800, True),
        ("Range", {"a": 100, "b": 0, "c": -1}, 800, True), ("ConstantOfShape", {"a": [10, 10]}, 800, True), ("ConstantOfShape", {"a": [10, 11]}, 800, False),
        ("ConstantOfShape", {"a": [0, 100]}, 800, True), ("Expand", {"v": 0.5, "a": [10, 10]}, 800, True), ("Expand", {"v": 0.5, "a": [101]}, 800, False),
        ("Tile", {"v": [0.5] * 4, "a": [50]}, 800, True), ("Tile", {"v": [0.5] * 4, "a": [51]}, 800, False), ("Tile", {"v": 0.5, "a": [101]}, 800, False),
    ],
)  # fmt: skip
def test_how_large_what_repeats_values_is(op, inputs, most, fits):
    source = model(f"q = {op}({', '.join(inputs)}) y = Relu(x)", 18, inputs="float[2] x", outputs="y")
    for name, value in inputs.items():
        source.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(value, np.float32 if name == "v" else np.int64), name)
        )
    whole = Whole(source, source, None)
    whole.begin()
    space = Workspace(source.graph, whole, 18, path=())
    assert Visit(space, {})._is_bounded(Call(source.graph.node[0], space), most) is fits


REPEATED = [
    ("a = Sin(x) c = Sin(x) y = Add(a, c)", "t1 = Sin(x)\ny = Add(t1, t1)"),
    ("a = Mul(x, w) c = Mul(w, x) y = Sub(a, c)", "t1 = Mul(x, [1.0, 2.0])\ny = Sub(t1, t1)"),
    ("a = Sub(x, w) c = Sub(w, x) y = Add(a, c)", None),
    ("a = Elu<alpha=0.5>(x) c = Elu<alpha=0.25>(x) y = Sub(a, c)", None),
    ("a = RandomNormalLike(x) c = RandomNormalLike(x) y = Sub(a, c)", None),
    ("a, d = TopK(x, once) c, e = TopK(x, once) g = Cast<to=1>(e) h = Cast<to=1>(d) i = Add(a, c) j = Add(g, h) y = Add(i, j)",
     "t1, t2 = TopK(x, [1])\nt3 = Cast<to=1>(t2)\nt4 = Add(t1, t1)\nt5 = Add(t3, t3)\ny = Add(t4, t5)"),
    ("a, d = TopK(x, once) c = ReduceMax(x) y = Sub(a, c)", None),
    ("a = my.Thing(x) c = my.Thing(x) y = Sub(a, c)", None),
    ("a = Add(x, w) c = Add(x, same) y = Mul(a, c)", "t1 = Add(x, [1.0, 2.0])\ny = Mul(t1, t1)"),
    ("a = Sin(x) y = Sin(x)", "y = Sin(x)"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "after"), REPEATED)
def test_what_is_computed_twice_is_computed_once(body, after):
    source, result = optimized(body, domains='"my" : 1')
    assert show(result.model) == (after or show(source))


def test_two_outputs_of_the_same_stay_two():
    _, result = optimized("y = Sin(x) z = Sin(x)", outputs="y, z")
    assert show(result.model) in ("y = Sin(x)\nz = Identity(y)", "y = Sin(x)\nz = Sin(x)")


def told(result):
    return [(change.node, change.op, change.how.split()[0]) for change in result.changes]


@pytest.mark.parametrize("names", [(), ("first", "second", "third", "fourth")])
def test_changes_are_of_nodes_by_their_names(names):
    """Or by what they make."""
    body = "a = Add(w, w) c = Sin(x) d = Sin(x) k = Mul(d, a) y = Add(c, k)"
    _, result = optimized(body, names=names)
    wanted = {("first", "Add"), ("third", "Sin")} if names else {("a", "Add"), ("d", "Sin")}
    assert {(node, op) for node, op, _ in told(result)} >= wanted
    _, result = optimized(
        "c = Constant<value_float=0.5>() y = Mul(x, c) d = Constant<value_float=0.5>() z = Add(x, d)",
        names=names,
        outputs="y, z",
    )
    assert {(node, op) for node, op, _ in told(result)} >= ({("first", "Constant")} if names else {("c", "Constant")})
    _, result = optimized(
        "y = If(yes) <then_branch = t () => (v) { v = Sin(x) }, else_branch = e () => (v) { v = Cos(x) }>", names=names
    )
    assert [(node, op) for node, op, _ in told(result)] == [("first" if names else "y", "If")]
    _, result = optimized("h = Relu(x) y = Relu(h)", names=names)
    assert [(node, op) for node, op, _ in told(result)] == [("second" if names else "y", "Relu")]


def test_what_is_not_allowed_stays():
    body = "a = Add(w, w) c = Sin(x) d = Sin(x) k = Mul(d, a) h = Relu(k) i = Relu(h) u = If(yes) <then_branch = t () => (v) { v = Sin(x) }, else_branch = e () => (v) { v = Cos(x) }> y = Add(c, i) z = Add(y, u)"
    source, result = optimized(body, outputs="z")
    named = {(change.node, change.op, change.how) for change in result.changes}
    assert len(named) > 4
    given = Allowance()
    assert {(c.node, c.op, c.how) for c in optimize.attempt(source, allowance=given).changes} == named
    assert {(c.node, c.op, c.how) for c in given.made} == named
    for change in named:
        left = optimize.attempt(source, allowance=Allowance(frozenset([change])))
        assert change not in {(c.node, c.op, c.how) for c in left.changes}
        assert len({(c.node, c.op, c.how) for c in left.changes}) < len(named) + 2
    assert show(optimize.attempt(source, allowance=Allowance(most=0)).model) == show(source)


def test_equal_initializers_become_one_where_they_may():
    _, result = optimized("a = Add(x, w) c = Mul(a, same) y = Neg(c)")
    assert [t.name for t in result.model.graph.initializer] == ["w"]
    source = model("a = MatMul(x, u) c = MatMul(x, v) y = Add(a, c)", 18, inputs="float[2,8192] x", outputs="y")
    for name in "uv":
        source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((8192, 1), np.float32), name))
    assert [t.name for t in optimize.attempt(source).model.graph.initializer] == ["u"]
    source.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.full((8192, 1), 2, np.float32), "v"))
    assert [t.name for t in optimize.attempt(source).model.graph.initializer] == ["u", "v"]


def test_small_tensors_are_compared_by_their_content_and_large_ones_by_a_digest():
    few, more = (onnx.numpy_helper.from_array(np.zeros(size, np.float32), "a") for size in (4096, 4097))
    assert (content(few) is not None, content(more)) == (True, None)
    other = onnx.numpy_helper.from_array(np.zeros(4097, np.float32), "b")
    assert digest(more) == digest(other) is not None
    other.dims[:] = [1, 4097]
    assert digest(more) != digest(other)
    other = onnx.numpy_helper.from_array(np.full(4096, -0.0, np.float32), "d")
    assert content(few) != content(other)


def test_an_output_that_an_operator_passes_on_becomes_an_identity():
    """Of all that the operator made besides, nothing is left."""
    _, result = optimized("y, m = Dropout(x)")
    assert [(node.op_type, list(node.output), len(node.attribute)) for node in result.model.graph.node] == [
        ("Identity", ["y"], 0)
    ]
    _, result = optimized("y = Transpose<perm=[0]>(x)")
    assert [(node.op_type, len(node.attribute)) for node in result.model.graph.node] == [("Identity", 0)]


def test_branches_of_a_constant_condition_are_spliced_and_read_on():
    body = "u = If(yes) <then_branch = t () => (v) { k = Sin(x) v = Relu(k) }, else_branch = e () => (v) { v = Cos(x) }> w1 = Relu(u) y = Neg(w1)"
    source, result = optimized(body)
    assert show(result.model) == "t1 = Sin(x)\nt2 = Relu(t1)\ny = Neg(t2)"
    x = np.array([5, 7], np.float32)
    given = {"x": x, "b": np.array(True)}
    np.testing.assert_allclose(evaluate(result.model, given)[0], evaluate(source, given)[0])
