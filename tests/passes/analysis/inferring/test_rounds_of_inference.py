"""What one round of type inference tells the next: ranks by lengths, constants, and what older packages leave open."""

import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx.shape_inference
import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.inferring import model_inference, node_inference, type_inference
from opshift.passes.analysis.inferring.strict_inference import contradiction
from opshift.passes.analysis.scope import Context, Scope, of_model
from opshift.passes.analysis.shapes import Shapes, graph_types
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite.builder import Builder

from tests.support import model

T = TensorProto


def told_ranks(shaped, *, stated=None, kinds=None, lengths=(), constants=""):
    """What the lengths of shapes tell of a value that nothing else is known of."""
    source = model(
        shaped, 18, inputs="int64[L] s, int64[3] v, float[A,B] data, float u", outputs="float out", constants=constants
    )
    if stated is not None:
        source.graph.value_info.add(name="z").type.CopyFrom(stated)
    inferred = ModelProto()
    inferred.CopyFrom(source)
    for name, kind in (kinds or {}).items():
        inferred.graph.value_info.add(name=name).type.CopyFrom(kind)
    found = model_inference._add_ranks(source.graph, inferred.graph, dict(lengths).get)
    return found, {value.name: value.type for value in source.graph.value_info}


@pytest.mark.parametrize(
    ("shaped", "given", "rank"),
    [
        ("z = Reshape(data, v)", {}, 3),
        ("z = Reshape(data, s)", {}, None),
        ("z = Reshape(data, w)", {"constants": "int64[2] w = {1, 2}"}, 2),
        ("z = Reshape(data, w)", {"constants": "int64[2,1] w = {1, 2}"}, None),
        ("z = Reshape(data, w)", {"lengths": {"w": 4}}, 4),
        ("z = Reshape(data, v)", {"lengths": {"v": 4}}, 3),
        ("z = Reshape(data, w)", {"lengths": {"w": 4}, "kinds": {"w": tensor_type(7)}}, None),
        ("z = Reshape(data, w)", {"kinds": {"w": tensor_type(7, [5])}}, 5),
        ("z = Reshape(data, w)", {"kinds": {"w": tensor_type(7, [5, 1])}}, None),
        ("z = Reshape(data, w)", {"kinds": {"w": tensor_type(7, [0])}}, None),
        ("z = Reshape(data, w)", {"kinds": {"w": tensor_type(7, [64])}}, 64),
        ("z = Reshape(data, w)", {"kinds": {"w": tensor_type(7, [65])}}, None),
        ("z = ConstantOfShape(v)", {}, 3),
        ("z = Expand(data, v)", {}, 3),
        ("z = Expand(data, w)", {"kinds": {"w": tensor_type(7, [1])}}, 2),
        ("z = Expand(k, v)", {}, None),
        ("z = Expand(k, v)", {"kinds": {"k": tensor_type(1)}}, None),
        ("z = Reshape(data)", {}, None),
        ("z = Relu(v)", {}, None),
        ("z = my.Reshape(data, v)", {}, None),
        ("z = Reshape(data, v)", {"kinds": {"z": tensor_type(1, [2])}}, None),
    ],
)
def test_ranks_by_lengths(shaped, given, rank):
    found, stated = told_ranks(shaped, **given)
    assert found is (rank is not None)
    assert [len(kind.tensor_type.shape.dim) for kind in stated.values()] == ([] if rank is None else [rank])


def test_ranks_by_lengths_keep_types_and_places():
    kinds = {"z": tensor_type(10)}
    assert told_ranks("z = Reshape(data, v)", kinds=kinds) == (True, {"z": tensor_type(10, [None] * 3)})
    assert told_ranks("z = Reshape(data, v)", stated=tensor_type(10), kinds=kinds) == (
        True,
        {"z": tensor_type(10, [None] * 3)},
    )
    found, stated = told_ranks("out = Reshape(data, v)", kinds={})
    assert (found, stated) == (False, {})  # it is declared, with its shape
    two = "z = my.Thing(u) k = Reshape(data, s) a = Reshape(data, v) b = Expand(q, v) e = ConstantOfShape(v)"
    assert [*told_ranks(two)[1]] == ["a", "e"]


def test_lengths_of_around_are_known_in_graphs():
    body = "t = If(c) <then_branch = t () => (r) { r = Reshape(data, v) }, else_branch = e () => (q) { q = Reshape(data, s) }>"
    source = model(body, 18, inputs="bool c, int64[L] s, int64[3] v, float[A,B] data", outputs="out")
    assert model_inference._add_ranks(source.graph, source.graph)
    branches = {attribute.name: attribute.g for attribute in source.graph.node[0].attribute}
    assert len(branches["then_branch"].output[0].type.tensor_type.shape.dim) == 3
    assert not branches["else_branch"].output[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("y = Relu(x)", False),
        ("a = my.Thing(x) y = Relu(x)", True),
        ("a = NonZero(x) y = Relu(x)", True),
        ("a, , b = my.Thing(x) y = Relu(x)", True),
    ],
)
def test_inference_is_silent_where_something_is_open(body, silent):
    source = onnx.shape_inference.infer_shapes(
        model(body, 18, inputs="float[2,N] x", outputs="float[2,N] y", domains='"my" : 1')
    )
    assert model_inference._is_silent(source.graph, Shapes(graph_types(source.graph))) is silent
    if body == "y = Relu(x)":
        source.graph.node[0].output.append("")
        assert not model_inference._is_silent(source.graph, Shapes(graph_types(source.graph)))


