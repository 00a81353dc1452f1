"""Calls that a backend refuses for an attribute's value are written in another form, with the same results."""

from collections import Counter

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.backends.obstacles import obstacles
from opshift.passes.backends.respelling import respell
from opshift.passes.backends.target_files import find
from opshift.passes.backends.whole_numbers import keep_in_floats
from opshift.passes.goals import Goal
from opshift.passes.model.traversal import bodies

from opshift.cli import main as cli

OPS = frozenset(("", op) for op in ("Conv", "MaxPool", "AveragePool", "LpPool", "Pad"))
REFUSES_ALL = Backend(
    "picky-1",
    limits=(
        Limit(frozenset(("", op) for op in ("ReduceMax", "ReduceMean", "ReduceMin")), attribute="axes", most=1),
        Limit(OPS, attribute="auto_pad", takes=("NOTSET",)),
        Limit(OPS, attribute="mode", takes=("constant",)),
        Limit(frozenset({("", "If")}), ranks=(0, 1)),
    ),
)


def parse(body, x="float[1,2,7,6]", y="float[?,?,?,?]", opset=18):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g ({x} x) => ({y} y) {{ {body} }}')
    onnx.checker.check_model(model)
    return model


def feeds(model):
    random = np.random.default_rng(0)
    held = {value.name: [d.dim_value or 5 for d in value.type.tensor_type.shape.dim] for value in model.graph.input}
    constants = {tensor.name for tensor in model.graph.initializer}
    return {
        name: random.standard_normal(sizes).astype(np.float32) for name, sizes in held.items() if name not in constants
    }


def run(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # it drops an Add of 0
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds(model))[0]


W = "c = Constant <value_floats = [1.0, -2.0, 3.0, 0.5, -1.5, 2.5, 0.25, 4.0, 1.25, -3.0, 2.0, 0.75]> () "
W += "s = Constant <value_ints = [1, 2, 3, 2]> () w = Reshape(c, s) "


@pytest.mark.parametrize(
    "body",
    [
        W + 'y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)',
        W + 'y = Conv <auto_pad = "SAME_LOWER", strides = [3, 1], kernel_shape = [3, 2]> (x, w)',
        W + 'y = Conv <auto_pad = "VALID", strides = [2, 2]> (x, w)',
        'y = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x)',
        'y = MaxPool <auto_pad = "SAME_LOWER", kernel_shape = [1, 4], strides = [3, 3]> (x)',
        'y = AveragePool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 2], count_include_pad = 1> (x)',
        'y = AveragePool <auto_pad = "SAME_LOWER", kernel_shape = [4, 2], strides = [2, 1]> (x)',
        'y = LpPool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 2]> (x)',
        'p = Constant <value_ints = [0, 0, 3, 1, 0, 0, 0, 5]> () y = Pad <mode = "reflect"> (x, p)',
        'p = Constant <value_ints = [1, 0, 9, 1, 0, 0, 0, 8]> () y = Pad <mode = "edge"> (x, p)',
        "m = ReduceMax(x) l = Less(x, m) b = Cast <to = 6> (l) n = ReduceMin(b) "
        "c = Cast <to = 9> (n) y = If (c) <then_branch = t () => (float[1,2,7,6] u) { u = Neg(x) }, "
        "else_branch = e () => (float[1,2,7,6] v) { v = Abs(x) }>",
        "p = Constant <value_ints = [2, 1, 1, 5]> () a = Constant <value_ints = [-1, 2]> () "
        'y = Pad <mode = "reflect"> (x, p, , a)',
    ],
)
def test_agrees(body):
    model = parse(body)
    result = respell(model, REFUSES_ALL)
    assert len(result.changes) == 1
    onnx.checker.check_model(result.model, full_check=True)
    assert not any(a.name in ("auto_pad", "mode") for node in result.model.graph.node for a in node.attribute)
    np.testing.assert_array_equal(run(result.model), run(model))


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (13, "y = ReduceMax <axes = [-1, 1], keepdims = 0> (x)"),
        (13, "y = ReduceMin <axes = [1, 2, 3]> (x)"),
        (18, "a = Constant <value_ints = [-1, 1]> () y = ReduceMax <keepdims = 0> (x, a)"),
        (18, "a = Constant <value_ints = [1, 2, 3]> () y = ReduceMin (x, a)"),
    ],
)
def test_axes_are_reduced_in_turn(opset, body):
    model = parse(body, y="float[?,?]" if "keepdims" in body else "float[?,?,?,?]", opset=opset)
    made = respell(model, REFUSES_ALL).model
    reductions = [node for node in made.graph.node if node.op_type.startswith("Reduce")]
    assert len(reductions) == (2 if "keepdims" in body else 3)
    np.testing.assert_array_equal(run(made), run(model))


def test_a_mean_of_several_axes_is_a_mean_of_means():
    model = parse("y = ReduceMean <axes = [1, 3]> (x)", opset=13)
    made = respell(model, REFUSES_ALL).model
    assert [list(node.attribute[-1].ints) for node in made.graph.node] == [[3], [1]]
    np.testing.assert_allclose(run(made), run(model), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [11, 13])
def test_parts_of_equal_size_are_named_for_ncnn(opset):
    source = parse("a, b, c = Split <axis = -1> (x) d = Mul(a, b) y = Add(d, c)", opset=opset)
    made = respell(source, find("ncnn")).model
    assert not [why for why in obstacles(made, find("ncnn")) if why.op == "Split"]
    (split,) = [node for node in made.graph.node if node.op_type == "Split"]
    assert len(split.input) == 2 or [list(a.ints) for a in split.attribute if a.name == "split"] == [[2, 2, 2]]
    assert np.array_equal(run(made), run(source))
    unknown = parse("a, b, c = Split <axis = -1> (x) d = Mul(a, b) y = Add(d, c)", x="float[1,2,7,N]", opset=opset)
    assert respell(unknown, find("ncnn")).model is unknown


def test_ncnn_reads_a_split_at_opsets_where_it_reads_a_mean():
    source = parse(
        "s = Constant <value_ints = [2, 4]> () i = Constant <value_ints = [2]> () "
        "a, b = Split <axis = 3> (x, s) m = ReduceMean(b, i) n = Relu(b) y = Mul(m, n)"
    )
    made = Goal(backend=find("ncnn")).run(source).model
    assert not obstacles(made, find("ncnn"))
    np.testing.assert_allclose(run(made), run(source), rtol=1e-6)


POWERS = Backend("picky-1", limits=(Limit(frozenset({("", "Pow")}), attribute="Y", refuses=(3, 4)),))


@pytest.mark.parametrize(
    ("body", "backend", "grade"),
    [
        ("y = ReduceMax <axes = [1, 3]> (x)", REFUSES_ALL, "exact"),
        ("y = ReduceMean <axes = [1, 3]> (x)", REFUSES_ALL, "close"),
        ("e = Constant <value_float = 4.0> () y = Pow(x, e)", POWERS, "close"),
    ],
)
def test_what_rounds_otherwise_is_close(body, backend, grade):
    """PP-OCRv6 was not written for ncnn: a sum of two axes overflowed where the mean of means did not."""
    source = parse(body, opset=13)
    result = respell(source, backend)
    assert {change.grade for change in result.changes} == {grade}
    assert np.array_equal(run(result.model), run(source)) == (grade == "exact")


