"""A model becomes one that a backend reads: at its own opset if that will do, and without what the backend lacks."""

import onnx.parser
import pytest
from opshift.passes.backends import fit, measurements
from opshift.passes.backends.backend import Backend, Limit, MeasuredCall
from opshift.passes.conversion import convert
from opshift.passes.errors import Refusal
from opshift.passes.model.imports import opsets
from opshift.passes.model.traversal import bodies

from tests.support import check_values, model, show

NORM = "y = LayerNormalization(x, s, b)"
NORM_IO = {"inputs": "float[2,4] x, float[4] s, float[4] b", "outputs": "float[2,4] y"}
REDUCED = {"inputs": "float[N,4] x", "outputs": "float[N,1] y", "constants": "int64[1] a = {1}"}


def operators(of):
    return {node.op_type for body in bodies(of) for node in body.node}


def fitted(source, **facts):
    result = fit.convert_for_backend(source, Backend("npu-1", **facts))
    assert not result.refusals, "\n".join(map(str, result.refusals))
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def at(source, opset, **facts):
    result = fit.convert_to_opset(source, {"": opset}, Backend("npu-1", **facts))
    assert not result.refusals, "\n".join(map(str, result.refusals))
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def refusals(source, **facts):
    result = fit.convert_for_backend(source, Backend("npu-1", **facts))
    assert result.model is None, show(result.model)
    return [str(refusal) for refusal in result.refusals]


def test_what_it_does_not_take_and_nothing_replaces_is_refused_for_what_it_is():
    body = "y = MatMul(x, w) z = Clip(y, low)"
    values = "float[N,4] x, float[4,4] w, float low"
    both = (
        Limit(frozenset({("", "MatMul")}), constant=("B",)),
        Limit(frozenset({("", "Clip")}), constant=("min",)),
    )
    source = model(body, 15, inputs=values, outputs="float[N,4] z")
    assert refusals(source, limits=both) == [
        'MatMul "y": input B "w" is dynamic; supported: constants',
        'Clip "z": input min "low" is dynamic; supported: constants',
    ]


@pytest.mark.parametrize("nested", [False, True], ids=["", "in a branch"])
@pytest.mark.parametrize("whole", [True, False], ids=["at each opset", "once"])
def test_other_opsets_are_tried_with_the_refused_node_before_the_whole_model(whole, nested, monkeypatch):
    """A model of many nodes is refused for one of them at each opset, or read at another one."""
    names = [f"v{place}" for place in range(12)]
    chain = " ".join(f"{b} = Relu({a})" for a, b in zip(["x", *names], names, strict=False))
    last = "y = Exp(v11)"
    if nested:
        last = "y = If(c) <then_branch = t () => (float[N,4] a) { a = Exp(v11) }, else_branch = e () => (float[N,4] b) { b = Abs(v11) }>"
    source = model(f"{chain} {last}", 13, inputs="float[N,4] x, bool c", outputs="float[N,4] y")
    sizes, convert_once = list[tuple[int, int]](), fit.convert_once

    def count(attempt):
        sizes.append((attempt.targets[""], len(attempt.source.graph.node)))
        return convert_once(attempt)

    monkeypatch.setattr(fit, "convert_once", count)
    result = fit.convert_for_backend(source, Backend("npu-1", opset=20, lacks={("", "Exp"): 13 if whole else 1}))
    wholes = {opset for opset, nodes in sizes if nodes > 2}
    if whole:
        assert opsets(result.model)[""] == 12
        assert {13, 12} <= wholes
    else:
        assert [(refusal.op, refusal.node) for refusal in result.refusals] == [("Exp", "a" if nested else "y")]
        assert wholes == {13}


def test_an_if_that_no_opset_has_is_refused_without_a_conversion_to_each(monkeypatch):
    """The published expansion of AffineGrid took 6 s for onnx2torch."""
    opsets_tried, convert_once = list[int](), fit.convert_once

    def count(attempt):
        opsets_tried.append(attempt.targets[""])
        return convert_once(attempt)

    monkeypatch.setattr(fit, "convert_once", count)
    branches = "then_branch = a () => (float[N] t) { t = Neg(x) }, else_branch = b () => (float[M] e) { e = Concat<axis = 0>(x, x) }"
    source = model(
        f"h = Relu(x) y = If(c) <{branches}>", 20, inputs="float[N] x, bool c", outputs="float[K] y, float[N] h"
    )
    lacks = {("", "If"): 1, ("", "Loop"): 1, ("", "Relu"): 14}
    (refusal,) = fit.convert_for_backend(source, Backend("npu-1", lacks=lacks)).refusals
    assert refusal.op == "If"
    assert set(opsets_tried) == {20}


