"""Calls that are alike are rewritten by a script; what comes out is what the steps themselves make of each call."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from opshift.passes.analysis.trust import TAKEN
from opshift.passes.conversion import convert
from opshift.passes.conversion.replay import bulk as patch
from opshift.passes.conversion.replay import cache
from opshift.passes.conversion.replay.switch import EARLIEST, USUAL, replay_from
from opshift.passes.model.messages import ModelProto

from tests import pairs
from tests.exported import store as exported
from tests.frozen import store
from tests.replays import behind_claims, differences, four_times
from tests.support import check_values, model


@pytest.mark.parametrize("first", [[2, 3], [2, 3, 4]])
def test_calls_of_other_shapes_are_others(first, monkeypatch):
    """Softmax along one axis is the older one where it is the last axis, and needs others moved."""
    shapes = [first] * 3 + [[2, 3], [2, 3, 4], [4, 3], [2, 3], [5, 3, 1]]
    body = " ".join(f"y{k} = Softmax<axis=1>(x{k})" for k in range(len(shapes)))
    inputs, outputs = (", ".join(f"float{shape} {v}{k}" for k, shape in enumerate(shapes)) for v in "xy")
    made = check_replayed(model(body, 13, inputs=inputs, outputs=outputs), 12, monkeypatch)
    check_values(model(body, 13, inputs=inputs, outputs=outputs), made, rtol=1e-6, atol=1e-7)


def test_a_size_along_one_axis_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nothing no parts are numbered, whatever else a value is."""
    sizes = [4, 6, 4, 0, 8, 0, 4]
    body = " ".join(f"y{k}, z{k} = Split<axis=1>(x{k})" for k in range(len(sizes)))
    inputs = ", ".join(f"float[N,{size}] x{k}" for k, size in enumerate(sizes))
    outputs = ", ".join(f"float[N,{size // 2}] {v}{k}" for k, size in enumerate(sizes) for v in "yz")
    made = check_replayed(model(body, 13, inputs=inputs, outputs=outputs), 18, monkeypatch)
    numbered = [any(a.name == "num_outputs" for a in node.attribute) for node in made.graph.node]
    assert numbered == [size > 0 for size in sizes]


@pytest.mark.parametrize(("op", "opset", "target"), [("HardSwish", 14, 13), ("Identity", 14, 13), ("Relu", 14, 6)])
def test_what_hangs_on_the_element_type_is_learned_once_for_all_sizes(op, opset, target, monkeypatch):
    sizes = range(3, 10)
    body = " ".join(f"y{size} = {op}(x{size})" for size in sizes)
    inputs, outputs = (", ".join(f"float[N,{size}] {v}{size}" for size in sizes) for v in "xy")
    learned, learn = [], cache.Replays._learn
    monkeypatch.setattr(cache.Replays, "_learn", lambda *given: learned.append(1) or learn(*given))
    made = check_replayed(model(body, opset, inputs=inputs, outputs=outputs), target, monkeypatch, least=5)
    assert len(learned) == 1
    assert len(made.graph.node) % len(sizes) == 0


def check_replayed(
    source: ModelProto, target: int, monkeypatch: pytest.MonkeyPatch, least: int = 1, **asked: Any
) -> ModelProto:
    """The same bytes, changes and refusals with scripts and without."""
    played, play = [], cache._replay_call
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_replay_call", lambda *given: played.append(1) or play(*given))
        with replay_from(EARLIEST):
            found = convert.attempt(source, {"": target}, **asked)
    assert len(played) >= least
    with replay_from(None):
        expected = convert.attempt(source, {"": target}, **asked)
    assert found.refusals == expected.refusals
    assert found.changes == expected.changes
    assert found.model is not None
    assert found.model == expected.model
    return found.model


