"""One call on values: which engine answers, in which width, and whether two answers are the same."""

import math

import numpy as np
import onnx.helper
import pytest

from opshift.verification.engines import EngineError
from opshift.verification.twins import calls

WIDE, SINGLE = np.float64([[1, -2], [3, 1e300]]), np.float32([[1, -2], [3, np.inf]])


def changed(value, at, by):
    made = value.copy()
    made[at] = by
    return made


@pytest.mark.parametrize(
    ("made", "narrow", "near"),
    [
        (WIDE, SINGLE, True),  # what only the narrow one cannot hold
        (WIDE[0], SINGLE[0] * np.float32(1.00001), True),
        (WIDE[0], SINGLE[0] * np.float32(1.5), False),
        (WIDE[0], -SINGLE[0], False),
        (WIDE[:1], SINGLE[0], False),
        (changed(WIDE, (0, 0), np.nan), SINGLE, False),
        (WIDE, changed(SINGLE, (0, 0), np.nan), False),
        (changed(WIDE, (0, 0), np.inf), SINGLE, False),
        (np.zeros((0, 2)), np.zeros((0, 2), np.float32), True),
        (np.array([1, 2]), np.array([1, 2]), True),
        (None, None, True),
        (None, SINGLE, False),
    ],
)
def test_whether_two_kernels_compute_the_same(made, narrow, near):
    assert calls._near([made], [narrow]) is near
    assert calls._near([WIDE[0], made], [SINGLE[0], narrow]) is near
    assert calls._near([np.array([1, 2]), None, made], [np.array([1, 2]), None, narrow]) is near


def test_a_call_of_another_domain_runs_with_its_attributes():
    node = onnx.helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", alpha=0.5, transB=1)
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    (made,) = calls.Calls().run(node, 1, [a, b], [np.dtype(np.float32)] * 2)
    np.testing.assert_array_equal(made, a @ b.T / 2)


def test_a_call_on_a_sequence_and_without_an_input():
    pair = [np.arange(3.0), np.arange(3.0, 6.0)]
    node = onnx.helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    np.testing.assert_array_equal(calls.Calls().run(node, 13, [pair], [None])[0], np.arange(6.0))
    node = onnx.helper.make_node("Clip", ["x", "", "high"], ["y"])
    made = calls.Calls().run(node, 13, [np.arange(3.0), None, np.array(1.0)], [None, None, None])
    np.testing.assert_array_equal(made[0], [0, 1, 1])


def test_a_kernel_that_computes_something_else_is_not_believed(monkeypatch):
    """What numpy yields is compared with onnxruntime in float32."""
    x = np.linspace(-2, 2, 9)
    node, expected = onnx.helper.make_node("Erf", ["x"], ["y"]), [math.erf(value) for value in x]
    monkeypatch.setattr(calls.kernels, "compute", lambda *_: [1.5 * np.array(expected)])
    made = calls.Calls()
    np.testing.assert_allclose(made.run(node, 13, [x], [np.dtype(np.float32)])[0], expected, rtol=1e-5)
    assert (made.narrow, made.elsewhere) == ({"Erf": 1}, {})
    monkeypatch.setattr(calls.kernels, "compute", lambda *_: [np.array(expected)])
    made = calls.Calls()
    assert (made.run(node, 13, [x], [np.dtype(np.float32)])[0] == expected).all()
    assert (made.narrow, made.elsewhere) == ({}, {"Erf": 1})


@pytest.mark.parametrize(("opset", "axes"), [(11, (1, 2)), (13, (1,))])
def test_an_operator_is_the_one_of_its_opset(opset, axes):
    """Softmax until 12 works on all axes from one on."""
    x = np.linspace(-2, 2, 12).reshape(1, 3, 4)
    (made,) = calls.Calls().run(onnx.helper.make_node("Softmax", ["x"], ["y"], axis=1), opset, [x], [None])
    np.testing.assert_allclose(made, np.exp(x) / np.exp(x).sum(axes, keepdims=True), rtol=1e-14)


def test_a_call_runs_at_its_own_version():
    node = onnx.helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    np.testing.assert_array_equal(calls.Calls().run(node, 11, [np.ones((1, 3))], [None])[0], np.ones(3))


def test_what_was_prepared_serves_others_which_count_for_themselves(monkeypatch):
    opened, session = [], calls.OnnxRuntime
    monkeypatch.setattr(calls, "OnnxRuntime", lambda model: opened.append(1) or session(model))
    one, x = calls.Calls(), np.linspace(-2, 2, 9)
    node = onnx.helper.make_node("Gelu", ["x"], ["y"])
    made = [user.run(node, 20, [x], [np.dtype(np.float32)])[0] for user in (one, one.beside(), one.beside())]
    assert (made[0] == made[1]).all()
    assert (one.elsewhere, len(opened)) == ({"Gelu": 1}, 1), "in float32 alone"


def test_what_was_prepared_for_a_call_is_not_taken_for_another():
    """onnxruntime has neither in double: both are computed elsewhere, and in float32 beside it."""
    shared, x = calls.Calls(), np.linspace(-2, 2, 9)
    (first,) = shared.run(onnx.helper.make_node("Erf", ["x"], ["y"]), 13, [x], [np.dtype(np.float32)])
    (second,) = shared.run(onnx.helper.make_node("HardSwish", ["x"], ["y"]), 14, [x], [np.dtype(np.float32)])
    np.testing.assert_allclose(first, [math.erf(value) for value in x], rtol=1e-6)
    np.testing.assert_allclose(second, x * np.clip(x / 6 + 0.5, 0, 1), rtol=1e-6)


