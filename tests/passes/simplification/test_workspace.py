"""What is known of values in a body and around it, and what may stand for what."""

from collections import Counter

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import NodeProto, TensorProto
from opshift.passes.analysis.polynomial import symbol
from opshift.passes.model import tensors
from opshift.passes.model.types import tensor_type
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import FEW, KnownNumbers, Workspace

from tests.support import model

INNER = "g () => (float[2] v) { k = Abs(x) v = Add(k, q) }"
CONSTANTS = """int64[2] two = {1, -2}, int64 lone = {3}, int32[1] small = {4}, float[2] real = {1, 2}, int64[1,1] wide = {1},
    bool[2] flags = {1, 0}, float q = {9}"""


def source_of(ir=8, opset=18):
    made = model(
        "a = Relu(x) d = my.Thing(a) y = Neg(a)", opset, inputs="float[2,N] x, float[] u, bool c", outputs="float[2,N] y", constants=CONSTANTS,
        domains='"my" : 1',
    )  # fmt: skip
    made.ir_version = ir
    for name, size in (("few", FEW), ("many", FEW + 1)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(size, np.int64), name))
    for name, file in (("stored", "f"), ("lost", "g")):
        held = made.graph.initializer.add(name=name, data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
        held.external_data.add(key="location", value=file)
    inner = onnx.parser.parse_graph(INNER)
    inner.initializer.append(onnx.numpy_helper.from_array(np.array([7], np.int64), "own"))
    made.graph.node.append(onnx.helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner))
    return made


def space_of(source, folder=None):
    whole = Whole(source, source, folder)
    whole.begin()
    return Workspace(source.graph, whole, 18, path=())


@pytest.fixture
def space(tmp_path):
    (tmp_path / "f").write_bytes(np.array([5.0, 6.0], np.float32).tobytes())
    return space_of(source_of(), str(tmp_path))


@pytest.fixture
def inside(space):
    graph = space.scope.body.node[3].attribute[0].g
    return Workspace(graph, space.whole, 18, space, ((3, "then_branch", 0),))


def test_constants_are_found_here_and_around(space, inside):
    assert onnx.numpy_helper.to_array(inside.tensor("two")).tolist() == [1, -2]
    assert (inside.tensor("own").name, space.tensor("own"), space.tensor("a"), inside.tensor("k")) == (
        "own",
        None,
        None,
        None,
    )
    space._held["k"] = tensors.int64s([1])  # of another value of that name
    assert inside.tensor("k") is None
    assert (space.nbytes("two"), space.nbytes("small"), space.nbytes("a")) == (16, 4, 0)


def test_arrays_are_read_once_and_up_to_a_size(space):
    assert space.array("real", 7) is None
    assert space.array("real", 8).tolist() == [1, 2]
    assert space.array("real", 7) is None
    assert space.array("stored").tolist() == [5, 6]
    assert space.array("lost") is None
    assert space.array("lost") is None
    assert space.array("a") is None


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("two", KnownNumbers(False, (1, -2))), ("lone", KnownNumbers(True, (3,))), ("small", KnownNumbers(False, (4,))), ("flags", KnownNumbers(False, (1, 0))), ("real", None),
        ("wide", None), ("few", KnownNumbers(False, (0,) * FEW)), ("many", None), ("a", None), ("lost", None),
    ],
)  # fmt: skip
def test_numbers_of_small_constants_are_known(space, inside, name, numbers):
    assert space.known_numbers(name) == inside.known_numbers(name) == numbers
    assert not space.whole.leans


def test_what_is_learned_holds_here_and_inside(space, inside):
    space.learn("a", (2, 5), KnownNumbers(True, (9,)), 7)
    for each in (space, inside):
        assert (each.shape("a"), each.known_numbers("a"), each.elem_type("a")) == ((2, 5), KnownNumbers(True, (9,)), 7)
    assert not space.whole.leans
    inside.learn("k", [3])
    assert (inside.shape("k"), space.shapes.get("k"), space.granted) == ((3,), None, set())
    space.whole.leans = True
    space.learn("y", (1,))
    space.whole.leans = False
    assert space.granted == {"y"}
    assert inside.shape("y") == (1,)
    assert space.whole.leans
    space.whole.leans = False
    assert space.known_numbers("y") is None
    assert not space.whole.leans


def test_types_are_those_of_constants_and_of_inference(space, inside):
    n = symbol("N")
    assert [space.shape(name) for name in ("a", "two", "lone", "u", "d")] == [(2, n), (2,), (), None, None]
    assert [space.elem_type(name) for name in ("a", "two", "small", "flags", "d", "z")] == [1, 7, 6, 9, 0, 1]
    assert (inside.shape("k"), inside.elem_type("k"), inside.shape("a")) == ((2, n), 1, (2, n))
    inside.scope.typed["k"] = tensor_type(10, [4])
    assert (Workspace.type(inside, "k"), inside.elem_type("k")) == (tensor_type(10, [4]), 10)
    assert space.type("nothing") is None


