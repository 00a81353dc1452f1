"""Resize: where the elements of the result lie on the data."""

import itertools

import numpy as np
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests import pairs
from tests.passes.operators.tensor.images import DATA, IMAGE, scaled, sized
from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model, show


def resized(how, opset, target, constants, *, inputs="(x, , s)", rtol=1e-5, io=IMAGE, data=DATA):
    """Convert one Resize and compare the values in onnxruntime; returns the converted model."""
    source = model(f"y = Resize<{how}>{inputs}", opset, **io, constants=constants)
    result = convert.attempt(source, {"": target})
    assert result.model is not None, result.refusals
    check_values(source, result.model, {"x": data}, rtol=rtol, atol=rtol)
    return result


@pytest.mark.parametrize(
    ("mode", "scales", "ops"),
    [
        ("linear", (1, 1, 1.7, 0.6), ["Resize"]),
        ("nearest", (1, 1, 1.7, 2), ["Resize"]),
        ("nearest", (1, 1, 0.5, 0.6), ["Resize"]),
        ("nearest", (1, 1, 1.7, 0.6), ["Max", "Resize", "Min", "Resize"]),
    ],
)
@pytest.mark.parametrize("target", [11, 13, 19])
def test_the_old_placement_is_written_out_at_11(mode, scales, ops, target):
    source = model(f'y = Resize<mode="{mode}">(x, s)', 10, constants=scaled(*scales), **IMAGE)
    made = convert.attempt(source, {"": target}).model
    assert [n.op_type for n in made.graph.node] == ops
    assert "coordinate_transformation_mode=asymmetric" in show(made)
    check_values(source, made, {"x": DATA}, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("how", "scales"),
    [
        ('mode="linear", coordinate_transformation_mode="asymmetric"', (1, 1, 1.7, 0.6)),
        ('coordinate_transformation_mode="asymmetric", nearest_mode="floor"', (1, 1, 1.7, 2)),
        ('coordinate_transformation_mode="asymmetric", nearest_mode="ceil"', (1, 1, 0.6, 0.5)),
        ('nearest_mode="round_prefer_ceil"', (1, 1, 3, 2)),
        ('coordinate_transformation_mode="pytorch_half_pixel"', (1, 1, 4, 1)),
    ],
)
def test_what_resize_10_computes_stays_a_resize(how, scales):
    made = resized(how, 13, 10, scaled(*scales), rtol=0).model
    assert show(made) == show(made).replace("coordinate", "")
    assert [n.op_type for n in made.graph.node] == ["Resize"]


@pytest.mark.parametrize("sizes", [(7, 3), (2, 6), (11, 13), (4, 5)])
@pytest.mark.parametrize("nearest_mode", ["floor", "ceil"])
def test_sizes_become_scales_that_lead_to_them(sizes, nearest_mode):
    how = f'coordinate_transformation_mode="asymmetric", nearest_mode="{nearest_mode}"'
    io = {"inputs": "float[2,3,4,6] x", "outputs": "float[N,C,A,B] y"}
    resized(how, 13, 10, sized(2, 3, *sizes), inputs="(x, , , z)", io=io, rtol=0)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("sizes", [(7, 13), (3, 2), (1, 6)])
def test_any_other_placement_is_sampled(mode, coordinates, sizes):
    how = f'mode="{mode}", coordinate_transformation_mode="{coordinates}", nearest_mode="round_prefer_ceil"'
    io = {"inputs": "float[2,3,4,6] x", "outputs": "float[2,3,A,B] y"}
    result = resized(how, 13, 10, sized(2, 3, *sizes), inputs="(x, , , z)", io=io)
    if "Resize" not in show(result.model):
        assert result.grade == ("exact" if mode == "nearest" else "close")


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scales", [(1, 1, 2.5, 0.5), (1, 1, 0.75, 3)])
def test_cubic_coefficients_and_borders(scales, exclude):
    result = resized(f'mode="cubic", cubic_coeff_a=-0.5, exclude_outside={exclude}', 13, 10, scaled(*scales))
    assert result.grade == "close"
    assert "Resize" not in show(result.model)


