"""What a target does not take, and why."""

import onnx
import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.model import legality
from opshift.passes.model.schemas import MICROSOFT

from tests.support import model


def node(text):
    return onnx.parser.parse_node(text)


@pytest.mark.parametrize(
    ("text", "opset", "why"),
    [
        ("y = Relu(x)", 14, ""),
        ("y = Relu(x)", 1, ""),
        ("y = Gelu(x)", 19, "it is new in opset 20"),
        ("y = Nothing(x)", 19, "ONNX has no such operator"),
        ("y = there.Nothing(x)", 19, ""),
        ("y = Upsample(x, s)", 9, ""),
        ("y = Upsample(x, s)", 10, "it is deprecated since opset 10"),
        ("y = Relu(x, x)", 14, "2 inputs; supported: 1"),
        ("y = Add(x)", 14, "1 inputs; supported: 2"),
        ("y = Clip(x)", 14, ""),
        ("y, z = Relu(x)", 14, "2 outputs; supported: 1"),
        ("y = BatchNormalization(x, a, b, c, d)", 9, ""),
        ("y, e, f = BatchNormalization(x, a, b, c, d)", 9, "3 outputs; supported: 1 or 5"),
        ("y, e, f, g, h = BatchNormalization(x, a, b, c, d)", 9, ""),
        ("y, e, f = BatchNormalization(x, a, b, c, d)", 14, ""),
        ("y, e = BatchNormalization(x, a, b, c, d)", 14, "2 outputs; supported: 1 or 3"),
        ("y, e = BatchNormalization(x, a, b, c, d)", 10, "2 outputs; supported: 1 or 5"),
        ("y = Softmax<axis=1>(x)", 13, ""),
        ("y = Softmax<axis=1.0>(x)", 13, "attribute axis has the wrong type"),
        ("y = Softmax<axes=1>(x)", 13, "attribute axes does not exist"),
        ("y = Softmax<__axes=1>(x)", 13, ""),
        ("y = Softmax<axis=1, axis=2>(x)", 13, "an attribute is given twice"),
        ("y = Concat(x)", 13, "attribute axis is missing"),
        ("y = Cast<to=1>(x)", 13, ""),
        ("y = Cast<saturate=1>(x)", 19, "attribute to is missing"),
    ],
)
def test_why_a_call_is_not_legal(text, opset, why):
    given = node(text)
    judge = legality.LegalityJudge()
    for _ in range(2):
        assert judge.why_not(given, opset) == why
    assert judge.why_not(node("y = Relu(x)"), 14) == ""
    assert judge.why_not(node("y = Relu(x)"), 13) == ""


def test_a_type_that_an_attribute_leaves_out_is_that_of_its_value():
    given = node("y = Softmax<axis=1>(x)")
    given.attribute[0].ClearField("type")
    assert legality.LegalityJudge().why_not(given, 13) == ""
    given.attribute[0].ClearField("i")
    given.attribute[0].f = 1.0
    assert legality.LegalityJudge().why_not(given, 13) == "attribute axis has the wrong type"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("y = FastGelu(x)", ""),
        ("y = FastGelu(x, b, c)", "3 inputs; supported: 1 to 2"),
        ("y = FastGelu(none)", "input X is missing"),
        ("y = Gelu<approximate=1>(x)", "attribute approximate does not exist"),
        ("y = NoSuchOperator(x, b, c)", ""),
    ],
)
def test_why_a_call_of_a_vendors_operator_is_none(text, why):
    given = node(text)
    given.input[:] = [name if name != "none" else "" for name in given.input]
    for version in (0, 1):
        assert legality.misuse(given, MICROSOFT, version) == why


def problems(source):
    return [(p.node, p.op, p.domain, p.why, p.where) for p in legality.problems(source)]


def test_every_body_is_read_at_its_own_opset():
    source = model(
        "y = Gelu(x) z = own.F(y)", 19, inputs="float[2] x, bool c", outputs="float[2] z", domains='"own" : 1'
    )
    imports = [onnx.helper.make_opsetid("", 20)]
    function = onnx.helper.make_function(
        "own", "F", ["a"], ["b"], [node("b = Gelu(a)"), node("q = Gelu(a, a)")], imports
    )
    source.functions.append(function)
    inner = onnx.parser.parse_graph("g () => (float[2] v) { u = ai.onnx.Swish(x) v = Relu(u) }")
    source.graph.node.append(onnx.helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner, name="if"))
    assert sorted(problems(source)) == sorted(
        [
            ("y", "Gelu", "", "not legal at opset 19: it is new in opset 20", ""),
            ("q", "Gelu", "", "not legal at opset 20: 2 inputs; supported: 1", "function F"),
            *[("u", "Swish", "", "not legal at opset 19: it is new in opset 24", "")] * 2,
        ]
    )


