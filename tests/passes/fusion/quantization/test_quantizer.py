"""QDQ becomes the operator on integers where scales, types and the bias are what it takes, and else stays."""

import numpy as np
import onnx
import pytest
from opshift.passes.changes import Allowance
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold

from tests.support import evaluate, model, show

CONV, MATMUL = ("", "QLinearConv"), ("", "QLinearMatMul")
DRAW = np.random.default_rng(0)


def quantized(body, kinds=("uint8", "int8", "uint8"), *, per_channel=False, opset=13, **held):
    """A model that reads x as an image or a matrix; the constants of a small convolution unless given."""
    x, w, y = kinds
    shape = (3,) if per_channel else ()
    values = {
        "xs": np.float32(0.03), "xz": np.array(7, x), "ys": np.float32(0.05), "yz": np.array(3, y),
        "w": DRAW.integers(-90 if w == "int8" else 0, 90, (3, 2, 3, 3)).astype(w), "b": np.array([-40, 7, 300], np.int32),
        "ws": DRAW.uniform(0.005, 0.02, shape).astype(np.float32), "wz": np.zeros(shape, w), **held,
    }  # fmt: skip
    source = model(body, opset, inputs=f"{x}[2,2,6,6] x", outputs=f"{y}[A,B,C,D] y")
    if "bs" not in values:
        values["bs"] = np.multiply(values["xs"], values["ws"], dtype=np.float32)
    read = {name for node in source.graph.node for name in node.input}
    source.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in values.items() if n in read
    )
    return source


def feeds(source):
    kind = source.graph.input[0].type.tensor_type.elem_type
    return {"x": DRAW.integers(0, 120, (2, 2, 6, 6)).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))}


def check_steps(before, after):
    """As onnxruntime runs them, no element is more than a step away."""
    given = feeds(before)
    expected, actual = (evaluate(of, given)[0] for of in (before, after))
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
    assert np.abs(expected.astype(int) - actual.astype(int)).max() <= 1
    assert len(np.unique(expected)) > 10, "not all is cut off"


QDQ = """a = DequantizeLinear(x, xs, xz) v = DequantizeLinear<axis=0>(w, ws, wz) c = DequantizeLinear<axis=0>(b, bs)
         f = Conv<pads=[1, 1, 1, 1]>(a, v, c) y = QuantizeLinear(f, ys, yz)"""


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kinds", [("uint8", "int8", "uint8"), ("uint8", "uint8", "uint8"), ("int8", "int8", "int8")])
def test_a_convolution_comes_back(kinds, per_channel):
    body = QDQ if per_channel else QDQ.replace("<axis=0>", "")
    source = quantized(body, kinds, per_channel=per_channel)
    result = fold.attempt(source, ops=[CONV])
    assert [node.op_type for node in result.model.graph.node] == ["QLinearConv"]
    assert result.grade == "close"
    onnx.checker.check_model(result.model, full_check=True)
    check_steps(source, result.model)
    again = convert.attempt(result.model, {"": 13}, ops=[CONV]).model
    assert {node.op_type for node in again.graph.node} >= {"DequantizeLinear", "Conv", "QuantizeLinear"}
    check_steps(result.model, again)
    assert [node.op_type for node in fold.attempt(again, ops=[CONV]).model.graph.node] == ["QLinearConv"]


def test_a_product_comes_back():
    body = """a = DequantizeLinear(x, xs, xz) v = DequantizeLinear(w, ws, wz) f = MatMul(a, v)
              y = QuantizeLinear(f, ys, yz)"""
    source = quantized(body, w=DRAW.integers(-90, 90, (6, 5)).astype(np.int8))
    result = fold.attempt(source, ops=[MATMUL])
    assert show(result.model).count("QLinearMatMul") == len(result.model.graph.node) == 1
    check_steps(source, result.model)
    again = convert.attempt(result.model, {"": 13}, ops=[MATMUL]).model
    assert {node.op_type for node in again.graph.node} == {"DequantizeLinear", "MatMul", "QuantizeLinear"}
    check_steps(result.model, again)


