"""What is drawn for a region lies where its operators decide; expected numbers are worked out by hand."""

import numpy as np
import pytest

from opshift.verification import drawing
from opshift.verification.drawing import FAR, ORDINARY, SPECIAL, WHOLE_TABLES, draw
from opshift.verification.engines import EngineError, OnnxRuntime
from opshift.verification.parts import with_outputs
from tests.support import model

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
IO = {"inputs": "float[N,8] x", "outputs": "float[A,B] y"}


def watching(*parts):
    def watch(which, names, feeds):
        made = with_outputs(parts[which], names)
        found = dict(zip([v.name for v in made.graph.output], OnnxRuntime(made).run(feeds), strict=True))
        return {name: found[name] for name in names}

    return watch


def drawn(*bodies, base=None, free=None, weights=({}, {}), resized=frozenset(), opset=17, **io):
    parts = [model(body, opset, **{**IO, **io}) for body in (bodies * 2)[:2]]
    base = {"x": X} if base is None else base
    return list(draw(parts, base, weights, [*base] if free is None else free, watching(*parts), 0, resized))


def test_every_kind_of_numbers_has_its_turn():
    found = drawn("y = Exp(x)")
    labels = [one.label for one in found]
    for label in ("random numbers", "values around thresholds", "negative numbers", "tiny numbers", "zeros"):
        assert label in labels
    assert {one.label: one.how for one in found if one.how != ORDINARY} == {
        "large numbers": FAR,
        "infinities, NaN and denormals": SPECIAL,
    }
    for one in found:
        assert (one.feeds["x"].shape, one.feeds["x"].dtype) == (X.shape, X.dtype)


def test_what_is_drawn_is_seeded_and_leaves_what_was_captured_alone():
    kept = X.copy()
    for one, again in zip(drawn("y = Exp(x)"), drawn("y = Exp(x)"), strict=True):
        np.testing.assert_array_equal(one.feeds["x"], again.feeds["x"])
    np.testing.assert_array_equal(X, kept)


def test_scalars_stay_arrays():
    """onnxruntime takes nothing else."""
    base = {"x": np.array(1.5, np.float32), "k": np.array(3), "b": np.array(True)}
    found = drawn("c = Cast<to = 1>(k) m = Mul(x, c) y = Where(b, m, x)", base=base,
                  inputs="float x, int64 k, bool b", outputs="float y")  # fmt: skip
    assert {type(value) for one in found for value in one.feeds.values()} == {np.ndarray}


@pytest.mark.parametrize(("elem_type", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_no_ordinary_number_is_denormal_though_some_lie_beside_zero(elem_type, dtype):
    """A Conv takes 20 times as long on those, and on products of them."""
    io = {"inputs": f"{elem_type}[N,8] x", "outputs": f"{elem_type}[A,B] y"}
    found = numbers(drawn("y = Relu(x)", base={"x": X.astype(dtype)}, **io))
    beside = np.abs(found[(found != 0) & (np.abs(found) < 1e-18)])
    assert beside.size
    assert (beside * dtype(1e-18) >= np.finfo(dtype).tiny).all()
    assert {-1, 1} <= set(np.sign(found[np.abs(found) < 1e-18]))


def numbers(found, name="x"):
    return np.concatenate([one.feeds[name].reshape(-1) for one in found if one.how == ORDINARY])


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("y = Clip(x, low, high)", [-2.25, 5.5]),
        ("y = ThresholdedRelu<alpha = 3.25>(x)", [3.25]),
        ("y = Shrink<lambd = 0.75>(x)", [0.75, -0.75]),
        ("c = Greater(x, high) y = Cast<to = 1>(c)", [5.5]),
        ("k = Constant<value_float = 6.0>() y = Min(x, k)", [6]),
    ],
)
def test_numbers_lie_on_each_line_and_on_both_sides(body, lines):
    found = numbers(drawn(body, constants="float low = {-2.25}, float high = {5.5}"))
    for line in np.float32(lines):
        for number in (line, np.nextafter(line, np.float32(np.inf)), np.nextafter(line, np.float32(-np.inf))):
            assert number in found


def test_few_elements_have_each_line_in_turn():
    found = numbers(
        drawn("y = Clip(x, low, high)", base={"x": X[:1, :1]}, constants="float low = {-2.25}, float high = {5.5}")
    )
    assert {-2.25, 5.5} <= set(found.tolist())


def test_what_is_scaled_before_it_is_rounded_lies_on_halves():
    found = numbers(drawn("a = Mul(x, k) y = Round(a)", constants="float k = {0.25}")) * 0.25
    assert {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5} <= set(found.tolist())


