"""A bias that is not held in the scale of the products is rounded to it, where that says next to nothing else."""

import numpy as np
import onnx
import pytest
from opshift.passes.fusion import fold

from tests.passes.fusion.quantization.test_quantizer import CONV, DRAW, QDQ, check_steps, quantized

PLAIN = QDQ.replace("<axis=0>", "")
OF_FLOATS = PLAIN.replace(" c = DequantizeLinear(b, bs)", "").replace("a, v, c", "a, v, f3")
MOVED = "rounds its bias to the scale of the products, by 1/16 of a step at most"
CHANNELS = {"ws": DRAW.uniform(0.005, 0.02, 3).astype(np.float32), "wz": np.zeros(3, np.int8)}


def only(source):
    """The change that is made, and the bias that the operator gets."""
    result = fold.attempt(source, ops=[CONV])
    onnx.checker.check_model(result.model, full_check=True)
    check_steps(source, result.model)
    (node,) = result.model.graph.node[-1:]
    held = {t.name: t for t in result.model.graph.initializer}
    held |= {n.output[0]: n.attribute[0].t for n in result.model.graph.node if n.op_type == "Constant"}
    assert node.op_type == "QLinearConv"
    return result.changes[0], onnx.numpy_helper.to_array(held[node.input[8]])


@pytest.mark.parametrize(
    ("body", "held"),
    [
        (OF_FLOATS, {"f3": np.float32([-1.03, 0.21, 7.7])}),
        (OF_FLOATS.replace("(w, ws, wz)", "<axis=0>(w, ws, wz)"), {"f3": np.float32([-1.03, 0, 7.7]), **CHANNELS}),
        (PLAIN, {"bs": np.float32(0.5), "ws": np.float32(0.0123)}),
        (PLAIN.replace("(b, bs)", "(b, bs, bz)"), {"b": np.array([1, 200, 7], np.uint8), "bs": np.float32(0.1), "bz": np.uint8(9)}),
    ],
)  # fmt: skip
def test_a_bias_in_another_scale_is_rounded(body, held):
    source = quantized(body, **held)
    change, integers = only(source)
    given = {t.name: onnx.numpy_helper.to_array(t).astype(float) for t in source.graph.initializer}
    bias = given["f3"] if "f3" in given else (given["b"] - given.get("bz", 0)) * given["bs"]
    np.testing.assert_array_equal(integers, np.rint(bias / (given["xs"] * given["ws"])))
    assert integers.dtype == np.int32
    assert (change.grade, change.remark.endswith(MOVED)) == ("close", True)


def test_what_the_scale_holds_is_not_said_to_be_rounded():
    product = np.multiply(np.float32(0.03), np.float32(0.5), dtype=np.float32)
    for scale, integers in ((2, [-80, 14, 600]), (1, [-40, 7, 300])):
        change, found = only(quantized(PLAIN, ws=np.float32(0.5), ys=np.float32(1.5), bs=product * np.float32(scale)))
        assert list(found) == integers
        assert MOVED not in change.remark


STAYING = {
    "by 0.19 steps": (OF_FLOATS, {"f3": np.float32([0.1, 0, 0]), "ws": np.float32(0.4), "xs": np.float32(0.5), "ys": np.float32(0.51)}, "its bias would be rounded by 0.2 steps of the result"),
    "beyond int32": (OF_FLOATS, {"f3": np.float32([1e9, 0, 0])}, "its bias does not fit int32; supported: an int32 bias in the scale"),
    "not a number": (OF_FLOATS, {"f3": np.float32([np.nan, 0, 0])}, "its bias does not fit int32"),
    "an infinity": (OF_FLOATS, {"f3": np.float32([np.inf, 0, 0])}, "its bias does not fit int32"),
    "a scale of 0": (OF_FLOATS, {"f3": np.float32([1, 0, 0]), "ws": np.float32(0)}, "its bias does not fit int32"),
    "no room beside it": (PLAIN, {"b": np.array([0, 7, -(2**31)], np.int32), "ws": np.float32(0.01)}, "no room for the products in int32"),
    "computed": (OF_FLOATS.replace("f3)", "g3)").replace("f = Conv", "g3 = Exp(f3) f = Conv"), {"f3": np.float32([1, 0, 0])}, "its bias is not int32"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAYING)
def test_a_bias_that_would_move_further_stays(what):
    body, held, why = STAYING[what]
    result = fold.attempt(quantized(body, **held), ops=[CONV])
    assert not result.changes
    assert [(one.op, why in one.why) for one in result.stays] == [("Conv", True)], result.stays


@pytest.mark.parametrize("name", ["xs", "ys", "f3"])
def test_what_only_the_run_tells_stays(name):
    source = quantized(OF_FLOATS, f3=np.float32([1, 0, 0]))
    dims = next(t.dims for t in source.graph.initializer if t.name == name)
    source.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims))  # a default now
    result = fold.attempt(source, ops=[CONV])
    assert not result.changes
    assert ["its bias is not int32" in one.why for one in result.stays] == [True]
