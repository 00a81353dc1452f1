"""What steps ask of a call is noted with its answer, and what others cannot be asked spoils the script."""

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import NodeProto, TensorProto
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.conversion.replay import recording
from opshift.passes.conversion.replay.recording import INPUTS, NAME, OUTPUTS, Event, StandInScope, Unasked, Unrepeatable
from opshift.passes.model import tensors
from opshift.passes.model.types import tensor_type

from tests.support import model

X, Y = INPUTS[:3], OUTPUTS[:2]


@pytest.fixture
def real():
    source = model(
        "a = Relu(x) b, u = TopK(a, k) d = my.Thing(b) y = Relu(d)", 18, inputs="float[2,3] x, float16[N] h", outputs="y", domains='"my" : 1',
        constants="int64[1] k = {1}, float[3] w = {1, 2, 3}",
    )  # fmt: skip
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(tensors.SMALL + 1, np.float32), "large"))
    return Scope(source.graph, Context(source, source), 18, path=())


def stage(real, *names, op="Relu", outputs=("b",), domain=""):
    stand_in = NodeProto(op_type=op, domain=domain, input=X[: len(names)], output=OUTPUTS[: len(outputs)])
    return StandInScope(
        real, {**dict(zip(X, names, strict=False)), **dict(zip(OUTPUTS, outputs, strict=False)), NAME: "n"}, stand_in
    )


def test_it_is_at_the_opset_of_the_call_and_in_a_body_of_its_kind(real):
    made = stage(real, "a")
    assert (made.opset, made.graph is not None, made.context.overridable) == (18, True, True)
    assert made.graph is not real.graph
    function = onnx.helper.make_function("f", "F", [], [], [], [])
    assert stage(Scope(function, real.context, 12), "a").graph is None
    assert [made.stands_for(name) for name in (X[0], Y[0], NAME, X[1], "a")] == [True, True, False, False, False]


def test_questions_are_noted_once_with_their_answers(real):
    made = stage(real, "a", "k")
    for _ in range(2):
        assert made.elem_type(X[0]) == 1
        assert made.shape(X[0]) == [2, 3]
        assert made.rank(X[0]) == 2
        assert made.shape_in_source(X[0]) == [2, 3]
        assert made.ints(X[1]) == [1]
        assert made.type(X[0]) == tensor_type(1, [2, 3])
    asked = [(kind, place, key) for kind, place, key in made.asked if kind not in ("tensor", "small")]
    assert asked == [
        ("elem_type", X[0], 1), ("shape", X[0], (2, 3)), ("rank", X[0], 2), ("shape_in_source", X[0], (2, 3)),
        ("type", X[0], tensor_type(1, [2, 3]).SerializeToString(deterministic=True)),
    ]  # fmt: skip
    assert [(kind, place) for kind, place, _ in made.asked if kind in ("tensor", "small")] == [("tensor", X[1])]
    assert not made.spoiled


def test_unknowns_are_answers_too(real):
    made = stage(real, "d")
    assert (made.shape(X[0]), made.rank(X[0]), made.shape_in_source(X[0]), made.elem_type(X[0]), made.type(X[0])) == (
        None,
        None,
        None,
        0,
        None,
    )
    assert [key for _, _, key in made.asked] == [None, None, None, 0, None]
    assert made.tensor(X[0]) is None


def test_a_list_of_dimensions_is_the_askers_own(real):
    made = stage(real, "a")
    made.shape(X[0]).append(7)
    made.shape_in_source(X[0]).append(7)
    assert made.shape(X[0]) == made.shape_in_source(X[0]) == [2, 3]


def test_constants_are_answers_unless_they_are_large(real):
    made = stage(real, "w", "large")
    assert made.tensor(X[0]) == made.tensor(X[0], 9) == real.tensor("w")
    assert [kind for kind, _, _ in made.asked] == ["tensor", "small"]
    assert made.tensor(X[1], 9) is None
    assert not made.spoiled
    with pytest.raises(Unrepeatable):
        made.tensor(X[1])
    assert made.spoiled
    assert real.answered.keys() >= {("tensor", "w"), ("small", "w")}


@pytest.mark.parametrize(
    "look",
    [
        lambda made: made.producer(X[0]),
        lambda made: made.initializer(Y[0]),
        lambda made: made.relabel_constant(X[0], 1, [3]),
        lambda made: made.hold("v", TensorProto()),
        lambda made: made.declare(X[0]),
        lambda made: made.dissolve(Y[0], []),
    ],
)
def test_what_only_this_call_has_spoils_the_script(real, look):
    made = stage(real, "a")
    with pytest.raises(Unrepeatable):
        look(made)
    assert made.spoiled