def test_a_mean_of_integers_stays():
    """The mean of the means -1 and 0 would be 0."""
    source = parse("c = Cast<to = 7>(x) m = ReduceMean<axes = [1, 3]>(c) y = Cast<to = 1>(m)", opset=13)
    assert respell(source, REFUSES_ALL).model is source


def test_wrap_agrees_with_numpy():
    body = 'p = Constant <value_ints = [0, 0, 3, 1, 0, 0, 0, 14]> () y = Pad <mode = "wrap"> (x, p)'
    found = run(respell(parse(body, opset=19), REFUSES_ALL).model)
    x = np.random.default_rng(0).standard_normal([1, 2, 7, 6]).astype(np.float32)
    np.testing.assert_array_equal(found, np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 14)], mode="wrap"))


def test_negative_pads_are_cut_off_before_the_rest_is_repeated():
    """The last of four elements is cut off, so the third one stands before the first."""
    body = 'p = Constant <value_ints = [2, -1]> () y = Pad <mode = "wrap"> (x, p)'
    source = parse(body, x="float[4]", y="float[?]", opset=19)
    (x,) = feeds(source).values()
    np.testing.assert_array_equal(run(respell(source, REFUSES_ALL).model), x[[1, 2, 0, 1, 2]])


REACHED = Backend("picky-1", limits=(Limit(OPS, reached=True),))


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("y = MaxPool <kernel_shape = [4, 2], strides = [4, 2]> (x)", [4, 6]),
        ("y = MaxPool <kernel_shape = [3, 4], strides = [6, 4], dilations = [2, 1]> (x)", [5, 4]),
        ("y = AveragePool <kernel_shape = [4, 4], strides = [5, 5], pads = [0, 1, 1, 1], count_include_pad = 1> (x)", [4, 3]),
        (W + "y = Conv <strides = [8, 8]> (x, w)", [3, 2]),
        (W + "b = Constant <value_floats = [3.0]> () y = Conv <strides = [1, 5], pads = [1, 0, 1, 0], kernel_shape = [3, 2]> (x, w, b)", [7, 2]),
    ],
)  # fmt: skip
def test_what_the_only_window_of_an_axis_does_not_reach_is_cut_off(body, sizes):
    """By hand: the data that windows read end there, and so does padding."""
    model = parse(body)
    made = respell(model, REACHED)
    assert [change.how for change in made.changes] == ["Cut off elements that no window reaches"]
    cut = onnx.shape_inference.infer_shapes(made.model, strict_mode=True, data_prop=True).graph
    read = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in (*cut.input, *cut.value_info)
    }
    (name,) = (node.input[0] for node in cut.node if "Pool" in node.op_type or node.op_type == "Conv")
    assert read[name][2:] == sizes
    np.testing.assert_array_equal(run(made.model), run(model))
    assert respell(made.model, REACHED).model is made.model


@pytest.mark.parametrize(
    ("body", "x"),
    [
        ("y = MaxPool <kernel_shape = [2, 2], strides = [4, 2]> (x)", "float[1,2,7,6]"),  # two windows of seven rows
        ("y = MaxPool <kernel_shape = [7, 6]> (x)", "float[1,2,7,6]"),
        ("y = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (x)", "float[1,2,h,w]"),
        ("y = MaxPool <kernel_shape = [4, 4], strides = [4, 4], ceil_mode = 1> (x)", "float[1,2,7,6]"),
        ("y, i = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (x)", "float[1,2,7,6]"),
        ('y = MaxPool <kernel_shape = [4, 4], strides = [4, 4], auto_pad = "SAME_UPPER"> (x)', "float[1,2,7,6]"),
    ],
)
def test_windows_that_reach_all_or_may_stay(body, x):
    model = parse(body, x=x)
    assert respell(model, REACHED).model is model


@pytest.mark.parametrize("op", ["AveragePool", "LpPool", "MaxPool"])
def test_pools_that_leave_out_elements_on_both_sides_stay(op):
    """onnxruntime begins at the second element of six, others at the first one."""
    source = parse(f'y = {op} <auto_pad = "SAME_UPPER", kernel_shape = [1], strides = [3]> (x)', "float[1,1,6]", "float[?,?,?]")  # fmt: skip
    assert respell(source, REFUSES_ALL).model is source


@pytest.mark.parametrize(
    "body",
    [
        'y = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 2]> (x)',
        'y = MaxPool <auto_pad = "SAME_UPPER", kernel_shape = [3, 2], dilations = [2, 2]> (x)',
        W + 'y = Conv <auto_pad = "SAME_UPPER", dilations = [2, 1]> (x, w)',
        'y = MaxPool <auto_pad = "VALID", kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x)',
        'p = Constant <value_ints = [0, 0, 3, 1, 0, 0, 0, 5]> () y = Pad <mode = "reflect"> (x, p)',
        "p = Constant <value_ints = [0, 0, 3, 1, 0, 0, 0, 5]> () y = Pad (x, p)",
    ],
)
def test_what_sizes_do_not_tell_stays(body):
    model = parse(body, x="float[1,2,h,w]")
    result = respell(model, REFUSES_ALL)
    assert result.model is model
    assert not result.changes


def test_an_output_of_a_1d_convolution_is_copied_for_mnn():
    body = (
        "c = Constant <value_floats = [1.0, 2.0, 3.0]> () s = Constant <value_ints = [1, 1, 3]> () w = Reshape(c, s) "
    )
    convolution = parse(body + "y = Conv(x, w)", x="float[1,1,9]", y="float[1,1,7]")
    made = Goal(backend=find("mnn")).run(convolution).model
    assert [node.op_type for node in made.graph.node][-2:] == ["Conv", "Identity"]
    assert made.graph.output[0].name == "y"
    np.testing.assert_array_equal(run(made), run(convolution))
    assert all(node.name for node in made.graph.node)  # onnx2torch confuses nodes without names
    image = parse("y = MaxPool <kernel_shape = [1, 1]> (x)", y="float[1,2,7,6]")
    assert "Identity" not in [node.op_type for node in Goal(backend=find("mnn")).run(image).model.graph.node]


