"""Whether an operator gives the shape that its definition gave, by what is known of the shapes of its inputs."""

import pytest
from opshift.passes.fusion.patterns import PatternCall, PatternTensor, Splat
from opshift.passes.fusion.shape_rules import fits, has_rule, without_ones

X, ROW, ONE = PatternTensor(1, (2, 3)), PatternTensor(1, (3,)), Splat(1, (3,), 1.0)


def fit(op, shapes, result=None, inputs=None, **attributes):
    inputs = tuple(inputs or [PatternTensor(1, None if shape is None else tuple(shape)) for shape in shapes])
    return fits(PatternCall(("", op), 20, inputs, tuple(attributes.items())), shapes, result)


@pytest.mark.parametrize(
    ("op", "shapes", "result", "same"),
    [
        ("Relu", [None], None, True), ("Relu", [[0]], [0], True), ("ReduceSum", [[0]], [1], True), ("Softmax", [[0]], [0], False),
        ("Softmax", [["N"]], ["N"], True), ("Softmax", [[2]], [0], False), ("Pow", [[2], None], None, True), ("Pow", [[2], [1]], [2], True),
        ("Pow", [[1], [2]], [2], False), ("Pow", [None, [2]], [2], False), ("Pow", [["N"], [2]], ["N"], True), ("Pow", [[None], [2]], [None], False),
        ("Pow", [[2], [2]], None, False), ("Pow", [[2], [2], [2]], [2, 1], False),
    ],
)  # fmt: skip
def test_what_has_no_rule_of_its_own(op, shapes, result, same):
    assert not has_rule(PatternCall(("", op), 20, ()))
    assert fit(op, shapes, result) is same


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize(
    ("shapes", "inputs", "axis", "same"),
    [
        ([[2, 3, 4], [4]], None, -1, True), ([[2, 3, 4], [3, 4]], None, -2, True), ([[2, 3, 4], [1, 4]], None, -1, True),
        ([[2, 3, 4], [1, 1, 1, 4]], None, -1, False), ([[2, 3, 4], [3, 4]], None, -1, False), ([[2, 3, 4], [1]], None, -1, False),
        ([[2, 3, 4], None], None, -1, False), ([None, [4]], None, -1, False), ([[2, 3, "N"], ["N"]], None, -1, True),
        ([[2, 3, None], [None]], None, -1, False), ([[2, 3], [3], [3]], None, -1, True), ([[2, 3], [3], [2]], None, -1, False),
        ([[2, 3], None], [X, ONE], -1, True), ([[2, "N"], None], [X, ONE], -1, False), ([["N", 3], None], [X, ONE], -1, True),
        ([[2, 3], None, [3]], [X, ONE, ROW], -1, True), ([[2, 3], None, [2]], [X, ONE, ROW], -1, False),
    ],
)  # fmt: skip
def test_scale_and_bias_are_of_the_axes_that_are_normalized(op, shapes, inputs, axis, same):
    assert fit(op, shapes, inputs=inputs, axis=axis) is same


def test_leading_ones():
    assert without_ones([1, 1, 3], 1) == [3]
    assert without_ones([1, 3], 2) == [1, 3]
    assert without_ones([2, 3], 1) == [2, 3]
    assert without_ones([1, 2, 3], 1) == [1, 2, 3]
    assert without_ones([3], 2) == [3]


@pytest.mark.parametrize(
    ("shapes", "result", "channels", "groups"),
    [
        ([[2, 3, 4], [3], [3]], [2, 3, 4], True, True), ([[2, "C", 4], ["C"], ["C"]], [2, "C", 4], True, True),
        ([[2, 3, 4], [3], [4]], [2, 3, 4], False, False), ([[2, 3, 4], [1], [3]], [2, 3, 4], False, False),
        ([[2, 3, 4], None, [3]], [2, 3, 4], False, False), ([None, [3], [3]], None, False, False),
        ([[2, 3, 4], [3], [3]], [2, 12], True, False), ([[2, 3, 4], [3], [3]], None, True, False),
    ],
)  # fmt: skip
def test_one_for_each_channel(shapes, result, channels, groups):
    assert fit("InstanceNormalization", shapes, result) is channels
    assert fit("GroupNormalization", shapes, result) is groups


@pytest.mark.parametrize(
    ("x", "slope", "same"),
    [
        ([2, 3], [3], True), ([2, 3], [1], True), ([2, 3], [2, 3], True), ([2, 3], [2, 1], True), ([2, 3], [], True), ([3], [2, 3], False),
        ([3], [1, 3], False), ([2, 1], [3], False), ([2, "N"], ["N"], True), ([2, None], [None], False), ([2, None], [1], True),
        (None, [3], False), ([3], None, False),
    ],
)  # fmt: skip
def test_the_second_goes_onto_the_first(x, slope, same):
    assert fit("PRelu", [x, slope]) is same


