"""A survey tells kinds of calls apart by everything but their names."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import NodeProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.model import call_signatures as survey
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import bodies

from tests import pairs
from tests.frozen import store
from tests.support import model


def kinds(*nodes: NodeProto) -> list[survey.CallSignature]:
    source = ModelProto()
    source.graph.node.extend(nodes)
    return survey.Survey(source).graph.signatures


def node(op: str, inputs: str = "x", outputs: str = "y", **others: object) -> NodeProto:
    return onnx.helper.make_node(op, inputs.split(","), outputs.split(","), **others)


@pytest.mark.parametrize("size", [1, 127, 128, 300, 20_000])
def test_names_of_any_length_make_no_difference(size: int) -> None:
    one, other = kinds(node("Add", "a,b", "c"), node("Add", f"{'é' * (size // 2)}x,b", "y" * size, name="n" * size))
    assert one is other
    assert (one.op, one.inputs, one.outputs, one.attributes, one.same) == ("Add", 2, 1, 0, True)


@pytest.mark.parametrize(
    "other",
    [
        node("Max", "a,b"),
        node("Sum", "a"),
        node("Sum", "a,b", "y,z"),
        node("Sum", "a,b", domain="my"),
        node("Sum", "a,b", axis=1),
        node("Sum", 'a"\x04Relu,b,'),
    ],
)
def test_anything_else_does(other: NodeProto) -> None:
    one, another = kinds(node("Sum", "a,b"), other)
    assert one is not another
    assert another.inputs == len(other.input)
    assert (another.domain, another.op) == (other.domain, other.op_type)


def test_calls_with_notes_or_large_attributes_are_told_apart_by_their_form() -> None:
    large = [node("Constant", value_ints=[i] * 500) for i in range(2)]
    noted = [node("Relu", doc_string=text) for text in ("one", "two")]
    found = kinds(*large, *noted, node("Relu"))
    assert [kind.same for kind in found] == [False, False, False, False, True]
    assert found[0] is found[1]
    assert found[2] is found[3] is not found[4]


def test_a_node_of_names_alone() -> None:
    (kind,) = kinds(NodeProto(input=["a"], output=["b", "c"]))
    assert (kind.op, kind.inputs, kind.outputs) == ("", 1, 2)


def test_nested_graphs_have_layouts_of_their_own() -> None:
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (bool c, float[2] x) => (float[2] y) {
            a = Relu(x)
            b = If (c) <
                then_branch = t () => (float[2] p) { p = If (c) <
                    then_branch = u () => (float[2] q) { q = Relu(a) }, else_branch = v () => (float[2] r) { r = Neg(a) }
                > },
                else_branch = e () => (float[2] s) { s = Neg(a) }
            >
            y = my.twice(b)
        }
        <domain: "my", opset_import: ["" : 13]>
        twice (v) => (w) { w = Relu(v) }
    """)
    found = survey.Survey(source)
    assert found.calls == {("", "If"): 2, ("", "Relu"): 3, ("", "Neg"): 2, ("my", "twice"): 1}
    assert found.depth == 2
    then_branch, else_branch = found.graph.inner[1]
    assert [kind.op for kind in then_branch.inner[0][0].signatures] == ["Relu"]
    assert else_branch.signatures == then_branch.inner[0][1].signatures
    assert found.functions[0].signatures[0] is found.graph.signatures[0]


def test_every_call_that_is_not_legal_is_named() -> None:
    """What is known of a kind spares looks only at calls that are legal."""
    body = " ".join(f"{name} = Transpose<{key}=[0]>(x)" for name, key in zip("abcd", ("perm", "prem") * 2, strict=True))
    source = model(body, 13, inputs="float[2] x", outputs=", ".join(f"float[2] {name}" for name in "abcd"))
    assert [refusal.node for refusal in convert.attempt(source, {"": 18}).refusals] == ["b", "d"]


@pytest.mark.parametrize(("opset", "target"), [(13, 18), (18, 13), (18, 11), (10, 18), (20, 17), (24, 7)])
def test_a_census_of_what_was_converted_walks_over_what_changed_alone(opset: int, target: int) -> None:
    compared = 0
    for case in pairs.some(store.read(opset), 2):
        result = convert.attempt(case.model, {"": target})
        if result.model is not None:
            counted = Counter((node.domain, node.op_type) for body in bodies(result.model) for node in body.node)
            assert result.after == counted, case.name
            compared += 1
    assert compared