def test_small_constants_are_computed_for_inference():
    source = model(
        "k = Constant<value_ints=[1,2]>() a = Add(k, w) b = Add(x, w) d = Mul(a, k) h = Concat<axis=0>(large, w) p, q = Split(w)", 18, inputs="int64[2] x",
        outputs="int64[2] d", constants="int64[2] w = {3, 4}",
    )  # fmt: skip
    big = onnx.helper.make_node("Constant", [], ["big"], value=onnx.helper.make_tensor("", T.INT64, [5000], [0] * 5000))
    source.graph.node.extend([big, onnx.parser.parse_node("s = Size(big)"), onnx.parser.parse_node("e = Identity(d)")])
    assert model_inference._compute_constants(source, of_model)
    held = {node.output[0]: node for node in source.graph.node}
    values = {n: onnx.numpy_helper.to_array(held[n].attribute[0].t).tolist() for n in ("a", "d", "e")}
    assert values == {"a": [4, 6], "d": [4, 12], "e": [4, 12]}
    assert [held[name].op_type for name in ("a", "b", "d", "h", "p", "s")] == [
        "Constant",
        "Add",
        "Constant",
        "Concat",
        "Split",
        "Size",
    ]
    assert not held["a"].input
    assert not model_inference._compute_constants(
        model("y = Relu(x)", 18, inputs="float[2] x", outputs="float[2] y"), of_model
    )


def test_what_an_older_onnx_knows_less_of():
    source = model(
        "a = Reshape(x, s) b = Relu(a) d = Relu(x) e = Gemm(x, x) f = Expand(x, s)",
        18,
        inputs="float[N,2] x, int64[2] s",
        outputs="b",
    )
    types = {
        "a": tensor_type(1, [None, 2]),
        "b": tensor_type(1, ["N", 2]),
        "d": tensor_type(1),
        "e": tensor_type(1, ["unk__1"]),
        "f": tensor_type(1, ["N", 3]),
    }
    assert type_inference._find_less_known(source, [Shapes(types)]) == {"a", "e"}
    types["b"] = tensor_type(1, [None])
    assert type_inference._find_less_known(source, [Shapes(types)]) == {"a", "b", "e"}


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        (None, False),
        (tensor_type(1), False),
        (tensor_type(1, []), True),
        (tensor_type(1, [2, "N"]), True),
        (tensor_type(1, [2, None]), False),
        (tensor_type(1, ["unk__3"]), False),
    ],
)
def test_a_type_is_whole_where_all_sizes_have_names(kind, whole):
    assert type_inference.is_whole(kind) is whole


def test_a_cast_of_old_has_the_type_that_it_spells():
    source = model("y = Neg(x)", 5, inputs="float[2,3] x", outputs="float[2,3] y")
    scope = Scope(source.graph, Context(source, source), 5)
    build = Builder(scope, 5)
    made = build.Cast("x", to=T.INT64)
    assert (scope.type(made), build.nodes[0].attribute[0].s) == (tensor_type(T.INT64, [2, 3]), b"INT64")


def test_what_fails_is_blamed_on_an_invalid_model():
    right = model("y = Add(x, x)", 18, inputs="float[2] x", outputs="float[2] y")
    illegal = model("y = Add(x)", 18, inputs="float[2] x", outputs="float[2] y")
    wrong = model("y = Add(x, k)", 18, inputs="float[2] x, int64[2] k", outputs="float[2] y")
    for source, error, raised, why in (
        (illegal, KeyError("a"), InvalidModel, "the model is not valid: Add 'y' is not legal at opset 18: 1 inputs"),
        (wrong, KeyError("a"), InvalidModel, "the model is not valid: .*inconsistent type"),
        (right, KeyError("a"), KeyError, "a"),
        (right, ValueError("a"), RuntimeError, "a"),
        (illegal, InvalidModel("a"), InvalidModel, "^a$"),
    ):
        with pytest.raises(raised, match=why), blaming(source):
            raise error
    assert contradiction(right) == ""
    assert "Inferred" in contradiction(wrong) or "inconsistent" in contradiction(wrong)


def test_branches_in_branches_are_inferred_from_what_is_known_of_the_source(monkeypatch):
    """Of Ifs in each other, whose branches are of two ranks, no node is inferred by itself but the Ifs."""
    depth = 6
    text = "y0 = Reshape(x, s)"
    for level in range(depth):
        nested = f"then_branch = t{level} () => (float y{level}) {{ {text} }}"
        other = f"else_branch = e{level} () => (float z{level}) {{ a{level} = Relu(x) z{level} = Neg(a{level}) }}"
        text = f"y{level + 1} = If (c) <{nested}, {other}>"
    body = text.replace(" => (float ", " => (")
    source = model(body, 16, inputs="float[N,6] x, bool c", outputs=f"y{depth}", constants="int64[3] s = {0, 2, 3}")
    inferred, infer = [], node_inference.infer_node
    monkeypatch.setattr(
        node_inference, "infer_node", lambda node, *of: inferred.append(node.op_type) or infer(node, *of)
    )
    result = convert.attempt(source, {"": 13})
    assert result.model is not None, result.refusals
    assert set(inferred) == {"If"}
    assert len(inferred) <= depth * (depth + 1) / 2
