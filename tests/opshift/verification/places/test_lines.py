"""Where operators begin to compute something else, told by the text of each; expected numbers are worked out by hand."""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from opshift.verification.places import lines

INF = math.inf


def held(**values):
    return {name: numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()}


def between(*ends):
    return list(zip((-INF, *ends), (*ends, INF), strict=True))


def pieces(op, inputs="x", domain="", constants=None, **attributes):
    node = helper.make_node(op, inputs.split(), ["y"], domain=domain, **attributes)
    return list(lines.pieces(node, constants or {}))


@pytest.mark.parametrize("op", ["Abs", "Celu", "Elu", "LeakyRelu", "PRelu", "Relu", "Selu", "Sign"])
def test_what_bends_at_0(op):
    assert pieces(op, "x slope") == [("x", between(0))]


@pytest.mark.parametrize(
    ("op", "attributes", "ends"),
    [
        ("HardSigmoid", {}, [-2.5, 2.5]),
        ("HardSigmoid", {"alpha": 0.25, "beta": 0.25}, [-1, 3]),
        ("HardSigmoid", {"alpha": -0.5, "beta": 0.0}, [-2, 0]),
        ("HardSwish", {}, [-3, 3]),
        ("Shrink", {}, [-0.5, 0.5]),
        ("Shrink", {"lambd": 2.0}, [-2, 2]),
        ("ThresholdedRelu", {}, [1]),
        ("ThresholdedRelu", {"alpha": 3.0}, [3]),
        ("Clip", {"min": -1.0, "max": 6.0}, [-1, 6]),
        ("Clip", {"max": 6.0}, [6]),
        ("Clip", {"min": 2.0, "max": 2.0}, [2]),
        ("Clip", {"min": -3e38, "max": 5.0}, [5]),
    ],
)
def test_lines_of_attributes(op, attributes, ends):
    ((name, found),) = pieces(op, **attributes)
    assert name == "x"
    assert [end for piece in found for end in piece] == pytest.approx([e for p in between(*ends) for e in p], rel=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("HardSigmoid", {"alpha": 0.0}), ("Clip", {}), ("Clip", {"min": -1e30, "max": 1e30}), ("Clip", {"max": INF})],
)
def test_no_line_is_no_piece(op, attributes):
    assert pieces(op, **attributes) == [("x", [])]


@pytest.mark.parametrize(
    ("op", "reach"),
    [("Erf", 3), ("Gelu", 4), ("Mish", 15), ("Sigmoid", 16), ("Softplus", 15), ("Tanh", 8)],
)
def test_up_to_where_functions_move(op, reach):
    assert pieces(op) == [("x", [(-reach, reach)])]


@pytest.mark.parametrize(
    ("inputs", "ends"), [("x low high", [-2, 5]), ("x low", [-2]), ("x computed high", [5]), ("x none high", [5])]
)
def test_bounds_that_are_inputs(inputs, ends):
    known = held(low=np.float32(-2), high=np.float32(5), none=np.zeros(0, np.float32))
    assert pieces("Clip", inputs, constants=known) == [("x", between(*ends))]


@pytest.mark.parametrize(
    ("inputs", "attributes", "ends"),
    [
        ("x scale", {}, [0, 127.5]),
        ("x scale u8", {}, [-50, 77.5]),
        ("x scale s8", {}, [-69, 58.5]),
        ("x scale u16", {}, [-2, 32765.5]),
        ("x scale s16", {}, [-16382, 16385.5]),
        ("x scale", {"output_dtype": TensorProto.INT8}, [-64, 63.5]),
        ("x scale computed", {"output_dtype": TensorProto.INT8}, [-64, 63.5]),
        ("x scales zeros", {}, [-14, 506]),
    ],
)
def test_quantized_values_end_where_their_type_does(inputs, attributes, ends):
    known = held(
        scale=np.float32(0.5), u8=np.uint8(100), s8=np.int8(10), u16=np.uint16(4), s16=np.int16(-4),
        scales=np.float32([1, 2, 0.5]), zeros=np.uint8([2, 7, 5]),
    )  # fmt: skip
    assert pieces("QuantizeLinear", inputs, constants=known, **attributes) == [("x", between(*ends))]