def test_sizes_of_a_batch_of_any_size():
    body = """
    shape = Shape(x)
    batch = Gather(shape, two)
    z = Concat<axis=0>(batch, hw)
    y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , , z)
    """
    held = "int64[2] two = {0, 1}, int64[2] hw = {7, 9}"
    source = model(body, 13, constants=held, **IMAGE)
    made = convert.attempt(source, {"": 10}).model
    assert "Resize" not in show(made)
    check_values(source, made, {"x": DATA}, rtol=1e-5, atol=1e-5)


def test_a_region_of_interest_and_what_lies_beyond():
    how = 'mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0'
    roi = ", float[8] r = {0, 0, -0.25, 0.25, 1, 1, 1.25, 0.75}"
    io = {"inputs": "float[2,3,4,6] x", "outputs": "float[2,3,A,B] y"}
    for mode in ("linear", "nearest"):
        made = resized(how.replace("linear", mode), 13, 10, sized(2, 3, 5, 4) + roi, inputs="(x, r, , z)", io=io).model
        assert "Where" in show(made)


def test_scalings_by_a_lot_are_summed_up_in_rows():
    data = np.random.default_rng(1).normal(size=(2, 160, 3)).astype(np.float32)
    for axis, scales in ((1, (1, 0.03125, 1)), (1, (1, 0.03125, 0.5))):
        source = model(
            'y = Resize<mode="linear", antialias=1>(x, , s)', 18, constants=scaled(*scales),
            inputs="float[2,160,3] x", outputs="float[2,A,B] y",
        )  # fmt: skip
        made = convert.attempt(source, {"": 17}).model
        assert f"ReduceSum<keepdims=0>(t2, [{axis + 1}])" in show(made)
        check_values(source, made, {"x": data}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 0.6, 0.6), (1, 1, 1.7, 1.3), (1, 1, 0.25, 2)])
def test_corners_are_aligned_by_constant_scales_as_by_others(mode, scales):
    """As in onnx.reference and in the published tests: before the size is cut."""
    how = f'mode="{mode}", coordinate_transformation_mode="align_corners", nearest_mode="floor"'
    source = model(f"y = Resize<{how}>(x, , s)", 13, constants=scaled(*scales), **IMAGE)
    result = convert.attempt(source, {"": 10})
    cut = scales != (1, 1, 0.25, 2)
    assert result.grade == ("close" if cut or mode != "nearest" else "exact")
    assert any("before it is cut" in change.remark for change in result.changes) is cut
    expected = Reference(source).run({"x": DATA})[0]
    np.testing.assert_allclose(evaluate(result.model, {"x": DATA})[0], expected, rtol=1e-4, atol=1e-5)


def test_published_corners():
    """test_resize_downsample_scales_linear_align_corners of onnx"""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    how = 'mode="linear", coordinate_transformation_mode="align_corners"'
    io = {"inputs": "float[1,1,2,4] x", "outputs": "float[1,1,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , s)", 13, constants=scaled(1, 1, 0.6, 0.6), **io)
    made = convert.attempt(source, {"": 10}).model
    np.testing.assert_allclose(evaluate(made, {"x": x})[0], [[[[1.0, 3.142857]]]], rtol=1e-6)


def test_what_cannot_be_sampled_is_refused():
    nearest = "y = Resize<exclude_outside=1>(x, , s)"
    check_refused(nearest, 18, 10, "exclude_outside=1 with mode=nearest", constants=scaled(1, 1, 0.6, 2), **IMAGE)
    check_refused(
        'y = Upsample<mode="cubic">(x, s)', 9, 8, "mode=cubic", inputs="float[4] x, float[1] s", outputs="float[A] y"
    )


