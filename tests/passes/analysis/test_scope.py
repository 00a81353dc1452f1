"""What a name means in one graph: who makes it, what it holds, of what type it is."""

import numpy as np
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import FunctionProto, NodeProto, TensorProto
from opshift.passes.analysis.knowledge import Origin
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model import tensors
from opshift.passes.model.types import tensor_type

from tests.support import model

INNER = "g () => (float[2] v) { k = Abs(x) i = Identity(w) v = Add(k, i) }"


def source_of(ir=8):
    made = model(
        "a = Relu(x) i = Identity(w) j = Identity(i) c = Constant<value_ints=[1,2]>() d = my.Thing(a) s = Shape(x) y = Neg(a) l = Identity(c)", 18,
        inputs="float[2,3] x, bool b, float[2] given", outputs="float[2,3] y", constants="float[2] w = {1, 2}, float[2] given = {3, 4}, int64[1] axes = {1}",
        domains='"my" : 1',
    )  # fmt: skip
    made.ir_version = ir
    inner = onnx.parser.parse_graph(INNER)
    inner.initializer.append(onnx.numpy_helper.from_array(np.array([7], np.int64), "own"))
    made.graph.node.append(onnx.helper.make_node("If", ["b"], ["z"], then_branch=inner, else_branch=inner))
    sparse = made.graph.sparse_initializer.add(dims=[3, 4])
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float64), "sparse"))
    return made


def of(source, **more):
    return Scope(source.graph, Context(source, source, **more), 18, path=())


@pytest.fixture
def scope():
    return of(source_of())


@pytest.fixture
def inner(scope):
    return Scope(scope.body.node[-1].attribute[0].g, scope.context, 18, scope, ((8, "then_branch", 0),))


def test_a_name_means_the_innermost_value(scope, inner):
    owners = {name: inner.owner(name) for name in ("k", "own", "i", "a", "x", "w", "given", "sparse", "nothing")}
    assert owners == {
        "k": inner,
        "own": inner,
        "i": inner,
        "a": scope,
        "x": scope,
        "w": scope,
        "given": scope,
        "sparse": scope,
        "nothing": None,
    }
    assert [scope.owner(name) for name in ("k", "own")] == [None, None]
    assert (inner.producer("a"), inner.producer("k"), inner.producer("x"), inner.producer("nothing")) == (
        scope.body.node[0],
        inner.body.node[0],
        None,
        None,
    )
    assert (inner.maker("a"), inner.maker("k")) == (None, inner.body.node[0])


@pytest.mark.parametrize(("ir", "constant"), [(3, True), (4, False)])
def test_what_a_caller_may_override_is_no_constant(ir, constant):
    scope = of(source_of(ir))
    assert scope.is_constant("given") is constant
    assert (scope.tensor("given") is not None) is constant
    assert (scope.is_constant("w"), scope.is_constant("x"), scope.is_constant("c"), scope.is_constant("nothing")) == (
        True,
        False,
        True,
        False,
    )
    assert scope.shape("given") == [2]


def test_constants_are_found_behind_identities(scope, inner):
    assert [scope.array(name).tolist() for name in ("w", "i", "j", "c", "l")] == [[1, 2]] * 2 + [[1, 2]] * 3
    assert (inner.array("i").tolist(), inner.array("w").tolist(), inner.ints("own"), inner.ints("axes")) == (
        [1, 2],
        [1, 2],
        [7],
        [1],
    )
    assert [scope.array(name) for name in ("a", "x", "d", "nothing", "")] == [None] * 5
    assert scope.ints("w") is None
    assert (scope.tensor("w", 2) is not None, scope.tensor("w", 1), scope.tensor("c", 1), scope.tensor("j", 1)) == (
        True,
        None,
        None,
        None,
    )
    assert scope.ints("s") == [2, 3]


def test_a_long_way_is_gone_once():
    body = " ".join(f"i{k} = Identity(i{k - 1})" for k in range(1, 2000)).replace("i0)", "w)")
    scope = of(model(body, 18, inputs="float[2] x", outputs="i1999", constants="float[2] w = {1, 2}"))
    assert scope.array("i1999").tolist() == [1, 2]
    assert len(scope._ends) == 1999
    assert scope._behind_identities("i1000") == (scope, "w")
    cycle = onnx.GraphProto(
        node=[
            NodeProto(op_type="Identity", input=["a"], output=["b"]),
            NodeProto(op_type="Identity", input=["b"], output=["a"]),
        ]
    )
    made = Scope(cycle, scope.context, 18)
    assert (made.tensor("a"), made.array("b")) == (None, None)