@pytest.mark.parametrize(("kind", "zero"), [("uint8", 3), ("int8", -3)])
def test_steps_of_what_is_quantized(kind, zero):
    body = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
    found = numbers(drawn(body, constants=f"float s = {{0.5}}, {kind} z = {{{zero}}}")) / 0.5
    assert {0.5, 1.5, 2.5, 127.5, -128.5, 300} <= set(found.tolist())


def test_places_stay_what_they_were_but_change_their_order():
    base = {"x": X, "i": np.array([0, 2, 1, 1])}
    found = drawn("y = Gather(x, i)", base=base, inputs="float[N,8] x, int64[4] i")
    assert any(sorted(one.feeds["i"].tolist()) == [0, 1, 1, 2] for one in found)
    assert {tuple(one.feeds["i"].tolist()) for one in found} >= {(0, 2, 0, 2), (-1, -3, -1, -3)}
    assert all(((one.feeds["i"] >= -3) & (one.feeds["i"] < 3)).all() for one in found)


def test_shapes_are_never_drawn():
    base = {"x": X, "s": np.array([4, 6])}
    found = drawn("y = Reshape(x, s)", base=base, inputs="float[N,8] x, int64[2] s")
    assert {tuple(sorted(one.feeds["s"].tolist())) for one in found} <= {(4, 6)}


def test_what_is_not_free_is_left_as_it_is():
    found = drawn("y = Add(x, z)", base={"x": X, "z": X}, free=["x"], inputs="float[N,8] x, float[N,8] z")
    assert all((one.feeds["z"] == X).all() for one in found)


TABLE = np.arange(400, dtype=np.float32).reshape(100, 4)


def test_rows_of_tables_that_differ_are_reached():
    other = TABLE.copy()
    other[[7, 93]] += 1
    base = {"i": np.array([1, 2, 3])}
    io = {"inputs": "float[100,4] w, int64[N] i", "outputs": "float[N,4] y"}
    found = drawn("y = Gather(w, i)", base=base, weights=({"w": TABLE}, {"w": other}), **io)
    assert {7, 93} <= set(next(d for d in found if d.label == "different rows").feeds["i"].tolist())
    assert {0, 99, -1, -100} <= set(numbers(found, "i").tolist())
    same = drawn("y = Gather(w, i)", base=base, weights=({"w": TABLE}, {"w": TABLE}), **io)
    assert "different rows" not in [d.label for d in same]


@pytest.mark.parametrize(("resized", "lengths"), [((), {3}), (("i",), {3, 5})])
def test_an_index_is_longer_only_where_it_was_in_a_run(resized, lengths):
    """Another form may be made for its size, as of Resize with two sizes."""
    base = {"i": np.array([1, 2, 3])}
    io = {"inputs": "float[100,4] w, int64[N] i", "outputs": "float[N,4] y"}
    weights = {"w": TABLE}, {"w": TABLE + np.float32(np.isin(np.arange(100), [3, 10, 20, 55, 93]))[:, None]}
    found = drawn("y = Gather(w, i)", base=base, weights=weights, resized=frozenset(resized), **io)
    assert {len(one.feeds["i"]) for one in found if one.label == "different rows"} == lengths


@pytest.mark.parametrize(("resized", "counts"), [((), {6}), (("b",), {6}), (("b", "s"), {6, 128})])
def test_boxes_are_as_many_as_they_were_in_runs(resized, counts):
    base = {"b": X.reshape(1, 6, 4), "s": X[:1, :6].reshape(1, 1, 6)}
    io = {"inputs": "float[1,N,4] b, float[1,1,N] s", "constants": "int64 k = {3}", "outputs": "int64[A,3] y"}
    found = drawn("y = NonMaxSuppression(b, s, k)", base=base, resized=frozenset(resized), **io)
    assert {one.feeds["b"].shape[1] for one in found if one.label == "boxes that overlap"} == counts


def test_a_number_of_elements_is_no_index():
    """The second model looks up what the first one counts."""
    base = {"n": np.array([2, 1])}
    io = {"inputs": "float[4,2] x, int64[2] n", "outputs": "float[4,2] y"}
    counting, looking = "y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, n)", "y = Gather(x, n)"
    for bodies in ((counting, looking), (looking, counting)):
        found = drawn(*bodies, base={"x": X[:2].reshape(-1)[:8].reshape(4, 2), **base}, free=["n"], **io)
        assert all(sorted(one.feeds["n"].tolist()) == [1, 2] for one in found)
        assert found


def test_an_index_of_elements_is_an_index_of_rows_as_well():
    base = {"i": np.array([[1], [2]])}
    io = {"inputs": "float[4,1] x, int64[2,1] i", "outputs": "float[2,1] y"}
    body = "e = GatherElements(x, i) r = Gather(x, i) s = Squeeze(r) y = Add(e, s)"
    found = drawn(body, base={"x": X.reshape(-1)[:4].reshape(4, 1), **base}, free=["i"], **io)
    assert [0, 3] in [one.feeds["i"].reshape(-1).tolist() for one in found if one.label == "rows at both ends"]


