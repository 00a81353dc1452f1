"""What is left of a stamped body: conditions decided, types settled, constants computed, dead nodes gone."""

import numpy as np
import onnx.parser
import pytest
from onnx import helper
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.inlining import specialize
from opshift.passes.inlining.stamp import stamp
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

from tests.support import evaluate, model, show

X = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}


def left_of(body, *, opset=18, call="y = my.f(x)", constants="", inputs="float[2,3] x", outputs="float[2,3] y"):
    """The model whose only node is a call of a function with `body`, once it is stamped and reduced."""
    source = model(call, opset, inputs=inputs, outputs=outputs, constants=constants, domains='"my" : 1')
    arguments = ", ".join(source.graph.node[0].input)
    results = ", ".join(source.graph.node[0].output)
    function = onnx.parser.parse_function(
        f'<domain: "my", opset_import: ["" : {opset}]> f ({arguments}) => ({results}) {{ {body} }}'
    )
    context = Context(source, source)
    scope = Scope(source.graph, context, opset, path=())
    proto = source.graph.node[0]
    node = Node(proto, scope, opset, Builder(scope, opset, proto))
    nodes = stamp(function, node.inputs, node.outputs, {}, context.names.fresh)
    kept = specialize.specialize_stamped(nodes, node, opset)
    del source.graph.node[:]
    source.graph.node.extend(kept)
    return source


def check_left(body, expected, **options):
    after = left_of(body, **options)
    assert show(after) == "\n".join(line.strip() for line in expected.strip().splitlines())
    return after


def floats(values):
    return {"x": np.array(values, np.float32)}


# --- nothing to do ------------------------------------------------------------------------------------------


def test_nodes_that_compute_something_stay():
    check_left("t = Neg(x) y = Abs(t)", "t1 = Neg(x)\ny = Abs(t1)")


def test_floats_are_not_computed_ahead():
    check_left(
        "a = Constant<value = float[1] {2}>() b = Mul(a, a) y = Mul(x, b)", "t1 = Mul([2.0], [2.0])\ny = Mul(x, t1)"
    )


def test_operators_of_other_domains_are_not_taken_for_onnx_ones():
    body = "a = other.Identity(x) b = other.Cast<to = 1>(a) c = other.CastLike(b, x) y = other.Identity(c)"
    check_left(
        body,
        """t1 = other.Identity(x)
        t2 = other.Cast<to=1>(t1)
        t3 = other.CastLike(t2, x)
        y = other.Identity(t3)""",
    )


# --- what repeats a value -----------------------------------------------------------------------------------


def test_identities_go_unless_they_make_the_result():
    check_left("a = Identity(x) b = Neg(a) c = Identity(b) y = Abs(c)", "t1 = Neg(x)\ny = Abs(t1)")
    check_left("a = Identity(x) y = Identity(a)", "y = Identity(x)")


def test_casts_to_the_type_that_is_there_go():
    check_left("a = Cast<to = 1>(x) y = Neg(a)", "y = Neg(x)")
    check_left("y = Cast<to = 1>(x)", "y = Identity(x)")


def test_casts_to_another_type_stay():
    check_left(
        "a = Cast<to = 11>(x) b = Cast<to = 1>(a) y = Neg(b)", "t1 = Cast<to=11>(x)\nt2 = Cast<to=1>(t1)\ny = Neg(t2)"
    )


def test_a_cast_of_an_unknown_type_stays():
    check_left(
        "a = other.Thing(x) b = Cast<to = 1>(a) y = Neg(b)", "t1 = other.Thing(x)\nt2 = Cast<to=1>(t1)\ny = Neg(t2)"
    )


def test_a_cast_to_a_referenced_type_of_an_unknown_one_stays():
    source = left_of("a = other.Thing(x) y = Neg(a)")
    scope = Scope(source.graph, Context(source, source), 18, path=())
    cast = helper.make_node("Cast", ["a"], ["b"])
    cast.attribute.add(name="to", type=2, ref_attr_name="kind")
    last = helper.make_node("Neg", ["b"], ["y"])
    node = Node(source.graph.node[-1], scope, 18, Builder(scope, 18))
    assert [n.op_type for n in specialize.specialize_stamped([cast, last], node, 18)] == ["Cast", "Neg"]


@pytest.mark.parametrize(("kind", "to"), [("double", 11), ("float16", 10)])
def test_cast_like_becomes_a_cast(kind, to):
    check_left("a = CastLike(x, w) y = Neg(a)", f"t1 = Cast<to={to}>(x)\ny = Neg(t1)",
               call="y = my.f(x, w)", inputs=f"float[2,3] x, {kind}[2] w", outputs=f"{kind}[2,3] y")  # fmt: skip


def test_cast_like_of_the_same_type_goes():
    check_left("a = CastLike(x, x) y = Neg(a)", "y = Neg(x)")


def test_cast_like_of_an_unknown_type_stays():
    check_left(
        "t = other.Thing(x) a = CastLike(x, t) y = Neg(a)",
        "t1 = other.Thing(x)\nt2 = CastLike(x, t1)\ny = Neg(t2)",
    )


def test_cast_like_keeps_its_attributes():
    check_left(
        "a = CastLike<saturate = 0>(x, w) y = Identity(a)", "t1 = Cast<saturate=0, to=17>(x)\ny = Identity(t1)",
        opset=19, call="y = my.f(x, w)", inputs="float[2,3] x, float8e4m3fn[2] w", outputs="float8e4m3fn[2,3] y",
    )  # fmt: skip


# --- constants ----------------------------------------------------------------------------------------------


def test_integer_arithmetic_is_done():
    check_left(
        """r = Shape(x) one = Constant<value_int = 1>() i = Sub(one, one) n = Gather(r, i) m = Add(n, one)
        p = Add(one, n) q = Add(m, p) s = Cast<to = 1>(q) y = Mul(x, s)""",
        "y = Mul(x, 6.0)",
    )


