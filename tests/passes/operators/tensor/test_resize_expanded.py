"""Resize on request: matrix products where sizes are known, judged by onnxruntime."""

import itertools

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from opshift.passes.conversion import convert

from tests.passes.operators.test_on_request import inlined
from tests.support import check_values, model

X = np.random.default_rng(5).normal(size=(1, 2, 4, 6)).astype(np.float32)
MODES = ["half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel"]


def resize(attributes, *, scales="", sizes="", dims="1,2,4,6", opset=19, kind="float"):
    constants = ", ".join(
        filter(None, [scales and f"float[4] s = {{{scales}}}", sizes and f"int64[4] n = {{{sizes}}}"])
    )
    operands = "x, , s" if scales else "x, , , n"
    return model(
        f"y = Resize<{attributes}>({operands})",
        opset,
        inputs=f"{kind}[{dims}] x",
        outputs=f"{kind}[A,B,C,D] y",
        constants=constants,
    )


def products(after):
    return [node.op_type for node in after.graph.node]


@pytest.mark.parametrize(("mode", "coordinates", "sizes"), [*itertools.product(["linear", "cubic"], MODES, ["1,2,8,9", "1,2,3,4", "1,2,4,9"])])  # fmt: skip
def test_one_product_for_each_axis(mode, coordinates, sizes):
    source = resize(f'mode = "{mode}", coordinate_transformation_mode = "{coordinates}"', sizes=sizes)
    after = inlined(source, "Resize")
    assert products(after) == ["MatMul"] * (2 - (sizes == "1,2,4,9"))
    check_values(source, after, {"x": X}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scales", ["1.0,1.0,2.0,1.5", "1.0,1.0,0.5,0.5", "1.0,2.0,1.0,1.0", "2.0,2.0,2.0,2.0"])
@pytest.mark.parametrize("attributes", ['mode = "linear"', 'mode = "linear", antialias = 1', 'mode = "cubic", antialias = 1', 'mode = "cubic", exclude_outside = 1'])  # fmt: skip
def test_scales_and_other_axes(scales, attributes):
    source = resize(attributes, scales=scales)
    after = inlined(source, "Resize")
    assert set(products(after)) <= {"MatMul", "Transpose"}
    if scales.startswith("1.0,1.0"):  # onnxruntime resizes no other axes than the last two in these modes
        check_values(source, after, {"x": X}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 13, 18, 22])
def test_at_every_opset(opset):
    sizes = "int64[4] n = {1, 2, 8, 9}"
    source = model(
        'y = Resize<mode = "linear">(x, r, e, n)', opset, inputs="float[1,2,4,6] x", outputs="float[1,2,8,9] y",
        constants=f"float[8] r = {{0, 0, 0, 0, 1, 1, 1, 1}}, float[0] e = {{}}, {sizes}",
    )  # fmt: skip
    after = inlined(source, "Resize")
    assert products(after) == ["MatMul", "MatMul"]
    check_values(source, after, {"x": X}, rtol=1e-5, atol=1e-5)


def test_float16_is_summed_in_float32():
    after = inlined(resize('mode = "linear"', sizes="1,2,8,9", kind="float16"), "Resize")
    assert products(after) == ["Cast", "MatMul", "MatMul", "Cast"]


@pytest.mark.parametrize(("dims", "sizes"), [("1,2,4,6", "1,2,300,300"), ("N,2,H,W", "1,2,8,9")])
def test_what_is_large_or_unknown_is_gathered(dims, sizes):
    dims = dims.replace("4,6", "300,300") if sizes.endswith("300") else dims
    x = np.random.default_rng(5).normal(size=(1, 2, 300, 300) if "300" in dims else X.shape).astype(np.float32)
    source = resize('mode = "linear", coordinate_transformation_mode = "asymmetric"', sizes=sizes.replace("300,300", "310,290"), dims=dims)  # fmt: skip
    after = inlined(source, "Resize")
    assert {"Gather", "Mul", "Add"} <= set(products(after))
    check_values(source, after, {"x": x}, rtol=1e-4, atol=1e-4)


