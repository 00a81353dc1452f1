"""Expansion on request: at the model's own opset and at others, to any depth, wherever the operator stands."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.conversion import convert
from opshift.passes.model.imports import opsets
from opshift.passes.model.traversal import bodies
from opshift.passes.rewrite import registry

from tests.support import check_values, evaluate, model, show

NORM = "y = LayerNormalization(x, s, b)"
NORM_IO = {"inputs": "float[N,4] x, float[4] s, float[4] b", "outputs": "float[N,4] y"}
X = np.array([[1.0, -2.0, 0.5, 7.0], [0.0, -0.0, 3.0, 1e-3], [4.0, 4.0, 4.0, 5.0]], np.float32)
FEEDS = {"x": X, "s": np.array([1, 2, -3, 0.5], np.float32), "b": np.array([0, 1, -1, 2], np.float32)}


def operators(of):
    return {node.op_type for body in bodies(of) for node in body.node}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ('Gelu<approximate="fast">(x)', "approximate='fast'; supported: none or tanh"),
        (
            'opshift.openvino.NormalizeL2<eps=0.5, eps_mode="mul">(x, a)',
            "eps_mode='mul'; supported: add or max",
        ),
    ],
)
def test_a_text_that_no_definition_knows_is_refused(call, why):
    io = {"inputs": "float[N,4] x", "outputs": "float[N,4] y", "constants": "int64[1] a = {1}"}
    source = model(f"y = {call}", 20, domains='"opshift.openvino" : 1', **io)
    ops = [((node.domain, node.op_type)) for node in source.graph.node]
    result = convert.attempt(source, opsets(source), ops=ops)
    assert result.model is None
    assert why in str(result.refusals[0])


def inlined(source, *ops, target=None, **options):
    wanted = [tuple(op.rpartition("::")[::2]) for op in ops]
    result = convert.attempt(source, {"": target or opsets(source)[""]}, ops=wanted, **options)
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert not operators(result.model) & {op for _, op in wanted}
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def refused(source, *ops):
    result = convert.attempt(source, opsets(source), ops=[("", op) for op in ops])
    assert result.model is None, show(result.model)
    return "\n".join(map(str, result.refusals))


# --- what is not to be expanded -----------------------------------------------------------------------------


def test_nothing_is_expanded_that_was_not_named():
    source = model(NORM, 17, **NORM_IO)
    assert inlined(source, "Attention").graph == source.graph


def test_an_operator_without_a_definition_is_refused():
    assert "it is a basic operator: there is nothing simpler to replace it with" in refused(
        model("y = MatMul(x, s)", 17, **NORM_IO), "MatMul"
    )


# --- at which opset -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opset", "target"), [(17, None), (18, None), (22, None), (17, 21), (21, 11), (13, 18)])
def test_a_definition_at_the_first_version_serves_every_opset(opset, target):
    body = NORM if opset >= 17 else "t = ReduceL2<axes = [-1]>(x) y = Div(x, t)"
    source = model(body, opset, **NORM_IO)
    after = inlined(source, "LayerNormalization", "ReduceL2", target=target)
    assert opsets(after)[""] == (target or opset)
    check_values(source, after, FEEDS, rtol=1e-5, atol=1e-6)


def test_what_layer_normalization_needs_and_no_more():
    assert show(inlined(model(NORM, 18, **NORM_IO), "LayerNormalization")).count("\n") + 1 == 9


def test_the_type_that_the_first_version_lacked_is_expanded_at_the_version_of_the_node():
    source = model("y = CastLike(x, like)", 19, inputs="float[3] x, float8e4m3fn[1] like", outputs="float8e4m3fn[3] y")
    assert show(inlined(source, "CastLike")) == "y = Cast<to=17>(x)"


# --- to any depth -------------------------------------------------------------------------------------------


def test_what_definitions_are_made_of_is_expanded_too():
    source = model("y = Mish(x)", 18, inputs="float[3,4] x", outputs="float[3,4] y")
    after = inlined(source, "Mish", "Softplus")
    assert operators(after) == {"Min", "Max", "Exp", "Add", "Log", "Tanh", "Mul"}
    check_values(source, after, {"x": X}, rtol=1e-5, atol=1e-6)


def test_what_steps_emit_on_the_way_is_expanded_too():
    source = model("y = Clip(x, lo)", 12, inputs="int8[N,4] x, int8 lo", outputs="int8[N,4] y")
    assert "Clip" in operators(inlined(source, target=11))
    after = inlined(source, "Clip", target=11)
    assert operators(after) == {"Cast", "Max"}
    check_values(source, after, {"x": X.astype(np.int8), "lo": np.int8(2)}, rtol=0, atol=0)


@pytest.mark.parametrize("denied", [["LSTM"], ["LSTM", "Scan"], ["LSTM", "Scan", "Sigmoid"]])
def test_the_graphs_of_an_operator_that_is_expanded_itself(denied):
    source = model(
        "y = LSTM<hidden_size = 2>(x, w, r)", 14, outputs="float[3,1,1,2] y",
        inputs="float[3,1,2] x, float[1,8,2] w, float[1,8,2] r",
    )  # fmt: skip
    after = inlined(source, *denied)
    assert ("Scan" in operators(after)) is ("Scan" not in denied)
    weights = np.random.default_rng(0).uniform(-1, 1, (2, 1, 8, 2)).astype(np.float32)
    check_values(source, after, {"x": X[:, None, :2], "w": weights[0], "r": weights[1]}, rtol=1e-5, atol=1e-6)


def test_the_node_that_the_user_wrote_is_refused_and_not_what_it_becomes():
    taken = "taken () => (float[N] t) { p = NonZero(x) t = Cast<to=1>(p) }"
    left = "left () => (float[N] e) { e = Identity(v) }"
    source = model(
        f"y = If(c) <then_branch = {taken}, else_branch = {left}> z = NonZero(v)",
        13,
        inputs="bool c, float[2] x, float[2] v",
        outputs="float[N] y, int64[1,M] z",
    )
    result = convert.attempt(source, {"": 13}, ops=[("", "NonZero"), ("", "Loop")])
    assert {(r.op, r.node) for r in result.refusals} == {("NonZero", "p"), ("NonZero", "z")}
    assert all("its replacement needs Loop" in r.why for r in result.refusals)


def test_definitions_that_need_each_other_are_refused(monkeypatch):
    def sine(node):
        return node.build.Cos(node.input(0))

    def cosine(node):
        return node.build.Identity(node.build.Sin(node.input(0)))

    registry.definition("", "Sin")  # its file is read before, and what it holds lasts
    monkeypatch.setattr(registry, "_on_request", dict(registry._on_request))
    registry.defined("Sin", sine)
    registry.defined("Cos", cosine)
    source = model("y = Sin(x)", 17, inputs="float[3] x", outputs="float[3] y")
    assert show(inlined(source, "Sin")) == "y = Cos(x)"
    assert "its definition needs the operator itself: Sin needs Cos needs Sin" in refused(source, "Sin", "Cos")


def test_definitions_that_need_each_other_through_a_graph_are_refused(monkeypatch):
    def branched(node):
        build, x = node.build, node.input(0)
        condition = build.constant(True, onnx.TensorProto.BOOL)
        branch = build.branch(lambda inner: inner.Sin(x), "branch", onnx.TensorProto.FLOAT)
        return build.If(condition, then_branch=branch, else_branch=branch)

    registry.definition("", "Sin")  # its file is read before, and what it holds lasts
    monkeypatch.setattr(registry, "_on_request", dict(registry._on_request))
    registry.defined("Sin", branched)
    source = model("y = Sin(x)", 17, inputs="float[3] x", outputs="float[3] y")
    assert "its definition needs the operator itself: Sin needs Sin" in refused(source, "Sin")


def test_a_definition_is_registered_once():
    with pytest.raises(ValueError, match="already defined"):
        registry.defined("CastLike", lambda node: None)
    with pytest.raises(ValueError, match="does not exist at opset 3"):
        registry.defined("Gelu", lambda node: None, opset=3)


# --- where the operator stands ------------------------------------------------------------------------------


def test_inside_a_branch():
    branches = ", ".join(f"{way} = {way}_ () => (float[3,4] {way}_y) {{ {way}_{NORM} }}" for way in ("then_branch", "else_branch"))  # fmt: skip
    source = model(f"y = If(c) <{branches}>", 17, inputs=f"bool c, {NORM_IO['inputs']}", outputs="float[3,4] y")
    check_values(source, inlined(source, "LayerNormalization"), FEEDS, rtol=1e-5, atol=1e-6)


FUNCTION = """
<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]>
g (float[3,4] x, float[4] s, float[4] b) => (float[3,4] y) {{ y = my.f<eps = 0.5>(x, s, b) }}
<domain: "my", opset_import: ["" : {inner}]>
f <eps: float = 1e-5> (x, s, b) => (y) {{ {body} }}
"""


@pytest.mark.parametrize(("opset", "inner"), [(18, 18), (21, 17), (17, 21)])
def test_inside_a_function_of_the_model_with_its_own_opset(opset, inner):
    body = "t = LayerNormalization<epsilon: float = @eps>(x, s, b) y = HardSwish(t)"
    source = onnx.parser.parse_model(FUNCTION.format(opset=opset, inner=inner, body=body))
    after = inlined(source, "LayerNormalization", "HardSwish")
    assert opsets(after)[""] == opset
    check_values(source, after, FEEDS, rtol=1e-5, atol=1e-6)


def test_only_functions_that_hold_the_operator_are_inlined():
    source = onnx.parser.parse_model(FUNCTION.format(opset=18, inner=18, body="t = Relu(x) y = HardSwish(t)"))
    assert [f.name for f in inlined(source, "LayerNormalization").functions] == ["f"]
    assert not inlined(source, "HardSwish").functions


# --- what the call leaves out or holds ----------------------------------------------------------------------


def test_absent_attributes_have_their_defaults():
    source = model("y = MeanVarianceNormalization(x)", 13, inputs="float[2,3,2,2] x", outputs="float[2,3,2,2] y")
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) ** 2
    wide = x.astype(np.float64)
    expected = (wide - wide.mean((0, 2, 3), keepdims=True)) / (wide.std((0, 2, 3), keepdims=True) + 1e-9)
    np.testing.assert_allclose(evaluate(inlined(source, "MeanVarianceNormalization"), {"x": x})[0], expected, rtol=1e-5)


def test_initializers_are_inputs_like_others():
    source = model(NORM, 17, inputs="float[N,4] x", outputs="float[N,4] y", constants="float[4] s = {1,2,-3,0.5}, float[4] b = {0,1,-1,2}")  # fmt: skip
    check_values(source, inlined(source, "LayerNormalization"), {"x": X}, rtol=1e-5, atol=1e-6)


def test_inputs_may_be_skipped():
    source = model("y = Clip(x, , hi)", 13, inputs="float[N,4] x, float hi", outputs="float[N,4] y")
    after = inlined(source, "Clip")
    assert show(after) == "t1 = Max(x, -3.4028234663852886e+38)\ny = Min(t1, hi)"
    check_values(source, after, {"x": X, "hi": np.float32(1.0)}, rtol=0, atol=0)


def test_a_definition_newer_than_the_model_is_brought_down():
    source = model("y = ReduceSumSquare<axes = [1], keepdims = 0>(x)", 11, inputs="float[N,4] x", outputs="float[N] y")
    after = inlined(source, "ReduceSumSquare")
    assert show(after) == "t1 = Mul(x, x)\ny = ReduceSum<axes=[1], keepdims=0>(t1)"
