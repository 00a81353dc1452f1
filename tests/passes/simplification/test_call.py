"""A node as rules see it: what they ask of it, and what they change."""

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.analysis.polynomial import symbol
from opshift.passes.model import tensors
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import parts
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import KnownNumbers, Workspace

from tests.support import model

BODY = "a = Relu(x) b, g, e = TopK<axis=1, largest=0>(a, k) d = my.Thing(a) f = Add(a, r) y = Slice(a, s, t, , w)"


@pytest.fixture
def space():
    source = model(
        BODY,
        18,
        inputs="float[2,N] x",
        outputs="y, b",
        constants="int64[1] k = {1}, int64[1] s = {0}, int64[1] t = {2}, int64[1] w = {1}, float[2] r = {1, 2}",
        domains='"my" : 1',
    )
    whole = Whole(source, source, None)
    whole.begin()
    made = Workspace(source.graph, whole, 18, path=())
    for node in source.graph.node:
        made.register(node)
    return made


def call(space, index):
    return Call(space.scope.body.node[index], space)


def test_what_a_rule_asks(space):
    top, cut = call(space, 1), call(space, 4)
    assert (top.op, top.opset, top.output, top.input(0), top.input(7), cut.input(3)) == ("TopK", 18, "b", "a", "", "")
    assert (top.attribute("axis"), top.attribute("sorted"), top.attribute("sorted", 1)) == (1, None, 1)
    assert (top.ints(1), top.ints(0), top.ints(7), top.known_numbers(1), top.known_numbers(7)) == (
        [1],
        None,
        None,
        KnownNumbers(False, (1,)),
        None,
    )
    assert (top.array(1).tolist(), top.array(1, 7), top.array(7), cut.array(3)) == ([1], None, None, None)
    assert (top.shape(), top.shape(7), top.shape_of("x"), top.elem_type(), top.elem_type(1), top.elem_type(7)) == (
        (2, symbol("N")),
        None,
        (2, symbol("N")),
        1,
        7,
        0,
    )
    assert (top.axes(), cut.axes(2), cut.axes(3)) == ([1], [2], None)
    top.set("axes", [3])
    assert top.axes() == [3]


def test_who_makes_an_input(space):
    assert (call(space, 1).maker().op, call(space, 1).maker(1), call(space, 0).maker()) == ("Relu", None, None)
    assert call(space, 1).maker_if("Relu").op == "Relu"
    assert call(space, 1).maker_if("Abs") is None
    assert call(space, 0).maker_if("Relu") is None
    space.makers["x"] = space.scope.body.node[2]
    assert call(space, 0).maker() is None, "of a custom domain"


def test_who_reads_what(space):
    assert [call(space, index).alone() for index in (0, 1)] == [True, False]
    space.whole.uses["a"] = 1
    assert call(space, 1).alone()
    space.whole.fixed = frozenset("a")
    assert not call(space, 1).alone()
    top = call(space, 1)
    assert [top.is_unused(index) for index in range(4)] == [False, True, True, True]
    top.proto.output[0] = ""
    assert call(space, 1).is_unused(0)


def test_attributes_are_set_and_removed(space):
    top = call(space, 1)
    top.set("axis", 0)
    assert {a.name: a.i for a in top.proto.attribute} == {"axis": 0, "largest": 0}
    top.set("axis", None)
    top.set("sorted", None)
    assert [a.name for a in top.proto.attribute] == ["largest"]
    top.proto.attribute.append(onnx.helper.make_attribute("largest", 1))
    top.set("largest", 0)
    assert [a.i for a in top.proto.attribute] == [1, 0], "one is replaced"


def test_inputs_that_are_read_are_counted(space):
    uses, add = dict(space.whole.uses), call(space, 3)
    add.read("x", "r", "", "")
    assert (list(add.proto.input), space.whole.uses["x"]) == (["x", "r"], uses["x"] + 1)
    add.read("", "r")
    assert list(add.proto.input) == ["", "r"]