def test_a_node_is_tried_alone_with_its_functions_and_no_node_of_a_sequence():
    """A node of a sequence cannot be tried alone: it is replaced together with the nodes that read it."""
    text = """<ir_version: 8, opset_import: ["" : 13, "my" : 1]> g (float[N,4] x) => (float[N,4] y)
        { i = Constant<value_int = 0>() s = SequenceConstruct(x, x) a = SequenceAt(s, i) b = Relu(a) y = my.F(b) }
        <domain: "my", opset_import: ["" : 13]> F (p) => (q) { q = Exp(p) }"""
    source = onnx.parser.parse_model(text)
    nodes = [("y", "F", "my"), ("s", "SequenceConstruct", ""), ("a", "SequenceAt", "")]
    blamed = [Refusal(*node, 0, False, "why") for node in nodes]
    ((op, sample),) = fit._cut_nodes(source, blamed, None)
    assert op == "my::F"
    onnx.checker.check_model(sample, full_check=True)
    assert [function.name for function in sample.functions] == ["F"]


def test_a_split_into_a_sequence_that_is_read_at_another_opset_is_no_reason_to_refuse_a_model():
    """Alone, SplitToSequence would need a Slice; with SequenceAt behind it, a Split does. torch's dynamo writes both."""
    body = """h = Relu(x) s = SplitToSequence<axis = 1>(h, sizes) a = SequenceAt(s, zero) b = SequenceAt(s, one)
        t = Mul(a, b) y = Relu(t)"""
    constants = "int64[2] sizes = {2, 2}, int64 zero = {0}, int64 one = {1}"
    source = model(body, 18, inputs="float[2,4] x", outputs="float[2,2] y", constants=constants)
    sequences = {("", op): 1 for op in ("SplitToSequence", "SequenceAt", "Slice")}
    after = fitted(source, opset=22, lacks={**sequences, ("", "Split"): 18})
    assert (opsets(after)[""], operators(after) - {"Identity"}) == (17, {"Relu", "Split", "Mul"})
    check_values(source, after, rtol=0, atol=0)


def test_of_an_operator_the_calls_are_named_that_the_backend_refuses():
    """Not those that only their replacement would lack something of: ncnn reads the first LayerNormalization."""
    body = "a = Relu(x) b = LayerNormalization(a, s) c = LayerNormalization<axis = 0>(b, t) y = Relu(c)"
    source = model(body, 17, inputs="float[2,4] x, float[4] s, float[2,4] t", outputs="float[2,4] y")
    limit = Limit(frozenset({("", "LayerNormalization")}), attribute="axis", takes=(-1,))
    lacks = {("", "ReduceMean"): 1, ("", "Exp"): 13}  # other opsets are tried
    said = ['LayerNormalization "c": axis=0; supported: -1']
    assert refusals(source, opset=20, limits=(limit,), lacks=lacks) == said


def test_an_opset_that_is_too_old_for_another_operator_is_not_blamed():
    """At opset 12 the backend has no Sqrt, which says nothing about a model of opset 15."""
    source = model("a = Sqrt(x) b = Exp(a) y = Exp(b)", 15, inputs="float[N,4] x", outputs="float[N,4] y")
    facts = {"oldest": {("", "Sqrt"): 13}, "lacks": {("", "Exp"): 13}}
    assert [refusal.partition(":")[0] for refusal in refusals(source, **facts)] == ['Exp "b"', 'Exp "y"']


def test_what_it_reads_stays_as_it_is():
    source = model(NORM, 17, **NORM_IO)
    assert fitted(source, opset=20, ir_version=10).graph == source.graph


def test_everything_that_it_lacks_goes_at_the_models_own_opset():
    source = model(NORM, 17, **NORM_IO)
    after = fitted(source, opset=20, lacks={("", "LayerNormalization"): 1})
    assert opsets(after)[""] == 17
    assert "LayerNormalization" not in operators(after)
    check_values(source, after, rtol=1e-6, atol=1e-6)