@pytest.mark.parametrize(
    ("body", "opset", "target", "inputs", "outputs", "constants"),
    [
        ("y = ReduceMax<axes=[1], keepdims=0>(x)", 13, 18, "float[N,3] x", "float[N] y", ""),
        ("y = ReduceMax(x, a)", 18, 13, "float[N,3] x", "float[N] y", "int64[1] a = {1}"),
        ("a = Neg(k) y = ReduceMax(x, a)", 18, 13, "float[N,3] x", "float[N,1] y", "int64[1] k = {1}"),
        ("y = Softmax<axis=0>(x)", 13, 12, "float[2,3] x", "float[2,3] y", ""),
        ("y = Mul(x, x)", 7, 6, "float[2,3] x", "float[2,3] y", ""),
        ("y = Clip(x, , high)", 13, 10, "float[N,3] x", "float[N,3] y", "float high = {1.5}"),
        ("y = LayerNormalization(x, s)", 17, 16, "float[2,3] x, float[3] s", "float[2,3] y", ""),
        ("y, m = Dropout(x)", 12, 9, "float[2,3] x", "float[2,3] y", ""),
        ("y = CumSum(x, a)", 14, 10, "float[2,3] x", "float[2,3] y", "int64 a = {1}"),
        ("y = Cast<to=1>(x)", 13, 5, "int32[2] x", "float[2] y", ""),
    ],
)  # fmt: skip
def test_copies_of_a_call(
    body: str, opset: int, target: int, inputs: str, outputs: str, constants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = model(body, opset, inputs=inputs, outputs=outputs, constants=constants)
    least = 0 if "Cast" in body else 1  # a stated type is the graph's, which no script touches
    check_replayed(four_times(source), target, monkeypatch, least)


@pytest.mark.parametrize("opset", [10, 13, 17, 18, 20, 23])
def test_published_cases(opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for case, target in pairs.in_turn(store.read(opset)[::6], (7, 11, 24, 18)):
        if target != opset and convert.attempt(case.model, {"": target}).model is not None:
            check_replayed(four_times(case.model), target, monkeypatch, least=0)
            compared += 1
    assert compared


@pytest.mark.parametrize("opset", [13, 17, 18, 20, 22, 23])
def test_expanded_cases(opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for case in pairs.some(store.read(opset), 6):
        op = ("", case.model.graph.node[0].op_type)
        if convert.attempt(case.model, {"": opset}, ops=[op]).model is not None:
            check_replayed(four_times(case.model), opset, monkeypatch, least=0, ops=[op])
            compared += 1
    assert compared


def test_each_of_many_calls_keeps_its_own_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = four_times(model("y = ReduceL2(x, a)", 18, inputs="float[N,3] x, int64[1] a", outputs="float[N,1] y"))
    for k, node in enumerate(source.graph.node):
        node.name, node.doc_string = f"norm {k}", f"doc {k}"
        del node.metadata_props[:]
        node.metadata_props.add(key="scope", value=f"head {k}")
    made = check_replayed(source, 17, monkeypatch, 2)
    held = [(node.name, node.doc_string, node.metadata_props[0].value) for node in made.graph.node if node.doc_string]
    assert held == [(f"norm {k}", f"doc {k}", f"head {k}") for k in range(4)]


def test_what_was_played_is_known_to_what_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank that LayerNormalization needs is that of what the calls became; in a function no more is inferred."""
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = my.chain(x) }
        <domain: "my", opset_import: ["" : 17, "my" : 1]>
        chain (v) => (w) {
            k = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>()
            a = my.twice(k) b = my.twice(a) c = my.twice(b) d = my.twice(c)
            e = LayerNormalization<axis=1>(d, k)
            w = Add(v, e)
        }
        <domain: "my", opset_import: ["" : 17]>
        twice (v) => (w) { u = Neg(v) w = Sub(v, u) }
    """)
    made = check_replayed(source, 17, monkeypatch, least=2, ops=[("my", "twice"), ("", "LayerNormalization")])
    assert [node.op_type for node in made.functions[0].node].count("ReduceMean") == 2


def test_answers_tell_calls_apart() -> None:
    """Equal nodes whose constants differ change in different ways."""
    source = model(
        "a = ReduceMax(x, one) b = ReduceMax(x, two) c = ReduceMax(x, one) d = ReduceMax(x, two)",
        18,
        inputs="float[2,3,4] x",
        outputs="float[2,1,4] a, float[2,3,1] b, float[2,1,4] c, float[2,3,1] d",
        constants="int64[1] one = {1}, int64[1] two = {2}",
    )
    with replay_from(EARLIEST):
        made = convert.convert(source, {"": 13}).model
    assert made is not None
    assert [list(node.attribute[0].ints) for node in made.graph.node] == [[1], [2], [1], [2]]


CHAIN = " ".join(f"v{i + 1} = ReduceMax<axes=[1]>(v{i}) w{i} = ReduceMin<axes=[1]>(v{i})" for i in range(8))


@pytest.mark.parametrize(
    ("body", "ahead"),
    [
        (CHAIN, 12),
        (CHAIN.replace("w5 = ReduceMin", "[named] w5 = ReduceMin"), 6),
        (CHAIN.replace("ReduceMin<axes=[1]>(v5)", "ReduceMin<axes=[0]>(v5)"), 11),
        (CHAIN.replace("ReduceMin<axes=[1]>", "ReduceMin<axes=[1], keepdims=0>"), 12),
    ],
)  # fmt: skip
def test_calls_about_which_nothing_is_asked_are_edited_at_once(
    body: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done to them is told in the order of the nodes; one call that is unlike the others is no hindrance."""
    source = model(body, 13, inputs="float[N,3] v0", outputs="float[N,1] v8, w0, w4")
    edited, apply = [], patch.Patch.many
    with monkeypatch.context() as patched:
        patched.setattr(patch.Patch, "many", lambda *given: edited.extend(given[2]) or apply(*given))
        made = check_replayed(source, 18, monkeypatch, least=2)
    assert len(edited) == ahead
    assert all(len(node.input) == 2 for node in made.graph.node)


def test_graphs_and_functions_hold_constants_each_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph gets one initializer for all, a function a Constant for each call, a branch an initializer of its own."""
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (float[N,3] x, bool c) => (float[N,1] y, float[N,1] z) {
            a = ReduceMax<axes=[1]>(x)
            b = ReduceMax<axes=[1]>(a)
            d = ReduceMax<axes=[1]>(b)
            z = If (c) <
                then_branch = t () => (float[N,1] p) { o = ReduceMax<axes=[1]>(d) p = ReduceMax<axes=[1]>(o) },
                else_branch = e () => (float[N,1] q) { r = ReduceMax<axes=[1]>(d) q = ReduceMax<axes=[1]>(r) }
            >
            y = my.twice(d)
        }
        <domain: "my", opset_import: ["" : 13]>
        twice (v) => (w) { i = ReduceMax<axes=[1]>(v) j = ReduceMax<axes=[1]>(i) w = ReduceMax<axes=[1]>(j) }
    """)
    made = check_replayed(source, 18, monkeypatch, least=4)
    assert [node.op_type for node in made.functions[0].node] == ["Constant", "ReduceMax"] * 3
    assert len(made.graph.initializer) == 1
    onnx.checker.check_model(made, full_check=True)


def test_a_call_that_refuses_is_looked_at_by_the_steps() -> None:
    """Each refusal names its own node."""
    source = model("a = Celu(x) b = Celu(x) c = Celu(x)", 12, inputs="x", outputs="a, b, c")
    with replay_from(EARLIEST):
        result = convert.attempt(source, {"": 11})
    assert [refusal.node for refusal in result.refusals] == ["a", "b", "c"]


@pytest.mark.parametrize(("calls", "replayed"), [(USUAL - 1, 0), (USUAL, 1), (USUAL + 4, 5)])
def test_a_few_calls_of_a_kind_are_done_by_the_steps(
    calls: int, replayed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning does not pay for them."""
    body = " ".join(f"v{i + 1} = LayerNormalization(v{i}, s)" for i in range(calls))
    source = model(body, 17, inputs="float[2,3] v0, float[3] s", outputs=f"float[2,3] v{calls}")
    played, play = [], cache._replay_call
    monkeypatch.setattr(cache, "_replay_call", lambda *given: played.append(1) or play(*given))
    assert convert.attempt(source, {"": 16}).model is not None
    assert len(played) == replayed


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 20])
def test_what_is_claimed_is_named_with_replay_and_without(opset: int) -> None:
    claimed = 0
    for case in pairs.some(store.read(opset)[::6], 4):
        source = four_times(behind_claims(case.model))
        assert not list(differences(case.name, source))
        claimed += any(change.how == TAKEN for change in convert.attempt(source, {"": 7}).changes)
    assert claimed


@pytest.mark.long
@pytest.mark.parametrize("framework", exported.frameworks())
def test_exported_models_are_the_same_with_replay_and_without(framework: str) -> None:
    """A sample; `python -m tests.lab replays` looks at all of them."""
    models = sorted(exported.read(framework), key=lambda export: export.name)[:: 12 if pairs.whole else 30]
    assert models
    assert [line for export in models for line in differences(export.name, export.model)] == []
