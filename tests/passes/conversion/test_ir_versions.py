"""Which IR version a model needs, and what older ones ask for."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.conversion import ir_versions
from opshift.passes.model.traversal import bodies

from tests.support import evaluate, model

IO = {"inputs": "float[2] x, bool c", "outputs": "float[2] y"}


def held(body="y = Relu(x)", opset=13, ir=8, **io):
    made = model(body, opset, **{**IO, **io})
    made.ir_version = ir
    return made


@pytest.mark.parametrize(
    ("opset", "domains", "targets", "asked", "wanted"),
    [
        (7, "", {"": 7}, None, 3), (9, "", {"": 9}, None, 4), (13, "", {"": 13}, None, 7), (13, "", {"": 21}, None, 10), (21, "", {"": 9}, None, 4), (13, "", {"": 21}, 5, 5),
        (13, '"own" : 1', {"": 13}, None, 7), (7, '"ai.onnx.ml" : 5', {"": 7}, None, 3), (7, '"ai.onnx.ml" : 5', {"ai.onnx.ml": 5}, None, 10),
        (7, '"ai.onnx.ml" : 5', {"ai.onnx.ml": 1}, None, 3),
    ],
)  # fmt: skip
def test_it_follows_from_opsets(opset, domains, targets, asked, wanted):
    assert ir_versions.choose_ir_version(held(opset=opset, domains=domains), targets, asked) == wanted


def test_it_follows_from_domains_whose_operators_are_called():
    source = held("a = ai.onnx.ml.Scaler(x) y = Relu(a)", 7, domains='"ai.onnx.ml" : 5')
    assert ir_versions.choose_ir_version(source, {"": 7}, None) == 10
    del source.opset_import[:]
    assert ir_versions.choose_ir_version(held("", 7), {"own": 3}, None) == 3
    assert ir_versions.choose_ir_version(source, {"own": 3}, None) == 3


def told(made, asked=None):
    refused = ir_versions.write_ir_version(made, {"": 7}, asked, list(bodies(made)))
    return [refusal.why for refusal in refused]


def tensor(kind):
    return TensorProto(name="w", data_type=kind, dims=[1], raw_data=bytes(8))


def _typed(kind):
    return onnx.helper.make_tensor_type_proto(kind, [1])


def _stating(kind):
    return lambda m: m.graph.value_info.add(name="v").type.CopyFrom(kind)


def _function(m, default="", overload=""):
    made = onnx.helper.make_function("own", "F", ["a"], ["b"], [onnx.parser.parse_node("b = Relu(a)")], [])
    if default:
        made.attribute_proto.add(name=default)
    if overload:
        made.overload = overload
    m.functions.append(made)


NEEDS = [
    (lambda m: m.training_info.add(), 7, "training_info"),
    (_function, 8, "a model-local function"),
    (lambda m: _function(m, default="k"), 9, "a default attribute of function F"),
    (lambda m: _function(m, overload="o"), 10, "an overload of function F"),
    (lambda m: m.graph.sparse_initializer.add(), 6, "a sparse initializer"),
    (lambda m: m.graph.initializer.append(tensor(TensorProto.BFLOAT16)), 4, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(17)), 9, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(22)), 10, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(23)), 11, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(24)), 12, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(25)), 13, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(27)), 14, 'the type of initializer "w"'),
    (lambda m: m.graph.initializer.append(tensor(99)), 3, ""),
    (_stating(_typed(21)), 10, 'the type of "v"'),
    (_stating(_typed(1)), 3, ""),
    (_stating(onnx.helper.make_sequence_type_proto(_typed(21))), 10, 'the type of "v"'),
    (_stating(onnx.helper.make_sequence_type_proto(_typed(1))), 3, ""),
    (_stating(onnx.helper.make_optional_type_proto(_typed(1))), 8, 'the type of "v"'),
    (_stating(onnx.helper.make_sparse_tensor_type_proto(1, [1])), 8, 'the type of "v"'),
    (lambda m: m.graph.input.add(name="v").type.CopyFrom(_typed(25)), 13, 'the type of "v"'),
    (lambda m: m.graph.output.add(name="v").type.CopyFrom(_typed(25)), 13, 'the type of "v"'),
]


@pytest.mark.parametrize(("change", "ir", "reason"), NEEDS)
def test_it_is_raised_to_what_is_needed_and_refused_below(change, ir, reason):
    made = held(opset=7)
    change(made)
    if not reason:
        assert (told(made), made.ir_version) == ([], 3)
        return
    found = [why for why in told(made, ir - 1) if why.startswith(reason)]
    assert (found, made.ir_version) == ([f"{reason} needs IR version {ir}, but --ir-version asks for {ir - 1}"], 8)
    assert (told(made), made.ir_version) == ([], ir)
    assert (told(made, ir), made.ir_version) == ([], ir)


def test_imports_that_readers_do_not_know_go_unless_asked_for():
    for targets, left in (({}, {"": 7, "own": 1}), ({"ai.onnx.ml": 5}, {"": 7, "own": 1, "ai.onnx.ml": 5})):
        made = held(opset=7, domains='"ai.onnx.ml" : 5, "own" : 1')
        ir_versions.write_ir_version(made, targets, 3 if not targets else None, [])
        assert {entry.domain: entry.version for entry in made.opset_import} == left
    made = held(opset=7, domains='"ai.onnx.ml" : 1')
    assert (told(made), len(made.opset_import)) == ([], 2)


def test_below_ir_4_initializers_are_inputs():
    made = held("y = Add(x, w)", 7, constants="float[2] w = {1, 2}, float[2] u = {1, 2}")
    made.graph.input.append(onnx.helper.make_tensor_value_info("u", 1, [2]))
    told(made, 4)
    assert [value.name for value in made.graph.input] == ["x", "c", "u"]
    told(made, 3)
    assert [value.name for value in made.graph.input] == ["x", "c", "u", "w"]
    assert made.graph.input[3] == onnx.helper.make_tensor_value_info("w", 1, [2])
    onnx.checker.check_model(made)


@pytest.mark.parametrize("domain", ["", "own"])
def test_initializers_of_graphs_move_out_or_become_nodes(domain):
    """Where an operator of a custom domain holds the graph, it may not read what lies outside."""
    branch = onnx.parser.parse_graph(
        "g () => (float[2] v, float[2] w) <float[2] w = {1, 2}, int64[1] k = {0}> { t = Gather(x, k) v = Add(t, w) }"
    )
    other = onnx.parser.parse_graph("h () => (float[2] v, float[2] w) <float[2] w = {3, 4}> { v = Add(x, w) }")
    source = held("", 13, outputs="float[2] y, float[2] z", domains='"own" : 1')
    inside = onnx.helper.make_node("If", ["c"], ["y", "z"], then_branch=branch, else_branch=other)
    source.graph.node.append(inside)
    if domain:
        outer = onnx.GraphProto(name="o", node=[inside])
        del source.graph.node[:]
        source.graph.node.append(onnx.helper.make_node("Own", ["c"], ["q"], domain="own", body=outer))
    feeds = {"x": np.array([5, 6], np.float32)}
    expected = [evaluate(source, {**feeds, "c": np.array(c)}) for c in (True, False)] if not domain else []
    ir_versions.initializers_to_inputs(source)
    assert not any(len(body.initializer) for body in bodies(source) if body is not source.graph)
    assert len(source.graph.initializer) == (0 if domain else 3)
    assert sorted(tensor.name for tensor in source.graph.initializer) == sorted(v.name for v in source.graph.input[2:])
    for c, wanted in zip((True, False), expected, strict=False):
        for one, two in zip(wanted, evaluate(source, {**feeds, "c": np.array(c)}), strict=True):
            np.testing.assert_array_equal(one, two)
    made = [[node.op_type for node in body.node] for body in bodies(source)]
    if domain:
        assert sorted(made) == sorted(
            [["Own"], ["If"], ["Constant", "Cast", "Constant", "Gather", "Add"], ["Constant", "Add"]]
        )
    else:
        assert sorted(made) == sorted([["If"], ["Identity", "Gather", "Add"], ["Identity", "Add"]])