def test_products_of_integers_are_products_of_floats_for_mnn():
    body = """
        c = Constant <value_ints = [3, 200, 7, 90, 1, 250, 30, 8]> () u = Cast <to = 2> (c)
        s = Constant <value_ints = [4, 2]> () w = Reshape(u, s)
        zero = Constant <value_int = 128> () z = Cast <to = 2> (zero) k = Constant <value_float = 0.02> ()
        q, scale, point = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, point, z) f = Cast <to = 1> (p)
        both = Mul(scale, k) y = Mul(f, both)
    """
    source = parse(body, x="float[3,4]", y="float[3,2]")
    result = Goal(backend=find("mnn")).run(source)
    types = onnx.shape_inference.infer_shapes(result.model)
    kinds = {held.name: held.type.tensor_type.elem_type for held in types.graph.value_info}
    inputs = {name for node in result.model.graph.node if node.op_type in ("MatMul", "Gemm") for name in node.input[:1]}
    assert inputs
    assert {kinds[name] for name in inputs} == {onnx.TensorProto.FLOAT}
    np.testing.assert_allclose(run(result.model), run(source), rtol=1e-5, atol=1e-5)


FLOATS_ONLY = Backend("floats-1", lacks={("", "QuantizeLinear"): 1, ("", "DequantizeLinear"): 1})


@pytest.mark.parametrize(("kind", "point"), [(2, 0), (2, 100), (3, 0), (3, -5)])
def test_quantized_values_stay_floats(kind, point):
    body = f"""
        s = Constant <value_float = 0.01> () p = Constant <value_int = {point}> () z = Cast <to = {kind}> (p)
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Reciprocal(d)
    """
    source = parse(body, y="float[1,2,7,6]")
    result = Goal(backend=FLOATS_ONLY).run(source)
    assert any("back" in change.how for change in result.changes)
    np.testing.assert_array_equal(run(result.model), run(source))  # of zeros, whose sign a Reciprocal tells, too


@pytest.mark.usefixtures("in_this_process")
def test_a_quantized_model_is_written_for_ncnn_though_floats_keep_nan(tmp_path):
    """QuantizeLinear makes NaN a number; no model with a quantized input was written."""
    source = parse(
        "s = Constant <value_float = 0.02> () p = Constant <value_int = 128> () z = Cast <to = 2> (p) "
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d)",
        opset=13,
    )
    onnx.save(source, tmp_path / "in.onnx")
    assert cli.main(["convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "ncnn"]) == 0
    np.testing.assert_array_equal(run(onnx.load(tmp_path / "out.onnx")), run(source))


def test_zero_points_stay_floats():
    source = parse("q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)", y="float[1,2,7,6]")
    backend = Backend("floats-1", lacks={**FLOATS_ONLY.lacks, ("", "DynamicQuantizeLinear"): 1})
    made = Goal(backend=backend).run(source).model
    kinds = {attribute.i for node in made.graph.node if node.op_type == "Cast" for attribute in node.attribute}
    assert onnx.TensorProto.UINT8 not in kinds
    np.testing.assert_array_equal(run(made), run(source))


@pytest.mark.parametrize(
    "body",
    [
        "c = Clip(x, low, high) i = Cast <to = 3> (c) y = Cast <to = 1> (i)",  # not whole
        "r = Round(x) i = Cast <to = 3> (r) y = Cast <to = 1> (i)",  # not clipped
        "r = Round(x) c = Clip(r, low, wide) i = Cast <to = 3> (c) y = Cast <to = 1> (i)",  # not to the range
        "r = Round(x) c = Clip(r, low, high) i = Cast <to = 3> (c) y = Cast <to = 11> (i)",  # another type
    ],
)
def test_other_casts_stay(body):
    ends = "low = Constant <value_float = -100.0> () high = Constant <value_float = 100.0> () "
    wide = "wide = Constant <value_float = 200.0> () "
    source = parse(ends + wide + body, y="double[?,?,?,?]" if "11" in body else "float[?,?,?,?]")
    assert keep_in_floats(source).model is source


@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("reverse", 1), ("bidirectional", 2)])
@pytest.mark.parametrize("states", ["", ", , , h, c", ", , , h"])
def test_an_lstm_begins_with_zeros_that_are_given(states, direction, count):
    held = "".join(f"{name} = ConstantOfShape<value = float[1] {{0.25}}>({name}_sizes) " for name in "wrhc")
    sizes = {"w": [count, 8, 3], "r": [count, 8, 2], "h": [count, 4, 2], "c": [count, 4, 2]}
    body = "".join(f"{name}_sizes = Constant<value_ints = {size}>() " for name, size in sizes.items()) + held
    body += f'y = LSTM<hidden_size = 2, direction = "{direction}">(x, w, r{states})'
    source = parse(body, x="float[5,4,3]", opset=14)
    limit = Limit(frozenset({("", "LSTM")}), given=("initial_h", "initial_c"))
    result = respell(source, Backend("starts-1", limits=(limit,)))
    lstm = result.model.graph.node[-1]
    assert all(lstm.input[5:7])
    assert ("h" in lstm.input, "c" in lstm.input) == (", h" in states, ", c" in states)
    assert (result.model is source) == states.endswith("c")
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


def test_an_lstm_of_unknown_batch_stays():
    body = "s = Constant<value_ints = [1, 8, 3]>() w = ConstantOfShape(s) t = Constant<value_ints = [1, 8, 2]>() "
    body += "r = ConstantOfShape(t) y = LSTM<hidden_size = 2>(x, w, r)"
    source = parse(body, x="float[5,n,3]", opset=14)
    limit = Limit(frozenset({("", "LSTM")}), given=("initial_h", "initial_c"))
    assert respell(source, Backend("starts-1", limits=(limit,))).model is source


@pytest.mark.parametrize("bounds", ["", ", low, ", ", low", ", , high", ", low, high"])
@pytest.mark.parametrize("opset", [11, 13])
def test_a_clip_without_a_bound_gets_the_largest_number(bounds, opset):
    body = "k = Constant<value = float[6] {-inf, -2.0, 0.0, nan, 2.0, inf}>() low = Constant<value = float {-1}>() "
    body += f"high = Constant<value = float {{1}}>() s = Mul(k, x) y = Clip(s{bounds})"
    source = parse(body, x="float[6]", y="float[6]", opset=opset)
    limit = Limit(frozenset({("", "Clip")}), given=("max", "min"))
    result = respell(source, Backend("bounded-1", limits=(limit,)))
    assert len(result.model.graph.node[-1].input) == 3
    assert all(result.model.graph.node[-1].input)
    assert (result.model is source) == (", low, high" in bounds)
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


@pytest.mark.parametrize("opset", [11, 18])
def test_the_default_mode_of_a_pad_is_written(opset):
    body = 'p = Constant<value = int64[4] {1, 0, 0, 2}>() y = Pad(x, p) z = Pad<mode = "edge">(x, p)'
    source = parse(body, x="float[2,3]", y="float[3,5]", opset=opset)
    result = respell(source, Backend("spells-1", limits=(Limit(frozenset({("", "Pad")}), given=("mode",)),)))
    assert [[a.s for a in node.attribute] for node in result.model.graph.node[1:]] == [[b"constant"], [b"edge"]]
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


STEPS = Backend("walks-1", limits=(Limit(frozenset({("", "Slice")}), unused=("steps",)),))


