"""Definitions of OpenVINO's operators as functions that a standard file carries."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.inliner
import onnx.parser
import pytest
from onnx import TensorProto
from opshift.functions import OPENVINO
from opshift.passes.conversion.export import function_proto

from opshift.verification.engines import ENGINES, OnnxRuntime
from tests.functions.test_openvino import (
    FLOATS,
    IMPORT,
    INTEGERS,
    call,
    dtype_of,
    graph,
    inlined,
    normalize_l2,
    reduce_l1,
    run,
)
from tests.support import model, show

CALLS = [
    ("ReduceL1", {"keep_dims": 1}),
    ("NormalizeL2", {"eps": 1e-8, "eps_mode": "add"}),
    ("NormalizeL2", {"eps": 0.25, "eps_mode": "max"}),
]


def carrying(op, kind, opset, **attributes):
    """A file that calls an operator over run-time axes and brings its definition along."""
    source = graph(call(op, **attributes), kind, (2, 3), None, opset)
    elem_type = TensorProto.BFLOAT16 if kind == "bfloat16" else onnx.helper.np_dtype_to_tensor_dtype(dtype_of(kind))
    source.functions.append(function_proto(OPENVINO, op, elem_type, opset))
    source.ir_version = max(source.ir_version, 9)
    return source


@pytest.mark.parametrize(
    ("kind", "opset"),
    [
        *(("float", opset) for opset in range(15, 24)),
        *(pytest.param("float", opset, marks=pytest.mark.newest) for opset in range(24, 27)),
        ("double", 18),
        ("float16", 15),
        ("float16", 21),
        ("bfloat16", 18),
    ],
)
@pytest.mark.parametrize(("op", "attributes"), CALLS)
def test_a_standard_file_can_carry_the_definition(op, attributes, kind, opset):
    source = carrying(op, kind, opset, **attributes)
    assert not source.functions[0].metadata_props
    onnx.checker.check_model(source, full_check=True)
    x = np.array([[3, -4, 0], [0, 0.25, 300]]).astype(dtype_of(kind))
    engines = [OnnxRuntime] if kind == "bfloat16" else ENGINES  # onnx.reference has no Abs and no If of bfloat16
    for axes in ([1], [-1, 0], []):
        wide = x.astype(np.float64)
        expected = reduce_l1(wide, axes, 1) if op == "ReduceL1" else normalize_l2(wide, axes, **attributes)
        for engine in engines:
            (actual,) = engine(source).run({"x": x, "w": x.astype(np.float32), "a": np.array(axes, np.int64)})
            np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=FLOATS[kind], atol=1e-7)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_in_a_carried_definition(kind):
    x = np.array([[1, 5, 3], [100, 20, 0]]).astype(kind)
    source = carrying("ReduceL1", kind, 18, keep_dims=1)
    onnx.checker.check_model(source, full_check=True)
    for axes in ([1], []):
        for engine in ENGINES:
            (actual,) = engine(source).run({"x": x, "a": np.array(axes, np.int64)})
            np.testing.assert_array_equal(actual, reduce_l1(x, axes, 1), strict=True)


def test_keep_dims_is_false_by_default_in_a_carried_definition():
    source = graph(call("ReduceL1"), "float", (2, 3), [1], rank=1)
    source.functions.append(function_proto(OPENVINO, "ReduceL1", TensorProto.FLOAT, 18))
    source.ir_version = 9
    (y,) = OnnxRuntime(source).run({"x": np.array([[3, -4, 0], [0, 0.25, 300]], np.float32)})
    assert y.tolist() == [7, 300.25]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unknown_mode_fails_in_a_carried_definition(engine):
    source = carrying("NormalizeL2", "float", 18, eps=1e-8, eps_mode="mul")
    with pytest.raises(RuntimeError, match=r"out of (data )?bounds"):
        engine(source).run({"x": np.ones((2, 3), np.float32), "a": np.array([1])})


def test_a_carried_definition_is_inlined_as_if_it_were_our_own():
    for opset in (18, 13, 12):
        source = graph(call("NormalizeL2", eps=0.5, eps_mode="max"), "float", (2, 3), [1])
        alone = show(inlined(source, opset))
        source.functions.append(function_proto(OPENVINO, "NormalizeL2", TensorProto.FLOAT, 18))
        source.ir_version = 9
        assert show(inlined(source, opset)) == alone


def test_onnx_itself_inlines_a_carried_definition():
    for op, attributes in CALLS:
        source = onnx.inliner.inline_local_functions(carrying(op, "float16", 18, **attributes))
        assert not source.functions
        x = np.array([[3, -4, 0], [0, 0.25, 300]], np.float16)
        expected = reduce_l1(x, [1], 1) if op == "ReduceL1" else normalize_l2(x, [1], **attributes)
        np.testing.assert_allclose(run(source, x, [1]).astype(np.float64), expected, rtol=2**-10)


@pytest.mark.newest  # onnxruntime 1.23 takes no notice of overload
def test_two_element_types_are_told_apart_by_overload():
    source = model(
        f"y = {OPENVINO}.ReduceL1(x, a)\nz = {OPENVINO}.ReduceL1(w, a)",
        18,
        inputs="float[2,3] x, float16[2,3] w, int64[1] a",
        outputs="float[M] y, float16[M] z",
        domains=IMPORT,
    )
    for node, elem_type in zip(source.graph.node, (TensorProto.FLOAT, TensorProto.FLOAT16), strict=True):
        function = function_proto(OPENVINO, "ReduceL1", elem_type, 18)
        function.overload = node.overload = f"of_{elem_type}"
        source.functions.append(function)
    source.ir_version = 10
    onnx.checker.check_model(source, full_check=True)
    x = np.array([[3, -4, 0], [60000, 5000, 500]], np.float32)
    feeds = {"x": x, "w": x.astype(np.float16), "a": np.array([1])}
    for form in (source, inlined(source)):
        y, z = OnnxRuntime(form).run(feeds)
        assert y.tolist() == [7, 65500]
        assert z.tolist() == [7, 65504]


def test_what_has_no_function_is_an_error():
    with pytest.raises(ValueError, match="no definition for element type 9"):
        function_proto(OPENVINO, "ReduceL1", TensorProto.BOOL)
    with pytest.raises(ValueError, match="uses operators that opset 9 lacks"):
        function_proto(OPENVINO, "ReduceL1", TensorProto.FLOAT, 9)