def test_what_steps_made_is_theirs(real):
    made = stage(real, "a", outputs=("d",))
    node = onnx.helper.make_node("Neg", [X[0]], ["own"])
    made.record(node, 18)
    assert made.producer("own") is node
    assert made.node_to_ask("own") == (node, 18)
    assert made.shape("own") == [2, 3]
    assert made.elem_type("own") == 1
    assert made.elements("own") is None
    assert ("elements", "own", None) not in made.asked
    made.record(onnx.helper.make_node("Neg", [X[0]], [Y[0]]), 18)
    assert (made.shape(Y[0]), made.rank(Y[0]), made.elem_type(Y[0])) == ([2, 3], 2, 1)
    assert made.producer(Y[0]).op_type == "Neg"
    assert made.type(Y[0]) == tensor_type(1, [2, 3])
    assert {kind for kind, place, _ in made.asked if place == Y[0]} == {"stated"}


def test_what_steps_state_counts(real):
    made = stage(real, "a", "d")
    made.typed[X[1]] = tensor_type(10, [5])
    assert (made.shape(X[1]), made.rank(X[1]), made.elem_type(X[1]), made.stated_elem_type(X[1])) == ([5], 1, 10, 10)
    assert (made.type(X[1]), made.stated_type(X[1])) == (tensor_type(10, [5]), tensor_type(10, [5]))
    made.notice(X[1], None)
    assert not made.asked
    made.typed[X[1]] = tensor_type(10)
    assert made.stated_type(X[1]) == made.own_type(X[1]) == tensor_type(10)
    assert [kind for kind, _, _ in made.asked] == ["stated", "type"]
    made.typed[X[0]] = tensor_type(10)
    assert made.stated_type(X[0]) == made.own_type(X[0]) == tensor_type(1, [2, 3])


def test_what_is_seeded_holds_where_nothing_better_is_known(real):
    made = stage(real, "a", "d")
    made.seed(X[:2], [tensor_type(7, [9]), tensor_type(7, [9])])
    assert made.typed == {X[1]: tensor_type(7, [9])}


def test_an_output_has_the_type_of_an_input_where_schemas_say_so(real):
    made = stage(real, "a", outputs=("b",))
    assert made.elem_type(Y[0]) == 1
    assert [(kind, place) for kind, place, _ in made.asked] == [("stated_elem_type", Y[0]), ("elem_type", X[0])]
    made = stage(real, "h", op="Thing", domain="my", outputs=("d",))
    assert made.elem_type(Y[0]) == 0
    assert [(kind, place) for kind, place, _ in made.asked] == [("elem_type", Y[0])]
    made = stage(real, "a", op="Cast", outputs=("b",))
    assert made.stated_elem_type(X[0]) == 1


def test_who_makes_an_output_is_the_call_if_anybody(real):
    made = stage(real, "a", outputs=("y", "b"))
    assert made.node_to_ask(X[0]) is None
    assert made.node_to_ask(Y[0]) == (made._stand_in, 18)
    assert made.node_to_ask(Y[1]) is None
    assert [(kind, place, key) for kind, place, key in made.asked] == [("origin", Y[0], True), ("origin", Y[1], False)]


def test_outputs_that_nobody_reads(real):
    made = stage(real, "a", outputs=("b", "u"))
    assert [place in made.context.unread for place in (Y[0], Y[1], "u", 7)] == [False, True, False, False]
    assert made.asked == [("unread", Y[0], False), ("unread", Y[1], True)]


def test_what_was_dissolved_has_elements_that_others_have_not(real):
    real.dissolve("d", ["a"])
    made = stage(real, "a", "d")
    assert made.elements(X[0]) is None
    with pytest.raises(Unrepeatable):
        made.elements(X[1])


def test_names_and_constants_are_events(real):
    made = stage(real, "a")
    first = made.context.names.fresh(f"{Y[0]}/Abs")
    again = made.context.names.fresh("plain")
    assert [first, again] == [f"{recording.MARK}made{k}{recording.MARK}" for k in (0, 1)]
    tensor = tensors.int64s([1])
    held = made.constant(tensor, "const")
    assert made.constant(tensors.int64s([1]), "other") == held
    assert [(event.place, event.hint) for event in made.events] == [
        (first, (Y[0], "/Abs")),
        (again, ("plain",)),
        (held, ("const",)),
    ]
    assert (made.events[2].tensor, made.events[2].key) == (tensor, tensor.SerializeToString(deterministic=True))
    assert made.events[0] == Event(first, (Y[0], "/Abs"))
    assert made.ints(held) == [1]


def test_types_that_follow_ask_no_more(real):
    made = stage(real, "a", "h")
    made.record(onnx.helper.make_node("Neg", [X[0]], ["own"]), 18)
    assert made.followed_elem_type("own") == (0, X[0])
    assert not made.asked
    made = stage(real, "a", "h")
    made.elem_type(X[0])
    made.record(onnx.helper.make_node("Neg", [X[0]], ["own"]), 18)
    assert made.followed_elem_type("own") == (1, "")
    with pytest.raises(Unasked) as raised:
        made.elem_type(X[1])
    assert raised.value.place == X[1]


def test_claims_are_noticed_in_the_real_scope(real):
    noticed = []
    real.notice = lambda name, known: noticed.append((name, known))
    made = stage(real, "d")
    made.notice(X[0], None)
    made.notice("other", None)
    assert noticed == [("d", None)]
    assert made.asked == [("claim", X[0], None)]