def test_what_definitions_are_made_of_goes_too():
    source = model("y = HardSwish(x)", 18, inputs="float[2,4] x", outputs="float[2,4] y")
    assert "HardSigmoid" in operators(fitted(source, lacks={("", "HardSwish"): 1}))
    after = fitted(source, lacks={("", "HardSwish"): 1, ("", "HardSigmoid"): 1})
    assert not {"HardSwish", "HardSigmoid"} & operators(after)
    check_values(source, after, rtol=1e-6, atol=1e-6)


def test_a_newer_opset_comes_down():
    after = fitted(model("y = ReduceMax(x, a)", 18, **REDUCED), opset=13, ir_version=7)
    assert (opsets(after)[""], after.ir_version) == (13, 7)
    assert show(after) == "y = ReduceMax<axes=[1]>(x)"


def test_an_ir_version_below_the_one_of_the_opset_is_written():
    after = fitted(model("y = ReduceMax(x, a)", 18, **REDUCED), opset=19, ir_version=6)
    assert (opsets(after)[""], after.ir_version) == (18, 6)


@pytest.mark.parametrize(("own", "lacking", "reached"), [(13, 13, 12), (11, 13, 11), (18, 13, 12)])
def test_another_opset_is_tried_at_which_it_has_the_operator(own, lacking, reached):
    body = "y = ReduceSum(x, a)" if own >= 13 else "y = ReduceSum<axes = [1]>(x)"
    after = fitted(model(body, own, **REDUCED), opset=18, lacks={("", "ReduceSum"): lacking})
    assert (opsets(after)[""], operators(after)) == (reached, {"ReduceSum"})


def test_a_newer_opset_is_tried_that_has_another_operator():
    io = {"inputs": "float[1,1,2,2] x", "outputs": "float[1,1,4,4] y", "constants": "float[4] s = {1, 1, 2, 2}"}
    after = fitted(model('y = Upsample<mode = "nearest">(x, s)', 9, **io), opset=13, lacks={("", "Upsample"): 1})
    assert (opsets(after)[""], operators(after)) == (13, {"Resize"})


def test_an_opset_is_reached_without_what_is_lacked_there():
    source, lacks = model("y = HardSwish(x)", 18, inputs="float[2,4] x", outputs="float[2,4] y"), {("", "HardSwish"): 1}
    after = at(source, 20, lacks={**lacks, ("", "HardSigmoid"): 1})
    assert opsets(after)[""] == 20
    assert not {"HardSwish", "HardSigmoid"} & operators(after)
    check_values(source, after, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("own", "ops"), [(18, {"Swish"}), (24, {"Sigmoid", "Mul"})])
def test_what_is_lacked_and_not_called_changes_nothing(own, ops):
    """A function of the model's own may have its name."""
    source = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : {own}, "own" : 1]> g (float[2] x) => (float[2] y) {{ y = {"own." if own < 24 else ""}Swish(x) }}
        <domain: "own", opset_import: ["" : {own}]> Swish (x) => (y) {{ y = Neg(x) }}"""
    )
    assert operators(at(source, 24, lacks={("", "Swish"): 1})) == {*ops, "Neg"}
    plain = convert.attempt(source, {"": 24}).model
    assert (at(source, 24, lacks={("", "Gelu"): 1}).SerializeToString(), at(source, 24)) == (
        plain.SerializeToString(),
        plain,
    )


@pytest.mark.parametrize(
    ("body", "own", "reached"),
    [
        ("y = LpNormalization(x)", 17, (21, {"LpNormalization"})),
        ("y = LpNormalization(x)", 23, (21, {"LpNormalization"})),
        ("t = RMSNormalization(x, s) y = LpNormalization(t)", 23, (23, {"RMSNormalization", "ReduceL2", "Equal", "Div", "Where"})),
        ("y = If(c) <then_branch = a () => (float[2,4] t) { t = LpNormalization(x) }, else_branch = b () => (float[2,4] e) { e = Neg(x) }>", 17, (21, {"If", "LpNormalization", "Neg"})),
    ],
)  # fmt: skip
def test_what_takes_fewer_nodes_takes_the_place_of_what_is_lacked(body, own, reached):
    source = model(body, own, inputs="float[2,4] x, float[4] s, bool c", outputs="float[2,4] y")
    after = at(source, 23, lacks={("", "LpNormalization"): 22})
    assert (opsets(after)[""], operators(after)) == reached
    check_values(source, after, rtol=1e-6, atol=1e-6)


def test_what_is_refused_is_expanded_once():
    """HardSwish is, but not HardSigmoid, which comes in for it: then the call of the user's own is named."""
    limits = tuple(Limit(frozenset({("", op)}), ranks=frozenset({1})) for op in ("HardSwish", "HardSigmoid"))
    source = model("y = HardSwish(x)", 18, inputs="float[2,4] x", outputs="float[2,4] y")
    assert {text.partition(" ")[0] for text in refusals(source, opset=18, limits=limits)} == {"HardSwish"}
    assert "HardSigmoid" in operators(fitted(source, opset=18, limits=limits[:1]))


