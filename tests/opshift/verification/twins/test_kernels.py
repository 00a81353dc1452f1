"""Kernels in float64 that answer themselves: held against onnx.reference, and against onnxruntime where that takes no groups."""

import numpy as np
import pytest
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import OnnxRuntime, Reference
from opshift.verification.twins import calls, kernels
from opshift.verification.twins.activations import ACTIVATIONS
from opshift.verification.twins.nodes import NEWEST
from tests.support import model

RESIZED = [
    f'Resize<mode="{mode}", coordinate_transformation_mode="{way}">(x, , {by})'
    for mode in ("nearest", "linear")
    for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for by in ("s", ", z")
]


@pytest.mark.parametrize(
    ("body", "io"),
    [
        ("Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2], group=2>(x, w, b)", "[1,4,7,9] x, [6,2,3,2] w, [6] b"),
        ("Conv(x, w)", "[1,2,5,4] x, [3,2,3,2] w"),
        ("InstanceNormalization<epsilon=0.25>(x, w, b)", "[2,3,4,5] x, [3] w, [3] b"),
        ('Conv<auto_pad="SAME_LOWER", strides=[2,2]>(x, w)', "[2,3,7,8] x, [4,3,3,3] w"),
        ("ConvTranspose<strides=[2,3], output_padding=[1,0], group=2>(x, w)", "[1,4,3,4] x, [4,2,3,3] w"),
        ("ConvTranspose<pads=[1,0,0,1], group=2>(x, w, b)", "[1,4,3,4] x, [4,3,3,3] w, [6] b"),
        ("AveragePool<kernel_shape=[3,2], pads=[1,1,1,0], strides=[2,1]>(x)", "[1,2,7,6] x"),
        ("AveragePool<kernel_shape=[2,2], pads=[1,1,1,0], count_include_pad=1>(x)", "[1,2,7,6] x"),
        *[(body, "[1,2,4,6] x") for body in RESIZED],
    ],
)
def test_each_kernel_answers_and_is_right(body, io):
    def of(kind):
        held = "float[4] s = {1, 1, 2, 1.5}, int64[4] z = {1, 2, 3, 9}" if "Resize" in body else ""
        inputs = ", ".join(f"{kind}{value}" for value in io.split(", "))
        return model(f"y = {body}", 18, inputs=inputs, outputs=f"{kind}[a,b,c,d] y", constants=held)

    random, wide = np.random.default_rng(0), of("double")
    (node,), held = wide.graph.node, {"s": np.float32([1, 1, 2, 1.5]), "z": np.array([1, 2, 3, 9])}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in wide.graph.input}
    feeds = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    values = [{**feeds, **held}.get(name) for name in node.input]
    (found,) = kernels.compute(node.op_type, 18, values, {a.name: attribute_value(a) for a in node.attribute})
    if node.op_type == "ConvTranspose":
        narrow = {name: value.astype(np.float32) for name, value in feeds.items()}
        np.testing.assert_allclose(found, OnnxRuntime(of("float")).run(narrow)[0], rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(found, Reference(wide).run(feeds)[0], rtol=1e-12, atol=1e-13)


EDGES = np.array([[-40.0, -3.0, -1.0, -0.5, -1e-9, -0.0], [0.0, 0.25, 1.0, 2.5, 3.0, 40.0]])


@pytest.mark.parametrize("op", sorted(ACTIVATIONS))
@pytest.mark.parametrize("more", ["", "alpha=0.75", "beta=0.25", "gamma=1.5", 'approximate="tanh"'])
def test_functions_of_each_element_are_right(op, more):
    names = schemas.schema("", op, 22).attributes
    if more and more.split("=")[0] not in names:
        return
    call = f"{op}<{more}>(x)" if more else f"{op}(x)"
    of = model(f"y = {call}", 22, inputs="double[2,6] x", outputs="double[2,6] y")
    (made,) = kernels.compute(op, 22, [EDGES], {a.name: _text(attribute_value(a)) for a in of.graph.node[0].attribute})
    close = 1e-7 if op in ("Erf", "Gelu") else 1e-14  # onnx.reference computes erf in float32
    np.testing.assert_allclose(made, Reference(of).run({"x": EDGES})[0], rtol=close, atol=close)
    for special in (np.inf, -np.inf, *([np.nan] if op != "Erf" else [])):  # of which onnxruntime 1.23 makes 1
        with np.errstate(all="ignore"):
            (found,) = kernels.compute(op, 22, [np.full(1, special)], {})
        narrow = model(f"y = {op}(x)", 22, inputs="float[1] x", outputs="float[1] y")
        np.testing.assert_allclose(found, OnnxRuntime(narrow).run({"x": np.float32([special])})[0], rtol=1e-6)


@pytest.mark.newest
def test_onnxruntime_has_what_is_said_of_double():
    ranges = {op: found for (domain, op), found in calls._kernels().items() if not domain}
    known = {op for op, found in ranges.items() if min(found)[0] <= NEWEST}
    assert not kernels.LACKING & known
    assert known >= calls._DEFINED


@pytest.mark.parametrize("more", [{"antialias": 1}, {"exclude_outside": 1}, {"axes": [2, 3]}, {"mode": "cubic"}])
def test_what_a_kernel_does_not_know_it_leaves_to_others(more):
    values = [np.ones((1, 1, 2, 2)), None, np.float32([1, 1, 2, 2]), None]
    assert kernels.compute("Resize", 18, values, {"mode": "linear", **more}) is None
    assert kernels.compute("Resize", 18, [np.ones((1, 1, 0, 2)), *values[1:]], {"mode": "linear"}) is None
    assert kernels.compute("Resize", 18, values, {"mode": "linear"}) is not None


def test_the_error_function_is_double():
    """onnx.reference computes it in float32."""
    x = np.array([[0.0, -0.0, 0.5], [-2.0, np.inf, np.nan]])
    (found,) = kernels.compute("Erf", 13, [x], {})
    np.testing.assert_array_equal(found, [[0.0, -0.0, 0.5204998778130465], [-0.9953222650189527, 1.0, np.nan]])
    assert kernels.compute("Erf", 13, [np.zeros((2, 0))], {})[0].shape == (2, 0)


def computed(body, opset, inputs, *, constants=None, engine=OnnxRuntime):
    """What a kernel makes of a call, beside what an engine does; float32 where that is onnxruntime."""
    held = constants or {}
    kind = "float" if engine is OnnxRuntime else "double"
    more = ", ".join(f"{'int64' if v.dtype == np.int64 else 'float'}[{v.size}] {n}" for n, v in held.items())
    texts = [f"{kind}[{','.join(map(str, value.shape))}] {name}" for name, value in inputs.items()]
    of = model(f"y = {body}", opset, inputs=", ".join([*texts, *([more] if more else [])]), outputs=f"{kind}[a] y")
    of.graph.output[0].type.tensor_type.ClearField("shape")
    (node,), feeds = of.graph.node, {**inputs, **held}
    values = [feeds.get(name) for name in node.input]
    found = kernels.compute(node.op_type, opset, values, {a.name: _text(attribute_value(a)) for a in node.attribute})
    given = {n: v.astype(np.float32) if kind == "float" and n in inputs else v for n, v in feeds.items()}
    return found, engine(of).run(given)[0]


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


CALLS = [
    ("Conv(x, w, b)", {"x": random(2, 4, 9), "w": random(3, 4, 2, seed=1), "b": random(3)}),
    ("Conv<strides=[1,2,1]>(x, w)", {"x": random(1, 2, 4, 5, 6), "w": random(3, 2, 2, 3, 1, seed=1)}),
    ("Conv<dilations=[2,1]>(x, w)", {"x": random(1, 2, 6, 5), "w": random(3, 2, 2, 3, seed=1)}),
    ('Conv<auto_pad="SAME_UPPER", strides=[2,3]>(x, w)', {"x": random(1, 2, 7, 8), "w": random(3, 2, 2, 4, seed=1)}),
    ('Conv<auto_pad="SAME_LOWER">(x, w)', {"x": random(1, 2, 7, 8), "w": random(3, 2, 2, 4, seed=1)}),
    ('Conv<auto_pad="SAME_UPPER", strides=[3,3]>(x, w)', {"x": random(1, 1, 9, 8), "w": random(1, 1, 1, 2, seed=1)}),
    ('Conv<auto_pad="VALID">(x, w)', {"x": random(1, 2, 7, 8), "w": random(3, 2, 2, 4, seed=1)}),
    ("Conv<group=4>(x, w)", {"x": random(2, 4, 5, 5), "w": random(8, 1, 2, 2, seed=1)}),
    ("Conv(x, w)", {"x": random(1, 1, 3, 3), "w": random(1, 1, 3, 3, seed=1)}),
    ("ConvTranspose(x, w, b)", {"x": random(2, 4, 5), "w": random(4, 3, 2, seed=1), "b": random(3)}),
    ("ConvTranspose<strides=[3,1], dilations=[2,1]>(x, w)", {"x": random(1, 2, 3, 4), "w": random(2, 3, 2, 3, seed=1)}),
    ("ConvTranspose<pads=[1,0,2,1], strides=[2,2]>(x, w)", {"x": random(1, 2, 4, 4), "w": random(2, 3, 3, 3, seed=1)}),
    ("ConvTranspose<pads=[2,2], strides=[4], output_padding=[3]>(x, w)", {"x": random(1, 1, 4), "w": random(1, 1, 5)}),
    ("AveragePool<kernel_shape=[3]>(x)", {"x": random(1, 2, 8)}),
    ("AveragePool<kernel_shape=[2,3], strides=[2,2]>(x)", {"x": random(2, 1, 7, 6)}),
    ('AveragePool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x)', {"x": random(1, 1, 5, 4)}),
    ("AveragePool<kernel_shape=[2,2], dilations=[2,1], pads=[1,0,0,1]>(x)", {"x": random(1, 1, 5, 4)}),
    ("GlobalAveragePool(x)", {"x": random(2, 3, 4, 5)}),
    ("GlobalMaxPool(x)", {"x": random(2, 3, 4, 5)}),
    ("GlobalMaxPool(x)", {"x": random(2, 3, 4)}),
    ("InstanceNormalization(x, s, b)", {"x": 1e-3 * random(2, 3, 4), "s": random(3), "b": random(3, seed=1)}),
]


@pytest.mark.parametrize(("body", "inputs"), CALLS, ids=[body for body, _ in CALLS])
@pytest.mark.parametrize("copied", [1 << 21, 8])
def test_windows_go_as_in_onnxruntime(body, inputs, copied, monkeypatch):
    """However few elements are copied at a time."""
    if copied == 8 and not body.startswith("Conv"):
        return
    monkeypatch.setattr(kernels, "_COPIED", copied)
    (found,), expected = computed(body, 19, inputs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("way", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_the_nearest_element_is_that_of_onnxruntime(rounding, way, size):
    body = f'Resize<nearest_mode="{rounding}", coordinate_transformation_mode="{way}">(x, , , z)'
    (found,), expected = computed(body, 13, {"x": random(1, 4)}, constants={"z": np.array([1, size])})
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("Resize(x, s)", 10),
        ('Resize<mode="linear">(x, s)', 10),
        ("Upsample(x, s)", 9),
        ('Upsample<mode="linear">(x, s)', 9),
        ("Resize(x, r, s)", 11),
        ('Resize<mode="linear">(x, , s)', 13),
        ('Resize<mode="linear", coordinate_transformation_mode="pytorch_half_pixel">(x, , s)', 13),
    ],
)
@pytest.mark.parametrize("scales", [[1, 1, 2, 1.5], [1, 1, 1, 2.6], [1, 1, 3, 1]])
def test_scales_are_those_of_the_opset(body, opset, scales):
    held = {"r": np.zeros(8, np.float32)} if ", r," in body else {}
    held["s"] = np.float32(scales)
    (found,), expected = computed(body, opset, {"x": random(1, 2, 3, 4)}, constants=held)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_half_a_pixel_of_one_element():
    for size, expected in ((1, 0.0), (2, [0.25, 1.75])):
        at = kernels._coordinates("pytorch_half_pixel", size, 3, size / 3 if size == 1 else 1.0)
        np.testing.assert_allclose(at, expected if size == 1 else [0.0, 1.0])
    assert kernels._coordinates("align_corners", 1, 3, 1.0).tolist() == [0.0]
    assert kernels._coordinates("tf_crop_and_resize", 2, 3, 1.0) is None


ONE = np.ones((1, 1, 3, 3))


@pytest.mark.parametrize(
    ("op", "values", "attributes"),
    [
        ("Relu", [ONE], {}),
        ("Conv", [ONE, np.ones((1, 1, 4, 1))], {}),
        ("Conv", [ONE[:0], np.ones((1, 1, 1, 1))], {}),
        ("Conv", [ONE, np.ones((0, 1, 1, 1))], {}),
        ("ConvTranspose", [ONE, np.ones((1, 1, 2, 2))], {"auto_pad": "SAME_UPPER"}),
        ("ConvTranspose", [ONE, np.ones((1, 1, 2, 2))], {"output_shape": [5, 5]}),
        ("ConvTranspose", [ONE[:0], np.ones((1, 1, 2, 2))], {}),
        ("AveragePool", [ONE], {"kernel_shape": [2, 2], "ceil_mode": 1}),
        ("AveragePool", [ONE[:0]], {"kernel_shape": [2, 2]}),
        ("Resize", [ONE, None, None, None], {}),
        ("Resize", [ONE, None, np.zeros(0, np.float32), None], {}),
        ("Resize", [ONE, None, np.float32([1, 1, 2, 2])], {"coordinate_transformation_mode": "tf_crop_and_resize"}),
        ("Resize", [ONE, None, np.float32([1, 1, 2, 2])], {"keep_aspect_ratio_policy": "not_larger"}),
        ("Upsample", [ONE], {"scales": [1.0, 1.0, 2.0, 2.0]}),
    ],
)
def test_what_is_not_provided_for_is_left_to_others(op, values, attributes):
    assert kernels.compute(op, 13, values, attributes) is None


def test_pads_that_take_away_are_left_to_others():
    with pytest.raises(ValueError, match="negative pads"):
        kernels.compute("Conv", 13, [ONE, np.ones((1, 1, 1, 1))], {"pads": [-1, 0, 0, 0]})


def test_what_is_far_below_zero_is_not_nothing():
    x = np.array([-800.0, -40.0, 0.0, 1.0, 40.0])
    expected = {"Sigmoid": [0.0, 4.248354255291589e-18, 0.5, 0.7310585786300049, 1.0]}
    expected["Softplus"] = [0.0, 4.248354255291589e-18, 0.6931471805599453, 1.3132616875182228, 40.0]
    for op, values in expected.items():
        np.testing.assert_allclose(kernels.tails(op, [x]), values, rtol=1e-14)
        assert kernels.tails(op, [x.astype(np.float32)]) is None
        assert kernels.tails(op, [None]) is None
    assert kernels.tails("Tanh", [x]) is None