def test_the_nearest_element_is_gathered():
    source = resize('mode = "nearest"', sizes="1,2,8,9")
    after = inlined(source, "Resize")
    assert products(after) == ["Gather", "Gather"]
    check_values(source, after, {"x": X}, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("dims", "scales"), [("0,0,1,1", "1,1,0.7,3"), ("1,2,4,6", "1,1,0.1,2"), ("1,2,4,6", "0.5,1,2,2")]
)
@pytest.mark.parametrize("antialias", [0, 1])
def test_nothing_is_multiplied_where_nothing_is(dims, scales, antialias):
    source = resize(f'mode="linear", antialias={antialias}', scales=scales, dims=dims)
    after = inlined(source, "Resize")
    check_values(source, after, {"x": np.zeros([int(n) for n in dims.split(",")], np.float32)}, rtol=0, atol=0)


def test_an_antialiased_size_of_nothing():
    source = resize('mode="linear", antialias=1', sizes="1,0,4,6")
    assert "MatMul" not in products(inlined(source, "Resize"))


@pytest.mark.parametrize(("mode", "rtol"), [("linear", 1e-12), ("cubic", 1e-4)])  # onnx.reference weighs in float32
@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
@pytest.mark.parametrize("bound", [True, False])
def test_float64_is_placed_in_float64(bound, policy, mode, rtol):
    """No runtime has a kernel that would place it in float32."""
    how = f'mode = "{mode}", keep_aspect_ratio_policy = "{policy}"'
    io = {"inputs": "double[1,1,4,6] x" + ("" if bound else ", int64[4] n"), "outputs": "double[A,B,C,D] y"}
    held = {"constants": "int64[4] n = {1, 1, 3, 5}"} if bound else {}
    source = model(f"y = Resize<{how}, axes = [0,1,2,3]>(x, , , n)", 19, **io, **held)
    feeds = {"x": X[:, :1].astype(np.float64)} | ({} if bound else {"n": np.array([1, 1, 3, 5])})
    before, after = (ReferenceEvaluator(m).run(None, feeds)[0] for m in (source, inlined(source, "Resize")))
    np.testing.assert_allclose(after, before, rtol=rtol, atol=0)


@pytest.mark.parametrize("target", [17, None])
@pytest.mark.parametrize(("dims", "sizes"), [("6,3", "5,3"), ("3,6", "8,5"), ("6,15", "5,20")])
def test_a_ratio_that_leads_halfway_between_two_sizes(dims, sizes, target):
    how = 'mode = "linear", keep_aspect_ratio_policy = "not_larger", axes = [2, 3]'
    source = model(
        f"y = Resize<{how}>(x, , , n)", 18, inputs=f"float[1,1,{dims}] x", outputs="float[A,B,C,D] y",
        constants=f"int64[2] n = {{{sizes}}}",
    )  # fmt: skip
    after = convert.attempt(source, {"": target}).model if target else inlined(source, "Resize")
    x = np.random.default_rng(5).normal(size=[1, 1, *map(int, dims.split(","))]).astype(np.float32)
    check_values(source, after, {"x": x}, rtol=1e-5, atol=1e-5)


def test_a_ratio_whose_size_hangs_on_the_width_of_numbers():
    how = 'mode = "linear", keep_aspect_ratio_policy = "not_larger", axes = [2, 3]'
    source = model(
        f"y = Resize<{how}>(x, , , n)", 18, inputs="float[1,1,6,27] x", outputs="float[A,B,C,D] y",
        constants="int64[2] n = {7, 900}",
    )  # fmt: skip
    refused = convert.attempt(source, {"": 17})
    assert refused.model is None
    assert "depends on the width" in refused.refusals[0].why


def test_sizes_without_a_name_in_a_function():
    """What is known of the data there are the sizes that a caller gives, and nothing of the result."""
    before = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 15, "f" : 1]>
        g (float[1,2,4,6] x, int64[4] n, bool c) => (float[A,B,C,D] y) { y = f.F(x, n, c) }
        <domain: "f", opset_import: ["" : 15]> F (x, n, c) => (y) {
            y = If(c) <then_branch = t () => (float[1,2,8,9] u) { u = Resize(x, "", "", n) },
                else_branch = e () => (float[?,?,?,?] v) { v = Resize(x, "", "", n) }>
        }""")
    feeds = {"x": X, "n": np.array([1, 2, 8, 9]), "c": np.array(False)}
    check_values(before, inlined(before, "Resize"), feeds, rtol=0, atol=0)
