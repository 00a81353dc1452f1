"""Convolutions, pools and resized images in float64, held against onnx.reference and onnxruntime."""

import numpy as np
import pytest
from opshift.passes.model.attributes import attribute_value

from opshift.verification import kernels
from opshift.verification.engines import OnnxRuntime, Reference
from tests.support import model


def compute(op, opset, values, attributes):
    """What our kernel makes of a call; None where it is not provided for."""
    return kernels._KERNELS[op](values, attributes, opset)


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
    found = compute(node.op_type, 18, values, {a.name: attribute_value(a) for a in node.attribute})
    if node.op_type == "ConvTranspose":
        narrow = {name: value.astype(np.float32) for name, value in feeds.items()}
        np.testing.assert_allclose(found, OnnxRuntime(of("float")).run(narrow)[0], rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(found, Reference(wide).run(feeds)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("more", [{"antialias": 1}, {"exclude_outside": 1}, {"axes": [2, 3]}, {"mode": "cubic"}])
def test_what_a_kernel_does_not_know_it_leaves_to_others(more):
    values = [np.ones((1, 1, 2, 2)), None, np.float32([1, 1, 2, 2]), None]
    assert compute("Resize", 18, values, {"mode": "linear", **more}) is None
    assert compute("Resize", 18, [np.ones((1, 1, 0, 2)), *values[1:]], {"mode": "linear"}) is None
    assert compute("Resize", 18, values, {"mode": "linear"}) is not None


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
    found = compute(node.op_type, opset, values, {a.name: _text(attribute_value(a)) for a in node.attribute})
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
]


@pytest.mark.parametrize(("body", "inputs"), CALLS, ids=[body for body, _ in CALLS])
@pytest.mark.parametrize("copied", [1 << 21, 8])
def test_windows_go_as_in_onnxruntime(body, inputs, copied, monkeypatch):
    """However few elements are copied at a time."""
    if copied == 8 and not body.startswith("Conv"):
        return
    monkeypatch.setattr(kernels, "_COPIED", copied)
    found, expected = computed(body, 19, inputs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("way", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 8])
def test_the_nearest_element_is_that_of_onnxruntime(rounding, way, size):
    body = f'Resize<nearest_mode="{rounding}", coordinate_transformation_mode="{way}">(x, , , z)'
    found, expected = computed(body, 13, {"x": random(1, 4)}, constants={"z": np.array([1, size])})
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("Resize(x, s)", 10),
        ('Resize<mode="linear">(x, s)', 10),
        ("Resize(x, r, s)", 11),
        ('Resize<mode="linear">(x, , s)', 13),
        ('Resize<mode="linear", coordinate_transformation_mode="pytorch_half_pixel">(x, , s)', 13),
    ],
)
@pytest.mark.parametrize("scales", [[1, 1, 2, 1.5], [1, 1, 1, 2.6], [1, 1, 3, 1]])
def test_scales_are_those_of_the_opset(body, opset, scales):
    held = {"r": np.zeros(8, np.float32)} if ", r," in body else {}
    held["s"] = np.float32(scales)
    found, expected = computed(body, opset, {"x": random(1, 2, 3, 4)}, constants=held)
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
    ],
)
def test_what_is_not_provided_for_is_left_to_others(op, values, attributes):
    assert compute(op, 13, values, attributes) is None


def test_pads_that_take_away_are_left_to_others():
    with pytest.raises(ValueError, match="negative pads"):
        compute("Conv", 13, [ONE, np.ones((1, 1, 1, 1))], {"pads": [-1, 0, 0, 0]})


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx_reference_computes_with_them_in_float64_alone(dtype):
    """What another type or attribute asks for is its own business."""
    kind = "double" if dtype == np.float64 else "float"
    of = model(
        "y = Conv<pads=[1,1,1,1]>(x, w)",
        17,
        inputs=f"{kind}[1,2,9,9] x, {kind}[3,2,3,3] w",
        outputs=f"{kind}[1,3,9,9] y",
    )
    given = {"x": random(1, 2, 9, 9).astype(dtype), "w": random(3, 2, 3, 3, seed=1).astype(dtype)}
    (own,), (plain,) = (Reference(of, kernels=held).run(given) for held in (kernels.reference_kernels(), ()))
    assert own.dtype == plain.dtype == dtype
    np.testing.assert_allclose(own, plain, rtol=1e-12 if dtype == np.float64 else 0)


def test_what_is_not_provided_for_is_computed_by_onnx_reference():
    of = model(
        "y = AveragePool<kernel_shape=[2], ceil_mode=1>(x)", 19, inputs="double[1,1,4] x", outputs="double[1,1,3] y"
    )
    (made,) = Reference(of, kernels=kernels.reference_kernels()).run({"x": np.arange(4.0).reshape(1, 1, 4)})
    np.testing.assert_allclose(made, [[[0.5, 1.5, 2.5]]])