def test_graphs_of_the_source_are_at_their_places(scope, inner):
    node = scope.body.node[-1]
    paths = [((8, attribute, 0),) for attribute in ("else_branch", "then_branch")]
    assert [(graph.name, held.path, held.parent) for graph, held in scope.branches(node, 18)] == [
        ("g", path, scope) for path in paths
    ]
    made = NodeProto()
    made.CopyFrom(node)
    scope.record(made, 12)
    assert [(held.path, held.opset) for _, held in scope.branches(made, 12)] == [(None, 12)] * 2
    assert [held.path for _, held in scope.inside(scope.graph, 18).branches(node, 18)] == [None] * 2


def test_what_steps_made_is_remembered(scope):
    node = onnx.helper.make_node("Neg", ["x"], ["new", "other"])
    scope.record(node, 12)
    assert (scope.node_made("new"), scope.source_of("new"), scope.node_to_ask("new"), scope.maker("other")) == (
        (node, 12),
        (node, 12),
        (node, 12),
        node,
    )
    assert (scope.opset_of(node), scope.opset_of(scope.body.node[0])) == (12, 18)
    assert scope.source_of("a") == (scope.body.node[0], 18)
    assert (scope.source_of("x"), scope.node_made("a")) == (None, None)
    again = onnx.helper.make_node("Abs", ["x"], ["a"])
    scope.record(again, 12)
    assert (scope.maker("a"), scope.source_of("a"), scope.opset_of(scope.body.node[0])) == (again, (again, 12), 18)


class Script:
    edits = opaque = True

    def recall(self, made, scope):
        scope.later.pop("d")
        scope.made["d"] = NodeProto(op_type="Told", output=["d"]), 9


def test_what_was_replayed_is_told_when_it_is_asked_for(scope):
    scope.later["d"] = Script(), []
    assert scope.is_opaque("d")
    assert scope.tensor("d") is None
    assert "d" in scope.later
    assert scope.maker("d").op_type == "Told"
    assert (scope.later, scope.is_opaque("d")) == ({}, False)


def test_types_are_of_constants_of_inference_and_of_what_is_declared(scope, inner):
    known = {"x": [2, 3], "a": [2, 3], "w": [2], "c": [2], "s": [2], "sparse": [3, 4], "d": None, "nothing": None}
    assert {name: scope.shape(name) for name in known} == known
    assert [scope.rank(name) for name in known] == [2, 2, 1, 1, 1, 2, None, None]
    assert [scope.elem_type(name) for name in known] == [1, 1, 1, 7, 7, 11, 0, 0]
    assert [inner.shape(name) for name in ("k", "own", "a", "i")] == [[2, 3], [1], [2, 3], [2]]
    assert [inner.elem_type(name) for name in ("k", "own", "a", "i")] == [1, 7, 1, 1]
    assert (scope.elem_type(""), scope.shape(""), scope.type("")) == (0, None, None)
    assert scope.shape_in_source("a") == inner.shape_in_source("a") == [2, 3]
    assert (scope.shape_in_source("d"), inner.shape_in_source("nothing")) == (None, None)


def test_what_is_declared_is_taken_where_it_is_trusted():
    source = source_of()
    source.graph.value_info.add(name="d").type.CopyFrom(tensor_type(1, [5]))
    for trusting in (True, False):
        scope = of(source, trusting=trusting)
        assert (scope.shape("d"), scope.elem_type("d")) == ([5] if trusting else None, 1)
        assert scope.shape("x") == [2, 3]
        assert scope.stated_elem_type("d") == 1
    assert (scope.stated_elem_type("nothing"), scope.stated_elem_type("x")) == (0, 1)


