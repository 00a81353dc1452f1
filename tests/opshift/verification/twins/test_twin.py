"""The wide twin: what is double in it, what stays narrow, and what runs elsewhere."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import opshift
from opshift.jobs import outcome
from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from opshift.verification.side import Side
from opshift.verification.twins.twin import Twin, unrounded
from opshift.verification.verify import verify_sides
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def twin_of(body, opset=18, given=X, **io):
    io = {"inputs": "float[3,4] x", "outputs": "float[A,B] y", **io}
    return Twin(model(body, opset, **io)).run({"x": given})[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Exp(x)", lambda x: np.exp(x)),
        ("t = Cast<to = 1>(x) u = Cast<to = 10>(t) y = Exp(u)", lambda x: np.exp(x)),
        ("h = Cast<to = 10>(x) y = Cast<to = 1>(h)", lambda x: x.astype(np.float16).astype(np.float64)),
        (
            "h = Cast<to = 10>(x) t = Transpose(h) u = Cast<to = 1>(t) y = Transpose(u)",
            lambda x: x.astype("f2").astype("f8"),
        ),
        (  # nothing is cut that was computed since
            "h = Cast<to = 10>(x) t = Mul(h, h) y = Cast<to = 1>(t)",
            lambda x: x**2,
        ),
        (
            "h = Cast<to = 10>(x) p = Mul(h, h) t = Transpose(p) u = Cast<to = 1>(t) y = Transpose(u)",
            lambda x: x**2,
        ),
        ("c = Constant<value_float = 0.1>() y = Mul(x, c)", lambda x: x * np.float64(np.float32(0.1))),
        ("i = Cast<to = 7>(x) y = Cast<to = 1>(i)", lambda x: np.trunc(x)),
        (  # 1 - 2**-26 is 1 in float32
            "c = Constant<value_float = 1.490116e-08>() o = Abs(x) d = Sub(o, c) i = Cast<to = 7>(d) y = Cast<to = 1>(i)",
            lambda x: np.trunc(np.abs(x) - 1.49e-8),
        ),
        ("y = LeakyRelu<alpha = 0.5>(x)", lambda x: np.where(x < 0, x / 2, x)),
        ("y = Gelu(x)", None),
    ],
)
def test_floats_are_double(body, expected):
    made = twin_of(body, 20)
    assert made.dtype == np.float64
    if expected is not None:
        np.testing.assert_allclose(made, expected(X.astype(np.float64)), rtol=1e-15)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_weights_are_widened_as_they_are(kind):
    of = with_weights("y = MatMul(x, w)", kind, "[2,2]", w=[[1, 2], [3, 4]])
    x = np.array([[0.5, 2049.0], [1.0, 70000.0]])
    np.testing.assert_array_equal(Twin(of).run({"x": x})[0], x @ np.array([[1.0, 2], [3, 4]]))


def with_weights(body, kind, shape, result=None, **weights):
    name = np.dtype(kind).name
    made = model(body, 13, inputs=f"{name}{shape} x", outputs=f"{name}{result or shape} y")
    held = [onnx.numpy_helper.from_array(np.asarray(value, kind), weight) for weight, value in weights.items()]
    made.graph.initializer.extend(held)
    return made


def test_what_sequences_hold_is_double():
    io = {"inputs": "float[3,4] x", "outputs": "seq(float[A,B]) y"}
    (made,) = Twin(model("e = Exp(x) y = SequenceConstruct(x, e)", 18, **io)).run({"x": X})
    assert [value.dtype for value in made] == [np.float64, np.float64]
    np.testing.assert_allclose(made[1], np.exp(X.astype(np.float64)), rtol=1e-15)
    given = {"s": [X, X]}
    (joined,) = Twin(model("e = ConcatFromSequence<axis=0>(s) y = Exp(e)", 18,
                           inputs="seq(float[3,4]) s", outputs="float[A,B] y")).run(given)  # fmt: skip
    np.testing.assert_allclose(joined, np.exp(np.concatenate([X, X]).astype(np.float64)), rtol=1e-15)


def test_weights_in_files_need_a_folder(tmp_path):
    source = model("y = Mul(x, w)", 18, inputs="float[3,4] x", outputs="float[3,4] y")
    source.graph.initializer.append(onnx.numpy_helper.from_array(X, "w"))
    onnx.save(source, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    stored = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    np.testing.assert_allclose(Twin(stored, str(tmp_path)).run({"x": X})[0], X.astype("f8") ** 2, rtol=1e-15)
    with pytest.raises(EngineError, match="external data without a folder"):
        Twin(stored).run({"x": X})


BODIES = {
    "If": """c = ReduceMax<keepdims = 0>(x) b = Cast<to = 9>(c) y = If(b) <
        then_branch = t () => (float[3,4] v) { v = Exp(x) }, else_branch = e () => (float[3,4] u) { u = Neg(x) }>""",
    "Loop": """n = Constant<value_int = 3>() y, s = Loop(n, , x) <
        body = b (int64 i, bool c, float[3,4] v) => (bool d, float[3,4] w, float[3,4] u) {
            d = Identity(c) w = Exp(v) u = Sin(v) }>""",
    "Scan": """z = Constant<value_floats = [0.0, 0.0, 0.0, 0.0]>() t, y = Scan<num_scan_inputs = 1, scan_input_directions = [1],
        body = b (float[4] a, float[4] v) => (float[4] w, float[4] u) { w = Add(a, v) u = Identity(w) }>(z, x)""",
}


WIDE = X.astype(np.float64) / 4
EXPECTED = {"If": np.exp(WIDE), "Loop": np.exp(np.exp(np.exp(WIDE))), "Scan": np.cumsum(WIDE[::-1], 0)}


def test_a_scan_along_another_axis():
    body = """z = Constant<value_floats = [0.0, 0.0, 0.0]>() t, y = Scan<num_scan_inputs = 1, scan_input_axes = [1],
        scan_output_axes = [1], body = b (float[3] a, float[3] v) => (float[3] w, float[3] u) {
            w = Add(a, v) u = Identity(w) }>(z, x)"""
    made = Twin(model(body, 18, inputs="float[3,4] x", outputs="float[A,B] y")).run({"x": X})[0]
    np.testing.assert_allclose(made, np.cumsum(X.astype(np.float64), 1), rtol=1e-14)


def test_a_function_with_inputs_left_out():
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[3,4] x) => (float[3,4] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 18]> f (p, low, high) => (q) { e = Exp(p) q = Clip(e, low, high) }"""
    np.testing.assert_allclose(Twin(onnx.parser.parse_model(text)).run({"x": X})[0], np.exp(X.astype("f8")), rtol=1e-15)


