"""Integers of 2 and 4 bits inside a model are carried in bytes where they do not exist, with the same results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.passes.conversion import convert, narrow_integers
from opshift.passes.model import schemas

from tests.support import check, check_refused, check_values, evaluate, model, show

T = TensorProto
BEGIN = {"int4": 21, "uint4": 21, "int2": 25, "uint2": 25}
ENDS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
NUMBER = {"int4": 22, "uint4": 21, "int2": 26, "uint2": 25}
FLOATS = {"inputs": "float[2,6] x", "outputs": "float[2,6] y", "constants": "float s = {0.5}"}
X = np.array([[-100, -4.25, -4, -1.25, -0.75, -0.25], [0, 0.25, 0.75, 1.25, 3.6, 1e6]], np.float32)
ALL_BYTES = np.arange(-128, 128)


def converted(source: onnx.ModelProto, target: int) -> onnx.ModelProto:
    result = convert.attempt(source, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    assert result.grade == "exact"
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


@pytest.mark.parametrize("kind", BEGIN)
def test_they_stay_where_they_exist(kind: str):
    body, begin = f"q = QuantizeLinear<output_dtype={NUMBER[kind]}>(x, s) y = DequantizeLinear(q, s)", BEGIN[kind]
    ends = {"int4": 28, "uint4": 28, "int2": 28, "uint2": 28}
    assert show(converted(model(body, begin, **FLOATS), ends[kind])) == show(model(body, begin, **FLOATS))


@pytest.mark.parametrize("target", [7, 10, 13, 19, 20])
@pytest.mark.parametrize("kind", BEGIN)
def test_quantized_values_are_cut_off_at_the_ends_of_the_type(kind: str, target: int):
    body = f"q = QuantizeLinear<output_dtype={NUMBER[kind]}>(x, s) t = Transpose(q) u = Transpose(t) y = DequantizeLinear(u, s)"
    source = model(body, BEGIN[kind], **FLOATS)
    low, high = ENDS[kind]
    expected = (np.clip(np.rint(X / np.float32(0.5)), low, high) * 0.5).astype(np.float32)
    np.testing.assert_array_equal(evaluate(source, {"x": X})[0], expected)
    np.testing.assert_array_equal(evaluate(converted(source, target), {"x": X})[0], expected)


@pytest.mark.parametrize("target", [7, 13, 20])
@pytest.mark.parametrize(("kind", "like"), [(kind, like) for kind in BEGIN for like in (False, True)])
@pytest.mark.parametrize("wide", ["int8", "uint8", "int32", "int64", "bool"])
def test_of_an_integer_the_low_bits_are_kept(kind: str, like: bool, wide: str, target: int):
    io = {"inputs": f"{wide}[256] x", "outputs": "int32[256] y"}
    cast = f"t = Cast<to={NUMBER[kind]}>(c) q = CastLike(x, t)" if like else f"q = Cast<to={NUMBER[kind]}>(x)"
    source = model(f"{cast} y = Cast<to=6>(q)", BEGIN[kind], constants="bool c = {1}", **io)
    x = ALL_BYTES.astype(wide)
    low, high = ENDS[kind]
    expected = ((x.astype(np.int64) - low) % (high - low + 1) + low).astype(np.int32)
    np.testing.assert_array_equal(evaluate(source, {"x": x})[0], expected)
    np.testing.assert_array_equal(evaluate(converted(source, target), {"x": x})[0], expected)


@pytest.mark.newest
@pytest.mark.parametrize(("second", "wrapped"), [(22, 2), (21, 3)])
def test_casts_between_narrow_types_wrap_only_where_they_must(second: int, wrapped: int):
    """All of int2 are in int4 and all of uint2, too; but not all of int2 are in uint4."""
    body = f"a = Cast<to=26>(x) b = Cast<to={second}>(a) c = Cast<to=25>(b) d = Cast<to=22>(c) y = Cast<to=6>(d)"
    source = model(body, 25, inputs="int32[256] x", outputs="int32[256] y")
    below = converted(source, 20)
    assert [n.op_type for n in below.graph.node].count("Mod") == wrapped
    check_values(source, below, {"x": ALL_BYTES.astype(np.int32)}, rtol=0, atol=0)
    between = converted(source, 22)
    assert f"to={second}" in show(between)
    assert "to=25" not in show(between)
    check_values(source, between, {"x": ALL_BYTES.astype(np.int32)}, rtol=0, atol=0)


BLOCKED = "y = DequantizeLinear<axis=1, block_size=3>(w, s, z)"
HELD = "int4[2,6] w = {1,-2,3,-8,7,0,5,6,-1,0,2,-3}, int4[2,2] z = {1,0,-1,2}"
INSIDE = """y = If(c) <then_branch = t () => (float[2,6] a) { a = DequantizeLinear(q, s) },
                    else_branch = e () => (float[2,6] b) { d = Identity(q) b = DequantizeLinear(d, s) }>"""


@pytest.mark.parametrize("target", [7, 13, 19, 20])
@pytest.mark.parametrize(("body", "inputs", "constants"), [
    (BLOCKED, "float[2,2] s", HELD),
    ("y = DequantizeLinear<axis=0>(w, s)", "float[2] s", HELD),
    ("q = QuantizeLinear<axis=0>(x, s, z) y = DequantizeLinear<axis=0>(q, s, z)", "float[2,6] x", "float[2] s = {0.5, 2}, int4[2] z = {1, -3}"),
    ("w = Constant<value = int4[2,6] {1,-2,3,-8,7,0,5,6,-1,0,2,-3}>() y = DequantizeLinear(w, s)", "float s", ""),
    ("w = ConstantOfShape<value = int4[1] {-3}>(n) y = DequantizeLinear(w, s)", "float s", "int64[2] n = {2, 6}"),
    ("p = Pad(v, n, k) y = DequantizeLinear(p, s)", "float s", "int4[1,6] v = {1,-2,3,-8,7,0}, int64[4] n = {1,0,0,0}, int4 k = {-5}"),
    ("f = Flatten(w) r = Reshape(f, n) u = Unsqueeze(r, i) v = Squeeze(u, i) y = DequantizeLinear(v, s)", "float s", HELD + ", int64[2] n = {2, 6}, int64[1] i = {0}"),
    ("q = QuantizeLinear<output_dtype=22>(x, s)" + INSIDE, "float[2,6] x, bool c", "float s = {0.5}"),
    (INSIDE, "float s, bool c", HELD.replace(" w ", " q ")),
])  # fmt: skip
def test_what_reads_a_value_takes_the_byte(body: str, inputs: str, constants: str, target: int):
    source = model(body, 21, inputs=inputs, outputs="float[2,6] y", constants=constants)
    feeds = {"x": X, "s": np.array([0.5, 2, 0.25, 3], np.float32)}
    for value in source.graph.input:
        if value.name == "s":
            dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
            feeds["s"] = feeds["s"][: int(np.prod(dims))].reshape(dims)
    for c in (True, False):
        check_values(source, converted(source, target), {**feeds, "c": np.array(c)}, rtol=0, atol=0)


def test_values_carried_by_a_loop():
    loop = """q = QuantizeLinear<output_dtype=22>(x, s)
        r = Loop(n, t, q) <body = b (int64 i, bool g, int4[2,6] before) => (bool h, int4[2,6] after) {
            h = Identity(g) f = Cast<to=6>(before) p = Add(f, k) after = Cast<to=22>(p) }>
        y = DequantizeLinear(r, s)"""
    source = model(loop, 21, **FLOATS | {"constants": "float s = {0.5}, int64 n = {5}, bool t = {1}, int32 k = {3}"})
    check_values(source, converted(source, 13), {"x": X}, rtol=0, atol=0)


def test_the_text_of_a_conversion():
    check(
        "q = QuantizeLinear<output_dtype=22>(x, s) y = DequantizeLinear(q, s)",
        21,
        """t1 = QuantizeLinear(x, 0.5, int8:0)
           t2 = Clip(t1, int8:-8, int8:7)
           y = DequantizeLinear(t2, 0.5)""",
        19,
        feeds={"x": X},
        **FLOATS,
    )


def test_declared_types_follow():
    source = model("q = QuantizeLinear<output_dtype=22>(x, s) y = DequantizeLinear(q, s)", 21, **FLOATS)
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("q", T.INT4, [2, 6]))
    below = converted(source, 20)
    assert [(v.name, v.type.tensor_type.elem_type) for v in below.graph.value_info] == [("q", T.INT8)]


FUNCTION = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2,6] x) => (float[2,6] y) { q = local.narrow(x) y = local.wide(q) }
<domain: "local", opset_import: ["": 21]> narrow (x) => (q) {
    s = Constant<value_float = 0.5>() z = Constant<value = int4 {1}>() q = QuantizeLinear(x, s, z) }
<domain: "local", opset_import: ["": 21]> wide (q) => (y) {
    s = Constant<value_float = 0.5>() z = Constant<value = int4 {1}>() y = DequantizeLinear(q, s, z) }"""


