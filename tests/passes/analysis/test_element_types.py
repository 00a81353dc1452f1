"""Element types by the schemas alone, judged by ONNX's own inference."""

from __future__ import annotations

import onnx.shape_inference
import pytest
from onnx import TensorProto
from opshift.passes.analysis import element_types
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model import schemas
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.types import elem_type_of
from opshift.passes.rewrite import registry

from tests.frozen import store
from tests.support import model

T = TensorProto


def scope_of(source: ModelProto, opset: int) -> Scope:
    return Scope(source.graph, Context(source, source), opset, path=())


@pytest.mark.parametrize("opset", store.frozen_opsets())
def test_what_schemas_tell_is_what_inference_finds(opset: int) -> None:
    told = 0
    for case in store.read(opset):
        graph = case.model.graph
        inferred = onnx.shape_inference.infer_shapes(case.model).graph
        kinds = {value.name: elem_type_of(value.type) for value in (*inferred.value_info, *inferred.output)}
        for index in reversed(range(len(graph.output))):  # else they state what is asked
            graph.output[index].ClearField("type")
        scope = scope_of(case.model, opset)
        for name in (name for node in graph.node for name in node.output if kinds.get(name)):
            found = element_types.elem_type(scope, name)
            assert found in (0, kinds[name]), f"{case.name}: {name}"
            told += found != 0
    assert told or opset in (1, 2)


OF_VENDORS = [
    ("y = com.microsoft.QGemm(q, s, u, q, s, u, , s, u)", T.UINT8),
    ("y = com.microsoft.QGemm(q, s, u, q, s, u, , s, z)", T.INT8),
    ("y = com.microsoft.QGemm(q, s, u, q, s, u)", T.FLOAT),
    ("y = com.microsoft.ReduceSumInteger(q)", T.UINT32),
    ("y = com.microsoft.ReduceSumInteger(z)", T.INT32),
    ("y = com.microsoft.MatMulInteger16(w, w)", T.INT32),
    ("y = com.microsoft.GridSample(x, x)", T.FLOAT),
    ("y = com.microsoft.GatherPacked<output_dtype=10>(q, i)", T.FLOAT16),
    ("a, y, b = LayerNormalization<stash_type=1>(h, h)", T.FLOAT),
    ("y = SimplifiedLayerNormalization(h, h)", T.FLOAT16),
    ("y = com.microsoft.NoOperator(x)", 0),
]


@pytest.mark.parametrize(("body", "found"), OF_VENDORS)
def test_types_that_schemas_of_vendors_leave_open(body: str, found: int) -> None:
    inputs = "float[1] x, uint8[1,1] q, float s, uint8 u, int8 z, int16[1,1] w, int64[1] i, float16[2] h"
    source = model(body, 13, inputs=inputs, outputs="float y", domains='"com.microsoft" : 1')
    source.graph.output[0].ClearField("type")
    assert element_types.elem_type(scope_of(source, 13), "y") == found


def test_all_that_schemas_of_vendors_leave_open_is_told_where_there_is_a_definition() -> None:
    """Of these, what the model itself declares decides: the scores of attention, and the result of one normalization."""
    left = set()
    for domain in schemas.VENDORS:
        for op in schemas.operators(domain):
            version = schemas.versions(domain, op)[-1]
            schema = schemas.schema(domain, op, version)
            definition = registry.definition(domain, op)
            if schema is None or definition is None or definition.why:
                continue
            for place in range(len(schema.outputs)):
                if element_types._typing(domain, op, version, place) == (0, ()):
                    left.add((op, place))
    kept = {("MultiHeadAttention", 3), ("DecoderMaskedMultiHeadAttention", 3), ("RMSNormRotary", 0)}
    assert left - element_types._OF_VENDORS.keys() == kept


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = Add(x, k)", T.FLOAT),
        ("y = Clip(x, , k)", T.FLOAT),
        ("y = Shape(x)", T.INT64),
        ("a = Shape(x) y = Neg(a)", T.INT64),
        ("y = Cast<to=11>(x)", T.DOUBLE),
        ("y = CastLike(i, x)", T.FLOAT),
        ("y = Constant<value_float=1.0>()", T.FLOAT),
        ("y = Less(x, k)", T.BOOL),
        ("y = Where(c, i, i)", T.INT64),
        ("a = SequenceConstruct(x) y = SequenceAt(a, i)", 0),  # the type of the sequence tells no element type
        ("y = ConstantOfShape(i)", 0),  # its attribute does
        ("y = my.Op(x)", 0),
        ("y = If (c) <then_branch = t () => (p) { p = Neg(x) }, else_branch = e () => (q) { q = Abs(x) }>", 0),
        ("y = Neg(nowhere)", 0),
        ("a = Neg(b) b = Neg(a) y = Neg(a)", 0),
    ],
)
def test_the_way_to_a_type(body: str, found: int) -> None:
    source = model(
        body, 18, inputs="float[2] x, int64[1] i, bool c", outputs="y", constants="float k = {1}", domains='"my" : 1'
    )
    assert element_types.elem_type(scope_of(source, 18), "y") == found


def test_a_long_way_is_gone_once() -> None:
    chain = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(3000))
    scope = scope_of(model(chain, 18, inputs="float16[2] v0", outputs="v3000"), 18)
    assert element_types.elem_type(scope, "v3000") == T.FLOAT16
    assert {scope.elem_types[f"v{i}"] for i in range(1, 3001)} == {T.FLOAT16}