def test_the_attempt_that_was_taken_is_told():
    source = model("y = LpNormalization(x)", 17, inputs="float[2,4] x", outputs="float[2,4] y")
    made = fit.convert_to_opset(source, {"": 23}, Backend("npu-1", lacks={("", "LpNormalization"): 22}))
    assert made.attempt == "at opset 21"
    source = model("y = HardSwish(x)", 18, inputs="float[2,4] x", outputs="float[2,4] y")
    made = fit.convert_to_opset(source, {"": 20}, Backend("npu-1", lacks={("", "HardSwish"): 1}))
    assert made.attempt == "without HardSwish"
    source = model("y = ReduceSum(x, a)", 13, **REDUCED)
    made = fit.convert_for_backend(source, Backend("npu-1", opset=18, lacks={("", "ReduceSum"): 13}))
    assert made.attempt == "at opset 12"


def test_what_neither_goes_nor_is_read_below_is_refused_or_left_where_only_tests_say_so():
    source = model("y = MatMul(x, x)", 17, inputs="float[2,2] x", outputs="float[2,2] y")
    lacks = {("", "MatMul"): 1}
    refused = fit.convert_to_opset(source, {"": 22}, Backend("npu-1", lacks=lacks))
    assert [str(refusal).partition(" it, and ")[0] for refusal in refused.refusals] == [
        'MatMul "y": npu-1 does not support'
    ]
    assert operators(at(source, 22, lacks=lacks, measured={("", "Abs"): MeasuredCall()})) == {"MatMul"}


def seen(**said):
    return {"measured": {("", op): measurements.read(op, text) for op, text in said.items()}}


def test_what_was_seen_to_fail_for_its_types_is_expanded_or_left_and_never_brought_in():
    source = model("y = HardSwish(x)", 14, inputs="double[2,4] x", outputs="double[2,4] y")
    fails = seen(HardSwish="any; T: float, not double")
    assert "HardSwish" not in operators(at(source, 22, **fails))
    assert "HardSwish" in operators(at(source, 22, **seen(HardSwish="any; T: floats")))
    product = model("y = MatMul(x, x)", 13, inputs="int32[2,2] x", outputs="int32[2,2] y")
    assert operators(at(product, 22, **seen(MatMul="any; T: floats, not int32"))) == {"MatMul"}
    brought = at(source, 13, **seen(HardSigmoid="any; T: float, not double"))
    assert not {"HardSwish", "HardSigmoid"} & operators(brought)
    check_values(source, brought, rtol=1e-12, atol=1e-12)


def test_for_a_backend_what_fails_for_its_types_is_expanded_or_stays():
    source = model("y = HardSwish(x)", 14, inputs="double[2,4] x", outputs="double[2,4] y")
    backend = Backend("npu-1", opset=22, **seen(HardSwish="any; T: float, not double"))
    made = fit.convert_for_backend(source, backend)
    assert made.model is not None
    assert "HardSwish" not in operators(made.model)
    product = model("y = MatMul(x, x)", 13, inputs="int32[2,2] x", outputs="int32[2,2] y")
    backend = Backend("npu-1", opset=22, **seen(MatMul="any; T: floats, not int32"))
    stays = fit.convert_for_backend(product, backend)
    assert operators(stays.model) == {"MatMul"}
    limit = Limit(frozenset({("", "Transpose")}), attribute="perm", refuses=(1,))
    turned = model("y = Transpose<perm = [1, 0]>(x)", 13, inputs="float[2,4] x", outputs="float[4,2] y")
    backend = Backend("npu-1", opset=22, limits=(limit,), **seen(MatMul="2"))
    assert operators(fit.convert_for_backend(turned, backend).model) == {"Transpose"}
    io = {"inputs": "float[1,1,3,3,3] x, float[1,1,1,1,1] w", "outputs": "float[27] y"}
    cube = model("t = Conv(x, w) s = Constant<value_ints = [27]>() y = Reshape(t, s)", 18, **io)
    old = Backend("npu-1", opset=22, lacks={("", "Reshape"): 14}, **seen(Conv="3-4, not 5"))  # below, Reshape is blamed
    assert {"Conv", "Reshape"} <= operators(fit.convert_for_backend(cube, old).model)
    backend = Backend("npu-1", opset=22, limits=(limit,))  # which a document says
    assert [r.why for r in fit.convert_for_backend(turned, backend).refusals] == ["perm=[1, 0] is not supported"]
    backend = Backend("npu-1", opset=22, types=frozenset({"tensor(float)"}), **seen(MatMul="2"))
    assert operators(fit.convert_for_backend(product, backend).model) == {"MatMul"}
    backend = Backend("npu-1", opset=22, lacks={("", "MatMul"): 1}, **seen(Relu="2"))
    assert [r.why for r in fit.convert_for_backend(product, backend).refusals] != []