@pytest.mark.parametrize("inputs", ["x computed", "x scale wide"])
def test_where_quantized_values_end_is_open(inputs):
    assert pieces("QuantizeLinear", inputs, constants=held(scale=np.float32(1), wide=np.int32(0))) == [("x", [])]


def test_a_condition_is_one_or_the_other():
    assert pieces("Where", "c a b") == [("c", between(0.5))]


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"])
def test_what_is_compared_with_a_constant(op):
    known = held(k=np.float32([7, 3, 5]))
    assert pieces(op, "x k", constants=known) == [("x", between(3))]
    assert pieces(op, "k x", constants=known) == [("x", between(3))]
    assert pieces(op, "x z", constants=known) == []
    assert pieces(op, "x k k", constants=known) == []


@pytest.mark.parametrize(
    ("op", "inputs", "domain"), [("Add", "x k", ""), ("Relu", "x", "own"), ("Max", "", ""), ("Relu", "", "")]
)
def test_what_is_the_same_everywhere(op, inputs, domain):
    assert pieces(op, inputs, domain, held(k=np.float32(1))) == []
    assert pieces("Relu", domain="ai.onnx") == [("x", between(0))]


def test_the_least_and_the_largest_number_of_a_constant():
    size = 1 << 16
    known = held(
        row=np.int64([3, -4, 9]), none=np.zeros(0), text=np.array(["a"]), complex=np.complex64([1]),
        much=np.arange(size, dtype=np.uint16), more=np.zeros(size + 1, np.uint8),
    )  # fmt: skip
    assert lines.range_of(known, "row") == (-4, 9)
    assert lines.range_of(known, "much") == (0, size - 1)
    assert [lines.range_of(known, name) for name in ("none", "text", "complex", "more", "nothing")] == [None] * 5


def test_constants_of_a_graph():
    tensor = numpy_helper.from_array(np.float32([2]), "w")
    made = [
        helper.make_node("Constant", [], ["a"], value_float=3.0),
        helper.make_node("Constant", [], ["b"], value=tensor),
        helper.make_node("Constant", [], [], value=tensor),
        helper.make_node("Identity", ["w"], ["c"]),
    ]
    found = lines.constants(helper.make_graph(made, "g", [], [], [tensor]))
    assert {name: numpy_helper.to_array(value).tolist() for name, value in found.items()} == {
        "w": [2.0], "a": 3.0, "b": [2.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("op", "inputs", "made"),
    [
        ("Add", "x four", 10), ("Add", "four x", 10),
        ("Sub", "x four", 2), ("Sub", "four x", -2),
        ("Mul", "x four", 24), ("Mul", "four x", 24),
        ("Div", "x four", 1.5),
        *((op, "x", 6) for op in ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")),
    ],
)  # fmt: skip
def test_what_a_number_was_before_it_was_moved_or_scaled(op, inputs, made):
    found = lines.upwards(helper.make_node(op, inputs.split(), ["y"]), held(four=np.float32(4)))
    assert found is not None
    assert (found[0], found[1](made)) == ("x", 6)


@pytest.mark.parametrize(
    ("op", "inputs", "domain"),
    [
        ("Add", "x z", ""), ("Add", "four four", ""), ("Add", "x", ""), ("Add", "x four four", ""),
        ("Mul", "x zero", ""), ("Mul", "zero x", ""), ("Div", "four x", ""), ("Div", "x zero", ""), ("Div", "x z", ""),
        ("Neg", "x", ""), ("Max", "x four", ""), ("Identity", "", ""), ("Identity", "x", "own"),
    ],
)  # fmt: skip
def test_what_it_was_before_is_open(op, inputs, domain):
    node = helper.make_node(op, inputs.split(), ["y"], domain=domain)
    assert lines.upwards(node, held(four=np.float32(4), zero=np.float32(0))) is None
