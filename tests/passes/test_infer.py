"""Types and shapes of what the source model says nothing about, and of what a conversion makes."""

import onnx
import onnx.checker
import pytest
from onnx import TensorProto
from opshift.functions import OPENVINO
from opshift.passes import convert
from opshift.passes.build import Builder
from opshift.passes.scope import Context, Scope

from tests.support import model

T = TensorProto


def scope_of(body, **io):
    source = model(body, 18, domains=f'"{OPENVINO}" : 1, "my" : 1', **io)
    return Scope(source.graph, Context(source, source), 18, path=())


@pytest.mark.parametrize("kind", ["float", "float16", "int8", "uint64"])
def test_results_of_a_defined_operator_have_the_type_of_its_data(kind):
    scope = scope_of(
        f"t = {OPENVINO}.ReduceL1(x, a) y = Identity(t)",
        inputs=f"{kind}[2,3] x, int64[N] a", outputs=f"{kind}[M] y",
    )  # fmt: skip
    assert scope.elem_type("t") == scope.elem_type("x") != 0


def test_a_defined_operator_does_not_hide_the_types_behind_it():
    scope = scope_of(
        f'n = {OPENVINO}.NormalizeL2<eps=1e-8, eps_mode="add">(x, a) s = Shape(n) t = Cast<to=11>(n) y = Neg(t)',
        inputs="float[2,3] x, int64[1] a", outputs="double[2,3] y",
    )  # fmt: skip
    assert (scope.elem_type("s"), scope.elem_type("t")) == (T.INT64, T.DOUBLE)


def test_other_operators_of_other_domains_stay_unknown():
    scope = scope_of(
        f"t = my.ReduceL1(x) u = {OPENVINO}.Nothing(x) y = Neg(x)", inputs="float[2,3] x", outputs="float[2,3] y"
    )
    assert (scope.elem_type("t"), scope.elem_type("u")) == (0, 0)


def test_an_invalid_call_leaves_the_other_types_known():
    scope = scope_of(
        f"t = {OPENVINO}.ReduceL1() u = Shape(x) y = Neg(x)", inputs="float[2,3] x", outputs="float[2,3] y"
    )
    assert scope.elem_type("u") == T.INT64


def made_if(then_value, else_value):
    """The scope and the name of the output of an If whose branches call `then_value` and `else_value`."""
    scope = scope_of("y = Neg(x)", inputs="float[2,3] x, bool c", outputs="float[2,3] y")
    build = Builder(scope, 18)
    branches = {"then_branch": build.branch(then_value, "one"), "else_branch": build.branch(else_value, "two")}
    return scope, build.If("c", **branches)


def test_the_branches_of_an_if_agree():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Identity("x"))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, [2, 3])


def test_the_branches_of_an_if_differ_in_shape():
    scope, made = made_if(lambda b: b.Abs(b.Neg("x")), lambda b: b.ReduceSum("x", [1]))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, [2, None])
    scope, made = made_if(lambda b: b.Identity("x"), lambda b: b.ReduceSum("x", [1], keepdims=0))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, None)


def test_the_branches_of_an_if_differ_in_type_or_are_unknown():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Cast("x", to=T.DOUBLE))
    assert scope.elem_type(made) == 0
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.emit("Thing", ["x"], domain="my"))
    assert scope.elem_type(made) == 0


def test_a_value_made_from_an_if_is_known_too():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Identity("x"))
    assert scope.shape(Builder(scope, 18).Transpose(made)) == [3, 2]


def test_below_opset_6_what_a_cast_yields_is_declared_where_a_graph_yields_it():
    body = """y = Loop(n, go, x) <body = b (int64 i, bool g, float[2] before) => (bool h, float[2] after) {
        h = Identity(g) k = Cast<to=7>(before) after = Cast<to=1>(k) }>"""
    source = model(body, 11, inputs="int64 n, bool go, float[2] x", outputs="float[2] y")
    inner = source.graph.node[0].attribute[0].g
    for value in inner.output:
        value.ClearField("type")
    result = convert.attempt(source, {"": 5}).model
    assert result is not None
    onnx.checker.check_model(result, full_check=True)
