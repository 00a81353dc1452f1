"""What is wrong with parts of a model, in words, and whether onnx.checker finds the same."""

import math
from itertools import combinations

import onnx
import onnx.checker
import onnx.helper
import pytest
from onnx import AttributeProto, SparseTensorProto, TensorProto, TypeProto
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_validity, validity

from tests.support import model

FIELDS = {
    "float_data": [1.0], "int32_data": [1], "string_data": [b"a"], "int64_data": [1], "raw_data": b"\1" * 16, "double_data": [1.0],
    "uint64_data": [1],
}  # fmt: skip


def refused(check, of):
    try:
        check(of)
    except onnx.checker.ValidationError:
        return True
    return False


@pytest.mark.parametrize("kind", [*sorted(TensorProto.DataType.values()), 99])
def test_a_tensor_holds_its_data_in_one_field_of_its_type(kind):
    for used in (names for count in range(3) for names in combinations(FIELDS, count)):
        for dims in ([1], [2], [0]):
            data = {name: FIELDS[name] * (1 if name == "raw_data" else math.prod(dims) or 1) for name in used}
            tensor = TensorProto(name="t", data_type=kind, dims=dims, **data)
            assert bool(tensor_validity.fault(tensor)) == refused(onnx.checker.check_tensor, tensor), tensor


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "has no element type"),
        ({"data_type": 1, "dims": [2, -1]}, "has a negative dimension: [2, -1]"),
        ({"data_type": 1, "dims": [1 << 62, 2]}, f"has too many elements: [{1 << 62}, 2]"),
        ({"data_type": 1, "dims": [0], "float_data": [1.0]}, "has no elements, but holds data in float_data"),
        ({"data_type": 1, "dims": [0]}, ""),
        ({"data_type": 99, "dims": [0]}, "is of the unknown element type 99"),
        ({"data_type": 1, "dims": [1]}, "holds data in no field; it must be in one field"),
        (
            {"data_type": 1, "dims": [1], "float_data": [1.0], "int32_data": [1]},
            "holds data in float_data and int32_data; it must be in one field",
        ),
        ({"data_type": 8, "dims": [1], "raw_data": b"a"}, "holds strings as raw_data, which is not allowed"),
        ({"data_type": 1, "dims": [3], "raw_data": b"a"}, "has 1 bytes of data; its shape and type need 12"),
        ({"data_type": 22, "dims": [3], "raw_data": b"a"}, "has 1 bytes of data; its shape and type need 2"),
        ({"data_type": 99, "dims": [3], "raw_data": b"a"}, ""),
        ({"data_type": 99, "dims": [1], "int32_data": [1]}, "is of the unknown element type 99"),
        (
            {"data_type": 1, "dims": [1], "int32_data": [1]},
            "holds data in int32_data; its type needs float_data",
        ),
        ({"data_type": 14, "dims": [2], "float_data": [1.0] * 3}, "has 3 values in float_data; its shape needs 4"),
        ({"data_type": 22, "dims": [17], "int32_data": [1]}, "has 1 values in int32_data; its shape needs 3"),
        ({"data_type": 25, "dims": [17], "int32_data": [1]}, "has 1 values in int32_data; its shape needs 2"),
    ],
)
def test_what_is_wrong_with_a_tensor(said, why):
    assert tensor_validity.fault(TensorProto(**said)) == why


@pytest.mark.parametrize(
    ("entries", "data", "why"),
    [
        ({"location": "f"}, {}, ""),
        ({"location": "f"}, {"raw_data": b"a"}, "is external, but holds data in raw_data"),
        ({"offset": "4"}, {}, "is external, but has no location"),
        ({"location": ""}, {}, "is external, but has no location"),
        ({"location": "f", "length": "4"}, {}, ""),
        ({"location": "f", "length": "4", "opshift.fields": ""}, {}, "has 4 bytes of data; its shape and type need 8"),
        ({"location": "f", "length": "8", "opshift.fields": ""}, {}, ""),
        ({"location": "f", "opshift.fields": ""}, {}, ""),
    ],
)
def test_what_is_wrong_with_a_stored_tensor(entries, data, why):
    tensor = TensorProto(name="t", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL, **data)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    assert tensor_validity.fault(tensor) == why
    tensor.data_type = TensorProto.STRING
    assert bool(tensor_validity.fault(tensor)) == (bool(why) and "bytes" not in why)


