"""Operators between others are found again: a sample of what `python -m tests.lab neighbours` counts."""

import random
from itertools import pairwise

import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold

from tests.passes.fusion.neighbours import FOUND, WRONG, Case, cases, judge, source
from tests.support import check_values, model, show

EACH = 100


@pytest.mark.long
def test_a_sample_is_found_and_nothing_is_wrong():
    verdicts = [judge(case) for case in random.Random(14).sample(list(cases()), EACH)]
    lost = [f"{verdict.case}: {verdict.status} {verdict.why}" for verdict in verdicts if verdict.status != FOUND]
    assert not [line for line in lost if WRONG in line]
    assert len(lost) <= 1, lost


NAMED = [
    ("RMSNormalization({}, s4)", "* constant", ""),  # a scaled embedding
    ("RMSNormalization({}, s4)", "itself", "itself"),
    ("ReduceL2<axes=[-1]>({})", "itself", ""),
    ("Shrink<bias=0.2, lambd=0.3>({})", "Shrink", "Shrink"),
    ("HardSwish({})", "Sqrt", "Neg"),
    ("Gelu({})", "+ constant", "* constant"),
    ("Celu<alpha=0.3>({})", "Neg", "itself"),
    ("Attention({}, k, v)", "constant -", "Sigmoid"),
    ("Gemm<alpha=0.5, transB=1>({}, w4, s4)", "+ vector", "Pow"),
]


@pytest.mark.newest
@pytest.mark.parametrize("place", ["a graph", "its input read twice", "its result read twice", "an If"])
@pytest.mark.parametrize(("call", "before", "after"), NAMED)
def test_found_beside_what_the_normal_form_mixes_it_with(call, before, after, place):
    verdict = judge(Case(call, before, after, place))
    assert verdict.status == FOUND, verdict


@pytest.mark.newest
@pytest.mark.parametrize(
    "case",
    [
        Case("RotaryEmbedding({}, f, g)", "itself", "constant -", "a function"),
        Case("Attention({}, k, v)", "itself", "constant -", "a function"),
        Case("Attention({}, k, v, m)", "Reshape", "Pow", "an If"),
        Case("GroupNormalization<num_groups=2>({}, s4, b4)", "itself", "constant -", "a function"),
    ],
    ids=str,
)
def test_operators_that_share_what_prepares_an_input_are_found(case):
    """A function is expanded where it is called, where one Unsqueeze or Transpose of an input is made for all."""
    assert judge(case).status == FOUND


@pytest.mark.newest
def test_what_prepares_an_input_stays_for_others():
    inputs = "float[2,3,4,4] x, float[2,4,2] f, float[2,4,2] g"
    made = written_out("y = RotaryEmbedding(x, f, g)", 23, "RotaryEmbedding", inputs=inputs, outputs="float[2,3,4,4] y")
    angles = next(node.output[0] for node in made.graph.node if node.op_type == "Unsqueeze")
    made.graph.output.add(name=angles).type.tensor_type.elem_type = 1
    folded = fold.attempt(made).model
    assert [node.op_type for node in folded.graph.node] == ["Unsqueeze", "RotaryEmbedding"]
    check_values(made, folded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("before", ["", "Neg", "Clip", "Shrink", "itself"])
def test_what_exporters_write_as_one_node_is_found_without_being_named(before):
    """Shrink is what F.softshrink and F.hardshrink of PyTorch become."""
    whole = source(Case("Shrink<bias=0.2, lambd=0.3>({})", before, "Pow", "a graph"))
    expanded = convert.attempt(whole, {"": whole.opset_import[0].version}, ops=[("", "Shrink")]).model
    ops = [node.op_type for node in whole.graph.node if node.op_type == "Shrink"]
    assert [node.op_type for node in fold.attempt(expanded).model.graph.node if node.op_type == "Shrink"] == ops


def written_out(body: str, opset: int, op: str, **io: str):
    return convert.attempt(model(body, opset, **io), {"": opset}, ops=[("", op)]).model


def test_a_chain_is_found_as_a_whole():
    names = ["x", *(f"v{i}" for i in range(20)), "y"]
    body = "\n".join(f"{made} = Gelu({given})" for given, made in pairwise(names))
    result = fold.attempt(written_out(body, 20, "Gelu", inputs="float[2,3] x", outputs="float[2,3] y"))
    assert [node.op_type for node in result.model.graph.node] == ["Gelu"] * 21
    assert {change.grade for change in result.changes} == {"close"}


def test_what_is_found_again_gets_the_numbers_of_its_own_place():
    body = "a = Celu<alpha=0.3>(x) b = Mul(a, z) c = Celu<alpha=0.7>(b) y = Add(c, a)"
    io = {"inputs": "float[2,3] x, float[2,3] z", "outputs": "float[2,3] y"}
    result = fold.attempt(written_out(body, 18, "Celu", **io))
    assert show(result.model).splitlines()[0] == "t1 = Celu<alpha=0.3>(x)"
    assert "t3 = Celu<alpha=0.7>(t2)" in show(result.model)
    check_values(model(body, 18, **io), result.model, rtol=1e-5, atol=1e-6)


@pytest.mark.newest  # onnxruntime 1.23.2 yields NaN for one of the infinities
def test_like_nodes_of_other_shapes_are_judged_by_their_own():
    """The same nodes, but the slope of the second is broadcast the other way round, which PRelu does not."""
    body = "a = PRelu(x, s) y = Mul(a, s)"
    io = {"inputs": "float[2,3] x, float[3] s", "outputs": "float[2,3] y"}
    made = written_out(body, 16, "PRelu", **io)
    again = [type(node).FromString(node.SerializeToString()) for node in made.graph.node[:-1]]
    for node in again:
        node.input[:] = [{"x": "s", "s": "x"}.get(name, name + "_") for name in node.input]
        node.output[:] = [name + "_" for name in node.output]
    for tensor in list(made.graph.initializer):
        copy = made.graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name += "_"
    made.graph.node.extend(again)
    made.graph.output.add(name=again[-1].output[0]).type.tensor_type.elem_type = 1
    folded = fold.attempt(made).model
    assert [node.op_type for node in folded.graph.node].count("PRelu") == 1
    check_values(made, folded, rtol=0, atol=0)


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(x, three) b = Clip(a, zero, six) c = Div(b, six) y = Mul(x, c)",
        "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
    ],
)
def test_a_sixth_that_is_rounded_otherwise_is_a_sixth(body):
    constants = "float three = {3}, float six = {6}, float zero = {0}"
    source = model(body, 17, inputs="float[2,3] x", outputs="float[2,3] y", constants=constants)
    folded = fold.attempt(source).model
    assert show(folded) == "y = HardSwish(x)"
    check_values(source, folded, rtol=2e-6, atol=2e-6)