def test_resize_becomes_upsample_or_is_sampled_below_10():
    after = "y = Upsample<mode=linear>(x, [1.0, 1.0, 2.0, 1.5])"
    check('y = Resize<mode="linear">(x, s)', 10, after, 9, constants=scaled(1, 1, 2, 1.5), **IMAGE)
    for mode, grade in (("nearest", "exact"), ("linear", "close")):
        source = model(f'y = Resize<mode="{mode}">(x, s)', 10, constants=scaled(1, 1, 0.6, 1.5), **IMAGE)
        result = convert.attempt(source, {"": 9})
        assert result.grade == grade
        check_values(source, result.model, {"x": DATA}, rtol=1e-6, atol=1e-6)
    io = {**IMAGE, "inputs": "float[N,C,H,W] x"}
    source = model("y = Resize(x, s)", 10, constants=scaled(1, 1, 2, 0.5), **io)
    check_values(source, convert.attempt(source, {"": 9}).model, {"x": DATA}, rtol=0, atol=0)


@pytest.mark.parametrize("attribute", ["mode", "nearest_mode", "coordinate_transformation_mode"])
def test_unknown_words_are_refused(attribute):
    check_refused(
        f'y = Resize<{attribute}="x">(x, , s)', 13, 10, f"{attribute}=x", constants=scaled(1, 1, 2, 2), **IMAGE
    )


def test_integers_are_not_interpolated():
    io = {"inputs": "uint8[4] x", "outputs": "uint8[A] y", "constants": scaled(2)}
    check_refused('y = Resize<mode="linear">(x, , s)', 13, 10, "the data are integers and mode is linear", **io)


@pytest.mark.long
def test_where_rounding_decides_is_refused():
    how = 'y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="ceil">(x, , , z)'
    found = []
    for size, result in pairs.some(list(itertools.product(range(2, 40), range(2, 40))), 3):
        io = {"inputs": f"float[{size}] x", "outputs": f"float[{result}] y", "constants": sized(result)}
        refused = convert.attempt(model(how, 13, **io), {"": 10}).refusals
        found += [refused[0].why] if refused else []
    assert found
    assert all("rounding decides" in why for why in found)


def test_a_size_that_rounding_decides_is_refused():
    """10 times the float32 0.7 is 7 in float32 and less in float64."""
    io = {"inputs": "float[10] x", "outputs": "float[A] y", "constants": scaled(0.7)}
    check_refused('y = Resize<mode="linear">(x, , s)', 13, 10, "floor(10 * 0.69", **io)


def test_the_nearest_float_is_not_always_the_scale_that_leads_there():
    how = 'y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , z)'
    kept = 0
    for size, wanted in itertools.product(range(2, 60), range(2, 60)):
        if int(np.float32(size) * (np.float32(wanted) / np.float32(size))) == wanted or wanted < size:
            continue
        io = {"inputs": f"float[{size}] x", "outputs": "float[A] y", "constants": sized(wanted)}
        source = model(how, 13, **io)
        made = convert.attempt(source, {"": 10}).model
        kept += made is not None and "Resize" in show(made)
        if made is not None:
            check_values(source, made, rtol=0, atol=0)
    assert kept


def test_sampling_16_bit_floats_is_done_in_float32():
    io = {"inputs": "float16[4] x", "outputs": "float16[A] y"}
    source = model('y = Resize<mode="linear">(x, , s)', 13, constants=scaled(2), **io)
    made = convert.attempt(source, {"": 10}).model
    assert show(made).startswith("t1 = Cast<to=1>(x)")
    check_values(source, made, rtol=2e-3, atol=0)


def test_empty_inputs_may_be_left_out_at_13():
    held = f"float[0] e = {{}}, {sized(2, 3, 8, 6)}"
    io = {"inputs": "float[2,3,4,6] x", "outputs": "float[2,3,8,6] y", "constants": held}
    check("y = Resize(x, e, e, z)", 11, "y = Resize(x, [], _, [2, 3, 8, 6])", 13, **io)
    check("y = Resize(x, , , z)", 13, "y = Resize(x, [], [], [2, 3, 8, 6])", 11, **io)
    check(
        "y = Resize(x, , s)", 13, "y = Resize(x, [], [1.0, 1.0, 2.0, 2.0])", 12, constants=scaled(1, 1, 2, 2), **IMAGE
    )


