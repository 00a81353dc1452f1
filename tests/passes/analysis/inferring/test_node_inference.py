"""What nodes make whose types ONNX's inference of a node does not tell: branches, loops, scans, old casts."""

import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.analysis.inferring import node_inference
from opshift.passes.model.types import dims_of, elem_type_of, tensor_type

F, H, I64, B = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


class Scope:
    """What is known of values by name, and what is told of them; graphs inside know what `held` says of theirs."""

    def __init__(self, held, inner=()):
        self.held, self.inner, self.typed, self.seeded, self.opset = held, list(inner), {}, {}, 0

    def inside(self, graph, opset):
        found = self.inner.pop(0)
        found.opset = opset
        return found

    def branches(self, node, opset):
        return [(attribute.g, self.inside(attribute.g, opset)) for attribute in node.attribute]

    def elem_type(self, name):
        return self.held.get(name, (0, None))[0]

    def shape(self, name):
        return self.held.get(name, (0, None))[1]

    def type(self, name):
        return tensor_type(*self.held[name]) if name in self.held else None

    def seed(self, names, kinds):
        self.seeded.update(zip(names, kinds, strict=False))


def told(kinds):
    return {
        name: kind and (elem_type_of(kind), dims_of(kind) if kind.tensor_type.HasField("shape") else None)
        for name, kind in kinds.items()
    }


def graph(inputs, outputs):
    values = [[onnx.helper.make_empty_tensor_value_info(name) for name in names.split()] for names in (inputs, outputs)]
    return onnx.helper.make_graph([], "g", *values)


@pytest.mark.parametrize(
    ("then", "other", "found"),
    [
        ((F, [2, "N"]), (F, [2, "N"]), (F, [2, "N"])),
        ((F, [2, 3]), (F, [2, 4]), (F, [2, None])),
        ((F, [2]), (F, [2, 3]), (F, None)),
        ((F, [2]), (F, None), (F, None)),
        ((F, []), (F, []), (F, [])),
        ((F, [2]), (H, [2]), None),
        ((F, [2]), (0, [2]), None),
        ((0, [2]), (0, [2]), None),
    ],
)
def test_what_branches_agree_upon(then, other, found):
    node = onnx.helper.make_node("If", ["c"], ["y", "z"], then_branch=graph("", "p q"), else_branch=graph("", "r s"))
    inner = [Scope({"r": other, "s": (I64, [1])}), Scope({"p": then, "q": (I64, [1])})]  # as attributes are sorted
    scope = Scope({}, inner)
    node_inference._infer_branches(node, 17, scope)
    assert [each.opset for each in inner] == [17, 17]
    assert told(scope.typed) == {**({"y": found} if found else {}), "z": (I64, [1])}


def test_what_a_loop_carries_and_collects():
    node = onnx.helper.make_node(
        "Loop", ["m", "c", "a", "b"], ["x", "y", "rows", "more"], body=graph("i d p q", "e r s t u")
    )
    inner = Scope({"r": (F, [2, 3]), "s": (H, [4]), "t": (F, [5]), "u": (I64, None)})
    scope = Scope({"a": (F, [2, 7]), "b": (H, None)}, [inner])
    node_inference._infer_loop(node, 18, scope)
    assert inner.opset == 18
    assert told(inner.seeded) == {"i": (I64, []), "d": (B, []), "p": (F, None), "q": (H, None)}
    assert told(scope.seeded) == {"x": (F, [2, None]), "y": (H, None), "rows": (F, [None, 5]), "more": (I64, None)}


def test_a_loop_that_begins_with_what_nobody_knows():
    node = onnx.helper.make_node("Loop", ["m", "c", "a"], ["x"], body=graph("i d p", "e r"))
    inner = Scope({"r": (F, [2])})
    scope = Scope({}, [inner])
    node_inference._infer_loop(node, 18, scope)
    assert inner.seeded["p"] is None
    assert told(scope.seeded) == {"x": (F, None)}
    bare = onnx.helper.make_node("Loop", ["m"], ["rows"], body=graph("i d", "e r"))
    scope = Scope({}, [Scope({"r": (F, [2])})])
    node_inference._infer_loop(bare, 18, scope)
    assert told(scope.seeded) == {"rows": (F, [None, 2])}