def test_a_constant_result_is_an_identity():
    check_left("y = Constant<value_ints = [1, 2]>()", "y = Identity([1, 2])", outputs="int64[2] y")


def test_constants_of_a_float_are_widened():
    check_left(
        "e = Constant<value_float = 0.5>() w = CastLike(e, x) y = Add(x, w)", "y = Add(x, float64:0.5)",
        inputs="double[2,3] x", outputs="double[2,3] y",
    )  # fmt: skip


def test_texts_are_compared_through_unique():
    check_left(
        """a = Constant<value_strings = ["max"]>() b = Constant<value_string = "max">() k = Constant<value_ints = [1]>()
        c = Reshape(b, k) d = Concat<axis = 0>(a, c) e = Unique(d) n = Size(e) y = Add(i, n)""",
        "y = Add(i, 1)", call="y = my.f(i)", inputs="int64[2] i", outputs="int64[2] y",
    )  # fmt: skip


def test_in_a_function_constants_stay_nodes():
    source = model("y = Neg(x)", 18, **X)
    function = onnx.parser.parse_function(
        '<domain: "my", opset_import: ["" : 18]> f (x) => (y) { k = Constant<value_float = 2.0>() y = Mul(x, k) }'
    )
    scope = Scope(function, Context(source, source), 18)
    node = Node(function.node[1], scope, 18, Builder(scope, 18))
    assert [n.op_type for n in specialize.specialize_stamped(list(function.node), node, 18)] == ["Constant", "Mul"]


# --- conditions ---------------------------------------------------------------------------------------------

BRANCHES = """y = If(c) <then_branch = t () => (float[2,3] p) { n = Neg(x) p = Abs(n) },
                         else_branch = e () => (float[2,3] q) { q = Exp(x) }>"""


def test_a_condition_known_only_at_run_time_stays():
    after = left_of("z = Size(a) o = Constant<value_int = 0>() c = Equal(z, o) " + BRANCHES,
                    call="y = my.f(x, a)", inputs="float[2,3] x, int64[N] a")  # fmt: skip
    assert [n.op_type for n in after.graph.node] == ["Size", "Equal", "If"]


@pytest.mark.parametrize(
    ("constants", "expected"),
    [("int64[0] a = {}", "t1 = Neg(x)\ny = Abs(t1)"), ("int64[1] a = {7}", "y = Exp(x)")],
)
def test_the_branch_of_a_known_condition_takes_its_place(constants, expected):
    body = "z = Size(a) o = Constant<value_int = 0>() c = Equal(z, o) " + BRANCHES
    check_left(body, expected, call="y = my.f(x, a)", constants=constants)


def test_a_static_shape_decides_a_condition():
    body = "z = Size(a) o = Constant<value_int = 0>() c = Equal(z, o) " + BRANCHES
    check_left(body, "y = Exp(x)", call="y = my.f(x, a)", inputs="float[2,3] x, int64[1] a")


def test_conditions_inside_a_taken_branch_are_decided_too():
    check_left(
        """c = Constant<value = bool {1}>()
        y = If(c) <then_branch = t () => (float[2,3] p) {
            d = Not(c)
            p = If(d) <then_branch = tt () => (float[2,3] pp) { pp = Neg(x) },
                       else_branch = te () => (float[2,3] pq) { pq = Abs(x) }>
          }, else_branch = e () => (float[2,3] q) { q = Exp(x) }>""",
        "y = Abs(x)",
    )


def test_branches_that_yield_outer_values_and_one_value_twice():
    after = check_left(
        """c = Constant<value = bool {1}>() o = Neg(x)
        a, b, d = If(c) <then_branch = t () => (float[2,3] p, float[2,3] p, float[2,3] o) { p = Abs(x) },
                         else_branch = e () => (float[2,3] q, float[2,3] q, float[2,3] q) { q = Exp(x) }>
        s = Add(a, b) y = Mul(s, d)""",
        "t1 = Neg(x)\nt2 = Abs(x)\nt3 = Add(t2, t2)\ny = Mul(t3, t1)",
    )
    (y,) = evaluate(after, floats([[-1, 2, 3], [0, 1, -4]]))
    assert y.tolist() == [[2, -8, -18], [0, -2, 32]]


def test_constants_of_a_taken_branch_come_along():
    after = check_left(
        """c = Constant<value = bool {1}>()
        y = If(c) <then_branch = t () => (float[2,3] p) <float[1] k = {3}> { p = Mul(x, k) },
                   else_branch = e () => (float[2,3] q) { q = Exp(x) }>""",
        "y = Mul(x, [3.0])",
    )
    assert evaluate(after, floats([[1, 2, 3], [0, 1, 4]]))[0].tolist() == [[3, 6, 9], [0, 3, 12]]


def test_values_that_only_a_remaining_branch_uses_stay():
    after = left_of(
        """u = Neg(x) v = Exp(x)
        y = If(c) <then_branch = t () => (float[2,3] p) { p = Abs(u) },
                   else_branch = e () => (float[2,3] v) { }>""",
        call="y = my.f(x, c)", inputs="float[2,3] x, bool c",
    )  # fmt: skip
    assert [n.op_type for n in after.graph.node] == ["Neg", "Exp", "If"]


# --- dead nodes ---------------------------------------------------------------------------------------------


def test_what_nobody_uses_goes():
    check_left("a = Exp(x) b = Neg(a) c, d = TopK(b, b) y = Abs(x)", "y = Abs(x)")


def test_results_that_the_call_does_not_ask_for_go():
    check_left("y = Abs(x) t = Neg(x) z = Exp(t)", "y = Abs(x)")
