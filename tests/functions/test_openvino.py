"""OpenVINO's ReduceL1 and NormalizeL2 against numpy in float64 and against the OpenVINO runtime."""

import ml_dtypes
import numpy as np
import onnx.checker
import onnx.helper
import onnx.inliner
import onnx.parser
import pytest
from opshift.functions import OPENVINO
from opshift.passes.conversion import convert

from tests.support import evaluate, model, show

OPS = [(OPENVINO, "ReduceL1"), (OPENVINO, "NormalizeL2")]
IMPORT = f'"{OPENVINO}" : 1'
FLOATS = {"float": 2**-21, "double": 2**-49, "float16": 2**-10, "bfloat16": 2**-7}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
INF = np.inf
OPSETS = [7, 8, 9, 10, 11, 12, 13, 16, 18, 20, 24, 26, 28]
SAMPLES = np.array(
    [
        [3, -4, 0],
        [0, -0.0, 0],
        [1e-10, 1e-10, 0],
        [1e-25, 0, 0],
        [1e18, -1e18, 1],
        [-7, 0.5, 1e-3],
        [np.nan, 0, 1],
    ]
)


def dtype_of(kind):
    return ml_dtypes.bfloat16 if kind == "bfloat16" else np.dtype(kind if kind != "float" else "float32")


def reduce_l1(x, axes, keep_dims=0):
    if not len(axes):
        return x
    wide = np.abs(x.astype(np.float64 if x.dtype.kind not in "iu" else object))
    return np.asarray(np.sum(wide, axis=tuple(axes), keepdims=bool(keep_dims))).astype(x.dtype)


def normalize_l2(x, axes, eps, eps_mode):
    """The formula; without axes a sum is one square."""
    x, eps = x.astype(np.float64), float(np.float32(eps))
    combine = {"add": np.add, "max": np.maximum}[eps_mode]
    with np.errstate(all="ignore"):
        total = np.sum(x * x, axis=tuple(axes), keepdims=True)
        y = x / np.sqrt(combine(total, eps))
    return y if len(axes) else np.where(x == 0, 0, y)


def call(op, **attributes):
    """A call of an operator in ONNX text: `y = op<...>(x, a)`."""
    spelled = [f'{k}="{v}"' if isinstance(v, str) else f"{k}={v!r}" for k, v in attributes.items()]
    return f"y = {OPENVINO}.{op}<{', '.join(spelled)}>(x, a)" if spelled else f"y = {OPENVINO}.{op}(x, a)"


def graph(body, kind, shape, axes, opset=18, rank=None, axes_type="int64"):
    """A model of one call; axes None are a graph input, bfloat16 is cast from float and back."""
    dims = "[" + ",".join(map(str, shape)) + "]" if shape else ""
    rank = len(shape) if rank is None else rank
    result = "[" + ",".join(f"d{i}" for i in range(rank)) + "]" if rank else ""
    inputs, constants = "", ""
    if axes is None:
        inputs = f", {axes_type}[N] a"
    elif np.ndim(axes) == 0:
        constants = f"{axes_type} a = {{{axes}}}"
    else:
        constants = f"{axes_type}[{len(axes)}] a = {{{', '.join(map(str, axes))}}}"
    if kind == "bfloat16":
        body = f"x = Cast<to=16>(w)\n{body.replace('y =', 'z =')}\ny = Cast<to=1>(z)"
        io = {"inputs": f"float{dims} w{inputs}", "outputs": f"float{result} y"}
    else:
        io = {"inputs": f"{kind}{dims} x{inputs}", "outputs": f"{kind}{result} y"}
    return model(body, opset, constants=constants, domains=IMPORT, **io)


def inlined(source, opset=18):
    result = convert.attempt(source, {"": opset}, ops=OPS)
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert OPENVINO not in {i.domain for i in result.model.opset_import}
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def run(after, x, axes=None):
    feeds = {"x": x, "w": x.astype(np.float32)} if x.dtype == ml_dtypes.bfloat16 else {"x": x}
    if axes is not None:
        axes_type = next((v.type.tensor_type.elem_type for v in after.graph.input if v.name == "a"), 7)
        feeds["a"] = np.array(axes, onnx.helper.tensor_dtype_to_np_dtype(axes_type))
    return evaluate(after, feeds)[0]