def steps(starts, ends, axes, steps):
    names = zip("seat", (starts, ends, axes, steps), strict=True)
    return "".join(f"{name} = Constant<value_ints = {held}>() " for name, held in names) + "y = Slice(x, s, e, a, t)"


@pytest.mark.parametrize(
    ("body", "x", "shape", "left"),
    [
        (steps([0, 1], [9, 9], [2, 3], [2, 2]), "float[1,3,8,6]", (1, 3, 4, 3), ["Reshape", "Slice", "Reshape"] * 2),
        (steps([1], [7], [-1], [3]), "float[2,3,8]", (2, 3, 2), ["Slice", "Reshape", "Slice", "Reshape"]),
        (steps([-4], [9223372036854775807], [0], [2]), "float[6,5]", (2, 5), ["Slice", "Reshape", "Slice", "Reshape"]),
        (steps([1], [9], [1], [2]), "float[2,8,3]", (2, 4, 3), ["Reshape", "Slice", "Reshape"]),
        (steps([1], [9], [0], [4]), "float[8]", (2,), ["Reshape", "Slice", "Reshape"]),
        (steps([1, 0], [3, 5], [0, 1], [1, 1]), "float[4,7]", (2, 5), ["Slice"]),
        (steps([1, 0], [3, 6], [0, 1], [1, 2]), "float[4,6]", (2, 3), ["Slice", "Reshape", "Slice", "Reshape"]),
    ],
)
def test_steps_are_rows_of_which_one_column_is_read(body, x, shape, left):
    source = parse(body, x=x, y=f"float[{','.join('?' * len(shape))}]", opset=13)
    result = respell(source, STEPS)
    nodes = [node for node in result.model.graph.node if node.op_type != "Constant"]
    assert [node.op_type for node in nodes] == left
    assert not any(node.op_type == "Slice" and len(node.input) > 4 for node in nodes)
    onnx.checker.check_model(result.model, full_check=True)
    assert run(result.model).shape == shape
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


@pytest.mark.parametrize(
    ("body", "x"),
    [
        (steps([0], [9], [0], [2]), "float[7]"),  # a row is not whole
        (steps([6], [0], [0], [-2]), "float[8]"),
        (steps([5], [2], [0], [2]), "float[8]"),
        (steps([0], [9], [0], [2]), "float[n]"),
        (steps([0], [9], [0], [2]), "float[8,3,0]"),
    ],
)
def test_other_steps_stay(body, x):
    source = parse(body, x=x, y=x, opset=13)
    assert respell(source, STEPS).model is source


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "tf_crop_and_resize"])
def test_a_region_that_is_not_cropped_is_left_out(mode, opset):
    body = (
        f"r = Constant<value = float[8] {{0, 0, 0, 0, 1, 1, 0.5, 0.5}}>() s = Constant<value = float[4] {{1, 1, 2, 2}}>() "
        f'y = Resize<coordinate_transformation_mode = "{mode}", mode = "linear">(x, r, s)'
    )
    source = parse(body, opset=opset)
    result = respell(source, Backend("whole-1", limits=(Limit(frozenset({("", "Resize")}), unused=("roi",)),)))
    assert (result.model is source) == (mode == "tf_crop_and_resize")
    assert result.model is source or "r" not in result.model.graph.node[-1].input
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


SQUEEZES = Backend("tidy-1", limits=(Limit(frozenset(("", op) for op in ("ReduceSum", "ReduceMax", "ArgMax")), attribute="keepdims", takes=(1,)),))  # fmt: skip


@pytest.mark.parametrize(
    ("body", "y", "opset", "ops"),
    [
        ("y = ReduceSum<axes = [1, 3], keepdims = 0>(x)", "float[?,?]", 11, ["ReduceSum", "Squeeze"]),
        ("a = Constant<value = int64[2] {1, -1}>() y = ReduceSum<keepdims = 0>(x, a)", "float[?,?]", 13, ["Constant", "ReduceSum", "Squeeze"]),
        ("y = ReduceMax<axes = [-1, 1], keepdims = 0>(x)", "float[?,?]", 13, ["ReduceMax", "Squeeze"]),
        ("y = ReduceMax<keepdims = 0>(x)", "float", 13, ["ReduceMax", "Squeeze"]),
        ("t = ArgMax<axis = 2, keepdims = 0>(x) y = Cast<to = 1>(t)", "float[?,?,?]", 13, ["ArgMax", "Squeeze", "Cast"]),
        ("t = ArgMax<keepdims = 0>(x) y = Cast<to = 1>(t)", "float[?,?,?]", 11, ["ArgMax", "Squeeze", "Cast"]),
        ("y = ReduceSum<axes = [1]>(x)", "float[?,?,?,?]", 11, ["ReduceSum"]),
        ("y = ReduceSum<axes = [3, 1], keepdims = 0>(x)", "float[?,?]", 9, ["ReduceSum", "Squeeze"]),
        ("a = Constant<value = int64[0] {}>() y = ReduceSum<keepdims = 0>(x, a)", "float", 13, ["Constant", "ReduceSum", "Squeeze"]),
        pytest.param("y = ReduceSum<keepdims = 0, noop_with_empty_axes = 1>(x)", "float[?,?,?,?]", 13, ["ReduceSum"], marks=pytest.mark.newest),
    ],
)  # fmt: skip
def test_reduced_axes_are_kept_and_squeezed(body, y, opset, ops):
    source = parse(body, y=y, opset=opset)
    result = respell(source, SQUEEZES)
    assert [node.op_type for node in result.model.graph.node] == ops
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


READS = Backend("keen-1", limits=(Limit(frozenset(("", op) for op in ("GRU", "LSTM", "RNN")), read=("Y",)),))
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def recurrent(op, direction, outputs, read, opset=13, lengths=False):
    """A recurrent node of 5 steps, of which some outputs are read."""
    count, random = 2 if direction == "bidirectional" else 1, np.random.default_rng(1)
    sizes = {"w": [count, GATES[op] * 3, 2], "r": [count, GATES[op] * 3, 3]}
    values = {name: f"float{size} {name} = {{{', '.join(map(str, random.standard_normal(np.prod(size))))}}}" for name, size in sizes.items()}  # fmt: skip
    held = ", ".join([*values.values(), "int32[1] l = {3}"])
    given = "x, w, r, , l" if lengths else "x, w, r"
    nodes = f'{outputs} = {op} <hidden_size = 3, direction = "{direction}"> ({given}) '
    nodes += f"z = Concat <axis = 0> ({read})" if "," in read else f"z = Relu({read})"
    rank = "?,?,?,?" if read == "y" else "?,?,?"
    text = (
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[5,1,2] x) => (float[{rank}] z) <{held}> {{ {nodes} }}'
    )
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "outputs"), [("GRU", '"", h'), ("GRU", "y, h"), ("LSTM", '"", h'), ("LSTM", "y, h, c"), ("RNN", "y, h")]
)
@pytest.mark.parametrize("opset", [9, 13])
def test_the_last_state_is_taken_from_all_states(op, outputs, direction, opset):
    source = recurrent(op, direction, outputs, "h", opset)
    result = respell(source, READS)
    onnx.checker.check_model(result.model, full_check=True)
    assert {node.op_type for node in result.model.graph.node} >= {op, "Gather"}
    assert len(next(node for node in result.model.graph.node if node.op_type == op).output) == 1
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