def test_a_loop_of_one_turn():
    body = BODIES["Loop"].replace("value_int = 3", "value_int = 1").replace("y, s = Loop", "s, y = Loop")
    made = twin_of(body, outputs="float[T,A,B] y")
    np.testing.assert_allclose(made, np.sin(X.astype(np.float64))[None], rtol=1e-15)


@pytest.mark.parametrize("name", BODIES)
def test_inner_graphs_are_double_too(name):
    source = model(BODIES[name], 18, inputs="float[3,4] x", outputs="float[A,B] y")
    np.testing.assert_allclose(Twin(source).run({"x": X / 4})[0], EXPECTED[name], rtol=1e-14)


def test_functions_are_double_too():
    text = """<ir_version: 8, opset_import: ["" : 18, "my" : 1]> g (float[3,4] x) => (float[3,4] y) { y = my.F<a = 2>(x) }
        <domain: "my", opset_import: ["" : 18]> F <a>(v) => (w) { e = Exp(v) s = Softmax<axis = @a>(e) w = Add(s, e) }"""
    source = onnx.parser.parse_model(text.replace("a = 2", "a = -1"))
    wide = X.astype(np.float64)
    e = np.exp(wide)
    share = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(Twin(source).run({"x": X})[0], share + e, rtol=1e-14)


def test_what_is_drawn_has_no_twin():
    with pytest.raises(EngineError, match="draws numbers"):
        twin_of("y = RandomNormalLike(x)")


