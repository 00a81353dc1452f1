"""Which calls a value may be: each is one that the operator's schema takes."""

import pytest
from onnx import AttributeProto, TensorProto
from opshift.functions import OPENVINO
from opshift.passes.fusion import families
from opshift.passes.fusion.families import BY_NAME, FAMILIES, Clues, family
from opshift.passes.fusion.patterns import ROTARY, PatternTensor, Splat
from opshift.passes.model import schemas
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.schemas import MICROSOFT

KNOWN = {op for domain in ("", MICROSOFT) for op in schemas.operators(domain)}
ALL = FAMILIES | BY_NAME


@pytest.mark.parametrize("op", [op for op in ALL if op not in (ROTARY, ("", "SwiGLU"))], ids=lambda op: op[1])
def test_operators_are_those_of_schemas(op):
    found = ALL[op]
    assert op[0] == OPENVINO or op[1] in schemas.operators(op[0])
    assert found.anchors | found.also <= KNOWN
    if op[0] != OPENVINO:
        schema = schemas.schema(*op, schemas.latest(op[0]))
        floats = {name for name, a in schema.attributes.items() if a.type == AttributeProto.FLOAT}
        assert found.scaled.keys() <= floats
        assert 1 <= found.inputs <= schema.max_input
    assert family(op) is (found if op[0] != OPENVINO or families.has_definition(*op) else None)


def test_operators_that_nobody_looks_for():
    assert family(("", "Conv")) is None
    assert family(("", "QLinearConv")) is families.QUANTIZED["", "QLinearConv"]


def test_what_each_form_needs():
    """A tensor that is not constant for each that the operator takes, and what no form goes without."""
    more = {op[1]: held.inputs for op, held in ALL.items() if held.inputs > 1}
    assert more == {
        "Attention": 4, ROTARY[1]: 3, "LayerNormalization": 3, "RMSNormalization": 2, "GroupNormalization": 3, "InstanceNormalization": 3,
        "PRelu": 2, "Gemm": 3, "SwiGLU": 2, "BiasGelu": 2, "FastGelu": 2, "FusedMatMul": 2, "SkipLayerNormalization": 5,
        "SkipSimplifiedLayerNormalization": 4,
    }  # fmt: skip
    sums = {"ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2"}
    assert {op[1] for op, held in ALL.items() if held.anchors >= sums} == {
        "LpNormalization",
        "GlobalLpPool",
        "NormalizeL2",
        "ReduceL1",
    }
    assert {op[1] for op, held in ALL.items() if not held.anchors} == {*families._ELEMENTWISE.split()}


def clues(*dims, opset=18, kind=TensorProto.FLOAT, known=True, **axes):
    return Clues(opset, kind, lambda: dims if known else None, axes)


AXES = {
    "Variance": [(-1,), (-2, -1)],
    "Total": [(-1,), (-2, -1)],
    "Softmax": [(-1,)],
    "Mean": [(-1,), (-2,)],
    "Largest": [(-2,)],
    "groups": [(2,)],
}


@pytest.mark.parametrize(
    "op", [op for op in ALL if op[0] in ("", MICROSOFT) and op not in (ROTARY, ("", "SwiGLU"))], ids=lambda op: op[1]
)
@pytest.mark.parametrize("dims", [("a", "b", "c", 4), ("a", "b", 4), ("a", 4), (4,), None])
@pytest.mark.parametrize("opset", [9, 17, 23])
def test_calls_are_those_that_schemas_take(op, dims, opset):
    if not op[0] and schemas.since(*op, opset) is None:
        opset = schemas.latest()
    schema = schemas.schema(*op, opset if not op[0] else 1)
    for call in ALL[op].suggest(op, clues(*(dims or ()), opset=opset, known=dims is not None, **AXES)):
        assert (call.op, call.opset) == (op, opset)
        assert schema.min_input <= len(call.inputs) <= schema.max_input
        for name, value in call.attributes:
            held = schema.attributes[name]
            assert make_attribute(name, list(value) if isinstance(value, tuple) else value, held.type).type == held.type
        assert all(schema.attributes[name].type == AttributeProto.FLOAT for name in call.marks)
        for given in call.inputs:
            assert not isinstance(given, (PatternTensor, Splat)) or given.elem_type in (
                TensorProto.FLOAT,
                TensorProto.BOOL,
            )