def test_states_get_a_name_beside_the_state_of_a_cell():
    source = recurrent("LSTM", "forward", '"", h, c', "h, c")
    result = respell(source, READS)
    assert [node.op_type for node in result.model.graph.node] == ["LSTM", "Concat"]
    assert all(result.model.graph.node[0].output)
    np.testing.assert_array_equal(run(result.model), run(source), strict=True)


@pytest.mark.parametrize(
    ("outputs", "read", "lengths"), [("y, h", "h", True), ("y, h", "y", False), ("y, h, c", "h, c", False), ("y, h", "h, y", False)]
)  # fmt: skip
def test_states_that_are_read_stay(outputs, read, lengths):
    if read == "h, y":
        source = recurrent("GRU", "forward", outputs, "h", lengths=lengths)
        source.graph.output.add().name = "y"
    else:
        source = recurrent("LSTM" if "c" in outputs else "GRU", "forward", outputs, read, lengths=lengths)
    assert not respell(source, READS).changes


FORWARD = Backend("onward-1", limits=(Limit(frozenset(("", op) for op in GATES), attribute="direction", takes=("forward",)),))  # fmt: skip


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("read", ["y", "h"])
@pytest.mark.parametrize(("op", "outputs"), [("GRU", "y, h"), ("LSTM", "y, h, c"), ("RNN", "y, h")])
@pytest.mark.parametrize("state", [False, True])
def test_each_direction_is_computed_forward(op, outputs, read, direction, state):
    source = recurrent(op, direction, outputs, read)
    if state:
        count = 2 if direction == "bidirectional" else 1
        tensor = onnx.numpy_helper.from_array(np.linspace(-1, 1, count * 3, dtype=np.float32).reshape(count, 1, 3), "s")
        source.graph.initializer.append(tensor)
        source.graph.node[0].input.extend(["", "", "s"])
    if op == "RNN":
        source.graph.node[0].attribute.add(name="activations", type=8, strings=[b"Tanh", b"Relu"][: 1 + (direction == "bidirectional")])  # fmt: skip
    result = respell(source, FORWARD)
    onnx.checker.check_model(result.model, full_check=True)
    turned = [node for node in result.model.graph.node if node.op_type == op]
    assert len(turned) == (2 if direction == "bidirectional" else 1)
    assert not any(attribute.name == "direction" for node in turned for attribute in node.attribute)
    found, expected = run(result.model), run(source)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_directions_with_lengths_stay():
    assert not respell(recurrent("GRU", "reverse", "y, h", "y", lengths=True), FORWARD).changes


H = "z = Constant <value_float = 0.0> () k = Constant <value_float = 3.0> () q = Constant <value_float = 6.0> () "
H += "a = Add(x, k) c = Clip(a, z, q) "


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(x) m = Mul(x, s) y = Add(s, m)",
        "s = Sigmoid(x) m = Mul(s, x) r = Relu(s) y = Sub(r, m)",
        "a = Sigmoid(x) m = Mul(x, a) s = Sigmoid(x) y = Add(s, m)",  # optimizing for a compiler joins the two
        H + "s = Div(c, q) m = Mul(x, s) y = Add(s, m)",
        H + "s = Div(c, q) m = Mul(x, s) y = Add(c, m)",
    ],
)
def test_a_product_with_a_shared_factor_gets_its_own(body):
    source = parse(body)
    result = Goal(backend=find("rknn")).run(source)
    makers = {node.output[0]: node for node in result.model.graph.node}
    read = Counter(name for node in result.model.graph.node for name in node.input)
    (product,) = (node for node in result.model.graph.node if node.op_type == "Mul")
    (value,) = set(product.input) - {"x"}
    steps = 0
    while value != "x":
        assert read[value] == 1
        value, steps = makers[value].input[0], steps + 1
    assert steps == (1 if "Sigmoid" in body else 3)
    np.testing.assert_array_equal(run(result.model), run(source))


@pytest.mark.parametrize(
    "body",
    [
        "s = Sigmoid(x) y = Mul(x, s)",
        "r = Relu(x) s = Sigmoid(r) m = Mul(x, s) y = Add(s, m)",  # another input than the Sigmoid's
        "s = Tanh(x) m = Mul(x, s) y = Add(s, m)",
        "t = Tanh(x) s = Sigmoid(t) m = Mul(x, s) y = Add(s, m)",
    ],
)
def test_other_products_stay(body):
    source = parse(body)
    assert respell(source, find("rknn")).model is source


def scan(attributes, read="y", opset=18, state="3"):
    """A Scan of one state and one sequence; the state is a vector of `state` elements."""
    body = f"b (float[{state}] s, float[{state}] a) => (float[{state}] t, float[{state}] o)"
    body += "{ h = Mul(s, s) k = Sin(h) t = Add(k, a) o = Neg(t) }"
    return f"""
        c = Constant <value_floats = [0.5, 0.25, -1.0]> ()
        e, v = Scan <num_scan_inputs = 1 {attributes}, body = {body}> (c, x) y = Identity({read})
    """


@pytest.mark.parametrize(
    ("attributes", "x", "y"),
    [
        (", scan_input_directions = [1]", "4,3", "4,3"),
        (", scan_output_directions = [1]", "4,3", "4,3"),
        (", scan_input_directions = [1], scan_output_directions = [1]", "4,3", "4,3"),
        (", scan_input_axes = [1]", "3,4", "4,3"),
        (", scan_input_axes = [-1], scan_input_directions = [1]", "3,4", "4,3"),
        (", scan_output_axes = [1]", "4,3", "3,4"),
        (", scan_output_axes = [-1], scan_output_directions = [1]", "4,3", "3,4"),
    ],
)
def test_a_scan_runs_forward_along_first_axes_for_iree(attributes, x, y):
    source = parse(scan(attributes, "v"), x=f"float[{x}]", y=f"float[{y}]")
    result = Goal(backend=find("iree")).run(source)
    (found,) = (node for node in result.model.graph.node if node.op_type == "Scan")
    assert {attribute.name for attribute in found.attribute} == {"body", "num_scan_inputs"}
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(result.model), run(source))


def test_the_state_of_a_turned_scan_stays_where_it_is():
    source = parse(scan(", scan_input_directions = [1]", "e"), x="float[4,3]", y="float[3]")
    result = Goal(backend=find("iree")).run(source)
    assert [node.op_type for node in result.model.graph.node][:2] == ["Slice", "Scan"]
    np.testing.assert_array_equal(run(result.model), run(source))