def test_a_type_and_a_shape_say_where_they_come_from():
    source = source_of()
    source.graph.value_info.add(name="d").type.CopyFrom(tensor_type(1, [5]))
    scope = of(source)
    for name in ("x", "a", "w", "c"):  # an input, what a node makes of it, an initializer, a Constant
        assert scope.type_with_origin(name) == (scope.type(name), Origin.INFERRED)
        assert scope.shape_with_origin(name) == (scope.shape(name), Origin.INFERRED)
    assert scope.type_with_origin("d") == (tensor_type(1, [5]), Origin.DECLARED)
    assert scope.shape_with_origin("d") == ([5], Origin.DECLARED)
    for name in ("nothing", ""):
        assert scope.type_with_origin(name) == scope.shape_with_origin(name) == (None, Origin.UNKNOWN)


def test_the_source_stays_as_it_was_while_the_scope_is_rewritten(scope):
    node = scope.source.producer("a")
    scope.record(NodeProto(op_type="Neg", input=["x"], output=["a"]), 12)
    scope.typed["a"] = tensor_type(10, [7])
    assert (scope.source.producer("a"), scope.producer("a").op_type) == (node, "Neg")
    assert (scope.source.shape("a"), scope.shape("a")) == ([2, 3], [7])
    assert (scope.source.type("a"), scope.source.declared_type("a")) == (tensor_type(1, [2, 3]), None)
    assert (scope.source.producer("x"), scope.source.type("nothing")) == (None, None)


def test_what_steps_state_is_taken_first(scope):
    scope.typed["a"] = tensor_type(10, [7])
    assert (scope.shape("a"), scope.elem_type("a"), scope.certain("a"), scope.stated_elem_type("a")) == (
        [7],
        10,
        tensor_type(10, [7]),
        10,
    )
    scope.typed["d"] = tensor_type(10)
    assert (scope.shape("d"), scope.elem_type("d"), scope.certain("d")) == (None, 10, None)
    scope.elem_types["s"] = 6
    assert scope.elem_type("s") == 6
    assert scope.certain("x") == tensor_type(1, [2, 3])
    assert scope.certain("c") == tensor_type(7, [2])
    assert scope.certain("w") == tensor_type(1, [2])
    assert scope.certain("y") is None


def test_what_is_seeded_holds_where_nothing_better_is_known(scope):
    kinds = [tensor_type(7, [9]), tensor_type(7, [9]), None, tensor_type(0), tensor_type(7)]
    scope.seed(["x", "d", "s", "nothing", ""], kinds)
    assert scope.typed == {"d": tensor_type(7, [9])}
    scope.seed(["d"], [tensor_type(1, [1])])
    assert scope.shape("d") == [9]
    scope.typed["e"] = tensor_type(1)
    scope.seed(["e", "f"], [tensor_type(1, [2]), tensor_type(10)])
    assert (scope.typed["e"], scope.typed["f"]) == (tensor_type(1, [2]), tensor_type(10))


def test_types_that_readers_cannot_infer_are_declared():
    source = source_of()
    source.graph.output.add(name="n")
    scope = of(source)
    scope.record(onnx.helper.make_node("Neg", ["x"], ["m"]), 18)
    scope.record(onnx.helper.make_node("Neg", ["x"], ["n"]), 18)
    for name in ("m", "n", "a", "y"):
        scope.declare(name)
    assert {value.name: value.type for value in source.graph.value_info} == {"m": tensor_type(1, [2, 3])}
    assert source.graph.output[1].type == tensor_type(1, [2, 3])
    function = Scope(FunctionProto(), scope.context, 18)
    function.record(onnx.helper.make_node("Neg", ["x"], ["m"]), 18)
    function.declare("m")
    assert function.graph is None


def test_sequences_that_nobody_makes_hold_their_elements(scope, inner):
    scope.dissolve("q", ["a", "x"])
    assert scope._elements == {"q": ["a", "x"]}
    scope.record(NodeProto(output=["q"]), 18)
    assert (scope.elements("q"), inner.elements("q"), inner.elements("a"), inner.elements("nothing")) == (
        ["a", "x"],
        ["a", "x"],
        None,
        None,
    )
    assert scope.context.dissolved == {"q"}


def test_equal_constants_are_one_initializer(scope, inner):
    name = scope.constant(tensors.int64s([5]), "five")
    assert scope.constant(tensors.int64s([5]), "other") == name
    assert (scope.constants_made, scope.context.released) == ({name}, {name})
    assert (scope.ints(name), inner.ints(name)) == ([5], [5])
    assert inner.constant(tensors.int64s([5]), "five") != name
    assert Scope(FunctionProto(), scope.context, 18).constant(tensors.int64s([5]), "five") is None
    assert scope.initializers[name].name == scope.body.initializer[-1].name == name
    scope.answered["tensor", name] = scope.answered["small", name] = scope.answered["shape", name] = (1, 1)
    scope.hold(name, tensors.int64s([6, 7]))
    assert (scope.ints(name), [*scope.answered], scope.shape(name)) == ([6, 7], [("shape", name)], [2])


