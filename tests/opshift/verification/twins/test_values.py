"""What a name holds in a twin, and how weights become double."""

import weakref

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T
from opshift.passes.model import tensor_data

from opshift.verification.engines import EngineError
from opshift.verification.twins import memory, plan, twin, values
from opshift.verification.twins.calls import Call
from opshift.verification.twins.memory import Memory
from opshift.verification.twins.values import Value, of_tensor, widened
from tests.support import model

NARROW = {np.float32: T.FLOAT, np.float16: T.FLOAT16, ml_dtypes.bfloat16: T.BFLOAT16}


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_are_widened_and_known_as_what_they_were(dtype):
    made = widened(np.array([0.5, -1], dtype))
    assert (made.data.dtype, made.data.tolist(), made.kind, made.cut) == (np.float64, [0.5, -1], NARROW[dtype], False)
    made = widened(np.array([0.5], dtype), T.DOUBLE, True)
    assert (made.kind, made.cut) == (T.DOUBLE, True), "what is said goes before"


@pytest.mark.parametrize("dtype", [np.int64, bool, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.complex64])
def test_everything_else_stays_what_it_is(dtype):
    data = np.array([1, 0]).astype(dtype)
    made = widened(data, T.FLOAT, True)
    assert made.data is data
    assert (made.kind, made.cut) == (0, False)


def test_doubles_texts_and_what_is_no_array():
    data = np.array([0.5])
    assert widened(data, T.FLOAT, True) == Value(data, T.FLOAT, True)
    texts = np.array(["a"], object)
    assert widened(texts, T.FLOAT) == Value(texts)
    assert widened(None, T.FLOAT) == Value(None)
    known = Value(data, T.FLOAT16)
    assert widened(known, T.FLOAT) is known


def test_sequences_are_widened_one_by_one():
    made = widened([np.float16([1]), np.float16([2, 3])])
    assert [item.dtype for item in made.data] == [np.float64] * 2
    assert made.kind == T.FLOAT16
    assert widened([np.array([1])], T.FLOAT) == Value([np.array([1])], T.FLOAT)
    assert widened([], T.FLOAT).kind == T.FLOAT


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("narrow", [False, True])
def test_a_weight_is_read_as_it_is_asked_for(dtype, narrow):
    array = np.array([0.5, -1], dtype)
    made = of_tensor(onnx.numpy_helper.from_array(array), None, narrow=narrow)
    assert (made.data.dtype, made.kind) == (array.dtype if narrow else np.float64, NARROW[dtype])
    whole = of_tensor(onnx.numpy_helper.from_array(np.array([3])), None, narrow=narrow)
    assert (whole.data.tolist(), whole.kind) == ([3], 0)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("narrow", [False, True])
def test_a_weight_in_a_file_is_read_block_by_block(dtype, narrow, tmp_path, monkeypatch):
    monkeypatch.setattr(values, "_BLOCK", 2)
    array = np.arange(6).reshape(2, 3).astype(dtype)
    (tmp_path / "w").write_bytes(b"head" + array.tobytes())
    tensor = T(dims=[2, 3], data_type=NARROW[dtype])
    tensor_data.refer(tensor, "w", (4, 4 + array.nbytes))
    made = of_tensor(tensor, str(tmp_path), narrow=narrow)
    assert (made.data.dtype, made.kind) == (array.dtype if narrow else np.float64, NARROW[dtype])
    np.testing.assert_array_equal(made.data.astype("f8"), array.astype("f8"))
    with pytest.raises(EngineError, match="external data without a folder"):
        of_tensor(tensor, None)


def test_a_weight_in_a_file_in_another_form_is_read_whole(tmp_path):
    tensor = T(dims=[3], data_type=T.FLOAT, float_data=[1, 2, 3])
    (tmp_path / "m").write_bytes(tensor.SerializeToString())
    start, end = 4, len(tensor.SerializeToString())
    held = T(dims=[3], data_type=T.FLOAT)
    tensor_data.mark(held, "m", "", [(start, end)], None)
    assert of_tensor(held, str(tmp_path)).data.tolist() == [1, 2, 3]
    (tmp_path / "i").write_bytes(np.arange(3).tobytes())
    whole = T(dims=[3], data_type=T.INT64)
    tensor_data.refer(whole, "i", None)
    made = of_tensor(whole, str(tmp_path))
    assert (made.data.tolist(), made.kind) == ([0, 1, 2], 0)