# --- the nodes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [13, 18, 21, 26])
def test_reduce_l1_of_float32_is_a_sum_of_magnitudes(opset):
    after = inlined(graph(call("ReduceL1"), "float", (2, 3), [1], rank=1), opset)
    assert show(after) == "t1 = Abs(x)\ny = ReduceSum<keepdims=0>(t1, [1])"


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_axes_are_an_attribute_where_the_sum_has_no_input_for_them(opset):
    after = inlined(graph(call("ReduceL1", keep_dims=1), "float", (2, 3), [1]), opset)
    assert show(after) == "t1 = Abs(x)\ny = ReduceSum<axes=[1], keepdims=1>(t1)"


@pytest.mark.parametrize("kind", ["float", "double", "int32", "uint64"])
def test_empty_axes_leave_the_data_as_they_are(kind):
    casts = {"uint64": "t1 = Cast<to=7>(x)\ny = Cast<to=13>(t1)"}
    after = inlined(graph(call("ReduceL1"), kind, (2, 3), []))
    assert show(after) == casts.get(kind, "y = Identity(x)")


def test_axes_of_a_known_number_need_no_condition():
    source = graph(call("ReduceL1"), "float", (2, 3), None, rank=1)
    source.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 1
    assert show(inlined(source)) == "t1 = Reshape(a, [-1])\nt2 = Abs(x)\ny = ReduceSum<keepdims=0>(t2, t1)"


@pytest.mark.parametrize(("mode", "combine"), [("add", "Add"), ("max", "Max")])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_normalize_l2_is_its_formula(kind, mode, combine):
    after = inlined(graph(call("NormalizeL2", eps=0.5, eps_mode=mode), kind, (2, 3), [1]))
    half = "0.5" if kind == "float" else "float64:0.5"
    assert show(after) == "\n".join(
        [
            "t1 = Mul(x, x)",
            "t2 = ReduceSum<keepdims=1>(t1, [1])",
            f"t3 = {combine}(t2, {half})",
            "t4 = Sqrt(t3)",
            "y = Div(x, t4)",
        ]
    )


def test_a_conversion_leaves_calls_alone_that_nobody_asks_to_inline():
    source = graph(call("ReduceL1"), "float", (2, 3), [1], rank=1)
    result = convert.attempt(source, {"": 13})
    assert [n.SerializeToString() for n in result.model.graph.node] == [
        n.SerializeToString() for n in source.graph.node
    ]
    assert {i.domain: i.version for i in result.model.opset_import} == {"": 13, OPENVINO: 1}


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (call("NormalizeL2", eps_mode="add"), "attribute eps is missing"),
        (call("NormalizeL2", eps=1e-8), "attribute eps_mode is missing"),
        (call("NormalizeL2", eps=1e-8, eps_mode="mul"), "eps_mode='mul'; supported: add or max"),
        (call("NormalizeL2", eps=1, eps_mode="add"), "attribute eps is INT; supported: FLOAT"),
        (call("NormalizeL2", eps=1e-8, eps_mode="add").replace("x, a", "x"), "input axes is missing"),
        (call("ReduceL1", keepdims=1), "attribute keepdims does not exist; supported: keep_dims"),
        (call("ReduceL1").replace("x, a", "x, a, a"), "more inputs or outputs than the function"),
    ],
)
def test_refused(body, why):
    result = convert.attempt(graph(body, "float", (2, 3), [1]), {"": 18}, ops=OPS)
    assert result.model is None
    assert why in str(result.refusals[0])


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (call("ReduceL1"), "bool", "its definition does not accept bool"),
        (call("NormalizeL2", eps=0.5, eps_mode="add"), "int32", "its definition does not accept int32"),
        (
            "x = my.Thing(v)\n" + call("ReduceL1"),
            "float",
            'the type of "x" is unknown; try a value_info that declares it',
        ),
    ],
)
def test_types_that_are_refused(body, kind, why):
    source = graph(body, kind, (2, 3), [1])
    if "my.Thing" in body:
        source.graph.input[0].name = "v"
        source.opset_import.add(domain="my", version=1)
    result = convert.attempt(source, {"": 18}, ops=OPS)
    assert why in str(result.refusals[0])