def test_a_size_without_a_name_is_a_symbol_of_its_own(space):
    space.scope.typed["w"] = tensor_type(1, [None, 3, None, "M"])
    first = space.shape("w")
    assert first == (symbol("w\0000"), 3, symbol("w\0002"), symbol("M"))
    assert space.shape("w") is first


def test_what_stands_for_a_value(space, inside):
    space.alias["a"] = "b"
    inside.alias["k"] = "p"
    assert [inside.resolve(name) for name in ("a", "k", "v", "y")] == ["b", "p", "v", "y"]
    inside.own.add("a")
    assert inside.resolve("a") == "a"
    assert space.resolve("k") == "k"


def test_a_value_takes_the_place_of_another(space):
    assert not space.stand_for("a", "a")
    space.whole.uses["d"] = 2
    uses = Counter(space.whole.uses)
    assert space.stand_for("d", "a")
    assert (space.resolve("d"), space.whole.uses["a"]) == ("a", uses["a"] + 2)
    space.whole.fixed = frozenset("u")
    assert not space.stand_for("u", "a")
    assert not space.stand_for("a", "u")


def test_what_makes_a_result_makes_it_under_its_name(space):
    made = NodeProto(op_type="Neg", input=["x"], output=["n"])
    space.register(made)
    space.learn("n", (2, 5), KnownNumbers(True, (9,)), 7)
    space.granted.add("n")
    space.alias["m"] = "n"
    assert space.stand_for("y", "n")
    assert (space.makers["y"], space.shape("y"), space.known_numbers("y")) == (made, (2, 5), KnownNumbers(True, (9,)))
    assert (space.resolve("n"), space.resolve("m"), "y" in space.granted) == ("y", "y", True)
    assert not space.stand_for("y", "n"), "once"
    assert not space.stand_for("y", "x"), "nobody makes it here"
    space.results.add("z")
    space.register(NodeProto(output=["z"]))
    assert not space.stand_for("y", "z"), "it is a result itself"


@pytest.mark.parametrize(("ir", "holds"), [(3, False), (4, True)])
def test_constants_are_initializers_where_these_are_no_inputs(ir, holds):
    space = space_of(source_of(ir))
    before = []
    name = space.constant(tensors.int64s([5, 6]), "five", before)
    assert space.constant(tensors.int64s([5, 6]), "five", before) == name
    assert [node.op_type for node in before] == ([] if holds else ["Constant"])
    assert (name in {t.name for t in space.scope.body.initializer}) is holds
    assert space.array(name).tolist() == [5, 6]
    assert (space.makers.get(name) is None) is holds
    assert (space.may_hold("new"), space.may_hold("y")) == (holds, False)
    assert space.hold("y", tensors.int64s([1])) is False


@pytest.mark.parametrize(
    ("opset", "kind", "ops"),
    [(8, TensorProto.INT64, ["Constant", "Cast"]), (9, TensorProto.INT64, ["Constant"]), (8, TensorProto.FLOAT, ["Constant"]), (8, TensorProto.DOUBLE, ["Constant"])],
)  # fmt: skip
def test_constants_of_all_types_came_with_opset_9(opset, kind, ops):
    source = source_of(3, opset)
    whole = Whole(source, source, None)
    whole.begin()
    space, before = Workspace(source.graph, whole, opset), []
    name = space.constant(onnx.helper.make_tensor("", kind, [1], [5]), "five", before)
    assert ([node.op_type for node in before], before[-1].output[0]) == (ops, name)
    assert space.makers[name] is before[-1]
    assert space.array(name).tolist() == [5]
    assert space.may_be_node(onnx.helper.make_tensor("", kind, [1], [5])) is (len(ops) == 1)


def test_what_is_shared_around_is_shared(space, inside):
    space.shared["key"] = "outer"
    assert (inside.find_shared("key"), inside.find_shared("other"), inside.find_shared(None)) == ("outer", None, None)
    inside.register(NodeProto(output=["new", ""]))
    assert ({"new"} <= inside.own, inside.makers.keys() >= {"new"}, "" in inside.makers) == (True, True, False)


def test_a_round_counts_uses_and_asks_whether_dimensions_matter():
    source = source_of()
    whole = Whole(source, source, None)
    whole.begin()
    assert [whole.uses[name] for name in ("a", "x", "y", "q", "v", "two")] == [2, 3, 1, 2, 2, 0]
    assert (whole.measures, whole.rounds, whole.changed) == (False, 1, 0)
    assert [node.output[0] for node in whole.readers("a")] == ["d", "y"]
    assert whole.readers("two") == []
    source.graph.node.append(onnx.parser.parse_node("s = Shape(x)"))
    context = whole.context
    whole.begin()
    assert (whole.measures, whole.rounds, whole.context is context) == (True, 2, True)
    whole.changed = 1
    assert not whole.context.inference.was_asked
    whole.begin()
    assert (whole.context is context, whole.changed, whole.context.inference.was_asked) == (False, 0, False)
    whole.context.inference.now()
    whole.changed = 1
    whole.begin()
    assert whole.context.inference.was_asked