@pytest.mark.parametrize(("target", "functions"), [(20, 1), (13, 0)])
def test_inside_model_local_functions(target: int, functions: int):
    source = onnx.parser.parse_model(FUNCTION)
    below = converted(source, target)
    assert len(below.functions) == functions
    check_values(source, below, {"x": X}, rtol=0, atol=0)


def test_weights_in_external_files_are_read(tmp_path: Path):
    source = model("y = DequantizeLinear(w, s)", 21, inputs="float s", outputs="float[100,101] y")
    values = np.random.default_rng(0).integers(-8, 8, (100, 101)).astype(onnx.helper.tensor_dtype_to_np_dtype(T.INT4))
    source.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    expected = evaluate(source, {"s": np.float32(0.5)})
    onnx.save(source, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    outside = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert outside.graph.initializer[0].data_location == T.EXTERNAL
    below = convert.attempt(outside, {"": 19}, folder=str(tmp_path)).model
    assert below is not None
    np.testing.assert_array_equal(evaluate(below, {"s": np.float32(0.5)}), expected)
    refused = convert.attempt(outside, {"": 19})
    assert "its values of int4 cannot be read" in str(refused.refusals[0])


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float", "float16", "double"])
def test_fractions_are_not_cast(kind: str):
    body = "q = Cast<to=22>(x) y = Cast<to=6>(q)"
    io = {"inputs": f"{kind}[2] x", "outputs": "int32[2] y"}
    check_refused(body, 21, 20, "a cast of fractions to int4: runtimes disagree", **io)


@pytest.mark.parametrize(("inputs", "outputs", "body"), [
    ("int4[2] x", "int32[2] y", "y = Cast<to=6>(x)"),
    ("int32[2] x", "int4[2] y", "y = Cast<to=22>(x)"),
])  # fmt: skip
def test_inputs_and_outputs_keep_their_types(inputs: str, outputs: str, body: str):
    check_refused(body, 21, 20, "tensor(int4) does not exist at opset 20", inputs=inputs, outputs=outputs)


def test_operators_of_unknown_domains_may_count_on_the_type():
    body = "q = Cast<to=22>(x) r = other.Op(q) y = Cast<to=6>(r)"
    io = {"inputs": "int32[2] x", "outputs": "int32[2] y", "domains": '"other" : 1'}
    check_refused(body, 21, 20, "the node uses int4, which this opset does not have", **io)


def test_bits_of_a_float_are_refused():
    body = "q = Cast<to=22>(x) f = BitCast<to=23>(q) y = Cast<to=1>(f)"
    io = {"inputs": "int32[2] x", "outputs": "float[2] y"}
    check_refused(body, 26, 20, "reinterprets the bits of 2- or 4-bit integers", **io)


def test_floats_below_a_byte_are_refused():
    body = "q = QuantizeLinear<output_dtype=23>(x, s) y = DequantizeLinear(q, s)"
    check_refused(body, 23, 22, "float4e2m1", **FLOATS)


@pytest.mark.parametrize("kind", BEGIN)
def test_every_operator_that_takes_them_is_known(kind: str):
    """A new operator, or an old one that takes them from a later opset on, is refused until someone looks at it."""
    known = (
        narrow_integers.READERS
        | narrow_integers.MAKERS.keys()
        | {"Optional", "OptionalGetElement", "OptionalHasElement"}
    )
    for op in schemas.operators(""):
        schema = schemas.schema("", op, schemas.latest())
        if schema and any(f"tensor({kind})" in p.types for p in (*schema.inputs, *schema.outputs)):
            assert op in known


@pytest.mark.newest
@pytest.mark.parametrize(("kind", "to"), [("int4", "uint4"), ("uint4", "int4"), ("int2", "uint2")])
def test_bits_of_an_integer_are_those_of_another(kind: str, to: str):
    source = model(
        f"q = Cast<to={NUMBER[kind]}>(x) b = BitCast<to={NUMBER[to]}>(q) y = Cast<to=6>(b)",
        26,
        inputs="int8[16] x",
        outputs="int32[16] y",
    )
    x = np.arange(-8, 8, dtype=np.int8)
    size = ENDS[kind][1] - ENDS[kind][0] + 1
    expected = [n % size if to.startswith("u") else (n + size // 2) % size - size // 2 for n in x.tolist()]
    assert evaluate(converted(source, 20), {"x": x})[0].tolist() == expected


@pytest.mark.newest
def test_bits_of_a_narrow_float_are_refused():
    body = "q = Cast<to=23>(x) b = BitCast<to=22>(q) y = Cast<to=6>(b)"
    check_refused(
        body, 26, 20, "reinterprets the bits of 2- or 4-bit integers", inputs="float[2] x", outputs="int32[2] y"
    )


def test_sparse_values_are_carried_and_told_apart():
    source = model("y = Relu(x)", 21, inputs="float[2] x", outputs="float[2] y")
    sparse = source.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(onnx.helper.make_tensor("s", T.INT4, [2], [-8, 7]))
    sparse.indices.CopyFrom(onnx.helper.make_tensor("", T.INT64, [2], [0, 3]))
    held = converted(source, 20).graph.sparse_initializer[0].values
    assert (held.name, held.data_type, onnx.numpy_helper.to_array(held).tolist()) == ("s", T.INT8, [-8, 7])


def test_no_more_values_are_read_than_a_file_holds(monkeypatch: pytest.MonkeyPatch):
    source = model("y = Relu(x)", 21, inputs="float[2] x", outputs="float[2] y")
    for index in range(2):
        source.graph.initializer.append(onnx.helper.make_tensor(f"w{index}", T.UINT4, [4], [1, 2, 3, 15]))
    monkeypatch.setattr(narrow_integers, "LARGEST", 8)
    assert [onnx.numpy_helper.to_array(t).tolist() for t in converted(source, 20).graph.initializer] == [
        [1, 2, 3, 15]
    ] * 2
    monkeypatch.setattr(narrow_integers, "LARGEST", 7)
    refusals = convert.attempt(source, {"": 20}).refusals
    assert [(r.node, r.op, r.domain, r.since, r.up, r.why) for r in refusals] == [
        ("w1", "value", "", 21, False, "its values of uint4 cannot be read, or do not fit the file as bytes")
    ]


def test_refusals_name_the_function_and_the_first_of_the_types():
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "my" : 1, "other" : 1]> g (int32[2] x) => (int32[2] y) { y = my.F(x) }
        <opset_import: ["" : 21, "other" : 1], domain: "my"> F (x) => (y) { q = Cast<to=22>(x) r = other.Op(q) y = If(x) <
            then_branch = t () => (v) { v = other.Op(q) }, else_branch = e () => (v) { v = Cast<to=6>(r) }> }""")
    refusals = convert.attempt(source, {"": 20}).refusals
    assert {(r.node, r.op, r.domain, r.since, r.up, r.where) for r in refusals} >= {
        ("r", "Op", "other", 21, False, "function F")
    }
    source = model(
        "q = Cast<to=22>(x) r = other.Op(q) y = Cast<to=6>(r)",
        21,
        inputs="int32[2] x",
        outputs="int32[2] y",
        domains='"other" : 1',
    )
    assert ("r", "") in {(r.node, r.where) for r in convert.attempt(source, {"": 20}).refusals}


def test_sequences_of_them_are_refused():
    source = model("y = Relu(x)", 21, inputs="float[2] x", outputs="float[2] y", constants="int4[2] w = {1, 2}")
    held = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(T.INT4, [2]))
    source.graph.value_info.add(name="s").type.CopyFrom(held)
    source.graph.value_info.add(name="v").type.CopyFrom(onnx.helper.make_tensor_type_proto(T.INT4, [2]))
    [refusal] = convert.attempt(source, {"": 20}).refusals
    assert (refusal.node, refusal.why) == ("s", "it is seq(tensor(int4)); supported: tensors")
    del source.graph.value_info[0]
    assert converted(source, 20).graph.value_info[0].type.tensor_type.elem_type == T.INT8


def test_the_types_and_what_carries_them():
    """What they are at, and between which numbers, is the text's."""
    found = {n.name: (n.since, n.carrier, n.lowest, n.highest) for n in narrow_integers.NARROW.values()}
    u8, i8 = TensorProto.UINT8, TensorProto.INT8
    assert found == {
        "uint4": (21, u8, 0, 15), "int4": (21, i8, -8, 7), "uint2": (25, u8, 0, 3), "int2": (25, i8, -2, 1),
    }  # fmt: skip
    assert narrow_integers.LARGEST == 2147483647