@pytest.mark.parametrize(("length", "attributes"), [("n", ""), ("n", ", scan_input_directions = [1]")])
def test_iree_refuses_a_scan_of_open_length(length, attributes):
    result = Goal(backend=find("iree")).run(
        parse(scan(attributes, "v"), x=f"float[{length},3]", y=f"float[{length},3]")
    )
    assert result.model is None
    assert "--fix-shape" in str(result.refusals[0])


@pytest.mark.long
def test_a_turned_scan_in_a_branch_is_unrolled_for_iree():
    branch = scan(", scan_input_directions = [1]", "v").replace("y = Identity(v)", "u = Identity(v)")
    body = f"""
        a = Constant <value_ints = [0, 1]> () r = ReduceMax <keepdims = 0> (x) z = Constant <value_float = 0.0> ()
        l = Less(r, z) y = If(l) <then_branch = t () => (float[4,3] u) {{ {branch} }},
        else_branch = f () => (float[4,3] w) {{ w = Neg(x) }}>
    """
    source = parse(body, x="float[4,3]", y="float[4,3]")
    result = Goal(backend=find("iree")).run(source)
    assert "Scan" not in {node.op_type for body in bodies(result.model) for node in body.node}
    np.testing.assert_allclose(run(result.model), run(source), rtol=1e-6)


@pytest.mark.parametrize(("op", "opset", "oldest"), [("Softsign", 15, 22), ("Ceil", 12, 13), ("Floor", 12, 13)])
def test_iree_gets_no_older_version_of_an_operator_than_it_reads(op, opset, oldest):
    source = parse(f"y = {op}(x)", opset=opset)
    result = Goal(backend=find("iree")).run(source)
    called = [node.op_type for node in result.model.graph.node]
    assert op not in called or result.model.opset_import[0].version >= oldest
    np.testing.assert_allclose(run(result.model), run(source), rtol=1e-6)


def backend(*limits):
    return Backend("forms-1", limits=limits)


GATHERS = backend(Limit(frozenset({("", "Gather")}), attribute="indices", most=1))


@pytest.mark.parametrize(
    ("held", "axis", "slices"),
    [
        ("int64[2] {3, 0}", 2, 2),
        ("int64[5] {2, 3, 4, 0, 1}", -2, 2),
        ("int64[3] {-1, -7, -6}", 2, 2),
        ("int64[2] {1, 1}", 1, 2),
        ("int32[3] {4, 5, 6}", 2, 1),
        ("int64[2,3] {0, 1, 2, 5, 4, 3}", 3, 4),
        ("int64[2,1] {1, 2}", 3, 1),
    ],
)
@pytest.mark.parametrize("opset", [11, 18])
def test_a_gather_of_known_indices_is_slices(held, axis, slices, opset):
    body = f"i = Constant<value = {held}>() y = Gather<axis = {axis}>(x, i)"
    source = parse(body, y=f"float[{'?,' * (4 if ',' in held.split(']')[0] else 3)}?]", opset=opset)
    made = respell(source, GATHERS).model
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node].count("Slice") == slices
    assert "Gather" not in [node.op_type for node in made.graph.node]
    np.testing.assert_array_equal(run(made), run(source), strict=True)


@pytest.mark.parametrize(
    ("body", "x", "y"),
    [
        ("i = Constant<value = int64[1] {1}>() y = Gather<axis = 1>(x, i)", "float[2,3]", "float[?,?]"),
        ("i = Constant<value = int64[2] {1, 0}>() y = Gather<axis = 1>(x, i)", "float[2,n]", "float[?,?]"),
        ("a = Relu(x) f = Cast<to = 7>(a) y = Gather(x, f)", "float[2]", "float[?]"),
        (
            "i = Constant<value = int64[2,2] {1, 0, 2, 3}>() y = Gather<axis = 1>(x, i)",
            "float[2,5,0]",
            "float[?,?,?,?]",
        ),
        ("i = Constant<value = int64[2] {1, 0}>() y = Gather(x, i)", "float[0,5]", "float[?,?]"),
    ],
)
def test_other_gathers_stay(body, x, y):
    source = parse(body, x=x, y=y)
    assert respell(source, GATHERS).model is source


@pytest.mark.parametrize("op", ["Add", "Div", "Mul", "Sub"])
@pytest.mark.parametrize("order", ["x, c", "c, x"])
def test_ncnn_gets_a_mask_without_the_axis_of_the_batch(op, order):
    source = parse(f"c = Constant<value = float[2,1,2] {{1, 3, 1, 3}}>() y = {op}({order})", "float[2,3,2]", "float[?,?,?]")  # fmt: skip
    made = Goal(backend=find("ncnn")).run(source).model
    assert [list(tensor.dims) for tensor in made.graph.initializer] == [[1, 2]]
    np.testing.assert_array_equal(run(made), run(source), strict=True)


@pytest.mark.newest
def test_ncnn_gets_such_a_mask_of_an_operator_that_is_replaced():
    mask = "c = Constant<value = float[2,1,1,3] {0, 1, 2, 0, 1, 2}>() y = Attention(x, x, x, c)"
    source = parse(mask, "float[2,2,1,4]", opset=23)
    source.graph.node[1].input[1:3] = ["k", "k"]
    source.graph.input.append(onnx.helper.make_tensor_value_info("k", 1, [2, 2, 3, 4]))
    made = Goal(backend=find("ncnn")).run(source).model
    assert "Attention" not in [node.op_type for node in made.graph.node]
    assert [1, 1, 3] in [list(tensor.dims) for tensor in made.graph.initializer]
    np.testing.assert_allclose(run(made), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "x", "y"),
    [
        ("c = Constant<value = float[2,1,2] {1, 3, 1, 4}>() y = Add(x, c)", "float[2,3,2]", "float[?,?,?]"),
        ("c = Constant<value = float[2,1,2] {1, 3, 1, 3}>() y = Add(x, c)", "float[1,3,2]", "float[?,?,?]"),
        ("c = Constant<value = float[2,1,2] {1, 3, 1, 3}>() y = Add(x, c)", "float[3,2]", "float[?,?,?]"),
        ("c = Constant<value = float[2] {1, 1}>() y = Add(x, c)", "float[2]", "float[?]"),
        ("c = Constant<value = float[2,1] {1, 1}>() y = Add(c, c)", "float[2]", "float[?,?]"),
    ],
)
def test_other_constants_keep_their_first_axis(body, x, y):
    source = parse(body, x, y)
    assert respell(source, find("ncnn")).model is source


def test_ncnn_gets_embeddings_of_a_vector_of_indices():
    source = parse(
        "w = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>() i = Cast<to = 7>(x) y = Gather(w, i)", "float[1,2,2]"
    )
    source.graph.node[-2].CopyFrom(onnx.helper.make_node("ArgMax", ["x"], ["i"], axis=3, keepdims=0))
    source.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 3
    made = respell(source, find("ncnn")).model
    assert [node.op_type for node in made.graph.node][-3:] == ["Reshape", "Gather", "Reshape"]
    onnx.checker.check_model(made, full_check=True)
    np.testing.assert_array_equal(run(made), run(source), strict=True)


