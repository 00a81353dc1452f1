"""The engine: whole models, subgraphs, functions, versions, and how it says no."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.conversion.attempts import Copies, plan_attempt
from opshift.passes.errors import InvalidModel, Refusal, Refused
from opshift.passes.records import replace
from opshift.passes.rewrite import registry

from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
SUM_AT_13 = "y = ReduceSum(x, a)"


def converted(source, target, **options):
    result = convert.attempt(source, {"": target}, **options)
    assert not result.refusals, "\n".join(map(str, result.refusals))
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def test_nothing_to_do_changes_nothing_but_the_versions():
    source = model("y = Sin(x)", 13, inputs="float[2] x", outputs="float[2] y")
    result = convert.attempt(source, {"": 12})
    assert result.changes == ()
    assert result.grade == "exact"
    assert [i.version for i in result.model.opset_import] == [12]
    assert result.model.graph == source.graph


def test_the_source_opset_is_a_target_like_any_other():
    source = model("y = ReduceSum(x, a)", 13, constants="int64[1] a = {1}", **ROWS)
    assert converted(source, 13).graph == source.graph


# --- where nodes stand ---------------------------------------------------------------------------------------


def nested(depth, body, opset, extra=""):
    """`body`, which makes `inner` from x, inside `depth` Ifs."""
    for level in range(depth):
        body = (
            f"r{level} = If (c) <then_branch = g{level} () => (float[N,1] o{level}) {{ {body} o{level} = Identity(inner{level}) }}, "
            f"else_branch = h{level} () => (float[N,1] p{level}) {{ p{level} = Identity(z) }}>\n"
            + (f"inner{level + 1} = Identity(r{level})" if level + 1 < depth else f"y = Identity(r{level})")
        )
    imports = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(
        f"{imports} g (float[N,3] x, bool c, float[N,1] z) => (float[N,1] y) <{extra}> {{ {body} }}"
    )


@pytest.mark.parametrize("depth", [1, 3])
def test_a_node_in_a_subgraph_finds_a_constant_of_an_outer_graph(depth):
    source = nested(depth, "inner0 = ReduceSum(x, a)", 13, "int64[1] a = {1}")
    below = converted(source, 12)
    assert "ReduceSum<axes=[1]>(x)" in show(below)
    assert not below.graph.initializer, "the axes are an attribute now and nothing else used them"
    for condition in (True, False):
        feeds = {"c": np.array(condition), "z": np.zeros((3, 1), np.float32)}
        check_values(source, below, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_node_in_a_subgraph_gets_its_own_constant(depth):
    source = nested(depth, "inner0 = ReduceSum<axes=[1]>(x)", 12)
    above = converted(source, 13)
    assert "ReduceSum(x, [1])" in show(above)
    names = list(all_outputs(above.graph))
    assert len(names) == len(set(names)), "single assignment, across all graphs"
    check_values(source, above, {"c": np.array(True)}, rtol=0, atol=0)


def all_outputs(graph):
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_outputs(attribute.g)
                yield from (t.name for t in attribute.g.initializer)


FUNCTION = """
<ir_version: {ir}, opset_import: ["" : {opset}, "local" : 1]>
g (float[N,3] x{inputs}) => (float[N,1] y) {{ y = local.f{call} }}
<domain: "local", opset_import: ["" : {inner}]>
f {attributes}(data{formals}) => (out) {{ {body} }}
"""


def with_function(body, opset, *, inner=None, call="(x)", attributes="", inputs="", formals="", ir=8):
    return onnx.parser.parse_model(
        FUNCTION.format(
            body=body, opset=opset, inner=inner or opset, call=call, attributes=attributes, inputs=inputs,
            formals=formals, ir=ir,
        )
    )  # fmt: skip


def test_a_function_is_converted_where_it_stands():
    source = with_function("out = ReduceL1<axes=[1]>(data)", 17)
    above = converted(source, 18)
    assert [n.op_type for n in above.graph.node] == ["f"]
    assert [n.op_type for n in above.functions[0].node] == ["Constant", "ReduceL1"]
    assert [i.version for i in above.functions[0].opset_import] == [18]
    check_values(source, above, rtol=0, atol=0)


def test_a_function_of_another_opset_than_the_model():
    source = with_function("out = ReduceL1<axes=[1]>(data)", 18, inner=17)
    above = converted(source, 18)
    assert [i.version for i in above.functions[0].opset_import] == [18]
    assert [n.op_type for n in above.functions[0].node] == ["Constant", "ReduceL1"]


def test_axes_bound_by_reference_become_a_constant_bound_by_reference():
    source = with_function("out = ReduceL1<axes: ints = @dims>(data)", 17, call="<dims=[1]>(x)", attributes="<dims>")
    above = converted(source, 18)
    assert [n.op_type for n in above.functions[0].node] == ["Constant", "ReduceL1"]
    assert above.functions[0].node[0].attribute[0].ref_attr_name == "dims"
    check_values(source, above, rtol=0, atol=0)


def test_a_function_that_only_its_caller_can_judge_is_inlined():
    source = with_function(
        "out = ReduceMax(data, dims)", 18, call="(x, axes)", formals=", dims", inputs=", int64[1] axes"
    )
    below = converted(source, 17)
    assert not below.functions
    assert {n.op_type for n in below.graph.node} >= {"If"}, "the rank is known only at the call"
    check_values(source, below, {"axes": np.array([1])}, rtol=0, atol=0)


def test_functions_are_inlined_below_ir_8():
    source = with_function("t = ReduceL1<axes=[1]>(data) out = ReduceL1<axes=[1]>(t)", 17)
    below = converted(source, 13)
    assert below.ir_version == 7
    assert not below.functions
    assert [i.domain for i in below.opset_import] == [""]
    check_values(source, below, rtol=0, atol=0)


def test_a_function_can_be_inlined_by_name():
    source = with_function("out = ReduceL1<axes=[1]>(data)", 17)
    result = convert.attempt(source, {"": 17}, ops=[("local", "f")])
    assert [n.op_type for n in result.model.graph.node] == ["ReduceL1"]
    assert result.changes[0].how == "Inlined a model-local function"


def test_recursive_functions_are_no_model():
    source = with_function("out = local.f(data)", 17)
    source.functions[0].opset_import.add(domain="local", version=1)
    with pytest.raises(InvalidModel, match="calls itself"):
        convert.attempt(source, {"": 18})


# --- how it says no ------------------------------------------------------------------------------------------


def test_every_refusal_is_collected_with_node_boundary_and_reason():
    body = "t = ReduceMax(x, a) u = ReduceMin(x, a) y = Add(t, u)"
    source = model(body, 18, inputs="float x, int64[1] a", outputs="float y")
    del source.graph.input[0].type.tensor_type.shape.dim[:]
    source.graph.input[0].type.tensor_type.ClearField("shape")
    source.graph.node[0].name = "first"
    kept = source.SerializeToString()
    with pytest.raises(Refused) as refused:
        convert.convert(source, {"": 13})
    assert [r.op for r in refused.value.refusals] == ["ReduceMax", "ReduceMin"]
    assert str(refused.value.refusals[0]) == (
        'ReduceMax "first" (opset 18 -> 17): the rank of "x" is unknown; try --fix-shape, or a value_info that declares it'
    )
    assert (refused.value.target, refused.value.nearest) == (13, 18)
    assert str(refused.value).startswith("the model cannot be converted to opset 13:")
    assert source.SerializeToString() == kept


def test_an_operator_that_does_not_exist_yet_is_refused_by_name():
    source = model("y = StringConcat(x, x)", 20, inputs="string[2] x", outputs="string[2] y")
    with pytest.raises(
        Refused, match=r"StringConcat.*opset 20 -> 19.*no operator below opset 20 joins strings"
    ) as refused:
        convert.convert(source, {"": 13})
    assert refused.value.nearest == 20


def test_an_operator_that_onnx_does_not_define_is_refused():
    check_refused("y = Nonsense(x)", 13, 14, "no operator of this name", inputs="float[2] x", outputs="float[2] y")


@pytest.mark.parametrize("target", [12, 13, 14, 15, 18])
def test_an_operator_that_the_source_opset_does_not_have_is_refused(target):
    io = {"inputs": "float[2] x, int32[2] z", "outputs": "int32[2] y"}
    check_refused("y = CastLike(x, z)", 13, target, "but the model imports opset 13", **io)


def test_an_experimental_operator_that_became_official_stays():
    io = {"inputs": "float[2] x", "outputs": "float[2] y"}
    check_unchanged("y = ThresholdedRelu<alpha=0.5>(x)", 7, 10, **io)
    check_unchanged("y = ThresholdedRelu<alpha=0.5>(x)", 7, 22, **io)
    check("y = ThresholdedRelu<alpha=0.5>(x)", 7, "t1 = Greater(x, 0.5)\ny = Where(t1, x, 0.0)", 9, **io)


def test_a_step_may_return_one_value_for_two_outputs(monkeypatch):
    def twice(node):
        """Two outputs become one value."""
        value = node.build.Neg(node.input(0))
        return [value, value]

    pair = registry.Pair(down=twice)
    found = registry.step
    monkeypatch.setattr(registry, "step", lambda d, op, v: pair if (op, v) == ("TopK", 11) else found(d, op, v))
    source = model(
        "y, z = TopK(x, k)", 11, constants="int64[1] k = {1}", inputs="float[3] x", outputs="float[1] y, int64[1] z"
    )
    assert show(convert.attempt(source, {"": 10}).model) == "y = Neg(x)\nz = Identity(y)"


def test_an_illegal_attribute_is_refused_not_passed_on():
    check_refused(
        "y = Relu<stale=1>(x)",
        13,
        14,
        "attribute stale does not exist",
        inputs="float[2] x",
        outputs="float[2] y",
    )


def test_a_type_that_the_target_does_not_know_is_refused():
    check_refused("y = Identity(x)", 13, 12, "tensor(bfloat16)", inputs="bfloat16[2] x", outputs="bfloat16[2] y")


@pytest.mark.parametrize(
    ("body", "inputs", "outputs", "target", "why"),
    [
        ("n = SequenceLength(s)", "seq(float) s", "int64 n", 10, "an input of the model and seq(tensor(float))"),
        ("s = SequenceConstruct(x)", "float x", "seq(float) s", 10, "an output of the model and seq(tensor(float))"),
        ("h = OptionalHasElement(o)", "optional(float) o", "bool h", 14, "optional(tensor(float)), which is new in"),
    ],
)
def test_a_sequence_or_an_optional_cannot_come_or_go_before_there_were_any(body, inputs, outputs, target, why):
    check_refused(body, target + 1, target, why, inputs=inputs, outputs=outputs)


def test_a_sequence_that_only_a_custom_operator_knows_may_pass():
    io = {"inputs": "float[2] x", "outputs": "seq(float) s, float[2] y", "domains": '"my" : 1'}
    check_unchanged("s = my.Pieces(x) y = Relu(x)", 11, 10, **io)


def test_an_undecided_transition_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "step", lambda *_: None)
    check_refused("y = ReduceMax<axes=[1]>(x)", 17, 18, "cannot convert this version", **ROWS)


def test_axes_computed_from_constants_are_constant():
    body = "b = Unsqueeze(k, zero) c = Concat<axis=0>(b) y = ReduceMax(x, c)"
    source = model(body, 18, constants="int64 k = {1}, int64[1] zero = {0}", **ROWS)
    below = converted(source, 17)
    assert show(below) == "y = ReduceMax<axes=[1]>(x)", "and what only the axes needed is gone"
    np.testing.assert_array_equal(evaluate(below, {"x": np.eye(3, dtype=np.float32)})[0], np.ones((3, 1)))


@pytest.mark.parametrize(
    ("node", "opset", "target"), [("Range(x, l, d)", 27, 26), ("Range(x, l, d)", 13, 10), ("Clip(d)", 13, 10)]
)
def test_an_input_that_a_call_leaves_out_and_an_operator_needs_is_refused(node, opset, target):
    source = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]> g (float x) => (float y) {{ z, y = f.F(x) }}
        <domain: "f", opset_import: ["" : {opset}]> F (x, l, d) => (z, y) {{ z = {node} y = Abs(x) }}"""
    )
    (refusal,) = convert.attempt(source, {"": target}).refusals
    assert "is missing" in refusal.why