def sparse(values, places, dims, *, rank=None, kind=7, stored=False, raw=False):
    made = SparseTensorProto(dims=dims)
    made.values.CopyFrom(onnx.helper.make_tensor("s", 1, [len(values)], values))
    if places is not None:
        shape = [len(values), len(places) // max(len(values), 1)] if rank == 2 else [len(places)]
        data = [n.to_bytes(8, "little", signed=True) for n in places] if raw else places
        made.indices.CopyFrom(onnx.helper.make_tensor("i", kind, shape, b"".join(data) if raw else data, raw=raw))
    return made


SPARSE = [
    (sparse([1, 2], [0, 3], [4]), ""),
    (sparse([1, 2], [0, 3], [4], raw=True), ""),
    (sparse([1, 2], [0, 3], [2, 2]), ""),
    (sparse([1, 2], [0, 4], [2, 2]), "has indices that are out of range or out of order"),
    (sparse([1, 2], [0, 4], [4]), "has indices that are out of range or out of order"),
    (sparse([1, 2], [-1, 3], [4]), "has indices that are out of range or out of order"),
    (sparse([1, 2], [3, 0], [4], raw=True), "has indices that are out of range or out of order"),
    (sparse([1, 2], [1, 1], [4]), "has indices that are out of range or out of order"),
    (sparse([1, 2], [0, 1, 1, 0], [2, 2], rank=2), ""),
    (sparse([1, 2], [0, 1, 0, 1], [2, 2], rank=2), "has indices that are out of range or out of order"),
    (sparse([1, 2], [1, 0, 0, 1], [2, 2], rank=2), "has indices that are out of range or out of order"),
    (sparse([1, 2], [0, 1, 0, 2], [2, 2], rank=2), "has indices that are out of range or out of order"),
    (sparse([1, 2], [0, 1, 1, 2], [2, 3], rank=2), ""),
    (sparse([1, 2], [0, 1, 1, 0, 0, 0], [2, 2], rank=2), "has indices of 3 numbers for 2 dimensions"),
    (sparse([1, 2], [0], [4]), "has 1 indices for 2 values"),
    (sparse([1, 2], None, [4]), "has values, but no indices"),
    (sparse([], None, [4]), ""),
    (sparse([1, 2], [0, 3], []), "has the dimensions []; it needs one or more positive ones"),
    (sparse([1, 2], [0, 3], [4, 0]), "has the dimensions [4, 0]; it needs one or more positive ones"),
    (sparse([1, 2], [0, 3], [1]), "has indices that are out of range or out of order"),
    (sparse([1, 2], [0, 3], [4], kind=6), "has indices that are not int64"),
]


@pytest.mark.parametrize(("held", "why"), SPARSE)
def test_what_is_wrong_with_a_sparse_tensor(held, why):
    assert tensor_validity.sparse_fault(held) == why
    assert bool(why) == refused(onnx.checker.check_sparse_tensor, held)


def test_ranks_of_sparse_tensors():
    held = sparse([1, 2], [0, 3], [4])
    held.values.dims.append(1)
    assert tensor_validity.sparse_fault(held) == "has values of rank 2; it must be 1"
    held = sparse([1, 2], [0, 3], [4])
    held.indices.dims.extend([1, 1])
    assert tensor_validity.sparse_fault(held) == "has indices of rank 3; it must be 1 or 2"
    held = sparse([1, 2], [3, 0], [4])
    held.indices.data_location = TensorProto.EXTERNAL
    assert tensor_validity.sparse_fault(held) == ""


VALUES = {
    "f": 1.0, "i": 1, "s": b"a", "t": SPARSE[0][0].values, "g": onnx.GraphProto(name="g"), "floats": [1.0], "ints": [1], "strings": [b"a"],
    "tp": onnx.helper.make_tensor_type_proto(1, [2]), "sparse_tensor": SPARSE[0][0], "tensors": [SPARSE[0][0].values],
    "graphs": [onnx.GraphProto(name="g")], "sparse_tensors": [SPARSE[0][0]], "type_protos": [onnx.helper.make_tensor_type_proto(1, [2])],
}  # fmt: skip


@pytest.fixture
def walk():
    return validity.ValidityWalk(8, {"": 17, "own": 1}, "function F")


@pytest.mark.parametrize("field", VALUES)
def test_an_attribute_holds_what_its_type_says(walk, field):
    for kind in AttributeProto.AttributeType.values():
        attribute = AttributeProto(name="a", type=kind, **{field: VALUES[field]})
        node = onnx.NodeProto(op_type="F", domain="own", input=["x"], attribute=[attribute])
        assert walk.passes(node) != refused(onnx.checker.check_attribute, attribute)
        other = next(name for name in VALUES if name != field)
        getattr(attribute, other)
        node.attribute[0].MergeFrom(AttributeProto(**{other: VALUES[other]}))
        assert not walk.passes(node)


def held(**said):
    attribute = AttributeProto(name="a", **said)
    return onnx.NodeProto(op_type="F", domain="own", input=["x"], output=["", "y"], attribute=[attribute])


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (onnx.NodeProto(input=["x"], output=["y"]), ' "y" (function F): a node has no op_type'),
        (onnx.NodeProto(op_type="Relu"), 'Relu "" (function F): a node has neither inputs nor outputs'),
        (
            onnx.NodeProto(op_type="F", domain="there", name="n", input=["x"]),
            "there::F \"n\" (function F): its domain 'there'",
        ),
        (held(), "own::F \"y\" (function F): attribute 'a' has no type"),
        (held(type=2, i=1, f=1.0), "attribute 'a' holds 2 values; it must hold one"),
        (held(type=2, f=1.0), "attribute 'a' has type INT, but holds FLOAT"),
        (held(type=4, t=TensorProto(name="t")), "tensor 't' has no element type"),
        (held(type=9, tensors=[TensorProto(name="t")]), "tensor 't' has no element type"),
        (held(type=11, sparse_tensor=SPARSE[3][0]), "sparse tensor 's' has indices that are out"),
        (held(type=12, sparse_tensors=[SPARSE[3][0]]), "sparse tensor 's' has indices that are out"),
        (held(type=11, sparse_tensor=SparseTensorProto(dims=[1])), "a sparse tensor has no values"),
        (
            onnx.NodeProto(op_type="F", domain="own", input=["x"], attribute=[AttributeProto(type=2, i=1)]),
            "an attribute has no name",
        ),
        (
            onnx.NodeProto(op_type="F", domain="own", input=["x"], attribute=[AttributeProto(name="b", type=2)] * 2),
            "attribute 'b' is given twice",
        ),
        (
            onnx.NodeProto(op_type="Constant", output=["y"], attribute=[AttributeProto(name="value", type=4)]),
            "'value' holds no value",
        ),
        (onnx.helper.make_node("Add", ["", "x"], ["y"]), "input 0 \\(A\\) is missing, but required"),
        (onnx.helper.make_node("Add", ["x", "x"], [""]), "output 0 \\(C\\) is missing, but required"),
        (onnx.helper.make_node("Gelu", ["x"], ["y"]), "not legal at opset 17: it is new in opset 20"),
    ],
)
def test_what_is_wrong_with_a_call_names_it(walk, node, why):
    with pytest.raises(InvalidModel, match=why.replace("(function F)", "\\(function F\\)")):
        walk.call(node)
    assert not walk.passes(node)


