"""Copies go where a backend lacks the operators that copy."""

import numpy as np
import onnx
import pytest
from opshift.passes.backends.door import find
from opshift.passes.changes import Allowance
from opshift.passes.goals import Goal
from opshift.passes.stages.drop_copies import DropCopies
from opshift.passes.stages.stage import Facts

from tests.support import check_outputs, evaluate, model

IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
FEEDS = {"x": np.array([[1, -2, 3]], np.float32)}


def dropped(source, ops=("Identity", "Dropout")):
    kept = source.SerializeToString()
    result = DropCopies(ops).apply(source, Facts(), Allowance())
    assert source.SerializeToString() == kept
    onnx.checker.check_model(result.model, full_check=True)
    return result


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Identity(x) y = Relu(a)", ["Relu"]),
        ("a = Relu(x) y = Identity(a)", ["Relu"]),
        ("a = Identity(x) b = Identity(a) c = Relu(b) d = Identity(c) y = Identity(d)", ["Relu"]),
        ("a = Relu(x) b = Identity(a) c = Neg(a) y = Add(b, c)", ["Relu", "Neg", "Add"]),
        ("y = Identity(x)", ["Identity"]),  # an input that is an output needs a node
        ("a = Relu(x) y = Dropout(a)", ["Relu"]),
        ("a, b = Split<axis=1>(x) y = Identity(b)", ["Split"]),
        ("c = Constant<value = bool {1}>() a = If(c) <then_branch = g() => (float[N,3] t) { t = Identity(x) }, "
         "else_branch = h() => (float[N,3] e) { i = Identity(x) j = Neg(i) e = Identity(j) }> y = Identity(a)",
         ["Constant", "If"]),
    ],
)  # fmt: skip
def test_readers_read_what_was_copied(body, left):
    io = {"inputs": "float[N,4] x", "outputs": "float[N,2] y"} if "Split" in body else IO
    source = model(body, 11, **io)
    result = dropped(source)
    assert [node.op_type for node in result.model.graph.node] == left
    assert [value.name for value in result.model.graph.output] == ["y"]
    feeds = {"x": np.array([[1, -2, 3, 4]], np.float32)} if "Split" in body else FEEDS
    check_outputs(evaluate(source, feeds), evaluate(result.model, feeds), rtol=0, atol=0)
    assert len(result.changes) == body.count("Identity") + body.count("Dropout") - [*left, "Identity"].count(
        "Identity"
    ) + 1 - ("If" in left)


def test_two_outputs_of_one_value_need_one_copy():
    source = model("a = Relu(x) y = Identity(a) z = Identity(a)", 17, inputs="float[N,3] x", outputs="float[N,3] y, float[N,3] z")  # fmt: skip
    result = dropped(source)
    assert [(node.op_type, *node.input, *node.output) for node in result.model.graph.node] == [("Relu", "x", "y"), ("Identity", "y", "z")]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "opset", "constants"),
    [
        ("a = Relu(x) y = Dropout(a, r, t)", 13, "float r = {0.5}, bool t = {1}"),
        ("a = Relu(x) y, z = Dropout(a)", 13, ""),
        ("a = Relu(x) y = Dropout(a)", 6, ""),
        ("a = Relu(x) y = my.Identity(a)", 13, ""),
    ],
)
def test_what_does_more_stays(body, opset, constants):
    source = model(body, opset, constants=constants, domains='"my" : 1', **IO)
    assert DropCopies(("Identity", "Dropout")).apply(source, Facts(), Allowance()).model is source


def test_dropout_that_says_so_goes():
    says = model("a = Relu(x) y = Dropout(a, r, t)", 13, constants="float r = {0.5}, bool t = {0}", **IO)
    tests = model("a = Relu(x) y = Dropout<is_test = 1>(a)", 6, **IO)
    for source in (says, tests):
        assert [node.op_type for node in dropped(source).model.graph.node] == ["Relu"]
    assert [node.op_type for node in dropped(says, ("Identity",)).model.graph.node] == ["Relu", "Dropout"]


def test_functions_have_copies_too():
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.Twice(x) }'
        '<domain: "my", opset_import: ["" : 17]> Twice (a) => (b) { c = Identity(a) d = Add(c, c) b = Identity(d) }'
    )
    result = DropCopies(("Identity",)).apply(source, Facts(), Allowance())
    assert [(node.op_type, *node.input, *node.output) for node in result.model.functions[0].node] == [("Add", "a", "a", "b")]  # fmt: skip


def test_it_stands_in_the_list_for_backends_that_lack_them():
    names = {name: [stage.name for stage in Goal(backend=find(name)).stages()] for name in ("qnn-2.22", "mnn-3.6")}
    assert "drop Identity and Dropout" in names["qnn-2.22"]
    assert not any(name.startswith("drop") for name in names["mnn-3.6"])