def suggested(op, of):
    """What is given by a number or an axis, and which floats may be anything, for each call."""
    return [(len(call.inputs), dict(call.attributes), call.marks) for call in ALL[op].suggest(op, of)]


def over(name, *axes, dims=("a", "b", 4), **more):
    return clues(*dims, **more, **{name: axes})


E, NONE = ("epsilon",), ()


@pytest.mark.parametrize(
    ("op", "of", "calls"),
    [
        ("LayerNormalization", over("Variance", (-2, -1), (-3, -1)), [(3, {"axis": -2}, E), (2, {"axis": -2}, E), (2, {"axis": -2}, E)]),
        ("LayerNormalization", over("Total", (-1,)), []),
        ("RMSNormalization", over("Mean", (-1,), ()), [(2, {"axis": -1}, E), (2, {"axis": -1}, E)]),
        ("InstanceNormalization", over("Variance", (-1,)), [(3, {}, E)]),
        ("InstanceNormalization", over("Variance", (-2, -1)), []),
        ("InstanceNormalization", over("Variance", (-1,), dims=("a", 4)), []),
        ("GroupNormalization", clues("a", "b", "c", opset=21, Variance=[(-1,)], groups=[(2,), (4,)]), [(3, {"num_groups": 2}, E), (3, {"num_groups": 4}, E)]),
        ("GroupNormalization", clues("a", "b", "c", opset=20, Variance=[(-1,)], groups=[(2,)]), []),
        ("GroupNormalization", clues("a", "b", opset=21, Variance=[(-1,)], groups=[(2,)]), []),
        ("GroupNormalization", clues("a", "b", "c", opset=21, Variance=[(-2,)], groups=[(2,)]), []),
        ("GroupNormalization", clues("a", "b", "c", opset=21, kind=11, Variance=[(-1,)], groups=[(2,)]), [(3, {"num_groups": 2, "stash_type": 11}, E)]),
        ("MeanVarianceNormalization", over("Variance", (-3, -1), (-4,)), [(1, {"axes": (0, 2)}, NONE)]),
        ("MeanVarianceNormalization", over("Variance", (-1,), known=False), []),
        ("Softmax", over("Total", (-1,), (-2, -1)), [(1, {"axis": -1}, NONE)]),
        ("Softmax", over("Softmax", (-2,), opset=10), [(1, {"axis": 1}, NONE)]),
        ("Softmax", over("Softmax", (-2,), opset=10, known=False), []),
        ("Softmax", over("Softmax", (-2,), opset=11, known=False), [(1, {"axis": -2}, NONE)]),
        ("LpNormalization", over("Total", (-1,)), [(1, {"axis": -1, "p": 1}, NONE), (1, {"axis": -1, "p": 2}, NONE)]),
        ("ReduceL2", over("Total", (-1,)), [(2, {"keepdims": 1}, NONE), (2, {"keepdims": 0}, NONE)]),
        ("ReduceL2", over("Mean", (-1,), opset=17), [(1, {"axes": (2,), "keepdims": 1}, NONE), (1, {"axes": (3,), "keepdims": 0}, NONE)]),
        ("ReduceL2", over("Largest", (-4,), opset=17), [(1, {"axes": (0,), "keepdims": 0}, NONE)]),
        ("ReduceL2", over("Total", (-1,), opset=17, known=False), [(1, {"axes": (-1,), "keepdims": 1}, NONE), (1, {"axes": (-1,), "keepdims": 0}, NONE)]),
        ("ReduceL2", over("Total", (-1,), opset=10, known=False), []),
        ("Attention", over("Softmax", (-1,), dims=("a", "b", "c", 4)), [(4, {}, ("scale",)), (4, {}, ("scale",)), (3, {}, ("scale",))]),
        ("Attention", over("Softmax", (-1,)), []),
        ("Attention", over("Total", (-1,), dims=("a", "b", "c", 4)), []),
        ("GlobalMaxPool", clues("a", "b", 1), [(1, {}, NONE)]),
        ("GlobalMaxPool", clues("a", "b"), []),
        ("GlobalMaxPool", clues(known=False), []),
        ("GlobalLpPool", clues("a", "b", 1), [(1, {"p": 1}, NONE), (1, {"p": 2}, NONE)]),
        ("Gelu", clues("a", "b"), [(1, {"approximate": "none"}, NONE), (1, {"approximate": "tanh"}, NONE)]),
        ("Elu", clues("a", "b"), [(1, {}, NONE), (1, {}, ("alpha",))]),
        ("PRelu", clues("a", "b"), [(2, {}, NONE)]),
    ],
)  # fmt: skip
def test_calls_by_what_a_value_tells(op, of, calls):
    if op in ("Attention", "Gelu", "RMSNormalization"):
        of = Clues(23, of.elem_type, of.shape, of.axes)
    assert suggested(("", op), of) == calls