# --- ReduceL1 against numpy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [[1], [-1, 0], 0, -2, [0, 1]], ids=str)
@pytest.mark.parametrize("axes_type", ["int32", "int64"])
@pytest.mark.parametrize("keep_dims", [0, 1])
def test_reduce_l1_axes(axes, axes_type, keep_dims):
    x = np.array([[1, -2, 3], [-4, 0.5, -0.0]], np.float32)
    expected = reduce_l1(x, np.atleast_1d(axes), keep_dims)
    body = call("ReduceL1", keep_dims=keep_dims)
    after = inlined(graph(body, "float", (2, 3), axes, rank=expected.ndim, axes_type=axes_type))
    np.testing.assert_array_equal(run(after, x), expected, strict=True)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_reduce_l1_of_every_type(kind):
    values = [[1, 5, 3], [100, 20, 0]] if kind.startswith("u") else [[1, -5, 3], [-100, 20, -0.0]]
    x = np.array(values).astype(dtype_of(kind))
    after = inlined(graph(call("ReduceL1"), kind, (2, 3), [1], rank=1))
    expected = reduce_l1(x, [1])
    np.testing.assert_array_equal(run(after, x), expected, strict=kind != "bfloat16")


@pytest.mark.parametrize(
    "x",
    [
        np.array([[60000, 60000], [2048, 1]], np.float16),
        np.array([[1e39, -1e300]]),
        np.array([[2**63, 2**40]], np.uint64),
        np.array([[2**32 - 1, 0]], np.uint32),
        np.array([[-(2**31) + 1, 0]], np.int32),
        np.array([[np.nan, 1], [INF, -INF]], np.float32),
        np.array([[1e-45, -1e-45], [3e38, -3e38]], np.float32),
    ],
    ids=lambda x: f"{x.dtype}-{x.flat[0]}",
)
def test_reduce_l1_of_extreme_values(x):
    kind = {"float32": "float", "float64": "double"}.get(str(x.dtype), str(x.dtype))
    with np.errstate(over="ignore"):
        expected = reduce_l1(x, [1])
    np.testing.assert_array_equal(run(inlined(graph(call("ReduceL1"), kind, x.shape, [1], rank=1)), x), expected)


@pytest.mark.parametrize("keep_dims", [0, 1])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 0)], ids=str)
def test_reduce_l1_of_scalars_and_empty_tensors(shape, keep_dims):
    x = np.full(shape, -3, np.float32)
    every = list(range(x.ndim))
    expected = reduce_l1(x, every, keep_dims)
    after = inlined(graph(call("ReduceL1", keep_dims=keep_dims), "float", shape, every, rank=expected.ndim))
    np.testing.assert_array_equal(run(after, x), expected)


@pytest.mark.parametrize(("kind", "axes_type"), [("float", "int64"), ("float16", "int32"), ("uint8", "int64")])
@pytest.mark.parametrize("opset", OPSETS)
def test_reduce_l1_axes_known_only_at_run_time(opset, kind, axes_type):
    x = np.array([[1, 5, 3], [100, 20, 0]]).astype(dtype_of(kind))
    source = graph(call("ReduceL1", keep_dims=1), kind, (2, 3), None, axes_type=axes_type)
    after = inlined(source, opset)
    for axes in ([1], [-1, 0], []):
        np.testing.assert_array_equal(run(after, x, axes), reduce_l1(x, axes, 1), err_msg=str(axes))


def test_one_axis_known_only_at_run_time():
    x = np.array([[1, -2, 3], [-4, 0.5, 0]], np.float32)
    source = graph(call("ReduceL1"), "float", (2, 3), None, rank=1)
    source.graph.input[1].type.tensor_type.shape.ClearField("dim")
    after = inlined(source)
    assert [n.op_type for n in after.graph.node] == ["Reshape", "Abs", "ReduceSum"]
    for axis in (0, -1):
        np.testing.assert_array_equal(run(after, x, axis), reduce_l1(x, [axis]))


@pytest.mark.parametrize("opset", OPSETS)
def test_reduce_l1_drops_dimensions_known_only_at_run_time(opset):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 12
    after = inlined(graph(call("ReduceL1"), "float", (2, 3, 4), None, rank=2), opset)
    for axes in ([1], [-1], [0]):
        np.testing.assert_array_equal(run(after, x, axes), reduce_l1(x, axes), err_msg=str(axes))


# --- NormalizeL2 against numpy ------------------------------------------------------------------------------


