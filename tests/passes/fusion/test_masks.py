"""What may stand in a mask, and what makes runtimes agree on it."""

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from opshift.passes.analysis.scope import of_model
from opshift.passes.fusion import masks
from opshift.passes.fusion.masks import Element, MaskRemedy
from opshift.passes.rewrite.builder import Builder

from tests.support import model

TAME, FINITE, LOWEST, EXCLUDED, WILD = Element
KINDS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}


@pytest.mark.parametrize(("kind", "dtype"), KINDS.items())
def test_elements_are_told_by_their_values(kind, dtype):
    info = ml_dtypes.finfo(dtype)
    low = np.array(info.min, dtype)
    tame = np.array(float(info.max) * 2.0 ** -(info.nmant + 2), dtype)
    below = np.array(float(tame) / 2, dtype)
    for value, element in (
        (0, TAME), (1, TAME), (-1, TAME), (below, TAME), (-below, TAME), (float(tame) * 2, FINITE), (-float(tame) * 2, FINITE), (info.max, FINITE),
        (np.nextafter(low, np.array(0, dtype)), FINITE), (low, LOWEST), (-np.inf, EXCLUDED), (np.inf, WILD), (np.nan, WILD),
    ):  # fmt: skip
        assert masks._of_array(np.array([value], dtype), kind) == {element}, value
    # what is tame is lost when it is added to the lowest number
    assert (low + np.array([below, -below], dtype) == low).all()
    assert masks._of_array(np.array([0, -np.inf], dtype), kind) == {TAME, EXCLUDED}
    assert masks._of_array(np.zeros(0, dtype), kind) == frozenset()


@pytest.mark.parametrize(
    "values", [None, np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.uint8), np.array(["a"], object)]
)
def test_what_is_no_float_may_be_anything(values):
    assert masks._of_array(values, TensorProto.FLOAT) == {WILD}


VALUES = {TAME: [1.0, -2.0], FINITE: [1e38, -1e38], LOWEST: [float(np.finfo(np.float32).min)], EXCLUDED: [-np.inf]}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(VALUES, VALUES)))
def test_what_a_sum_may_be(a, b):
    told = masks._sum(frozenset([a]), frozenset([b]))
    with np.errstate(over="ignore"):
        sums = [np.float32(one) + np.float32(other) for one in VALUES[a] for other in VALUES[b]]
    found = frozenset().union(*(masks._of_array(np.array([value]), TensorProto.FLOAT) for value in sums))
    assert WILD in told or found <= told
    assert (WILD in told) == (FINITE in (a, b) and {a, b} not in ({TAME, FINITE}, {FINITE, EXCLUDED}))


def test_sums_of_several():
    assert masks._sum(frozenset([TAME, EXCLUDED]), frozenset([TAME, LOWEST])) == {TAME, LOWEST, EXCLUDED}
    assert WILD in masks._sum(frozenset([WILD]), frozenset([TAME]))


LOW = float(np.finfo(np.float32).min)
HELD = {
    "low": [[0, LOW], [0, 0]], "all": [[LOW, LOW], [0, 0]], "inf": [[0, -np.inf], [0, 0]], "both": [[-np.inf, LOW], [0, 0]], "zero": [[0, 0], [0, 0]],
    "big": [[1e38, 0], [0, 0]], "lone": LOW, "bools": [[True, False], [True, True]], "five": [[5, 0], [0, 0]],
}  # fmt: skip


def scope_of(body):
    source = model(
        body or "q = Identity(x)",
        18,
        inputs="float[2,2] x, bool[2,2] c, float16[2,2] h",
        outputs="q",
        constants="int64[2] two = {2, 2}",
    )
    for name, value in HELD.items():
        source.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(value, bool if name == "bools" else np.float32), name)
        )
    return of_model(source, 18)