def test_an_opset_is_tried_below_which_an_attribute_is_of_no_concern():
    limit = Limit(frozenset({("", "Reshape")}), attribute="allowzero", refuses=(1,))
    source = model(
        "y = Reshape<allowzero = 1>(x, s)",
        18,
        inputs="float[2,2] x",
        outputs="float[4] y",
        constants="int64[1] s = {4}",
    )
    made = fit.convert_for_backend(source, Backend("npu-1", opset=22, limits=(limit,)))
    assert opsets(made.model)[""] == 13
    assert not made.model.graph.node[0].attribute


SAVED = {"inputs": "float[2,2] x", "outputs": "float[2,2] y", "domains": '"com.microsoft" : 1'}
GELU = ["Abs", "Add", "Div", "Erf", "Exp", "Mul", "Neg", "Constant", "Sqrt", "Tanh"]


def supported(*names):
    return {"supports": frozenset(("", name) for name in names)}


def vendors_at(source, **facts):
    backend = Backend("npu-1", **facts)
    return fit.convert_to_opset(source, {"": 20}, backend, ops=fit.find_vendor_operators(source, backend, None))


def test_what_takes_the_place_of_a_vendors_operator_is_nothing_that_is_lacked():
    source = model("y = com.microsoft.Gelu(x)", 20, **SAVED)
    kept = vendors_at(source, **supported("Gelu"))
    assert operators(kept.model) == {"Gelu"}
    made = vendors_at(source, **supported(*GELU))
    assert operators(made.model) <= set(GELU)
    check_values(source, made.model, rtol=1e-5, atol=1e-6)


def test_what_takes_its_place_and_can_neither_be_read_nor_replaced_is_refused_by_name():
    source = model("y = com.microsoft.FusedMatMul <alpha = 2.0>(x, x)", 20, **SAVED)
    refused = vendors_at(source, **supported("Mul", "Constant"))
    assert refused.model is None
    assert list(map(str, refused.refusals)) == [
        'com.microsoft::FusedMatMul "y": npu-1 does not support it, and its replacement needs MatMul: it is a basic operator: there is nothing simpler to replace it with'
    ]


def test_what_a_source_calls_itself_stays_where_a_list_does_not_have_it():
    source = model("a = Erf(x) y = com.microsoft.Gelu(a)", 20, **SAVED)
    assert operators(vendors_at(source, **supported("Gelu")).model) == {"Erf", "Gelu"}


def test_every_operator_without_a_definition_is_named_with_its_node():
    source = model("t = MatMul(x, x) u = MatMul(t, x) y = Erf(u)", 13, inputs="float[4,4] x", outputs="float[4,4] y")
    found = refusals(source, supports=frozenset({("", "Erf")}))
    assert [text.partition(":")[0] for text in found] == ['MatMul "t"', 'MatMul "u"']


def test_types_that_it_does_not_read_are_refused_by_name():
    source = model("y = Relu(x)", 14, inputs="double[4] x", outputs="double[4] y")
    assert refusals(source, types=frozenset({"tensor(float)"})) == [
        'value "x": tensor(double) is not supported',
        'value "y": tensor(double) is not supported',
    ]


def test_types_of_inputs_and_outputs_are_no_reason_to_refuse_an_operator():
    body = "t = ReduceSum(x, a) h = HardSwish(t) y = Cast<to = 8>(h) z = Cast<to = 8>(t)"
    source = model(
        body, 21, inputs="float[N,4] x", outputs="string[N,1] y, string[N,1] z", constants="int64[1] a = {1}"
    )
    facts = {"types": frozenset({"tensor(float)", "tensor(int64)"}), "oldest": {("", "ReduceSum"): 13}}
    read = fitted(source, opset=22, lacks={("", "HardSwish"): 1}, **facts, **seen(Relu="2"))
    assert "ReduceSum" in operators(read)
    assert "HardSwish" not in operators(read)