def test_bytes_of_a_constant_as_another_type(scope):
    raw = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "raw")
    scope.hold("raw", raw)
    name = scope.relabel_constant("raw", TensorProto.INT32, [2, 1])
    assert scope.array(name).tolist() == np.array([[1.0], [2.0]], np.float32).view(np.int32).tolist()
    assert scope.relabel_constant("raw", TensorProto.INT64, [2]) is None
    assert [scope.relabel_constant(name, TensorProto.INT32, [2]) for name in ("w", "a", "x", "c")] == [None] * 4
    stored = TensorProto(data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="f")
    scope.hold("stored", stored)
    made = scope.initializers[scope.relabel_constant("stored", TensorProto.INT32, [2])]
    assert (made.data_type, made.external_data[0].value, made.name != "stored") == (6, "f", True)


def test_what_hangs_on_calls_is_open():
    text = """<ir_version: 8, opset_import: ["" : 18, "f" : 1]> g (float[2] x, bool b) => (float[2] y) { y = f.F(x) }
        <opset_import: ["" : 18], domain: "f"> F <k> (x, lo) => (y) { a = Clip(x, lo) d = Elu<alpha: float = @k>(x) e = Relu(x) y = If(b) <
            then_branch = t () => (v) { v = Clip(x, lo) }, else_branch = s () => (v) { v = Relu(x) }> }"""
    source = onnx.parser.parse_model(text)
    context = Context(source, source)
    scope = Scope(source.functions[0], context, 18)
    assert [scope.is_open(node) for node in scope.body.node] == [True, True, False, False]
    inner = Scope(scope.body.node[3].attribute[0].g, context, 18, scope)
    assert inner.is_open(inner.body.node[0])
    main = Scope(source.graph, context, 18, path=())
    assert not main.is_open(NodeProto(op_type="Clip", input=["x", "lo"]))
    assert context.local == {("f", "F")}
    assert not Scope(main.body, context, 18, main).is_open(NodeProto(op_type="Clip", input=["x", "lo"]))


def test_outputs_that_nobody_reads(scope):
    assert scope.context.unread == {"j", "d", "s", "l", "z"}
    assert scope.results.keys() == {"y"}
    assert Scope(FunctionProto(output=["y"]), scope.context, 18).results == {}


def test_all_element_types_at_once_are_those_one_by_one():
    body = """a = Cast<to=7>(x) c = Constant<value_ints=[1]>() d = Identity(a) e = Add(d, c) g = Shape(x) h = my.Thing(x) i = Relu(h) j = Relu(x) k = Equal(a, c)
        l = CastLike(x, a) m = Where(k, a, c) n = Identity(h) o = Dropout(x)"""
    source = model(body, 18, inputs="float[2] x", outputs="i", domains='"my" : 1')
    at_once, one_by_one = of(source), of(source)
    at_once.spread_elem_types()
    assert [at_once.elem_types.get(name, 0) for name in "adegj"] == [0, 0, 0, 7, 1]
    for name in "acdeghijklmno":
        assert at_once.elem_types.get(name, 0) in (0, one_by_one.elem_type(name)), name
        assert at_once.elem_type(name) == one_by_one.elem_type(name)


def test_fewer_types_than_values_are_seeded(scope):
    scope.seed(["d", "e"], [tensor_type(7, [9])])
    assert scope.typed == {"d": tensor_type(7, [9])}


def test_a_shape_has_the_rank_that_nodes_tell(scope):
    """Also where nothing tells a size: no shape would be read as that of a scalar."""
    reshaped, turned = (
        onnx.helper.make_node("Foo", ["x"], ["r"]),
        onnx.helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
    )
    for node in (reshaped, turned):
        scope.record(node, 18)
    assert [scope.shape(name) for name in ("r", "t")] == [None, [None, None]]
    assert [scope.rank(name) for name in ("r", "t")] == [None, 2]