# --- what is remembered -------------------------------------------------------------------------------------


def weight(*numbers, dtype=np.float32, shape=None):
    array = np.array(numbers, dtype)
    return onnx.numpy_helper.from_array(array if shape is None else array.reshape(shape))


def test_an_input_is_widened_once():
    held, array = Memory(), np.float32([1])
    assert held.feed(array) is held.feed(array)
    assert held.feed(array) is not held.feed(array.copy())


def test_weights_that_hold_the_same_are_the_same(monkeypatch):
    held, one = Memory(), weight(1, 2)
    assert held.weight(one, None) is held.weight(weight(1, 2), None)
    others = [weight(1, 3), weight(1, 2, shape=(2, 1)), weight(1, 2, dtype=np.float16)]
    made = [held.weight(other, None) for other in others]
    assert len({id(value) for value in [held.weight(one, None), *made]}) == 4
    assert held.weight(one, None, narrow=True) is not held.weight(one, None)
    assert held.weight(one, None, narrow=True).data.dtype == np.float32
    floats = T(dims=[2], data_type=T.FLOAT, float_data=[1, 2])
    assert held.weight(floats, None) is held.weight(floats, None)


@pytest.mark.parametrize(("most", "kept"), [(16, True), (15, False)])
def test_large_weights_are_not_remembered(most, kept, monkeypatch):
    """Two numbers, which have 16 bytes in float64 and 8 in the file."""
    monkeypatch.setattr(memory, "_SMALL", most)
    held, floats = Memory(), T(dims=[2], data_type=T.FLOAT, float_data=[1, 2])
    assert (held.weight(floats, None) is held.weight(floats, None)) is kept
    monkeypatch.setattr(memory, "_SMALL", most - 8)
    assert held.weight(weight(1, 2), None).data.tolist() == [1, 2]
    assert (held.weight(weight(1, 3), None) is held.weight(weight(1, 3), None)) is kept


def test_texts_are_not_remembered():
    held, texts = Memory(), T(dims=[1], data_type=T.STRING, string_data=[b"a"])
    assert held.weight(texts, None).data.tolist() == ["a"]


def test_calls_are_known_by_all_that_they_hang_on():
    make_node = onnx.helper.make_node

    def key(node, inputs, more):
        return Memory().key(plan.Step(node).marks, inputs, more)

    one, other = Value(np.ones(1)), Value(np.ones(1))
    node = make_node("Op", ["x"], ["y"], a=1, b=2)
    base = key(node, [one], (1,))
    assert base == key(make_node("Op", ["u"], ["v"], b=2, a=1), [one], (1,))
    assert base == key(make_node("Op", ["u"], ["v"], b=2, a=1, domain="ai.onnx"), [one], (1,))
    others = [
        key(make_node("Op", ["x"], ["y"], a=1, b=3), [one], (1,)),
        key(make_node("Pop", ["x"], ["y"], a=1, b=2), [one], (1,)),
        key(make_node("Op", ["x"], ["y"], a=1, b=2, domain="own"), [one], (1,)),
        key(make_node("Op", ["x"], ["", "y"], a=1, b=2), [one], (1,)),
        key(node, [other], (1,)),
        key(node, [Value(one.data, T.FLOAT)], (1,)),
        key(node, [Value(one.data, 0, True)], (1,)),
        key(node, [one, one], (1,)),
        key(node, [one], (2,)),
    ]
    assert len({base, *others}) == 10