@pytest.mark.parametrize("ir", [1, 2])
def test_types_of_attributes_came_with_ir_2(ir):
    walk = validity.ValidityWalk(ir, {"own": 1})
    assert walk.passes(held(i=1)) is (ir < 2)


@pytest.mark.parametrize(
    ("op", "opset", "theirs"),
    [
        *((op, opset, True) for op in ("Affine", "ATen", "MemcpyToHost", "Scale") for opset in (1, 28)),
        *((op, opset, opset < first) for op, first in (("LayerNormalization", 17), ("MeanVarianceNormalization", 9), ("ThresholdedRelu", 10))
          for opset in (1, first - 1, first, 28)),
        ("Relu", 1, False),
    ],
)  # fmt: skip
def test_operators_of_a_runtime_until_onnx_has_them(op, opset, theirs):
    """The first opset with the operator is that of onnx's schemas."""
    assert validity.is_runtime_extension("", op, opset) is theirs
    assert not validity.is_runtime_extension("own", op, opset)
    if onnx.defs.has(op):
        assert theirs == (
            opset
            < min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", op))
        )


TYPES = [
    (TypeProto(tensor_type=TypeProto.Tensor(elem_type=1)), ""),
    (TypeProto(tensor_type=TypeProto.Tensor()), "element type"),
    (TypeProto(sequence_type=TypeProto.Sequence()), "element type"),
    (TypeProto(sparse_tensor_type=TypeProto.SparseTensor(elem_type=1)), ""),
    (TypeProto(map_type=TypeProto.Map(key_type=7)), "element type"),
    (TypeProto(map_type=TypeProto.Map(value_type=TypeProto())), "element type"),
    (TypeProto(map_type=TypeProto.Map(key_type=7, value_type=TypeProto())), ""),
    (TypeProto(opaque_type=TypeProto.Opaque()), "name of its type"),
    (TypeProto(opaque_type=TypeProto.Opaque(name="o")), ""),
    (TypeProto(), "type"),
    (None, "type"),
]