def check_normalize(x, axes, eps, mode, kind):
    expected = normalize_l2(x, np.atleast_1d(axes), eps, mode)
    body = call("NormalizeL2", eps=eps, eps_mode=mode)
    constant = run(inlined(graph(body, kind, x.shape, axes)), x)
    computed = run(inlined(graph(body, kind, x.shape, None)), x, np.atleast_1d(axes))
    smallest = float(np.finfo(np.float32 if kind != "double" else np.float64).tiny) if kind != "float16" else 2**-25
    for actual in (constant, computed):
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=FLOATS[kind], atol=smallest)


@pytest.mark.parametrize("eps", [1e-8, 0.25])
@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("axes", [[1], [0], [-1, 0], -1, []], ids=str)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_normalize_l2(kind, axes, mode, eps):
    rows = SAMPLES[:-1] if np.size(axes) != 1 or 0 in np.atleast_1d(axes) else SAMPLES
    check_normalize(rows.astype(dtype_of(kind)), axes, eps, mode, kind)


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_normalize_l2_at_every_opset(opset, mode, kind):
    x = np.array([[3, -4, 0], [0, 0, 0], [0.1, 100, -7]]).astype(dtype_of(kind))
    body = call("NormalizeL2", eps=0.25, eps_mode=mode)
    computed = inlined(graph(body, kind, x.shape, None), opset)
    for axes in ([1], [-2, 1], []):
        expected = normalize_l2(x, axes, 0.25, mode)
        for actual in (run(computed, x, axes), run(inlined(graph(body, kind, x.shape, axes), opset), x)):
            np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=FLOATS[kind], atol=1e-7)


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("axes", [[1], []], ids=str)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_normalize_l2_of_16_bits_is_computed_in_float32(kind, axes, mode):
    x = np.array([[300, 400, 0], [0, 0, 0], [60000, -60000, 1], [1e-4, 1e-4, 6e-8], [-3, 4, 12]])
    check_normalize(x.astype(dtype_of(kind)), axes, 1e-8, mode, kind)


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("eps", [0.0, 1e-30, 1e-8])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_without_axes_each_element_is_divided_by_its_own_magnitude(kind, eps, mode):
    big, small = (1e30, 1e-10) if kind == "float" else (1e300, 1e-10)
    x = np.array([[5, -7, big, -big, 0, -0.0], [1, -1, small, -small, 1e10, -1e-3]]).astype(dtype_of(kind))
    with np.errstate(over="ignore"):
        wide = x.astype(np.longdouble)
        floor = np.longdouble(np.float32(eps))
        bounded = np.add(wide**2, floor) if mode == "add" else np.maximum(wide**2, floor)
        expected = np.divide(wide, np.sqrt(bounded), out=np.zeros_like(wide), where=x != 0)
    body = call("NormalizeL2", eps=eps, eps_mode=mode)
    for actual in (
        run(inlined(graph(body, kind, x.shape, [])), x),
        run(inlined(graph(body, kind, x.shape, None)), x, []),
    ):
        np.testing.assert_allclose(actual, expected.astype(np.float64), rtol=FLOATS[kind])
    if not eps:
        np.testing.assert_array_equal(run(inlined(graph(body, kind, x.shape, [])), x), np.sign(x))


def test_normalize_l2_of_subnormal_numbers_without_axes():
    x = np.array([1e-45, -1e-45, 1e-40, 0], np.float32)
    for mode in ("add", "max"):
        after = inlined(graph(call("NormalizeL2", eps=0.0, eps_mode=mode), "float", (4,), []))
        np.testing.assert_array_equal(run(after, x), [1, -1, 1, 0])


def test_squares_beyond_float32_become_zero():
    """The formula in float32, as OpenVINO computes it: from 1.9e19 on the square is infinite."""
    x = np.array([[1e25, 0, 1]], np.float32)
    after = inlined(graph(call("NormalizeL2", eps=1e-8, eps_mode="add"), "float", (1, 3), [1]))
    np.testing.assert_array_equal(run(after, x), [[0, 0, 0]])


@pytest.mark.parametrize("shape", [(), (0, 2), (2, 0)], ids=str)
def test_normalize_l2_of_scalars_and_empty_tensors(shape):
    x = np.full(shape, -3, np.float32)
    after = inlined(graph(call("NormalizeL2", eps=1e-8, eps_mode="add"), "float", shape, list(range(x.ndim))))
    actual = run(after, x)
    assert actual.shape == shape
    np.testing.assert_allclose(actual, np.full(shape, -1.0), rtol=1e-6)