def test_nodes_that_are_made_in_front_are_made_once(space):
    add = call(space, 3)
    first = add.emit("Shape", ["a"], (2,), start=1)
    assert (
        add.emit("Shape", ["a"], start=1),
        add.emit("Shape", ["a"], start=0) != first,
        add.emit("Shape", ["x"], start=1) != first,
    ) == (first, True, True)
    assert [node.output[0] for node in add.before][:1] == [first]
    assert (
        first.startswith("f/Shape"),
        add.before[0].name,
        space.shape(first),
        space.makers[first] is add.before[0],
    ) == (True, "", (2,), True)
    add.proto.name = "sum"
    assert add.emit("Abs", ["a"]).startswith("f/Abs")
    assert add.before[-1].name.startswith("sum/Abs")
    uses = space.whole.uses["d"]
    add.emit("Neg", ["d"])
    assert space.whole.uses["d"] == uses + 1


def test_constants_and_grades(space):
    add = call(space, 3)
    name = add.constant(tensors.int64s([9]))
    assert (name.startswith("f/const"), add.constant(tensors.int64s([9]), "other"), space.array(name).tolist()) == (
        True,
        name,
        [9],
    )
    assert add.constant(tensors.int64s([8]), "other").startswith("other")
    assert (add.grade, add.remark) == ("exact", "")
    add.close("one")
    assert (add.grade, add.remark) == ("close", "one")
    add.close("two")
    assert add.remark == "one; two"
    add.grant()
    assert space.whole.leans


def test_an_array_that_is_held_is_the_constant_that_is_written(space):
    node = call(space, 4)
    held = np.float16([[1, 2], [3, 4]])
    name = node.hold(held, "made")
    assert node.hold(held, "again") == name
    written = onnx.numpy_helper.to_array(space.tensor(name))
    np.testing.assert_array_equal(space.array(name), written, strict=True)


def test_inputs_are_those_of_the_node_after_it_reads_others(space):
    node = call(space, 4)
    assert node.input(0) == "a"
    node.read("x", "r", "")
    assert [node.input(k) for k in range(3)] == ["x", "r", ""]
    assert list(node.proto.input) == ["x", "r"]


@pytest.mark.parametrize(
    ("given", "shape", "bounds"),
    [
        ("s, t", (5, 6), ([0], [2], [0], [1])), ("s, t, o", (5, 6), ([0], [2], [1], [1])), ("s, t, m", (5, 6), ([0], [2], [1], [1])), ("s, t, m", None, None),
        ("s, t, z", None, ([0], [2], [0], [1])), ("s, t, o, u", (5, 6), ([0], [2], [1], [2])), ("s, t, o, z", (5, 6), None), ("s, t, run", (5, 6), None),
        ("s, t, o, run", (5, 6), None), ("run, t, o", (5, 6), None), ("s, run, o", (5, 6), None), ("ss, tt, om", (5, 6), None), ("ss, tt, zo", (5, 6), ([0, 0], [2, 2], [0, 1], [1, 1])),
        ("ss, t", (5, 6), None), ("ss, tt, o", (5, 6), None), ("ss, tt, zo, u", (5, 6), None),
    ],
)  # fmt: skip
def test_bounds_of_a_slice(given, shape, bounds):
    constants = "int64[1] s = {0}, int64[1] t = {2}, int64[1] o = {1}, int64[1] m = {-1}, int64[1] z = {0}, int64[1] u = {2}, int64[2] ss = {0, 0}, int64[2] tt = {2, 2}, int64[2] om = {1, -1}, int64[2] zo = {0, 1}"
    kind = "float[5,6] x" if shape else "float[5,6] x0"
    source = model(
        f"x1 = my.Thing(x0) y = Slice({'x' if shape else 'x1'}, {given})" if not shape else f"y = Slice(x, {given})",
        18,
        inputs=f"{kind}, int64[1] run",
        outputs="y",
        constants=constants,
        domains='"my" : 1',
    )
    whole = Whole(source, source, None)
    whole.begin()
    assert parts._bounds(Call(source.graph.node[-1], Workspace(source.graph, whole, 18, path=()))) == bounds


def test_arrays_of_files_are_read(tmp_path):
    np.array([1.5, 2.5], np.float32).tofile(tmp_path / "f")
    source = model("y = Add(x, s)", 18, inputs="float[2] x", outputs="y")
    stored = source.graph.initializer.add(name="s", data_type=1, dims=[2], data_location=1)
    stored.external_data.add(key="location", value="f")
    whole = Whole(source, source, str(tmp_path))
    whole.begin()
    assert Call(source.graph.node[0], Workspace(source.graph, whole, 18, path=())).array(1).tolist() == [1.5, 2.5]