def test_results_are_kept_while_there_is_room(monkeypatch):
    monkeypatch.setattr(memory, "MOST", 24)
    held, value = Memory(), Value(np.ones(1))
    assert held.result("a") is None
    held.keep("a", [], [value, Value(None)], "one")
    held.keep("b", [], [value, value], "two")
    held.keep("c", [], [value], "three")
    assert [held.result(key) for key in "abc"] == [([value, Value(None)], "one"), ([value, value], "two"), None]
    held = Memory()
    held.keep("list", [], [Value([np.ones(1)])], "")
    held.keep("more", [], [value], "")
    assert held.result("more") is None, "of a sequence nobody knows the size"


# --- twins as a whole ---------------------------------------------------------------------------------------


def test_what_is_read_no_more_is_let_go():
    of = model(
        "a = Neg(x) b = Exp(a) u = Abs(b) c = Add(a, b) d, e = Split<axis = 0>(c) y = Mul(d, w)",
        17,
        inputs="float[2] x",
        outputs="y, b",
        constants="float w = {2}",
    )
    steps = plan.plan(of.graph)
    assert [(step.outputs[0], sorted(step.dead)) for step in steps] == [
        ("a", []),
        ("b", []),
        ("c", ["a"]),
        ("d", ["c", "e"]),
        ("y", ["d"]),
    ]


def test_what_branches_read_is_not_let_go_before():
    text = "a = Neg(x) b = Exp(a) y = If(c) <then_branch = t () => (p) { p = Abs(a) }, else_branch = e () => (b) { }>"
    of = model(text, 17, inputs="float[2] x, bool c", outputs="y")
    steps = plan.plan(of.graph)
    assert [(step.op, sorted(step.dead)) for step in steps] == [("Neg", []), ("Exp", []), ("If", ["a", "b"])]


@pytest.mark.parametrize(
    ("body", "large", "most"),
    [
        ("y = Add(x, w)", True, 24),
        ("y = Add(x, w)", False, 25),
        ("y = Gather(w, i)", False, 24),
        ("y = Gather(w, i) z = Neg(w)", True, 24),
        ("y = Gather(x, w)", True, 24),
        ("y = Gather(w, i) z = Gather(x, w)", True, 24),
    ],
)
def test_one_weight_that_takes_more_than_all_is_too_large(body, large, most, monkeypatch):
    """Three numbers of two weights with four bytes each: 24 bytes, of which one weight takes 24 in float64, too."""
    monkeypatch.setattr(twin, "_LARGE", most - 1)
    constants = "float[3] w = {1, 2, 3}, float[2] v = {4, 5}, float u = {1}"
    of = model(body, 17, inputs="float[3] x, int64 i", outputs="y", constants=constants)
    assert twin.is_too_large(of) is large


def test_casts_that_store_what_the_other_model_has_anyway():
    one = model(
        "h = Cast<to = 10>(x) a = Exp(h) b = Cast<to = 10>(a) k = Cast<to = 1>(b)", 17, inputs="float x", outputs="k"
    )
    other = model("h = Exp(x) b = Cast<to = 10>(h) c = CastLike(b, x) a = Neg(c)", 17, inputs="float x", outputs="a")
    assert twin.unrounded(one, other) == ({"h"}, {"c"})
    assert twin.unrounded(other, one) == (set(), {"h", "k"})


def test_values_that_are_read_no_more_take_no_memory(monkeypatch):
    monkeypatch.setattr(memory, "MOST", 0)
    alive, made = [], []

    def watch(node, inputs, values):
        alive.append(sum(held() is not None for held in made))
        made.extend(map(weakref.ref, values))

    of = model("a = Neg(x) b = Exp(a) c = Abs(b) d = Sin(c) y = Cos(d)", 17, inputs="float[2] x", outputs="y")
    twin.Twin(of).run({"x": np.float32([1, 2])}, watch=watch)
    assert alive == [0, 1, 1, 1, 1]


# --- types that outputs have --------------------------------------------------------------------------------