@pytest.mark.parametrize(
    ("attributes", "read", "made"),
    [
        ({}, (F, [2, 3]), (F, ["L", 5, 6])),
        ({"scan_input_axes": [1], "scan_output_axes": [1]}, (F, ["L", 3]), (F, [5, 2, 6])),
        ({"scan_input_axes": [-1], "scan_output_axes": [-1]}, (F, ["L", 2]), (F, [5, 6, 3])),
    ],
)
def test_what_a_scan_keeps_and_collects(attributes, read, made):
    node = onnx.helper.make_node(
        "Scan", ["a", "x"], ["s", "rows"], body=graph("p q", "r t"), num_scan_inputs=1, **attributes
    )
    inner = Scope({"r": (F, [4]), "t": (F, [5, 6])})
    scope = Scope({"a": (F, [4]), "x": (F, ["L", 2, 3])}, [inner])
    node_inference._infer_scan(node, 9, scope)
    assert told(inner.seeded) == {"p": (F, [4]), "q": read}
    assert told(scope.seeded) == {"s": (F, [4]), "rows": made}


def test_a_scan_of_old_goes_through_a_batch():
    node = onnx.helper.make_node("Scan", ["", "a", "x"], ["s", "rows"], body=graph("p q", "r t"), num_scan_inputs=1)
    inner = Scope({"r": (F, [4]), "t": (F, [5])})
    scope = Scope({"a": (F, ["B", 4]), "x": (F, ["B", "L", 3])}, [inner])
    node_inference._infer_scan(node, 8, scope)
    assert told(inner.seeded) == {"p": (F, [4]), "q": (F, [3])}
    assert told(scope.seeded) == {"s": (F, ["B", 4]), "rows": (F, ["B", "L", 5])}


def test_a_scan_of_what_nobody_knows():
    node = onnx.helper.make_node("Scan", ["x"], ["rows", "more"], body=graph("q", "t u"), num_scan_inputs=1)
    inner = Scope({"t": (F, [5]), "u": (H, None)})
    scope = Scope({"x": (F, None)}, [inner])
    node_inference._infer_scan(node, 9, scope)
    assert told(inner.seeded) == {"q": (F, None)}
    assert told(scope.seeded) == {"rows": (F, [None, 5]), "more": (H, None)}


def test_of_several_that_are_scanned_the_first_tells_the_length():
    node = onnx.helper.make_node("Scan", ["w", "x", "z"], ["rows"], body=graph("o q v", "t"), num_scan_inputs=3)
    scope = Scope({"w": (F, None), "x": (F, [7, 3]), "z": (F, ["L"])}, [Scope({"t": (F, [])})])
    node_inference._infer_scan(node, 9, scope)
    assert told(scope.seeded) == {"rows": (F, [7])}


@pytest.mark.parametrize(
    ("types", "shape"), [({"x": tensor_type(F, [2])}, [2]), ({"x": tensor_type(F)}, None), ({}, None)]
)
def test_a_cast_that_spells_its_type(types, shape):
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to="FLOAT16")
    before = {name: kind.SerializeToString() for name, kind in types.items()}
    assert told(node_inference._infer_old_cast(node, types)) == {"y": (H, shape)}
    assert {name: kind.SerializeToString() for name, kind in types.items()} == before


def referring(**kinds):
    node = onnx.helper.make_node("Op", ["x"], ["y"])
    for name, kind in kinds.items():
        node.attribute.add(name=name, ref_attr_name="given", type=getattr(onnx.AttributeProto, kind))
    return node


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (referring(), {"y": (F, [2])}),
        (referring(alpha="FLOAT"), {"y": (F, [2])}),
        (referring(axis="INT"), {"y": (F, None)}),
        *(
            (referring(**{name: "INT"}), {})
            for name in ("dtype", "output_datatype", "output_dtype", "stash_type", "to")
        ),
    ],
)
def test_what_hangs_on_what_callers_give(node, found):
    assert told(node_inference._without_references(node, {"y": tensor_type(F, [2])})) == found


def test_a_sequence_is_what_it_is_whatever_callers_give():
    kind = onnx.helper.make_sequence_type_proto(tensor_type(F, [2]))
    assert node_inference._without_references(referring(axis="INT"), {"y": kind})["y"] == kind


def test_types_that_say_all_there_is_to_say():
    sequence = onnx.helper.make_sequence_type_proto(tensor_type(F))
    assert [node_inference.is_known(kind) for kind in (None, tensor_type(F), tensor_type(F, []), sequence)] == [
        False, False, True, True,
    ]  # fmt: skip