@pytest.mark.parametrize(("kind", "missing"), TYPES)
def test_what_the_type_of_an_input_lacks(kind, missing):
    source = model("y = Relu(x)", 13, inputs="float[2] x, float[2] u", outputs="float[2] y")
    source.graph.input[1].ClearField("type")
    if kind is not None:
        source.graph.input[1].type.CopyFrom(kind)
        source.graph.input[1].type.SetInParent()
    if missing:
        with pytest.raises(InvalidModel, match=f"'u', an input of the model, has no {missing}"):
            validity.check(source)
    else:
        validity.check(source)


def _sparse_named(name, *, twice=False):
    def change(source):
        for _ in range(1 + twice):
            added = source.graph.sparse_initializer.add()
            added.CopyFrom(SPARSE[0][0])
            added.values.name = name

    return change  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: setattr(m, "ir_version", 0), "unknown IR version 0; supported: 1 to 14"),
        (lambda m: setattr(m, "ir_version", 15), "unknown IR version 15; supported: 1 to 14"),
        (lambda m: setattr(m, "ir_version", 14), ""),
        (lambda m: m.ClearField("opset_import"), "it imports no opset, which is required from IR version 3 on"),
        (lambda m: setattr(m, "ir_version", 2), "it imports an opset, which IR version 2 does not allow"),
        (lambda m: setattr(m, "ir_version", 3), "initializer 'w' is not an input of the graph, as IR versions below 4 require"),
        (lambda m: setattr(m, "ir_version", 4), ""),
        (lambda m: [m.metadata_props.add(key="k") for _ in "ab"], "metadata_props has 'k' twice"),
        (lambda m: m.graph.ClearField("name"), "a graph has no name"),
        (lambda m: m.graph.input.append(m.graph.input[0]), "'x' is twice among the inputs of a graph"),
        (lambda m: m.graph.input.add(), "an input or output of a graph has no name"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "initializer 'w' is defined twice"),
        (lambda m: m.graph.initializer[0].ClearField("name"), "an initializer has no name"),
        (_sparse_named(""), "a sparse initializer has no name"),
        (_sparse_named("w"), "initializer 'w' is defined twice"),
        (_sparse_named("s", twice=True), "initializer 's' is defined twice"),
        (_sparse_named("x"), ""),
        (_sparse_named("y"), "it computes 'y', which exists already"),
        (lambda m: m.graph.output.add(name="z").CopyFrom(onnx.helper.make_tensor_value_info("z", 1, [2])), "no node computes 'z', an output of"),
        (lambda m: m.graph.node[0].input.append("z"), "it reads 'z', which no earlier node computes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_graph(change, why):
    source = model("y = Add(x, w)", 13, inputs="float[2] x", outputs="float[2] y", constants="float[2] w = {1, 2}")
    change(source)
    assert bool(why) == refused(onnx.checker.check_model, source)
    if why:
        with pytest.raises(InvalidModel, match=why):
            validity.check(source)
    else:
        validity.check(source)


def test_a_sparse_initializer_is_read_as_any_value():
    source = model("y = Add(x, s)", 13, inputs="float[2] x", outputs="float[2] y")
    _sparse_named("s")(source)
    source.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    validity.check(source)
    onnx.checker.check_model(source)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda f: f.ClearField("name"), "a function has no name"),
        (lambda f: f.ClearField("domain"), "it has no domain, which every function has"),
        (lambda f: f.input.append("a"), "'a' is twice among the inputs of a function"),
        (lambda f: f.output.append("b"), "'b' is twice among the outputs of a function"),
        (lambda f: f.attribute.extend(["k", "k"]), "'k' is twice among the attributes of a function"),
        (lambda f: f.node[0].input.append("x"), "it reads 'x', which no earlier node computes"),
    ],
)
def test_what_is_wrong_with_a_function(change, why):
    source = model("y = own.F(x)", 17, inputs="float[2] x", outputs="float[2] y", domains='"own" : 1')
    nodes = [onnx.parser.parse_node("b = Relu(a)")]
    source.functions.append(
        onnx.helper.make_function("own", "F", ["a"], ["b"], nodes, [onnx.helper.make_opsetid("", 17)])
    )
    validity.check(source)
    twice = onnx.ModelProto.FromString(source.SerializeToString())
    twice.functions.append(source.functions[0])
    with pytest.raises(InvalidModel, match="function 'F' of domain 'own' is defined twice"):
        validity.check(twice)
    change(source.functions[0])
    with pytest.raises(InvalidModel, match=why):
        validity.check(source)
    source.ir_version = 7
    validity.check_functions(source)


def test_whether_a_domain_takes_all():
    walk = validity.ValidityWalk(8, {"": 17, "own": 1, "ai.onnx.training": 1, "ai.onnx.ml": 3})
    domains = ("own", "there", "", "ai.onnx", "ai.onnx.training", "ai.onnx.ml")
    assert [walk.takes_all_of(domain) for domain in domains] == [True, False, False, False, False, False]
    assert (walk.has_operators, validity.ValidityWalk(8, {"own": 1}).has_operators) == (True, False)
    assert [validity.ValidityWalk(ir, {}).is_early for ir in (3, 4)] == [True, False]


@pytest.mark.parametrize(
    ("inputs", "attribute", "why"),
    [(["x", "s"], "more", ""), (["x"], "more", "1 inputs"), (["x", "s"], "axis", "has the wrong type")],
)
def test_a_layer_normalization_may_have_more_attributes_and_nothing_else(walk, inputs, attribute, why):
    node = onnx.helper.make_node(
        "LayerNormalization", inputs, ["y"], more=1, **({"axis": 1.0} if attribute == "axis" else {})
    )
    if not why:
        walk.call(node)
        return
    with pytest.raises(InvalidModel, match=why):
        walk.call(node)