@pytest.mark.parametrize(
    ("body", "io"),
    [
        ("y = Conv<pads = [1,0,2,1], strides = [2,1], dilations = [1,2], group = 2>(x, w, b)", "float[1,4,7,9] x, float[6,2,3,2] w, float[6] b"),
        ("y = Conv<auto_pad = 'SAME_LOWER', strides = [2,2]>(x, w)", "float[2,3,7,8] x, float[4,3,3,3] w"),
        ("y = ConvTranspose<strides = [2,3], pads = [1,0,0,1], output_padding = [1,0], group = 2>(x, w)", "float[1,4,3,4] x, float[4,2,3,3] w"),
        ("y = AveragePool<kernel_shape = [3,2], pads = [1,1,1,0], strides = [2,1]>(x)", "float[1,2,7,6] x"),
        ("y = InstanceNormalization(x, s, b)", "float[2,3,4,5] x, float[3] s, float[3] b"),
        ("y = GlobalMaxPool(x)", "float[2,3,4,5] x"),
    ],
)  # fmt: skip
def test_what_onnxruntime_lacks_in_double_is_right(body, io):
    """Held against onnx.reference in double; against onnxruntime in float32 where that takes no groups."""
    body = body.replace("'", '"')
    random = np.random.default_rng(0)
    source = model(body, 18, inputs=io, outputs="float[a,b,c,d] y")
    wide = model(body, 18, inputs=io.replace("float[", "double["), outputs="double[a,b,c,d] y")
    given = {
        v.name: random.standard_normal([d.dim_value for d in v.type.tensor_type.shape.dim]) for v in source.graph.input
    }
    twin = Twin(source)
    if "Transpose" in body:
        expected = OnnxRuntime(source).run({name: value.astype(np.float32) for name, value in given.items()})[0]
        np.testing.assert_allclose(twin.run(given)[0], expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(twin.run(given)[0], Reference(wide).run(given)[0], rtol=1e-12, atol=1e-13)
    assert sum(twin.calls.elsewhere.values()) == 1
    assert not twin.calls.narrow


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("way", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_resized_images_are_right(mode, way):
    body = f'y = Resize<mode = "{mode}", coordinate_transformation_mode = "{way}">(x, , s)'
    source, wide = (
        model(body, 18, constants="float[4] s = {1, 1, 2, 1.5}", inputs=f"{t}[1,2,4,6] x", outputs=f"{t}[a,b,c,d] y")
        for t in ("float", "double")
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 6))
    twin = Twin(source)
    np.testing.assert_allclose(twin.run({"x": x})[0], Reference(wide).run({"x": x})[0], rtol=1e-12, atol=1e-13)


def test_storage_in_a_narrow_type_is_no_rounding():
    """What takes the place of a float16 node computes in float32 between two casts; what rounds on purpose stays."""
    io = {"inputs": "float16[3,4] x", "outputs": "float16[3,4] y"}
    source = model("t = Exp(x) y = Sin(t)", 18, **io)
    wider = model(
        "a = Cast<to = 1>(x) b = Exp(a) t = Cast<to = 10>(b) c = Cast<to = 1>(t) d = Sin(c) y = Cast<to = 10>(d)",
        18,
        **io,
    )
    assert "t" in unrounded(source, wider)[1]
    found = verify_sides(Side(source), Side(wider), grade="close")
    assert found.equal
    rounding = model(
        "h = Cast<to = 10>(x) t = Cast<to = 1>(h) y = Mul(t, t)", 18, inputs="float[3,4] x", outputs="float[3,4] y"
    )
    without = model("t = Identity(x) y = Mul(t, t)", 18, inputs="float[3,4] x", outputs="float[3,4] y")
    assert verify_sides(Side(rounding), Side(without), grade="close").status == "different"
    assert verify_sides(Side(without), Side(rounding), grade="close").status == "different"


def test_an_overflow_in_low_precision_alone_is_seen():
    io = {"kind": np.float16, "shape": "[8]", "result": "[1]", "k": 300}
    source = with_weights("m = ReduceMax(x) y = Mul(m, k)", **io)
    other = with_weights("t = Mul(x, k) u = Mul(t, k) v = ReduceMax(u) y = Div(v, k)", **io)
    found = verify_sides(Side(source), Side(other), grade="close")
    assert found.status == "different"
    assert "inf" in found.why


def test_small_elements_beside_a_huge_one_are_seen():
    io = {"inputs": "float[2,8] x", "outputs": "float[2,8] y"}
    one, other = (
        model("t = Mul(x, k) y = Sub(t, x)", 18, constants=f"float[8] k = {{1e7, {small}, 2, 2, 2, 2, 2, 2}}", **io)
        for small in (2, 2.5)
    )
    assert verify_sides(Side(one), Side(other), grade="close").status == "different"


def test_what_a_saturated_sigmoid_yields_is_rounding_of_the_engine():
    io = {"inputs": "float[N,64] x", "outputs": "float[N,64] y"}
    one = model("t = Mul(x, k) u = Sub(t, c) y = Sigmoid(u)", 18, constants="float k = {0.3}, float c = {17.3}", **io)
    other = model(
        "t = Mul(x, k) u = Add(t, c) y = Sigmoid(u)", 18, constants="float k = {0.3}, float c = {-17.3}", **io
    )
    assert verify_sides(Side(one), Side(other)).equal


def test_ties_are_counted():
    """The largest of sums that rounding alone tells apart."""
    io = {"inputs": "float[16,3] x", "outputs": "int64[16] y, float[16] z"}
    body = "a, b, c = Split<axis = 1>(x, n) p = Add({}) u = Add(p, {}) w = Add(a, b) v = Add(w, c) t = Concat<axis = 1>(u, v) y = ArgMax<axis = 1, keepdims = 0>(t) i = Cast<to = 1>(y) s = ReduceMax<axes = [1], keepdims = 0>(t) z = Mul(i, s)"
    one, other = (
        model(body.format(*order), 13, constants="int64[3] n = {1, 1, 1}", **io)
        for order in (("a, b", "c"), ("b, c", "a"))
    )
    found = verify_sides(Side(one), Side(other), plain=False)
    assert found.equal
    assert found.ties["y"] > 0
    assert 'elements of "y" decided by less than the bound' in outcome.verdict(found)
    moved = model(
        body.format("b, c", "a").replace("Concat<axis = 1>(u, v)", "Concat<axis = 1>(v, w)"),
        13,
        constants="int64[3] n = {1, 1, 1}",
        **io,
    )
    assert verify_sides(Side(other), Side(moved)).status == "different"


def test_both_bounds_are_reported():
    one = model("t = Mul(x, k) y = Exp(t)", 18, constants="float k = {0.3}", inputs="float[9] x", outputs="float[9] y")
    other = model(
        "t = Div(x, k) y = Exp(t)", 18, constants="float k = {3.3333333}", inputs="float[9] x", outputs="float[9] y"
    )
    found = opshift.verify(one, other, grade="close")
    assert found
    (judged,) = found.outputs
    assert (judged.output, judged.judge) == ("y", "float64")
    assert 0 < judged.function < judged.function_bound
    assert 0 < judged.accuracy < judged.accuracy_bound
    assert "in float64 the forms are" in outcome.verdict(found)
    assert found.float64 == ""
    assert one.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    one, other = (
        model(f"t = {by} y = Erf(t)", 18, inputs="float[9] x", outputs="float[9] y",
              constants="float k = {0.3}, float q = {3.3333333}")
        for by in ("Mul(x, k)", "Div(x, q)")
    )  # fmt: skip
    assert "nodes in numpy or onnx.reference (Erf " in opshift.verify(one, other, grade="close").float64


def test_without_twins_a_stricter_bound_is_printed(monkeypatch):
    """As of a model whose weights leave no room for one of them in float64."""
    monkeypatch.setattr("opshift.verification.twins.twin._LARGE", 0)
    one, near, other = (
        with_weights("t = Mul(x, w) y = Mul(t, v)", np.float16, "[64]", w=[w], v=[v])
        for w, v in ((0.3, 0.7), (0.7, 0.3), (0.3, 0.75))
    )
    found = opshift.verify(one, near, grade="close")
    assert found
    assert found.outputs[0].judge == "printed bound"
    assert found.float64 == "no twins: a weight is too large to be widened"
    assert "by the printed bound" in outcome.verdict(found)
    assert not opshift.verify(one, other, grade="close")


def shifted(body, shift):
    held = model(body, 13, inputs="float[64] x", outputs="float[64] y")
    held.graph.initializer.append(onnx.numpy_helper.from_array(np.full(64, shift, np.float32), "s"))
    return held


TINY = "v = Sub(x, s) y = Sigmoid(v)"


def test_the_error_of_an_engine_s_sigmoid_is_not_the_result_s():
    """At -17 it is larger than the value, and another one for the next number; constants may be rounded otherwise."""
    shifts = np.float32(17.46) + np.arange(4096, dtype=np.float32) * np.spacing(np.float32(17.46))
    (computed,) = OnnxRuntime(model("y = Sigmoid(x)", 13, inputs="float[N] x", outputs="float[N] y")).run(
        {"x": -shifts}
    )
    errors = np.abs(computed - 1 / (1 + np.exp(shifts.astype(np.float64))))
    good, bad = shifts[errors.argmin()], shifts[errors.argmax()]
    given = {"x": np.zeros(64, np.float32)}
    assert errors.max() > 4 * errors.min() + 2e-8
    assert opshift.verify(shifted(TINY, good), shifted(TINY, bad), grade="close", inputs=given)
    twin = Twin(shifted(TINY, good))
    (still,), (noisy,) = twin.run(given), twin.run(given, noise=True)
    assert errors.max() / 2 < np.abs(noisy - still).max() < 1.5e-7


@pytest.mark.parametrize("shift", [30, 60])
def test_a_sigmoid_of_which_an_engine_leaves_nothing_is_judged_by_what_it_is(shift):
    """onnxruntime takes it from 1, in double too: at -45 it is 0."""
    formula = "v = Sub(s, x) e = Exp(v) o = Constant<value_float=1.0>() d = Add(e, o) y = Reciprocal(d)"
    for one, other in ((TINY, formula), (formula, TINY)):
        assert opshift.verify(shifted(one, shift), shifted(other, shift), grade="close")
        doubled = other.replace(" y = ", " h = ") + " y = Add(h, h)"
        found = opshift.verify(shifted(one, shift), shifted(doubled, shift), grade="close")
        assert (found.status, found.outputs[0].why.endswith("elements differ, in float64")) == ("different", True)


@pytest.mark.parametrize("op", ["Sigmoid", "Softplus"])
def test_what_is_far_below_0_is_not_taken_from_1(op):
    x = np.array([-700, -45, -1, 0, 2, 45, 700, np.nan, np.inf, -np.inf])
    (made,) = Twin(model(f"y = {op}(x)", 13, inputs="float[N] x", outputs="float[N] y")).run(
        {"x": x.astype(np.float32)}
    )
    with np.errstate(all="ignore"):
        small = np.exp(x[:3])
    assert np.allclose(made[:3], small / (1 + small) if op == "Sigmoid" else np.log1p(small), rtol=1e-15, atol=0)
    ends = [1 / 2, 1 / (1 + np.exp(-2)), 1, 1, np.nan, 1, 0]
    ends = ends if op == "Sigmoid" else [np.log(2), np.log1p(np.exp(2)), 45, 700, np.nan, np.inf, 0]
    assert np.allclose(made[3:], ends, rtol=1e-15, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "body",
    [
        "v = Sub(s, x) y = Sigmoid(v)",
        "v = Sub(x, s) w = Sub(v, s) y = Sigmoid(w)",
        "v = Sub(x, s) t = Sigmoid(v) y = Add(t, t)",
        "v = Sub(x, s) t = Sigmoid(v) y = Sub(t, t)",
    ],
)
def test_other_functions_behind_a_sigmoid_that_is_tiny_are_caught(body):
    assert opshift.verify(shifted(TINY, 17.46), shifted(body, 17.46), grade="close").status == "different"


def test_integers_that_are_read_as_floats_are_those_floats():
    body = "i = Constant<value = int32[1] {1068289229}>() b = BitCast<to = 1>(i) y = Mul(x, b)"
    np.testing.assert_array_equal(twin_of(body, 26), X.astype(np.float64) * np.float64(np.float32(1.35)))
