"""What stays on floats between quantized values is said, with the reason."""

import json

import numpy as np
import onnx
import pytest
from opshift.passes.fusion import fold
from opshift.passes.fusion.quantization.forms import INTEGERS, MOVED

from opshift.cli import main as cli
from tests.passes.fusion.quantization.test_quantizer import CONV, QDQ, check_steps, quantized

PLAIN = QDQ.replace("<axis=0>", "")
A = "a = DequantizeLinear(x, xs, xz)"
REASONS = {
    "an activation": (PLAIN.replace("y = QuantizeLinear(f", "g = Sigmoid(f) y = QuantizeLinear(g"), {}, "Sigmoid stands between it and QuantizeLinear"),
    "two readers": (f"{PLAIN} z = Relu(f)", {}, "2 nodes use its result"),
    "an output": (f"{PLAIN} z = Relu(x0) x0 = Identity(f)".replace("z = Relu(x0) x0 = Identity(f)", ""), {"output": "f"}, "its result is also used elsewhere"),
    "no QuantizeLinear next": (PLAIN.replace("y = QuantizeLinear(f, ys, yz)", "g = Relu(f) h = Exp(g) y = QuantizeLinear(h, ys, yz)"), {}, "Relu reads its result"),
    "weights of floats": (f"{A} f = Conv(a, fw) y = QuantizeLinear(f, ys, yz)", {"fw": np.ones((3, 2, 3, 3), np.float32)}, "an operand is held in floats"),
    "data that are computed": (f"{A} e = Exp(a) v = DequantizeLinear(w, ws, wz) f = Conv(e, v) y = QuantizeLinear(f, ys, yz)", {}, "an operand is computed by Exp"),
    "another axis": (PLAIN.replace("v = DequantizeLinear", "v = DequantizeLinear<axis = 2>").replace("a, v, c", "a, v"), {"ws": np.float32([0.1] * 3), "wz": np.zeros(3, np.int8)}, "an operand has several scales, along axis 2"),
    "types without a kernel": (PLAIN, {"w": np.ones((3, 2, 3, 3), np.uint8), "wz": np.uint8(0), "kinds": ("int8", "uint8", "int8")}, "int8 times uint8 becomes int8"),
}  # fmt: skip


@pytest.mark.parametrize("what", REASONS)
def test_the_reason_is_said(what):
    body, held, why = REASONS[what]
    held = dict(held)
    kinds, output = held.pop("kinds", ("uint8", "int8", "uint8")), held.pop("output", "")
    source = quantized(body.replace(" c = DequantizeLinear(b, bs)", "") if "a, v)" in body else body, kinds, **held)
    for name in [*["z"] * ("z = " in body), *[output] * bool(output)]:
        source.graph.output.add(name=name).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    result = fold.attempt(source, ops=[CONV])
    assert not result.changes
    assert [(one.op, one.why[: len(why)]) for one in result.stays] == [("Conv", why)], result.stays


def test_what_is_not_quantized_is_not_spoken_of():
    source = quantized("e = Cast<to = 1>(x) f = Conv(e, fw) y = Cast<to = 2>(f)", fw=np.ones((3, 2, 3, 3), np.float32))
    assert not fold.attempt(source, ops=[CONV]).stays
    assert not fold.attempt(quantized(PLAIN), ops=[CONV]).stays


def test_of_a_whole_model_all_is_said():
    body = (
        PLAIN.replace("y = ", "q = ")
        + """
        d = DequantizeLinear(q, ys, yz) r = Relu(d) e = QuantizeLinear(r, ys, yz) g = DequantizeLinear(e, ys, yz)
        h = Add(g, g) i = QuantizeLinear(h, ys, yz) j = DequantizeLinear(i, ys, yz) k = Transpose(j) y = QuantizeLinear(k, xs, yz)"""
    )
    source = quantized(body)
    found = fold.attempt(source, ops=[*sorted(INTEGERS), MOVED])
    assert [change.op for change in found.changes] == ["QLinearConv"]
    assert [(one.op, one.why) for one in found.stays] == [
        ("Relu", "ONNX has no such QLinear operator"),
        ("Add", "ONNX has no such QLinear operator; com.microsoft::QLinearAdd comes in by its name"),
        ("Transpose", "its result has another scale or zero point"),
    ]
    assert not fold.attempt(source, ops=[CONV]).stays


@pytest.mark.parametrize(
    ("bounds", "cut"),
    [
        ("Relu(f)", True), ("Clip(f, zero, six)", True), ("Clip(f, zero)", True), ("Clip(f, , big)", True), ("Clip(f)", True),
        ("Clip(f, zero, four)", False), ("Clip(f, four)", False), ("Clip(f, zero, x6)", False), ("Clip(f, six, zero)", False),
        ("Clip(f, nan)", False), ("LeakyRelu(f)", False),
    ],
)  # fmt: skip
def test_bounds_that_the_type_has_itself_go(bounds, cut):
    """Of a scale of 6 / 255 and a zero point of 0, whose numbers end at 0 and 6."""
    numbers = {"zero": 0, "six": 6, "four": 4, "big": 3e38, "nan": np.nan, "x6": 6}
    held = {name: np.float32(value) for name, value in numbers.items()} | {"ys": np.float32(6 / 255), "yz": np.uint8(0)}
    source = quantized(PLAIN.replace("y = QuantizeLinear(f", f"g = {bounds} y = QuantizeLinear(g"), **held)
    if "x6" in bounds:
        source.graph.input.append(onnx.helper.make_tensor_value_info("x6", onnx.TensorProto.FLOAT, []))
    result = fold.attempt(source, ops=[CONV])
    assert bool(result.changes) == cut == (not result.stays)
    if cut:
        assert [node.op_type for node in result.model.graph.node] == ["QLinearConv"]
        check_steps(source, result.model)


def test_bounds_of_older_opsets_go():
    for most, cut in ((6.0, True), (5.9, False)):
        held = {"ys": np.float32(6 / 255), "yz": np.uint8(0)}
        body = PLAIN.replace("y = QuantizeLinear(f", f"g = Clip<min = 0.0, max = {most}>(f) y = QuantizeLinear(g")
        assert bool(fold.attempt(quantized(body, opset=10, **held), ops=[CONV]).changes) == cut


def test_commands(tmp_path, capsys):
    body, held, why = REASONS["an activation"]
    onnx.save(quantized(body, **held), tmp_path / "in.onnx")
    command = [
        "convert",
        str(tmp_path / "in.onnx"),
        str(tmp_path / "out.onnx"),
        "--quantization",
        "qoperator",
        "--no-verify",
    ]
    assert cli.main(command) == 0
    assert f'not quantized: Conv "f": {why}\n' in capsys.readouterr().out
    assert cli.main([*command, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["op"], one["why"]) for one in told["stays"]] == [("Conv", why)]