@pytest.mark.parametrize("scale", [0.3, 0.5, 0.6, 1.7, 2, 3])
def test_tf_half_pixel_for_nn_is_gone_at_13(scale):
    how = 'coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode='
    held = scaled(1, 1, scale, scale) + ", float[0] e = {}"
    made = resized(how + '"floor"', 11, 13, held, inputs="(x, e, s)", rtol=0).model
    assert "coordinate_transformation_mode=half_pixel, nearest_mode=round_prefer_ceil" in show(made)
    assert "Gather" in show(resized(how + '"ceil"', 11, 13, held, inputs="(x, e, s)", rtol=0).model)
    refused = f'y = Resize<mode="linear", {how}"floor">(x, e, s)'
    check_refused(refused, 11, 13, "supported: mode=nearest", constants=held, **IMAGE)


def test_defaults_are_dropped_below_18():
    how = 'antialias=0, keep_aspect_ratio_policy="stretch"'
    after = "y = Resize(x, _, [1.0, 1.0, 2.0, 2.0])"
    check(f"y = Resize<{how}>(x, , s)", 19, after, 17, constants=scaled(1, 1, 2, 2), **IMAGE)
    check_unchanged("y = Resize(x, , s)", 19, 13, constants=scaled(1, 1, 2, 2), **IMAGE)


@pytest.mark.newest
def test_axes_are_written_out_below_18():
    after = "y = Resize(x, _, [1.0, 1.0, 3.0, 2.0])"
    check("y = Resize<axes=[-1, 2]>(x, , s)", 18, after, 17, constants=scaled(2, 3), **IMAGE)
    io = {"inputs": "float[2,3,4,6] x", "outputs": "float[2,3,8,9] y", "constants": sized(8, 9)}
    check("y = Resize<axes=[2, 3]>(x, , , z)", 18, "y = Resize(x, _, _, [2, 3, 8, 9])", 17, **io)
    made = resized("axes=[3, 2]", 18, 17, sized(8, 9), inputs="(x, , , z)", rtol=0).model
    assert "Gather" in show(made)
    check_refused(
        "y = Resize<axes=[4]>(x, , s)", 18, 17, "axes=[4] are out of range for rank 4", constants=scaled(2), **IMAGE
    )


def test_the_region_of_some_axes_is_written_out_below_18():
    how = 'axes=[3, 2], coordinate_transformation_mode="tf_crop_and_resize"'
    held = sized(5, 4) + ", float[4] r = {0.25, 0, 0.75, 1}"
    made = resized(how, 18, 17, held, inputs="(x, r, , z)").model
    assert "[0.0, 0.0, 0.0, 0.25, 1.0, 1.0, 1.0, 0.75]" in show(made)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 0.5, 0.7), (1, 1, 0.3, 2), (1, 1, 2, 3)])
