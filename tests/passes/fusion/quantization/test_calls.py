"""What operators on integers take of one body, and in which words they decline."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import numpy_helper
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.group import Uses
from opshift.passes.fusion.quantization import biases, calls, requantized
from opshift.passes.fusion.quantization.calls import FloatCall
from opshift.passes.fusion.quantization.operands import Dequantized, Operands, Stays
from opshift.passes.rewrite.builder import Builder

from tests.support import model

IO = {"inputs": "uint8[2,3,6,6] x, float[1] fs, uint8[1] fz, float[K] fk, int32[4] n", "outputs": "float[A,B,C,D] y"}
HELD = {
    "s": np.float32(0.5), "z": np.uint8(3), "s1": np.float32([0.5]), "z1": np.uint8([3]), "s3": np.float32([1, 2, 3]), "z3": np.uint8([0, 0, 0]),
    "d": np.float64(0.5), "i32": np.int32([1]), "w": np.int8([[1, 2], [3, 4]]), "ws": np.float32([1, 2]), "wz": np.int8([0, 0]), "wz2": np.int8([0, 1]),
}  # fmt: skip


def operands(body, scalars=False, **held):
    source = model(f"{body} y = Cast<to = 1>(x)", 21, **IO)
    for name, value in {**HELD, **held}.items():
        source.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    scope = Scope(source.graph, Context(source, source), 21, path=())
    return Operands(scope, Uses(source.graph), scalars), Builder(scope, 21)


def value(build, name):
    return build.scope.array(name)


D = "a = DequantizeLinear(x, s, z)"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (D, Dequantized("x", "s", "z", 1)),
        ("a = DequantizeLinear<axis = 2>(x, s)", Dequantized("x", "s", "", 2)),
        ("a = DequantizeLinear<block_size = 2>(x, s)", None),
        ("a = DequantizeLinear<output_dtype = 1>(x, s)", None),
        ("a = DequantizeLinear(x, d)", None),
        ("a = Cast<to = 1>(x)", None),
        ("", None),
    ],
)
def test_what_a_value_is_dequantized_from(body, found):
    of, _ = operands(body)
    assert of.find_dequantized("a") == found
    assert of.zero_point("a") == (found.zero_point if found else "")


@pytest.mark.parametrize(
    ("body", "named", "why"),
    [
        ("a = Relu(fs)", {}, "an operand is computed by Relu; supported: DequantizeLinear of 8 bits, with scales in float32"),
        ("a = Constant<value_float = 1.0>()", {}, "an operand is held in floats; supported: DequantizeLinear of 8 bits, with scales in float32"),
        ("", {}, "an operand is held in floats; supported: DequantizeLinear of 8 bits, with scales in float32"),
        ("a = DequantizeLinear(x, d)", {}, "an operand is dequantized in blocks, or with other types; supported: DequantizeLinear of 8 bits, with scales in float32"),
        ("a = DequantizeLinear(i32, s)", {}, "an operand is dequantized from int32; supported: 8 bits"),
        ("a = DequantizeLinear(x, s3, z3)", {}, "an operand has several scales, along axis 1; supported: one scale"),
        ("a = DequantizeLinear(w, ws, wz)", {"axis": 0},
         "an operand has several scales, along axis 1; supported: one scale, or one for each channel of the weights"),
        ("a = DequantizeLinear(w, ws, wz)", {"axis": 0, "rank": 2},
         "an operand has several scales, along axis 1; supported: one scale, or one for each channel of the weights"),
        ("q = Cast<to = 21>(x) a = DequantizeLinear(q, s)", {}, "an operand of type uint4 is not constant; supported: constants of that type"),
        ("a = DequantizeLinear(w, fk)", {"axis": -1, "rank": 2}, "there is no zero point, and the number of scales is unknown; try --fix-shape"),
    ],
)  # fmt: skip
def test_why_an_operand_stays_on_floats(body, named, why):
    of, build = operands(body)
    with pytest.raises(Stays) as stays:
        of.operand(build, "a", **named)
    assert str(stays.value) == why


def test_an_operand_is_numbers_scale_and_zero_point():
    of, build = operands(f"{D} b = DequantizeLinear(x, s) c = DequantizeLinear(w, ws, wz) e = DequantizeLinear(w, ws)")
    assert of.operand(build, "a") == ["x", "s", "z"]
    *named, zero = of.operand(build, "b")
    assert (named, value(build, zero).dtype, value(build, zero).tolist()) == (["x", "s"], np.uint8, 0)
    assert of.operand(build, "c", -1, 2) == of.operand(build, "c", 1, 2) == ["w", "ws", "wz"]
    *named, zero = of.operand(build, "e", 1, 2)
    assert (named, value(build, zero).dtype, value(build, zero).tolist()) == (["w", "ws"], np.int8, [0, 0])


def test_scalars_where_scalars_are_asked_for():
    of, build = operands(
        "p = Reshape(s1, shape) b = DequantizeLinear(x, s1, z1)", scalars=True, shape=np.zeros(0, np.int64)
    )
    values, scale, zero = of.operand(build, "b")
    assert values == "x"
    assert [(value(build, name).shape, value(build, name).item()) for name in (scale, zero)] == [((), 0.5), ((), 3)]
    assert of.one(build, "s") == "s"
    assert of.one(build, "") == ""
    assert of.one(build, "p") == "p", "it is one already"
    shaped = of.one(build, "fs")
    assert build.nodes[-1].op_type == "Reshape"
    assert build.nodes[-1].output[0] == shaped
    plain, build = operands("p = Reshape(s1, shape)", shape=np.zeros(0, np.int64))
    assert plain.one(build, "s1") == "s1"
    assert plain.one(build, "p") == plain.bare("p") == "s1"


def test_the_same_scale_under_other_names():
    of, _ = operands("p = Reshape(s1, shape) q = Reshape(fs, shape)", shape=np.zeros(0, np.int64), t=np.float32(0.25))
    assert of.same("s", "s")
    assert of.same("s", "s1")
    assert of.same("fs", "q")
    assert of.same("fs", "fs")
    assert not of.same("s", "t")
    assert not of.same("fs", "s")
    assert not of.same("s3", "s")
    assert [of.number(name) for name in ("s", "s1", "s3", "fs", "")] == [0.5, 0.5, None, None, None]
    assert [of.is_one(name) for name in ("s", "s1", "s3", "fs", "fk", "")] == [True, True, False, True, False, True]


@pytest.mark.parametrize(
    ("perm", "turned"),
    [("0,3,1,2", "first"), ("0,2,3,1", "last"), ("0,1,2,3", ""), ("3,0,1,2", ""), ("0,3,2,1", "")],
)
def test_where_channels_are_brought(perm, turned):
    of, _ = operands(f"a = Transpose<perm = [{perm}]>(x) b = Transpose(x) c = Transpose<perm = [0,1]>(w)")
    assert of.find_transposed("a") == (("x", turned) if turned else ("a", ""))
    assert [of.find_transposed(name) for name in "bc"] == [("b", ""), ("c", "")]
    assert of.find_transposed("x") == ("x", "")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("a = Cast<to = 6>(x)", ("x", "")),
        ("a = Cast<to = 7>(x)", None),
        ("b = Cast<to = 6>(x) c = Cast<to = 6>(z) a = Sub(b, c)", ("x", "z")),
        ("b = Cast<to = 6>(x) c = Cast<to = 7>(z) a = Sub(b, c)", None),
        ("b = Cast<to = 6>(x) a = Sub(b, i32)", None),
        ("b = Cast<to = 6>(x) u = Unsqueeze(z3, i32) c = Cast<to = 6>(u) a = Sub(b, c)", ("x", "z3")),
        ("b = Cast<to = 6>(x) u = Unsqueeze(w, i32) c = Cast<to = 6>(u) a = Sub(b, c)", ("x", "u")),
        ("a = Abs(x)", None),
    ],
)
def test_integers_that_are_widened(body, found):
    of, _ = operands(body)
    assert of.wide("a", T.INT32) == found


def test_who_reads_a_value_alone():
    of, _ = operands(f"{D} b = Relu(a) c = Relu(b) e = Neg(b)")
    assert [of.alone(name) for name in ("a", "b", "c", "y")] == [True, False, False, False]
    assert of.maker_if("b", "Neg", "Relu").op_type == "Relu"
    assert of.maker_if("b", "Neg") is of.maker_if("b", "Relu", domain="own") is of.maker_if("x", "Relu") is None


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ("q = QuantizeLinear(fk, s, z)", T.UINT8), ("q = QuantizeLinear(fk, s)", T.UINT8), ("q = QuantizeLinear<output_dtype = 3>(fk, s)", T.INT8),
        ("q = QuantizeLinear<axis = 0>(fk, s, z)", T.UINT8), ("q = QuantizeLinear<block_size = 2>(fk, s, z)", 0), ("q = QuantizeLinear<precision = 1>(fk, s, z)", 0),
        ("q = QuantizeLinear<output_dtype = 4>(fk, s)", 0), ("q = QuantizeLinear(fk, s3, z3)", 0), ("q = QuantizeLinear(fk, d)", 0), ("q = QuantizeLinear(fk, s1, z1)", T.UINT8),
    ],
)  # fmt: skip
def test_the_type_that_is_quantized_to(node, kind):
    of, _ = operands(node)
    assert calls.output_elem_type(of, of.scope.body.node[0]) == kind


def test_a_call_and_what_stands_around_it():
    of, _ = operands("q = Conv<group = 2, pads = [1, 1]>(fk, s)")
    call = FloatCall(of.scope.body.node[0], ["fk", "s"], [], {"pads": [0, 0]})
    assert [call.value(name, 7) for name in ("group", "pads", "strides")] == [2, [0, 0], 7]
    assert [call.input(index) for index in (0, 1, 2)] == ["fk", "s", ""]
    assert calls.attributes_of(call, "pads") == {"group": 2}
    assert calls.attributes_of(call) == {"group": 2, "pads": [1, 1]}


def test_types_that_there_are_kernels_of():
    of, _ = operands("")
    calls.check_same(of, T.UINT8, "x", "z")
    with pytest.raises(Stays, match="int8 is requantized to uint8; supported: one type"):
        calls.check_same(of, T.UINT8, "x", "w")
    for kind, x, w in ((T.UINT8, "x", "w"), (0, "x", "w"), (0, "x", "x"), (T.INT8, "w", "w")):
        calls.check_kernel(of, kind, x, w)
    more = "; supported: uint8 times uint8 or int8, and int8 times int8, of the data's type"
    for kind, x, w, why in (
        (T.INT8, "w", "x", "int8 times uint8 becomes int8"),
        (0, "w", "x", "int8 times uint8"),
        (T.INT8, "x", "w", "uint8 times int8 becomes int8"),
        (0, "i32", "w", "int32 times int8"),
    ):
        with pytest.raises(Stays) as stays:
            calls.check_kernel(of, kind, x, w)
        assert str(stays.value) == why + more


def stays(make, body, inputs, kind=T.UINT8, attributes=None, **named):
    of, build = operands(body, **named)
    call = FloatCall(of.scope.body.node[-2], inputs, [], attributes or {}, "s", "z")
    assert calls.try_make(make, of, build, call, kind) is None
    with pytest.raises(Stays) as found:
        make(of, build, call, kind)
    return str(found.value)


def test_why_calls_stay_on_floats():
    both = f"{D} b = DequantizeLinear(w, ws, wz) c = DequantizeLinear(w, s) "
    assert (
        stays(requantized.gemm, f"{both} f = Gemm<beta = 2.0>(a, c, s)", ["a", "c", "s"])
        == "beta is not 1; supported: 1"
    )
    assert (
        stays(requantized.pool, f"{D} f = MaxPool<kernel_shape = [2,2], dilations = [1,2]>(a)", ["a"])
        == "its windows have dilations; supported: no dilations"
    )
    counted = f"{D} f = AveragePool<kernel_shape = [2,2], ceil_mode = 1, count_include_pad = 1>(a)"
    assert (
        stays(requantized.pool, counted, ["a"]) == "it has both ceil_mode and count_include_pad; supported: one of them"
    )
    zeros = "the weights have a zero point for each channel; supported: one zero point"
    assert (
        stays(requantized.convolution, f"{D} b = DequantizeLinear<axis = 0>(w, ws, wz2) f = Conv(a, b)", ["a", "b"])
        == zeros
    )
    computed = "one zero point is computed and the result's is constant, which crashes onnxruntime"
    assert (
        stays(
            requantized.choice_of_integers,
            "a = DequantizeLinear(x, s, fz) b = DequantizeLinear(x, s, z) f = Where(n, a, b)",
            ["n", "a", "b"],
        )
        == computed
    )
    assert (
        stays(requantized.softmax, f"{D} f = Softmax<axis = 4>(a)", ["a"])
        == "its scale or rank is unknown; onnxruntime may compute infinities"
    )
    empty = "q = Slice(x, i0, i0, i0) a = DequantizeLinear(q, s, z) f = Softmax<axis = 0>(a)"
    assert stays(requantized.softmax, empty, ["a"], i0=np.int64([0])) == "it is empty, which onnxruntime does not run"


@pytest.mark.parametrize(
    ("make", "op", "axis"),
    [(requantized.product, "MatMul", 1), (requantized.gemm, "Gemm", 1), (requantized.convolution, "Conv", 0)],
)
def test_products_are_of_types_that_there_are_kernels_of(make, op, axis):
    weights = {"w": np.int8([[1, 2], [3, 4]]), "v": np.uint8([[1, 2], [3, 4]])}
    body = f"a = DequantizeLinear(w, s) b = DequantizeLinear<axis = {axis}>(v, s) f = {op}(a, b)"
    why = stays(make, body, ["a", "b"], T.INT8, **weights)
    assert why.startswith("int8 times uint8 becomes int8; ")
    of, build = operands(body, **weights)
    call = FloatCall(of.scope.body.node[-2], ["b", "a"], [], {}, "s", "z")
    assert make(of, build, call, T.UINT8).inputs[::3] == ["v", "w"] + [""] * (op != "MatMul")


@pytest.mark.parametrize(
    ("bias", "why", "remark"),
    [
        (np.float32([0.5, 1.0]), "", False),
        (np.float32([0.5, 1.0001]), "", True),
        (np.float32([0.5, 1.24]), "its bias would be rounded by 0.48 steps of the result; supported: an int32 bias in the scale of the products", False),
        (np.float32([0.5, 3e9]), "its bias does not fit int32; supported: an int32 bias in the scale of the products", False),
        (np.float32([[0.5, 1.0]]), "its bias is not int32 in the scale of the products", False),
    ],
)  # fmt: skip
def test_how_a_bias_becomes_integers(bias, why, remark):
    """Products count 0.5 each, and a step of the result is 0.5 as well."""
    of, build = operands("", b=bias, one=np.float32(1), step=np.float32(0.5))
    scales = biases.Scales("s", "one", "step")
    if why:
        with pytest.raises(Stays) as found:
            biases.int32_bias(of, build, "b", scales)
        assert str(found.value) == why
    else:
        name, said = biases.int32_bias(of, build, "b", scales)
        assert (value(build, name).dtype, value(build, name).tolist()) == (np.int32, [1, 2])
        assert bool(said) == remark