def test_what_nobody_runs_is_an_error():
    node = onnx.helper.make_node("Nothing", ["x"], ["y"], domain="nobody")
    with pytest.raises(EngineError):
        calls.Calls().run(node, 1, [np.ones(3)], [np.dtype(np.float32)])


def test_what_runs_neither_wide_nor_in_float_runs_as_it_is(monkeypatch):
    node, asked = onnx.helper.make_node("Erf", ["x"], ["y"]), []

    def narrow_alone(self, model):
        asked.append(model.graph.input[0].type.tensor_type.elem_type)
        if asked[-1] != onnx.TensorProto.FLOAT16:
            raise EngineError("not this one")
        self.run = lambda feeds: [np.float16([0.5])]

    monkeypatch.setattr(calls.OnnxRuntime, "__init__", narrow_alone)
    monkeypatch.setattr(calls.Reference, "__init__", narrow_alone)
    monkeypatch.setattr(calls.kernels, "compute", lambda *_: None)
    made = calls.Calls()
    assert made.run(node, 13, [np.ones(1)], [np.dtype(np.float16)]) == [np.float16([0.5])]
    assert (made.narrow, made.elsewhere, made.unit) == ({"Erf": 1}, {}, 2.0**-11)


@pytest.mark.parametrize("op", ["DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "Erf"])
def test_what_quantizes_rounds_nothing_else(op):
    """What runs as narrow as it is widens the bounds, but for what rounds on purpose."""
    made = calls.Calls()
    made._count(onnx.helper.make_node(op, ["x"], ["y"]), [None, np.dtype(np.float32), np.dtype(np.float16)])
    assert (made.narrow, made.unit) == ({op: 1}, 2.0**-11 if op == "Erf" else 0.0)


def test_what_a_value_is():
    one, words, whole = np.ones(1), np.array(["a"], object), np.array([1])
    assert [calls._is_wide(v) for v in (one, one.astype("f4"), whole, [one], None)] == [
        True,
        False,
        False,
        False,
        False,
    ]
    truth, unsigned = np.array([True]), np.array([1], "u1")
    assert all(calls._is_number(v) for v in (None, whole, unsigned, truth, one))
    assert not any(calls._is_number(v) for v in (one.astype("f4"), words))


def test_double_becomes_what_the_form_has_and_all_else_stays():
    single, whole = np.dtype("f4"), np.array([1])
    assert calls._as(np.ones(2), single).dtype == single
    assert calls._as(whole, single) is whole
    assert calls._as(None, single) is None
    held = np.ones(2)
    assert calls._as(held, None) is held
    assert [value.dtype for value in calls._as([held, whole], single)] == [single, whole.dtype]


def test_the_model_of_a_call():
    node = onnx.helper.make_node("Split", ["a", "", "c"], ["y", "", "z"], axis=1)
    made = calls._model(node, 18, [np.ones(2), None, [np.float32([1])]])
    assert [(o.domain, o.version) for o in made.opset_import] == [("", 18)]
    assert (made.ir_version, made.graph.name) == (8, "call")
    (call,) = made.graph.node
    assert (list(call.input), list(call.output), call.attribute[0].i) == (["i0", "", "i2"], ["o0", "", "o2"], 1)
    assert [v.name for v in made.graph.output] == ["o0", "o2"]
    one, row = made.graph.input
    assert (one.name, one.type.tensor_type.elem_type, one.type.tensor_type.HasField("shape")) == ("i0", 11, False)
    assert (row.name, row.type.sequence_type.elem_type.tensor_type.elem_type) == ("i2", 1)
    empty = calls._model(node, 18, [[], None, None]).graph.input[0]
    assert empty.type.sequence_type.elem_type.tensor_type.elem_type == 11, "an empty sequence is one of double"
    vendor = onnx.helper.make_node("FastGelu", ["a"], ["y"], domain="com.microsoft")
    made = calls._model(vendor, 1, [np.float32([1])])
    assert [(o.domain, o.version) for o in made.opset_import] == [("com.microsoft", 1), ("", 17)]
    assert made.ir_version == 8
    assert calls._model(node, 26, [np.ones(2)]).ir_version == 10, "what engines read is no newer"


def test_what_tells_two_calls_apart():
    two = np.ones(2), None

    def key(op="Split", opset=18, inputs=two, domain="", outputs=("y", "z"), **attributes):
        node = onnx.helper.make_node(op, ["a", "b"], list(outputs), domain=domain, **attributes)
        return calls.Call(node, opset).key(inputs)

    assert key() == key(inputs=(np.zeros(9), None), outputs=("p", "q"))
    assert key(a=1, b=2) == key(b=2, a=1)
    others = [
        key("Neg"), key(opset=17), key(inputs=(np.ones(2), np.ones(2))), key(inputs=(np.float32([1]), None)), key(a=1), key(a=2),
        key(inputs=([np.ones(2)], None)), key(domain="own"), key(outputs=("y", "")), key(outputs=("y",)),
    ]  # fmt: skip
    assert len({key(), *others}) == 11


def test_attributes_are_those_of_python():
    node = onnx.helper.make_node("Op", [], [], text="abc", rows=[1, 2], half=0.5)
    assert calls.Call(node, 17).attributes == {"text": "abc", "rows": [1, 2], "half": 0.5}