def test_ncnn_gets_no_embeddings_of_three_axes_and_open_sizes():
    source = parse(
        "w = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>() i = Cast<to = 7>(x) y = Gather(w, i)", "float[n,2,2]"
    )
    result = Goal(backend=find("ncnn")).run(source)
    assert result.model is None
    assert "has rank 3; supported: 0 or 1 or 2" in str(result.refusals[0])


@pytest.mark.parametrize(("data", "axis"), [("w", 0), ("w", 1), ("x", 0)])
def test_the_default_axis_of_an_embedding_is_left_out(data, axis):
    body = "w = Constant<value = float[3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}>() i = Constant<value = int64[1] {1}>() a = Relu(x) "
    body += f"s = Shape(a) r = Gather<axis = 0>(s, i) z = Sub(r, i) y = Gather<axis = {axis}>({data}, z)"
    source = parse(body, x="float[3,3]", y="float[?,?]")
    made = respell(source, backend(Limit(frozenset({("", "Gather")}), unused=("axis",)))).model
    assert bool(made.graph.node[-1].attribute) == (data == "x" or axis == 1)
    onnx.checker.check_model(made, full_check=True)
    np.testing.assert_array_equal(run(made), run(source), strict=True)


POWERS = backend(Limit(frozenset({("", "Pow")}), attribute="Y", takes=(2, 0.5)))


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("kind", ["float", "int64"])
def test_a_power_is_products(count, kind):
    source = parse(f"c = Constant<value = {kind} {{{count}}}>() y = Pow(x, c)")
    made = respell(source, POWERS).model
    assert [node.op_type for node in made.graph.node] == ["Mul", "Mul"]
    np.testing.assert_allclose(run(made), run(source), rtol=1e-6)


@pytest.mark.parametrize("held", ["float {2}", "float {0.5}", "float {-1}", "float[6] {3, 3, 3, 3, 3, 4}"])
def test_other_powers_stay(held):
    source = parse(f"c = Constant<value = {held}>() y = Pow(x, c)")
    assert respell(source, POWERS).model is source


@pytest.mark.parametrize(
    ("x", "to"),
    [
        ("float[2,2,1,3,4]", [2, 2, 3, 3, 4]),
        ("float[1,2,1,3,1]", [5, 2, 2, 3, 4]),
        ("float[2,1,3,1,1]", [3, 1, 1]),
        ("float[1,1,2,1,3]", [2, 3, 1, 2, 4, 3]),
    ],
)
def test_an_expand_is_a_concat_of_copies(x, to):
    limit = Limit(frozenset({("", "Expand")}), ranks=(0, 1, 2, 3, 4))
    rank = max(5, len(to))
    source = parse(f"s = Constant<value_ints = {to}>() y = Expand(x, s)", x=x, y=f"float[{'?,' * (rank - 1)}?]")
    made = respell(source, backend(limit)).model
    onnx.checker.check_model(made, full_check=True)
    assert "Expand" not in [node.op_type for node in made.graph.node]
    np.testing.assert_array_equal(run(made), run(source), strict=True)


@pytest.mark.parametrize(
    ("x", "perm", "fewer"),
    [
        ("float[2,6,4,1,5]", [0, 2, 1, 3, 4], [0, 2, 1, 3]),
        ("float[2,1,6,4,5]", [0, 3, 1, 2, 4], [0, 2, 1, 3]),
        ("float[2,6,1,4,5]", [0, 3, 2, 4, 1], [0, 2, 1]),
        ("float[2,3,2,4,5]", [0, 2, 1, 3, 4], [0, 2, 1, 3]),
        ("float[2,3,2,4,5]", [0, 1, 2, 3, 4], [0]),
        ("float[2,3,4,5,6]", None, [4, 3, 2, 1, 0]),
        ("float[1,1,3,1,1]", [4, 3, 1, 0, 2], [0]),
        ("float[1,1,1,1,1]", [4, 3, 1, 0, 2], []),
    ],
)
def test_a_transpose_has_fewer_axes(x, perm, fewer):
    limit = Limit(frozenset({("", "Transpose")}), ranks=(0, 1, 2, 3, 4))
    given = f"<perm = {perm}>" if perm else ""
    source = parse(f"y = Transpose{given}(x)", x=x, y="float[?,?,?,?,?]")
    made = respell(source, backend(limit)).model
    onnx.checker.check_model(made, full_check=True)
    turned = next(node for node in made.graph.node if node.op_type == "Transpose")
    assert list(turned.attribute[0].ints) == fewer
    np.testing.assert_array_equal(run(made), run(source), strict=True)


@pytest.mark.parametrize("opset", [4, 7, 8])
def test_an_old_transpose_has_constants_that_old_opsets_take(opset):
    """Reshape has an input of sizes from opset 5 on, and Constant holds integers from opset 9 on."""
    source = parse("y = Transpose<perm = [0, 1, 3, 2]>(x)", opset=opset)
    made = respell(source, backend(Limit(frozenset({("", "Transpose")}), ranks=(2,)))).model
    assert (made is source) == (opset < 5)
    onnx.checker.check_model(made, full_check=True)
    np.testing.assert_array_equal(run(made), run(source), strict=True)


@pytest.mark.parametrize("part", ["y = Gather(t, i)", "e = Add(i, i) u = Slice(t, i, e, z) y = Squeeze(u, z)"])
def test_a_transpose_that_is_cut_into_parts_stays(part):
    body = "t = Transpose<perm = [2, 0, 3, 1, 4]>(x) i = Constant<value = int64[1] {1}>() "
    body += f"z = Constant<value = int64[1] {{0}}>() {part}"
    source = parse(body, x="float[1,6,3,2,4]")
    limit = Limit(frozenset({("", "Transpose")}), ranks=(0, 1, 2, 3, 4))
    assert respell(source, backend(limit)).model is source


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("i = Constant<value = int64[2] {1, 0}>() y = Gather<axis = 1>(x, i)", ["Slice", "Slice", "Concat"]),
        ("c = Constant<value = float {3}>() y = Pow(x, c)", ["Mul", "Mul"]),
        ("y = Neg(x)", ["Mul"]),
        ("y = ReduceMean<axes = [2, 3]>(x)", ["ReduceMean", "ReduceMean"]),
        ("y = ReduceL2<axes = [3]>(x)", ["Mul", "ReduceSum", "Sqrt"]),
    ],
)
def test_what_ncnn_computes_otherwise_is_written_in_another_form(body, left):
    source = parse(body, opset=13)
    made = Goal(backend=find("ncnn")).run(source).model
    assert [node.op_type for node in made.graph.node if node.op_type != "Constant"] == left
    np.testing.assert_allclose(run(made), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "attributes"), [("float[2,3,4]", "<axis = 2>"), ("float[2,3,4]", "<axis = -1>"), ("float[3]", "")]
)
@pytest.mark.parametrize("opset", [11, 18])
def test_a_flatten_is_a_reshape_for_onnx2torch(x, attributes, opset):
    source = parse(f"y = Flatten{attributes}(x)", x=x, y="float[?,?]", opset=opset)
    made = Goal(backend=find("onnx2torch")).run(source).model
    assert [node.op_type for node in made.graph.node] == ["Reshape"]
    np.testing.assert_array_equal(run(made), run(source), strict=True)


