"""Squeeze and Unsqueeze below 11 of axes that are not in order, or are counted from the end, as runtimes take them there."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.analysis.inferring import corrected, later_versions
from opshift.passes.conversion import convert
from opshift.passes.model.messages import NodeProto
from opshift.passes.optimization import optimize

from tests.support import evaluate, model, show

X = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
ADDED = "a = Unsqueeze<axes=[-2]>(x) s = Shape(a) y = Reshape(x, s)"
TAKEN = "a = Squeeze<axes=[-3]>(x) s = Shape(a) y = Reshape(x, s)"


def shape_after(source, feeds, change=optimize.attempt):
    made = change(source)
    assert not made.refusals
    (before,), (after,) = evaluate(source, feeds), evaluate(made.model, feeds)
    np.testing.assert_array_equal(after, before)
    return after.shape


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize(
    ("body", "inputs", "shape", "expected"),
    [
        (ADDED, "float[N,3] x", (2, 3), (2, 1, 3)),
        (ADDED.replace("[-2]", "[0,-1]"), "float[N,3] x", (2, 3), (1, 2, 3, 1)),
        (ADDED.replace("[-2]", "[-1]"), "float[N,3] x", (1, 3), (1, 3, 1)),
        (ADDED.replace("[-2]", "[1]"), "float[N,3] x", (2, 3), (2, 1, 3)),
        (TAKEN, "float[1,N,3] x", (1, 2, 3), (2, 3)),
        (TAKEN.replace("[-3]", "[3,0]"), "float[1,N,3,1] x", (1, 2, 3, 1), (2, 3)),
        (ADDED.replace("[-2]", "[2,0]"), "float[N,3] x", (2, 3), (1, 2, 1, 3)),
        (TAKEN.replace("<axes=[-3]>", "<axes=[0]>"), "float[1,N,3] x", (1, 2, 3), (2, 3)),
    ],
)
def test_axes_from_the_end_are_axes(opset, body, inputs, shape, expected):
    source = model(
        body, opset, inputs=inputs, outputs="float[?, ?] y".replace("?, ?", ",".join("ABCD"[: len(expected)]))
    )
    assert shape_after(source, {"x": np.zeros(shape, np.float32)}) == expected


BRANCH = """<ir_version: 5, opset_import: ["" : 10]> g (bool c, float[N,3] x) => (float[A,B,C] y) {
    y = If (c) <then_branch = t () => (float[D,E,F] p) { a = Unsqueeze<axes=[-2]>(x) s = Shape(a) p = Reshape(x, s) },
                else_branch = e () => (float[G,H,I] q) { q = Unsqueeze<axes=[-1]>(x) }>
}"""
CALLED = """<ir_version: 8, opset_import: ["" : 10, "f" : 1]> g (float[N,3] x) => (float[A,B,C] y) {
    a = f.F<axes=[-2]>(x) s = Shape(a) y = Reshape(x, s)
}
<domain: "f", opset_import: ["" : 10]> F <axes>(x) => (t) { t = Unsqueeze<axes: ints = @axes>(x) }"""


@pytest.mark.parametrize(("taken", "expected"), [(True, (2, 1, 3)), (False, (2, 3, 1))])
def test_axes_from_the_end_are_axes_in_a_branch(taken, expected):
    assert shape_after(onnx.parser.parse_model(BRANCH), {"c": np.array(taken), **X}) == expected


def test_axes_from_the_end_are_axes_where_a_caller_gives_them():
    assert shape_after(onnx.parser.parse_model(CALLED), X) == (2, 1, 3)


@pytest.mark.parametrize("body", [ADDED, TAKEN])
def test_the_next_operator_below_is_told_the_rank(body):
    """Sum of opset 7 needs as many dimensions on both sides as it has, once it is an Add of opset 6."""
    whole = "float[2,3] x" if body is ADDED else "float[1,2,3] x"
    source = model(
        f"{body} ".replace("y = Reshape(x, s)", "y = Add(a, w)"),
        7,
        inputs=whole,
        outputs="float[P,Q] y" if body is TAKEN else "float[P,Q,R] y",
        constants="float[3] w = {1, 2, 3}",
    )
    x = X["x"] if body is ADDED else X["x"][None]
    assert shape_after(source, {"x": x}, lambda m: convert.attempt(m, {"": 6})) == (
        (2, 1, 3) if body is ADDED else (2, 3)
    )


@pytest.mark.parametrize("text", [BRANCH, CALLED])
def test_the_model_stays_as_it_is(text):
    source = onnx.parser.parse_model(text)
    before = source.SerializeToString()
    made = corrected.infer_types(source)
    assert source.SerializeToString() == before
    assert [i.domain for i in made.opset_import] == [i.domain for i in source.opset_import]
    assert len(made.functions) == len(source.functions)
    assert show(made) == show(source)


def test_what_is_inferred_right_is_left_to_itself():
    def node(op, axes):
        made = NodeProto(op_type=op)
        made.attribute.add(name="axes").ints.extend(axes)
        return made

    assert later_versions.is_inferred_wrong(node("Squeeze", [0, -1]), 10)
    assert not later_versions.is_inferred_wrong(node("Squeeze", [0, -1]), 11)
    assert later_versions.is_inferred_wrong(node("Squeeze", [2, 0]), 10)
    assert not later_versions.is_inferred_wrong(node("Unsqueeze", [0, 1]), 10)
    assert not later_versions.is_inferred_wrong(NodeProto(op_type="Squeeze"), 10)
    assert [later_versions.is_inferred_wrong(NodeProto(op_type="Slice"), opset) for opset in (9, 10, 11)] == [
        False,
        True,
        False,
    ]