def test_overloads_are_inlined_each_by_its_own_body():
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18, "my" : 1]> g (float[2] x) => (float[2] y) { a = my.F(x) b = my.F(a) y = my.F(b) }
        <opset_import: ["" : 18], domain: "my"> F (x) => (y) { y = Neg(x) }
        <opset_import: ["" : 18], domain: "my"> F (x) => (y) { y = Abs(x) }
        <opset_import: ["" : 18], domain: "my"> F (x) => (y) { y = Relu(x) }""")
    for index, overload in enumerate(("", "second", "third")):
        source.functions[index].overload = source.graph.node[index].overload = overload
    survey = convert.Survey(source)
    model_ = ModelProto.FromString(source.SerializeToString())
    taken = convert._take_out_functions(model_, source, survey, {("my", "F")})
    assert [function.overload for function in taken["my", "F"]] == ["", "second", "third"]
    assert (len(model_.functions), len(survey.functions)) == (0, 0)
    made = convert.attempt(source, {"": 18}, ops=[("my", "F")]).model
    assert [node.op_type for node in made.graph.node] == ["Neg", "Abs", "Relu"]


TRAINED = [
    ("Relu", 14, 18, (), None), ("Relu", 14, 13, (), ("t", "Relu")), ("Relu", 14, 18, [("", "Relu")], ("t", "Relu")), ("Softmax", 12, 13, (), ("t", "Softmax")), ("Thing", 14, 18, (), None),
]  # fmt: skip


@pytest.mark.parametrize(("op", "opset", "target", "ops", "refused"), TRAINED)
def test_graphs_of_training_stay_or_are_refused(op, opset, target, ops, refused):
    source = model("y = Neg(x)", opset, inputs="float[2] x", outputs="float[2] y", domains='"my" : 1')
    source.training_info.add().algorithm.node.add(
        op_type=op, domain="my" if op == "Thing" else "", input=["x"], output=["t"]
    )
    found = [(r.node, r.op) for r in convert._refuse_training_graphs(source, {"": target}, set(ops))]
    assert found == ([refused] if refused else [])
    for refusal in convert._refuse_training_graphs(source, {"": target}, set(ops)):
        assert (refusal.why, refusal.since, refusal.up) == (
            "opshift does not convert training information (training_info); remove it from the model",
            0,
            True,
        )


@pytest.mark.parametrize(("opset", "target", "reached"), [(20, 7, 20), (24, 7, 20), (20, 20, 20)])
def test_the_nearest_opset_that_a_model_reaches(opset, target, reached):
    source = model("y = ImageDecoder(x)", opset, inputs="uint8[2] x", outputs="uint8[A,B,C] y")
    refusals = convert.attempt(source, {"": target}).refusals
    assert convert.find_nearest_opset(source, refusals, {"": target}) == reached
    assert convert.find_nearest_opset(source, refusals, {"my": 1}) == opset


def test_how_near_a_model_gets_is_found_with_its_files(monkeypatch):
    source = model("y = ImageDecoder(x)", 24, inputs="uint8[2] x", outputs="uint8[A,B,C] y")
    refusals = convert.attempt(source, {"": 7}).refusals
    attempts, convert_once = [], convert.convert_once
    monkeypatch.setattr(convert, "convert_once", lambda attempt: attempts.append(attempt) or convert_once(attempt))
    assert convert.find_nearest_opset(source, refusals, {"": 7}, "files") == 20
    assert [(attempt.targets, attempt.folder) for attempt in attempts] == [({"": 20}, "files")]


def test_copies_of_functions_are_told_by_the_names_that_the_user_wrote():
    source = model("y = my.F(x)", 18, inputs="float[2] x", outputs="float[2] y", domains='"my" : 1')
    attempt = replace(plan_attempt(source, {"": 17}), copies=Copies(source, (), {("my", "F_1"): "F"}))
    made = convert.Change("n", "F_1", "my", 1, 1, "how")
    kept = made._replace(op="G")
    refused = Refusal("n", "F_1", "my", 7, True, "why", "function my::F_1")
    other = Refusal("m", "Add", "", 7, True, "why", "function my::H")
    told = convert._tell_by_user_names(attempt, convert.Result(None, (made, kept), (refused, other, refused)))
    assert told.changes == (made._replace(op="F"), kept)
    assert told.refusals == (replace(refused, op="F", where="function my::F"), other), "each once"
    assert not told.before
    told = convert._tell_by_user_names(attempt, convert.Result(source, (), (), {("my", "F_1"): 1}))
    assert told.before == {("my", "F"): 1}


@pytest.mark.parametrize(
    ("nodes", "value_info", "fix"),
    [
        ("c = com.acme.Foo(x) d = Relu(c) y = CenterCropPad(d, a)", "", 'a value_info that declares "c" (made by com.acme::Foo)'),
        ("d = com.acme.Foo(x) y = CenterCropPad(d, a)", "", "a value_info that declares it (made by com.acme::Foo)"),
        ("c = Reshape(x, a) d = Relu(c) y = CenterCropPad(d, a)", "", '--fix-shape, or a value_info that declares "c"'),
        ("c = com.acme.Foo(x) d = Relu(c) y = CenterCropPad(d, a)", "<float[2,3] c>", ""),
    ],
)  # fmt: skip
def test_a_refusal_for_an_unknown_rank_names_the_value_that_has_to_be_declared(nodes, value_info, fix):
    head = '<ir_version: 8, opset_import: ["" : 18, "com.acme" : 1]>'
    source = onnx.parser.parse_model(f"{head} g (float[2,3] x, int64[K] a) => (float[M] y) {value_info} {{ {nodes} }}")
    refusals = convert.attempt(source, {"": 17}).refusals
    assert [refusal.fix for refusal in refusals] == ([fix] if fix else [])