def test_labels_that_differ_in_tables_of_labels_are_reached():
    base = {"i": np.array([0, 0, 0])}
    io = {"inputs": "int64[1,8] w, int64[N] i", "outputs": "int64[1,N] y", "domains": '"ai.onnx.ml" : 1'}
    found = drawn(
        "y = ai.onnx.ml.ArrayFeatureExtractor(w, i)",
        base=base,
        weights=({"w": np.arange(8)[None]}, {"w": np.array([[0, 1, 2, 3, 4, 7, 6, 7]])}),
        **io,
    )
    assert set(next(d for d in found if d.label == "different rows").feeds["i"].tolist()) == {5}


def test_tables_are_read_as_far_as_they_go():
    base = {"n": np.array([3])}
    io = {"inputs": "float[100,4] w, int64[1] n", "constants": "int64[1] z = {0}"}
    found = drawn("y = Slice(w, z, n)", base=base, weights=({"w": TABLE}, {"w": TABLE}), **io)
    assert [d.feeds["n"].tolist() for d in found if d.label == WHOLE_TABLES] == [[100]]


def test_truths_are_drawn_all_ways():
    base = {"x": X, "c": np.ones((3, 8), bool)}
    found = drawn("n = Neg(x) y = Where(c, x, n)", base=base, inputs="float[N,8] x, bool[N,8] c")
    assert {one.label for one in found} >= {"all True", "all False"}
    assert any(0 < one.feeds["c"].sum() < 24 for one in found)


def test_integers_reach_the_constants_that_they_are_compared_with():
    """A counter of one element has its turn at each of them, and beside it."""
    found = drawn("y = Equal(k, five)", base={"k": np.array(40)}, inputs="int64 k", outputs="bool y",
                  constants="int64 five = {5}")  # fmt: skip
    assert {int(one.feeds["k"]) for one in found if one.label == "values around thresholds"} >= {4, 5, 6}


def test_inputs_that_are_compared_meet():
    found = drawn("y = Max(x, z)", base={"x": X, "z": X + 1}, inputs="float[N,8] x, float[N,8] z")
    assert any((one.feeds["x"] == one.feeds["z"]).mean() > 0.3 and np.ptp(one.feeds["x"]) for one in found)


def test_whole_numbers_stay_of_their_type():
    base = {"x": np.array([[3, -5, 7]])}
    found = drawn("y = Neg(x)", base=base, inputs="int64[N,3] x", outputs="int64[A,B] y")
    values = np.concatenate([d.feeds["x"].reshape(-1) for d in found])
    assert values.dtype == np.int64
    assert {2**63 - 1, -(2**63)} & set(values.tolist())
    ordinary = numbers(found)
    assert (ordinary.min(), ordinary.max()) == (-7, 7)


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_0_and_1(size):
    found = drawn("y = Neg(x)", base={"x": X[:size]})
    assert all(one.feeds["x"].shape == (size, 8) for one in found)
    assert bool(found) is bool(size)


@pytest.mark.parametrize("value", [np.array(["a"], object), [np.zeros(2)], None])
def test_what_is_no_array_of_numbers_is_left_as_it_is(value):
    found = drawn("y = Neg(x)", base={"x": X, "z": value}, free=["x"])
    assert all(one.feeds["z"] is value for one in found)


def test_a_part_that_does_not_run_is_drawn_for_all_the_same():
    def watch(*_):
        raise EngineError("no")

    part = model("a = Neg(x) y = Round(a)", 17, **IO)
    found = list(draw([part, part], {"x": X}, ({}, {}), ["x"], watch, 0))
    assert "random numbers" in [one.label for one in found]
    assert not any("inner" in one.label for one in found)


def test_float16_and_bfloat16():
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16):
        kind = np.dtype(dtype).name
        found = drawn(
            "y = Neg(x)", base={"x": X.astype(dtype)}, inputs=f"{kind}[N,8] x", outputs=f"{kind}[A,B] y", opset=22
        )
        assert {one.feeds["x"].dtype for one in found} == {np.dtype(dtype)}
        assert len(found) > 8


def test_what_is_used_as_a_place():
    io = {"inputs": "float[N,8] x, int64[2] s, int64 k, int64[1] n", "outputs": "y"}
    part = model("t = Add(s, k) r = Reshape(x, t) y = Slice(r, n, s)", 17, **io)
    assert drawing._find_inputs_used_as_places([part]) >= {"t", "s", "k", "n"}
    assert "x" not in drawing._find_inputs_used_as_places([part])
    part = model("h = Shape(x) y = Expand(x, h)", 17, **io)
    assert "x" not in drawing._find_inputs_used_as_places([part]), "its size is asked for, not its numbers"
