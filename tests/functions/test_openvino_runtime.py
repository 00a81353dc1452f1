"""OpenVINO's operators, inlined and run by onnxruntime, against OpenVINO's own runtime."""

import numpy as np
import pytest

from tests.functions.test_openvino import SAMPLES, call, graph, inlined, run

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")


def compiled(op, x, axes, axes_at_run_time, attributes):
    """A function of (data, axes) that OpenVINO runs in float32, as the model says and not faster."""
    from openvino import opset4
    from openvino.utils.node_factory import NodeFactory

    data = opset4.parameter(list(x.shape), x.dtype)
    given = opset4.parameter(list(np.shape(axes)), np.int64) if axes_at_run_time else None
    if given is None:
        given = openvino.op.Constant(openvino.Type.i64, openvino.Shape(np.shape(axes)), np.ravel(axes).tolist())
    if op == "ReduceL1":
        node = opset4.reduce_l1(data, given, **attributes)
    else:  # opset4.normalize_l2 passes eps_mode under a wrong name
        node = NodeFactory("opset1").create(op, [data.output(0), given.output(0)], attributes)
    inputs = [data, given] if axes_at_run_time else [data]
    model = openvino.Model([node], inputs, "example")
    network = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    feeds = [x, np.array(axes, np.int64)] if axes_at_run_time else [x]
    return network(feeds)[0]


def check_same(op, x, axes, *, at_run_time=False, rtol=1e-6, **attributes):
    expected = compiled(op, x, axes, at_run_time, attributes)
    numbers = {k: int(v) if isinstance(v, bool) else v for k, v in attributes.items()}
    kind = {"float32": "float", "float64": "double"}.get(str(x.dtype), str(x.dtype))
    source = graph(call(op, **numbers), kind, x.shape, None if at_run_time else axes, rank=expected.ndim)
    actual = run(inlined(source), x, axes if at_run_time else None)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=np.finfo(np.float32).tiny
    )
    return actual


def example(dtype=np.float32):
    return np.random.default_rng(0).normal(0, 10, (6, 12, 10, 24)).astype(dtype)


@pytest.mark.parametrize(
    ("axes", "keep_dims", "at_run_time", "shape"),
    [
        ([2, 3], True, False, (6, 12, 1, 1)),
        ([2, 3], True, True, (6, 12, 1, 1)),
        (
            [2, 3],
            False,
            False,
            (6, 12),
        ),  # at run time OpenVINO does not compile it: the rank could be anything
        ([1], False, False, (6, 10, 24)),
        ([1], False, True, (6, 10, 24)),
        ([-2], False, False, (6, 12, 24)),
        ([-2], False, True, (6, 12, 24)),
    ],
)
def test_reduce_l1_of_the_documentation(axes, keep_dims, at_run_time, shape):
    actual = check_same("ReduceL1", example(), axes, keep_dims=keep_dims, at_run_time=at_run_time)
    assert actual.shape == shape


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("axes", [[1], [1, 2, 3]], ids=str)
def test_normalize_l2_of_the_documentation(axes, mode):
    check_same("NormalizeL2", example(), axes, eps=1e-8, eps_mode=mode)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float16, np.float64])
def test_reduce_l1_of_other_types(dtype):
    x = (example()[:, :, :3, 0] % 20).astype(dtype)
    check_same("ReduceL1", x, [2], rtol=2**-10 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("at_run_time", [False, True])
@pytest.mark.parametrize("eps", [1e-8, 0.25])
@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("axes", [[1], [0], [0, 1], -1], ids=str)
def test_zero_tiny_and_huge_rows(axes, mode, eps, at_run_time):
    rows = SAMPLES[:-1]  # without nan, which OpenVINO's maximum ignores on some paths
    huge = np.array([[1e25, 0, 1], [3e38, -3e38, 0]])
    x = np.concatenate([rows, huge] if axes in ([1], -1) else [rows]).astype(np.float32)
    check_same("NormalizeL2", x, axes, eps=eps, eps_mode=mode, at_run_time=at_run_time)
    if axes == [1]:
        check_same("ReduceL1", x[:-1], axes, at_run_time=at_run_time)


@pytest.mark.parametrize("mode", ["add", "max"])
def test_zero_tiny_and_huge_rows_of_float16(mode):
    x = np.array([[300, 400, 0], [0, 0, 0], [60000, -60000, 1], [1e-4, 1e-4, 6e-8]], np.float16)
    check_same("NormalizeL2", x, [1], eps=1e-8, eps_mode=mode, rtol=2**-10)


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("eps", [1e-8, 0.25])
def test_normalize_l2_without_axes_is_the_formula_there_too(eps, mode):
    x = SAMPLES[[0, 1, 2, 3, 5]].astype(np.float32)
    check_same("NormalizeL2", x, np.zeros(0, np.int64), eps=eps, eps_mode=mode, at_run_time=True)


# --- where the runtime and the text differ ------------------------------------------------------------------


def test_known_difference_reduce_l1_without_axes():
    x = np.array([[1, -2, 0]], np.float32)
    empty = np.zeros(0, np.int64)
    assert compiled("ReduceL1", x, empty, False, {"keep_dims": True}).tolist() == [[1, 2, 0]]
    assert run(inlined(graph(call("ReduceL1", keep_dims=1), "float", x.shape, [])), x).tolist() == [[1, -2, 0]]


def test_known_difference_normalize_l2_without_axes():
    x = np.array([[2, -2, 0]], np.float32)
    attributes = {"eps": 1e-8, "eps_mode": "add"}
    assert compiled("NormalizeL2", x, np.zeros(0, np.int64), False, attributes).tolist() == [[1, 1, 0]]
    assert run(inlined(graph(call("NormalizeL2", **attributes), "float", x.shape, [])), x).tolist() == [[1, -1, 0]]


@pytest.mark.parametrize(
    ("x", "theirs"),
    [
        (np.array([[2**53 + 1, 0]], np.int64), 1),
        (np.array([[2**24 + 1, 0]], np.int32), 2**24),
        (np.array([[1e39, 0]]), float(np.finfo(np.float32).max)),
        (np.array([[-100, -100]], np.int8), 127),
    ],
    ids=lambda v: str(getattr(v, "dtype", "")),
)
def test_known_difference_width_of_the_sum(x, theirs):
    kind = {"float64": "double"}.get(str(x.dtype), str(x.dtype))
    assert compiled("ReduceL1", x, [1], False, {}).tolist() == [theirs]
    ours = run(inlined(graph(call("ReduceL1"), kind, x.shape, [1], rank=1)), x)
    if x.dtype == np.int8:
        assert ours.tolist() == [200 - 256]
    elif x.dtype == np.int64:
        assert ours.tolist() == [2**53]  # onnxruntime's ReduceSum goes through double
    else:
        np.testing.assert_array_equal(ours, [x[0, 0]])