@pytest.mark.parametrize(("opset", "count"), [(10, 16), (11, 24)])
def test_products_are_turned_and_added_to(opset, count):
    found = suggested(("", "Gemm"), clues("a", "b", opset=opset))
    assert len(found) == count
    assert {tuple(sorted(given)) for _, given, _ in found} == {(), ("transA",), ("transB",), ("transA", "transB")}
    assert {marks for inputs, _, marks in found if inputs == 3} == {(), ("alpha",), ("beta",), ("alpha", "beta")}
    assert {marks for inputs, _, marks in found if inputs == 2} == ({(), ("alpha",)} if opset > 10 else set())
    assert not suggested(("", "Gemm"), clues("a", "b", "c"))


@pytest.mark.parametrize(
    ("op", "a", "b"),
    [
        (("", "Gemm"), (("k", "m"), ("m", "k")), (("n", "k"), ("k", "n"))),
        ((MICROSOFT, "FusedMatMul"), (("k", "m"), ("m", "k")), (("n", "k"), ("k", "n"))),
    ],
)
def test_what_is_turned_has_its_dimensions_the_other_way_round(op, a, b):
    for call in ALL[op].suggest(op, clues("a", "b")):
        given = dict(call.attributes)
        assert call.inputs[0].dims == a[0 if given.get("transA") else 1]
        assert call.inputs[1].dims == b[0 if given.get("transB") else 1]


def test_products_of_onnxruntime_have_a_rank():
    op = (MICROSOFT, "FusedMatMul")
    found = suggested(op, clues("a", "b", "c"))
    assert len(found) == 7
    assert [marks for _, given, marks in found if not given] == [("alpha",)]
    assert not suggested(op, clues("a"))
    assert not suggested(op, clues(known=False))


def test_sums_that_are_normalized():
    skip, simple = ((MICROSOFT, f"Skip{name}LayerNormalization") for name in ("", "Simplified"))
    assert [count for count, _, _ in suggested(skip, clues("a", "b", "c"))] == [5, 5, 5, 5, 4, 4, 3, 3]
    assert [count for count, _, _ in suggested(simple, clues("a", "b", "c"))] == [4, 4, 4, 4, 3, 3, 3, 3]
    assert [(given, marks) for _, given, marks in suggested(skip, clues("a", "b", "c"))[:2]] == [
        ({}, E),
        ({"epsilon": 1e-5}, NONE),
    ]


def test_rotations_take_half_of_each_head():
    assert [
        [given.dims for given in call.inputs] for call in FAMILIES[ROTARY].suggest(ROTARY, clues("a", "b", "c", 6))
    ] == [[("b", "h", "s", 6), ("b", "s", 3), ("b", "s", 3)]]
    assert not list(FAMILIES[ROTARY].suggest(ROTARY, clues("a", "b", "c", "d")))
    assert not list(FAMILIES[ROTARY].suggest(ROTARY, clues("a", "b", 6)))


def test_operators_of_openvino_take_axes_as_an_input():
    op, of = (OPENVINO, "ReduceL1"), over("Total", (-1,))
    assert [(call.inputs[1], dict(call.attributes), call.marks) for call in BY_NAME[op].suggest(op, of)] == [
        ((2,), {"keep_dims": 1}, NONE), ((3,), {"keep_dims": 0}, NONE)
    ]  # fmt: skip
    op = (OPENVINO, "NormalizeL2")
    assert [(call.inputs[1], dict(call.attributes), call.marks) for call in BY_NAME[op].suggest(op, of)] == [
        ((2,), {"eps_mode": "add"}, ("eps",)), ((2,), {"eps_mode": "max"}, ("eps",))
    ]  # fmt: skip
    assert not list(BY_NAME[op].suggest(op, over("Total", (-1,), opset=10, known=False)))


def test_a_bias_that_may_be_left_out():
    assert [count for count, _, _ in suggested((MICROSOFT, "FastGelu"), clues("a"))] == [2, 1]
    assert [count for count, _, _ in suggested((MICROSOFT, "BiasGelu"), clues("a"))] == [2]