Q, K = [2, 4, 5, 8], [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("shapes", "same"),
    [
        ([Q, K, K], True), ([Q, K, [2, 4, 6, 7]], True), ([Q, K, [2, 4, 5, 8]], False), ([Q, [2, 4, 6, 7], K], False),
        ([Q, [2, 2, 6, 8], [2, 2, 6, 8]], False), ([Q, K, [1, 4, 6, 8]], False), ([[4, 5, 8], K, K], False), ([Q, [4, 6, 8], K], False),
        ([Q, K, [4, 6, 8]], False), ([None, K, K], False), ([Q, None, K], False), ([Q, K, None], False),
        ([Q, K, K, [5, 6]], True), ([Q, K, K, [1, 6]], True), ([Q, K, K, [2, 4, 5, 6]], True), ([Q, K, K, [2, 1, 1, 6]], True),
        ([Q, K, K, [4, 5, 6]], True), ([Q, K, K, [6]], False), ([Q, K, K, [1, 2, 4, 5, 6]], False), ([Q, K, K, [5, 1]], False),
        ([Q, K, K, [3, 6]], False), ([Q, K, K, [3, 4, 5, 6]], False), ([Q, K, K, None], False),
        ([["B", 4, "S", 8], ["B", 4, "T", 8], ["B", 4, "T", 8], ["S", "T"]], True),
        ([["B", 4, "S", 8], ["B", 4, "T", 8], ["B", 4, "T", 8], ["T", "T"]], False),
        ([[2, 4, 5, None], [2, 4, 6, None], K], False),
    ],
)  # fmt: skip
def test_masks_go_onto_scores(shapes, same):
    assert fit("Attention", shapes) is same


@pytest.mark.parametrize(
    ("shapes", "result", "attributes", "same"),
    [
        ([[2, 3], [3, 5]], [2, 5], {}, True), ([[2, 3], [3, 5], [5]], [2, 5], {}, True), ([[2, 3], [3, 5], [2, 1]], [2, 5], {}, True),
        ([[2, 3], [3, 5], [2]], [2, 5], {}, False), ([[1, 3], [3, 5], [2, 5]], [2, 5], {}, False), ([[3, 2], [3, 5], [2, 5]], [2, 5], {"transA": 1}, True),
        ([[2, 3], [5, 3], [2, 5]], [2, 5], {"transB": 1}, True), ([[2, 3], [5, 3], [2, 3]], [2, 5], {"transB": 1}, False),
        ([[2, 3], [3, 5], None], [2, 5], {}, False), ([None, [3, 5]], [2, 5], {}, False), ([[2, 3], None], [2, 5], {}, False),
        ([[4, 2, 3], [3, 5]], [4, 2, 5], {}, False), ([[2, 3], [4, 3, 5]], [4, 2, 5], {}, False), ([[2, 3], [3, 5]], None, {}, False),
        ([[2, 3], [3, 5]], [1, 2, 5], {}, False),
    ],
)  # fmt: skip
def test_what_is_added_goes_onto_the_product(shapes, result, attributes, same):
    assert fit("Gemm", shapes, result, **attributes) is same


@pytest.mark.parametrize(
    ("x", "angles", "same"),
    [
        ([2, 4, 5, 8], [5, 4], True), ([2, 4, 5, 8], [2, 5, 4], True), ([2, 4, 5, 8], [1, 5, 4], True), ([2, 4, 5, 8], [3, 5, 4], False),
        ([2, 4, 5, 8], [5, 8], False), ([2, 4, 5, 8], [2, 5, 8], False), ([2, 4, "S", 8], [2, "S", 4], True), ([2, 4, "S", 8], ["S", 4], False),
        (["B", 4, 5, 8], ["B", 5, 4], True), (["B", 4, 5, 8], [5, 4], False), ([None, 4, 5, 8], [None, 5, 4], False), ([2, 4, 5, "D"], [5, 4], False),
        ([2, 5, 8], [5, 4], False), (None, [5, 4], False), ([2, 4, 5, 8], None, False),
    ],
)  # fmt: skip
def test_angles_are_those_of_positions(x, angles, same):
    assert fit("RotaryEmbedding", [x, angles, angles]) is same
    assert not fit("RotaryEmbedding", [x, angles, [7, 4]])


@pytest.mark.parametrize(
    ("result", "shapes", "inputs", "vectors", "rows"),
    [
        ([2, 3], [[2, 3], [3]], [X, ROW], True, True), ([2, 3], [[2, 3], [2, 3], [3]], [X, X, ROW], True, True),
        ([2, 3], [[2, 3], [2, 1]], [X, X], False, False), ([2, 3], [[2, 3], [2]], [X, ROW], False, False), ([2, 3], [[2, 3], None], [X, None], True, True),
        ([2, 3], [None, [3]], [X, ROW], False, False), ([3], [[3]], [ROW], True, False), ([1, 2, 2, 3], [[1, 2, 2, 3], [3]], [X, ROW], True, False),
        ([1, 2, 3], [[1, 2, 3], [3]], [X, ROW], True, True), (None, [[2, 3], [3]], [X, ROW], False, False), ([], [[]], [PatternTensor(1, ())], False, False),
    ],
)  # fmt: skip
def test_vectors_go_along_the_last_axis(result, shapes, inputs, vectors, rows):
    assert fit("BiasGelu", shapes, result, inputs) is fit("FastGelu", shapes, result, inputs) is vectors
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        assert fit(op, shapes, result, inputs) is rows


@pytest.mark.parametrize(
    ("shapes", "result", "same"),
    [
        ([[2, 3], [3, 5]], [2, 5], True),
        ([[4, 2, 3], [3, 5]], [4, 2, 5], False),
        ([None, [3, 5]], [2, 5], False),
        ([[2, 3], [3, 5]], None, False),
    ],
)
def test_products_of_one_rank(shapes, result, same):
    assert fit("FusedMatMul", shapes, result) is same