def test_what_others_read_too_stays_beside_it():
    source = quantized(QDQ.replace("<axis=0>", "") + " z = Relu(a)")
    source.graph.output.add(name="z").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    folded = fold.attempt(source, ops=[CONV]).model
    assert sorted(node.op_type for node in folded.graph.node) == ["DequantizeLinear", "QLinearConv", "Relu"]


def test_missing_zero_points_are_0():
    body = QDQ.replace("<axis=0>", "").replace("xs, xz", "xs").replace("ws, wz", "ws").replace("ys, yz", "ys")
    source = quantized(body, ("uint8", "int8", "uint8"))
    folded = fold.attempt(source, ops=[CONV]).model
    assert [node.op_type for node in folded.graph.node] == ["QLinearConv"]
    check_steps(source, folded)


STAYING = {
    "a result that others read": (QDQ.replace("<axis=0>", "") + " z = Relu(f)", {}),
    "a weight of floats": ("a = DequantizeLinear(x, xs, xz) f = Conv(a, fw) y = QuantizeLinear(f, ys, yz)",
                           {"fw": np.ones((3, 2, 3, 3), np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("what", STAYING)
def test_anything_else_stays(what):
    body, held = STAYING[what]
    source = quantized(body, **held)
    if "z = " in body:
        source.graph.output.add(name="z").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    result = fold.attempt(source, ops=[CONV])
    assert not result.changes
    assert result.model == source


def test_types_that_have_no_kernel_stay():
    assert not fold.attempt(quantized(QDQ.replace("<axis=0>", ""), ("int8", "uint8", "int8")), ops=[CONV]).changes


def test_what_may_be_changed_is_asked_of_what_changes_alone():
    class Asked(Allowance):
        nodes = 0

        def permits(self, node, op, how):
            self.nodes += 1
            return super().permits(node, op, how)

    for kinds, replaced in ((("int8", "uint8", "int8"), 0), (("uint8", "int8", "uint8"), 1)):
        allowance = Asked(most=1)
        fold.attempt(quantized(QDQ.replace("<axis=0>", ""), kinds), ops=[CONV], allowance=allowance)
        assert allowance.nodes == len(allowance.made) == replaced
    assert not fold.attempt(quantized(QDQ.replace("<axis=0>", "")), ops=[CONV], allowance=Allowance(most=0)).changes


def test_scales_along_another_axis_stay():
    body = QDQ.replace("v = DequantizeLinear<axis=0>", "v = DequantizeLinear<axis=1>").replace("a, v, c", "a, v")
    held = {"ws": np.float32([0.1, 0.2]), "wz": np.zeros(2, np.int8)}
    assert not fold.attempt(
        quantized(body.replace(" c = DequantizeLinear<axis=0>(b, bs)", ""), **held), ops=[CONV]
    ).changes


def test_only_by_name():
    assert not fold.attempt(quantized(QDQ.replace("<axis=0>", ""))).changes


def test_in_a_branch():
    inner = QDQ.replace("<axis=0>", "").replace("y = Q", "i = Q")
    body = f"y = If(given) <then_branch = t () => (uint8[] i) {{ {inner} }}, else_branch = e () => (uint8[] o) {{ o = Identity(x) }}>"
    source = quantized(body)
    source.graph.input.add(name="given").type.tensor_type.elem_type = onnx.TensorProto.BOOL
    made = quantized(QDQ.replace("<axis=0>", ""))
    source.graph.initializer.extend(made.graph.initializer)
    for attribute in source.graph.node[0].attribute:
        attribute.g.output[0].type.tensor_type.ClearField("shape")
    folded = fold.attempt(source, ops=[CONV]).model
    (then,) = (a.g for a in folded.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["QLinearConv"]