def test_a_census_walks_over_no_body_that_stayed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model("t = Relu(x) y = Neg(t)", 13, inputs="float[2] x", outputs="float[2] y")
    read = survey.Survey(source)
    monkeypatch.delattr(survey, "census")
    assert read.census(source) == ([source.graph], {("", "Relu"): 1, ("", "Neg"): 1})


@pytest.mark.parametrize("name", ["y", "named", "inner", "u", "left over", "given", "w", "formal", "local", "stated"])
def test_names_of_a_survey_are_not_given_again(name: str) -> None:
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 13, "my" : 1]>
        g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
            y = If (c) <
                then_branch = t () => (float[2] p) <float[2] inner = {1, 2}> { u = Add(x, inner) p = my.f(u) },
                else_branch = e () => (float[2] q) { q = Add(w, given) }
            >
        }
        <domain: "my", opset_import: ["" : 13]>
        f (formal) => (r) { local = Relu(formal) r = Neg(local) }
    """)
    source.graph.node[0].name = "named"
    source.graph.input.add(name="given").type.CopyFrom(source.graph.input[1].type)
    source.graph.value_info.add(name="left over")
    source.graph.node[0].attribute[0].g.value_info.add(name="stated")
    read = survey.Survey(source, checked=True)
    assert Names(source, read).fresh(f"a/{name}") == f"a/{name}"
    assert Names(source, read).fresh(name) != name


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_how_deep_graphs_are_nested(depth: int) -> None:
    body = "y = Neg(x)"
    for k in range(depth):
        names = (body.replace("y =", f"{name}{k} =").replace("(y)", f"({name}{k})") for name in "tu")
        then, other = (
            f"g{name}{k} () => (float[2] {name}{k}) {{ {held} }}" for name, held in zip("tu", names, strict=True)
        )
        body = f"y = If(c) <then_branch = {then}, else_branch = {other}>"
    found = survey.Survey(model(body, 17, inputs="float[2] x, bool c", outputs="float[2] y"))
    assert found.depth == depth
    assert found.calls == {("", "Neg"): 2**depth, **({("", "If"): 2**depth - 1} if depth else {})}


@pytest.mark.parametrize(
    ("inner", "walked"),
    [
        ("q = Neg(x)", False),  # as in the branch beside it
        ("later = Neg(x) q = Neg(later)", False),  # what is made behind it
        ("y = Neg(x) q = Neg(y)", True),
        ("before = Neg(x) q = Neg(before)", True),
        ("x = Neg(before) q = Neg(x)", True),
    ],
)
def test_names_around_a_graph_are_looked_at_one_by_one_only_where_they_may_collide(
    monkeypatch: pytest.MonkeyPatch, inner: str, walked: bool
) -> None:
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 13]>
        g (bool c, float[2] x) => (float[2] y, float[2] later) {{
            before = Relu(x)
            y = If (c) <then_branch = t () => (float[2] q) {{ {inner} }}, else_branch = e () => (float[2] q) {{ q = Neg(before) }}>
            later = Neg(y)
        }}
    """)
    walks = list[onnx.ModelProto]()
    check = survey.validity.check_graph
    monkeypatch.setattr(survey.validity, "check_graph", lambda model: walks.append(model) or check(model))
    try:
        onnx.checker.check_model(source)
    except onnx.checker.ValidationError:
        with pytest.raises(InvalidModel, match="exists already"):
            survey.Survey(source, checked=True)
    else:
        assert survey.Survey(source, checked=True).checked
    assert bool(walks) is walked


def test_what_a_graph_takes_may_be_called_as_what_is_made_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13]>
        g (int64 n, float[2] x) => (float[2] y) {
            a = Relu(x) k = Relu(x) w = Relu(x)
            y = Loop(n, , a) <body = b (int64 i, bool k, float[2] a) => (bool k, float[2] r) <float[2] w = {1, 2}> { r = Add(a, w) }>
        }
    """)
    onnx.checker.check_model(source)
    monkeypatch.delattr(survey.validity, "check_graph")
    assert survey.Survey(source, checked=True).checked
