"""NonMaxSuppression by older operators: the boxes that onnxruntime selects, in its order."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_down, check_refused, check_unchanged, check_values, evaluate, model, show

INF = np.inf
GIVEN = "int64 n, float t, float m"
CALL = "y = NonMaxSuppression(b, s, n, t, m)"


def boxes_and_scores(batches, classes, count, seed=0, center=False):
    """Boxes on a coarse grid, which overlap by halves and thirds, with few different scores."""
    random = np.random.default_rng(seed)
    boxes = random.integers(0, 6, (batches, count, 4)) / 2
    boxes[..., 2:] += center
    scores = random.integers(0, 5, (batches, classes, count)) / 4
    return {"b": boxes.astype(np.float32), "s": scores.astype(np.float32)}


def feeds(most=3, threshold=0.3, score=0.2, **more):
    return {"n": np.array(most), "t": np.array(threshold, np.float32), "m": np.array(score, np.float32), **more}


def io(b="B,N,4", s="B,C,N", given=GIVEN):
    return {"inputs": f"float[{b}] b, float[{s}] s" + (given and f", {given}"), "outputs": "int64[K,3] y"}


def test_it_is_the_same_at_11():
    for body in ("y = NonMaxSuppression(b, s, n, t)", "y = NonMaxSuppression(b, s)"):
        held = {**io(given=""), "constants": "int64 n = {3}, float t = {0.5}"}
        made = check_unchanged(body, 10, 11, **held)
        check_values(model(body, 10, **held), made, boxes_and_scores(1, 1, 4), rtol=0, atol=0)
        check_unchanged(body, 11, 10, **held)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("shapes", [("2,30,4", "2,3,30"), ("B,N,4", "B,C,N"), ("A,B,C", "D,E,F")])
@pytest.mark.parametrize(
    "parameters", [{}, {"most": 50, "threshold": 0.0}, {"threshold": 1.0, "most": 2}, {"score": 9}]
)
def test_boxes_are_picked_in_rounds_below_10(center, shapes, parameters):
    body = CALL.replace("(", f"<center_point_box={center}>(")
    given = feeds(**parameters, **boxes_and_scores(2, 3, 30, center=bool(center)))
    check_down(body, 10, 9, 8, 7, feeds=given, grade="close", **io(*shapes))


@pytest.mark.parametrize("seed", range(8))
def test_many_boxes_with_ties(seed):
    given = feeds(100, 1 / 3, -1.0, **boxes_and_scores(1, 2, 200, seed, center=seed % 2))
    body = CALL.replace("(", f"<center_point_box={seed % 2}>(")
    check_down(body, 10, 9, feeds=given, grade="close", **io())


@pytest.mark.parametrize("most", [0, -3, 1, 2**62])
@pytest.mark.parametrize("given", ["int64 n", "int64[1] n"])
def test_the_number_of_boxes_may_be_anything(most, given):
    held = boxes_and_scores(2, 2, 7)
    number = np.array([most] if "[" in given else most)
    check_down("y = NonMaxSuppression(b, s, n)", 10, 9, feeds={"n": number, **held}, grade="close", **io(given=given))
    constant = {**io(given=""), "constants": f"{given} = {{{most}}}"}
    check_down("y = NonMaxSuppression(b, s, n)", 10, 9, 7, feeds=held, grade="close", **constant)


def test_without_a_number_nothing_is_selected():
    made = check_down(
        "y = NonMaxSuppression(b, s)", 10, 9, feeds=boxes_and_scores(1, 1, 4), grade="close", **io(given="")
    )
    assert show(made) == "y = Identity([])"


@pytest.mark.parametrize("sizes", [(0, 2, 5), (2, 0, 5), (2, 3, 0)])
@pytest.mark.parametrize("known", [True, False])
def test_nothing_to_select_from(sizes, known):
    batches, classes, count = sizes
    shapes = (f"{batches},{count},4", f"{batches},{classes},{count}") if known else ("B,N,4", "B,C,N")
    given = feeds(**boxes_and_scores(*sizes))
    source = model(CALL, 10, **io(*shapes))
    for target in (9, 7):
        made = convert.attempt(source, {"": target}).model
        assert evaluate(made, given)[0].shape == (0, 3)


def test_scores_that_are_not_finite():
    held = boxes_and_scores(1, 1, 6)
    held["s"] = np.float32([[[-INF, 1, INF, -INF, -1, INF]]])
    check_down(
        "y = NonMaxSuppression(b, s, n)",
        10,
        9,
        8,
        feeds={"n": np.array(9), **held},
        grade="close",
        **io(given="int64 n"),
    )
    held["m"] = np.array(-INF, np.float32)
    check_down(
        "y = NonMaxSuppression(b, s, n, , m)",
        10,
        9,
        feeds={"n": np.array(9), **held},
        grade="close",
        **io(given="int64 n, float m"),
    )


def test_negative_scores_fill_the_number_of_boxes():
    boxes = np.arange(5, dtype=np.float32).reshape(1, 5, 1) + np.float32([0, 0, 0.5, 0.5])
    given = {"b": boxes, "s": np.float32([[[-1, -5, -2, -4, -3]]]), "n": np.array(4)}
    check_down("y = NonMaxSuppression(b, s, n)", 10, 9, feeds=given, grade="close", **io(given="int64 n"))


def test_boxes_without_an_area_and_corners_in_any_order():
    boxes = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0.5, 0.5, 0.5, 0.5], [0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 2, 1]]
    given = {
        "b": np.float32([boxes]),
        "s": np.float32([[[0, 1, 2, 3, 4, 5, 6]]]),
        "n": np.array(9),
        "t": np.array(0, np.float32),
    }
    check_down("y = NonMaxSuppression(b, s, n, t)", 10, 9, feeds=given, grade="close", **io(given="int64 n, float t"))
    body = "y = NonMaxSuppression<center_point_box=1>(b, s, n, t)"
    given["b"] *= [[[1, 1, -1, 1]]]
    check_down(body, 10, 9, feeds=given, grade="close", **io(given="int64 n, float t"))


def test_an_unknown_rank_is_refused():
    inputs = "float[1,5,4] b, float[5] f, int64[P] p"
    check_refused(
        "s = Reshape(f, p) y = NonMaxSuppression(b, s, n)", 10, 9, 'the rank of "s" is unknown',
        inputs=inputs, outputs="int64[K,3] y", constants="int64 n = {3}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("b", "s", "why"), [("1,5,4,1", "1,1,5", "boxes has rank 4"), ("1,5,4", "1,5", "scores has rank 2")]
)
def test_another_rank_is_refused(b, s, why):
    check_refused("y = NonMaxSuppression(b, s, n)", 10, 9, why, **io(b, s, "int64 n"))


def test_inside_a_branch():
    then = f"then_branch = then () => (int64[K,3] u) {{ {CALL.replace('y =', 'u =')} }}"
    other = "else_branch = other () => (int64[K,3] v) { v = ConstantOfShape<value = int64[1] {7}>(z) }"
    given = {**io(given=GIVEN + ", bool c"), "constants": "int64[2] z = {2, 3}"}
    for chosen in (True, False):
        held = feeds(c=np.array(chosen), **boxes_and_scores(1, 2, 9))
        check_down(f"y = If (c) <{then}, {other}>", 10, 9, 8, feeds=held, grade="close", **given)


def test_inside_a_function():
    source = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g ({io("1,9,4", "1,2,9")["inputs"]}) => (int64[K,3] y)'
        '{ y = own.f(b, s, n, t, m) } <domain: "own", opset_import: ["" : 13]>'
        f"f (b, s, n, t, m) => (y) {{ {CALL} }}"
    )
    made = convert.attempt(source, {"": 9}).model
    check_values(source, made, feeds(**boxes_and_scores(1, 2, 9)), rtol=0, atol=0)
