"""A region as two small models: what is a weight, what belongs to what is computed, and which are of one kind."""

import numpy as np
import pytest
from opshift.passes.model.types import tensor_type

from opshift.verification.engines import OnnxRuntime
from opshift.verification.parts import make_pair, type_of, with_outputs
from opshift.verification.regions import Body, Comparison
from opshift.verification.side import Side
from tests.support import model, show

IO = {"inputs": "float[N,8] x", "outputs": "float[A,B] y"}
HELD = "float k = {0.5}, float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] v = {8, 7, 6, 5, 4, 3, 2, 1}"


def pairs(one, other, opset=17, **io):
    bodies = [Body(Side(model(text, opset, **{"constants": HELD, **IO, **io}))) for text in (one, other)]
    return [make_pair(*bodies, region) for region in Comparison(*bodies).regions()]


def test_a_part_has_names_of_its_own():
    (pair,) = pairs("a = Exp(x) b = Neg(a) y = Mul(b, x)", "a = Exp(x) c = Abs(a) d = Sin(c) y = Mul(x, d)")
    for part in (pair.before, pair.after):
        assert sorted(value.name for value in part.model.graph.input) == ["~x0", "~x1"]
        assert [value.name for value in part.model.graph.output] == ["~y0"]
    assert [node.op_type for node in pair.after.model.graph.node] == ["Abs", "Sin", "Mul"]


def test_weights_are_fed():
    (pair,) = pairs("b = Mul(x, k) y = Mul(b, w)", "c = Mul(k, x) y = Mul(w, c)")
    assert [set(part.weights.values()) for part in (pair.before, pair.after)] == [{"w"}, {"w"}]
    assert [len(part.model.graph.initializer) for part in (pair.before, pair.after)] == [1, 1]


@pytest.mark.parametrize(
    ("constant", "fed"),
    [
        ("float[4] c = {1, 2, 3, 4}", False),
        ("float[1,8] c = {1, 2, 3, 4, 5, 6, 7, 8}", True),
        ("float c = {1}", False),
    ],
)
def test_which_constants_are_weights(constant, fed):
    io = {"inputs": "float[N,1] x", "outputs": "float[A,B] y", "constants": constant}
    (pair,) = pairs("y = Mul(x, c)", "y = Mul(c, x)", **io)
    assert pair.has_weights is fed


def test_regions_alike_but_for_names_and_weights_are_one_kind():
    one = "a = Mul(x, w) b = Mul(a, v) y = Sin(b)"
    first, second = pairs(one, "a = Mul(w, x) b = Mul(v, a) y = Sin(b)")
    assert first.kind == second.kind
    first, second = pairs("a = Mul(x, w) b = Mul(a, k) y = Sin(b)", "a = Mul(w, x) b = Mul(k, a) y = Sin(b)")
    assert first.kind != second.kind, "k belongs to what is computed"
    first, second = pairs("a = Exp(x) b = Exp(a) y = Sin(b)", "a = Neg(x) b = Abs(a) y = Sin(b)")
    assert first.kind != second.kind


def test_names_docs_and_metadata_make_no_other_kind():
    one, other = "a = Exp(x) b = Exp(a) y = Sin(b)", "a = Neg(x) b = Neg(a) y = Sin(b)"
    bodies = [Body(Side(model(text, 17, constants=HELD, **IO))) for text in (one, other)]
    bodies[0].side.model.graph.node[0].doc_string = "the first"
    bodies[0].side.model.graph.node[0].name = "first"
    bodies[0].side.model.graph.node[0].metadata_props.add(key="k", value="v")
    first, second = (make_pair(*bodies, region) for region in Comparison(*bodies).regions())
    assert first.kind == second.kind


def test_both_parts_run_on_the_same_values():
    (pair,) = pairs("y = Mul(x, w)", "y = Mul(w, x)")
    values = {"~x0": np.ones((2, 8), np.float32)}
    weights = np.arange(1, 9, dtype=np.float32)
    for which, part in enumerate((pair.before, pair.after)):
        names = {
            value.name: type_of({**values, **dict.fromkeys(part.weights, weights)}[value.name])
            for value in part.model.graph.input
        }
        made = pair.with_types(which, names)
        (found,) = OnnxRuntime(made).run({**values, **dict.fromkeys(part.weights, weights)})
        np.testing.assert_array_equal(found, np.stack([weights] * 2))


def test_a_constant_in_the_place_of_nodes():
    bodies = [
        Body(Side(model("c = Add(k, k) y = Mul(x, c)", 17, constants=HELD, **IO))),
        Body(Side(model("y = Mul(x, c)", 17, constants="float c = {1}", **IO))),
    ]
    (region,) = Comparison(*bodies).regions()
    pair = make_pair(*bodies, region)
    assert [node.op_type for node in pair.after.model.graph.node] == ["Identity"]
    assert [OnnxRuntime(part.model).run({})[0].tolist() for part in (pair.before, pair.after)] == [1.0, 1.0]


def test_an_input_in_the_place_of_nodes():
    """A copy that is gone: the second model yields what the first one copies."""
    (pair,) = pairs("a = Identity(x) y = Neg(a)", "y = Neg(x)", outputs="float[N,8] y")
    assert [[node.op_type for node in part.model.graph.node] for part in (pair.before, pair.after)] == [["Identity", "Neg"], ["Neg"]]  # fmt: skip


def test_values_that_graphs_in_nodes_read_are_renamed_there():
    text = "a = {}(x) c = Neg(a) y = If(b) <then_branch = t () => (float[A,B] p) {{ a2 = Abs(c) p = Add(a2, x) }}, else_branch = e () => (float[C,D] q) {{ q = Neg({}) }}>"
    (pair,) = pairs(text.format("Exp", "c"), text.format("Exp", "x"), inputs="float[N,8] x, bool b")
    made = pair.with_types(0, {"~x0": tensor_type(9, []), "~x1": tensor_type(1, [2, 8]), "~x2": tensor_type(1, [2, 8])})
    assert "c" not in {name for node in made.graph.node for a in node.attribute for n in a.g.node for name in n.input}
    assert "p = Add" not in show(made), "names inside are those of the kind"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((2, 3), np.float16), (10, 2)),
        (np.array(["a"], object), (8, 1)),
        (np.zeros((), np.int64), (7, 0)),
    ],
)
def test_the_type_of_a_value(value, said):
    kind = type_of(value).tensor_type
    assert (kind.elem_type, len(kind.shape.dim)) == said
    assert type_of([value]).sequence_type.elem_type.tensor_type.elem_type == said[0]


@pytest.mark.parametrize("value", [None, []])
def test_what_has_no_type(value):
    with pytest.raises(ValueError, match="cannot be told from its value"):
        type_of(value)


def test_more_outputs():
    source = model("a = Exp(x) y = Neg(a)", 17, **IO)
    made = with_outputs(source, ["y", "a"])
    assert [value.name for value in made.graph.output] == ["y", "a"]
    assert len(source.graph.output) == 1