def test_antialias_is_sampled_where_an_axis_shrinks(mode, scales):
    result = resized(f'mode="{mode}", antialias=1', 18, 17, scaled(*scales), rtol=1e-4)
    assert ("Resize" in show(result.model)) == (min(scales) >= 1)
    assert result.grade == "close"


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("sizes", [(8, 12), (7, 8), (3, 4), (2, 6), (9, 20)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_ratios_are_kept_below_18(policy, sizes, mode):
    how = f'mode="{mode}", keep_aspect_ratio_policy="{policy}", axes=[2, 3]'
    resized(how, 18, 17, sized(*sizes), inputs="(x, , , z)", io={**IMAGE, "inputs": "float[2,3,4,6] x"})


def test_half_pixel_symmetric_where_nothing_is_cut_below_19():
    how = 'y = Resize<mode="linear", coordinate_transformation_mode="half_pixel_symmetric">'
    after = "y = Resize<coordinate_transformation_mode=half_pixel, mode=linear>(x, _, [1.0, 1.0, 0.5, 2.0])"
    check(f"{how}(x, , s)", 19, after, 18, constants=scaled(1, 1, 0.5, 2), **IMAGE)
    io = {**IMAGE, "inputs": "float[N,C,4,6] x, int64[4] z"}
    source = model(f"{how}(x, , , z)", 19, **io)
    assert "mode=half_pixel," in show(convert.attempt(source, {"": 18}).model)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_half_pixel_symmetric_is_sampled_where_a_size_is_cut(mode):
    how = f'mode="{mode}", coordinate_transformation_mode="half_pixel_symmetric"'
    result = resized(how, 19, 18, scaled(1, 1, 0.6, 1.7))
    assert "Resize" not in show(result.model)


def test_inside_a_branch():
    body = """
    y = If (c) <
        then_branch = t () => (float[N,C,A,B] a) { a = Resize<antialias=0>(x, , s) },
        else_branch = e () => (float[N,C,A,B] b) { b = Resize<mode="linear">(x, , s) }
    >
    """
    io = {"inputs": "float[2,3,4,6] x, bool c", "outputs": "float[N,C,A,B] y"}
    source = model(body, 18, constants=scaled(1, 1, 2, 2), **io)
    made = convert.attempt(source, {"": 10}).model
    for chosen in (True, False):
        given = {"x": DATA, "c": np.array(chosen)}
        np.testing.assert_allclose(evaluate(made, given)[0], evaluate(source, given)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", [10, 9, 7])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel"])
@pytest.mark.parametrize(
    ("dims", "factors"), [("1,1,1,2", (1, 1, 0.5, 0.7)), ("1,1,4,1", (1, 1, 2, 0.5)), ("1,1,0,2", (1, 1, 2, 2))]
)
def test_nothing_is_left_of_an_axis(dims, factors, coordinates, mode, target):
    io = {"inputs": f"float[{dims}] x", "outputs": "float[A,B,C,D] y"}
    body = f'y = Resize<mode="{mode}", coordinate_transformation_mode="{coordinates}">(x, , s)'
    source = model(body, 13, constants=scaled(*factors), **io)
    result = convert.attempt(source, {"": target})
    assert not result.refusals, "\n".join(map(str, result.refusals))
    onnx.checker.check_model(result.model, full_check=True)
    shape = [int(dim) for dim in dims.split(",")]
    (y,) = evaluate(result.model, {"x": np.ones(shape, np.float32)})
    assert y.shape == tuple(int(size * factor) for size, factor in zip(shape, factors, strict=True))


@pytest.mark.parametrize(
    ("node", "inputs", "shown"),
    [
        ('Resize<axes=[3,2]>(x, "", s)', "float[K,2] s", "scales has shape [K, 2]; supported: a vector of 2"),
        ('Resize<axes=[3,2]>(x, "", s)', "float[3] s", "scales has shape [3]; supported: a vector of 2"),
        ('Resize(x, "", "", s)', "int64[1,4] s", "sizes has shape [1, 4]; supported: a vector of 4"),
        (
            'Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, "", "", s)',
            "int64[4] s",
            "roi has shape [0]",
        ),
        (
            'Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, "", s)',
            "float[4] r, int64[4] s",
            "roi has shape",
        ),
    ],
)
def test_what_is_no_vector_for_the_axes_is_refused(node, inputs, shown):
    io = {"inputs": f"float[1,1,4,4] x, {inputs}", "outputs": "float[a,b,c,d] y"}
    source = model(f"y = {node}", 18, **io)
    result = convert.attempt(source, {"": 10})
    assert result.model is None
    assert shown in "".join(map(str, result.refusals)), result.refusals