ELEMENTS = [
    ("", "low", {TAME, LOWEST}), ("", "x", {WILD}), ("q = Relu(low)", "q", {WILD, LOWEST}), ("q = Relu(zero)", "q", {WILD}), ("", "bools", {WILD}),
    ("q = Where(c, zero, low)", "q", {TAME, LOWEST}), ("q = Where(c, x, low)", "q", {WILD, TAME, LOWEST}), ("q = Concat<axis=0>(zero, inf)", "q", {TAME, EXCLUDED}),
    ("q = Transpose(low)", "q", {TAME, LOWEST}), ("q = Expand(low, two)", "q", {TAME, LOWEST}), ("q = Gather(low, two)", "q", {TAME, LOWEST}),
    ("q = Trilu(all)", "q", {TAME, LOWEST}), ("q = Trilu(inf)", "q", {TAME, EXCLUDED}), ("q = Add(low, zero)", "q", {TAME, LOWEST}),
    ("q = Add(low, x)", "q", {WILD, TAME, LOWEST}), ("q = Cast<to=1>(c)", "q", {TAME}), ("q = Cast<to=1>(h)", "q", {WILD}), ("q = Cast<to=1>(x)", "q", {WILD}),
    ("q = Cast<to=1>(bools)", "q", {TAME}), ("q = ConstantOfShape(two)", "q", {TAME}), ("q = ConstantOfShape<value=float[1] {-inf}>(two)", "q", {EXCLUDED}),
    ("q = Max(x, zero)", "q", {FINITE}), ("q = Max(x, low)", "q", {WILD, LOWEST}), ("q = Max(zero, big)", "q", {FINITE}), ("q = Mul(low, low)", "q", {WILD, LOWEST}),
    ("a, q = Split<num_outputs=2>(low)", "q", {WILD}), ("q = my.Identity(low)", "q", {WILD}), ("a = Where(c, low, zero) q = Identity(a)", "q", {TAME, LOWEST}),
    ("a = Where(c, low, zero) q = Add(a, a)", "q", {TAME, LOWEST, EXCLUDED}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "name", "elements"), ELEMENTS)
def test_a_value_is_followed_to_its_constants(body, name, elements):
    body = body.replace("{-inf}", "{-1}")
    scope = scope_of(body)
    for node in scope.body.node:
        if "ConstantOfShape<" in body:
            node.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([-np.inf], np.float32)))
    assert masks._ConstantWalk(TensorProto.FLOAT).elements(scope, name, masks._FAR) == elements


def test_a_value_is_not_followed_for_ever():
    body = (
        " ".join(f"a{k} = Where(c, a{k - 1}, zero)" for k in range(1, 40)).replace("a0", "low") + " q = Identity(a39)"
    )
    walk = masks._ConstantWalk(TensorProto.FLOAT)
    assert walk.elements(scope_of(body), "a20", masks._FAR) == {TAME, LOWEST}
    assert WILD in masks._ConstantWalk(TensorProto.FLOAT).elements(scope_of(body), "a39", masks._FAR)
    assert walk.elements(scope_of(body), "a24", 24) == {TAME, LOWEST}
    assert WILD in masks._ConstantWalk(TensorProto.FLOAT).elements(scope_of(body), "a25", 24)


@pytest.mark.parametrize(
    ("body", "parts", "needed"),
    [
        ("", ["zero"], MaskRemedy.NONE), ("", ["inf"], MaskRemedy.NONE), ("", ["x"], MaskRemedy.NONE), ("", ["low"], MaskRemedy.NONE), ("", ["all"], MaskRemedy.RAISED), ("", ["both"], MaskRemedy.NO),
        ("", ["lone"], MaskRemedy.RAISED), ("", ["low", "zero"], MaskRemedy.RAISED), ("", ["low", "inf"], MaskRemedy.NO), ("", ["low", "x"], MaskRemedy.NO), ("", ["low", "low"], MaskRemedy.NO),
        ("q = Where(c, low, zero)", ["q"], MaskRemedy.RAISED), ("", ["zero", "inf"], MaskRemedy.NONE),
    ],
)  # fmt: skip
def test_what_a_mask_needs(body, parts, needed):
    assert masks.remedy(scope_of(body), parts, TensorProto.FLOAT) is needed


@pytest.mark.parametrize(("kind", "dtype"), KINDS.items())
def test_the_lowest_number_becomes_the_next_one(kind, dtype):
    scope = scope_of("")
    build = Builder(scope, 18)
    masks.raise_lowest(build, "x", kind)
    [node] = build.nodes
    low = np.array(ml_dtypes.finfo(dtype).min, dtype)
    held = onnx.numpy_helper.to_array(scope.tensor(node.input[1]))
    assert (node.op_type, list(node.input)[:1], held.dtype) == ("Max", ["x"], np.dtype(dtype))
    assert held == np.nextafter(low, np.array(0, dtype))