@pytest.mark.parametrize(("opset", "first"), [(8, 13), (12, 13), (13, None)])
def test_initializers_of_a_type_that_does_not_exist(opset, first):
    source = model("y = Relu(x)", opset, inputs="float[1] x", outputs="float[1] y", constants="bfloat16[1] w = {1}")
    found = list(legality.unknown_initializers(source))
    whys = [(p.node, p.op, p.since, p.why) for p in found]
    assert whys == ([("w", "value", first, f"tensor(bfloat16) does not exist at opset {opset}")] if first else [])
    assert problems(source) == [("w", "value", "", p[3], "") for p in whys]


def test_graph_inputs_of_a_type_that_does_not_exist():
    source = model("y = Relu(x)", 12, inputs="float[1] x, bfloat16[1] a", outputs="float[1] y, float8e5m2[1] z")
    found = [(p.node, p.op, p.since, p.why) for p in legality.missing_types(source, 12)]
    assert found == [
        ("a", "value", 13, "tensor(bfloat16) does not exist at opset 12"),
        ("z", "value", 19, "tensor(float8e5m2) does not exist at opset 12"),
    ]
    assert len(list(legality.missing_types(source, 13))) == 1
    assert not list(legality.missing_types(source, 19))
    source.graph.input[1].type.tensor_type.elem_type = 99
    [found] = legality.missing_types(source, 19)
    assert (found.since, found.why) == (0, "99 does not exist at opset 19")


@pytest.mark.parametrize(
    ("kind", "since"),
    [("seq(tensor(float))", 11), ("optional(tensor(float))", 15), ("optional(seq(tensor(float)))", 15)],
)
def test_values_that_hold_tensors_exist_from_an_opset_on(kind, since):
    tensor = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    held = onnx.helper.make_sequence_type_proto(tensor) if "seq" in kind else tensor
    source = model("y = Identity(x)", 17, inputs="float[1] x", outputs="float[1] y")
    for name in "xy":
        held_by = source.graph.input[0] if name == "x" else source.graph.output[0]
        held_by.type.CopyFrom(onnx.helper.make_optional_type_proto(held) if "optional" in kind else held)
    assert not list(legality.missing_types(source, since))
    found = [(p.node, p.op, p.domain, p.since, p.up, p.why) for p in legality.missing_types(source, since - 1)]
    assert sorted(found) == [
        (name, "value", "", since, False, f"it is {role} of the model and {kind}, which is new in opset {since}")
        for name, role in (("x", "an input"), ("y", "an output"))
    ]
    source.graph.node[0].domain = "there"
    assert not list(legality.missing_types(source, since - 1))


def test_readers_of_what_is_not_made_any_more():
    source = model("a = Relu(x) b = Abs(a)", 17, inputs="float[1] x", outputs="float[1] b, float[1] a")
    source.graph.node[1].name = "abs"
    imports = [onnx.helper.make_opsetid("", 17)]
    source.functions.append(onnx.helper.make_function("own", "F", ["q"], ["a"], [node("a = Relu(q)")], imports))
    assert not list(legality.readers(source, set()))
    missing = "a sequence or an optional, which the opset asked for does not have"
    found = [(p.node, p.op, p.why) for p in legality.readers(source, {"a"})]
    assert found == [("abs", "Abs", f"the node reads {missing}"), *[("a", "value", f"this value is {missing}")] * 2]
    assert [p.node for p in legality.readers(source, {"x"})] == ["a"]


def test_what_was_to_be_expanded_and_is_left():
    source = model("a = Relu(x) b = Abs(a)", 17, inputs="float[1] x", outputs="float[1] b")
    source.graph.node[1].name = "abs"
    assert not list(legality.find_unexpanded(source, {("", "Neg"), ("there", "Relu")}))
    found = [(p.node, p.op, p.domain, p.why) for p in legality.find_unexpanded(source, {("", "Relu"), ("", "Abs")})]
    why = (
        "the operator was to be replaced, but the converted model still has it (an error of opshift; please report it)"
    )
    assert found == [("a", "Relu", "", why), ("abs", "Abs", "", why)]


def test_the_refusal_of_a_call_names_it():
    found = legality.illegal(node("y = ai.onnx.Relu(x)"), 7, "so", "there")
    assert (found.node, found.op, found.domain, found.why) == ("y", "Relu", "", "not legal at opset 7: so")
    assert found.where == "there"
    assert (found.since, found.up) == (0, True)
    assert legality.illegal(onnx.NodeProto(op_type="Relu"), 7, "", "").node == ""