def test_computed_parameters_are_refused_where_constants_are_needed():
    limits = (Limit(frozenset({("", "Reshape")}), constant=("shape",)),)
    source = model("s = Shape(x) y = Reshape(x, s)", 13, inputs="float[N,4] x", outputs="float[N,4] y")
    assert refusals(source, limits=limits) == ['Reshape "y": input shape "s" is dynamic; supported: constants']


def test_an_operator_of_which_it_does_not_take_a_call_is_expanded():
    source = model("y = HardSigmoid<alpha = 0.5>(x)", 13, inputs="float[4] x", outputs="float[4] y")
    facts = {"limits": (Limit(frozenset({("", "HardSigmoid")}), attribute="alpha", takes=(0.2,)),)}
    after = fitted(source, **facts)
    assert "HardSigmoid" not in operators(after)
    check_values(source, after, rtol=1e-6, atol=1e-6)
    facts = {"limits": (Limit(frozenset({("", "HardSigmoid")}), attribute="alpha", takes=(0.5,)),)}
    assert fitted(source, **facts).graph == source.graph
    product = model("y = Gemm<alpha = 0.5>(x, x)", 13, inputs="float[4,4] x", outputs="float[4,4] y")
    assert fitted(product, limits=(Limit(frozenset({("", "Gemm")}), attribute="alpha", takes=(0.5,)),))


def test_open_dimensions_do_not_stand_in_the_way():
    source = model("y = Relu(x)", 13, inputs="float[N,4] x", outputs="float[N,4] y")
    assert fitted(source, static_shapes=True).graph == source.graph


LOCAL = (
    '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.F(x) }'
    '<domain: "my", opset_import: ["" : 17]> F (a) => (b) { b = Relu(a) }'
)


def test_functions_are_inlined_unless_it_reads_them():
    source = onnx.parser.parse_model(LOCAL)
    after = fitted(source, opset=17)
    assert (operators(after), len(after.functions)) == ({"Relu"}, 0)
    assert len(fitted(source, opset=17, functions=True).functions) == 1


def test_operators_of_other_domains_are_refused_where_the_supported_ones_are_listed():
    source = model("y = own.Zork(x)", 17, domains='"own" : 1', inputs="float[2] x", outputs="float[2] y")
    assert fitted(source).graph == source.graph
    assert fitted(source, supports=frozenset({("own", "Zork")})).graph == source.graph
    assert refusals(source, supports=frozenset({("", "Relu")})) == [
        'own::Zork "y": opshift has no definition of this operator, and the model has no function for it'
    ]


VENDOR = "a = com.microsoft.FastGelu(x) y = com.microsoft.Gelu(a)"
VENDOR_IO = {
    "inputs": "float[2] x",
    "outputs": "float[2] y",
    "domains": '"com.microsoft" : 1, "ai.onnx.ml" : 5, "custom" : 1',
}


def test_operators_of_vendors_go_unless_they_are_listed():
    source = model(VENDOR, 17, **VENDOR_IO)
    assert operators(fitted(source)).isdisjoint({"FastGelu", "Gelu"})
    fast = frozenset({("com.microsoft", "FastGelu")})
    after = fitted(source, vendors=fast)
    assert "FastGelu" in operators(after)
    assert "Erf" in operators(after)
    assert fitted(source, vendors=fast | {("com.microsoft", "Gelu")}).graph == source.graph
    unknown = refusals(model(VENDOR.replace("Fast", "New"), 17, **VENDOR_IO))
    assert (
        unknown[0]
        == 'com.microsoft::NewGelu "a": opshift has no definition of this operator, and the model has no function for it'
    )


def test_imports_that_nothing_uses_go_where_they_may_not_be_read():
    source = model(VENDOR, 21, **VENDOR_IO)
    assert imported(fitted(source)) == {"": 21, "ai.onnx.ml": 5}
    assert imported(fitted(source, ml_opset=3)) == {"": 21}
    held = frozenset({("com.microsoft", "FastGelu"), ("com.microsoft", "Gelu")})
    assert imported(fitted(source, ml_opset=5, vendors=held)) == {
        "": 21,
        "ai.onnx.ml": 5,
        "com.microsoft": 1,
    }


def imported(of):
    return {entry.domain: entry.version for entry in of.opset_import}