def test_what_has_no_other_form_is_refused_for_ncnn():
    source = parse("c = Constant<value = float {5}>() y = Pow(x, c)", opset=13)
    result = Goal(backend=find("ncnn")).run(source)
    assert result.model is None
    assert [refusal.op for refusal in result.refusals] == ["Pow"]


def cell(op, attributes, lengths, peepholes):
    """A recurrent node of four steps of two sequences."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    weights = ", ".join(["0.5, -0.75, 1.0"] * 2 * gates)
    states = ", ".join(["0.25, -0.5"] * 2 * gates)
    return f"""
        a = Constant <value_floats = [{weights}]> () s = Constant <value_ints = [1, {2 * gates}, 3]> () w = Reshape(a, s)
        b = Constant <value_floats = [{states}]> () t = Constant <value_ints = [1, {2 * gates}, 2]> () r = Reshape(b, t)
        l = Constant <value = int32[2] {{2, 4}}> () p = Constant <value = float[1,6] {{1, -1, 2, 0.5, 1, -2}}> ()
        y = {op} <hidden_size = 2 {attributes}> (x, w, r{", ," if lengths or peepholes else ""}
            {"l" if lengths else ""}{", , , p" if peepholes else ""})
    """


@pytest.mark.parametrize(
    ("op", "attributes", "lengths", "peepholes"),
    [
        pytest.param("LSTM", "", True, False, marks=pytest.mark.long),
        pytest.param("GRU", "", True, False, marks=pytest.mark.long),
        ("RNN", "", True, False),
        ("LSTM", "", False, True),
        ("RNN", ", clip = 0.25", False, False),
        ("LSTM", ", input_forget = 1", False, False),
        ("LSTM", ', activations = ["HardSigmoid", "Relu", "Tanh"]', False, False),
        ("GRU", ', activations = ["HardSigmoid", "Relu"]', False, False),
    ],
)
def test_iree_gets_no_recurrent_node_that_it_computes_otherwise(op, attributes, lengths, peepholes):
    source = parse(cell(op, attributes, lengths, peepholes), x="float[4,2,3]", y="float[4,1,2,2]", opset=14)
    result = Goal(backend=find("iree")).run(source)
    assert op not in [node.op_type for node in result.model.graph.node]
    np.testing.assert_allclose(run(result.model), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_iree_refuses_lengths_where_nothing_can_replace_them():
    source = parse(cell("LSTM", "", True, False), x="float[n,2,3]", y="float[n,1,2,2]", opset=14)
    assert Goal(backend=find("iree")).run(source).model is None


@pytest.mark.parametrize(
    ("op", "attributes", "lengths", "left"),
    [
        ("LSTM", "", False, ["LSTM"]),
        ("LSTM", ', direction = "reverse"', False, ["Gather", "LSTM", "Gather"]),
        ("GRU", ', direction = "reverse", linear_before_reset = 1', False, ["Gather", "GRU", "Gather"]),
        ("GRU", ", linear_before_reset = 1", False, ["GRU"]),
        ("GRU", "", False, None),
        ("GRU", ", linear_before_reset = 1, clip = 0.25", False, None),
        ("GRU", ', linear_before_reset = 1, activations = ["HardSigmoid", "Relu"]', False, None),
        ("GRU", ", linear_before_reset = 1", True, None),
        ("LSTM", "", True, None),
        ("LSTM", ", input_forget = 1", False, None),
        ("RNN", ', activations = ["Relu"]', False, None),
        ("RNN", "", True, None),
    ],
)
def test_mnn_gets_recurrent_nodes_that_it_computes_rightly(op, attributes, lengths, left):
    source = parse(cell(op, attributes, lengths, False), x="float[4,2,3]", y="float[4,1,2,2]", opset=14)
    result = Goal(backend=find("mnn")).run(source)
    called = [node.op_type for node in result.model.graph.node]
    assert called == left if left else op not in called
    assert (
        op != "LSTM"
        or not left
        or len(list(filter(None, next(n for n in result.model.graph.node if n.op_type == op).output))) == 3
    )
    np.testing.assert_allclose(run(result.model), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes", "lengths", "peepholes"),
    [("LSTM", "", True, False), ("RNN", "", True, False), ("LSTM", "", False, True), ("LSTM", ", input_forget = 1", False, False)],
)  # fmt: skip
def test_rknn_gets_no_recurrent_node_that_it_refuses(op, attributes, lengths, peepholes):
    source = parse(cell(op, attributes, lengths, peepholes), x="float[4,2,3]", y="float[4,1,2,2]", opset=14)
    made = Goal(backend=find("rknn")).run(source).model
    assert {op, "Loop", "Scan"}.isdisjoint(node.op_type for node in made.graph.node)
    np.testing.assert_allclose(run(made), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes", "lengths"),
    [
        ("GRU", "", False),
        ("GRU", ", linear_before_reset = 1", True),
        ("LSTM", "", True),
        ("LSTM", ", clip = 0.25", False),
        ("LSTM", ", input_forget = 1", False),
        ("RNN", ', activations = ["Relu"]', False),
    ],
)
def test_ncnn_gets_no_recurrent_node_that_it_computes_otherwise(op, attributes, lengths):
    source = parse(cell(op, attributes, lengths, False), x="float[4,2,3]", y="float[4,1,2,2]", opset=14)
    assert op in [refusal.op for refusal in obstacles(source, find("ncnn"))]
    made = Goal(backend=find("ncnn")).run(source).model
    assert made is None or op not in [node.op_type for node in made.graph.node]


@pytest.mark.parametrize("target", ["iree", "mnn", "ncnn", "rknn"])
@pytest.mark.parametrize("op", ["LSTM", "RNN"])
@pytest.mark.parametrize("steps", [3, 4])
def test_lengths_are_left_out_where_they_are_all_of_the_length_of_the_input(target, op, steps):
    body = cell(op, "", True, False).replace("{2, 4}", f"{{{steps}, {steps}}}")
    source = parse(body, x="float[4,2,3]", y="float[4,1,2,2]", opset=14)
    made = Goal(backend=find(target)).run(source).model
    assert (op in [node.op_type for node in made.graph.node]) == (steps == 4)
    np.testing.assert_allclose(run(made), run(source), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("data", "refused"), [("x", ["Gather"]), ("w", [])])
def test_a_value_of_an_input_matters_where_the_call_is_not_constant(data, refused):
    body = "w = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() i = Constant<value = int64[2] {1, 0}>() "
    source = parse(f"{body} g = Gather({data}, i) y = Mul(g, x)", x="float[2,3]", y="float[?,?]")
    assert [refusal.op for refusal in obstacles(source, GATHERS)] == refused