X = np.float32([[0.1, -1.7, 2.5], [3.0, -0.4, 0.0]])
MOVED = {
    "t = Concat<axis = 0>(h, h)": lambda x: np.concatenate([x, x]),
    "t = Expand(h, s)": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "t = Flatten(h)": lambda x: x,
    "t = Gather(h, i)": lambda x: x[1],
    "t = Identity(h)": lambda x: x,
    "t = Reshape(h, r)": lambda x: x.reshape(3, 2),
    "t = Slice(h, o, p)": lambda x: x[1:],
    "t, u = Split<axis = 0, num_outputs = 2>(h)": lambda x: x[:1],
    "v = Unsqueeze(h, z) t = Squeeze(v, z)": lambda x: x,
    "t = Transpose(h)": lambda x: x.T,
    "t = Unsqueeze(h, z)": lambda x: x[None],
}
CONSTANTS = (
    "int64[3] s = {2, 1, 1}, int64 i = {1}, int64[2] r = {3, 2}, int64[1] o = {1}, int64[1] p = {2}, int64[1] z = {0}"
)


@pytest.mark.parametrize("body", MOVED)
def test_what_moves_values_leaves_their_rounding_to_be_done(body):
    of = model(
        f"h = Cast<to = 10>(x) {body} y = Cast<to = 1>(t)", 18, inputs="float[A,B] x", outputs="y", constants=CONSTANTS
    )
    (made,) = twin.Twin(of).run({"x": X})
    np.testing.assert_array_equal(made, MOVED[body](X.astype("f2").astype("f8")))


def test_what_computes_leaves_none():
    of = model("h = Cast<to = 10>(x) t = Neg(h) y = Cast<to = 1>(t)", 18, inputs="float[A,B] x", outputs="y")
    np.testing.assert_array_equal(twin.Twin(of).run({"x": X})[0], -X.astype("f8"))


@pytest.mark.parametrize(
    ("node", "opset", "kinds", "kind"),
    [
        (("EyeLike", {"dtype": T.FLOAT16, "k": 1}), 17, [T.FLOAT], T.FLOAT16),
        (("EyeLike", {"k": 1, "dtype": T.DOUBLE}), 17, [T.FLOAT], 0),
        (("EyeLike", {"k": 1}), 17, [T.FLOAT], T.FLOAT),
        (("Add", {}), 17, [0, T.FLOAT], 0),
        (("Add", {}), 17, [T.FLOAT16, T.FLOAT16], T.FLOAT16),
        (("Where", {}), 17, [None, T.FLOAT16, T.FLOAT16], T.FLOAT16),
        (("DequantizeLinear", {}), 13, [0, 0, 0], T.FLOAT),
        (("DequantizeLinear", {}), 19, [0, T.FLOAT16, 0], T.FLOAT16),
        (("Unknown", {}), 17, [0, T.FLOAT16], T.FLOAT16),
        (("Unknown", {}), 17, [], 0),
    ],
)
def test_the_type_that_the_model_has_for_an_output(node, opset, kinds, kind):
    op, attributes = node
    inputs = [Value(None) if held is None else Value(np.ones(1), held) for held in kinds]
    made = onnx.helper.make_node(op, ["x"] * len(kinds), ["y"], **attributes)
    assert twin._kind(made, Call(made, opset), 0, inputs) == kind


@pytest.mark.parametrize("attribute", ["min", "max"])
def test_bounds_in_attributes_are_of_the_type_of_the_data(attribute):
    of = model(f"y = Clip<{attribute} = 0.1>(x)", 6, inputs="float16[A] x", outputs="y")
    (made,) = twin.Twin(of).run({"x": np.float16([-1, 5])})
    assert np.float16(0.1).astype("f8") in made.tolist()
    of = model("y = Pad<pads = [1, 0], value = 0.1>(x)", 2, inputs="float16[A] x", outputs="y")
    assert twin.Twin(of).run({"x": np.float16([1])})[0].tolist() == [float(np.float16(0.1)), 1]


def test_what_makes_floats_of_a_named_type_makes_doubles():
    of = model("y = EyeLike<dtype = 10>(x)", 17, inputs="float[A,B] x", outputs="y")
    assert twin.Twin(of).run({"x": X})[0].dtype == np.float64
