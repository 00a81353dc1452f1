"""The schema table says what the installed onnx says."""

from pathlib import Path

import onnx.defs
import pytest
from opshift.passes.model import schemas, tabulate
from opshift.passes.model.messages import AttributeProto

NEWEST = onnx.defs.onnx_opset_version()
INSTALLED = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain in tabulate.DOMAINS]


@pytest.mark.newest
def test_the_table_is_what_the_installed_onnx_yields():
    folder = Path(tabulate.__file__).parent
    rendered = tabulate.render()
    assert {name: (folder / name).read_text(encoding="utf-8") for name in rendered} == rendered


@pytest.mark.parametrize("opset", range(1, schemas.latest() + 1))
def test_the_types_of_an_opset_are_those_of_its_operators(opset):
    found = [schemas.schema("", op, opset) for op in schemas.operators("")]
    formals = [formal for schema in found if schema is not None for formal in (*schema.inputs, *schema.outputs)]
    assert schemas.types_at(opset) == frozenset().union(*(formal.types for formal in formals))


def test_when_a_type_begins():
    for kind in ("tensor(float)", "tensor(bfloat16)", "tensor(uint4)", "seq(tensor(float))"):
        assert schemas.type_since(kind) == min(o for o in range(1, 29) if kind in schemas.types_at(o))


def test_what_holds_graphs_has_an_attribute_for_them():
    assert [op for op in schemas.operators("") if schemas.has_subgraphs("", op)] == [
        "If",
        "Loop",
        "Scan",
        "SequenceMap",
    ]
    assert not schemas.has_subgraphs("ai.onnx", "Relu")
    assert not schemas.has_subgraphs("ai.onnx.ml", "Scaler")
    assert schemas.has_subgraphs("", "Unheard")
    assert schemas.has_subgraphs("com.microsoft", "FastGelu")
    for schema in INSTALLED:
        holds = any(a.type.name in ("GRAPH", "GRAPHS") for a in schema.attributes.values())
        assert not holds or schemas.has_subgraphs(schema.domain, schema.name)


@pytest.mark.parametrize("opset", range(1, min(NEWEST, schemas.latest()) + 1))
def test_since_agrees_with_onnx(opset):
    for op in schemas.operators(""):
        if onnx.defs.has(op) and min(schemas.versions("", op)) <= opset:
            assert schemas.since("", op, opset) == onnx.defs.get_schema(op, opset).since_version
        else:
            assert schemas.since("", op, opset) is None


def test_every_installed_version_is_known():
    for schema in INSTALLED:
        assert schema.since_version in schemas.versions(schema.domain, schema.name)


def test_an_alias_of_the_default_domain():
    assert schemas.since("ai.onnx", "Relu", 13) == 13
    assert schemas.is_onnx_domain("ai.onnx")
    assert not schemas.is_onnx_domain("com.microsoft")


def test_defaults_types_and_arity():
    found = schemas.schema("", "ReduceL1", 18)
    assert found is not None
    assert found.attributes["keepdims"].default == AttributeProto(name="keepdims", type=AttributeProto.INT, i=1)
    assert (found.min_input, found.max_input) == (1, 2)
    assert "tensor(bfloat16)" in found.inputs[0].types
    assert found.input(1).option == "Optional"
    assert found.input(2) is None
    assert schemas.schema("", "Concat", 13).input(7).name == "inputs"


@pytest.mark.parametrize(
    ("op", "older", "newer", "expected"),
    [
        ("DepthToSpace", 13, 28, "none"),
        ("Acos", 7, 22, "widened"),
        ("ReduceLogSum", 18, 28, "narrowed"),
        ("ReduceMax", 18, 20, "changed"),  # its text changed with its types
        ("Softmax", 11, 13, "changed"),
        ("Upsample", 9, 10, "changed"),  # deprecated
    ],
)
def test_what_the_schemas_prove(op, older, newer, expected):
    assert schemas.difference("", op, older, newer) == expected


def test_ir_versions_and_types_by_opset():
    assert [schemas.ir_version("", opset) for opset in (7, 9, 13, 15, 21, 28)] == [3, 4, 7, 8, 10, 14]
    assert "tensor(bfloat16)" not in schemas.types_at(12)
    assert "tensor(bfloat16)" in schemas.types_at(13)


def test_inputs_and_outputs_have_their_parameters():
    add, concat, split = (schemas.schema("", op, 18) for op in ("Add", "Concat", "Split"))
    assert [add.input(k) and add.input(k).name for k in range(3)] == ["A", "B", None]
    assert [concat.input(k).name for k in (0, 7)] == ["inputs", "inputs"]
    assert [split.output(k).name for k in (0, 7)] == ["outputs", "outputs"]
    assert (add.output(0).name, add.output(1)) == ("C", None)
    assert schemas.versions("", "Add") == (1, 6, 7, 13, 14)
    assert schemas.versions("", "Nothing") == ()


@pytest.mark.parametrize(
    ("op", "older", "newer", "expected"),
    [("Abs", 6, 6, "none"), ("GRU", 14, 22, "widened"), ("GRU", 22, 14, "narrowed"), ("Softmax", 11, 13, "changed")],
)
def test_what_schemas_alone_tell_of_two_versions(op, older, newer, expected):
    assert schemas.difference("", op, older, newer) == expected
