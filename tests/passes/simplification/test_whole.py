"""What all bodies of a model share while it is optimized."""

import pytest
from opshift.passes.changes import Allowance
from opshift.passes.simplification.whole import Whole

from tests.support import model

BODY = """a = Neg(x) b = Add(a, a) y = If(c) <then_branch = t () => (float[2] u) { u = Exp(a) },
    else_branch = e () => (float[2] v) { v = Abs(b) }>"""
IO = {"inputs": "float[2] x, bool c", "outputs": "float[2] y"}


def begun(source):
    whole = Whole(source, source, "folder")
    whole.begin()
    return whole


def test_uses_are_counted_in_all_bodies():
    source = model(BODY, 17, **IO)
    function = source.functions.add(name="F", output=["r"])
    function.node.add(op_type="Neg", input=["p"], output=["r"])
    whole = begun(source)
    assert {name: count for name, count in whole.uses.items() if count} == {
        "x": 1, "a": 3, "b": 1, "c": 1, "u": 1, "v": 1, "y": 1, "p": 1, "r": 1,
    }  # fmt: skip
    assert (whole.rounds, whole.changed, whole.folder, whole.changes) == (1, 0, "folder", [])
    whole.begin()
    assert (whole.uses["a"], whole.rounds) == (3, 2)


def test_what_is_fixed_is_used():
    source = model(BODY.replace("{ v = Abs(b) }", "{ a = Abs(b) v = Neg(a) }"), 17, **IO)
    source.graph.quantization_annotation.add(tensor_name="b")
    whole = begun(source)
    assert whole.fixed == {"a", "b"}
    assert whole.uses["b"] == 2


def test_a_later_round_counts_what_is_called_then():
    source = model("y = Neg(x)", 17, inputs="float[2] x", outputs="float[2] y")
    whole = begun(source)
    source.graph.node.extend(model(BODY, 17, **IO).graph.node)
    source.graph.node[0].op_type = "Flatten"
    whole.begin()
    assert (whole.measures, whole.uses["a"], whole.uses["b"]) == (True, 3, 1)


def test_references_and_trained_means_are_seen_inside_of_graphs():
    source = model(BODY, 17, **IO)
    inner = source.graph.node[2].attribute[0].g.node[0]
    assert (begun(source).hangs, begun(source).fixed) == (False, frozenset())
    inner.op_type = "BatchNormalization"
    inner.input.extend(["s", "z", "mean", "variance"])
    inner.attribute.add(name="training_mode", i=1, type=2)
    assert begun(source).fixed == {"mean", "variance"}
    inner.attribute.add(name="epsilon", ref_attr_name="e", type=1)
    assert begun(source).hangs


def test_what_was_changed_is_inferred_anew():
    whole = begun(model(BODY, 17, **IO))
    context = whole.context
    whole.begin()
    assert whole.context is context
    whole.changed = 1
    whole.begin()
    assert whole.context is not context
    assert [held.trusting for held in (context, whole.context)] == [False, False], "what is declared is no knowledge"
    assert whole.changed == 0


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Flatten", "Reshape", "Shape", "Size", "Neg", "Concat"])
def test_dimensions_matter_to_what_measures(op):
    source = model(BODY, 17, **IO)
    source.graph.node[2].attribute[0].g.node[0].op_type = op
    assert begun(source).measures == (op not in ("Neg", "Concat"))


@pytest.mark.parametrize(("ir", "nodes"), [(3, True), (4, False)])
def test_where_each_initializer_is_an_input_constants_are_nodes(ir, nodes):
    source = model(BODY, 17, **IO)
    source.ir_version = ir
    assert Whole(source, source, None).constants_are_nodes is nodes


def test_who_reads_a_value():
    source = model(BODY, 17, **IO)
    whole = begun(source)
    assert [[node.output[0] for node in whole.readers(name)] for name in ("a", "b", "y")] == [["b", "u"], ["v"], []]


def test_an_allowance_is_kept():
    source = model(BODY, 17, **IO)
    given = Allowance()
    assert Whole(source, source, None, given).allowance is given
    assert Whole(source, source, None).allowance is not given


def test_a_round_is_the_last_where_nothing_hangs_on_what_changed():
    whole = begun(model("a = Neg(x) b = Exp(a) y = Add(a, b)", 17, inputs="float[2] x", outputs="float[2] y"))
    assert whole.settle()
    whole.changed = 1
    assert whole.settle()
    whole.stirred = True
    assert not whole.settle()


def test_readers_that_went_let_a_round_follow():
    whole = begun(model("a = Neg(x) b = Exp(a) y = Add(a, b)", 17, inputs="float[2] x", outputs="float[2] y"))
    assert whole.check_uses("b", 1)
    assert not whole.check_uses("a", 1)
    whole.changed = 1
    assert whole.settle()
    whole.model.graph.node[2].input[0] = "b"
    assert not whole.settle()
    whole.begin()
    whole.changed = 1
    assert whole.settle()
